"""Where in an episode the things stand that its verdict rests on: marks on the timeline, grounds of the validity."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from envos.envs.evidence import Evidence, Fire, Record, Start, Write
from envos.envs.perturbation import Plan
from envos.envs.scenario import load_world
from envos.rewards.trace import Trace, follow, read


class Mark(NamedTuple):
    """Something on the timeline; `kind` is exposure, trigger, delivery, commit, report or fault."""

    kind: str
    step: int
    record: int
    text: str


def marks(trace: Trace, plan: Plan) -> list[Mark]:
    """The marks of an episode, in the order of its records."""
    found = [*_change(trace), *_deliveries(trace, plan)]
    for place, write in trace.commits:
        text = f"request {write.request} inserted {write.table} {write.key}"
        found.append(Mark("commit", _step(trace, write.request), place, text))
    for place, report in trace.reports:
        said = ", ".join(f"{name}={value!r}" for name, value in report.fields.items())
        found.append(Mark("report", report.step, place, f"report({said})"))
    for place, fault in trace.faults:
        found.append(Mark("fault", fault.step, place, f"{fault.kind}: {fault.detail}"))
    return sorted(found, key=lambda mark: mark.record)


def _change(trace: Trace) -> Iterator[Mark]:
    if trace.armed is not None:
        place, frame = trace.armed
        text = f"frame {frame.number} delivered the old value from {frame.url}: the change is armed"
        yield Mark("exposure", frame.step, place, text)
    for place, fire in trace.fires:
        request = trace.asked.get(fire.request)
        where = f"{request.method} {request.path}" if request else "a request that is not on record"
        yield Mark(
            "trigger",
            _step(trace, fire.request),
            place,
            f"fired inside request {fire.request} ({where}): {fire.operations} operations, {fire.neutral} of them "
            f"neutral, armed by frame {fire.armed_by}",
        )


def _deliveries(trace: Trace, plan: Plan) -> Iterator[Mark]:
    """After the firing: each notice, each review step, and each look at the fact as it is then."""
    fired = trace.fired_at()
    for place, frame in trace.frames:
        if place < fired or fired < 0:
            continue
        request = trace.asked.get(frame.request)
        texts = [item.text for item in frame.delivered if item[:3] == plan.arm]
        said = []
        if frame.notice:
            said.append("the notice")
        if request is not None and request.route == plan.review_route and request.status == 200:
            said.append("the review step")
        if texts:
            said.append(f"the fact as {texts[-1]!r}")
        if said:
            yield Mark("delivery", frame.step, place, f"frame {frame.number} delivered {', '.join(said)}")


def _step(trace: Trace, number: int) -> int:
    request = trace.asked.get(number)
    return request.step if request else 0


def grounds(evidence: Evidence, verdict: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What the validity of an episode rests on, each with the record and the step where it stands (-1: none)."""
    trace = read(evidence.records)
    plan = Plan.from_json(evidence.start.plan)
    follow(trace, plan, evidence.pre, load_world(plan.world))
    found = [_ground(trace, reason["code"], reason["record"], reason["detail"], False) for reason in verdict["reasons"]]
    for mark in marks(trace, plan):
        if mark.kind in ("exposure", "trigger", "delivery"):
            found.append(_ground(trace, mark.kind, mark.record, mark.text, True))
    if verdict["counted"] and not verdict["untriggered"]:
        writes = sum(write.actor == "perturbation" for _, write in trace.writes)
        agent = sum(request.actor == "agent" for _, request in trace.requests)
        other = len(trace.requests) - agent
        said = f"{writes} writes of the change, all of them declared, and all in the request that fired it"
        found.append(_ground(trace, "bounded", trace.fired_at(), said, True))
        said = f"{len(trace.writes)} writes replayed over the state before give the state after, row by row"
        found.append(_ground(trace, "journal", -1, said, True))
        said = f"{len(trace.actions)} actions, each in answer to the frame before it; {agent} requests of the agent"
        found.append(_ground(trace, "trajectory", -1, f"{said}, {other} of the harness", True))
    return found


def _ground(trace: Trace, code: str, record: int, text: str, holds: bool) -> dict[str, Any]:
    known = 0 <= record < len(trace.records)
    step = step_of(trace, trace.records[record]) if known else -1
    return {"code": code, "record": record, "step": step, "text": text, "holds": holds}


def step_of(trace: Trace, record: Record) -> int:
    """The step that a record belongs to; a write and a firing belong to that of their request."""
    if isinstance(record, Start):
        return 0
    return _step(trace, record.request) if isinstance(record, Write | Fire) else record.step
