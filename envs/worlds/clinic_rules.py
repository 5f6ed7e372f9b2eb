"""The rules of the clinic: what the right booking is, decided from rows alone, and how values are worded."""

from collections.abc import Iterable, Mapping
from operator import itemgetter

from sqlalchemy import bindparam, select

from envos.envs.evidence import Scalar, State, TableState
from envos.envs.roles import Commit, Consequence, Continuation
from envos.envs.statements import Statements
from envos.envs.worlds.clinic_tables import clinic_session, location, slot

Row = Mapping[str, Scalar]
_NONE = TableState((), {})

SOURCE = "Check the session record"
"""The review step's link to the session."""
FIELDS = {"location_id": "Place", "parking_id": "Parking", "provider_id": "Provider"}
"""Columns of a session that change, as the history names them."""


def commit(task: Row) -> Commit:
    """The booking: an appointment of the target patient for the target referral, by the wizard."""
    return Commit(
        table="appointment",
        route="/new/review",
        pages=(("place", "/new/clinic"), ("slot", "/new/slot"), ("review", "/new/review")),
        review="/new/review",
        subject={"patient_id": task["patient"], "referral_id": task["referral"]},
        live={"status": "booked"},
        closed={"final": 1},
        consequences=(Consequence("slot", "slot_id", {"status": "booked"}),),
    )


def continuation(task: Row) -> Continuation:
    """After the booking the referral is marked as booked, with the appointment's reference."""
    referral = task["referral"]
    return Continuation(
        table="referral",
        key=referral if isinstance(referral, int) else 0,
        columns={"status": "booked"},
        reference="appointment_reference",
        commit_reference="reference",
    )


def reviewed(params: Mapping[str, str]) -> dict[str, Scalar]:
    """The columns of the booking that a request for the form's review is about; None where a number is none."""
    numbers = {"referral_id": params.get("referral", ""), "slot_id": params.get("slot", "")}
    return {
        name: int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else None
        for name, text in numbers.items()
    }


def answer(state: State, task: Row) -> dict[str, Scalar]:
    """The columns of the right booking, or {} where no slot is compatible.

    The slot is free, at the session's place and on its date, overlaps none of the patient's other booked appointments,
    and is closest in time to the session's start; of two equally close ones, the earlier. Protocol section 3.
    """
    patient = task["patient"]
    held = _row(state, "clinic_session", task["session"])
    if held is None:
        return {}
    place, date, start = held["location_id"], held["date"], minutes(held["start"])
    taken = [
        (since, until)
        for who, day, status, since, until in _columns(
            state, "appointment", "patient_id", "date", "status", "start", "end"
        )
        if who == patient and day == date and status == "booked"
    ]
    fitting = [
        (abs(minutes(begins) - start), str(begins), key, begins, ends)
        for key, where, day, status, begins, ends in _columns(
            state, "slot", "id", "location_id", "date", "status", "start", "end"
        )
        if where == place
        and day == date
        and status == "free"
        and not any(str(begins) < str(until) and str(since) < str(ends) for since, until in taken)
    ]
    if not fitting:
        return {}
    _, _, slot, begins, ends = min(fitting, key=itemgetter(0, 1))
    return {
        "patient_id": patient,
        "location_id": place,
        "slot_id": slot,
        "date": date,
        "start": begins,
        "end": ends,
    }


def minutes(clock: Scalar) -> int:
    """Minutes since midnight of "09:40"; what is no time is far from every time."""
    hours, _, rest = str(clock).partition(":")
    return 60 * int(hours) + int(rest) if hours.isdecimal() and rest.isdecimal() else 1_000_000


def describe(state: State, row: Row) -> dict[str, str]:
    """The report on an appointment: where, when, and its reference."""
    return {
        "location": display(state, "appointment", "location_id", row.get("location_id")),
        "start": f"{row.get('date')} {row.get('start')}",
        "reference": str(row.get("reference")),
    }


def display(state: State, table: str, column: str, value: Scalar) -> str:
    """A stored value as pages show it: a place or a provider by its name, anything else as it is."""
    if column in ("location_id", "parking_id", "provider_id"):
        row = _row(state, "provider" if column == "provider_id" else "location", value)
        return "" if row is None else str(row["name"])
    return "" if value is None else str(value)


def _row(state: State, table: str, key: Scalar) -> Row | None:
    columns, rows = state.get(table, _NONE)
    found = rows.get(key) if isinstance(key, int) else None
    return None if found is None else dict(zip(columns, found, strict=True))


def _columns(state: State, table: str, *names: str) -> Iterable[tuple[Scalar, ...]]:
    """These columns of all rows of a table."""
    columns, rows = state.get(table, _NONE)
    return map(itemgetter(*map(columns.index, names)), rows.values()) if rows else ()


_PLACE = (
    select(clinic_session.c.title, clinic_session.c.date, location.c.name)
    .join(location, location.c.id == clinic_session.c.location_id)
    .where(clinic_session.c.id == bindparam("key"))
)
_PARKING = (
    select(clinic_session.c.title, clinic_session.c.date, location.c.name)
    .join(location, location.c.id == clinic_session.c.parking_id)
    .where(clinic_session.c.id == bindparam("key"))
)


_SLOT = (
    select(location.c.name, slot.c.date, slot.c.start, slot.c.end, slot.c.status)
    .join(location, location.c.id == slot.c.location_id)
    .where(slot.c.id == bindparam("key"))
)


def announce(db: Statements, record: str, record_id: int, field: str) -> str:
    """A notice of what has changed in a session or a slot, worded from its row as it is now."""
    found = None
    if (record, field) == ("slot", "status") and (taken := db.execute(_SLOT, {"key": record_id}).first()):
        place, date, start, end, status = taken
        return f"The slot at {place}, {date}, {start}-{end}, is now {status}."
    if record == "clinic_session" and field in ("location_id", "parking_id"):
        found = db.execute(_PLACE if field == "location_id" else _PARKING, {"key": record_id}).first()
    if found is None:
        return "A record has changed."
    title, date, name = found
    if field == "location_id":
        return f"{title}, {date}: the place is now {name}."
    return f"{title}, {date}: parking is now at {name}."
