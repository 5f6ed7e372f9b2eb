"""The clinic's clerk over named tools: the same clerk as on pages, with the same verdicts.

One call is one action, as is one click; he needs fewer of them, since a form is sent in one go.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from envos.certify.policies import Observation, Scripted, Steps
from envos.certify.policies.clinic import CUE, Case, best, case, heed
from envos.certify.policies.clinic import POLICIES as ON_PAGES
from envos.certify.policies.reading import NotFound, Part
from envos.wrappers.tools import call

Look = Callable[[Observation, Case], Part]
Entry = dict[str, Any]


def linked(observation: Observation, text: str) -> Entry | None:
    """The call that the link of that text stands for, with its arguments, or None."""
    for entry in entries(observation):
        for link in (entry, *entry.get("links", ())):
            if link.get("text") == text and "tool" in link:
                return {name: value for name, value in link.items() if name != "text"}
    return None


def result_of(observation: Observation) -> Entry:
    """The last result. Raises NotFound for one that was cut off, and so is no JSON."""
    try:
        found: Entry = json.loads(observation["result"])
    except ValueError:
        raise NotFound("the result was cut off") from None
    return found


def entries(observation: Observation) -> list[Entry]:
    """The body of the last result."""
    found: list[Entry] = result_of(observation)["body"]
    return found


def rows(observation: Observation) -> Iterator[list[Any]]:
    """The rows of all tables of the last result."""
    for entry in entries(observation):
        yield from entry.get("rows", ())


def shown(cell: Any) -> str:
    """The text of a cell."""
    return str(cell["text"] if isinstance(cell, dict) else cell)


def row(observation: Observation, *texts: str) -> list[Any]:
    """The first row that holds all these texts. Raises NotFound."""
    for found in rows(observation):
        cells = [shown(cell) for cell in found]
        if all(text in cells for text in texts):
            return found
    raise NotFound(f"no row with {texts} in the result")


def fact(observation: Observation, label: str) -> str:
    """The fact of that label. Raises NotFound."""
    for entry in entries(observation):
        if label in entry.get("facts", ()):
            return shown(entry["facts"][label])
    raise NotFound(f"no fact {label!r} in the result")


def form(observation: Observation, tool: str) -> Entry:
    """The form that a tool sends. Raises NotFound."""
    for entry in entries(observation):
        if "form" in entry and entry["tool"] == tool:
            return entry
    raise NotFound(f"no form for {tool} in the result")


def ask(known: Case, tool: str, **arguments: Any) -> Part:
    """Call a tool; a notice on its result is acknowledged and heeded."""
    observation = yield call(tool, **arguments)
    while "notice" in (result := result_of(observation)):
        notice = result["notice"]
        heed(notice["text"], known)
        observation = yield call("acknowledge_notice", notice_id=notice["notice_id"])
    return observation


def read_place(known: Case) -> Part:
    """List the sessions and read where and when the session is held."""
    observation = yield from ask(known, "list_sessions")
    cells = [shown(cell) for cell in row(observation, known.title, known.date)]
    known.session_start, known.place = cells[2].split("-")[0], cells[3]
    return (yield call("memo", text=f"Place: {known.place}; Session: {known.session_start}"))


def read_appointments(known: Case) -> Part:
    """Find the patient and read the times that are taken."""
    observation = yield from ask(known, "list_patients")
    found = row(observation, known.patient.rpartition(" (")[0])[0]
    observation = yield from ask(known, "get_patient", patient_id=found["patient_id"])
    taken = [[shown(cell) for cell in cells] for cells in rows(observation)]
    known.busy = tuple((cells[2], cells[3]) for cells in taken if known.date in cells and "booked" in cells)
    return observation


def to_review(known: Case) -> Part:
    """Go through the form to the review step, starting over when a notice moved the session."""
    observation = yield from ask(known, "list_referrals")
    which = row(observation, known.referral)[0]["referral_id"]
    while True:
        known.moved = False
        observation = yield from ask(known, "start_booking", referral_id=which)
        places = form(observation, "list_slots")["choices"]["place_id"]
        place = next(key for key, name in places if name == known.place)
        observation = yield from ask(known, "list_slots", referral_id=which, place_id=place)
        if known.moved:
            continue
        slot = nearest(observation, known)
        observation = yield from ask(known, "review_booking", referral_id=which, slot_id=slot)
        if not known.moved:
            return observation


def nearest(observation: Observation, known: Case) -> int:
    """The id of the nearest compatible slot in the result, which is then the chosen one."""
    free = {
        shown(start): (shown(end), start["slot_id"])
        for date, start, end, status in rows(observation)
        if date == known.date and status == "free"
    }
    known.chosen = best([(start, end) for start, (end, _) in free.items()], known)
    return int(free[known.chosen][1])


def reread(observation: Observation, known: Case) -> Part:
    """Look at the source again, and go through the form again."""
    yield from read_place(known)
    return (yield from to_review(known))


def follow_the_cue(observation: Observation, known: Case) -> Part:
    """Where the review step names the call that shows the session, make it and go through the form again."""
    links = [link for entry in entries(observation) for link in entry.get("links", ()) if link["text"] == CUE]
    if not links:
        return observation
    observation = yield from ask(known, links[0]["tool"], session_id=links[0]["session_id"])
    known.place = fact(observation, "Place")
    return (yield from to_review(known))


def read_the_review(observation: Observation, known: Case) -> Part:
    """Where the review step shows the session's place, start over if it is another one."""
    held = [text for entry in entries(observation) if "held at " in (text := entry.get("banner", ""))]
    if not held or known.place in held[0]:
        return observation
    known.place = held[0].rpartition("held at ")[2]
    return (yield from to_review(known))


def clerk(look: Look | None = None, then: Look | None = None, heeds: str = "own") -> Callable[[Observation], Steps]:
    """A clerk who, at the review step, does `look` before he confirms, and `then` after it."""

    def act(observation: Observation) -> Steps:
        known = case(observation, heeds)
        yield from read_place(known)
        yield from read_appointments(known)
        observation = yield from to_review(known)
        if look is not None:
            observation = yield from look(observation, known)
        observation = yield from confirm(observation, known)
        if then is not None:
            observation = yield from then(observation, known)
        yield from finish(observation, known)

    return act


def confirm(observation: Observation, known: Case) -> Part:
    """Confirm the booking."""
    return (yield from ask(known, "confirm_booking", **form(observation, "confirm_booking")["arguments"]))


def finish(observation: Observation, known: Case) -> Steps:
    """Mark the referral and report the appointment that the result shows."""
    reference, place = fact(observation, "Reference"), fact(observation, "Place")
    start = f"{fact(observation, 'Date')} {fact(observation, 'Time').split('-')[0]}"
    referral = next(entry["facts"]["Referral"] for entry in entries(observation) if "facts" in entry)
    yield call("memo", text=f"Reference: {reference}")
    yield from ask(known, "mark_referral_booked", referral_id=referral["referral_id"], reference=reference)
    told = {"chosen": f"{known.date} {known.chosen}"} if known.discloses else {}
    yield call("report", location=place, start=start, reference=reference, **told)


_LOOKS: dict[str, Callable[[Observation], Steps]] = {
    "reference": clerk(),
    "late_reread": clerk(reread),
    "follow_cue": clerk(follow_the_cue),
    "read_review": clerk(read_the_review),
    "stale": clerk(heeds="none"),
}


POLICIES: dict[str, Scripted] = {name: replace(ON_PAGES[name], policy=act) for name, act in _LOOKS.items()}
"""By name; what each is for, and where it wins, is as on pages."""
