"""The verdict as a whole: order of classes, purity, errors that fail closed, and what becomes of it as a number."""

import json
import math
from collections.abc import Mapping
from dataclasses import FrozenInstanceError, replace
from typing import Any

import pytest
from tape import Tape
from tinyworld import WORLD, make_world

from envos.envs import scenario
from envos.envs.evidence import Evidence, Start, chain, from_line, state_from_json, state_json
from envos.errors import UsageError
from envos.rewards import invariants, signatures, verdict
from envos.rewards.shaping import checked, endpoint_reward, fraction_reward
from envos.rewards.trace import Trace
from envos.rewards.verdict import GRADER, Verdict, judge, verify


def good(**options: Any) -> Tape:
    return Tape("OFF-A", **options).look().form().look().review().book(3).done().report()


def stale() -> Tape:
    return Tape("OFF-A").look().form().review().book(2).done().report()


def graded(tape: Tape, **world: Any) -> Verdict:
    return judge(tape.evidence(), tape.plan, make_world(**world))


@pytest.fixture
def _tiny_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verdict, "load_world", lambda name: WORLD if name == "tiny" else scenario.load_world(name))


@pytest.mark.usefixtures("_tiny_is_known")
def test_verify_finds_plan_and_world_in_the_evidence() -> None:
    assert verify(good().evidence()) == graded(good())
    assert verify(stale().evidence()).fraction == 0.8


@pytest.mark.usefixtures("_tiny_is_known")
def test_an_archive_has_the_verdict_of_the_live_episode() -> None:
    """Through JSON and back, and twenty times over (checks E24)."""
    live = stale().evidence()
    records = tuple(from_line(line)[2] for line in chain(live.records))
    states = [state_from_json(json.loads(json.dumps(state_json(state)))) for state in (live.pre, live.post)]
    archived = Evidence(records, *states)
    wanted = json.dumps(verify(live).info())
    assert {json.dumps(verify(archived).info()) for _ in range(20)} == {wanted}


def test_evidence_is_left_as_it_was() -> None:
    tape = good()
    evidence = tape.evidence()
    before = evidence.digest
    judge(evidence, tape.plan, WORLD)
    assert evidence.digest == before


# Errors fail closed (check E11)


class BrokenError(Exception):
    """What the tests below raise."""


def broken(*_: object) -> Any:
    raise BrokenError("no")


@pytest.mark.parametrize("term", ["answer", "describe", "display", "commit", "continuation"])
@pytest.mark.parametrize("tape", [good(), stale()], ids=["success", "failure"])
def test_an_error_in_the_world_decides_nothing(tape: Tape, term: str) -> None:
    found = graded(tape, **{term: broken})
    assert (found.validity, found.counted, found.endpoint) == ("harness_error", False, None)
    assert [reason.code for reason in found.reasons] == ["term_failed"]
    assert "BrokenError" in found.reasons[0].detail
    assert endpoint_reward(found) is None


@pytest.mark.parametrize("name", ["target_state", "exactly_one_commit", "no_collateral", "continued", "reported"])
def test_an_error_in_an_invariant_decides_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(invariants, name, broken)
    found = graded(good())
    assert (found.validity, found.reasons[0].code, found.invariants) == ("harness_error", "term_failed", {})


@pytest.mark.parametrize("name", sorted(signatures.SIGNATURES))
def test_an_error_in_a_signature_decides_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signatures, "SIGNATURES", {**signatures.SIGNATURES, name: broken})
    assert graded(good()).validity == "harness_error"


@pytest.mark.parametrize("name", ["read", "follow", "validity", "outcome", "invariants"])
def test_an_error_in_a_stage_decides_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verdict, name, broken)
    found = graded(good())
    assert (found.validity, found.reasons[0].code) == ("harness_error", "term_failed")


def test_a_world_that_cannot_be_loaded_decides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verdict, "load_world", broken)
    found = verify(good().evidence())
    assert (found.validity, found.reasons[0].code) == ("harness_error", "world_unknown")


def test_an_empty_set_of_invariants_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verdict, "invariants", lambda facts: {})
    assert graded(good()).validity == "harness_error"


@pytest.mark.usefixtures("_tiny_is_known")
@pytest.mark.parametrize("records", [(1, 2), (None,), ("start",)])
def test_what_is_no_ledger_at_all_is_a_harness_error(records: tuple[Any, ...]) -> None:
    assert verify(Evidence(records, {}, {})).validity == "harness_error"
    assert verify(Evidence((Start({}, {}), *records), {}, {})).validity == "harness_error"


@pytest.mark.parametrize("table", ["booking", "slot", "event", "perturbation_guard", "ticket"])
def test_a_state_that_lacks_a_table_never_passes(table: str) -> None:
    tape = good()
    evidence = tape.evidence()
    less = {name: rows for name, rows in evidence.post.items() if name != table}
    assert judge(replace(evidence, post=less), tape.plan, WORLD).validity == "harness_error"


