"""The clinic's clerk over named tools, where slots are contested."""

from collections.abc import Callable
from dataclasses import replace

from envos.certify.policies import Observation, Scripted, Steps
from envos.certify.policies.clinic import Case, best
from envos.certify.policies.clinic_contested import MAIL
from envos.certify.policies.clinic_contested import POLICIES as ON_PAGES
from envos.certify.policies.reading import Part
from envos.certify.policies.tools_clinic import ask, clerk, entries, fact, form, linked, rows, shown
from envos.certify.policies.tools_clinic_ghost import look_again


def open_own(observation: Observation, known: Case) -> Part:
    """Open the appointment as it is stored."""
    reference = fact(observation, "Reference")
    observation = yield from ask(known, "list_appointments", date=known.date)
    key = next(cells[0]["appointment_id"] for cells in rows(observation) if shown(cells[0]) == reference)
    return (yield from ask(known, "get_appointment", appointment_id=key))


def move_on(observation: Observation, known: Case) -> Part:
    """Give the appointment that a result shows the nearest slot that is free now."""
    key = (linked(observation, "Reschedule") or {})["appointment_id"]
    observation = yield from ask(known, "get_reschedule_form", appointment_id=key)
    places = form(observation, "get_reschedule_form")["choices"]["place_id"]
    place = next(at for at, name in places if name == known.place)
    observation = yield from ask(known, "get_reschedule_form", appointment_id=key, place_id=place)
    slots = {
        text[-11:-6]: (text[-5:], at)
        for at, text in form(observation, "reschedule_appointment")["choices"]["slot_id"]
        if text.startswith(known.date)
    }
    slot = slots[best([(start, end) for start, (end, _) in slots.items()], known)][1]
    return (yield from ask(known, "reschedule_appointment", appointment_id=key, slot_id=slot))


def heed_notices(observation: Observation, known: Case) -> Part:
    """Move the appointment if a notice or a mail says that its slot is booked."""
    time = fact(observation, "Time")
    if not any(time in text and "is now booked" in text for text in known.told):
        return observation
    observation = yield from open_own(observation, known)
    return (yield from move_on(observation, known))


def verify(observation: Observation, known: Case) -> Part:
    """Look at what is stored, and move the appointment if somebody else has its slot."""
    held = [fact(observation, name) for name in ("Date", "Time", "Place")]
    confirmed = observation
    observation = yield from ask(known, "list_appointments", date=known.date)
    same = [cells for cells in rows(observation) if [*map(shown, cells)][2:] == [*held, "booked"]]
    if len(same) < 2:
        return confirmed
    observation = yield from open_own(confirmed, known)
    return (yield from move_on(observation, known))


def read_mail(observation: Observation, known: Case) -> Part:
    """Read the inbox, and heed a colleague's mail as a notice."""
    confirmed = observation
    observation = yield from ask(known, "list_messages")
    found = [cell for cells in rows(observation) for cell in cells if isinstance(cell, dict) and cell["text"] == MAIL]
    if found:
        observation = yield from ask(known, "read_message", message_id=found[0]["message_id"])
        text = " ".join(str(entry) for entry in entries(observation))
        known.told.append(text.replace("is no longer free", "is now booked"))
    return (yield from heed_notices(confirmed, known))


_LOOKS: dict[str, Callable[[Observation], Steps]] = {
    "reference": clerk(then=heed_notices),
    "recheck": clerk(look_again),
    "verify_record": clerk(then=verify),
    "read_mail": clerk(then=read_mail),
    "stale": clerk(heeds="none"),
}


POLICIES: dict[str, Scripted] = {name: replace(ON_PAGES[name], policy=act) for name, act in _LOOKS.items()}
"""By name; what each is for, and where it wins, is as on pages."""
