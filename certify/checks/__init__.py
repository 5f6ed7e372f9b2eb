"""Certification checks: small pure readings of a trial, registered by family; a table says which ones block admission.

A check measures and never decides: it returns what it found, and `WARNINGS` says which failures do not block. A check
that does not apply to a trial returns nothing, and the certificate counts on how many trials each check ran. A check
that raises has failed: nothing is admitted by an error (E11).
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

from envos.certify.trial import Trial

FAMILIES = ("trigger", "discrimination", "feasibility", "instrumentation", "controls")
"""The families of protocol section 8, in the order in which they run."""
_MODULES = ("trigger", "forks", "discrimination", "adversaries", "feasibility", "instrumentation", "controls")

SEVERITY_VERSION = "1"
WARNINGS = frozenset({"E30"})
"""Checks that are reported and do not block: how much of the budget is left."""
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Check:
    """One result: what was measured, the evidence for it (JSON data, short), and what to do when it failed."""

    id: str
    family: str
    passed: bool
    measured: Any
    evidence: Any
    remedy: str

    def to_json(self) -> dict[str, Any]:
        """The check as JSON data."""
        return {
            "id": self.id,
            "family": self.family,
            "passed": self.passed,
            "measured": self.measured,
            "evidence": self.evidence,
            "remedy": self.remedy,
        }


class Finding(NamedTuple):
    """What a check found."""

    passed: bool
    measured: Any
    evidence: Any = None


Measure = Callable[[Trial], Finding | None]


@dataclass(frozen=True, slots=True)
class Rule:
    """One registered check. A deep one forks, forges or writes files, and runs on a sample of the instances only."""

    id: str
    family: str
    about: str
    remedy: str
    deep: bool
    measure: Measure


_REGISTERED: dict[str, list[Rule]] = {name: [] for name in FAMILIES}


def rule(family: str, name: str, about: str, remedy: str, *, deep: bool = False) -> Callable[[Measure], Measure]:
    """Register a check of a family under its id. Raises ValueError for an id that is taken."""

    def keep(measure: Measure) -> Measure:
        if any(name == item.id for items in _REGISTERED.values() for item in items):
            raise ValueError(f"two checks have the id {name!r}")
        _REGISTERED[family].append(Rule(name, family, about, remedy, deep, measure))
        return measure

    return keep


@cache
def rules() -> tuple[Rule, ...]:
    """Every check, by family and in the order of registration."""
    for name in _MODULES:
        import_module(f"envos.certify.checks.{name}")
    return tuple(item for family in FAMILIES for item in _REGISTERED[family])


def run(trial: Trial, only: Collection[str] | None = None) -> tuple[Check, ...]:
    """The results of all checks that apply, or of those with these ids; deep ones only where the trial is deep."""
    found = []
    for item in rules():
        if (item.deep and not trial.deep) or (only is not None and item.id not in only):
            continue
        trial.tree.leave()
        try:
            finding = item.measure(trial)
        except Exception as error:  # noqa: BLE001 - an error decides nothing, and so admits nothing
            finding = Finding(False, {"error": f"{type(error).__name__}: {error}"[:300]})
        if finding is not None:
            remedy = "" if finding.passed else item.remedy
            found.append(Check(item.id, item.family, finding.passed, finding.measured, finding.evidence, remedy))
    return tuple(found)


def blocking(checks: Iterable[Check]) -> tuple[Check, ...]:
    """The failed checks that block admission."""
    return tuple(item for item in checks if not item.passed and item.id not in WARNINGS)


def faults(found: Mapping[str, list[str]], measured: Any) -> Finding:
    """A finding from faults by policy: passed when there is none; the first few are the evidence."""
    wrong = {name: items[:_SHOWN] for name, items in found.items() if items}
    return Finding(not wrong, measured, dict(list(wrong.items())[:_SHOWN]) or None)
