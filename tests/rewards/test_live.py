"""The verifier on live episodes of the clinic, played by scripted policies."""

import json
from collections.abc import Iterator
from typing import Any

import gymnasium
import pytest

import envos
from envos.certify.policies import policies
from envos.certify.rollout import play
from envos.envs.env import EnvOS
from envos.rewards.verdict import verify

ID = "EnvOS/ClinicStale-v0"
CONDITIONS = ("L0", "C", "L2", "OFF-A", "CUE-A", "LIVE-A", "OFF-I", "LIVE-I")


@pytest.fixture(scope="module")
def env() -> Iterator[EnvOS]:
    assert ID in envos.gymnasium.registry
    made = gymnasium.make(ID, disable_env_checker=True)
    yield made.unwrapped  # type: ignore[misc]
    made.close()


def played(env: EnvOS, name: str, condition: str, seed: int = 3, anchor: str = "first") -> dict[str, Any]:
    options = {"condition": condition, "anchor": anchor, "policy": name}
    return dict(play(env, policies("clinic")[name].policy, seed, options).verdict)


@pytest.mark.parametrize("anchor", ["first", "any"])
@pytest.mark.parametrize("condition", CONDITIONS)
def test_who_reads_again_at_the_review_step_is_always_right(env: EnvOS, condition: str, anchor: str) -> None:
    verdict = played(env, "late_reread", condition, anchor=anchor)
    assert (verdict["validity"], verdict["endpoint"], verdict["reward"]) == ("counted", True, 1.0)
    assert verdict["measures"]["receipt"]["armed_frame"] is not None
    if verdict["measures"]["new_value_before_commit"] is not None:
        assert "reread_before_commit" in verdict["signatures"] or condition == "L2"


@pytest.mark.parametrize(
    ("condition", "signature"),
    [
        ("L2", ["stale_commit", "update_neglected"]),
        ("OFF-A", ["stale_commit"]),
        ("CUE-A", ["stale_commit"]),
        ("LIVE-A", ["stale_commit"]),
    ],
)
def test_who_does_not_is_stale_where_the_fact_changes(env: EnvOS, condition: str, signature: list[str]) -> None:
    verdict = played(env, "stale", condition)
    assert (verdict["validity"], verdict["endpoint"], verdict["fraction"]) == ("counted", False, 0.8)
    assert verdict["signatures"] == signature
    assert [name for name, term in verdict["invariants"].items() if not term["passed"]] == ["I1"]


@pytest.mark.parametrize("condition", ["L0", "C", "OFF-I", "LIVE-I"])
def test_and_right_where_it_does_not(env: EnvOS, condition: str) -> None:
    assert played(env, "stale", condition)["endpoint"] is True


def test_an_irrelevant_change_taken_for_the_fact(env: EnvOS) -> None:
    verdict = played(env, "over_apply", "C")
    assert (verdict["endpoint"], verdict["signatures"]) == (False, ["over_applied"])


def test_two_bookings_and_a_report_of_what_was_not_booked(env: EnvOS) -> None:
    assert "duplicate_commit" in played(env, "commit_twice", "OFF-A")["signatures"]
    assert "propagated_intent_not_state" in played(env, "report_only", "OFF-A")["signatures"]


def test_idle_policies_are_not_triggered(env: EnvOS) -> None:
    verdict = played(env, "no_op", "OFF-A")
    assert (verdict["validity"], verdict["counted"]) == ("not_triggered", False)
    assert verdict["signatures"] == ["never_looked", "no_commit", "no_report"]


def test_grading_again_gives_the_same_verdict(env: EnvOS) -> None:
    verdict = played(env, "reference", "OFF-A")
    evidence = env.evidence()
    assert {json.dumps(verify(evidence).info()) for _ in range(5)} == {json.dumps(verdict)}