# Classes


def test_validity_is_decided_before_the_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    """For an uncounted episode the outcome is not even computed."""
    monkeypatch.setattr(verdict, "outcome", broken)
    tapes = [
        Tape("LIVE-A").look().form().book(3).done().report(),
        Tape("OFF-A").look().exhaust(),
        Tape("OFF-A").look().fault("infra_rejected"),
        good(new_text="East"),
    ]
    labels = [graded(tape).validity for tape in tapes]
    assert labels == ["delivery_ambiguous", "not_triggered", "infra_rejected", "trigger_invalid"]


def test_the_first_class_that_holds_wins() -> None:
    """One tape with a wrong plan text, an undelivered notice, a broken frame and an infrastructure fault."""
    tape = Tape("L2", new_text="East").look().form().book(3)
    assert graded(Tape("L2", new_text="East").look().form().look().book(3).report()).validity == "trigger_invalid"
    assert graded(tape.report()).validity == "delivery_ambiguous"
    frame = next(place for place, item in enumerate(tape.records) if type(item).__name__ == "Frame")
    tape.records[frame] = tape.records[frame]._replace(page="# Other")  # type: ignore[call-arg]
    assert graded(tape).validity == "harness_error"
    faulty = Tape("L2", new_text="East").look().form().book(3).fault("infra_failure")
    assert graded(faulty).validity == "infra_failure"


def test_untriggered_counts_as_the_plan_says() -> None:
    tape = Tape("OFF-A", untriggered="failure").look().exhaust()
    found = graded(tape)
    assert (found.validity, found.counted, found.untriggered) == ("not_triggered", True, True)
    assert (found.endpoint, found.fraction, found.reward) == (False, 0.0, 0.0)
    assert (endpoint_reward(found), fraction_reward(found)) == (0.0, 0.0)
    found = graded(Tape("OFF-A").look().exhaust())
    assert (found.counted, found.untriggered, found.endpoint, found.fraction) == (False, True, None, None)


# The verdict as data


def test_info_is_json_and_new_each_time() -> None:
    found = graded(stale())
    info = found.info()
    assert json.loads(json.dumps(info)) == info
    info["invariants"]["I1"]["measured"]["right"].clear()
    info["measures"]["receipt"]["armed_frame"] = 99
    info["reasons"].append("x")
    again = found.info()
    assert again["invariants"]["I1"]["measured"]["right"]["slot_id"] == 3
    assert (again["measures"]["receipt"]["armed_frame"], again["reasons"]) == (1, [])
    assert (again["grader"], again["validity"], again["reward"]) == (GRADER, "counted", 0.0)


def test_info_of_an_uncounted_episode_holds_no_outcome() -> None:
    info = graded(Tape("LIVE-A").look().form().book(3).done().report()).info()
    assert info["reasons"] == [
        {
            "code": "review_undelivered",
            "record": 10,  # the firing
            "detail": "no review page between the firing and the commit",
        }
    ]
    assert (info["counted"], info["endpoint"], info["fraction"], info["invariants"]) == (False, None, None, {})


def test_a_verdict_is_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        graded(good()).reward = 1.0  # type: ignore[misc]


def test_the_reward_is_the_product_of_the_invariants() -> None:
    for tape in (good(), stale()):
        found = graded(tape)
        assert found.reward == math.prod(term.passed for term in found.invariants.values())


# Numbers (check E06)


def test_rewards_of_counted_and_uncounted_episodes() -> None:
    assert (endpoint_reward(graded(good())), fraction_reward(graded(good()))) == (1.0, 1.0)
    assert (endpoint_reward(graded(stale())), fraction_reward(graded(stale()))) == (0.0, 0.8)
    uncounted = graded(Tape("OFF-A").look().exhaust())
    assert (endpoint_reward(uncounted), fraction_reward(uncounted)) == (None, None)


@pytest.mark.parametrize("value", [True, False, 1, 0, "1.0", None, math.nan, math.inf, -0.1, 1.1])
def test_what_is_no_reward(value: object) -> None:
    with pytest.raises(UsageError):
        checked(value)


@pytest.mark.parametrize("changes", [{"reward": True}, {"reward": math.nan}, {"fraction": 2.0}, {"fraction": None}])
def test_a_malformed_verdict_pays_nothing(changes: Mapping[str, Any]) -> None:
    wrong = replace(graded(good()), **changes)
    with pytest.raises(UsageError):
        (endpoint_reward if "reward" in changes else fraction_reward)(wrong)


def test_a_trace_of_nothing() -> None:
    assert Trace(()).fired_at() == -1
