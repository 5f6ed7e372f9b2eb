"""What a clerk of the clinic can do about the slot of a booking: look again, read back what is stored, and amend it."""

from collections.abc import Callable

from envos.certify.policies import Observation, Steps
from envos.certify.policies.clinic import Case, best, case, confirm, finish, nearest, prepare, settle, to_review
from envos.certify.policies.reading import (
    Part,
    choose,
    element,
    elements,
    follow,
    has,
    line,
    press,
    rows,
    select,
)
from envos.envs.action import click

Look = Callable[[Observation, Case], Part]


def clerk(look: Look | None = None, then: Look | None = None, heeds: str = "own") -> Callable[[Observation], Steps]:
    """A clerk who does `look` at the review step before he confirms, and `then` after it."""

    def act(observation: Observation) -> Steps:
        known = case(observation, heeds)
        observation = yield from prepare(observation, known)
        if look is not None:
            observation = yield from look(observation, known)
        observation = yield from confirm(observation, known)
        if then is not None:
            observation = yield from then(observation, known)
        yield from finish(observation, known)

    return act


def look_again(observation: Observation, known: Case) -> Part:
    """Go back to the slots and choose the nearest anew, until the review says that it is free."""
    while True:
        observation = yield from follow(observation, "Choose another slot")
        observation = yield from settle(observation, known)
        known.chosen = nearest(observation, known)
        observation = yield click(element(observation, "link", known.chosen))
        observation = yield from settle(observation, known)
        if has(observation, "button", "Confirm booking"):
            return observation


def own_record(observation: Observation, known: Case) -> Part:
    """Open the appointment as it is stored."""
    reference = line(observation, "Reference")
    observation = yield from follow(observation, "Appointments")
    observation = yield from settle(observation, known)
    return (yield from follow(observation, reference))


def move(observation: Observation, known: Case, wanted: str = "") -> Part:
    """From the appointment's page, give it another slot of that date: the one that begins then, or the nearest."""
    place = line(observation, "Place")
    observation = yield from follow(observation, "Reschedule")
    observation = yield from select(observation, "Place", place)
    observation = yield from press(observation, "Show slots")
    slots = [seen.label for seen in elements(observation) if seen.role == "radio"]
    here = [(label[-11:-6], label[-5:]) for label in slots if label.startswith(known.date)]
    start = wanted or best(here, known)
    observation = yield from choose(
        observation, next((label for label in slots if f"{known.date} {start}-" in label), start)
    )
    return (yield from press(observation, "Reschedule appointment"))


def book_again(observation: Observation, known: Case) -> Part:
    """From the appointment's page, cancel it and book anew."""
    observation = yield from press(observation, "Cancel appointment")
    observation = yield from to_review(observation, known)
    return (yield from confirm(observation, known))


def clashes(observation: Observation, known: Case) -> Part:
    """Look up whether the appointment's slot has another appointment in it; ends on the appointment's page."""
    reference = line(observation, "Reference")
    slot = (line(observation, "Date"), line(observation, "Time"), line(observation, "Place"))
    observation = yield from follow(observation, "Appointments")
    observation = yield from settle(observation, known)
    held = [cells for cells in rows(observation) if tuple(cells[2:5]) == slot and cells[-1] == "booked"]
    known.moved = len(held) > 1
    return (yield from follow(observation, reference))


def commit_twice(observation: Observation) -> Steps:
    """A careful clerk who books a second time, to be sure."""
    known = case(observation)
    observation = yield from prepare(observation, known)
    observation = yield from look_again(observation, known)
    observation = yield from confirm(observation, known)
    known.busy = (*known.busy, (line(observation, "Time")[:5], line(observation, "Time")[-5:]))
    observation = yield from to_review(observation, known)
    observation = yield from confirm(observation, known)
    yield from finish(observation, known)
