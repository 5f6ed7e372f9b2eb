"""`verify`: evidence in, verdict out. A pure function; validity first, then invariants, then signatures.

An error inside any term means that nothing was decided: the episode is a `harness_error`, never a pass and
never a scored 0.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from envos.envs.evidence import Evidence
from envos.envs.perturbation import Plan
from envos.envs.roles import World
from envos.envs.scenario import load_world
from envos.errors import UsageError
from envos.rewards import signatures
from envos.rewards.exposure import exposure
from envos.rewards.invariants import Invariant, NoAnswerError, invariants, outcome
from envos.rewards.trace import Reason, Trace, follow, read
from envos.rewards.validity import Validity, problems, recorded, validity

GRADER = "1"
"""Version of the grader; it goes into every archive."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What an episode is worth, and why.

    `validity` is a class of protocol section 6 and `reasons` say why an episode is not plainly counted.
    `endpoint` and `fraction` (0 to 1) are None unless `counted`; `untriggered` marks an episode whose change
    never fired, which is not counted, or counts as a failure, as its plan says. `reward` is 1.0 for the full
    endpoint, else 0.0: read `counted` beside it, since an uncounted episode's 0.0 is not a score.
    """

    validity: str
    counted: bool
    untriggered: bool
    reasons: tuple[Reason, ...]
    invariants: Mapping[str, Invariant]
    endpoint: bool | None
    fraction: float | None
    signatures: tuple[str, ...]
    measures: Mapping[str, Any]
    reward: float
    grader: str = field(default=GRADER)

    def info(self) -> dict[str, Any]:
        """The verdict as JSON data, newly made at each call."""
        return {
            "validity": self.validity,
            "counted": self.counted,
            "untriggered": self.untriggered,
            "reasons": [reason._asdict() for reason in self.reasons],
            "invariants": {
                name: {"passed": term.passed, "measured": _copy(term.measured), "reason": term.reason}
                for name, term in self.invariants.items()
            },
            "endpoint": self.endpoint,
            "fraction": self.fraction,
            "signatures": list(self.signatures),
            "measures": _copy(self.measures),
            "reward": self.reward,
            "grader": self.grader,
        }


def verify(evidence: Evidence) -> Verdict:
    """The verdict on an episode; never raises, and the same evidence always has the same verdict.

    The plan is taken from the evidence. That it is the plan of the instance that the identity names is the reader's to
    check: `wrappers.archive.read_archive` works it out again.
    """
    trace = Trace(())
    try:
        trace = _attempt("records", read, evidence.records)
        found = recorded(trace)
        if found:
            return _uncounted(found, trace)
        plan = _attempt("plan", Plan.from_json, evidence.start.plan)
        world = _attempt("world", load_world, plan.world)
    except _TermFailed as failure:
        found = failure.validity()
        return _uncounted(Validity(found.label, (*problems(evidence), *found.reasons)), trace)
    return _judge(trace, evidence, plan, world)


def judge(evidence: Evidence, plan: Plan, world: World) -> Verdict:
    """The verdict on an episode of a world under a plan; never raises."""
    try:
        trace = _attempt("records", read, evidence.records)
    except _TermFailed as failure:
        return _uncounted(failure.validity(), Trace(()))
    return _judge(trace, evidence, plan, world)


def _judge(trace: Trace, evidence: Evidence, plan: Plan, world: World) -> Verdict:
    try:
        _attempt("trace", follow, trace, plan, evidence.pre, world)
        found = _attempt("validity", validity, trace, plan, evidence, world)
        if found.label == "not_triggered":
            return _untriggered(found, trace, plan, world)
        if found.label in _UNREADABLE:
            return _uncounted(found, trace)
        if found.label != "counted":
            return _uncounted(found, trace, plan, world)
        return _counted(trace, plan, evidence, world)
    except _TermFailed as failure:
        return _uncounted(failure.validity(), trace)


_UNREADABLE = ("infra_failure", "infra_rejected", "harness_error")


CODES: Mapping[str, str] = {"plan": "plan_unreadable", "world": "world_unknown", "answer": "no_answer"}
"""Reason codes of terms that cannot be decided; any other is `term_failed`."""


class _TermFailed(Exception):
    """A term could not be decided."""

    def __init__(self, term: str, error: Exception) -> None:
        super().__init__(f"{term}: {type(error).__name__}: {error}")
        self.code = CODES.get("answer" if isinstance(error, NoAnswerError) else term, "term_failed")

    def validity(self) -> Validity:
        return Validity("harness_error", (Reason(self.code, -1, str(self)),))


def _attempt(term: str, function: Callable[..., T], *arguments: object) -> T:
    try:
        return function(*arguments)
    except Exception as error:  # whatever it is, this term decides nothing
        raise _TermFailed(term, error) from error


def _counted(trace: Trace, plan: Plan, evidence: Evidence, world: World) -> Verdict:
    facts = _attempt("outcome", outcome, trace, plan, evidence, world)
    terms = _attempt("invariants", invariants, facts)
    named = _attempt("signatures", signatures.names, facts, terms)
    counts = _attempt("measures", _measures, trace, plan, world)
    if not terms:
        raise _TermFailed("invariants", UsageError("there is no invariant"))
    passed = sum(term.passed for term in terms.values())
    endpoint = passed == len(terms)
    return Verdict(
        "counted",
        True,
        False,
        (),
        terms,
        endpoint,
        passed / len(terms),
        named,
        counts,
        1.0 if endpoint else 0.0,
    )


def _untriggered(found: Validity, trace: Trace, plan: Plan, world: World) -> Verdict:
    """Nothing fired: not counted, or a failure, as the plan says; only the trajectory is reported."""
    counts = _attempt("measures", _measures, trace, plan, world)
    named = _attempt("signatures", signatures.untriggered, trace)
    failure = plan.untriggered == "failure"
    return Verdict(
        found.label,
        failure,
        True,
        found.reasons,
        {},
        False if failure else None,
        0.0 if failure else None,
        named,
        counts,
        0.0,
    )


def _uncounted(found: Validity, trace: Trace, plan: Plan | None = None, world: World | None = None) -> Verdict:
    counts: dict[str, Any] = {"steps": len(trace.actions)}
    if plan is not None and world is not None:
        counts = _attempt("measures", _measures, trace, plan, world)
    return Verdict(found.label, False, False, found.reasons, {}, None, None, (), counts, 0.0)


def _measures(trace: Trace, plan: Plan, world: World) -> dict[str, Any]:
    return {**signatures.measures(trace, plan), **exposure(trace, plan, world)}


def _copy(value: Any) -> Any:
    """JSON data of JSON-like data, sharing nothing with it."""
    if isinstance(value, Mapping):
        return {str(name): _copy(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_copy(item) for item in value]
    return value
