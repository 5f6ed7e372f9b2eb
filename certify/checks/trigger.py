"""Family 1: the change is armed, fires once, where and as it was planned (protocol section 4).

These checks read the logs of every policy's episode; `trigger_probes` asks the running application.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta

from envos.certify.checks import Finding, faults, rule
from envos.certify.log import GUARD, Log, fires, own
from envos.certify.trial import Run, Trial
from envos.envs.evidence import Action, Record, Scalar, State, Write, canonical, chain, sha256
from envos.envs.perturbation import AFTER, NEXT, NOW, Operation, Plan

FAMILY = "trigger"


@rule(
    FAMILY,
    "R1",
    "the change is armed by an observation that was handed over with the old value in it",
    "OneShot.deliver must arm on Frame.delivered, before OneShot.due can say yes",
)
def armed(trial: Trial) -> Finding:
    """Rule 1: an observation with the old value stands before each firing, and is the one that the firing names."""
    found: dict[str, list[str]] = {}
    for name, run in trial.distinct.items():
        log = run.log
        for place, fire in log.fires:
            if log.armed is None or log.armed[0] > place:
                _add(found, name, f"request {fire.request} fired before the old value was delivered")
            elif fire.armed_by != log.armed[1].number:
                _add(found, name, f"armed by frame {log.armed[1].number}, the firing names {fire.armed_by}")
    if not trial.best.log.fires:
        _add(found, trial.oracle, "the change never fired")
    frame = trial.best.log.armed
    return faults(found, {"fired": _fired(trial), "armed_by": frame[1].number if frame else None})


@rule(
    FAMILY,
    "R2",
    "the change fires inside the first eligible request after it was armed, before the handler reads",
    "Application must fire before it calls the handler, in the first request for which OneShot.due holds",
)
def inside(trial: Trial) -> Finding:
    """Rule 2: the firing stands in the first eligible request, before anything else of it, and later pages show it."""
    found: dict[str, list[str]] = {}
    for name, run in trial.distinct.items():
        for said in _inside(run.log):
            _add(found, name, said)
    firing = trial.best.log.firing()
    return faults(found, {"fired": _fired(trial), "request": firing[1].number if firing else None})


def _inside(log: Log) -> Iterator[str]:
    if log.eligible and not log.fires:
        yield f"request {log.eligible[1].number} was to fire and did not"
    for place, fire in log.fires:
        firing = log.requests.get(fire.request)
        if firing is None or log.eligible is None or log.eligible[1].number != fire.request:
            yield f"request {fire.request} is not the first eligible one"
            continue
        before = [at for at, write in log.writes if write.request == fire.request and at < place]
        after = [at for at, write in log.writes if write.request == fire.request and at > place]
        if (after if log.plan.phase == AFTER else before) or place > firing[0]:
            yield f"request {fire.request} wrote on the wrong side of the change"
        old = log.plan.arm_text
        for _, request in log.requests.values():
            stale = [item for item in request.served if item[:3] == log.plan.arm and item.text == old]
            if request.number >= fire.request and stale and log.plan.new_text != old and not _touched(log):
                yield f"request {request.number} served the old value after the change"


def _touched(log: Log) -> bool:
    """Whether somebody else than the perturbation wrote the fact's cell."""
    table, key, column = log.plan.arm
    return any((write.table, write.key) == (table, key) and column in write.columns for _, write in log.writes)


@rule(
    FAMILY,
    "R3",
    "the change fires exactly once, guarded by a unique row",
    "OneShot.fire must insert the guard row in the transaction of the change and do nothing when it is there",
)
def once(trial: Trial) -> Finding:
    """Rule 3: one firing, one row written to the guard, one row there at the end; none where nothing fired."""
    found: dict[str, list[str]] = {}
    for name, run in trial.distinct.items():
        guarded = [write for _, write in run.log.changes if write.table == GUARD]
        rows = run.evidence.post[GUARD].rows if GUARD in run.evidence.post else {}
        counts = (len(run.log.fires), len(guarded), len(rows))
        if counts not in ((1, 1, 1), (0, 0, 0)):
            _add(found, name, "{} firings, {} guard writes, {} guard rows".format(*counts))
        if not run.log.fires and run.log.changes:
            _add(found, name, f"{len(run.log.changes)} writes of the perturbation without a firing")
    return faults(
        found, {"fired": _fired(trial), "firings": sum(len(run.log.fires) for run in trial.distinct.values())}
    )


