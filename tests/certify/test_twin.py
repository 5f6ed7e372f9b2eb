"""Twin episodes are the episodes that their conditions have by themselves; the gap counts what a change costs."""

from itertools import count
from typing import Any

import gymnasium
import pytest

import envos
from envos.certify import twin as module
from envos.certify.policies import Observation, Policy, Steps, policies
from envos.certify.policies.clinic import clerk
from envos.certify.rollout import play
from envos.certify.twin import Arm, gap, paired, twin
from envos.envs.action import goto, noop, report
from envos.envs.env import EnvOS
from envos.envs.evidence import Fire, Request
from envos.envs.scenario import SCENARIOS
from envos.errors import UnknownName, UsageError

IDS = tuple(SCENARIOS)
CLINIC = "EnvOS/ClinicStale-v0"
ANCHORS = ("first", "any")
CONDITIONS = SCENARIOS[CLINIC].conditions
SILENT = ("OFF-A", "CUE-A", "LIVE-A")


def alone(environment: str, seed: int, condition: str, policy: Policy, anchor: str, name: str) -> tuple[Any, ...]:
    """The episode of a condition by itself: what an arm must be equal to, and the step in which it fired."""
    env = gymnasium.make(f"envos:{environment}", anchor=anchor, disable_env_checker=True)
    episode = play(env, policy, seed, {"condition": condition, "policy": name})
    inner = env.unwrapped
    assert isinstance(inner, EnvOS)
    evidence = inner.evidence()
    fired = {record.request for record in evidence.records if isinstance(record, Fire)}
    steps = [record.step for record in evidence.records if isinstance(record, Request) and record.number in fired]
    env.close()
    return episode.verdict, episode.reward, episode.actions, evidence.digest, (steps or [0])[0]


def check(environment: str, seed: int, policy: Policy, anchor: str, name: str = "", backwards: bool = False) -> None:
    """Every arm equals its own episode, to the last record."""
    conditions = SCENARIOS[environment].conditions[:: -1 if backwards else 1]
    found = twin(environment, seed, conditions, policy=name or policy, anchor=anchor)
    assert tuple(found) == conditions
    for condition, arm in found.items():
        verdict, reward, actions, digest, fired = alone(environment, seed, condition, policy, anchor, name)
        assert arm.actions == actions, (name, condition)
        assert (arm.reward, arm.steps, arm.digest) == (reward, len(actions), digest), (name, condition)
        assert arm.verdict == verdict
        # Nobody has fired in what is shared.
        assert arm.shared < (fired or len(actions) + 1) or condition == conditions[0]


@pytest.mark.parametrize("anchor", ANCHORS)
@pytest.mark.parametrize("environment", IDS)
def test_each_arm_is_the_episode_of_its_condition(environment: str, anchor: str) -> None:
    """Verdicts, actions and evidence digests, for every condition and every scripted policy, from either end."""
    line = SCENARIOS[environment]
    for number, (name, scripted) in enumerate(policies(line.world, line.phenomenon).items()):
        check(environment, 3 + number % 2, scripted.policy, anchor, name, backwards=bool(number % 2))


def review_first(observation: Observation) -> Steps:
    """Opens the review step before anything can fire, and then is careful."""
    for path in ("/new/review?referral=1&slot=1", "/new/clinic?referral=1"):
        observation = yield goto(path)
    yield from clerk()(observation)


def unarmed(observation: Observation) -> Steps:
    """Goes through the form, and never reads the source."""
    for path in ("/new/clinic?referral=1", "/new/review?referral=1&slot=1", "/new/slot?referral=1&place=1"):
        yield goto(path)
    yield report(location="x", start="y", reference="z")


@pytest.mark.parametrize("anchor", ANCHORS)
@pytest.mark.parametrize("policy", [review_first, unarmed])
def test_arms_part_where_a_review_tells_them_apart(policy: Policy, anchor: str) -> None:
    """A review that is opened before the change shows its condition already: those arms part there."""
    check(CLINIC, 5, policy, anchor)
    found = twin(CLINIC, 5, ("L0", "C", "CUE-A", "LIVE-A"), policy=policy, anchor=anchor)
    review = 0 if policy is review_first else 1
    assert (found["CUE-A"].shared, found["LIVE-A"].shared) == (review, review)
    assert found["C"].shared > review


def only_fires(base: Any, other: Any, before: Any, records: Any, world: Any) -> bool:
    """A rule that overlooks what would have happened in the other arm."""
    return any(isinstance(record, Fire) for record in records)


def test_an_overlooked_review_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment itself does not go on as another arm once a review step told them apart."""
    monkeypatch.setattr(module, "parts", only_fires)
    with pytest.raises(UsageError, match="the review step has been shown"):
        twin(CLINIC, 5, policy=review_first, anchor="first")


def drawn_apart(seed: int) -> bool:
    """Whether, with the anchor "any", an announced change of this seed comes at an earlier page than none does."""
    env = gymnasium.make(f"envos:{CLINIC}", anchor="any", disable_env_checker=True)
    inner = env.unwrapped
    assert isinstance(inner, EnvOS)
    plans = []
    for condition in ("L0", "L2"):
        env.reset(seed=seed, options={"condition": condition})
        plans.append(inner.plan.trigger)
    env.close()
    return plans[0] != plans[1]


def test_an_overlooked_trigger_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment itself does not go on as an arm whose own trigger is past."""
    monkeypatch.setattr(module, "parts", only_fires)
    seed = next(seed for seed in range(6) if drawn_apart(seed))
    with pytest.raises(UsageError, match="the change would have fired in request"):
        twin(CLINIC, seed, policy="reference", anchor="any")


