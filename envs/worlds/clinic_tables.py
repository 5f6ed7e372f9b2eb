"""The tables of the clinic.

Dates are "2026-03-12", times "09:40"; a column `at`, `sent_at` or the like holds both.
"""

from sqlalchemy import Column, ForeignKey, Integer, MetaData, String, Table

from envos.envs.apps import drafts, mail, notices

METADATA = MetaData()


def _key() -> Column[int]:
    return Column("id", Integer, primary_key=True)


def _text(name: str) -> Column[str]:
    return Column(name, String, nullable=False)


def _of(name: str, table: str, nullable: bool = False) -> Column[int]:
    return Column(name, ForeignKey(f"{table}.id"), nullable=nullable)


location = Table("location", METADATA, _key(), _text("name"), _text("address"), _text("phone"))

provider = Table("provider", METADATA, _key(), _text("name"), _text("role"))

patient = Table("patient", METADATA, _key(), _text("name"), _text("born"), _text("number"), _text("phone"))

clinic_session = Table(
    "clinic_session",
    METADATA,
    _key(),
    _text("title"),
    _of("provider_id", "provider"),
    _text("date"),
    _text("start"),
    _text("end"),
    _of("location_id", "location"),
    _of("parking_id", "location"),
)
"""The fact of this world is `location_id`: where a session is held."""

slot = Table(
    "slot",
    METADATA,
    _key(),
    _of("location_id", "location"),
    _text("date"),
    _text("start"),
    _text("end"),
    _text("status"),
)
"""A time at a place, free or booked."""

referral = Table(
    "referral",
    METADATA,
    _key(),
    _text("reference"),
    _of("patient_id", "patient"),
    _of("session_id", "clinic_session"),
    _text("purpose"),
    _text("received"),
    _text("status"),
    Column("appointment_reference", String),
)
"""A wish for an appointment: open, booked or declined."""

appointment = Table(
    "appointment",
    METADATA,
    _key(),
    _text("reference"),
    _of("patient_id", "patient"),
    _of("location_id", "location"),
    _of("slot_id", "slot"),
    _text("date"),
    _text("start"),
    _text("end"),
    _text("purpose"),
    _text("status"),
    _of("referral_id", "referral", nullable=True),
    _text("form_key"),
    Column("final", Integer, nullable=False),
)
"""booked or cancelled; `form_key` tells a form that is sent again from a new one; a final one (1) cannot be changed."""

carried = drafts.table(METADATA)

message = mail.table(METADATA)
notice, history = notices.tables(METADATA)