@rule(
    FAMILY,
    "R4",
    "only the declared rows and columns change, and history, event and fact agree",
    "the phenomenon's plan must declare every operation, and OneShot.fire carry out those and no other",
)
def scope(trial: Trial) -> Finding:
    """Rule 4: the perturbation's writes are the plan's operations, and no row differs that nobody wrote."""
    found: dict[str, list[str]] = {}
    for name, run in trial.distinct.items():
        for said in (*_operations(run.log), *_unwritten(run)):
            _add(found, name, said)
    for said in _agreement(trial):
        _add(found, "plan", said)
    return faults(found, {"fired": _fired(trial), "operations": len(trial.plan.operations)})


def _operations(log: Log) -> Iterator[str]:
    """How the perturbation's writes differ from the plan's operations."""
    if not log.fires:
        return
    fire = log.fires[0][1]
    firing = log.requests.get(fire.request)
    wanted = [Operation("insert", GUARD, 1, {"request": (None, fire.request)}), *log.plan.operations]
    for _, write in log.changes[len(wanted) :]:
        yield f"{write.op} {write.table} {write.key} ({', '.join(write.columns)}) is not in the plan"
    for operation in wanted[len(log.changes) :]:
        yield f"{operation.op} {operation.table} was not carried out"
    symbols: dict[Scalar, Scalar] = {NEXT: fire.request + 1}
    if firing is not None:
        symbols[NOW] = _time(log.plan, firing[1].step)
    for operation, (_, write) in zip(wanted, log.changes, strict=False):
        if write.request != fire.request:
            yield f"the perturbation wrote in request {write.request}, and fired in {fire.request}"
        if not _same(operation, write, symbols):
            columns = ", ".join(write.columns)
            yield f"{write.op} {write.table} {write.key} ({columns}) is not {operation.op} {operation.table}"


def _same(operation: Operation, write: Write, symbols: dict[Scalar, Scalar]) -> bool:
    # A row that is written back as it was shows no columns.
    wanted = {
        name: symbols.get(new, new)
        for name, (old, new) in operation.columns.items()
        if operation.op == "insert" or old != new
    }
    given = {name: new for name, (_, new) in write.columns.items() if name in wanted or operation.op == "update"}
    surplus = [
        name
        for name, (_, new) in write.columns.items()
        if operation.op == "insert" and name not in wanted and name != "id" and new is not None
    ]
    return (
        (operation.op, operation.table) == (write.op, write.table)
        and operation.key in (0, write.key)
        and wanted == given
        and not surplus
    )


def _time(plan: Plan, step: int) -> str:
    return (datetime.fromisoformat(plan.opened) + timedelta(minutes=step)).isoformat(" ", "minutes")


def _unwritten(run: Run) -> Iterator[str]:
    """Rows that differ between the two states and that no record says were written."""
    written = {(write.table, write.key) for _, write in (*run.log.changes, *run.log.writes)}
    pre, post = run.evidence.pre, run.evidence.post
    for name in pre.keys() | post.keys():
        if name not in pre or name not in post:
            yield f"table {name} is in one of the two states only"
            continue
        old, new = pre[name].rows, post[name].rows
        if old == new:
            continue
        for key in old.keys() | new.keys():
            if old.get(key) != new.get(key) and (name, key) not in written:
                yield f"{name} {key} changed and nobody wrote it"


