"""Family 4: the grader finds what the logs hold, and each of its invariants can fail and can pass."""

import math
from collections.abc import Mapping
from typing import Any

from envos.certify.checks import Finding, faults, rule
from envos.certify.forgery import Draft
from envos.certify.matrix import terms
from envos.certify.mutants import DISTINCT, REMADE, Mutant, mutants
from envos.certify.result import CODE
from envos.certify.rollout import play
from envos.certify.trial import Run, Trial
from envos.envs.drivers.inprocess import InProcess
from envos.envs.env import EnvOS
from envos.envs.perturbation import AFTER

FAMILY = "instrumentation"
GRADED_AGAIN = 20
"""Times that a deep trial grades the same evidence."""


@rule(
    FAMILY,
    "S1",
    "the grader finds exposure and firing where the raw records have them",
    "compare Verdict.measures['receipt'] with the ledger: the grader looks at the wrong frame or request",
)
def finds_trigger(trial: Trial) -> Finding:
    """The grader's armed frame and firing request against this package's own reading of the records."""
    found: dict[str, list[str]] = {}
    for name, run in _graded(trial).items():
        wanted = {
            "armed_frame": run.log.armed[1].number if run.log.armed else None,
            "firing_request": run.log.fires[0][1].request if run.log.fires else None,
        }
        found[name] = _differing(run, wanted)
    return faults(found, {"episodes": len(found)})


@rule(
    FAMILY,
    "S2",
    "the grader finds the commit where the raw records have it",
    "compare Verdict.measures['receipt'] with the ledger: the grader looks at the wrong request",
)
def finds_commit(trial: Trial) -> Finding:
    """The grader's committing request, and the first observation after it, against this package's own reading."""
    found: dict[str, list[str]] = {}
    for name, run in _graded(trial).items():
        log = run.log
        commit = log.commits[0] if log.commits else None
        after = [frame.number for place, frame in log.frames if commit is not None and place > commit[0]]
        wanted = {
            "commit_request": commit[1].request if commit else None,
            "visible_frame": after[0] if after else None,
        }
        found[name] = _differing(run, wanted)
    return faults(found, {"episodes": len(found)})


def _graded(trial: Trial) -> Mapping[str, Run]:
    return {name: run for name, run in trial.distinct.items() if run.counted}


def _differing(run: Run, wanted: Mapping[str, int | None]) -> list[str]:
    receipt: Mapping[str, Any] = run.episode.verdict["measures"].get("receipt", {})
    return [
        f"{name} is {receipt.get(name)}, the records say {value}"
        for name, value in wanted.items()
        if receipt.get(name) != value
    ]


@rule(
    FAMILY,
    "S3",
    "a counted verdict has every invariant of the world, and no other",
    "the grader leaves a term out: see rewards.invariants",
)
def complete(trial: Trial) -> Finding:
    """The names of the invariants in each counted verdict; an episode in which nothing fired has none decided."""
    wanted = terms(trial)
    found = {
        name: []
        if tuple(run.episode.verdict["invariants"]) == wanted
        else [str(list(run.episode.verdict["invariants"]))]
        for name, run in _graded(trial).items()
        if not run.episode.verdict["untriggered"]
    }
    return faults(found, {"invariants": list(wanted)})


@rule(
    FAMILY,
    "E06",
    "every reward is a finite float, 0.0 or 1.0, and is the verdict's",
    "the environment pays something else than the verdict says",
)
def well_formed(trial: Trial) -> Finding:
    """E06: type, range, and agreement of the reward that was paid with verdict and endpoint."""
    found: dict[str, list[str]] = {}
    for name, run in trial.distinct.items():
        paid, verdict = run.episode.reward, run.episode.verdict
        good = type(paid) is float and math.isfinite(paid) and paid == verdict["reward"]
        if not good or paid != (1.0 if verdict["counted"] and verdict["endpoint"] else 0.0):
            found[name] = [f"paid {paid!r}, the verdict says {verdict['reward']!r}"]
    return faults(found, {"episodes": len(trial.runs)})


