"""Scripted policies of the clinic: one careful clerk, and the ways in which he may fall short.

All of them read the place once, book, mark the referral and report. They differ in whether they look again before they
confirm, and in what they do with a notice.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from envos.certify.policies import Observation, Scripted, Steps
from envos.certify.policies.common import shortcuts
from envos.certify.policies.reading import (
    NotFound,
    Part,
    after,
    choose,
    element,
    elements,
    follow,
    has,
    line,
    note,
    press,
    row,
    rows,
    write,
)
from envos.envs.action import click, report

REPORT = ("location", "start", "reference")
CUE = "Check the session record"


@dataclass(slots=True)
class Case:
    """What the clerk knows: the brief, and what he has read so far."""

    patient: str
    title: str
    date: str
    referral: str
    place: str = ""
    session_start: str = ""
    busy: tuple[tuple[str, str], ...] = ()
    heeds: str = "own"  # own: notices about the session's place; all: any notice; none
    moved: bool = False
    chosen: str = ""
    discloses: bool = False  # adds to the report what was chosen
    told: list[str] = field(default_factory=list)


def case(observation: Observation, heeds: str = "own") -> Case:
    """Read the brief."""
    goal = observation["goal"]
    title, _, date = after(goal, "Clinic session").rpartition(", ")
    return Case(after(goal, "Patient"), title, date, after(goal, "Referral"), heeds=heeds)


def settle(observation: Observation, known: Case) -> Part:
    """Acknowledge a notice, and heed it."""
    while observation["notice"]:
        heed(observation["notice"], known)
        observation = yield from press(observation, "Acknowledge")
    return observation


def heed(text: str, known: Case) -> None:
    """Take what a notice says as the clerk's habit is, and remember it."""
    known.told.append(text)
    named = text.rstrip(".").rpartition(" now ")[2].removeprefix("at ").removeprefix("is ").removeprefix("at ")
    own = known.title in text and known.date in text and "the place is now" in text
    if known.heeds == "all" or (known.heeds == "own" and own):
        known.moved = known.moved or known.place != named
        known.place = named


def read_place(observation: Observation, known: Case) -> Part:
    """Open the sessions page and read where and when the session is held."""
    observation = yield from follow(observation, "Sessions")
    observation = yield from settle(observation, known)
    found = row(observation, known.title, known.date)
    known.session_start = found[2].split(" ")[0].split("-")[0]
    known.moved = known.moved or (known.place not in ("", found[3]))
    known.place = found[3]
    return (yield from note(f"Place: {known.place}; Session: {known.session_start}"))


def read_appointments(observation: Observation, known: Case) -> Part:
    """Open the patient's page and read the times that are taken."""
    observation = yield from follow(observation, "Patients")
    observation = yield from settle(observation, known)
    observation = yield from follow(observation, known.patient.rpartition(" (")[0])
    known.busy = tuple((cells[2], cells[3]) for cells in rows(observation) if known.date in cells and "booked" in cells)
    return observation


def to_review(observation: Observation, known: Case) -> Part:
    """Go through the wizard to the review step, starting over when a notice moved the session."""
    while True:
        known.moved = False
        observation = yield from follow(observation, "Referrals")
        observation = yield from settle(observation, known)
        observation = yield from follow(observation, known.referral)
        observation = yield from settle(observation, known)
        observation = yield from follow(observation, "Book appointment")
        observation = yield from settle(observation, known)
        observation = yield from choose(observation, known.place)
        observation = yield from press(observation, "Continue")
        observation = yield from settle(observation, known)
        if known.moved:
            continue
        known.chosen = nearest(observation, known)
        observation = yield click(element(observation, "link", known.chosen))
        observation = yield from settle(observation, known)
        if not known.moved:
            return observation


def nearest(observation: Observation, known: Case) -> str:
    """The label of the nearest compatible slot on the page."""
    free = [
        (cells[1], cells[2])
        for cells in rows(observation)
        if cells[0] == known.date and len(cells) >= 4 and cells[3] == "free"
    ]
    return best(free, known)


def best(free: list[tuple[str, str]], known: Case) -> str:
    """The start of the nearest of these slots that overlaps nothing. Raises NotFound."""
    fitting = [
        (start, end) for start, end in free if all(end <= taken or start >= until for taken, until in known.busy)
    ]
    if not fitting:
        raise NotFound(f"no compatible slot among {len(free)}")
    return min(fitting, key=lambda slot: (abs(minutes(slot[0]) - minutes(known.session_start)), slot[0]))[0]


def minutes(clock: str) -> int:
    """Minutes since midnight of "09:40"."""
    hours, _, rest = clock.partition(":")
    return 60 * int(hours) + int(rest)


def confirm(observation: Observation, known: Case) -> Part:
    """Confirm the booking and keep its reference."""
    observation = yield from press(observation, "Confirm booking")
    observation = yield from settle(observation, known)
    return (yield from note(f"Reference: {line(observation, 'Reference')}"))


