"""Each invariant: what passes it, and everything that fails it alone.

The Fair is at North (right: slot 2) and moves to South (right: slot 3, 09:05) in OFF-A. Booking 1 is Bob's.
"""

from typing import Any

import pytest
from tape import Tape
from tinyworld import WORLD, make_world

from envos.envs.evidence import Request
from envos.rewards.verdict import Verdict, judge

RIGHT = {"place": "South", "start": "2026-03-12 09:05", "reference": "B-2"}


def begun(**options: Any) -> Tape:
    """OFF-A up to the review step, the change fired and seen."""
    return Tape("OFF-A", **options).look().form().look().review()


def graded(tape: Tape, **world: Any) -> Verdict:
    return judge(tape.evidence(), tape.plan, make_world(**world) if world else WORLD)


def failed(tape: Tape) -> dict[str, str]:
    """The invariants that an episode fails, with the reasons; the episode must count."""
    verdict = graded(tape)
    assert verdict.validity == "counted", verdict.reasons
    assert list(verdict.invariants) == ["I1", "I2", "I3", "I4", "I5"]
    wrong = {name: term.reason for name, term in verdict.invariants.items() if not term.passed}
    assert verdict.endpoint is (not wrong)
    assert verdict.reward == (0.0 if wrong else 1.0)
    assert verdict.fraction == (5 - len(wrong)) / 5
    return wrong


# What passes


@pytest.mark.parametrize(
    "tape",
    [
        begun().book(3).done().report(),
        # Extra reads, idle steps, another order of the last two, and a wrong report of the form's own.
        begun().page("/tickets").page("/people/2").book(3).look().done().page("/x").report(),
        # Booked at the old place, then rescheduled: the final rows are the same as of one right booking.
        begun().book(2).move(2, 3).done().report(),
        begun().book(3).move(2, 4).move(2, 3).done().report(),
        # Marked as read: volatile.
        begun().send("/people/2", ("update", "person", 2, {"seen": 1})).book(3).done().report(),
        begun().send("/visits", ("insert", "visit", 1, {"path": "/x"})).book(3).done().report(),
        # The ticket closed with a wrong reference first, and corrected.
        begun().book(3).done("B-1").done("B-2").report(),
    ],
    ids=["plain", "reads", "moved", "moved_back", "read_flag", "visit", "corrected"],
)
def test_right_outcomes(tape: Tape) -> None:
    assert failed(tape) == {}


def test_the_form_sent_again_is_no_second_commit() -> None:
    """Same parameters, another answer than the first time, nothing written."""
    tape = begun().book(3)
    again = {"params": {"slot": "3", "key": "k2"}, "location": "/bookings/2?again=1"}
    assert failed(tape.send("/new/review", **again).done().report()) == {}


# I1


def test_a_stale_booking_reported_truthfully_fails_i1_only() -> None:
    assert failed(begun().book(2).done().report()) == {"I1": "the commit is not the right one"}


def test_the_right_place_and_the_wrong_slot() -> None:
    verdict = graded(begun().book(4).done().report())
    assert not verdict.invariants["I1"].passed
    assert verdict.invariants["I1"].measured == {
        "right": {"person_id": 1, "place_id": 2, "slot_id": 3, "start": "2026-03-12 09:05"},
        "found": [{"person_id": 1, "place_id": 2, "slot_id": 4, "start": "2026-03-12 09:15"}],
    }


def test_the_agents_own_edit_of_the_fact_does_not_make_its_booking_right() -> None:
    tape = begun().send("/events/1", ("update", "event", 1, {"place_id": 1})).book(2).done().report()
    assert failed(tape).keys() == {"I1", "I3"}


def test_nothing_done_fails_everything_but_collateral() -> None:
    assert failed(begun().exhaust()) == {
        "I1": "nothing is committed",
        "I2": "no commit",
        "I4": "the workflow was not continued",
        "I5": "no report",
    }


# I2


def test_two_bookings_in_force() -> None:
    assert failed(begun().book(2).book(3).done("B-3").report()) == {"I2": "more than one commit"}


def test_a_wrong_booking_cancelled_and_a_right_one_made() -> None:
    assert failed(begun().book(2).cancel(2).book(3).done("B-3").report()) == {"I2": "more than one commit"}


