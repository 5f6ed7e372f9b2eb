"""The rules of protocol section 4, and whether what a condition promises was delivered."""

import json
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta

from envos.envs.evidence import Evidence, Fire, Frame, Scalar, Write
from envos.envs.perturbation import BEFORE, NEXT, NOW, Operation, Plan
from envos.envs.roles import World
from envos.rewards.journal import shown
from envos.rewards.trace import (
    GUARD,
    NEUTRAL,
    Reason,
    Trace,
    change,
    changed_cell,
    of_subject,
    triggers,
)


def delivery(trace: Trace, plan: Plan, world: World) -> list[Reason]:
    """Which promised information the frame log does not show to have reached the policy in time."""
    found: list[Reason] = []
    if plan.announced:
        found += _notice(trace, plan, world)
    if plan.review != "nothing":
        found += _review(trace, plan, world)
    return found


def _notice(trace: Trace, plan: Plan, world: World) -> list[Reason]:
    """A notice must stand in a frame that is in time, with the value that changed.

    A mail is promised to nobody: it is there to be read.
    """
    notices = [frame.notice for _, frame in trace.told(plan) if frame.notice]
    if not notices:
        return [Reason("notice_undelivered", trace.fired_at(), "no notice between the firing and the commit")]
    changed = changed_cell(plan)
    if changed and changed[0] not in _touched(trace, len(trace.records)):
        wanted = shown(trace.truth, world, changed[0])
        if wanted is None or not any(wanted in notice for notice in notices):
            return [Reason("notice_without_value", trace.fired_at(), f"no notice says {wanted!r}")]
    return []


def _review(trace: Trace, plan: Plan, world: World) -> list[Reason]:
    """The review page must stand in a frame between firing and commit, with the promised link and value.

    It is promised to who comes to the review of the task's commit. A commit of another subject, by a form that has no
    review or by a tool that needs none is a failure that counts: else an agent could have its episode thrown out by
    passing the review by.
    """
    commit = world.commit(plan.task)
    made, write = next(((at, write) for at, write in trace.commits if of_subject(write, commit.subject)), (-1, None))
    if write is None:
        return []
    place = trace.fired_at()
    pages = [
        frame
        for at, frame in trace.frames
        if place < at < made and _is_review(trace, plan, frame) and _is_about(trace, world, frame, commit.subject)
    ]
    if not pages and (trace.by_tools() or trace.asked[write.request].route != commit.route):
        return []
    if not pages:
        return [Reason("review_undelivered", place, "no review page between the firing and the commit")]
    if plan.review == "value":
        pages = [frame for frame in pages if any(item[:3] == plan.arm for item in frame.delivered)]
        if not pages:
            return [Reason("review_without_value", place, "no review page showed the current value")]
    label = world.reminder
    if (label or plan.review == "link") and not (label and any(_links(trace, frame, label) for frame in pages)):
        return [Reason("review_without_link", place, f"no review page had the link {label!r}")]
    return []


def _links(trace: Trace, frame: Frame, label: str) -> bool:
    """Whether an observation has a link of that label: in the element list, or among the calls of a tool's result."""
    # The element list writes a label in quotes, with `"` and `\\` escaped, as JSON does.
    quoted = json.dumps(label, ensure_ascii=False)
    if trace.by_tools():
        return f'{{"text":{quoted},"tool":' in frame.page
    return f"] link {quoted}\n" in frame.elements + "\n"


def _is_review(trace: Trace, plan: Plan, frame: Frame) -> bool:
    request = trace.asked.get(frame.request)
    return request is not None and request.route == plan.review_route and request.status == 200


def _is_about(trace: Trace, world: World, frame: Frame, subject: Mapping[str, Scalar]) -> bool:
    """Whether an observation is of the review of a commit of this subject."""
    request = trace.asked.get(frame.request)
    asked = {} if request is None else world.reviewed(request.params)
    return all(asked[name] == value for name, value in subject.items() if name in asked)


def rules(trace: Trace, plan: Plan, evidence: Evidence, world: World, stale: list[Reason]) -> list[Reason]:
    """Which rules of protocol section 4 are broken; `stale` are the pages that served an old value."""
    place, fire = trace.fires[0]
    found = [
        Reason("fired_again", again, f"request {other.request} fired after request {fire.request}")
        for again, other in trace.fires[1:]
    ]
    found += _armed(trace, place, fire)
    found += _inside(trace, plan, place, fire, world)
    found += _order(trace, plan, place, fire)
    found += _operations(trace, plan, place, fire)
    found += _texts(trace, plan, evidence, world)
    return found + stale


def _armed(trace: Trace, place: int, fire: Fire) -> list[Reason]:
    """Rule 1: the old value had been handed over, and by the frame that the firing names."""
    if trace.armed is None or trace.armed[0] > place:
        return [Reason("not_armed", place, "the old value had not been delivered from a page that may arm")]
    number = trace.armed[1].number
    if fire.armed_by != number:
        return [Reason("armed_by_differs", place, f"frame {number} armed, the firing names {fire.armed_by}")]
    return []


def _inside(trace: Trace, plan: Plan, place: int, fire: Fire, world: World) -> list[Reason]:
    """Rules 2 and 5: inside the first eligible request, one of the agent's own."""
    request = trace.asked[fire.request]
    if not triggers(request, plan, trace.commits[0][1] if trace.commits else None, world):
        said = f"{request.actor} {request.via} {request.method} {request.route}"
        return [Reason("not_eligible", place, f"fired inside request {fire.request}: {said}")]
    if trace.eligible is None or trace.eligible[1].number != fire.request:
        first = trace.eligible[1].number if trace.eligible else None
        return [Reason("not_first_eligible", place, f"request {fire.request} fired, {first} was the first")]
    return []


