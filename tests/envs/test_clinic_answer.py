"""The clinic's one right answer: against another algorithm over many seeds, and on states worked out by hand."""

from collections.abc import Sequence

import pytest
from clinic_desk import by_walking_outwards, draft, moved, records, state

from envos.envs.evidence import Scalar, State, TableState
from envos.envs.streams import SPLITS
from envos.envs.worlds.clinic import WORLD


@pytest.mark.parametrize("split", SPLITS)
def test_the_answer_is_the_one_found_by_walking_outwards(split: str) -> None:
    for found in (draft(seed, split) for seed in range(150)):
        now, task = state(found), dict(found.task)
        assert found.roles.fact
        slots = {slot["id"]: slot for slot in records(found, "slot")}
        for place in (found.roles.fact.value, *dict(found.roles.fact.alternatives)):
            there = moved(now, task["session"], place)
            slot = slots[by_walking_outwards(there, task)]
            assert WORLD.answer(there, task) == {
                "patient_id": task["patient"],
                "location_id": place,
                "slot_id": slot["id"],
                "date": slot["date"],
                "start": slot["start"],
                "end": slot["end"],
            }


def by_hand(slots: Sequence[tuple[Scalar, ...]], appointments: Sequence[tuple[Scalar, ...]] = ()) -> State:
    """Session 1 at place 2, 2026-03-12 from 10:00; slots (place, date, start, end, status); appointments of anyone."""
    return {
        "clinic_session": TableState(
            ("id", "location_id", "date", "start"), {1: (1, 2, "2026-03-12", "10:00"), 9: (9, 3, "2026-03-12", "11:00")}
        ),
        "slot": TableState(
            ("id", "location_id", "date", "start", "end", "status"),
            {key: (key, *slot) for key, slot in enumerate(slots, 1)},
        ),
        "appointment": TableState(
            ("id", "patient_id", "date", "start", "end", "status"),
            {key: (key, *line) for key, line in enumerate(appointments, 1)},
        ),
    }


TASK = {"patient": 5, "session": 1, "referral": 4}
DAY = "2026-03-12"


def test_of_two_equally_close_slots_the_earlier_is_right() -> None:
    now = by_hand([(2, DAY, "10:15", "10:45", "free"), (2, DAY, "09:45", "10:15", "free")])
    assert WORLD.answer(now, TASK) == {
        "patient_id": 5,
        "location_id": 2,
        "slot_id": 2,
        "date": DAY,
        "start": "09:45",
        "end": "10:15",
    }


def test_a_slot_that_overlaps_another_appointment_is_not_right() -> None:
    # 10:10 overlaps 10:00-10:30; 10:30 only touches it and is 30 minutes away; 09:20 is 40 minutes away.
    slots = [(2, DAY, "09:20", "09:50", "free"), (2, DAY, "10:10", "10:40", "free"), (2, DAY, "10:30", "11:00", "free")]
    taken = (5, DAY, "10:00", "10:30", "booked")
    assert WORLD.answer(by_hand(slots, [taken]), TASK)["slot_id"] == 3
    # It is no matter when it is cancelled, another patient's, or on another date.
    for line in (
        (5, DAY, "10:00", "10:30", "cancelled"),
        (6, DAY, "10:00", "10:30", "booked"),
        (5, "2026-03-13", "10:00", "10:30", "booked"),
    ):
        assert WORLD.answer(by_hand(slots, [line]), TASK)["slot_id"] == 2


def test_other_dates_other_places_and_booked_slots_are_not_right() -> None:
    slots = [
        (2, "2026-03-13", "10:00", "10:30", "free"),
        (2, "2026-03-11", "10:00", "10:30", "free"),
        (3, DAY, "10:00", "10:30", "free"),
        (2, DAY, "10:00", "10:30", "booked"),
        (2, DAY, "11:30", "12:00", "free"),
        (2, DAY, "08:20", "08:50", "free"),
    ]
    assert WORLD.answer(by_hand(slots), TASK)["slot_id"] == 5
    assert WORLD.answer(by_hand(slots[:4]), TASK) == {}


def test_odd_states_have_no_answer_and_raise_nothing() -> None:
    free = (2, DAY, "10:00", "10:30", "free")
    assert WORLD.answer(by_hand([free]), {**TASK, "session": 77}) == {}
    assert WORLD.answer({}, TASK) == {}
    odd = by_hand([(2, DAY, None, None, "free"), (2, DAY, "later", "", "free"), (None, None, 1, 2, "free"), free])
    assert WORLD.answer(odd, TASK)["slot_id"] == 4
    held = by_hand([free], [(5, DAY, None, None, "booked")])
    assert WORLD.answer(held, TASK)["slot_id"] == 1


def test_a_report_says_what_is_stored() -> None:
    found = draft(1, "train")
    now = state(found)
    line = records(found, "appointment")[0]
    name = next(row["name"] for row in records(found, "location") if row["id"] == line["location_id"])
    assert WORLD.describe(now, line) == {
        "location": name,
        "start": f"{line['date']} {line['start']}",
        "reference": line["reference"],
    }
    assert set(WORLD.describe(now, line)) == set(WORLD.report)


def test_stored_values_are_worded_as_pages_show_them() -> None:
    found = draft(2, "validation")
    now = state(found)
    first = records(found, "location")[0]
    assert WORLD.display(now, "clinic_session", "location_id", first["id"]) == first["name"]
    assert WORLD.display(now, "clinic_session", "parking_id", first["id"]) == first["name"]
    assert WORLD.display(now, "clinic_session", "provider_id", 1) == records(found, "provider")[0]["name"]
    assert WORLD.display(now, "clinic_session", "location_id", 99) == ""
    assert WORLD.display(now, "clinic_session", "location_id", None) == ""
    assert WORLD.display(now, "slot", "start", "09:40") == "09:40"
    assert WORLD.display(now, "referral", "appointment_reference", None) == ""
