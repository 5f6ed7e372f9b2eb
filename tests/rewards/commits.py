"""The tiny world's bookings under the two phenomena that are about the commit itself.

Slot 2 is the right one; the next best is slot 6. Contested: Bob gets slot 2 (in C: slot 4). Ghost: slot 6 is stored.
"""

from typing import Any

from tape import Tape

from envos.envs.evidence import Scalar
from envos.envs.perturbation import AFTER, NEUTRAL_INSERT, NEUTRAL_UPDATE, NEXT, Operation

START = {2: "2026-03-12 09:10", 4: "2026-03-12 09:15", 6: "2026-03-12 09:30"}
MADE: dict[str, Scalar] = {"id": 2, "person_id": 1, "slot_id": 2}


def _insert(table: str, **columns: Scalar) -> Operation:
    return Operation("insert", table, 0, {name: (None, value) for name, value in columns.items()})


def taken(slot: int, holds: int = 0, told: bool = False) -> tuple[Operation, ...]:
    """Somebody else takes a slot; `holds` is the slot that the other booking names, where it is not that one."""
    place = 2 if slot == 4 else 1
    other: dict[str, Scalar] = {
        "person_id": 2,
        "place_id": place,
        "slot_id": holds or slot,
        "start": START[slot],
        "status": "booked",
    }
    notice: dict[str, Scalar] = {"record": "slot", "record_id": slot, "field": "status", "visible_from": NEXT}
    return (
        Operation("update", "slot", slot, {"status": ("free", "booked")}),
        _insert("booking", reference="B-2", **other),
        _insert("notice", **notice, acknowledged=0) if told else NEUTRAL_INSERT,
    )


def contested(condition: str = "OFF-A", **changes: Any) -> Tape:
    """An episode in which slot 2 is contested."""
    told = condition in ("C", "L2")
    operations = {
        "L0": (NEUTRAL_UPDATE, NEUTRAL_INSERT, NEUTRAL_INSERT),
        "C": taken(4, told=True),
    }.get(condition, taken(2, told=told))
    plan: dict[str, Any] = {
        "phenomenon": "contested",
        "arm": ("slot", 2, "status"),
        "arm_text": "free",
        "new_text": "free" if condition in ("L0", "C") else "booked",
        "surfaces": ("/new/review",),
        "operations": operations,
        "watched": (("slot", 2, "status"), ("slot", 4, "status")),
        "posts": ("/new/review",),
    }
    return Tape(condition, **{**plan, **changes})


def stored(status: tuple[str, str], slot: int = 6) -> tuple[Operation, ...]:
    """The booking is stored with this slot; `status` are those that slot 2 and slot 6 have then."""
    return (
        Operation("update", "booking", 2, {"slot_id": (2, slot), "start": (START[2], START[slot])}),
        Operation("update", "slot", 2, {"status": ("booked", status[0])}),
        Operation("update", "slot", 6, {"status": ("free", status[1])}),
    )


def ghost(condition: str = "OFF-A", **changes: Any) -> Tape:
    """An episode in which the booking of slot 2 is stored as one of slot 6."""
    operations = {
        "L0": (NEUTRAL_UPDATE, NEUTRAL_UPDATE, NEUTRAL_UPDATE),
        "C": stored(("booked", "free"), 2),
        "OFF-A": stored(("free", "booked")),
    }[condition]
    plan: dict[str, Any] = {
        "phenomenon": "ghost",
        "arm": ("slot", 2, "status"),
        "arm_text": "free",
        "new_text": "free",
        "surfaces": ("/new/review",),
        "trigger": (),
        "operations": operations,
        "announced": False,
        "watched": (("slot", 2, "status"),),
        "posts": ("/new/review",),
        "phase": AFTER,
        "when": MADE,
    }
    return Tape(condition, **{**plan, **changes})


def plain(tape: Tape, key: int = 0) -> Tape:
    """Close the ticket with Ada's booking (the latest one, where no key says which), and report it."""
    names, rows = tape.running.state["booking"]
    key = key or max(at for at, row in rows.items() if row[names.index("person_id")] == 1)
    row = tape.now("booking", key)
    place = {1: "North", 2: "South", 3: "East"}[int(str(row["place_id"]))]
    reference = str(row["reference"])
    return tape.done(reference).report(place=place, start=str(row["start"]), reference=reference)