def _order(trace: Trace, plan: Plan, place: int, fire: Fire) -> list[Reason]:
    """Change and commit in the order of the plan's phase: the change first, or right after the commit."""
    at, made = trace.commits[0] if trace.commits else (len(trace.records), None)
    if plan.phase == BEFORE or (made is not None and made.request < fire.request):
        return [Reason("commit_before_change", at, "the commit came first")] if at < place else []
    begun = min((at for at, write in trace.writes if write.actor == "perturbation"), default=place)
    return [Reason("change_before_commit", begun, "the change came before the commit")] if begun < at else []


def _touched(trace: Trace, before: int) -> set[tuple[str, int, str]]:
    """The cells that the agent wrote before a place in the ledger."""
    return {
        (write.table, write.key, column)
        for place, write in trace.writes
        if place < before and write.actor == "agent"
        for column in write.columns
    }


def _operations(trace: Trace, plan: Plan, place: int, fire: Fire) -> list[Reason]:
    """Rules 3, 4 and 6: the guard and the declared operations, all in the firing request, nothing else."""
    done = [(at, write) for at, write in trace.writes if write.actor == "perturbation"]
    found = [
        Reason("operation_elsewhere", at, f"the perturbation wrote in request {write.request}")
        for at, write in done
        if write.request != fire.request or at > place
    ]
    neutral = sum(operation.table == NEUTRAL for operation in plan.operations)
    if (fire.operations, fire.neutral) != (len(plan.operations), neutral):
        declared_count = f"{len(plan.operations)} and {neutral}"
        said = f"{fire.operations} operations, {fire.neutral} neutral; {declared_count} are declared"
        found.append(Reason("operation_count", place, said))
    passed = timedelta(minutes=trace.asked[fire.request].step)
    now = (datetime.fromisoformat(plan.opened) + passed).isoformat(" ", "minutes")
    symbols: dict[Scalar, Scalar] = {NOW: now, NEXT: fire.request + 1}
    declared = [Operation("insert", GUARD, 0, {"request": (None, fire.request)}), *plan.operations]
    touched = _touched(trace, place)
    if len(declared) != len(done):
        found.append(Reason("operations_differ", place, f"{len(done)} writes for {len(declared)} operations"))
    for operation, (at, write) in zip(declared, done, strict=False):
        if not _carries_out(write, operation, symbols, touched):
            said = f"{write.op} {write.table} {write.key} is not the declared {operation.op} {operation.table}"
            found.append(Reason("operations_differ", at, said))
    return found


def _carries_out(
    write: Write, operation: Operation, symbols: dict[Scalar, Scalar], touched: set[tuple[str, int, str]]
) -> bool:
    """Whether a write is the declared one; an old value may differ only where the agent wrote that cell.

    A column that had its new value already is not in the journal: a row written back as it was has none.
    """
    if (write.op, write.table) != (operation.op, operation.table):
        return False
    wanted = {name: (old, symbols.get(new, new)) for name, (old, new) in operation.columns.items()}
    if operation.op == "insert":
        given = {name: pair for name, pair in write.columns.items() if name in wanted or pair != (None, None)}
        given.pop("id", None)
        return given == wanted
    if write.key != operation.key or not write.columns.keys() <= wanted.keys():
        return False
    for name, (old, new) in wanted.items():
        was, now = write.columns.get(name, (new, new))
        if now != new or (was != old and (write.table, write.key, name) not in touched):
            return False
    return True


def _texts(trace: Trace, plan: Plan, evidence: Evidence, world: World) -> Iterator[Reason]:
    """Rules 4 and 7: fact, history row (or the row of who took it) and the plan's texts agree, before and after."""
    place = trace.fired_at()
    now = trace.truth
    if plan.arm not in _touched(trace, len(trace.records)):
        for moment, state, text in (("before", evidence.pre, plan.arm_text), ("after", now, plan.new_text)):
            if shown(state, world, plan.arm) != text:
                yield Reason("text_differs", place, f"the fact is not {text!r} {moment} the change")
    changed = changed_cell(plan)
    operation = change(plan)
    if changed is None or operation is None:
        return
    cell, old, new = changed
    rivals = [item for item in plan.operations if item.op == "insert" and item.table == plan.commit_table]
    if rivals:
        if not all(_takes(item, plan, world, cell, new) for item in rivals):
            yield Reason("rival_differs", place, f"nobody's row takes {cell[0]} {cell[1]}")
        return
    texts = tuple(world.display(state, cell[0], cell[2], value) for state, value in ((evidence.pre, old), (now, new)))
    told = [
        tuple(item.columns.get(name, (None, None))[1] for name in ("record", "record_id", "field", "old", "new"))
        for item in plan.operations
        if item.op == "insert" and item.table == "history"
    ]
    if len(operation.columns) != 1 or told != [(*cell, *texts)]:
        yield Reason("history_differs", place, f"the history does not say {cell[2]}: {texts[0]!r} to {texts[1]!r}")


def _takes(row: Operation, plan: Plan, world: World, cell: tuple[str, int, str], new: Scalar) -> bool:
    """Whether a row of the commit table entails that a cell has its new value."""
    return any(
        item.table == cell[0]
        and item.columns.get(cell[2]) == new
        and row.columns.get(item.key_from, (None, None))[1] == cell[1]
        for item in world.commit(plan.task).consequences
    )
