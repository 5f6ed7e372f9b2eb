"""Playing a scripted policy through an environment."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import gymnasium

from envos.certify.policies import Policy
from envos.certify.policies.reading import NotFound


class Episode(NamedTuple):
    """One finished episode: verdict (as in `info`), reward, number of actions, the actions themselves."""

    verdict: Mapping[str, Any]
    reward: float
    steps: int
    actions: tuple[str, ...]


def play(env: gymnasium.Env[Any, str], policy: Policy, seed: int, options: dict[str, Any] | None = None) -> Episode:
    """Run one episode; `options` goes to reset (condition, anchor, policy name)."""
    observation, _ = env.reset(seed=seed, options=options)
    return go_on(env, policy, observation)


def go_on(env: gymnasium.Env[Any, str], policy: Policy, observation: Mapping[str, Any]) -> Episode:
    """Run a policy from an observation to the end of the episode.

    A policy that stops without a report, because a page does not hold what it looks for, is carried on with `noop()`
    until the budget is spent, so that every episode has an end and a verdict.
    """
    steps = policy(dict(observation))
    actions: list[str] = []
    action = next(steps)
    while True:
        actions.append(action)
        observation, reward, terminated, truncated, info = env.step(action)
        if terminated or truncated:
            steps.close()
            return Episode(dict(info["verdict"]), float(reward), len(actions), tuple(actions))
        action = reply(steps, observation)


def reply(steps: Any, observation: Mapping[str, Any]) -> str:
    """What a policy does next; one that has stopped, or does not find what it looks for, does nothing."""
    try:
        following: str = steps.send(observation)
        return following
    except (StopIteration, NotFound):
        return "noop()"
