"""The matrix of protocol section 5, written out by hand, against what certification observes."""

from dataclasses import replace

import pytest
from subjects import make_env

from envos.certify.matrix import Cell, Expected, cell, expected
from envos.certify.policies import Scripted
from envos.certify.policies.clinic import POLICIES
from envos.certify.result import certify_instance
from envos.certify.trial import Run, Trial, trial, twin
from envos.rewards.verdict import verify

CONDITIONS = ("L0", "C", "L2", "OFF-A", "CUE-A", "LIVE-A", "OFF-I", "LIVE-I")
FRACTIONS = {
    #               L0   C    L2  OFF-A CUE-A LIVE-A OFF-I LIVE-I
    "reference": (1.0, 1.0, 1.0, 0.8, 0.8, 0.8, 1.0, 1.0),
    "late_reread": (1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0),
    "follow_cue": (1.0, 1.0, 1.0, 0.8, 1.0, 1.0, 1.0, 1.0),
    "read_review": (1.0, 1.0, 1.0, 0.8, 0.8, 1.0, 1.0, 1.0),
    "stale": (1.0, 1.0, 0.8, 0.8, 0.8, 0.8, 1.0, 1.0),
    "over_apply": (1.0, 0.8, 1.0, 0.8, 0.8, 0.8, 1.0, 1.0),
    "commit_twice": (0.8, 0.8, 0.8, 0.8, 0.8, 0.8, 0.8, 0.8),
    "report_only": (0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6),
    "always_back": (None,) * 8,
    "no_op": (None,) * 8,
}
"""0.8 is four of five invariants; commit_twice loses I2, report_only I1 and I5; what never fired is not counted."""
SIGNATURES = {
    ("reference", "OFF-A"): "stale_commit",
    ("stale", "L2"): "update_neglected",
    ("over_apply", "C"): "over_applied",
    ("commit_twice", "L0"): "duplicate_commit",
    ("report_only", "LIVE-A"): "misreported",
    ("late_reread", "OFF-A"): "reread_before_commit",
    ("no_op", "OFF-A"): "no_commit",
}


@pytest.mark.parametrize("split", ["train", "validation", "test"])
@pytest.mark.parametrize("anchor", ["first", "any"])
def test_matrix_of_the_clinic(split: str, anchor: str) -> None:
    env = make_env()
    env.split = split
    for seed in (2, 3):
        shared = twin(env, seed, anchor)
        for at, condition in enumerate(CONDITIONS):
            result = certify_instance(env, seed, condition, anchor, shared=shared)
            assert result.refused == ()
            seen = {row.policy: row for row in result.cells}
            assert set(seen) == {*FRACTIONS, "random"}
            assert {name: row.fraction for name, row in seen.items() if name != "random"} == {
                name: row[at] for name, row in FRACTIONS.items()
            }
            for name, row in seen.items():
                assert row.endpoint is (None if row.fraction is None else row.fraction == 1.0)
                wanted = SIGNATURES.get((name, condition))
                assert wanted is None or wanted in row.signatures
            assert not seen["random"].endpoint
    env.close()


def test_what_is_declared_of_each_policy() -> None:
    assert expected(POLICIES["reference"], "L2") == Expected(True, 0, "")
    assert expected(POLICIES["reference"], "CUE-A") == Expected(False, 1, "stale_commit")
    assert expected(POLICIES["stale"], "L2") == Expected(False, 1, "update_neglected")
    assert expected(POLICIES["no_op"], "L0") == Expected(False, None, "")
    by_case = replace(POLICIES["no_op"], cases={"ON-A": frozenset({"B_up"})})
    assert expected(by_case, "ON-A", "B_up") == Expected(True, 0, "")
    assert expected(by_case, "ON-A", "X_up") == Expected(False, None, "")
    assert {name for name, item in POLICIES.items() if set(CONDITIONS) <= item.wins} == {"late_reread"}


@pytest.fixture(scope="module")
def off_a() -> Trial:
    """One trial under OFF-A."""
    env = make_env()
    return trial(env, 2, "OFF-A", "first", verify, twin(env, 2, "first"))


def judged(run: Run, wanted: Expected, **verdict: object) -> Cell:
    """The row of a run whose verdict is changed."""
    changed = run.episode._replace(verdict={**run.episode.verdict, **verdict})
    return cell(run._replace(episode=changed), wanted, 5)


def test_each_deviation_is_told(off_a: Trial) -> None:
    best, first = off_a.runs["late_reread"], off_a.runs["reference"]
    win, stale, floor = Expected(True, 0, ""), Expected(False, 1, "stale_commit"), Expected(False, None, "")
    assert judged(best, win).wrong == ""
    assert judged(first, stale).wrong == ""
    assert judged(first, floor).wrong == ""
    assert judged(best, floor).wrong == "reached the endpoint"
    assert judged(best, stale).wrong == "reached the endpoint"
    assert judged(first, win).wrong == "fraction 0.8, expected 1.0"
    assert judged(best, win, counted=False, validity="harness_error").wrong == "not counted: harness_error"
    assert judged(best, win, signatures=["collateral_change"]).wrong == "signatures collateral_change"
    assert judged(best, win, endpoint=False).wrong == "endpoint False, reward 1.0"
    assert judged(first, stale, fraction=0.6).wrong == "fraction 0.6, expected 0.8"
    assert judged(first, stale, signatures=[]).wrong == "signatures none, expected stale_commit"
    assert judged(first, Expected(False, 1, "over_applied")).wrong == "signatures stale_commit, expected over_applied"


def test_the_policies_differ_where_they_are_meant_to(off_a: Trial) -> None:
    """Six clerks, two ways to act under OFF-A: those who look again at the review step, and those who do not."""
    distinct = off_a.distinct
    assert "late_reread" in distinct
    assert "reference" in distinct
    assert not {"follow_cue", "read_review", "stale", "over_apply"} & set(distinct)
    assert off_a.runs["stale"].episode.actions == off_a.runs["reference"].episode.actions
    assert isinstance(off_a.runs["stale"].scripted, Scripted)
