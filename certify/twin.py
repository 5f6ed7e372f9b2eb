"""Twin episodes: one policy in several conditions of an instance, from a shared snapshot; and what a change costs it.

The prefix is played once, in the first condition. Each other arm goes on from the snapshot before the step in which it
parts from it: the step that fires the change in either of them, or that opens a review step which shows them different
things. Under the anchor "any" that is not the same step for all of them, as an announced change is drawn from other
pages than a silent one, and a review may be opened before anything fires. Up to there the arms are one episode, so that
each is, to the last record, the episode that its condition would have had by itself.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from envos.certify.certificate import make_env
from envos.certify.policies import Observation, Policy, Steps, policies
from envos.certify.rollout import go_on, reply
from envos.certify.trial import control
from envos.envs.env import EnvOS, Snapshot
from envos.envs.evidence import Fire, Record, Request, Write
from envos.envs.instance import plan as make_plan
from envos.envs.perturbation import OneShot, Plan
from envos.envs.roles import World
from envos.envs.scenario import Scenario, check_anchor, check_condition, scenario
from envos.errors import UnknownName, UsageError

_ALIKE = ("world", "budget", "opened", "task", "arm", "arm_text", "surfaces", "watched", "commit_table", "review_route")
"""What two plans must have in common for their arms to be one episode until they part."""


class Arm(NamedTuple):
    """One arm: verdict (as in `info`), reward, actions, how many of them were played once for all, evidence digest."""

    verdict: Mapping[str, Any]
    reward: float
    actions: tuple[str, ...]
    shared: int
    digest: str

    @property
    def steps(self) -> int:
        """The number of actions."""
        return len(self.actions)


class _Branch(NamedTuple):
    """Where an arm goes on: the snapshot, and the number of actions before it."""

    snapshot: Snapshot
    shared: int


def twin(
    environment: str,
    seed: int,
    conditions: Sequence[str] | None = None,
    *,
    policy: str | Policy = "reference",
    split: str = "train",
    anchor: str = "any",
) -> dict[str, Arm]:
    """Run a policy through several conditions of an instance, all of them by default: {condition: arm}.

    `policy` is the name of a scripted policy, or a generator function that is called with the first observation; what
    it does must follow from what it is shown. Raises UsageError where it does not, UnknownName for an unknown name.
    """
    line = scenario(environment)
    name, act = _named(line, policy)
    chosen = _conditions(line, line.conditions if conditions is None else conditions)
    env = make_env(line.id, split)
    try:
        return arms(env, seed, chosen, act, check_anchor(anchor), name)
    finally:
        env.close()


def arms(
    env: EnvOS, seed: int, conditions: Sequence[str], policy: Policy, anchor: str, name: str = ""
) -> dict[str, Arm]:
    """The arms of an instance in an environment that is there already; `name` is the policy's for the evidence."""
    base = conditions[0]
    first, _ = env.reset(seed=seed, options={"condition": base, "anchor": anchor, "policy": name})
    waiting = {other: make_plan(env.instance, env.phenomenon, other, anchor) for other in conditions[1:]}
    branches: dict[str, _Branch] = {}
    seen: list[Observation] = [first]
    acted: list[str] = []
    steps = policy(dict(first))
    action = next(steps)
    while True:
        before, length = env.snapshot(), len(env.ledger)
        observation, reward, terminated, truncated, info = env.step(action)
        ended = terminated or truncated
        records = env.ledger.records()[length:]
        for other in [
            other for other, plan in waiting.items() if ended or parts(env.plan, plan, before, records, env.world)
        ]:
            branches[other] = _Branch(before, len(acted))
            del waiting[other]
        acted.append(action)
        if ended:
            steps.close()
            break
        seen.append(observation)
        action = reply(steps, observation)
    found = {base: Arm(dict(info["verdict"]), float(reward), tuple(acted), len(acted), env.evidence().digest)}
    for other in conditions[1:]:
        found[other] = _arm(env, other, branches[other], policy, seen, acted)
    return found


def _arm(
    env: EnvOS, condition: str, branch: _Branch, policy: Policy, seen: Sequence[Observation], acted: Sequence[str]
) -> Arm:
    """Go on from a branch as another condition."""
    shared = branch.shared
    observation = env.restore(branch.snapshot, condition)
    episode = go_on(env, resumed(policy, seen[: shared + 1], acted[:shared]), observation)
    actions = (*acted[:shared], *episode.actions)
    return Arm(episode.verdict, episode.reward, actions, shared, env.evidence().digest)


def resumed(policy: Policy, seen: Sequence[Observation], acted: Sequence[str]) -> Policy:
    """A policy that goes on where this one stands after these observations and actions.

    A generator cannot be copied, so a new one is shown what the first one was shown; that it acts as the first one did
    also proves that the prefix is common to both.
    """

    def act(observation: Observation) -> Steps:
        steps = policy(dict(seen[0]))
        action = next(steps)
        for did, shown in zip(acted, seen[1:], strict=True):
            if action != did:
                raise UsageError(f"twin episodes need a policy that acts alike when shown the same: {did} or {action}")
            action = reply(steps, dict(shown))
        while True:
            observation = yield action
            action = reply(steps, observation)

    return act


