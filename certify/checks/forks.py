"""Family 1, asked of the running application: forked episodes around the request that fires. All deep."""

from dataclasses import replace

from envos.certify.checks import Finding, rule
from envos.certify.checks.trigger import FAMILY
from envos.certify.forgery import bump, row_of
from envos.certify.log import GUARD
from envos.certify.probes import (
    acted,
    before,
    clipped,
    crawl,
    entered,
    faulted,
    fired,
    notices,
    opened,
    redirecting,
    shown,
    visit,
)
from envos.certify.trial import Trial, in_world, planted, with_row
from envos.envs.action import goto
from envos.envs.evidence import Scalar
from envos.envs.perturbation import AFTER, Operation

_LISTED = 5


@rule(
    FAMILY,
    "R2.entry",
    "the handler of the firing request finds the change done",
    "Application must call OneShot.fire before the handler, not after it",
    deep=True,
)
def entry(trial: Trial) -> Finding:
    """Rule 2: as the firing request's handler is entered, the guard has its row and the cell its new value.

    A change of what the commit has stored is not done yet then, and there is no such row.
    """
    change = next((item for item in trial.plan.operations if item.op == "update" and item.columns), None)
    wanted = None if change is None else next(iter(change.columns.values()))[1]
    firing = trial.best.log.fires[0][1].request
    seen = [(guard, cell) for number, guard, cell in entered(trial) if number == firing]
    due = (0, None) if trial.plan.phase == AFTER else (1, wanted)
    return Finding(seen == [due], {"guard_and_cell": [list(pair) for pair in seen]}, {"wanted": list(due)})


@rule(
    FAMILY,
    "R3.guard",
    "the guard in the database stops a second firing by itself",
    "the guard must be a unique row that the transaction of the change inserts, not a variable",
    deep=True,
)
def guard(trial: Trial) -> Finding:
    """Rule 3: with the variables of the trigger set back to armed, the next eligible request changes nothing.

    A change of what the commit has stored has no second commit to follow: the commit finds the guard's row there.
    """
    fork = trial.fork
    if trial.plan.phase == AFTER:
        return _guarded(trial)
    forgetful = replace(fork.after, oneshot=(fork.after.oneshot[0], False, False))
    records = visit(trial.env, forgetful, fork.url)
    state = trial.env.state_now()
    trial.env.restore(fork.after)
    differing = [name for name, table in trial.env.state_now().items() if table != state[name]]
    passed = not fired(records) and not differing and not faulted(records)
    return Finding(passed, {"firings": fired(records), "tables_changed": differing})


def _guarded(trial: Trial) -> Finding:
    fork = trial.fork
    held = with_row(trial.world, fork.before, GUARD, {"id": 1, "request": 0})
    never = replace(trial.plan, when={"id": 0})
    records = acted(trial.env, held, fork.again)
    state = trial.env.state_now()
    acted(trial.env, replace(held, plan=never), fork.again)
    differing = [name for name, table in trial.env.state_now().items() if table != state[name]]
    passed = not fired(records) and not differing and not faulted(records)
    return Finding(passed, {"firings": fired(records), "tables_changed": differing})


@rule(
    FAMILY,
    "R4.atomic",
    "the operations stand together or not at all",
    "OneShot.fire must carry out guard and operations in one transaction",
    deep=True,
)
def atomic(trial: Trial) -> Finding:
    """Rule 4: with an operation added that cannot be carried out, the firing leaves every table as it was.

    Where the commit's own request fires, that is as the commit alone leaves it.
    """
    env, fork = trial.env, trial.fork
    env.restore(fork.before)
    if trial.plan.phase == AFTER:
        acted(env, replace(fork.before, plan=replace(trial.plan, when={"id": 0})), fork.again)
    before = env.state_now()
    impossible = Operation("insert", "no_such_table", 0, {"value": (None, "-")})
    plan = replace(trial.plan, operations=(*trial.plan.operations, impossible))
    acted(env, replace(fork.before, plan=plan), fork.again)
    differing = [name for name, table in env.state_now().items() if table != before[name]]
    return Finding(not differing, {"tables_changed": differing})


@rule(
    FAMILY,
    "R5.harness",
    "a page that the harness asked for arms nothing",
    "OneShot.deliver must look at Request.actor",
    deep=True,
)
def harness(trial: Trial) -> Finding:
    """Rule 5: an episode whose first page, which the harness asks for, is the source; the agent goes to the form."""
    env, again = trial.env, trial.fork.again
    with in_world(env, replace(env.world, home=trial.surfaces()[0])):
        records = acted(env, opened(trial), again)
    return Finding(not fired(records), {"firings": fired(records)})


@rule(
    FAMILY,
    "R5.redirect",
    "a page that a redirect led to neither arms nor fires",
    "OneShot.deliver and OneShot.due must look at Request.via",
    deep=True,
)
def redirect(trial: Trial) -> Finding:
    """Rule 5: led to the source by a redirect, then to the form; and, armed, led to the form by a redirect."""
    env, fork = trial.env, trial.fork
    world, probe = redirecting(env.world, trial.surfaces()[0])
    with in_world(env, world):
        arming = fired(acted(env, opened(trial), goto(probe), fork.again))
    world, probe = redirecting(env.world, fork.url)
    with in_world(env, world):
        firing = fired(visit(env, fork.before, probe))
    return Finding(not arming and not firing, {"after_redirected_source": arming, "in_redirected_form": firing})


