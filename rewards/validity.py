"""Whether an episode counts at all, decided before its outcome is looked at. Protocol section 6."""

from typing import NamedTuple

from envos.envs.evidence import Evidence
from envos.envs.perturbation import Plan
from envos.envs.roles import World
from envos.rewards.journal import journal
from envos.rewards.sequence import sequence
from envos.rewards.trace import Reason, Trace
from envos.rewards.trigger import delivery, rules

CLASSES = (
    "infra_failure",
    "infra_rejected",
    "harness_error",
    "not_triggered",
    "delivery_ambiguous",
    "trigger_invalid",
    "counted",
)
"""The validity classes; the first that holds wins."""


class Validity(NamedTuple):
    """The class of an episode and why; a counted one has no reasons."""

    label: str
    reasons: tuple[Reason, ...]


def recorded(trace: Trace) -> Validity | None:
    """A fault on record that is of the infrastructure or of a provider that refused."""
    for label in ("infra_failure", "infra_rejected"):
        faults = [Reason(label, place, fault.detail) for place, fault in trace.faults if fault.kind == label]
        if faults:
            return Validity(label, tuple(faults))
    return None


def validity(trace: Trace, plan: Plan, evidence: Evidence, world: World) -> Validity:
    """The class of an episode, as the plan defines it; nothing of its outcome is read."""
    found = recorded(trace)
    if found:
        return found
    contradictions, stale = journal(trace, evidence, world)
    wrong = [*problems(evidence), *sequence(trace, plan, world), *contradictions]
    if trace.eligible and not trace.fires:
        place, request = trace.eligible
        wrong.append(Reason("missed_firing", place, f"request {request.number} was to fire and did not"))
    if wrong:
        return Validity("harness_error", tuple(wrong))
    if not trace.fires:
        if trace.armed is None:
            reason = Reason("never_exposed", -1, "the old value was never delivered from its source")
        else:
            reason = Reason("never_reached", -1, "no form page that fires was asked for after it")
        return Validity("not_triggered", (reason,))
    missing = delivery(trace, plan, world)
    if missing:
        return Validity("delivery_ambiguous", tuple(missing))
    broken = rules(trace, plan, evidence, world, stale)
    if broken:
        return Validity("trigger_invalid", tuple(broken))
    return Validity("counted", ())


def problems(evidence: Evidence) -> list[Reason]:
    """What the reader of an archive found wrong with it."""
    return [Reason("archive_problem", -1, problem) for problem in evidence.problems]