def parts(base: Plan, other: Plan, before: Snapshot, records: Sequence[Record], world: World) -> bool:
    """Whether a step, played under one plan from a snapshot, may not be what it would have been under another one."""
    if any(getattr(base, name) != getattr(other, name) for name in _ALIKE):
        return True
    if any(isinstance(record, Fire) for record in records):
        return True
    asked = [record for record in records if isinstance(record, Request)]
    if base.review != other.review and any(request.route == base.review_route for request in asked):
        return True
    shot = OneShot(other)
    shot.restore(before.oneshot)
    return any(
        shot.due(request.actor, request.via, request.method, request.route, made)
        and (made is not None or other.concerns(request.params, world.reviewed))
        for request in asked
        for made in (None, _made(records, request, other))
    )


def _made(records: Iterable[Record], request: Request, plan: Plan) -> Write | None:
    """The first commit that a request made."""
    writes = (record for record in records if isinstance(record, Write) and record.request == request.number)
    return next((w for w in writes if (w.actor, w.op, w.table) == ("agent", "insert", plan.commit_table)), None)


def _named(line: Scenario, policy: str | Policy) -> tuple[str, Policy]:
    if not isinstance(policy, str):
        return "", policy
    known = policies(line.world, line.phenomenon)
    if policy not in known:
        raise UnknownName(f"policy of {line.id}", policy, known)
    return policy, known[policy].policy


def _conditions(line: Scenario, given: Sequence[str]) -> tuple[str, ...]:
    if isinstance(given, str) or not given:
        raise UsageError(f"conditions are a list of names; got {given!r}")
    for name in given:
        if check_condition(line, name) == "mixed":
            raise UnknownName(f"condition of {line.id}", name, line.conditions)
    return tuple(dict.fromkeys(given))


@dataclass(frozen=True, slots=True)
class Gap:
    """What a silent change costs a policy: success without it minus success with it, over pairs of episodes.

    A pair is one seed, played without and with the change, if both episodes count; `uncounted` are the other seeds.
    `lost` pairs succeed without the change only, `won` with it only. Rates, actions (means) and the gap, which is
    (lost - won) / pairs, are None without a pair.
    """

    condition: str
    pairs: int
    uncounted: int
    both: int
    lost: int
    won: int
    neither: int
    without_change: float | None
    with_change: float | None
    gap: float | None
    actions_without: float | None
    actions_with: float | None

    def to_json(self) -> dict[str, Any]:
        """The gap as JSON data."""
        return asdict(self)


def silent(env: EnvOS) -> tuple[str, ...]:
    """The conditions of an environment in which something changes and nobody says so."""
    lines = env.phenomenon.conditions
    return tuple(name for name in env.scenario.conditions if lines[name].changes and lines[name].channel == "none")


def gap(
    environment: str,
    policy: str | Policy,
    seeds: Iterable[int],
    *,
    split: str = "train",
    anchor: str = "any",
    progress: Callable[[int], None] | None = None,
) -> dict[str, Gap]:
    """The causal staleness gap of a policy in each silent condition: {condition: gap}.

    A change of something irrelevant is silent, too: there the gap of a sound policy is 0. `progress` is told the number
    of seeds done. Raises UsageError and UnknownName as `twin`.
    """
    line = scenario(environment)
    name, act = _named(line, policy)
    env = make_env(line.id, split)
    try:
        still, changed = control(env), silent(env)
        played = []
        for seed in seeds:
            played.append(arms(env, seed, (still, *changed), act, check_anchor(anchor), name))
            if progress is not None:
                progress(len(played))
    finally:
        env.close()
    return {name: paired(name, [(found[still], found[name]) for found in played]) for name in changed}


def paired(condition: str, pairs: Sequence[tuple[Arm, Arm]]) -> Gap:
    """The gap over pairs of arms, without and with the change."""
    counted = [pair for pair in pairs if all(arm.verdict["counted"] for arm in pair)]
    n = len(counted)
    ends = [(bool(without.verdict["endpoint"]), bool(changed.verdict["endpoint"])) for without, changed in counted]
    both, lost, won = (ends.count(pair) for pair in ((True, True), (True, False), (False, True)))

    def share(count: int) -> float | None:
        return count / n if n else None

    return Gap(
        condition,
        n,
        len(pairs) - n,
        both,
        lost,
        won,
        n - both - lost - won,
        share(both + lost),
        share(both + won),
        share(lost - won),
        share(sum(without.steps for without, _ in counted)),
        share(sum(changed.steps for _, changed in counted)),
    )
