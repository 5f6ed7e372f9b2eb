"""Scenarios: one frozen line each makes an environment of a world and a phenomenon.

`SCENARIOS` is all there is to an id; worlds and phenomena are loaded by name when an environment is made.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from envos.errors import UnknownName

if TYPE_CHECKING:
    from envos.envs.roles import Phenomenon, World

ANCHORS = ("first", "any")
"""Where the change fires: the first form request after the exposure, or the first visit of a form page drawn per
instance (protocol section 4, rule 9)."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """One environment: its id, the pair it is made of, its conditions, its budget, how an untriggered episode counts.

    `untriggered` is "uncounted" (replaced under the reserve) or "failure" (protocol section 3).
    """

    id: str
    world: str
    phenomenon: str
    conditions: tuple[str, ...]
    budget: int
    untriggered: str
    version: int = 0


SCENARIOS: Mapping[str, Scenario] = {
    line.id: line
    for line in (
        Scenario(
            "EnvOS/ClinicStale-v0",
            "clinic",
            "stale",
            ("L0", "C", "L2", "OFF-A", "CUE-A", "LIVE-A", "OFF-I", "LIVE-I"),
            48,
            "uncounted",
        ),
        Scenario(
            "EnvOS/ClaimsStale-v0",
            "claims",
            "stale",
            ("L0", "C", "L2", "OFF-A", "ON-A", "OFF-I", "ON-I"),
            40,
            "failure",
        ),
        Scenario(
            "EnvOS/ClinicContested-v0",
            "clinic",
            "contested",
            ("L0", "C", "L2", "OFF-A", "MAIL-A"),
            48,
            "failure",
        ),
        Scenario(
            "EnvOS/ClinicGhost-v0",
            "clinic",
            "ghost",
            ("L0", "C", "OFF-A", "REV-C", "REV-A", "FIN-C", "FIN-A"),
            48,
            "failure",
        ),
        Scenario(
            "EnvOS/ClaimsGhost-v0",
            "claims",
            "ghost",
            ("L0", "C", "OFF-A", "REV-C", "REV-A", "FIN-C", "FIN-A"),
            40,
            "failure",
        ),
    )
}
"""Every environment by id."""

WORLDS = tuple(sorted({line.world for line in SCENARIOS.values()}))
PHENOMENA = tuple(sorted({line.phenomenon for line in SCENARIOS.values()}))


def scenario(environment: str) -> Scenario:
    """The scenario of an environment id, with or without the `envos:` prefix. Raises UnknownName."""
    name = environment.removeprefix("envos:")
    if name not in SCENARIOS:
        raise UnknownName("environment", environment, SCENARIOS)
    return SCENARIOS[name]


def load_world(name: str) -> "World":
    """The world of that name. Raises UnknownName."""
    if name not in WORLDS:
        raise UnknownName("world", name, WORLDS)
    world: World = import_module(f"envos.envs.worlds.{name}").WORLD
    return world


def load_phenomenon(name: str) -> "Phenomenon":
    """The phenomenon of that name. Raises UnknownName."""
    if name not in PHENOMENA:
        raise UnknownName("phenomenon", name, PHENOMENA)
    phenomenon: Phenomenon = import_module(f"envos.envs.phenomena.{name}").PHENOMENON
    return phenomenon


def check_condition(line: Scenario, condition: str) -> str:
    """The condition, if this environment has it; "mixed" draws one per episode. Raises UnknownName."""
    if condition not in (*line.conditions, "mixed"):
        raise UnknownName(f"condition of {line.id}", condition, (*line.conditions, "mixed"))
    return condition


def check_anchor(anchor: str) -> str:
    """The anchor, if there is such a one. Raises UnknownName."""
    if anchor not in ANCHORS:
        raise UnknownName("anchor", anchor, ANCHORS)
    return anchor
