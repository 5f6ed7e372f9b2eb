"""The clinic: sessions at several places, referrals that ask for an appointment, and a form that books it.

The task: book a patient at the place where a clinic session is held, in the nearest compatible slot, mark the referral,
report. Paper tables 2 and 3; protocol section 3.
"""

from envos.envs.app import Routes
from envos.envs.apps import mail, notices
from envos.envs.roles import World
from envos.envs.worlds import (
    clinic_appointments,
    clinic_booking,
    clinic_pages,
    clinic_records,
    clinic_rows,
    clinic_rules,
    clinic_tools,
)
from envos.envs.worlds.clinic_tables import METADATA, message, notice

ROUTES = Routes()
for _part in (clinic_pages, clinic_records, clinic_appointments, clinic_booking):
    ROUTES.handlers.update(_part.ROUTES.handlers)
mail.mount(ROUTES, message)
notices.mount(ROUTES, notice)

REFUSALS = {
    "slot_taken": (409, "This slot is not free. Choose another one."),
    "final": (409, "This appointment is final: it can be neither rescheduled nor cancelled."),
    "already_cancelled": (409, "This appointment is cancelled."),
    "no_such_appointment": (422, "There is no appointment with that reference."),
    "no_change": (422, "Nothing was changed: choose another place or another parking."),
    "bad_phone": (422, f"A phone number has at least one digit and at most {clinic_records.PHONE_LIMIT} characters."),
}

WORLD = World(
    name="clinic",
    title="Clinic portal",
    metadata=METADATA,
    routes=ROUTES,
    navigation=clinic_pages.NAVIGATION,
    home="/",
    report={"location": "text", "start": "datetime", "reference": "id"},
    refusals=REFUSALS,
    generate=clinic_rows.generate,
    commit=clinic_rules.commit,
    continuation=clinic_rules.continuation,
    announce=clinic_rules.announce,
    answer=clinic_rules.answer,
    describe=clinic_rules.describe,
    display=clinic_rules.display,
    reminder=clinic_rules.SOURCE,
    reviewed=clinic_rules.reviewed,
    disclosures={"chosen": "start"},
    labels={"location": ("Place",), "start": ("Date", "Time"), "reference": ("Reference",)},
    tools=(*clinic_tools.TOOLS, *mail.TOOLS, *notices.TOOLS),
)
