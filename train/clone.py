"""A copy of the scripted `reference`: competent, and stale. Where learning starts.

The demonstrations are the reference's own, with harmless detours in between (links that nobody asked for) after which
it is asked again what it would do. No policy that goes back to its source by itself is ever shown.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from envos.envs.scenario import scenario
from envos.envs.streams import Stream
from envos.train.demonstrations import reference
from envos.train.evaluate import make
from envos.train.net import Pointer, tensors
from envos.wrappers.numeric import VERBS, NumericView

EPISODES = 600
DETOUR = 0.15
SMOOTHING = 0.05
"""Probability that is shared among all legal pairs: without it the clone never tries anything else."""
EPOCHS, BATCH, RATE = 12, 512, 1e-3


class Samples(NamedTuple):
    """What was seen and what the reference did then; `observations` by name, each (N, ...), `actions` (N,)."""

    observations: dict[str, np.ndarray[Any, Any]]
    actions: np.ndarray[Any, Any]


def detour(view: NumericView, stream: Stream) -> int | None:
    """A link of the page, drawn; None where there is none."""
    places = [place for place, item in enumerate(view.screen.items) if item.role == "link" and view.can(place, "act")]
    return stream.pick(places) * len(VERBS) if places else None


def collect(environments: Sequence[str], episodes: int = EPISODES, anchor: str = "any", first: int = 0) -> Samples:
    """Episodes of the reference over all conditions of the environments, with detours, on training instances."""
    arms = [(name, condition) for name in environments for condition in scenario(name).conditions]
    seen: list[dict[str, Any]] = []
    actions: list[int] = []
    made = {name: make(name, anchor=anchor, split="train") for name in environments}
    for number in range(episodes):
        name, condition = arms[number % len(arms)]
        view, stream = made[name], Stream(first + number, "train", "detours")
        observation, _ = view.reset(seed=first + number, options={"condition": condition, "policy": "reference"})
        ended = False
        while not ended:
            action = reference(view)
            seen.append(observation)
            actions.append(action)
            away = detour(view, stream) if stream.chance(DETOUR) else None
            observation, _, terminated, truncated, _ = view.step(action if away is None else away)
            ended = terminated or truncated
    for view in made.values():
        view.close()
    return Samples({name: np.stack([one[name] for one in seen]) for name in seen[0]}, np.array(actions))


def loss(logits: torch.Tensor, mask: torch.Tensor, actions: torch.Tensor, smoothing: float = SMOOTHING) -> torch.Tensor:
    """Cross entropy with the target's probability shared a little among the legal pairs."""
    logs = torch.log_softmax(logits, -1)
    legal = mask > 0.5
    even = torch.where(legal, logs, torch.zeros_like(logs)).sum(-1) / legal.sum(-1)
    own = logs.gather(-1, actions.unsqueeze(-1)).squeeze(-1)
    return -((1 - smoothing) * own + smoothing * even).mean()


def clone(
    samples: Samples,
    seed: int = 0,
    epochs: int = EPOCHS,
    smoothing: float = SMOOTHING,
    progress: Callable[[int, float], None] | None = None,
) -> Pointer:
    """A network that does what the samples' policy did; `progress` is told epoch and share of equal actions."""
    torch.manual_seed(seed)
    net = Pointer()
    # The value is not taught here; PPO begins with that of a fresh head.
    optimizer = torch.optim.Adam(net.parameters(), RATE)
    data, actions = tensors(samples.observations), torch.as_tensor(samples.actions)
    shuffled = torch.Generator().manual_seed(seed)
    for epoch in range(epochs):
        right = 0
        for places in torch.randperm(len(actions), generator=shuffled).split(BATCH):
            batch = {name: value[places] for name, value in data.items()}
            logits, _ = net(batch)
            error = loss(logits, batch["action_mask"], actions[places], smoothing)
            optimizer.zero_grad()
            error.backward()
            optimizer.step()
            right += int((logits.argmax(-1) == actions[places]).sum())
        if progress is not None:
            progress(epoch + 1, right / len(actions))
    return net
