"""Every check has a subject that it catches: broken on purpose, refused by the check's name; whole, it passes."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
from graders import (
    as_won,
    blind_to_duplicates,
    generous,
    graded,
    hasty,
    moody,
    never_reported,
    only_successes,
    pedantic,
    trusting,
    without_collateral,
    wrong_commit_request,
    wrong_trigger,
)
from subjects import (
    LINE,
    AfterHandler,
    ArmedAtOnce,
    ArmedByHarness,
    ArmedByServed,
    Early,
    GuardedByVariable,
    InRedirect,
    Late,
    Piecemeal,
    SecondRow,
    Twice,
    Unasked,
    closing_source,
    counting,
    fewer_in_control,
    leaky,
    leaky_link,
    make_trial,
    remembering,
    telling_home,
    telling_inbox,
    with_idle_alternative,
    with_plan,
    without_slots,
    wrong_history,
)

from envos.certify.checks import WARNINGS, Check, blocking, rules, run
from envos.certify.forgery import Draft
from envos.certify.log import read
from envos.certify.policies import Scripted
from envos.certify.policies.clinic import POLICIES, clerk, reread
from envos.certify.trial import Trial
from envos.envs.evidence import Record, Report, Request

PARTS = {
    "trigger": "envos.envs.env.OneShot",
    "application": "envos.envs.env.Application",
    "policies": "envos.certify.policies.clinic.POLICIES",
    "ledger": "envos.wrappers.archive.LedgerFile.append",
}
"""What a twin may put in the place of a part of the package."""


@dataclass(frozen=True)
class Twin:
    """One broken subject: the check that catches it, the condition, what is broken, and words of what is found."""

    check: str
    words: str
    condition: str = "OFF-A"
    put: Callable[[pytest.MonkeyPatch], None] = lambda patch: None
    subject: Callable[[], dict[str, Any]] = dict
    forge: Callable[[Trial], Trial] = lambda trial: trial


def trigger(broken: type) -> Callable[[pytest.MonkeyPatch], None]:
    return lambda patch: patch.setattr(PARTS["trigger"], broken)


def policies(**more: Scripted) -> Callable[[pytest.MonkeyPatch], None]:
    return lambda patch: patch.setattr(PARTS["policies"], {**POLICIES, **more})


def grader(change: Any) -> Callable[[], dict[str, Any]]:
    return lambda: {"verifier": graded(change)}


def budget(actions: int) -> Callable[[], dict[str, Any]]:
    return lambda: {"scenario": replace(LINE, budget=actions)}


def late_change(trial: Trial) -> Trial:
    """The oracle's change stands after its commit."""
    draft = Draft.of(trial)
    commit = draft.write_at(draft.committed()).request
    draft.move_change(draft.find(Request, lambda item: item.number == commit + 1)[0], commit + 1)
    evidence = draft.evidence()
    run_ = trial.best._replace(evidence=evidence, log=read(evidence.records, trial.plan))
    return replace(trial, runs={**trial.runs, trial.oracle: run_})


def drop_reports(patch: pytest.MonkeyPatch) -> None:
    from envos.wrappers.archive import LedgerFile

    proper = LedgerFile.append

    def append(self: LedgerFile, record: Record) -> None:
        if not isinstance(record, Report):
            proper(self, record)

    patch.setattr(PARTS["ledger"], append)


copier = Scripted("copier", clerk(reread), "wins, and is declared a shortcut", shortcut=True)
hopeful = Scripted("hopeful", clerk(), "is declared to win, and reads once", wins=frozenset({"OFF-A"}))
harmless = Scripted(
    "harmless", clerk(reread), "is declared to be stale, and is not", fails={"OFF-A": ("stale_commit", 1)}
)