@rule(
    FAMILY,
    "R7",
    "what is shown comes from the row, never from the perturbation's own variables",
    "pages, the review step and notices must read the row at the time of the request",
    deep=True,
)
def from_row(trial: Trial) -> Finding:
    """Rule 7: another value is put into the row behind everything; sources, review step and notice must show it."""
    env, plan, fork = trial.env, trial.plan, trial.fork
    value, text = _another(trial)
    snapshot = planted(trial.world, fork.after, *plan.arm, value)
    urls = trial.surfaces()
    review = next(
        (frame.url for _, frame in trial.best.log.frames if _route(trial, frame.url) == plan.review_route), ""
    )
    if plan.review == "value":
        urls.append(review)
    pages = {url: shown(visit(env, snapshot, url), plan.arm) for url in urls}
    wrong = [url for url, texts in pages.items() if texts != [text]]
    if plan.announced:
        change = next(item for item in plan.operations if item.op == "update" and item.columns)
        column = next(iter(change.columns))
        told = planted(trial.world, fork.after, change.table, change.key, column, value)
        said = notices(visit(env, told, env.world.home))
        if not said or text not in said[0]:
            wrong.append(f"notice: {said[:1]}")
    return Finding(not wrong, {"planted": text, "shown": pages}, wrong or None)


def _another(trial: Trial) -> tuple[Scalar, str]:
    """Another value of the cell that arms than those that it has, and its text."""
    plan, role = trial.plan, trial.fact
    table, key, column = plan.arm
    if plan.arm == (role.table, role.key, role.column):
        return next(item for item in role.alternatives if item[1] not in {plan.arm_text, plan.new_text})
    pre = trial.best.evidence.pre
    value = bump(row_of(pre, table, key)[column])
    return value, trial.world.display(pre, table, column, value)


def _route(trial: Trial, url: str) -> str:
    return trial.world.routes.resolve(url.partition("?")[0])[0]


@rule(
    FAMILY,
    "R8",
    "the source stays readable, and shows the current value, in every condition",
    "a page of the fact's surfaces is refused, clipped or stale after the change",
    deep=True,
)
def readable(trial: Trial) -> Finding:
    """Rule 8: right after the change, each page that serves the fact hands over the current value.

    That is the plan's new value, but where the commit came first: what it took, its own page says.
    """
    env, plan = trial.env, trial.plan
    table, key, column = plan.arm
    pages = {url: shown(visit(env, trial.fork.after, url), plan.arm) for url in trial.surfaces()}
    now = env.state_now()
    current = trial.world.display(now, table, column, row_of(now, table, key)[column])
    wanted = current if plan.phase == AFTER else plan.new_text
    return Finding(wanted == current and all(texts == [wanted] for texts in pages.values()), {"shown": pages})


@rule(
    FAMILY,
    "E32",
    "a value that was clipped away arms nothing",
    "OneShot.deliver must look at what the observation holds (Frame.delivered), not at what was served",
    deep=True,
)
def hidden(trial: Trial) -> Finding:
    """E32: observations cut off one code point before the value's end do not arm; with that code point, they do."""
    log = trial.best.log
    if log.armed is None:
        return Finding(False, {"armed": False})
    frame = log.armed[1]
    cell = next(item for item in frame.delivered if item[:3] == trial.plan.arm)
    end = cell.offset + len(cell.text)
    counts = {limit: clipped(trial, limit, goto(frame.url), trial.fork.again) for limit in (end - 1, end)}
    return Finding(counts == {end - 1: 0, end: 1}, {"firings_by_limit": {str(key): n for key, n in counts.items()}})


@rule(
    FAMILY,
    "E35",
    "no page tells the arms apart before the change",
    "a page depends on the condition: only the review step may",
    deep=True,
)
def side_channel(trial: Trial) -> Finding | None:
    """E35: every page of the application, with its URLs, ids, hidden fields and order, equals the control arm's.

    The review step is left out: what it discloses is the condition.
    """
    if trial.twin.tree is trial.tree:
        return None
    mine, other = before(trial, trial.tree), before(trial, trial.twin.tree)
    resolve, review = trial.world.routes.resolve, trial.plan.review_route
    urls = [url for url in mine.keys() | other.keys() if resolve(url.partition("?")[0])[0] != review]
    differing = [url for url in urls if mine.get(url) != other.get(url)]
    return Finding(not differing, {"pages": len(mine)}, sorted(differing)[:_LISTED] or None)


@rule(
    FAMILY,
    "E16.pages",
    "no page of the application holds anything of the evaluator's, before or after the change",
    "take the evaluator's tables out of the query, and the plan out of the handler",
    deep=True,
)
def leaks(trial: Trial) -> Finding:
    """E16: the canary and the evaluator's table names are on no page, in no link and in no hidden field."""
    words = (trial.instance.canary, "perturbation", "canary")
    found: list[str] = []
    count = 0
    for pages in (before(trial, trial.tree), crawl(trial.env, trial.fork.after)):
        for url, page in pages.items():
            count += 1
            text = repr(page)
            found += [f"{url}: {word}" for word in words if word in text]
    return Finding(not found, {"pages": count}, found[:_LISTED] or None)


@rule(
    FAMILY,
    "R1.unread",
    "without the source having been read, the form fires nothing",
    "OneShot.due must ask whether it is armed",
    deep=True,
)
def unread(trial: Trial) -> Finding:
    """Rule 1: the form's page is opened, by the agent, before anything else."""
    trial.env.restore(opened(trial))
    length = len(trial.env.ledger)
    trial.env.step(goto(trial.fork.url))
    firings = fired(trial.env.ledger.records()[length:])
    return Finding(not firings, {"firings": firings})
