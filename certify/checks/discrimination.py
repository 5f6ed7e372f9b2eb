"""Family 2: the conditions tell policies apart as the matrix of protocol section 5 says, and nothing else pays."""

from collections.abc import Iterable

from envos.certify.checks import Finding, rule
from envos.certify.matrix import Cell, cells
from envos.certify.policies import Observation, Policy, Steps
from envos.certify.rollout import play
from envos.certify.trial import Trial

FAMILY = "discrimination"
OTHER_SEEDS = 20
"""Other instances on which a deep trial replays the oracle's actions blindly."""


@rule(
    FAMILY,
    "E01",
    "each policy that is declared to win under this condition reaches the full endpoint",
    "read the verdict's invariants: the world, the policy or the grader is wrong about this instance",
)
def winners(trial: Trial) -> Finding:
    """E01: counted, endpoint and reward 1.0, through the agent's own interface, without a failure's signature."""
    return _rows(row for row in cells(trial) if row.expected.win)


@rule(
    FAMILY,
    "M1",
    "each policy that is declared deficient under this condition fails as declared",
    "read the verdict: the deficiency must cost the endpoint, and so many invariants, under its signature",
)
def deficient(trial: Trial) -> Finding | None:
    """The matrix: endpoint 0, the declared number of invariants lost, the declared signature."""
    rows = [row for row in cells(trial) if row.expected.signature]
    return _rows(rows) if rows else None


@rule(
    FAMILY,
    "E02",
    "no shortcut reaches the endpoint",
    "the shortcut has found a way: the endpoint does not say what the task means",
)
def shortcuts(trial: Trial) -> Finding:
    """E02: shortcuts and policies of which no win is declared; what they reached is the measured floor."""
    return _rows(row for row in cells(trial) if not row.expected.win and not row.expected.signature)


def _rows(rows: Iterable[Cell]) -> Finding:
    rows = list(rows)
    wrong = {row.policy: row.wrong for row in rows if row.wrong}
    return Finding(not wrong, {row.policy: row.fraction for row in rows}, wrong or None)


@rule(
    FAMILY,
    "E13.twin",
    "the control arm's actions, repeated blindly, do not reach the endpoint where the fact changes",
    "the changed instance can be won without looking: the new value makes no difference to the right commit",
)
def blind(trial: Trial) -> Finding | None:
    """E13: the oracle's actions in the control arm, open loop, on this arm."""
    if trial.line.changes not in ("fact", "value"):
        return None
    episode, *_ = trial.tree.play(blindly(trial.twin.run.episode.actions))
    return Finding(not episode.verdict["endpoint"], {"fraction": episode.verdict["fraction"]})


@rule(
    FAMILY,
    "E13.seeds",
    "this instance's winning actions, repeated blindly, reach the endpoint on no other instance",
    "instances are too much alike: vary rows, names and the order of slots by the seed",
    deep=True,
)
def elsewhere(trial: Trial) -> Finding:
    """E13: the oracle's actions, open loop, on the next seeds."""
    seeds = [(trial.seed + 1 + number) % 2**63 for number in range(OTHER_SEEDS)]
    policy = blindly(trial.best.episode.actions)
    won = [seed for seed in seeds if play(trial.env, policy, seed, dict(trial.options)).verdict["endpoint"]]
    return Finding(not won, {"seeds": len(seeds), "won": won})


def blindly(actions: Iterable[str]) -> Policy:
    """A policy that does these actions, whatever it is shown."""
    fixed = tuple(actions)

    def act(observation: Observation) -> Steps:
        for action in fixed:  # noqa: UP028 - a tuple could not be sent the observations
            yield action

    return act