TWINS = (
    Twin("R1", "before the old value was delivered", put=trigger(Early)),
    Twin("R1", "armed by frame", put=trigger(ArmedAtOnce)),
    Twin("R1.unread", "1", put=trigger(Unasked)),
    Twin("R2", "not the first eligible one", put=trigger(Late)),
    Twin("R2.entry", "[0,", put=lambda patch: patch.setattr(PARTS["application"], AfterHandler)),
    Twin("R3", "firings", put=trigger(Twice)),
    Twin("R3.guard", "firings", put=trigger(GuardedByVariable)),
    Twin("R4", "update provider 1", put=trigger(SecondRow)),
    Twin("R4", "the history does not say", subject=lambda: {"phenomenon": with_plan(wrong_history)}),
    Twin("R4.atomic", "perturbation_guard", put=trigger(Piecemeal)),
    Twin("R5", "frame 0 armed", put=trigger(ArmedAtOnce)),
    Twin("R5.harness", "1", put=trigger(ArmedByHarness)),
    Twin("R5.redirect", "1", put=trigger(InRedirect)),
    Twin("R6", "operations by condition", subject=lambda: {"phenomenon": with_plan(fewer_in_control)}),
    Twin("R7", "/sessions", subject=lambda: {"world": remembering()}),
    Twin("R8", "/sessions/", subject=lambda: {"world": closing_source()}),
    Twin("E16", "holds the canary", subject=lambda: {"world": leaky()}),
    Twin("E16.pages", "/inbox", subject=lambda: {"world": leaky_link()}),
    Twin("E31", "fired", forge=late_change),
    Twin("E32", "firings_by_limit", put=trigger(ArmedByServed)),
    Twin("E33", "Mode: ", "LIVE-A", subject=lambda: {"world": telling_home()}),
    Twin("E35", "/inbox", "LIVE-A", subject=lambda: {"world": telling_inbox()}),
    Twin("E01", "hopeful", put=policies(hopeful=hopeful)),
    Twin("M1", "harmless", put=policies(harmless=harmless)),
    Twin("E02", "copier", put=policies(copier=copier)),
    Twin("E12", "injects_report", subject=grader(as_won)),
    Twin("E13.twin", "fraction", subject=grader(as_won)),
    Twin("E13.seeds", "won", subject=grader(as_won)),
    Twin("F1", "late_reread", subject=budget(20)),
    Twin("E30", "2", subject=budget(27)),
    Twin("F2", '"answer":{}', subject=lambda: {"world": without_slots()}),
    Twin("F3", "annexe", "L0", subject=lambda: {"world": with_idle_alternative()}),
    Twin("E34", '"won":false', subject=budget(28)),
    Twin("S1", "firing_request", subject=grader(wrong_trigger)),
    Twin("S2", "commit_request", subject=grader(wrong_commit_request)),
    Twin("S3", "I4", subject=grader(without_collateral)),
    Twin("S4", "never", subject=grader(never_reported)),
    Twin("E03", "stray_edit", subject=grader(without_collateral)),
    Twin("E03", "duplicate", subject=grader(blind_to_duplicates)),
    Twin("E06", "paid 0.5", subject=grader(generous)),
    Twin("E22", "", subject=lambda: {"world": counting()}),
    Twin("E24", "another verdict", subject=lambda: {"verifier": moody()}),
    Twin("C1", "reader_problem", subject=lambda: {"verifier": trusting}),
    Twin("C2", "file_added", subject=lambda: {"verifier": trusting}),
    Twin("C3", "reference", subject=grader(only_successes)),
    Twin("E25", "", put=drop_reports),
    Twin("E04", "extra_reads", subject=grader(hasty)),
    Twin("E08", "report", subject=grader(pedantic)),
)


def of(trial: Trial, name: str) -> Check:
    (found,) = run(trial, {name})
    return found


@pytest.mark.parametrize("twin", TWINS, ids=lambda twin: f"{twin.check}-{twin.words}")
def test_a_broken_twin_fails_its_check_by_name(twin: Twin, monkeypatch: pytest.MonkeyPatch) -> None:
    twin.put(monkeypatch)
    found = of(twin.forge(make_trial(twin.condition, **twin.subject())), twin.check)
    assert not found.passed
    assert found.id == twin.check
    assert "error" not in (found.measured if isinstance(found.measured, dict) else {})
    assert twin.words in canonical_text(found)
    assert found.remedy
    assert bool(blocking([found])) == (twin.check not in WARNINGS)


def canonical_text(found: Check) -> str:
    from envos.envs.evidence import canonical

    return canonical([found.measured, found.evidence])


def test_every_check_has_a_twin() -> None:
    assert {twin.check for twin in TWINS} == {item.id for item in rules()}


@pytest.mark.parametrize("anchor", ["first", "any"])
@pytest.mark.parametrize("condition", LINE.conditions)
def test_the_whole_clinic_passes_every_check(condition: str, anchor: str) -> None:
    checks = run(make_trial(condition, anchor, seed=4))
    assert [item for item in checks if not item.passed] == []
    known = {item.id for item in rules()}
    ran = {item.id for item in checks}
    changed = condition in ("L2", "OFF-A", "CUE-A", "LIVE-A")
    missing = {"E35"} if condition == "L0" else set()
    # Without a change of the fact there is no old plan to fail, and no policy that is declared to.
    missing |= set() if changed else {"E13.twin"}
    missing |= {"F3"} if condition in ("C", "OFF-I", "LIVE-I") else set()
    missing |= {"M1", "C3"} if condition in ("L0", "OFF-I", "LIVE-I") else set()
    assert ran == known - missing


def test_a_check_that_raises_has_failed() -> None:
    """E11: an error inside a check admits nothing."""
    trial = make_trial("OFF-A", deep=False)
    broken = replace(trial, runs={name: item for name, item in trial.runs.items() if name != trial.oracle})
    found = of(broken, "R1")
    assert not found.passed
    assert "KeyError" in found.measured["error"]
    assert blocking([found])
