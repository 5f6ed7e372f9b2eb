"""What an agent trains on: episodes of several environments and conditions, one drawn at a time."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import gymnasium
import numpy as np

from envos.envs.scenario import check_anchor, scenario
from envos.errors import UsageError
from envos.train.evaluate import make
from envos.wrappers.numeric import Array, NumericView

Arm = tuple[str, str]
"""An environment's id and one of its conditions."""


def arms(environments: Sequence[str], conditions: Sequence[str] = ("all",)) -> list[Arm]:
    """The conditions of these environments that are named, or all. Raises UnknownName, or UsageError of none."""
    found = [
        (scenario(name).id, condition)
        for name in environments
        for condition in scenario(name).conditions
        if "all" in conditions or condition in conditions
    ]
    if not found:
        raise UsageError(f"none of {', '.join(environments)} has a condition of {', '.join(conditions)}")
    return found


class Ended(NamedTuple):
    """How an episode ended: a tuple, which a vector environment hands on as it is (a dict it would take apart)."""

    environment: str
    condition: str
    verdict: Mapping[str, Any]


class Arms(gymnasium.Env[dict[str, Array], int]):
    """Episodes of the arms, drawn evenly, on training instances; the arrays and pairs are `NumericView`'s.

    The last `info` holds `ended`. `reward` is "binary" or "fraction" (of the invariants).
    `allow` sets the arms from the next reset on. Of the episodes, the share `audit` must pass both keys to count.
    """

    def __init__(self, chosen: Sequence[Arm], anchor: str = "any", reward: str = "binary", audit: float = 0.0) -> None:
        if reward not in ("binary", "fraction"):
            raise UsageError(f"a reward is binary or fraction; got {reward!r}")
        self._anchor = check_anchor(anchor)
        self._reward, self._audit = reward, audit
        self._views: dict[str, NumericView] = {}
        self.allow(chosen)
        first = self._view(self._arms[0][0])
        self.observation_space, self.action_space = first.observation_space, first.action_space  # type: ignore[assignment]

    def allow(self, chosen: Sequence[Arm]) -> None:
        """Draw from these arms from the next reset on."""
        if not chosen:
            raise UsageError("there is no arm to draw from")
        self._arms = [(str(name), str(condition)) for name, condition in chosen]

    def _view(self, environment: str) -> NumericView:
        if environment not in self._views:
            self._views[environment] = make(environment, self._audit, anchor=self._anchor, split="train")
        return self._views[environment]

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Array], dict[str, Any]]:
        """Start an episode of a drawn arm and instance."""
        super().reset(seed=seed)
        self._arm = self._arms[int(self.np_random.integers(len(self._arms)))]
        number = int(self.np_random.integers(2**31))
        self._running = self._view(self._arm[0])
        return self._running.reset(seed=number, options={"condition": self._arm[1]})

    def step(self, action: int) -> tuple[dict[str, Array], float, bool, bool, dict[str, Any]]:
        """Carry out a pair."""
        observation, reward, terminated, truncated, info = self._running.step(int(np.asarray(action).item()))
        if terminated or truncated:
            verdict = dict(info["verdict"])
            info = {"ended": Ended(*self._arm, verdict)}
            if self._reward == "fraction":
                reward = verdict["fraction"] or 0.0
        return observation, float(reward), terminated, truncated, info

    def close(self) -> None:
        """Free the environments."""
        for view in self._views.values():
            view.close()