def _agreement(trial: Trial) -> Iterator[str]:
    """Whether the history row and the plan's texts say what the rows say."""
    plan, world = trial.plan, trial.world
    change = next((item for item in plan.operations if item.op == "update" and item.columns), None)
    pre = trial.best.evidence.pre
    if (
        _cell(pre, *plan.arm) is None
        or world.display(pre, plan.arm[0], plan.arm[2], _cell(pre, *plan.arm)) != plan.arm_text
    ):
        yield f"the fact is not {plan.arm_text!r} before the change"
    if change is None or plan.phase == AFTER:
        if plan.new_text != plan.arm_text:
            yield "the plan names a new value and changes nothing"
        return
    if len(change.columns) != 1:
        yield f"the change writes {len(change.columns)} columns"
    column, (old, new) = next(iter(change.columns.items()))
    texts = [world.display(pre, change.table, column, value) for value in (old, new)]
    if _cell(pre, change.table, change.key, column) != old or old == new:
        yield f"{change.table} {change.key} {column} is not {old!r} before the change, or stays so"
    told = [
        [item.columns.get(name, (None, None))[1] for name in ("record", "record_id", "field", "old", "new")]
        for item in plan.operations
        if item.table == "history"
    ]
    taken = [item for item in plan.operations if item.op == "insert" and item.table == plan.commit_table]
    held = [(item.table, item.key_from, item.columns.get(column)) for item in world.commit(plan.task).consequences]
    if taken:
        named = [(change.table, name, new) for name, (_, key) in taken[0].columns.items() if key == change.key]
        if told or len(taken) > 1 or not set(held) & set(named):
            yield f"the row of who took {change.table} {change.key} does not hold it"
    elif told != [[change.table, change.key, column, *texts]]:
        yield f"the history does not say {column}: {texts[0]!r} to {texts[1]!r}"
    if (change.table, change.key, column) == plan.arm and plan.new_text != texts[1]:
        yield f"the plan says {plan.new_text!r}, the row {texts[1]!r}"


def _cell(state: State, table: str, key: int, column: str) -> Scalar:
    found = state.get(table)
    if found is None or key not in found.rows or column not in found.columns:
        return None
    return found.rows[key][found.columns.index(column)]


@rule(
    FAMILY,
    "R5",
    "only the agent's own direct requests arm and fire",
    "OneShot must look at the actor and at how the request came about",
)
def agent_only(trial: Trial) -> Finding:
    """Rule 5: the request that armed and the one that fired are the agent's own, of its one session, by GET."""
    found: dict[str, list[str]] = {}
    for name, run in trial.distinct.items():
        log = run.log
        frames = {frame.number: frame for _, frame in log.frames}
        for _, fire in log.fires:
            asked = log.asked(frames[fire.armed_by]) if fire.armed_by in frames else None
            if asked is None or not own(asked) or asked.route not in trial.plan.surfaces:
                _add(found, name, f"frame {fire.armed_by} armed, which shows no page that the agent asked for")
            firing = log.requests.get(fire.request)
            if firing is None or not fires(firing[1], trial.plan):
                _add(found, name, f"request {fire.request} fired, which is not one that may")
            if asked and firing and asked.session != firing[1].session:
                _add(found, name, f"armed in session {asked.session}, fired in {firing[1].session}")
    return faults(found, {"fired": _fired(trial)})


@rule(
    FAMILY,
    "R6",
    "every condition of the instance does the same number of operations at the trigger",
    "put neutral operations into the plan of the condition that does fewer",
)
def operations(trial: Trial) -> Finding:
    """Rule 6: plans of one length, and journals of one length, the guard's row included, in all arms."""
    found: dict[str, list[str]] = {}
    planned = {name: len(plan.operations) for name, plan in trial.twin.plans.items()}
    if len(set(planned.values())) != 1:
        _add(found, "plan", f"operations by condition: {planned}")
    usual = len(trial.twin.run.log.changes)
    for name, run in trial.distinct.items():
        if run.log.fires and len(run.log.changes) != usual:
            _add(found, name, f"{len(run.log.changes)} journal rows, {usual} in the control arm")
        for _, fire in run.log.fires:
            if fire.operations != len(trial.plan.operations):
                _add(found, name, f"the firing says {fire.operations} operations")
    return faults(found, {"operations": planned[trial.condition], "journal_rows": usual})