@rule(
    FAMILY,
    "E03",
    "each mutant of a winning episode is counted and loses exactly the invariants that it breaks",
    "the named invariant does not see the named mutation: see rewards.invariants",
    deep=True,
)
def mutated(trial: Trial) -> Finding:
    """E03: one thing made wrong at a time, records and state together, so that the episode stays valid."""
    if not trial.best.episode.verdict["endpoint"]:
        return Finding(False, {"mutants": 0}, "the oracle's episode is no success to mutate")
    found: dict[str, list[str]] = {}
    reasons: dict[str, str] = {}
    lost: set[str] = set()
    for mutant in mutants(trial.world.report):
        verdict = None if trial.plan.phase == AFTER and mutant.name in REMADE else _grade(trial, mutant)
        if verdict is None:
            continue
        terms_lost = _lost(verdict)
        if len(terms_lost) == 1:
            lost |= terms_lost
        wanted = mutant.lost & set(terms(trial))
        if not verdict["counted"]:
            found[mutant.name] = [f"{mutant.about}: not counted: {verdict['validity']} {verdict['reasons'][:2]}"]
        elif terms_lost != wanted:
            found[mutant.name] = [f"{mutant.about}: lost {sorted(terms_lost)}, not {sorted(wanted)}"]
        elif verdict["endpoint"] is not False or verdict["reward"] != 0.0:
            found[mutant.name] = [f"{mutant.about}: endpoint {verdict['endpoint']}, reward {verdict['reward']}"]
        reasons[mutant.name] = _reasons(verdict)
    for name in set(terms(trial)) - lost:
        found[name] = ["no mutant loses this invariant alone"]
    told = [reasons[name] for name in DISTINCT if name in reasons]
    if len(set(told)) != len(told):
        found["reasons"] = [f"two mutants fail for one reason: {sorted(told)}"]
    return faults(found, {"mutants": len(reasons), "reasons": len(set(told))})


def _grade(trial: Trial, mutant: Mutant) -> Mapping[str, Any] | None:
    draft = Draft.of(trial)
    if not mutant.make(draft):
        return None
    verdict: Mapping[str, Any] = trial.verifier(draft.evidence()).info()
    return verdict


def _lost(verdict: Mapping[str, Any]) -> set[str]:
    return {name for name, term in verdict["invariants"].items() if not term["passed"]}


def _reasons(verdict: Mapping[str, Any]) -> str:
    invariants = verdict["invariants"]
    return "; ".join(f"{name}: {term['reason']}" for name, term in invariants.items() if not term["passed"])


@rule(
    FAMILY,
    "S4",
    "each invariant passes in the oracle's episode",
    "read the verdict's reasons: an invariant that nothing passes tells nothing",
)
def passing(trial: Trial) -> Finding:
    """The invariants of the oracle's verdict, each with its reason where it failed."""
    verdict = trial.best.episode.verdict
    failed = {name: term["reason"] for name, term in verdict["invariants"].items() if not term["passed"]}
    passed = bool(verdict["invariants"]) and not failed and trial.best.counted
    return Finding(passed, {"passed": len(verdict["invariants"]) - len(failed)}, failed or None)


@rule(
    FAMILY,
    "E24",
    "grading the same evidence again gives the same verdict",
    "the grader depends on something else than the evidence, or the environment grades with another one",
    deep=True,
)
def repeatable(trial: Trial) -> Finding:
    """E24: the stored evidence of every policy graded again, the oracle's many times over."""
    found: dict[str, list[str]] = {}
    for name, run in trial.distinct.items():
        times = GRADED_AGAIN if name == trial.oracle else 1
        again = [trial.verifier(run.evidence).info() for _ in range(times)]
        if any(verdict != run.episode.verdict for verdict in again):
            found[name] = ["another verdict than the episode's"]
    return faults(found, {"episodes": len(trial.runs), "times": GRADED_AGAIN})


@rule(
    FAMILY,
    "E22",
    "the same seed and policy give the same evidence, in this environment and in a fresh one",
    "a reset leaves something behind, or something random decides: compare the two ledgers",
    deep=True,
)
def repeated(trial: Trial) -> Finding:
    """E21, E22: the oracle played again after everything else that was done here, and in an environment of its own."""
    env, best = trial.env, trial.best
    wanted = best.evidence.digest
    again = _played(trial, env)
    fresh = type(env)(
        env.scenario,
        env.world,
        env.phenomenon,
        trial.verifier,
        condition=trial.condition,
        split=env.split,
        anchor=trial.anchor,
        driver=InProcess(),
        code={name: text for name, text in best.evidence.start.identity.items() if name in CODE},
    )
    try:
        other = _played(trial, fresh)
    finally:
        fresh.close()
    return Finding(wanted == again == other, {"digest": wanted}, None if again == other else [again, other])


def _played(trial: Trial, env: EnvOS) -> str:
    play(env, trial.best.scripted.policy, trial.seed, dict(trial.options))
    return env.evidence().digest
