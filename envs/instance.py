"""Instances: a world filled from (environment id, split, seed), and the plan of its perturbation.

Pure functions of those three and, for the plan, of condition and anchor; splits are disjoint by construction, in the
random streams and in the pools of names.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from envos.envs.evidence import Scalar, canonical, sha256
from envos.envs.perturbation import Plan
from envos.envs.roles import Phenomenon, Roles, Row, World
from envos.envs.scenario import Scenario
from envos.envs.streams import Stream, check_seed


@dataclass(frozen=True, slots=True)
class Instance:
    """A filled world: rows by table, keys of the target records (evaluator data), brief, roles, digest."""

    scenario: Scenario
    split: str
    seed: int
    rows: Mapping[str, tuple[Row, ...]]
    task: Mapping[str, Scalar]
    brief: str
    opened: str
    roles: Roles
    canary: str
    digest: str


def generate(scenario: Scenario, world: World, phenomenon: Phenomenon, split: str, seed: int) -> Instance:
    """The instance of a seed. Raises UsageError for a bad seed or split, RoleError for a pair that does not fit."""
    draft = world.generate(check_seed(seed), split)
    draft.roles.require(world.name, phenomenon.name, phenomenon.needs)
    digest = sha256(canonical([scenario.id, split, seed, draft.rows, draft.task, draft.brief, draft.opened]))
    return Instance(
        scenario,
        split,
        seed,
        draft.rows,
        draft.task,
        draft.brief,
        draft.opened,
        draft.roles,
        # Never shown by any route: where it turns up, evaluator data has leaked.
        "canary-" + sha256(digest)[:24],
        digest,
    )


def plan(instance: Instance, phenomenon: Phenomenon, condition: str, anchor: str) -> Plan:
    """The plan of an instance under a condition; every condition draws the same numbers."""
    line = instance.scenario
    stream = Stream(instance.seed, instance.split, "perturbation")
    base = {
        "world": line.world,
        "phenomenon": line.phenomenon,
        "budget": line.budget,
        "untriggered": line.untriggered,
        "opened": instance.opened,
        "task": instance.task,
    }
    return phenomenon.plan(instance.roles, phenomenon.conditions[condition], anchor, stream, base)


def draw_condition(scenario: Scenario, split: str, seed: int) -> str:
    """The condition that "mixed" gives this seed."""
    return Stream(seed, split, "condition").pick(scenario.conditions)
