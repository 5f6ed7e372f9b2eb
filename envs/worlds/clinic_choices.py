"""What can become of the slot that a booking asks for: somebody else takes it, or another one is stored.

Both begin with the right slot, which is worked out from the rows with the rules of the clinic.
"""

from collections.abc import Mapping, Sequence

from envos.envs.evidence import Scalar, State, TableState
from envos.envs.roles import Coercion, Resource, Row
from envos.envs.worlds.clinic_rules import Row as Record
from envos.envs.worlds.clinic_rules import answer
from envos.envs.worlds.clinic_tables import METADATA
from envos.envs.worlds.clinic_words import given_away

_REVIEW = ("/new/review",)
_COLUMNS = {name: tuple(column.name for column in table.columns) for name, table in METADATA.tables.items()}

Rows = Mapping[str, Sequence[Row]]


def resource(rows: Rows, task: Record) -> Resource:
    """The nearest compatible slot, which a colleague may give to another patient, and slots that decide nothing.

    Those are free, on the session's date, and neither the nearest compatible slot nor the next nearest: at the
    session's place where there are such slots, else elsewhere.
    """
    best, following = _best(rows, task)
    slots = {key: slot for key, slot in _records(rows, "slot").items() if slot["status"] == "free"}
    wanted = slots[best]
    same = [key for key, slot in slots.items() if slot["date"] == wanted["date"] and key not in (best, following)]
    near = [key for key in same if slots[key]["location_id"] == wanted["location_id"]]

    def rival(key: int, draw: float) -> Record:
        return {
            "reference": _next_reference(rows),
            "patient_id": _person(rows, task, slots[key], draw)["id"],
            **_held(slots[key]),
            "purpose": rows["appointment"][0][_COLUMNS["appointment"].index("purpose")],
            "status": "booked",
            "referral_id": None,
            "form_key": "",
            "final": 0,
        }

    def letter(key: int, draw: float) -> Record:
        staff, slot = rows["provider"], slots[key]
        place = next(str(row[1]) for row in rows["location"] if row[0] == slot["location_id"])
        subject, body = given_away(str(_person(rows, task, slot, draw)["name"]), place, slot)
        return {"sender": staff[int(draw * len(staff))][1], "subject": subject, "body": body, "read": 0}

    return Resource("slot", "status", "free", "booked", "free", best, tuple(near or same), _REVIEW, rival, letter)


def coercion(rows: Rows, task: Record) -> Coercion:
    """The nearest compatible slot, instead of which the portal may store the next nearest."""
    best, other = _best(rows, task)
    slots = _records(rows, "slot")
    chosen, stored = _held(slots[best]), _held(slots[other])
    return Coercion(
        arm=("slot", best, "status"),
        text="free",
        surfaces=_REVIEW,
        offered=("/new/slot",),
        made={
            # The form numbers its bookings so.
            "id": max((int(str(row[0])) for row in rows["appointment"]), default=0) + 1,
            "patient_id": task["patient"],
            "referral_id": task["referral"],
            "slot_id": best,
        },
        columns={name: (chosen[name], stored[name]) for name in ("slot_id", "start", "end")},
        following=(("slot", best, "status", "booked", "free"), ("slot", other, "status", "free", "booked")),
        reviewed={"referral_id": task["referral"], "slot_id": best},
        carried=(int(str(task["referral"])), best, other),
        closing={"final": (0, 1)},
    )


def _records(rows: Rows, table: str) -> dict[int, Record]:
    return {int(str(row[0])): dict(zip(_COLUMNS[table], row, strict=True)) for row in rows[table]}


def _best(rows: Rows, task: Record) -> tuple[int, int]:
    """The ids of the nearest compatible slot and of the next nearest."""
    state: State = {
        name: TableState(_COLUMNS[name], {int(str(row[0])): row for row in rows[name]})
        for name in ("clinic_session", "appointment", "slot")
    }
    best = int(str(answer(state, task)["slot_id"]))
    columns, left = state["slot"]
    # Every place has two compatible slots at least (`clinic_rows`).
    following = answer({**state, "slot": TableState(columns, {key: left[key] for key in left if key != best})}, task)
    return best, int(str(following["slot_id"]))


def _person(rows: Rows, task: Record, slot: Record, draw: float) -> Record:
    """Another patient, who has no appointment at that time."""
    busy = {
        row["patient_id"]
        for row in _records(rows, "appointment").values()
        if row["date"] == slot["date"] and str(row["start"]) < str(slot["end"]) and str(slot["start"]) < str(row["end"])
    }
    people = [row for row in _records(rows, "patient").values() if row["id"] not in (*busy, task["patient"])]
    return people[int(draw * len(people))]


def _held(slot: Record) -> dict[str, Scalar]:
    """The columns of an appointment in a slot."""
    return {"slot_id": slot["id"], **{name: slot[name] for name in ("location_id", "date", "start", "end")}}


def _next_reference(rows: Rows) -> str:
    last = max(int(str(row[1]).rpartition("-")[2]) for row in rows["appointment"])
    return f"AP-{last + 1}"
