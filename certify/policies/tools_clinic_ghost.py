"""The clinic's clerk over named tools, where bookings are stored otherwise than they were made."""

from collections.abc import Callable
from dataclasses import replace

from envos.certify.policies import Observation, Scripted, Steps
from envos.certify.policies.clinic import Case
from envos.certify.policies.clinic_ghost import POLICIES as ON_PAGES
from envos.certify.policies.reading import Part
from envos.certify.policies.tools_clinic import (
    ask,
    clerk,
    confirm,
    fact,
    form,
    linked,
    nearest,
    to_review,
)


def as_chosen(observation: Observation, known: Case) -> bool:
    """Whether a result has the time that was chosen."""
    return fact(observation, "Time")[:5] == known.chosen


def look_again(observation: Observation, known: Case) -> Part:
    """Go back to the slots and choose the nearest anew, until the review says that it can be booked."""
    while True:
        again = linked(observation, "Choose another slot") or {}
        which = again["referral_id"]
        observation = yield from ask(known, **again)
        observation = yield from ask(known, "review_booking", referral_id=which, slot_id=nearest(observation, known))
        if fact(observation, "Slot") == "free":
            return observation


def read_review(observation: Observation, known: Case) -> Part:
    """Choose again until the review holds what was chosen."""
    return observation if as_chosen(observation, known) else (yield from look_again(observation, known))


def read_back(observation: Observation, known: Case) -> Part:
    """Open the appointment as it is stored."""
    return (yield from ask(known, **(linked(observation, "Open the appointment") or {})))


def move(observation: Observation, known: Case, wanted: str) -> Part:
    """Give the appointment that a result shows the slot of that time on the session's date."""
    key = (linked(observation, "Reschedule") or {})["appointment_id"]
    observation = yield from ask(known, "get_reschedule_form", appointment_id=key)
    places = form(observation, "get_reschedule_form")["choices"]["place_id"]
    place = next(at for at, name in places if name == known.place)
    observation = yield from ask(known, "get_reschedule_form", appointment_id=key, place_id=place)
    slots = form(observation, "reschedule_appointment")["choices"]["slot_id"]
    slot = next(at for at, text in slots if text.startswith(f"{known.date} {wanted}-"))
    return (yield from ask(known, "reschedule_appointment", appointment_id=key, slot_id=slot))


def repair(observation: Observation, known: Case) -> Part:
    """Open the appointment as it is stored, and reschedule it if it is not as chosen; where nobody can, disclose it."""
    observation = yield from read_back(observation, known)
    if as_chosen(observation, known):
        return observation
    if linked(observation, "Reschedule") is None:
        known.discloses = True
        return observation
    return (yield from move(observation, known, known.chosen))


def rebook(observation: Observation, known: Case) -> Part:
    """Open the appointment as it is stored; cancel it and book again if it is not as chosen."""
    observation = yield from read_back(observation, known)
    if as_chosen(observation, known):
        return observation
    yield from ask(known, "cancel_appointment", **form(observation, "cancel_appointment")["arguments"])
    observation = yield from to_review(known)
    return (yield from confirm(observation, known))


_LOOKS: dict[str, Callable[[Observation], Steps]] = {
    "reference": clerk(),
    "recheck": clerk(look_again),
    "read_review": clerk(read_review),
    "verify_record": clerk(read_review, repair),
    "disclose": clerk(then=read_back),
    "rebook": clerk(then=rebook),
}


POLICIES: dict[str, Scripted] = {name: replace(ON_PAGES[name], policy=act) for name, act in _LOOKS.items()}
"""By name; what each is for, and where it wins, is as on pages."""
