"""Named streams of random numbers: the only source of chance in an instance.

A stream is seeded from `SeedSequence([seed, split, crc32(name)])` and uses nothing of `random.Random` but `random()`, whose
sequence Python guarantees across versions.
"""

import random as _random
import zlib
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np

from envos.errors import UnknownName, UsageError

T = TypeVar("T")

SPLITS = ("train", "validation", "test")
"""Disjoint parts of the instances: other streams, and other pools of names."""


def check_split(split: str) -> str:
    """The split, if there is such a one. Raises UnknownName."""
    if split not in SPLITS:
        raise UnknownName("split", split, SPLITS)
    return split


def check_seed(seed: object) -> int:
    """A seed: an integer from 0 to 2**63 - 1. Raises UsageError."""
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**63:
        raise UsageError(f"a seed is an integer from 0 to 2**63 - 1; got {seed!r}")
    return seed


@lru_cache(maxsize=512)
def _entropy(seed: int, split: str, name: str) -> int:
    key = [seed, SPLITS.index(split), zlib.crc32(name.encode())]
    words = np.random.SeedSequence(key).generate_state(4)
    return int.from_bytes(words.astype("<u4").tobytes(), "little")


class Stream:
    """One stream of (seed, split, name); equal arguments give equal numbers everywhere."""

    __slots__ = ("_random", "random")

    def __init__(self, seed: int, split: str, name: str) -> None:
        source = _random.Random(_entropy(check_seed(seed), check_split(split), name))  # noqa: S311
        self._random = source
        self.random = source.random

    def below(self, n: int) -> int:
        """An integer from 0 to n - 1."""
        return int(self.random() * n)

    def between(self, low: int, high: int) -> int:
        """An integer from low to high, both included."""
        return low + int(self.random() * (high - low + 1))

    def pick(self, items: Sequence[T]) -> T:
        """One of the items."""
        return items[int(self.random() * len(items))]

    def chance(self, p: float) -> bool:
        """True with probability p."""
        return self.random() < p

    def shuffle(self, items: Sequence[T]) -> list[T]:
        """The items in random order, as a new list."""
        return self.sample(items, len(items))

    def sample(self, items: Sequence[T], k: int) -> list[T]:
        """k different items in random order."""
        pool = list(items)
        if not 0 <= k <= len(pool):
            raise UsageError(f"cannot draw {k} of {len(pool)} items")
        for place in range(k):
            other = place + int(self.random() * (len(pool) - place))
            pool[place], pool[other] = pool[other], pool[place]
        return pool[:k]

    def state(self) -> Any:
        """What `restore` needs."""
        return self._random.getstate()

    def restore(self, state: Any) -> None:
        """Go back to a state."""
        self._random.setstate(state)