@rule(
    FAMILY,
    "E31",
    "the receipt chain: old value handed over, then the change, then the commit, then the commit seen",
    "look at the frames between the named places",
)
def receipts(trial: Trial) -> Finding:
    """E31: armed < fired < committed < seen in the oracle's episode, recomputed from the stored observations.

    A change of what the commit has stored comes after the commit, and before anybody sees it.
    """
    log = trial.best.log
    commit = log.commits[0] if log.commits else None
    seen = None
    if commit is not None:
        row = {name: new for name, (_, new) in commit[1].columns.items()}
        texts = [text for text in trial.world.describe(trial.best.evidence.post, row).values() if text]
        pages = (
            place for place, frame in log.frames if place > commit[0] and any(text in frame.page for text in texts)
        )
        seen = next(pages, None)
    places = {
        "armed": log.armed[0] if log.armed else None,
        "fired": log.fired_at if log.fires else None,
        "committed": commit[0] if commit else None,
        "seen": seen,
    }
    if trial.plan.phase == AFTER:
        places = {name: places[name] for name in ("armed", "committed", "fired", "seen")}
    order = [place for place in places.values() if place is not None]
    passed = len(order) == len(places) and order == sorted(order)
    new = [
        frame.number for place, frame in log.frames if _between(log, place) and trial.plan.new_text in log.shows(frame)
    ]
    if passed and trial.plan.new_text != trial.plan.arm_text and not new:
        return Finding(False, places, "the new value was never handed over between the change and the commit")
    return Finding(passed, places)


def _between(log: Log, place: int) -> bool:
    return bool(log.commits) and log.fired_at < place < log.commits[0][0]


@rule(
    FAMILY,
    "E33",
    "all arms of an instance are the same up to the request that fires",
    "something that the condition decides shows before the change: compare the first differing records",
)
def prefix(trial: Trial) -> Finding:
    """E33: the oracle's records before the firing equal those of the control arm, wall times and identity aside."""
    mine, other = trial.best, trial.twin.run
    length = min(mine.log.fired_at, other.log.fired_at)
    left, right = quiet(mine.evidence.records[1:length]), quiet(other.evidence.records[1:length])
    measured = {"records": length - 1, "digest": digest(left) if trial.deep else ""}
    if left == right and _who(mine) == _who(other):
        return Finding(True, measured)
    for place, (one, two) in enumerate(zip(left, right, strict=True), 1):
        if one != two:
            return Finding(False, measured, {"record": place, "differs": _difference(one, two)})
    return Finding(False, measured, {"identity": [_who(mine), _who(other)]})


def _difference(left: Record, right: Record) -> list[str]:
    """Two records' text around the first place where they differ."""
    one, two = str(left), str(right)
    at = next((at for at, pair in enumerate(zip(one, two, strict=False)) if pair[0] != pair[1]), 0)
    return [text[max(0, at - 40) : at + 40] for text in (one, two)]


def quiet(records: tuple[Record, ...]) -> tuple[Record, ...]:
    """Records without wall times."""
    return tuple(record._replace(wall_ms=0.0) if type(record) is Action else record for record in records)


def digest(records: tuple[Record, ...]) -> str:
    """The SHA-256 of records as a chained ledger."""
    return sha256("\n".join(chain(records)))


def _who(run: Run) -> str:
    identity = dict(run.evidence.start.identity)
    return canonical({name: identity[name] for name in sorted(identity) if name != "condition"})


@rule(
    FAMILY,
    "E16",
    "nothing of the evaluator's is ever handed over",
    "a page or an error shows the canary: take evaluator tables out of that query",
)
def canary(trial: Trial) -> Finding:
    """E16: the instance's canary is in no observation of any policy."""
    token = trial.instance.canary
    found: dict[str, list[str]] = {}
    frames = 0
    for name, run in trial.distinct.items():
        for _, frame in run.log.frames:
            frames += 1
            if any(token in text for text in (frame.page, frame.elements, frame.notice, frame.error, frame.url)):
                _add(found, name, f"frame {frame.number} at {frame.url} holds the canary")
    if token in trial.instance.brief:
        _add(found, "brief", "the brief holds the canary")
    return faults(found, {"frames": frames})


def _add(found: dict[str, list[str]], name: str, said: str) -> None:
    found.setdefault(name, []).append(said)


def _fired(trial: Trial) -> int:
    return sum(bool(run.log.fires) for run in trial.distinct.values())