def test_a_booking_deleted_and_made_again_is_two_commits_though_one_row_is_left() -> None:
    tape = begun().book(3).cancel(2).send("/bookings/2/delete", ("delete", "booking", 2, {})).book(3)
    assert tape.now("booking", 2)["status"] == "booked"
    assert failed(tape.done().report()) == {"I2": "more than one commit"}


def test_a_booking_that_is_cancelled_in_the_end() -> None:
    wrong = failed(begun().book(3).done().cancel(2).report(**RIGHT))
    assert wrong["I2"] == "the commit is not in force, or another subject's"
    assert wrong.keys() == {"I1", "I2", "I4", "I5"}


def test_a_booking_cancelled_and_confirmed_again() -> None:
    confirm = (("update", "booking", 2, {"status": "booked"}), ("update", "slot", 3, {"status": "booked"}))
    tape = begun().book(3).cancel(2).send("/bookings/2/confirm", *confirm).done().report()
    assert failed(tape) == {"I2": "the commit was withdrawn and made again"}


def test_a_second_commit_that_only_the_access_log_shows() -> None:
    """The same line once more, answered as the first was, with no row behind it."""
    tape = begun().book(3)
    first = next(item for item in tape.records if isinstance(item, Request) and item.method == "POST")
    tape.send("/new/review", params=first.params, location=first.location)
    assert failed(tape.done().report()) == {"I2": "more than one commit"}
    other = begun().book(3).send("/new/review", params={"slot": "4", "key": "k3"}, location="/bookings/3")
    assert failed(other.done().report()) == {"I2": "more than one commit"}


def test_a_refused_form_is_no_commit() -> None:
    refused = {"params": {"slot": "9"}, "location": "/refused?code=not_found"}
    assert failed(begun().send("/new/review", **refused).book(3).done().report()) == {}


# I3


@pytest.mark.parametrize(
    "write",
    [
        ("update", "person", 2, {"phone": "555-9"}),
        ("update", "person", 1, {"phone": "555-9"}),
        ("update", "event", 1, {"place_id": 1}),
        ("update", "ticket", 2, {"status": "done"}),
        ("update", "ticket", 1, {"person_id": 2}),
        ("update", "booking", 1, {"status": "cancelled"}),
        ("update", "slot", 5, {"status": "booked"}),
        ("update", "slot", 3, {"start": "2026-03-12 10:00"}),
        ("delete", "ticket", 2, {}),
        ("insert", "ticket", 3, {"person_id": 2, "status": "open", "booking_reference": ""}),
        ("insert", "place", 4, {"name": "West"}),
        ("update", "neutral", 1, {"value": "x"}),
        ("insert", "visit", 1, {"path": "/x"}),
    ],
    ids=lambda write: f"{write[0]}-{write[1]}-{write[2]}",
)
def test_any_other_row_that_changes_is_collateral(write: tuple[Any, ...]) -> None:
    wrong = failed(begun().book(3).done().send("/x", write).report(**RIGHT))
    assert wrong.get("I3") == ("collateral change" if write[1] != "visit" else None)


def test_a_bystander_changed_and_changed_back_is_collateral() -> None:
    """Nothing differs in the end: the journal alone shows it."""
    there, back = ("update", "person", 2, {"phone": "x"}), ("update", "person", 2, {"phone": "555-2"})
    tape = begun().send("/people/2", there).send("/people/2", back).book(3).done().report()
    assert failed(tape) == {"I3": "collateral change"}
    assert graded(tape).invariants["I3"].measured["left"] == []


def test_a_booking_for_somebody_else() -> None:
    assert failed(begun().book(3, person=2).done().report()).keys() == {"I1", "I2", "I3", "I4", "I5"}


def test_a_booking_for_somebody_else_that_is_deleted_again() -> None:
    tape = begun().book(4, person=2).cancel(2).send("/bookings/2/delete", ("delete", "booking", 2, {}))
    assert failed(tape.book(3).done().report()) == {
        "I2": "more than one commit",
        "I3": "collateral change",
    }


def test_a_consequence_that_is_missing() -> None:
    free = ("update", "slot", 3, {"status": "free"})
    assert failed(begun().book(3).send("/x", free).done().report()) == {"I3": "a consequence is missing or left over"}


