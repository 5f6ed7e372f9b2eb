"""Forged evidence: consistent where it means to be, and each mutant loses what was worked out by hand."""

import pytest
from subjects import make_trial

from envos.certify.corruptions import CORRUPTIONS
from envos.certify.forgery import Draft, applied, bump
from envos.certify.mutants import DISTINCT, mutants
from envos.certify.trial import Trial
from envos.envs.evidence import Action, Report, State, TableState, Write
from envos.rewards.verdict import Verdict, verify

ALL = {"I1", "I2", "I3", "I4", "I5"}
LOST = {
    "wrong_place": {"I1"},
    "off_by_one_row": {"I1"},
    "duplicate": {"I2"},
    "repeated_request": {"I2"},
    "reconfirmed": {"I2"},
    "stray_edit": {"I3"},
    "stray_delete": {"I3"},
    "unmarked": {"I4"},
    "marked_with_another": {"I4"},
    "field_missing": {"I5"},
    "amended": {"I1"},
    "all_candidates": {"I5"},
    "field_off": {"I5"},
    "field_off.location": {"I5"},
    "field_off.reference": {"I5"},
    # Nothing was written that should not have been, so I3 stands; the rest needs a commit.
    "dropped": ALL - {"I3"},
    "claimed_only": ALL - {"I3"},
    # A booking for another patient is no commit of the task, and is collateral.
    "other_subject": ALL,
}


@pytest.fixture(scope="module", params=["L0", "L2", "OFF-A", "LIVE-A"])
def one(request: pytest.FixtureRequest) -> Trial:
    """A trial whose oracle won."""
    return make_trial(request.param, deep=False)


def lost(verdict: Verdict) -> set[str]:
    return {name for name, term in verdict.invariants.items() if not term.passed}


def test_an_unedited_draft_is_the_episode(one: Trial) -> None:
    evidence = Draft.of(one).evidence()
    assert evidence.digest == one.best.evidence.digest
    assert verify(evidence).endpoint is True


def test_each_mutant_is_counted_and_loses_what_it_breaks(one: Trial) -> None:
    made = {mutant.name: mutant for mutant in mutants(one.world.report)}
    assert set(made) == {*LOST, "undisclosed", "disclosed_off"}
    for name, mutant in made.items():
        draft = Draft.of(one)
        if name not in LOST:
            # There is nothing to disclose here; certification of the ghost environments has these.
            assert not mutant.make(draft)
            continue
        assert mutant.make(draft)
        verdict = verify(draft.evidence())
        assert (name, verdict.validity, lost(verdict)) == (name, "counted", LOST[name])
        assert mutant.lost == LOST[name]
        assert (verdict.endpoint, verdict.reward) == (False, 0.0)
    assert set(DISTINCT) <= set(made)


def test_each_corruption_voids_the_episode(one: Trial) -> None:
    names = []
    for corruption in CORRUPTIONS:
        evidence = corruption.make(Draft.of(one))
        if evidence is not None:
            names.append(corruption.name)
            verdict = verify(evidence)
            assert not verdict.counted, corruption.name
            assert verdict.validity in corruption.validity, (corruption.name, verdict.reasons)
            assert verdict.reward == 0.0
    skipped = {corruption.name for corruption in CORRUPTIONS} - set(names)
    wanted = {
        "L0": {"stale_page", "notice_undelivered", "review_undelivered"},
        "L2": {"review_undelivered"},
        "OFF-A": {"notice_undelivered", "review_undelivered"},
        "LIVE-A": {"notice_undelivered"},
    }
    assert skipped == wanted[one.condition]


def test_the_report_and_the_action_that_gave_it_agree(one: Trial) -> None:
    draft = Draft.of(one)
    draft.report_as({"location": 'Ward "B"', "start": "2026-03-12 09:40", "reference": "AP-1"})
    (place,) = draft.find(Report)
    assert draft.records[place] == Report(
        one.best.episode.steps, {"location": 'Ward "B"', "start": "2026-03-12 09:40", "reference": "AP-1"}
    )
    last = draft.records[draft.find(Action)[-1]]
    assert isinstance(last, Action)
    assert last.raw == 'report(location="Ward \\"B\\"", start="2026-03-12 09:40", reference="AP-1")'


@pytest.mark.parametrize(
    ("value", "next_value"),
    [
        (4, 5),
        ("09:59", "10:00"),
        ("2026-12-31 23:59", "2027-01-01 00:00"),
        ("2694.51", "2694.52"),
        ("9.99", "10.00"),
        ("AP-1047", "AP-1048"),
        ("Riverside Clinic", "Riverside Clinic 2"),
        ("booked", "booked 2"),
        (None, "None 2"),
    ],
)
def test_bump_is_the_nearest_other_value(value: int | str | None, next_value: int | str) -> None:
    assert bump(value) == next_value


def test_writes_are_applied_in_order_and_the_first_state_is_kept() -> None:
    before: State = {"slot": TableState(("id", "status"), {1: (1, "free"), 2: (2, "free")})}
    after = applied(
        before,
        [
            Write(1, "agent", "update", "slot", 1, {"status": ("free", "booked")}),
            Write(1, "agent", "insert", "slot", 3, {"id": (None, 3), "status": (None, "free")}),
            Write(2, "agent", "delete", "slot", 2, {"id": (2, None), "status": ("free", None)}),
            Write(2, "agent", "update", "slot", 3, {"status": ("free", "held")}),
        ],
    )
    assert after["slot"].rows == {1: (1, "booked"), 3: (3, "held")}
    assert before["slot"].rows == {1: (1, "free"), 2: (2, "free")}


def test_requests_can_be_put_in_between(one: Trial) -> None:
    """The mutant that sends the commit again: numbers go on without a gap, frames show the last request."""
    draft = Draft.of(one)
    next(mutant for mutant in mutants(one.world.report) if mutant.name == "repeated_request").make(draft)
    verdict = verify(draft.evidence())
    assert verdict.validity == "counted"
    assert verdict.invariants["I2"].reason == "more than one commit"
    assert len(draft.records) == len(one.best.evidence.records) + 2
