"""A trial: one instance under one condition and anchor, with the episode of every scripted policy.

The policies run once; every check reads their evidence. Deep trials also hold a fork of the oracle's episode at the
request that fires.
"""

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from envos.certify.log import Log, read
from envos.certify.policies import Scripted, policies
from envos.certify.rollout import Episode, play
from envos.envs.env import EnvOS, Snapshot
from envos.envs.evidence import Evidence, Record, Scalar, Verifier
from envos.envs.instance import Instance
from envos.envs.instance import plan as make_plan
from envos.envs.perturbation import Plan
from envos.envs.roles import Condition, Fact, World
from envos.errors import UsageError


class Run(NamedTuple):
    """One policy's episode, its evidence, and its log as certification reads it."""

    scripted: Scripted
    episode: Episode
    evidence: Evidence
    log: Log

    @property
    def counted(self) -> bool:
        """Whether the episode has an outcome."""
        return bool(self.episode.verdict["counted"])


class Fork(NamedTuple):
    """The oracle's episode just before and just after the step that fires, that step's action, and the page's URL."""

    before: Snapshot
    after: Snapshot
    action: str
    url: str


class Twin(NamedTuple):
    """What all conditions of an instance share: their plans, and the control arm's episode of the oracle."""

    plans: Mapping[str, Plan]
    run: Run


@dataclass(frozen=True)
class Trial:
    """One instance under one condition and anchor.

    `oracle` names the policy that wins under every condition; `twin` is the same instance's control arm, in which nothing
    changes. `line` is the condition, `verifier` the grader under test.
    """

    env: EnvOS
    seed: int
    condition: str
    anchor: str
    instance: Instance
    plan: Plan
    oracle: str
    runs: Mapping[str, Run]
    twin: Twin
    verifier: Verifier
    deep: bool

    @property
    def world(self) -> World:
        """The instance's world."""
        return self.env.world

    @property
    def line(self) -> Condition:
        """The condition as data."""
        return self.env.phenomenon.conditions[self.condition]

    @property
    def fact(self) -> Fact:
        """The fact's role in this instance."""
        role = self.instance.roles.fact
        if role is None:
            raise UsageError(f"world {self.world.name} has no fact")
        return role

    @property
    def best(self) -> Run:
        """The oracle's run."""
        return self.runs[self.oracle]

    @property
    def options(self) -> dict[str, str]:
        """What `reset` takes for this trial."""
        return {"condition": self.condition, "anchor": self.anchor}

    def surfaces(self) -> list[str]:
        """The URLs of the pages that serve the fact."""
        return [route.replace("{id}", str(self.fact.key)) for route in self.plan.surfaces]

    @cached_property
    def fork(self) -> Fork:
        """The oracle's episode at the firing. Raises UsageError when it never fired."""
        firing = self.best.log.firing()
        if firing is None:
            raise UsageError("the change never fired in the oracle's episode")
        env, step, actions = self.env, firing[1].step, self.best.episode.actions
        env.reset(seed=self.seed, options=dict(self.options))
        for action in actions[: step - 1]:
            env.step(action)
        before = env.snapshot()
        observation, *_ = env.step(actions[step - 1])
        return Fork(before, env.snapshot(), actions[step - 1], str(observation["url"]))


def oracle(env: EnvOS) -> str:
    """The policy that is declared to win under every condition of the environment. Raises UsageError without one."""
    conditions = set(env.scenario.conditions)
    for name, scripted in policies(env.scenario.world).items():
        if conditions <= scripted.wins:
            return name
    raise UsageError(f"no scripted policy of world {env.scenario.world} is declared to win under every condition")


def control(env: EnvOS) -> str:
    """The condition in which nothing changes. Raises UsageError without one."""
    for name in env.scenario.conditions:
        if not env.phenomenon.conditions[name].changes:
            return name
    raise UsageError(f"{env.scenario.id} has no condition in which nothing changes")


def twin(env: EnvOS, seed: int, anchor: str) -> Twin:
    """The control arm of an instance, and the plans of all its conditions."""
    run = play_one(env, policies(env.scenario.world)[oracle(env)], seed, control(env), anchor)
    plans = {
        name: make_plan(env.instance, env.phenomenon, name, anchor) for name in env.scenario.conditions
    }
    return Twin(plans, run)


def play_one(env: EnvOS, scripted: Scripted, seed: int, condition: str, anchor: str) -> Run:
    """One policy's run."""
    options = {"condition": condition, "anchor": anchor, "policy": scripted.name}
    episode = play(env, scripted.policy, seed, options)
    evidence = env.evidence()
    return Run(scripted, episode, evidence, read(evidence.records, env.plan))


def trial(
    env: EnvOS, seed: int, condition: str, anchor: str, verifier: Verifier, twin: Twin, *, deep: bool
) -> Trial:
    """Play every scripted policy on an instance under a condition."""
    best, still = oracle(env), control(env)
    runs: dict[str, Run] = {}
    for name, scripted in policies(env.scenario.world).items():
        if name == best and condition == still:
            runs[name] = twin.run
        else:
            runs[name] = play_one(env, scripted, seed, condition, anchor)
    return Trial(
        env, seed, condition, anchor, env.instance, env.plan, best, runs, twin, verifier, deep
    )


@contextmanager
def in_world(env: EnvOS, world: World) -> Iterator[None]:
    """Let an environment play another world for a while, such as one with observed routes."""
    kept = env.world
    env.world = world
    try:
        yield
    finally:
        env.world = kept


def planted(snapshot: Snapshot, table: str, key: int, column: str, value: Scalar) -> Snapshot:
    """A snapshot in which one cell holds another value: nothing journalled it and no record tells."""
    raw = sqlite3.connect(":memory:", isolation_level=None)
    try:
        raw.deserialize(snapshot.image)
        # The names come from the world's own roles.
        raw.execute(f'UPDATE "{table}" SET "{column}" = ? WHERE id = ?', (value, key))  # noqa: S608
        return replace(snapshot, image=raw.serialize())
    finally:
        raw.close()


def since(env: EnvOS, length: int) -> tuple[Record, ...]:
    """The records that were added after the first `length`."""
    return env.ledger.records()[length:]