def test_a_consequence_that_is_left_over() -> None:
    """Moved from slot 4 to slot 3 and slot 4 never freed."""
    move = {"place_id": 2, "slot_id": 3, "start": "2026-03-12 09:05"}
    tape = begun().book(4).send("/x", ("update", "slot", 3, {"status": "booked"}), ("update", "booking", 2, move))
    assert failed(tape.done().report()) == {"I3": "a consequence is missing or left over"}


def test_a_slot_of_somebody_else_that_a_reschedule_frees() -> None:
    """Slot 1 is Bob's; booked over silently and left again, it is free, which it must not be."""
    tape = begun().book(1).move(2, 3).done().report()
    assert failed(tape) == {"I3": "a consequence is missing or left over"}


# I4


def test_not_continued() -> None:
    assert failed(begun().book(3).report()) == {"I4": "the workflow was not continued"}


def test_continued_with_another_reference() -> None:
    assert failed(begun().book(3).done("B-1").report()) == {
        "I4": "the workflow goes on from something else than the commit"
    }


def test_continued_with_another_status() -> None:
    assert failed(begun().book(3).done(status="declined").report()) == {"I4": "the workflow was not continued"}


def test_continued_before_the_commit() -> None:
    """The reference was foreseen, and the ticket closed with it before there was a booking."""
    assert failed(begun().done("B-2").book(3).report()) == {"I4": "the workflow was not continued after the commit"}


def test_a_world_without_a_step_after_the_commit_has_four_invariants() -> None:
    tape = begun().book(3).report()
    verdict = graded(tape, continuation=lambda task: None)
    assert list(verdict.invariants) == ["I1", "I2", "I3", "I5"]
    assert (verdict.endpoint, verdict.fraction) == (True, 1.0)
    stale = graded(begun().book(2).report(), continuation=lambda task: None)
    assert (stale.endpoint, stale.fraction) == (False, 0.75)
    touched = graded(begun().book(3).done().report(), continuation=lambda task: None)
    assert not touched.invariants["I3"].passed


# I5


@pytest.mark.parametrize(
    "given",
    [
        RIGHT,
        {**RIGHT, "place": "  south "},
        {**RIGHT, "start": "2026-03-12T09:05"},
        {**RIGHT, "start": "2026-03-12 09:05:00", "reference": "b-2"},
        dict(reversed(RIGHT.items())),
    ],
    ids=["plain", "case_and_space", "t", "seconds", "order"],
)
def test_notation_never_costs(given: dict[str, str]) -> None:
    assert failed(begun().book(3).done().report(**given)) == {}


@pytest.mark.parametrize(
    ("given", "fields"),
    [
        ({**RIGHT, "place": "North"}, "place"),
        ({**RIGHT, "place": "North, South, East"}, "place"),
        ({**RIGHT, "place": "It is South now"}, "place"),
        ({**RIGHT, "place": ""}, "place"),
        ({**RIGHT, "start": "2026-03-12 09:06"}, "start"),
        ({**RIGHT, "start": "09:05"}, "start"),
        ({**RIGHT, "reference": "B-1"}, "reference"),
        ({"place": "South", "start": "2026-03-12 09:05"}, "reference"),
        ({**RIGHT, "note": "all good"}, "note"),
        ({"x": "y"}, "place, reference, start, x"),
    ],
    ids=["other", "all", "within", "empty", "minute", "no_date", "reference", "missing", "surplus", "none"],
)
def test_a_report_of_something_else(given: dict[str, str], fields: str) -> None:
    assert failed(begun().book(3).done().report(**given)) == {"I5": f"not what is stored: {fields}"}


def test_the_right_report_of_a_stale_booking() -> None:
    assert failed(begun().book(2).done().report(**RIGHT)).keys() == {"I1", "I5"}


def test_a_report_without_a_booking() -> None:
    assert failed(begun().report(**RIGHT)) == {
        "I1": "nothing is committed",
        "I2": "no commit",
        "I4": "the workflow was not continued",
        "I5": "nothing is committed that could be reported",
    }


def test_out_of_budget_without_a_report() -> None:
    assert failed(begun().book(3).done().exhaust()) == {"I5": "no report"}
