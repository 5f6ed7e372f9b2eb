"""Scripted policies: they see what an agent sees, and act in the same grammar.

A policy is a generator function: it is called with the first observation, yields actions as text and is sent the
observation that each one led to. It ends the episode with a report, or is cut off by the budget.
"""

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from envos.envs.scenario import Scenario
from envos.errors import UnknownName

Observation = dict[str, Any]
Steps = Generator[str, Observation, None]
Policy = Callable[[Observation], Steps]


@dataclass(frozen=True, slots=True)
class Scripted:
    """A policy and what it is for.

    `wins` are the conditions in which it must reach the full endpoint; elsewhere it must not. `fails` maps a condition
    to the signature and the number of failed invariants that are expected there. A shortcut (`shortcut=True`) earns
    nothing, and nothing more is expected of it; but where a world's instances come in cases, `cases` maps a condition
    to those in which it must reach the full endpoint all the same, being right for a wrong reason.
    """

    name: str
    policy: Policy
    about: str
    wins: frozenset[str] = frozenset()
    fails: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    shortcut: bool = False
    cases: Mapping[str, frozenset[str]] = field(default_factory=dict)


def policies(world: str, phenomenon: str = "stale") -> Mapping[str, Scripted]:
    """The scripted policies of a world under a phenomenon, by name."""
    module = world if phenomenon == "stale" else f"{world}_{phenomenon}"
    found: Mapping[str, Scripted] = import_module(f"envos.certify.policies.{module}").POLICIES
    return found


def winner(line: Scenario) -> Scripted | None:
    """The first policy that is declared to win under every condition of an environment, or None."""
    found = policies(line.world, line.phenomenon).values()
    return next((one for one in found if one.wins.issuperset(line.conditions)), None)


def policy(world: str, name: str, phenomenon: str = "stale") -> Scripted:
    """One scripted policy of a world under a phenomenon. Raises UnknownName."""
    found = policies(world, phenomenon)
    if name not in found:
        raise UnknownName(f"policy of world {world}", name, found)
    return found[name]
