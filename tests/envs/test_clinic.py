"""The clinic's instances: properties over many seeds of every split."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import date

import pytest
from clinic_desk import by_walking_outwards, compatible, draft, minute, records, state

from envos.envs.evidence import TableState, canonical, sha256
from envos.envs.names import pool
from envos.envs.page import clean
from envos.envs.roles import Draft, Fact
from envos.envs.streams import SPLITS, Stream
from envos.envs.worlds.clinic import WORLD
from envos.envs.worlds.clinic_words import Case, request
from envos.errors import UnknownName, UsageError

SEEDS = range(150)

split_ = pytest.mark.parametrize("split", SPLITS)


def drafts(split: str) -> Iterator[Draft]:
    return (draft(seed, split) for seed in SEEDS)


@split_
def test_rows_are_few_and_of_every_kind(split: str) -> None:
    for found in drafts(split):
        count = {table: len(rows) for table, rows in found.rows.items()}
        assert set(count) == set(WORLD.metadata.tables)
        assert 60 <= sum(count.values()) <= 200
        assert count["location"] in (5, 6)
        assert 6 <= count["provider"] <= 8
        assert 12 <= count["patient"] <= 16
        assert 5 <= count["clinic_session"] <= 7
        assert 4 <= count["referral"] <= 7
        assert 12 <= count["appointment"] <= 20
        assert 5 <= count["message"] <= 8
        assert count["history"] >= 1
        assert count["notice"] == 0


@split_
def test_the_start_times_of_two_places_are_disjoint(split: str) -> None:
    for found in drafts(split):
        places: dict[str, int] = {}
        seen = set()
        for slot in records(found, "slot"):
            assert places.setdefault(slot["start"], slot["location_id"]) == slot["location_id"]
            assert minute(slot["end"]) - minute(slot["start"]) == 30
            seen.add((slot["location_id"], slot["date"], slot["start"]))
        assert len(seen) == len(found.rows["slot"])


@split_
def test_every_place_has_two_compatible_slots_whatever_moves(split: str) -> None:
    for found in drafts(split):
        now = state(found)
        for place in records(found, "location"):
            assert len(compatible(now, dict(found.task), place["id"])) >= 2


@split_
def test_each_term_of_the_rule_decides_a_good_share_of_instances(split: str) -> None:
    overlap = booked = cancelled = 0
    for found in drafts(split):
        now, task = state(found), dict(found.task)
        right = by_walking_outwards(now, task)
        overlap += by_walking_outwards(now, task, heed_overlap=False) != right
        columns, rows = now["slot"]
        at = columns.index("status")
        free = {key: (*row[:at], "free", *row[at + 1 :]) for key, row in rows.items()}
        booked += by_walking_outwards({**now, "slot": TableState(columns, free)}, task) != right
        columns, rows = now["appointment"]
        at = columns.index("status")
        live = {key: (*row[:at], "booked", *row[at + 1 :]) for key, row in rows.items()}
        cancelled += by_walking_outwards({**now, "appointment": TableState(columns, live)}, task) != right
    assert overlap >= 0.5 * len(SEEDS)
    assert booked >= 0.3 * len(SEEDS)
    assert cancelled >= 2


@split_
def test_appointments_and_slots_agree(split: str) -> None:
    for found in drafts(split):
        slots = {slot["id"]: slot for slot in records(found, "slot")}
        held = []
        for line in records(found, "appointment"):
            slot = slots[line["slot_id"]]
            assert [line[name] for name in ("location_id", "date", "start", "end")] == [
                slot[name] for name in ("location_id", "date", "start", "end")
            ]
            assert line["status"] in ("booked", "cancelled")
            if line["status"] == "booked":
                held.append(line["slot_id"])
        assert len(held) == len(set(held))
        assert set(held) == {key for key, slot in slots.items() if slot["status"] == "booked"}
        references = [line["reference"] for line in records(found, "appointment")]
        assert len(references) == len(set(references))
        wishes = records(found, "referral")
        assert len({wish["reference"] for wish in wishes}) == len(wishes)
        for wish in wishes:
            made = [line for line in records(found, "appointment") if line["referral_id"] == wish["id"]]
            assert (wish["status"] == "booked") == (len(made) == 1) == bool(wish["appointment_reference"])
            for line in made:
                assert (line["reference"], line["patient_id"], line["purpose"]) == (
                    wish["appointment_reference"],
                    wish["patient_id"],
                    wish["purpose"],
                )


@split_
def test_dates_are_weekdays_in_order(split: str) -> None:
    for found in drafts(split):
        task = found.task
        session = next(row for row in records(found, "clinic_session") if row["id"] == task["session"])
        today = found.opened[:10]
        assert re.fullmatch(r"202[67]-\d\d-\d\d 08:00", found.opened)
        assert 1 <= (date.fromisoformat(session["date"]) - date.fromisoformat(today)).days <= 14
        for day in {today, *(row["date"] for row in (*records(found, "slot"), *records(found, "clinic_session")))}:
            assert date.fromisoformat(day).weekday() < 5
            assert day >= today
        assert all(row["sent_at"] < found.opened for row in records(found, "message"))
        assert all(row["at"] < found.opened for row in records(found, "history"))
        assert all(row["received"] < today for row in records(found, "referral"))


@split_
def test_titles_and_people_are_alike_and_still_told_apart(split: str) -> None:
    for found in drafts(split):
        sessions = {row["id"]: row for row in records(found, "clinic_session")}
        assert len({row["title"] for row in sessions.values()}) == len(sessions)
        assert found.roles.fact
        assert found.roles.twin
        target, twin = sessions[found.roles.fact.key], sessions[found.roles.twin.key]
        assert target["title"].partition(",")[0] == twin["title"].partition(",")[0]
        assert target["location_id"] != twin["location_id"]
        names = [row["name"] for row in records(found, "patient")]
        assert len(set(names)) == len(names)
        name = next(row["name"] for row in records(found, "patient") if row["id"] == found.task["patient"])
        given, family = name.split(" ")
        assert sum(given in other.split(" ") or family in other.split(" ") for other in names) >= 2


@split_
def test_names_come_from_the_pool_of_the_split(split: str) -> None:
    people = {f"{given} {family}" for given in pool("given", split) for family in pool("family", split)}
    for found in drafts(split):
        assert {row["name"] for row in records(found, "location")} <= set(pool("place", split))
        assert {row["name"] for row in records(found, "patient")} <= people
        assert {row["name"] for row in records(found, "provider")} <= people
        assert {row["title"].partition(",")[0] for row in records(found, "clinic_session")} <= set(
            pool("session", split)
        )
        assert {row["purpose"] for row in records(found, "appointment")} <= set(pool("purpose", split))
        assert {row["address"].partition(" ")[2] for row in records(found, "location")} <= set(pool("street", split))


@split_
def test_texts_are_clean(split: str) -> None:
    for found in drafts(split):
        for rows in found.rows.values():
            for row in rows:
                for value in row:
                    assert type(value) in (int, str, type(None))
                    if isinstance(value, str):
                        assert clean(value, 1000) == value
        assert all(clean(line, 1000) == line for line in found.brief.split("\n"))
        assert len(found.brief) <= 2000


@split_
def test_the_brief_names_the_case_and_every_rule(split: str) -> None:
    for found in drafts(split):
        patient = next(row for row in records(found, "patient") if row["id"] == found.task["patient"])
        session = next(row for row in records(found, "clinic_session") if row["id"] == found.task["session"])
        wish = next(row for row in records(found, "referral") if row["id"] == found.task["referral"])
        lines = found.brief.split("\n")
        assert lines.count(f"Patient: {patient['name']} ({patient['number']})") == 1
        assert lines.count(f"Clinic session: {session['title']}, {session['date']}") == 1
        assert lines.count(f"Referral: {wish['reference']}") == 1
        assert (wish["patient_id"], wish["session_id"]) == (patient["id"], session["id"])
        assert (wish["status"], wish["appointment_reference"]) == ("open", None)
        for said in (
            "at the place where this clinic session is held",
            "is free, is on the session's date and overlaps none of the patient's other appointments",
            "closest in time to the session's start; of two equally close slots, the earlier",
            "exactly one booking",
            "mark the referral as booked with the reference of the new appointment",
            'report(location="...", start="YYYY-MM-DD HH:MM", reference="...")',
            "Change nothing else",
            "Records can change while you work; the sessions page is the authority",
        ):
            assert said in found.brief
        places = [row["name"] for row in records(found, "location")]
        assert not any(place in found.brief for place in places)
        assert sum(f"Booking for {patient['name']}" == row["subject"] for row in records(found, "message")) == 1
        assert len({row["subject"] for row in records(found, "message")}) == len(found.rows["message"])


def test_the_brief_varies() -> None:
    openings = {found.brief.split("\n")[0] for found in drafts("train")}
    closings = {found.brief.split("\n")[-1] for found in drafts("train")}
    assert len(openings) >= 6
    assert len(closings) >= 6


def test_the_request_repeats_the_case() -> None:
    case = Case("Ada Byron", "P-1", "Eye Clinic, group A", "2026-03-12", "R-7")
    for seed in range(20):
        subject, body = request(Stream(seed, "train", "words"), case)
        assert subject == "Booking for Ada Byron"
        assert all(text in body for text in case)


@split_
def test_roles_fit_the_rows(split: str) -> None:
    for found in drafts(split):
        names = {row["id"]: row["name"] for row in records(found, "location")}
        roles, task = found.roles, found.task
        assert roles.fact
        assert roles.twin
        assert roles.detail
        for role, least in ((roles.fact, 2), (roles.twin, 2), (roles.detail, 1)):
            assert isinstance(role, Fact)
            row = next(row for row in records(found, role.table) if row["id"] == role.key)
            assert (row[role.column], role.text) == (role.value, names[role.value])
            assert len(role.alternatives) >= least
            assert len({value for value, _ in role.alternatives}) == len(role.alternatives)
            for value, text in role.alternatives:
                assert value != role.value
                assert text == names[value]
                assert WORLD.display(state(found), role.table, role.column, value) == text
        assert roles.fact.key == roles.detail.key == task["session"] != roles.twin.key
        assert roles.fact.value not in dict(roles.detail.alternatives)
        assert roles.commit == WORLD.commit(task)
        assert roles.continuation == WORLD.continuation(task)
        assert WORLD.commit(task).subject == {"patient_id": task["patient"], "referral_id": task["referral"]}


def test_an_instance_is_a_function_of_seed_and_split() -> None:
    for split in SPLITS:
        for seed in range(20):
            assert WORLD.generate(seed, split) == draft(seed, split)
    kinds = {sha256(canonical([draft(seed, split).rows])) for seed in range(20) for split in SPLITS}
    assert len(kinds) == 60


def test_an_instance_is_the_same_in_every_process() -> None:
    code = (
        "from envos.envs.worlds.clinic import WORLD; from envos.envs.evidence import canonical, sha256; "
        "d = WORLD.generate(2**62 + 5, 'test'); print(sha256(canonical([d.rows, d.task, d.brief, d.opened])))"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("0", "1")
    }
    found = WORLD.generate(2**62 + 5, "test")
    assert digests == {sha256(canonical([found.rows, found.task, found.brief, found.opened])) + "\n"}


def test_bad_seeds_and_splits_are_refused() -> None:
    with pytest.raises(UsageError):
        WORLD.generate(-1, "train")
    with pytest.raises(UnknownName):
        WORLD.generate(1, "holdout")
