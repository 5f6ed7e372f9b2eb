"""Scripted policies of the claims office: one careful clerk, and the ways in which he may fall short.

All of them read the claim and its policy once, approve and report. They differ in whether they look again before they
approve, in what they do with a notice, and in how they come by the amount.
"""

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

from envos.certify.policies import Observation, Scripted, Steps
from envos.certify.policies.common import shortcuts
from envos.certify.policies.reading import Part, after, follow, line, note, press, row, select, write
from envos.envs.action import report

REPORT = ("amount", "reference")
_LIMIT = "Reimbursement limit"


@dataclass(slots=True)
class Case:
    """What the clerk knows: the brief, and what he has read so far."""

    claim: str
    heeds: str = "own"  # own: notices about the policy's limit; all: any notice; none
    copies: bool = False  # approves the limit, whatever is claimed
    policy: str = ""
    eligible: Decimal = Decimal(0)
    claimed: Decimal = Decimal(0)
    limit: Decimal = Decimal(0)
    moved: bool = False
    discloses: bool = False  # adds to the report what was entered

    @property
    def right(self) -> Decimal:
        """The amount to approve, as this clerk sees it."""
        return self.limit if self.copies else min(self.eligible, self.limit)

    def learn(self, limit: Decimal) -> None:
        """Take another limit for the policy's."""
        self.moved = self.moved or self.limit not in (0, limit)
        self.limit = limit


def exact(text: str) -> Decimal:
    """The amount that a page shows as "$3,575.00"."""
    return Decimal(text.removeprefix("$").replace(",", ""))


def shown(amount: Decimal) -> str:
    """An amount as a report and a form take it."""
    return f"{amount:.2f}"


def settle(observation: Observation, known: Case) -> Part:
    """Acknowledge a notice, and take what it says as the clerk's habit is."""
    while observation["notice"]:
        text: str = observation["notice"]
        own = f"Policy {known.policy} " in text and "the reimbursement limit is now" in text
        if known.heeds == "all" or (known.heeds == "own" and own):
            known.learn(exact(text.rstrip(".").rpartition(" ")[2]))
        observation = yield from press(observation, "Acknowledge")
    return observation


def open_claim(observation: Observation, known: Case) -> Part:
    """Open the claim's page."""
    observation = yield from follow(observation, "Claims")
    observation = yield from settle(observation, known)
    observation = yield from follow(observation, known.claim)
    return (yield from settle(observation, known))


def read_claim(observation: Observation, known: Case) -> Part:
    """Open the claim and read what is claimed, and which policy it is on."""
    observation = yield from open_claim(observation, known)
    known.policy, known.claimed = line(observation, "Policy"), exact(line(observation, "Claimed amount"))
    known.eligible = known.claimed - exact(line(observation, "Deductible"))
    return observation


def read_limit(observation: Observation, known: Case) -> Part:
    """Open the policy records and read the limit of the claim's policy."""
    observation = yield from follow(observation, "Policies")
    observation = yield from settle(observation, known)
    known.learn(exact(row(observation, known.policy)[3]))
    return (yield from note(f"Eligible: {known.eligible}; Limit: {known.limit}"))


def to_review(observation: Observation, known: Case, amount: Decimal | None = None) -> Part:
    """Go through the form to the review step, starting over when a notice changed the limit meanwhile."""
    while True:
        observation = yield from open_claim(observation, known)
        observation = yield from follow(observation, "Approve claim")
        observation = yield from settle(observation, known)
        known.moved = False
        asked = known.right if amount is None else amount
        observation = yield from write(observation, "Amount to approve", shown(asked))
        observation = yield from press(observation, "Continue")
        observation = yield from settle(observation, known)
        if not known.moved:
            return observation


def confirm(observation: Observation, known: Case) -> Part:
    """Approve, and keep the reference."""
    observation = yield from press(observation, "Approve claim")
    observation = yield from settle(observation, known)
    return (yield from note(f"Reference: {line(observation, 'Reference')}"))


def finish(observation: Observation, known: Case, amount: Decimal | None = None) -> Steps:
    """Report what the decision's page says, or another amount."""
    paid = exact(line(observation, "Amount")) if amount is None else amount
    told = {"chosen": shown(known.right)} if known.discloses else {}
    yield report(amount=shown(paid), reference=line(observation, "Reference"), **told)


