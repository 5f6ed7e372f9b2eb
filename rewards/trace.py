"""The ledger of one episode, read once: where each kind of record stands, and what the plan makes of it."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from envos.envs.evidence import (
    Action,
    Delivered,
    End,
    Fault,
    Fire,
    Frame,
    Record,
    Report,
    Request,
    Scalar,
    Start,
    State,
    Write,
)
from envos.envs.perturbation import AFTER, BEFORE, Operation, Plan
from envos.envs.roles import World
from envos.envs.toolbox import NAME
from envos.rewards.statediff import replay


class Reason(NamedTuple):
    """Why an episode is of its class: a code, the place of the record that shows it (-1: none), a detail."""

    code: str
    record: int
    detail: str


@dataclass(slots=True)
class Trace:
    """Records by kind, each with its place in the ledger; `armed` to `truth` are as the plan has it.

    armed: the first observation with the old value, on a page that the agent asked for. eligible: the first
    request that may fire after it. commits: the agent's insertions into the commit table. looks: every
    delivery of the fact. asked: request number -> request. truth: what the organisation holds true, which is
    the state before the episode plus the perturbation's writes, never the agent's; where the perturbation
    alters what the agent's commit has stored, its updates are no truth either. replayed: all writes.
    """

    records: tuple[Record, ...]
    starts: list[tuple[int, Start]] = field(default_factory=list)
    requests: list[tuple[int, Request]] = field(default_factory=list)
    writes: list[tuple[int, Write]] = field(default_factory=list)
    fires: list[tuple[int, Fire]] = field(default_factory=list)
    frames: list[tuple[int, Frame]] = field(default_factory=list)
    actions: list[tuple[int, Action]] = field(default_factory=list)
    reports: list[tuple[int, Report]] = field(default_factory=list)
    faults: list[tuple[int, Fault]] = field(default_factory=list)
    ends: list[tuple[int, End]] = field(default_factory=list)
    asked: dict[int, Request] = field(default_factory=dict)
    armed: tuple[int, Frame] | None = None
    eligible: tuple[int, Request] | None = None
    commits: list[tuple[int, Write]] = field(default_factory=list)
    looks: list[tuple[int, Frame, Delivered]] = field(default_factory=list)
    truth: State = field(default_factory=dict)
    replayed: State = field(default_factory=dict)

    def fired_at(self) -> int:
        """The place of the firing, or -1."""
        return self.fires[0][0] if self.fires else -1

    def committed_at(self) -> int | None:
        """The place of the agent's first commit, or None."""
        return self.commits[0][0] if self.commits else None

    def by_tools(self) -> bool:
        """Whether the agent called named tools, and was shown their results, in place of pages."""
        return bool(self.starts) and self.starts[0][1].identity.get("actions") == NAME

    def between(self) -> Iterable[tuple[int, Frame]]:
        """The observations between the firing and the first commit (the end, where there is none)."""
        return self._after_firing(self.committed_at())

    def told(self, plan: Plan) -> Iterable[tuple[int, Frame]]:
        """The observations in which a notice is in time.

        They are those `between`; where the commit's own request may fire, no notice is sure to come before it, and all
        that follow the firing are in time.
        """
        return self._after_firing(None if plan.posts else self.committed_at())

    def _after_firing(self, last: int | None) -> Iterable[tuple[int, Frame]]:
        first = self.fired_at()
        return ((place, frame) for place, frame in self.frames if place > first and (last is None or place < last))


def read(records: tuple[Record, ...]) -> Trace:
    """The records by kind."""
    trace = Trace(records)
    keep: dict[type[Record], Callable[[tuple[int, Any]], None]] = {
        Start: trace.starts.append,
        Request: trace.requests.append,
        Write: trace.writes.append,
        Fire: trace.fires.append,
        Frame: trace.frames.append,
        Action: trace.actions.append,
        Report: trace.reports.append,
        Fault: trace.faults.append,
        End: trace.ends.append,
    }
    for place, record in enumerate(records):
        keep[type(record)]((place, record))
    trace.asked = {request.number: request for _, request in trace.requests}
    return trace


def follow(trace: Trace, plan: Plan, pre: State, world: World) -> None:
    """Find exposure, first eligible request, commits and the true state, as the plan defines them."""
    trace.truth = replay(
        pre,
        [
            _declared(write, plan)
            for _, write in trace.writes
            if write.actor == "perturbation" and (plan.phase == BEFORE or write.op == "insert")
        ],
    )
    trace.commits = [
        (place, write)
        for place, write in trace.writes
        if write.table == plan.commit_table and write.op == "insert" and write.actor == "agent"
    ]
    for place, frame in trace.frames:
        if frame.delivered:
            _look(trace, plan, place, frame)
    if trace.armed is None:
        return
    first, made = trace.armed[0], trace.commits[0][1] if trace.commits else None
    for place, request in trace.requests:
        # The commit's own request is the last one that may fire.
        if place > first and (made is None or request.number <= made.request) and triggers(request, plan, made, world):
            trace.eligible = (place, request)
            return


def _declared(write: Write, plan: Plan) -> Write:
    """The write with every value that the plan sets: one that the agent had set already is not in the journal."""
    for operation in plan.operations:
        if write.op == "update" and operation[:3] == (write.op, write.table, write.key):
            return write._replace(columns={**operation.columns, **write.columns})
    return write


def _look(trace: Trace, plan: Plan, place: int, frame: Frame) -> None:
    for item in frame.delivered:
        if item[:3] == plan.arm:
            trace.looks.append((place, frame, item))
            request = trace.asked.get(frame.request)
            if trace.armed is None and item.text == plan.arm_text and request and exposes(request, plan):
                trace.armed = (place, frame)


def exposes(request: Request, plan: Plan) -> bool:
    """Whether what this request shows may arm: the agent's own, direct, on a surface of the fact."""
    return request.actor == "agent" and request.via == "direct" and request.route in plan.surfaces


def triggers(request: Request, plan: Plan, made: Write | None, world: World) -> bool:
    """Whether this request may fire: the agent's own, direct, by a route and a method of the trigger.

    After the commit, that is only the request that `made` the commit which the plan is about; before it, one that asks
    for that commit's review, if the plan says so.
    """
    if request.actor != "agent" or request.via != "direct" or not plan.fires(request.method, request.route):
        return False
    if plan.phase == BEFORE:
        return plan.concerns(request.params, world.reviewed)
    return made is not None and made.request == request.number and plan.awaits(made.new())


def of_subject(write: Write, subject: Mapping[str, Scalar]) -> bool:
    """Whether a row that was added is of this subject."""
    return all(write.columns.get(name, (None, None))[1] == value for name, value in subject.items())


def change(plan: Plan) -> Operation | None:
    """The operation that changes a row's value, or None where the plan changes nothing."""
    for operation in plan.operations:
        if operation.op == "update" and operation.columns and operation.table != NEUTRAL:
            return operation
    return None


def changed_cell(plan: Plan) -> tuple[tuple[str, int, str], Scalar, Scalar] | None:
    """The cell that changes, with its old and its new value, or None; what becomes of a commit is no such change."""
    operation = change(plan)
    if operation is None or plan.phase == AFTER:
        return None
    column, (old, new) = next(iter(operation.columns.items()))
    return (operation.table, operation.key, column), old, new


NEUTRAL = "neutral"
"""The evaluator's table for operations that change nothing."""
GUARD = "perturbation_guard"
"""The evaluator's table whose unique row lets the perturbation fire once."""
