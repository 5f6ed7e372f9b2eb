"""What certification finds of one instance under one condition and anchor."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from envos.certify.checks import Check, blocking, run
from envos.certify.matrix import Cell, cells
from envos.certify.trial import Twin, trial, twin
from envos.envs.env import EnvOS
from envos.envs.evidence import Verifier, canonical, sha256
from envos.envs.perturbation import Plan
from envos.rewards.verdict import verify

CODE = ("version", "code", "grader", "format")
"""What an episode's identity says of the code that made it."""


@dataclass(frozen=True, slots=True)
class InstanceResult:
    """The checks and the matrix of one instance under one condition and anchor.

    `instance` and `plan` are digests, `code` is what ran. A deep result also holds the checks that fork and forge.
    """

    seed: int
    condition: str
    anchor: str
    instance: str
    plan: str
    code: Mapping[str, str]
    deep: bool
    checks: tuple[Check, ...]
    cells: tuple[Cell, ...]

    @property
    def refused(self) -> tuple[str, ...]:
        """Why the instance is not admitted; empty where it is."""
        return tuple(reason(check) for check in blocking(self.checks))

    @property
    def admitted(self) -> bool:
        """Whether no check that blocks has failed."""
        return not self.refused

    @property
    def digest(self) -> str:
        """The digest of all of it."""
        checks = [check.to_json() for check in self.checks]
        rest = [self.seed, self.condition, self.anchor, self.instance, self.plan, dict(self.code), self.deep]
        return sha256(canonical([*rest, checks, self.cells]))

    def failed(self) -> tuple[Check, ...]:
        """The checks that failed, those that only warn included."""
        return tuple(check for check in self.checks if not check.passed)


def reason(check: Check) -> str:
    """One line for a failed check: its id, what was found, what to do."""
    found = check.evidence if check.evidence is not None else check.measured
    return f"{check.family} {check.id}: {canonical(found)[:300]} - {check.remedy}"


def plan_digest(plan: Plan) -> str:
    """The digest of a plan."""
    return sha256(canonical(plan.to_json()))


def code_of(identity: Mapping[str, Any]) -> dict[str, str]:
    """What an episode's identity says of the code that made it."""
    return {name: str(identity.get(name, "")) for name in CODE}


def certify_instance(
    env: EnvOS,
    seed: int,
    condition: str,
    anchor: str,
    *,
    verifier: Verifier = verify,
    shared: Twin | None = None,
    deep: bool = False,
) -> InstanceResult:
    """Play all scripted policies on an instance and check what they leave.

    `verifier` is the grader that the environment was given. `shared` is the instance's control arm from `trial.twin`,
    where several conditions of it are certified; `deep` adds the checks that fork, forge and write files. The
    environment is left in the middle of an episode.
    """
    common = shared or twin(env, seed, anchor)
    one = trial(env, seed, condition, anchor, verifier, common, deep=deep)
    found = run(one)
    return InstanceResult(
        seed,
        condition,
        anchor,
        one.instance.digest,
        plan_digest(one.plan),
        code_of(one.best.evidence.start.identity),
        deep,
        found,
        cells(one),
    )
