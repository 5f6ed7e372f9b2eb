"""Sharing what policies have in common changes no episode."""

import pytest
from subjects import make_env

from envos.certify.policies import Observation, Steps
from envos.certify.policies.clinic import POLICIES
from envos.certify.rollout import play
from envos.certify.tree import Tree
from envos.certify.trial import twin
from envos.envs.action import goto, report


@pytest.mark.parametrize(("condition", "anchor"), [("L2", "first"), ("LIVE-A", "any"), ("CUE-A", "first")])
def test_every_episode_is_as_if_played_alone(condition: str, anchor: str) -> None:
    env, alone = make_env(), make_env()
    options = {"condition": condition, "anchor": anchor}
    tree = Tree(env, 7, options)
    for scripted in POLICIES.values():
        episode, evidence, log = tree.play(scripted.policy)
        wanted = play(alone, scripted.policy, 7, dict(options))
        assert episode == wanted
        assert evidence.digest == alone.evidence().digest
        assert log.records is evidence.records
    env.close()
    alone.close()


def test_what_is_known_is_not_played_again() -> None:
    env = make_env()
    tree = Tree(env, 7, {"condition": "OFF-A", "anchor": "first"})
    steps: list[str] = []
    proper = env.step
    env.step = lambda action: (steps.append(action), proper(action))[1]  # type: ignore[method-assign]
    first = tree.play(POLICIES["reference"].policy)
    length = len(steps)
    assert length == first[0].steps
    # Under OFF-A nothing is announced and the review step shows nothing: a clerk who dismisses notices acts alike.
    assert tree.play(POLICIES["stale"].policy)[1] is first[1]
    assert len(steps) == length
    other = tree.play(POLICIES["late_reread"].policy)
    shared = [one == two for one, two in zip(first[0].actions, other[0].actions, strict=False)].index(False)
    assert len(steps) == length + other[0].steps - shared
    env.close()


def test_a_tree_goes_on_after_its_environment_was_used_otherwise() -> None:
    env = make_env()
    tree = Tree(env, 7, {"condition": "OFF-A", "anchor": "first"})
    tree.play(POLICIES["reference"].policy)
    env.reset(seed=99)
    tree.leave()
    episode, *_ = tree.play(POLICIES["late_reread"].policy)
    assert episode.reward == 1.0
    env.close()


def test_idle_policies_are_those_that_never_meet_the_condition() -> None:
    """no_op sees the home page only; always_back reads the source, and never asks for the form."""
    env = make_env()
    idle = twin(env, 7, "first").idle
    assert {"no_op", "always_back"} <= set(idle)
    assert not {"commit_twice", "report_only"} & set(idle)
    env.close()


def test_a_policy_that_stops_is_carried_on_to_the_end() -> None:
    def gives_up(observation: Observation) -> Steps:
        yield goto("/sessions")

    def ends(observation: Observation) -> Steps:
        yield report(location="x", start="x", reference="x")

    env = make_env()
    tree = Tree(env, 7, {"condition": "OFF-A", "anchor": "first"})
    episode, *_ = tree.play(gives_up)
    assert episode.actions == ('goto("/sessions")', *("noop()",) * 47)
    assert tree.play(ends)[0].steps == 1
    env.close()