def test_the_prefix_ends_before_the_step_that_fires() -> None:
    """Anchor first: all arms go on from the step that fires, and the base is played from end to end."""
    found = twin(CLINIC, 7, policy="late_reread", anchor="first")
    *_, fired = alone(CLINIC, 7, "OFF-A", policies("clinic")["late_reread"].policy, "first", "late_reread")
    assert [arm.shared for arm in found.values()] == [found["L0"].steps] + [fired - 1] * 7


def test_announced_arms_part_where_they_are_drawn_to() -> None:
    """Anchor any: somewhere among some seeds an announced change comes at another page than a silent one."""
    apart = 0
    for seed in range(6):
        found = twin(CLINIC, seed, ("L0", "L2", "OFF-A"), policy="reference")
        assert found["L2"].shared <= found["OFF-A"].shared
        apart += found["L2"].shared < found["OFF-A"].shared
    assert 0 < apart < 6


def test_conditions_are_in_the_order_given() -> None:
    found = twin(CLINIC, 2, ["OFF-A", "L0", "OFF-A"], policy="reference", split="test", anchor="first")
    assert list(found) == ["OFF-A", "L0"]
    assert [arm.verdict["endpoint"] for arm in found.values()] == [False, True]
    assert found["OFF-A"].verdict["signatures"] == ["stale_commit"]


def test_a_policy_that_acts_otherwise_when_shown_the_same_is_refused() -> None:
    tries = count()

    def fickle(observation: Observation) -> Steps:
        path = f"/patients/{1 + next(tries)}"
        while True:
            yield goto(path)
            yield noop()

    with pytest.raises(UsageError, match="acts alike when shown the same"):
        twin(CLINIC, 1, ("L0", "OFF-A"), policy=fickle)


def test_wrong_names() -> None:
    with pytest.raises(UnknownName, match="did you mean 'reference'"):
        twin(CLINIC, 1, policy="refrence")
    with pytest.raises(UnknownName, match="did you mean 'OFF-A'"):
        twin(CLINIC, 1, ("off-a",))
    with pytest.raises(UnknownName, match="unknown condition of EnvOS/ClinicStale-v0 'mixed'"):
        twin(CLINIC, 1, ("mixed",))
    with pytest.raises(UsageError, match="conditions are a list of names; got 'L0'"):
        twin(CLINIC, 1, "L0")
    with pytest.raises(UsageError, match="conditions are a list"):
        twin(CLINIC, 1, [])
    with pytest.raises(UnknownName, match="anchor"):
        twin(CLINIC, 1, anchor="last")
    with pytest.raises(UnknownName, match="environment"):
        gap("EnvOS/Nothing-v0", "reference", range(1))


def test_the_front_door_has_both() -> None:
    assert envos.twin is twin
    assert envos.gap is gap
    assert {"gap", "twin"} <= set(envos.__all__)


# The gap


@pytest.mark.parametrize(
    ("policy", "gaps"),
    [
        ("reference", (1.0, 1.0, 1.0)),
        ("follow_cue", (1.0, 0.0, 0.0)),
        ("read_review", (1.0, 1.0, 0.0)),
        ("late_reread", (0.0, 0.0, 0.0)),
    ],
)
def test_the_gap_of_a_policy(policy: str, gaps: tuple[float, ...]) -> None:
    """Four seeds; a change of something irrelevant costs a sound policy nothing."""
    seen: list[int] = []
    found = gap(CLINIC, policy, range(4), progress=seen.append)
    assert list(found) == [*SILENT, "OFF-I", "LIVE-I"]
    assert tuple(found[name].gap for name in SILENT) == gaps
    assert (found["OFF-I"].gap, found["LIVE-I"].gap) == (0.0, 0.0)
    assert all((one.pairs, one.uncounted, one.without_change) == (4, 0, 1.0) for one in found.values())
    assert seen == [1, 2, 3, 4]


def test_uncounted_pairs_are_left_out() -> None:
    """A policy that never reaches the form has no pair that counts, and so no gap."""
    one = gap(CLINIC, "no_op", range(2))["OFF-A"]
    assert (one.pairs, one.uncounted, one.gap, one.without_change, one.actions_with) == (0, 2, None, None, None)


def arm(endpoint: bool | None, steps: int = 3) -> Arm:
    verdict = {"counted": endpoint is not None, "endpoint": endpoint}
    return Arm(verdict, float(bool(endpoint)), ("noop()",) * steps, 0, "")


def test_the_gap_by_hand() -> None:
    """Seven seeds: both 1, lost 3, won 1, neither 1, and one that does not count; gap (3 - 1) / 6."""
    ends = [(True, True), (True, False), (True, False), (True, False), (False, True), (False, False), (True, None)]
    one = paired("OFF-A", [(arm(without, 3), arm(changed, 5)) for without, changed in ends])
    assert (one.pairs, one.uncounted, one.both, one.lost, one.won, one.neither) == (6, 1, 1, 3, 1, 1)
    assert one.without_change == pytest.approx(4 / 6)
    assert one.with_change == pytest.approx(2 / 6)
    assert one.gap == pytest.approx(2 / 6)
    assert (one.actions_without, one.actions_with) == (3.0, 5.0)
    assert one.to_json()["gap"] == one.gap
