"""A trial: one instance under one condition and anchor, with the episode of every scripted policy.

The policies run once; every check reads their evidence. Deep trials also hold a fork of the oracle's episode at the
request that fires.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from envos.certify.log import Log
from envos.certify.policies import Scripted, policies, winner
from envos.certify.rollout import Episode
from envos.certify.tree import Tree
from envos.envs.action import goto
from envos.envs.database import Database
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
    """The oracle's episode just before and just after the step that fires, that step's action, and the page's URL.

    `again` is an action that makes the request that fires, wherever that request may be made from.
    """

    before: Snapshot
    after: Snapshot
    action: str
    url: str
    again: str


@dataclass(frozen=True)
class Twin:
    """What all conditions of an instance share: their plans, and the runs in the control arm, where nothing changes.

    `run` is the oracle's. `idle` are the shortcuts that asked for no page of the form once they had been shown the
    fact, nor ever for the review step: under no condition do they meet a change or a disclosure, and so they are not
    played again except in deep trials.
    """

    plans: Mapping[str, Plan]
    run: Run
    idle: Mapping[str, Run]
    tree: Tree


@dataclass(frozen=True)
class Trial:
    """One instance under one condition and anchor.

    `oracle` names the policy that wins under every condition; `twin` is the same instance's control arm, in which
    nothing changes. `line` is the condition, `verifier` the grader under test.
    """

    env: EnvOS
    seed: int
    condition: str
    anchor: str
    tree: Tree
    oracle: str
    runs: Mapping[str, Run]
    twin: Twin
    verifier: Verifier
    deep: bool

    @property
    def instance(self) -> Instance:
        """The instance."""
        return self.tree.instance

    @property
    def plan(self) -> Plan:
        """What was decided before the episodes."""
        return self.tree.plan

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

    @cached_property
    def distinct(self) -> Mapping[str, Run]:
        """The runs without those that did what another one did, which have the same evidence."""
        found: dict[int, tuple[str, Run]] = {}
        for name, item in self.runs.items():
            found.setdefault(id(item.evidence), (name, item))
        return dict(found.values())

    @property
    def best(self) -> Run:
        """The oracle's run."""
        return self.runs[self.oracle]

    @property
    def options(self) -> dict[str, str]:
        """What `reset` takes for this trial."""
        return {"condition": self.condition, "anchor": self.anchor}

    def surfaces(self) -> list[str]:
        """The URLs of the pages that arm: those of the fact, or the page of the choice as the oracle came to it."""
        if self.plan.arm == (self.fact.table, self.fact.key, self.fact.column):
            return [route.replace("{id}", str(self.fact.key)) for route in self.plan.surfaces]
        return [self.best.log.armed[1].url] if self.best.log.armed else []

    @cached_property
    def fork(self) -> Fork:
        """The oracle's episode at the firing. Raises UsageError when it never fired."""
        firing = self.best.log.firing()
        if firing is None:
            raise UsageError("the change never fired in the oracle's episode")
        step, actions = firing[1].step, self.best.episode.actions
        before, after = self.tree.walk(actions)[step - 1 : step + 1]
        if before.snapshot is None or after.snapshot is None:
            raise UsageError("the change fired in the last step of the oracle's episode")
        action, url = actions[step - 1], str(after.observation["url"])
        return Fork(before.snapshot, after.snapshot, action, url, goto(url) if firing[1].method == "GET" else action)


def oracle(env: EnvOS) -> str:
    """The policy that is declared to win under every condition of the environment. Raises UsageError without one."""
    found = winner(env.scenario)
    if found is None:
        raise UsageError(f"no scripted policy of {env.scenario.id} is declared to win under every condition")
    return found.name


def control(env: EnvOS) -> str:
    """The condition in which nothing changes. Raises UsageError without one."""
    for name in env.scenario.conditions:
        if not env.phenomenon.conditions[name].changes:
            return name
    raise UsageError(f"{env.scenario.id} has no condition in which nothing changes")


def twin(env: EnvOS, seed: int, anchor: str) -> Twin:
    """The control arm of an instance, and the plans of all its conditions."""
    scripted = policies(env.scenario.world, env.scenario.phenomenon)
    tree = Tree(env, seed, {"condition": control(env), "anchor": anchor})
    instance = tree.instance
    plans = {name: make_plan(instance, env.phenomenon, name, anchor) for name in env.scenario.conditions}
    best = run(tree, scripted[oracle(env)])
    idle = {}
    for name, policy in scripted.items():
        if policy.shortcut:
            found = run(tree, policy)
            if _idle(found, instance):
                idle[name] = found
    return Twin(plans, best, idle, tree)


def _idle(found: Run, instance: Instance) -> bool:
    commit, log = instance.roles.commit, found.log
    if commit is None:
        return False
    form = {route for _, route in commit.pages}
    armed = log.armed[0] if log.armed else len(log.records)
    return not any(
        request.route == commit.review or (place > armed and request.route in form)
        for place, request in log.requests.values()
    )


def run(tree: Tree, scripted: Scripted) -> Run:
    """One policy's run."""
    return Run(scripted, *tree.play(scripted.policy))


def trial(
    env: EnvOS, seed: int, condition: str, anchor: str, verifier: Verifier, shared: Twin, *, deep: bool = False
) -> Trial:
    """Play every scripted policy on an instance under a condition; `shared` is the instance's control arm."""
    best = oracle(env)
    tree = shared.tree
    if condition != control(env):
        tree = Tree(env, seed, {"condition": condition, "anchor": anchor})
    runs: dict[str, Run] = {}
    for name, scripted in policies(env.scenario.world, env.scenario.phenomenon).items():
        if name in shared.idle and not deep:
            runs[name] = shared.idle[name]
        else:
            runs[name] = run(tree, scripted)
    return Trial(env, seed, condition, anchor, tree, best, runs, shared, verifier, deep)


@contextmanager
def in_world(env: EnvOS, world: World) -> Iterator[None]:
    """Let an environment play another world for a while, such as one with observed routes."""
    kept = env.world
    env.world = world
    try:
        yield
    finally:
        env.world = kept


def with_row(world: World, snapshot: Snapshot, table: str, row: Mapping[str, Scalar]) -> Snapshot:
    """A snapshot with one row more: nothing journalled it and no record tells."""
    names, places = ", ".join(row), ", ".join("?" * len(row))
    return _edited(world, snapshot, f'INSERT INTO "{table}" ({names}) VALUES ({places})', *row.values())  # noqa: S608


def planted(world: World, snapshot: Snapshot, table: str, key: int, column: str, value: Scalar) -> Snapshot:
    """A snapshot in which one cell holds another value: nothing journalled it and no record tells."""
    return _edited(world, snapshot, f'UPDATE "{table}" SET "{column}" = ? WHERE id = ?', value, key)  # noqa: S608


def _edited(world: World, snapshot: Snapshot, statement: str, *values: Scalar) -> Snapshot:
    # The names in the statement come from the world's own roles, or are the evaluator's.
    database = Database(world.metadata)
    try:
        database.restore(snapshot.image)
        database.raw.execute(statement, values)
        database.drain()
        return replace(snapshot, image=database.image())
    finally:
        database.close()


def since(env: EnvOS, length: int) -> tuple[Record, ...]:
    """The records that were added after the first `length`."""
    return env.ledger.records()[length:]
