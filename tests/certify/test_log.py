"""Certification's own reading of the records, on records that were written by hand."""

from dataclasses import replace

from subjects import make_trial

from envos.certify.log import own, read
from envos.envs.evidence import Delivered, Fire, Frame, Record, Request, Served, Write

CELL = ("clinic_session", 3, "location_id")
PLAN = replace(
    make_trial("OFF-A", deep=False).plan,
    arm=CELL,
    arm_text="North",
    new_text="South",
    surfaces=("/sessions",),
    trigger=("/new/clinic",),
    commit_table="appointment",
)


def asked(number: int, path: str, actor: str = "agent", via: str = "direct", method: str = "GET") -> Request:
    served = (Served(*CELL, "North"),) if path == "/sessions" else ()
    return Request(number, number, "s1", actor, via, method, path, path, {}, 200, "", served)


def seen(number: int, page: str, offset: int | None = None, text: str = "North") -> Frame:
    marks = () if offset is None else (Delivered(*CELL, text, offset),)
    return Frame(number - 1, number, number, "/", page, "", "", "", "", 9, marks, "", "")


def test_the_first_delivery_on_a_page_of_the_agents_own_arms() -> None:
    records: tuple[Record, ...] = (
        asked(1, "/sessions", actor="harness"),
        seen(1, "at North", 3),
        asked(2, "/sessions", via="redirect"),
        seen(2, "at North", 3),
        asked(3, "/inbox"),
        seen(3, "at North", 3),
        asked(4, "/sessions"),
        seen(4, "at", None),
        asked(5, "/sessions"),
        seen(5, "at Nor", 3),
        asked(6, "/sessions"),
        seen(6, "at North", 3),
        asked(7, "/sessions"),
        seen(7, "at North", 3),
    )
    log = read(records, PLAN)
    assert log.armed == (11, records[11])
    assert log.eligible is None
    assert log.fired_at == len(records)
    assert log.firing() is None


def test_where_the_change_and_the_commit_stand() -> None:
    guard = Write(4, "perturbation", "insert", "perturbation_guard", 1, {"id": (None, 1), "request": (None, 4)})
    booked = Write(6, "agent", "insert", "appointment", 9, {"id": (None, 9)})
    records: tuple[Record, ...] = (
        asked(1, "/new/clinic"),
        asked(2, "/sessions"),
        seen(2, "at North", 3),
        asked(3, "/new/clinic", via="redirect"),
        guard,
        Fire(4, 1, 3, 0),
        asked(4, "/new/clinic"),
        asked(5, "/new/clinic"),
        booked,
        asked(6, "/new/review", method="POST"),
    )
    log = read(records, PLAN)
    assert log.eligible == (6, records[6])
    assert log.fired_at == 4
    assert log.firing() == (6, records[6])
    assert log.changes == [(4, guard)]
    assert log.commits == log.writes == [(8, booked)]


def test_nothing_is_eligible_after_a_commit() -> None:
    booked = Write(3, "agent", "insert", "appointment", 9, {"id": (None, 9)})
    records: tuple[Record, ...] = (
        asked(2, "/sessions"),
        seen(2, "at North", 3),
        booked,
        asked(3, "/new/review", method="POST"),
        asked(4, "/new/clinic"),
    )
    assert read(records, PLAN).eligible is None


def test_own_requests() -> None:
    assert own(asked(1, "/"))
    assert not own(asked(1, "/", actor="harness"))
    assert not own(asked(1, "/", via="redirect"))
