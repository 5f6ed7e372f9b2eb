"""Greedy episodes of a network on instances that it was not trained on, and scripted policies on the same ones."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import gymnasium
import numpy as np
import torch

from envos.certify.policies import policies
from envos.certify.rollout import play
from envos.certify.twokey import TwoKeyReward
from envos.envs.scenario import scenario
from envos.train.net import Pointer, tensors
from envos.wrappers.numeric import NumericView

TOGETHER = 32
"""Environments that are stepped side by side, so that the network is asked for a batch."""


@dataclass(frozen=True, slots=True)
class Score:
    """How a policy fared under one condition and anchor; rates are over the counted episodes, None without any.

    `actions` is a mean over all episodes; `differ` are those on which the two keys did, of the share that was audited.
    """

    policy: str
    environment: str
    condition: str
    anchor: str
    episodes: int
    counted: int
    success: float | None
    fraction: float | None
    actions: float
    validity: dict[str, int]
    signatures: dict[str, int]
    differ: int

    def to_json(self) -> dict[str, Any]:
        """The score as JSON data."""
        return asdict(self)


def make(environment: str, audit: float = 0.0, **keywords: Any) -> NumericView:
    """An environment as arrays; a share of its episodes must pass both keys to count."""
    env = gymnasium.make(f"envos:{environment}", disable_env_checker=True, **keywords)
    return NumericView(TwoKeyReward(env, audit) if audit else env)


@torch.no_grad()
def episodes(
    net: Pointer,
    environment: str,
    condition: str,
    anchor: str,
    seeds: Sequence[int],
    split: str = "test",
    audit: float = 0.0,
) -> Iterable[dict[str, Any]]:
    """The verdicts of greedy episodes, as each ends; `seed` and `actions` are added to each."""
    envs = [
        make(environment, audit, condition=condition, anchor=anchor, split=split)
        for _ in range(min(TOGETHER, len(seeds)))
    ]
    waiting = list(seeds)[::-1]
    running: dict[int, tuple[int, int, Any]] = {}
    for number, env in enumerate(envs):
        seed = waiting.pop()
        running[number] = (seed, 0, env.reset(seed=seed)[0])
    while running:
        numbers = list(running)
        seen = [running[number][2] for number in numbers]
        batch = tensors({name: np.stack([one[name] for one in seen]) for name in seen[0]})
        chosen = net(batch)[0].argmax(-1).tolist()
        for number, action in zip(numbers, chosen, strict=True):
            seed, count, _ = running[number]
            observation, _, terminated, truncated, info = envs[number].step(action)
            if not (terminated or truncated):
                running[number] = (seed, count + 1, observation)
                continue
            yield {**info["verdict"], "seed": seed, "actions": count + 1}
            del running[number]
            if waiting:
                seed = waiting.pop()
                running[number] = (seed, 0, envs[number].reset(seed=seed)[0])
    for env in envs:
        env.close()


def score(
    net: Pointer,
    environment: str,
    condition: str,
    anchor: str,
    seeds: Sequence[int],
    split: str = "test",
    audit: float = 0.0,
) -> Score:
    """How a network fares, greedily, under one condition and anchor; a share of its episodes is audited."""
    found = list(episodes(net, environment, condition, anchor, seeds, split, audit))
    return summed("agent", environment, condition, anchor, found)


def scripted(
    policy: str, environment: str, condition: str, anchor: str, seeds: Sequence[int], split: str = "test"
) -> Score:
    """How a scripted policy fares on pages, on the same instances."""
    line = scenario(environment)
    act = policies(line.world, line.phenomenon)[policy].policy
    env = gymnasium.make(f"envos:{environment}", split=split, disable_env_checker=True)
    played = [play(env, act, seed, {"condition": condition, "anchor": anchor}) for seed in seeds]
    env.close()
    found = [{**one.verdict, "actions": one.steps} for one in played]
    return summed(policy, environment, condition, anchor, found)


def summed(policy: str, environment: str, condition: str, anchor: str, found: Sequence[Mapping[str, Any]]) -> Score:
    """The score of these verdicts, to each of which `actions` is added."""
    counted = [one for one in found if one["counted"]]
    return Score(
        policy,
        environment,
        condition,
        anchor,
        len(found),
        len(counted),
        sum(bool(one["endpoint"]) for one in counted) / len(counted) if counted else None,
        sum(one["fraction"] for one in counted) / len(counted) if counted else None,
        sum(one["actions"] for one in found) / len(found),
        dict(sorted(Counter(one["validity"] for one in found).items())),
        dict(sorted(Counter(name for one in found for name in one["signatures"]).items())),
        sum(any(reason["code"] == "keys_differ" for reason in one["reasons"]) for one in found),
    )
