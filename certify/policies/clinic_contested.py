"""Scripted policies of the clinic whose slots are contested: who looks again before or after booking, and who does not.

All of them read the place and the patient's appointments, and choose the nearest slot.
"""

from envos.certify.policies import Observation, Scripted
from envos.certify.policies.clinic import REPORT, Case, best, settle
from envos.certify.policies.clinic_slots import (
    book_again,
    clashes,
    clerk,
    commit_twice,
    look_again,
    move,
    own_record,
)
from envos.certify.policies.common import shortcuts
from envos.certify.policies.reading import Part, element, follow, has, line, rows
from envos.envs.action import click

MAIL = "Slot given away"


def heed_notices(observation: Observation, known: Case) -> Part:
    """Move the appointment if a notice says that its slot is booked."""
    return (yield from _heed(observation, known, line(observation, "Time")))


def heed_any_notice(observation: Observation, known: Case) -> Part:
    """Move the appointment if a notice says that any slot is booked."""
    return (yield from _heed(observation, known, ""))


def _heed(observation: Observation, known: Case, time: str) -> Part:
    if not any(time in text and "is now booked" in text for text in known.told):
        return observation
    observation = yield from own_record(observation, known)
    return (yield from move(observation, known))


def verify(observation: Observation, known: Case) -> Part:
    """Look at what is stored, and move the appointment if somebody else has its slot."""
    observation = yield from clashes(observation, known)
    return (yield from move(observation, known)) if known.moved else observation


def verify_and_rebook(observation: Observation, known: Case) -> Part:
    """Look at what is stored; cancel and book again if somebody else has the slot."""
    observation = yield from clashes(observation, known)
    return (yield from book_again(observation, known)) if known.moved else observation


def read_mail(observation: Observation, known: Case) -> Part:
    """Read the inbox, and move the appointment if a colleague writes that its slot is gone; heeds notices as well."""
    reference, time = line(observation, "Reference"), line(observation, "Time")
    observation = yield from follow(observation, "Inbox")
    observation = yield from settle(observation, known)
    if has(observation, "link", MAIL):
        observation = yield from follow(observation, MAIL)
        known.told.append(observation["page"].replace("is no longer free", "is now booked"))
    observation = yield from follow(observation, "Appointments")
    observation = yield from follow(observation, reference)
    return (yield from _heed(observation, known, time))


def guess_second(observation: Observation, known: Case) -> Part:
    """Go back and take the second nearest slot, whatever the first one's status is."""
    first = line(observation, "Time")[:5]
    observation = yield from follow(observation, "Choose another slot")
    observation = yield from settle(observation, known)
    free = [(row[1], row[2]) for row in rows(observation) if row[0] == known.date and row[3:] == ["free"]]
    second = best([slot for slot in free if slot[0] != first], known)
    observation = yield click(element(observation, "link", second))
    return (yield from settle(observation, known))


_TAKEN = ("OFF-A", "MAIL-A")
_UNTOUCHED = frozenset({"L0", "C"})
_ALL = _UNTOUCHED | {"L2", *_TAKEN}
_STALE = dict.fromkeys(_TAKEN, ("stale_commit", 1))

_LINES = (
    Scripted(
        "reference",
        clerk(then=heed_notices),
        "books the slot that was free when it looked, and heeds notices about it",
        _UNTOUCHED | {"L2"},
        _STALE,
    ),
    Scripted("recheck", clerk(look_again), "goes back to the slots at the review step, and takes the next best", _ALL),
    Scripted("verify_record", clerk(then=verify), "looks for a clash after the booking, and reschedules", _ALL),
    Scripted(
        "read_mail",
        clerk(then=read_mail),
        "reads the inbox after the booking, and heeds mail and notices",
        _UNTOUCHED | {"L2", "MAIL-A"},
        {"OFF-A": ("stale_commit", 1)},
    ),
    Scripted(
        "stale",
        clerk(),
        "books the slot that was free when it looked, and dismisses every notice",
        _UNTOUCHED,
        {**_STALE, "L2": ("update_neglected", 1)},
    ),
    Scripted(
        "over_apply",
        clerk(then=heed_any_notice),
        "reschedules for any notice",
        frozenset({"L0", "L2"}),
        {**_STALE, "C": ("over_applied", 1)},
    ),
    Scripted(
        "rebook",
        clerk(then=verify_and_rebook),
        "looks for a clash after the booking, cancels and books again",
        _UNTOUCHED,
        dict.fromkeys(("L2", *_TAKEN), ("delete_and_recreate", 1)),
    ),
    Scripted(
        "guess_second",
        clerk(guess_second),
        "reviews the nearest slot and books the second nearest, unseen",
        frozenset({"L2", *_TAKEN}),
        {"L0": ("wrong_commit", 1), "C": ("over_applied", 1)},
    ),
    Scripted("commit_twice", commit_twice, "books a second time", shortcut=True),
)
POLICIES = {line.name: line for line in _LINES} | shortcuts(REPORT)
