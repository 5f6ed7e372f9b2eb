"""Before any training: how often a clone tries the two things that re-reading takes.

It goes back to the page of its source once it has noted what stands there, and it notes the new value when it differs.
Where either rate is nil, learning by trial has nothing to reinforce.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch

from envos.envs.env import EnvOS
from envos.envs.streams import Stream
from envos.train.evaluate import make
from envos.train.net import Pointer, tensors
from envos.wrappers.numeric import VERBS, NumericView


@dataclass(frozen=True, slots=True)
class Rates:
    """Episodes; the share that went back to the source after the change; and of those, the share that noted it."""

    episodes: int
    goes_back: float
    notes_it: float | None
    success: float

    def to_json(self) -> dict[str, Any]:
        """The rates as JSON data."""
        return asdict(self)


@torch.no_grad()
def probe(net: Pointer, environment: str, condition: str, seeds: Sequence[int], anchor: str = "any") -> Rates:
    """The rates of a network's own tries (drawn from its probabilities) under a condition, on training instances."""
    view = make(environment, condition=condition, anchor=anchor, split="train")
    back = noted = won = 0
    for seed in seeds:
        stream = Stream(seed, "train", "probe")
        observation, _ = view.reset(seed=seed)
        went = kept = ended = False
        while not ended:
            chances = torch.softmax(net(tensors({name: value[None] for name, value in observation.items()}))[0][0], -1)
            action = int(torch.searchsorted(torch.cumsum(chances, 0), stream.random()).clamp(max=len(chances) - 1))
            differs = _differs(view)
            went = went or differs
            kept = kept or (differs and action % len(VERBS) == VERBS.index("note") and _otherwise(view, action))
            observation, _, terminated, truncated, info = view.step(action)
            ended = terminated or truncated
        back, noted = back + went, noted + kept
        won += bool(info["verdict"]["endpoint"])
    view.close()
    count = len(seeds)
    return Rates(count, back / count, noted / back if back else None, won / count)


def _differs(view: NumericView) -> bool:
    """Whether the page is one of the source's, and shows another value than was noted under its key."""
    inner = view.unwrapped
    assert isinstance(inner, EnvOS)  # noqa: S101 - NumericView has made sure
    if view.path not in {route.partition("{")[0] for route in inner.plan.surfaces}:
        return False
    return any(_otherwise(view, place * len(VERBS)) for place in range(len(view.screen.items)))


def _otherwise(view: NumericView, action: int) -> bool:
    return view.noted_otherwise(action // len(VERBS))
