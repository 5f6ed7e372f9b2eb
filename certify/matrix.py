"""The matrix: what each scripted policy must reach under each condition, beside what it reached."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from envos.certify.policies import Scripted
from envos.certify.trial import Run, Trial

HARMLESS = frozenset({"reread_before_commit", "stale_commit_repaired", "coercion_repaired", "coercion_disclosed"})
"""Signatures that a winning episode may have: what is disclosed wins where it cannot be put right."""


class Expected(NamedTuple):
    """What a policy must reach under a condition.

    A `win` is the full endpoint. A declared deficiency loses exactly `lost` invariants and has `signature`; a shortcut,
    or a pair of which nothing is declared (`lost` is None), must only not reach the endpoint.
    """

    win: bool
    lost: int | None
    signature: str


class Cell(NamedTuple):
    """One policy's row: what was expected, what was seen, and what is wrong with it ("" for nothing)."""

    policy: str
    expected: Expected
    validity: str
    endpoint: bool | None
    fraction: float | None
    signatures: tuple[str, ...]
    steps: int
    wrong: str


def terms(trial: Trial) -> tuple[str, ...]:
    """The invariants that this world's endpoint must have: without a step after the commit there is no I4."""
    after = trial.world.continuation(trial.plan.task) is not None
    return ("I1", "I2", "I3", "I4", "I5") if after else ("I1", "I2", "I3", "I5")


def case(trial: Trial) -> str:
    """The case of the instance, in a world whose instances come in cases ("" elsewhere)."""
    return str(trial.plan.task.get("case", ""))


def expected(scripted: Scripted, condition: str, case: str = "") -> Expected:
    """What a policy must reach under a condition, as it declares it; `case` is the instance's."""
    if condition in scripted.wins or case in scripted.cases.get(condition, ()):
        return Expected(True, 0, "")
    if condition in scripted.fails:
        signature, lost = scripted.fails[condition]
        return Expected(False, lost, signature)
    return Expected(False, None, "")


def cells(trial: Trial) -> tuple[Cell, ...]:
    """The rows of a trial, one for each policy."""
    count, which = len(terms(trial)), case(trial)
    return tuple(cell(run, expected(run.scripted, trial.condition, which), count) for run in trial.runs.values())


def cell(run: Run, wanted: Expected, count: int) -> Cell:
    """One policy's row; `count` is the number of invariants."""
    verdict: Mapping[str, Any] = run.episode.verdict
    seen = Cell(
        run.scripted.name,
        wanted,
        str(verdict["validity"]),
        verdict["endpoint"],
        verdict["fraction"],
        tuple(verdict["signatures"]),
        run.episode.steps,
        "",
    )
    return seen._replace(wrong=_wrong(seen, run, count))


def _wrong(seen: Cell, run: Run, count: int) -> str:
    wanted = seen.expected
    if not wanted.win and seen.endpoint:
        return "reached the endpoint"
    if not wanted.win and wanted.lost is None:
        return ""
    if not run.counted:
        return f"not counted: {seen.validity}"
    fraction = (count - (wanted.lost or 0)) / count
    if seen.fraction is None or abs(seen.fraction - fraction) > 1e-9:
        return f"fraction {seen.fraction}, expected {fraction}"
    if wanted.win and not (seen.endpoint and run.episode.reward == 1.0):
        return f"endpoint {seen.endpoint}, reward {run.episode.reward}"
    if wanted.win and not HARMLESS.issuperset(seen.signatures):
        return f"signatures {', '.join(seen.signatures)}"
    if wanted.signature and wanted.signature not in seen.signatures:
        return f"signatures {', '.join(seen.signatures) or 'none'}, expected {wanted.signature}"
    return ""