def finish(observation: Observation, known: Case, place: str = "") -> Steps:
    """Mark the referral and report what is booked."""
    reference, booked = line(observation, "Reference"), line(observation, "Place")
    start = f"{line(observation, 'Date')} {line(observation, 'Time').split('-')[0].split(' ')[0]}"
    observation = yield from follow(observation, "Referrals")
    observation = yield from settle(observation, known)
    observation = yield from follow(observation, known.referral)
    observation = yield from write(observation, "Appointment reference", reference)
    observation = yield from press(observation, "Mark as booked")
    observation = yield from settle(observation, known)
    told = {"chosen": f"{known.date} {known.chosen}"} if known.discloses else {}
    yield report(location=place or booked, start=start, reference=reference, **told)


Look = Callable[[Observation, Case], Part]


def reread(observation: Observation, known: Case) -> Part:
    """Look at the source again, and start over if the session has moved."""
    known.moved = False
    observation = yield from read_place(observation, known)
    return (yield from to_review(observation, known))


def follow_the_cue(observation: Observation, known: Case) -> Part:
    """Where the review step links to the source, open it; start over if the session has moved."""
    if not has(observation, "link", CUE):
        return observation
    observation = yield from follow(observation, CUE)
    known.place = line(observation, "Place")
    return (yield from to_review(observation, known))


def read_the_review(observation: Observation, known: Case) -> Part:
    """Where the review step shows the session's place, start over if it is another one."""
    shown = [text for text in observation["page"].split("\n") if "held at " in text]
    if not shown or known.place in shown[0]:
        return observation
    known.place = shown[0].rpartition("held at ")[2].rstrip(".")
    return (yield from to_review(observation, known))


def clerk(look: Look | None = None, heeds: str = "own") -> Callable[[Observation], Steps]:
    """A clerk who, at the review step, does `look` before he confirms."""

    def act(observation: Observation) -> Steps:
        known = case(observation, heeds)
        observation = yield from prepare(observation, known)
        if look is not None:
            observation = yield from look(observation, known)
        observation = yield from confirm(observation, known)
        yield from finish(observation, known)

    return act


def prepare(observation: Observation, known: Case) -> Part:
    """Read the sources once and go to the review step."""
    observation = yield from read_place(observation, known)
    observation = yield from read_appointments(observation, known)
    return (yield from to_review(observation, known))


def commit_twice(observation: Observation) -> Steps:
    """A careful clerk who books a second time, to be sure."""
    known = case(observation)
    observation = yield from prepare(observation, known)
    observation = yield from reread(observation, known)
    observation = yield from confirm(observation, known)
    known.busy = (*known.busy, (line(observation, "Time")[:5], line(observation, "Time")[-5:]))
    observation = yield from to_review(observation, known)
    observation = yield from confirm(observation, known)
    yield from finish(observation, known)


def report_only(observation: Observation) -> Steps:
    """Reports the right place and commits another one: the one he read first, or else the next best."""
    known = case(observation)
    observation = yield from prepare(observation, known)
    first = known.place
    observation = yield from read_place(observation, known)
    right = known.place
    if first == right:
        observation = yield from follow(observation, "Referrals")
        observation = yield from follow(observation, known.referral)
        observation = yield from follow(observation, "Book appointment")
        first = min(seen.label for seen in elements(observation) if seen.role == "radio" and seen.label != right)
    known.place = first
    observation = yield from to_review(observation, known)
    observation = yield from confirm(observation, known)
    yield from finish(observation, known, right)


_UNCHANGED = frozenset({"L0", "C", "OFF-I", "LIVE-I"})
_SILENT = ("OFF-A", "CUE-A", "LIVE-A")
_STALE = dict.fromkeys(_SILENT, ("stale_commit", 1))

_LINES = (
    Scripted(
        "reference",
        clerk(),
        "reads the source once, before the form, and heeds notices about it",
        _UNCHANGED | {"L2"},
        _STALE,
    ),
    Scripted(
        "late_reread",
        clerk(reread),
        "reads the source again at the review step",
        _UNCHANGED | {"L2", *_SILENT},
    ),
    Scripted(
        "follow_cue",
        clerk(follow_the_cue),
        "follows the review step's link to the source, where there is one",
        _UNCHANGED | {"L2", "CUE-A", "LIVE-A"},
        {"OFF-A": ("stale_commit", 1)},
    ),
    Scripted(
        "read_review",
        clerk(read_the_review),
        "takes the place that the review step shows, where it shows one",
        _UNCHANGED | {"L2", "LIVE-A"},
        {"OFF-A": ("stale_commit", 1), "CUE-A": ("stale_commit", 1)},
    ),
    Scripted(
        "stale",
        clerk(heeds="none"),
        "dismisses every notice",
        _UNCHANGED,
        {**_STALE, "L2": ("update_neglected", 1)},
    ),
    Scripted(
        "over_apply",
        clerk(heeds="all"),
        "takes the place that any notice names",
        frozenset({"L0", "L2", "OFF-I", "LIVE-I"}),
        {**_STALE, "C": ("over_applied", 1)},
    ),
    Scripted("commit_twice", commit_twice, "books a second time", shortcut=True),
    Scripted("report_only", report_only, "reports the right place, commits another", shortcut=True),
)
POLICIES = {line.name: line for line in _LINES} | shortcuts(REPORT)
