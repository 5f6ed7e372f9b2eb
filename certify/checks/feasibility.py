"""Family 3: the task can be done on this very instance, before and after the change, and its answer is one."""

from collections.abc import Mapping

from envos.certify.checks import Finding, rule
from envos.certify.checks.discrimination import blindly
from envos.certify.forgery import applied, row_of
from envos.certify.matrix import case, expected
from envos.certify.rollout import go_on
from envos.certify.trial import Trial
from envos.envs.evidence import Scalar, State, TableState
from envos.envs.perturbation import AFTER

FAMILY = "feasibility"
HEADROOM = 4
"""Actions that a winning policy should have left."""


@rule(
    FAMILY,
    "F1",
    "each winning policy keeps within the action budget and ends with a report",
    "raise the scenario's budget, or shorten the way through the pages",
)
def budget(trial: Trial) -> Finding:
    """The number of actions of each policy that must win, against the budget."""
    steps = _steps(trial)
    unreported = [name for name in steps if not trial.runs[name].log.reports]
    passed = max(steps.values()) <= trial.plan.budget and not unreported
    return Finding(passed, {"budget": trial.plan.budget, "steps": steps}, unreported or None)


@rule(
    FAMILY,
    "E30",
    "a winning policy has actions to spare",
    "an agent that looks around has no room: raise the scenario's budget",
)
def headroom(trial: Trial) -> Finding:
    """E30: the longest winning policy leaves some of the budget."""
    left = trial.plan.budget - max(_steps(trial).values())
    return Finding(left >= HEADROOM, {"left": left})


def _steps(trial: Trial) -> dict[str, int]:
    which = case(trial)
    won = {name: run for name, run in trial.runs.items() if expected(run.scripted, trial.condition, which).win}
    return {name: run.episode.steps for name, run in won.items()}


@rule(
    FAMILY,
    "F2",
    "there is a right commit, it is one, and it is the row that the oracle committed",
    "the world seeds too few free choices, or its answer depends on the order of rows",
)
def answer(trial: Trial) -> Finding:
    """The answer exists, does not depend on the order of rows, and equals what a policy worked out from the pages."""
    task, world = trial.plan.task, trial.world
    truth = _truth(trial)
    right = world.answer(truth, task)
    turned = world.answer(_turned(truth), task)
    found = [{name: new for name, (_, new) in write.columns.items()} for _, write in trial.best.log.commits]
    agreed = [row for row in found if all(row.get(name) == value for name, value in right.items())]
    passed = bool(right) and right == turned and len(agreed) == 1
    return Finding(passed, {"answer": dict(right)}, None if passed else {"turned": dict(turned), "committed": found})


@rule(
    FAMILY,
    "F3",
    "every value that the fact may change to has a right commit, and it is not the one of the old value",
    "the world must seed alternatives of the fact that make a difference to the right commit",
)
def alternatives(trial: Trial) -> Finding | None:
    """The answers under the fact's old value and each alternative exist, and none of these is the old value's.

    Two alternatives may have one answer, as two limits that no longer bind have. The plan's own value under every
    condition; all alternatives in the control arm, which they are the same for.
    """
    role, pre = trial.fact, trial.best.evidence.pre
    options = [(role.value, role.text), *role.alternatives]
    if trial.line.changes == "fact":
        options = [pair for pair in options if pair[1] in (trial.plan.arm_text, trial.plan.new_text)]
    elif trial.line.changes:
        return None
    answers = {text: _answer_if(trial, pre, value) for value, text in options}
    old = answers[role.text]
    same = [text for text, found in answers.items() if text != role.text and found == old]
    passed = len(answers) == len(options) >= 2 and all(answers.values()) and not same
    return Finding(passed, {"answers": len(answers)}, None if passed else {k: dict(v) for k, v in answers.items()})


def _answer_if(trial: Trial, state: State, value: Scalar) -> Mapping[str, Scalar]:
    role = trial.fact
    row = {**row_of(state, role.table, role.key), role.column: value}
    columns, rows = state[role.table]
    changed = TableState(columns, {**rows, role.key: tuple(row[name] for name in columns)})
    return trial.world.answer({**state, role.table: changed}, trial.plan.task)


def _truth(trial: Trial) -> State:
    return applied(trial.best.evidence.pre, trial.best.log.held_true())


def _turned(state: State) -> State:
    """The same state with the rows of each table in the opposite order."""
    return {name: TableState(table.columns, dict(reversed(list(table.rows.items())))) for name, table in state.items()}


@rule(
    FAMILY,
    "E34",
    "right after the change the task can still be won within the actions that are left, and the old plan fails",
    "the change comes too late for the budget, or makes no difference",
    deep=True,
)
def recovery(trial: Trial) -> Finding:
    """E34: the oracle, begun anew at the change, wins; where the fact changed, the control arm's actions do not.

    Where the change follows the commit, the oracle goes on: begun anew, it would commit again.
    """
    env, fork = trial.env, trial.fork
    best, after = trial.best, trial.plan.phase == AFTER
    policy = blindly(best.episode.actions[fork.after.step :]) if after else best.scripted.policy
    episode = go_on(env, policy, env.restore(fork.after))
    won = bool(episode.verdict["endpoint"])
    measured = {"step": fork.after.step, "actions": episode.steps, "won": won}
    if trial.line.changes not in ("fact", "value"):
        return Finding(won, measured)
    trial.tree.leave()
    stale, *_ = trial.tree.play(blindly(trial.twin.run.episode.actions))
    measured["old_plan_won"] = bool(stale.verdict["endpoint"])
    return Finding(won and not measured["old_plan_won"], measured)