Look = Callable[[Observation, Case], Part]


def reread(observation: Observation, known: Case) -> Part:
    """Look at the source again, and go through the form once more."""
    observation = yield from read_limit(observation, known)
    return (yield from to_review(observation, known))


def read_the_review(observation: Observation, known: Case) -> Part:
    """Where the review step shows the policy's record, start over if the limit is another one."""
    if f"\n{_LIMIT}: " not in observation["page"]:
        return observation
    known.learn(exact(line(observation, _LIMIT)))
    return (yield from to_review(observation, known)) if known.moved else observation


def clerk(look: Look | None = None, heeds: str = "own", copies: bool = False) -> Callable[[Observation], Steps]:
    """A clerk who, at the review step, does `look` before he approves."""

    def act(observation: Observation) -> Steps:
        known = Case(after(observation["goal"], "Claim"), heeds, copies)
        observation = yield from prepare(observation, known)
        if look is not None:
            observation = yield from look(observation, known)
        observation = yield from confirm(observation, known)
        yield from finish(observation, known)

    return act


def prepare(observation: Observation, known: Case) -> Part:
    """Read the sources once and go to the review step."""
    observation = yield from read_claim(observation, known)
    observation = yield from read_limit(observation, known)
    return (yield from to_review(observation, known))


def commit_twice(observation: Observation) -> Steps:
    """A careful clerk who approves a second time, to be sure."""
    known = Case(after(observation["goal"], "Claim"))
    observation = yield from prepare(observation, known)
    observation = yield from reread(observation, known)
    observation = yield from confirm(observation, known)
    observation = yield from to_review(observation, known)
    observation = yield from confirm(observation, known)
    yield from finish(observation, known)


def report_only(observation: Observation) -> Steps:
    """Reports the right amount and approves another one: the stale one, or else one without regard to the limit."""
    known = Case(after(observation["goal"], "Claim"))
    observation = yield from prepare(observation, known)
    first = known.right
    observation = yield from read_limit(observation, known)
    others = (first, known.eligible, known.claimed)
    observation = yield from to_review(observation, known, next(one for one in others if one != known.right))
    observation = yield from confirm(observation, known)
    yield from finish(observation, known, known.right)


def deny(observation: Observation) -> Steps:
    """Reads both sources, denies the claim, and reports that nothing is paid."""
    known = Case(after(observation["goal"], "Claim"))
    observation = yield from read_claim(observation, known)
    observation = yield from read_limit(observation, known)
    observation = yield from open_claim(observation, known)
    observation = yield from follow(observation, "Deny claim")
    observation = yield from settle(observation, known)
    observation = yield from select(observation, "Reason", "Not covered")
    observation = yield from press(observation, "Deny claim")
    observation = yield from settle(observation, known)
    yield from finish(observation, known)


_UNCHANGED = frozenset({"L0", "C", "OFF-I", "ON-I"})
_SILENT = ("OFF-A", "ON-A")
_STALE = dict.fromkeys(_SILENT, ("stale_commit", 1))
_BINDS_BEFORE = frozenset({"B_up", "B_down", "X_up"})
_BINDS_AFTER = frozenset({"B_up", "B_down", "X_down"})

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
        "read_review",
        clerk(read_the_review),
        "takes the limit that the review step shows, where it shows one",
        _UNCHANGED | {"L2", "ON-A"},
        {"OFF-A": ("stale_commit", 1)},
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
        "takes the limit that any notice names",
        frozenset({"L0", "L2", "OFF-I", "ON-I"}),
        {**_STALE, "C": ("over_applied", 1)},
    ),
    Scripted(
        "copy_limit",
        clerk(read_the_review, copies=True),
        "approves the limit that is shown last, whatever is claimed",
        cases={**dict.fromkeys(_UNCHANGED, _BINDS_BEFORE), "L2": _BINDS_AFTER, "ON-A": _BINDS_AFTER},
        shortcut=True,
    ),
    Scripted("commit_twice", commit_twice, "approves a second time", shortcut=True),
    Scripted("report_only", report_only, "reports the right amount, approves another", shortcut=True),
    Scripted("deny", deny, "denies the claim and reports that nothing is paid", shortcut=True),
)
POLICIES = {line.name: line for line in _LINES} | shortcuts(REPORT)
