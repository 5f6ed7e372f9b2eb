"""A tiny world of three or four rows a table.

Event 1, the Fair, is held at North (place 1). The right booking is the free slot with the lowest number at the
place where the Fair is held: slot 2 at North, slot 3 at South, slot 5 at East. The change moves it to South; the
irrelevant changes move event 2, the Fete, or the Fair's parking, to East.
"""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Column, Integer, MetaData, String, Table

from envos.envs.app import Routes
from envos.envs.evidence import (
    Scalar,
    State,
    TableState,
)
from envos.envs.perturbation import NEUTRAL_INSERT, NEUTRAL_UPDATE, NEXT, NOW, Operation, Plan
from envos.envs.roles import Commit, Consequence, Continuation, World
from envos.rewards.statediff import record

TABLES: dict[str, tuple[str, ...]] = {
    "place": ("id", "name"),
    "event": ("id", "title", "place_id", "parking_id"),
    "slot": ("id", "place_id", "start", "status"),
    "person": ("id", "name", "phone", "seen"),
    "booking": ("id", "reference", "person_id", "place_id", "slot_id", "start", "status"),
    "ticket": ("id", "person_id", "status", "booking_reference"),
    "visit": ("id", "path"),
    "notice": ("id", "record", "record_id", "field", "visible_from", "acknowledged"),
    "history": ("id", "record", "record_id", "field", "old", "new", "at", "by"),
}
EVALUATOR = {"perturbation_guard": ("id", "request"), "neutral": ("id", "value")}
VOLATILE = {("person", "seen"), ("notice", "acknowledged"), ("visit", "")}

ROWS: dict[str, tuple[tuple[Scalar, ...], ...]] = {
    "place": ((1, "North"), (2, "South"), (3, "East")),
    "event": ((1, "Fair", 1, 2), (2, "Fete", 2, 1)),
    "slot": (
        (1, 1, "2026-03-12 09:00", "booked"),
        (2, 1, "2026-03-12 09:10", "free"),
        (3, 2, "2026-03-12 09:05", "free"),
        (4, 2, "2026-03-12 09:15", "free"),
        (5, 3, "2026-03-12 09:20", "free"),
        (6, 1, "2026-03-12 09:30", "free"),
    ),
    "person": ((1, "Ada", "555-1", 0), (2, "Bob", "555-2", 0)),
    "booking": ((1, "B-1", 2, 1, 1, "2026-03-12 09:00", "booked"),),
    "ticket": ((1, 1, "open", ""), (2, 2, "open", "")),
    "neutral": ((1, "-"),),
}
TASK = {"person": 1, "event": 1, "ticket": 1}
PLACES = {1: "North", 2: "South", 3: "East"}
CHANGES = {
    "L0": None,
    "C": ("event", 1, "parking_id", 2, 3),
    "L2": ("event", 1, "place_id", 1, 2),
    "OFF-A": ("event", 1, "place_id", 1, 2),
    "CUE-A": ("event", 1, "place_id", 1, 2),
    "LIVE-A": ("event", 1, "place_id", 1, 2),
    "OFF-I": ("event", 2, "place_id", 2, 3),
    "LIVE-I": ("event", 2, "place_id", 2, 3),
}
REVIEW = {"CUE-A": "link", "LIVE-A": "value", "LIVE-I": "value"}
REMINDER = 'See the "Fair"'


def _metadata() -> MetaData:
    metadata = MetaData()
    for name, columns in TABLES.items():
        Table(
            name,
            metadata,
            Column("id", Integer, primary_key=True),
            *(Column(item, String, info={"volatile": (name, item) in VOLATILE}) for item in columns[1:]),
            info={"volatile": (name, "") in VOLATILE},
        )
    return metadata


def answer(state: State, task: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """The free slot with the lowest number at the event's place."""
    place = state["event"].rows[int(str(task["event"]))][2]
    for key, (_, where, start, status) in sorted(state["slot"].rows.items()):
        if where == place and status == "free":
            return {"person_id": task["person"], "place_id": place, "slot_id": key, "start": start}
    return {}


def describe(state: State, row: Mapping[str, Scalar]) -> dict[str, str]:
    """What a booking is reported as."""
    place = record(state, "place", int(str(row["place_id"]))) or {}
    return {
        "place": str(place["name"]),
        "start": str(row["start"]),
        "reference": str(row["reference"]),
    }


def display(state: State, table: str, column: str, value: Scalar) -> str:
    """A place by its name, a status as it is."""
    return str(value) if column == "status" else str((record(state, "place", int(str(value))) or {}).get("name"))


def make_world(**changes: Any) -> World:
    """The tiny world; `changes` replace fields of it."""
    fields: dict[str, Any] = {
        "name": "tiny",
        "title": "Tiny",
        "metadata": METADATA,
        "routes": Routes(),
        "navigation": (),
        "home": "/",
        "report": {"place": "text", "start": "datetime", "reference": "id"},
        "refusals": {},
        "generate": lambda seed, split: None,
        "commit": lambda task: Commit(
            "booking",
            "/new/review",
            (("place", "/new/place"), ("review", "/new/review")),
            "/new/review",
            {"person_id": task["person"]},
            {"status": "booked"},
            (Consequence("slot", "slot_id", {"status": "booked"}),),
        ),
        "continuation": lambda task: Continuation(
            "ticket", int(task["ticket"]), {"status": "done"}, "booking_reference", "reference"
        ),
        "announce": lambda db, table, key, column: "",
        "answer": answer,
        "describe": describe,
        "display": display,
        "reminder": REMINDER,
    }
    return World(**{**fields, **changes})


METADATA = _metadata()
WORLD = make_world()


def first_state() -> State:
    """The state before every episode."""
    columns = {**TABLES, **EVALUATOR}
    return {
        name: TableState(names, {int(str(row[0])): row for row in ROWS.get(name, ())})
        for name, names in columns.items()
    }


def make_plan(condition: str, **changes: Any) -> Plan:
    """The plan of a condition: armed by North on /events, fires on the form's pages, three operations."""
    moved = CHANGES[condition]
    announced = condition in ("C", "L2")
    operations: tuple[Operation, ...] = (NEUTRAL_UPDATE, NEUTRAL_INSERT, NEUTRAL_INSERT)
    if moved:
        table, key, column, old, new = moved
        row = {"record": (None, table), "record_id": (None, key), "field": (None, column)}
        history = {"old": (None, PLACES[old]), "new": (None, PLACES[new]), "at": (None, NOW), "by": (None, "X")}
        notice = {**row, "visible_from": (None, NEXT), "acknowledged": (None, 0)}
        operations = (
            Operation("update", table, key, {column: (old, new)}),
            Operation("insert", "history", 0, {**row, **history}),
            Operation("insert", "notice", 0, notice) if announced else NEUTRAL_INSERT,
        )
    fields: dict[str, Any] = {
        "world": "tiny",
        "phenomenon": "stale",
        "condition": condition,
        "anchor": "first",
        "budget": 20,
        "untriggered": "uncounted",
        "opened": "2026-03-02 08:00",
        "task": TASK,
        "arm": ("event", 1, "place_id"),
        "arm_text": "North",
        "new_text": "South" if moved and moved[:3] == ("event", 1, "place_id") else "North",
        "surfaces": ("/events",),
        "trigger": ("/new/place", "/new/review"),
        "operations": operations,
        "announced": announced,
        "review": REVIEW.get(condition, "nothing"),
        "review_route": "/new/review",
        "commit_table": "booking",
        "watched": (("event", 1, "place_id"), ("event", 2, "place_id"), ("event", 1, "parking_id")),
    }
    return Plan(**{**fields, **changes})
