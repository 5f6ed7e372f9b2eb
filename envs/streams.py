"""Random numbers that are the same on every machine and every version of Python: one stream for each purpose.

A stream is a function of (seed, split, name). An extra draw in one stream cannot shift another, and the splits share no
stream. Of `random.Random` only `random()` is used: Python guarantees its sequence, but not that of choice, shuffle or
sample.
"""

import zlib
from collections.abc import Sequence
from functools import lru_cache
from random import Random
from typing import TypeVar

import numpy as np

from envos.errors import UnknownName, UsageError

__all__ = ["BELOW_LIMIT", "SPLITS", "Stream", "check_seed", "check_split"]

SPLITS = ("train", "validation", "test")
"""The splits; their order is part of every seed, so a new one goes to the end."""
BELOW_LIMIT = 2**32
"""The largest n of `below(n)`; up to it no value is favoured by more than one part in 2**21."""

_Item = TypeVar("_Item")
_WORD = 0xFFFFFFFF


def check_seed(seed: object) -> int:
    """A seed: a whole number from 0 to 2**63 - 1, and no bool. Raises UsageError."""
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**63:
        raise UsageError(f"a seed is a whole number from 0 to 2**63 - 1; got {seed!r}")
    return seed


def check_split(split: object) -> str:
    """The split, if there is such a one. Raises UnknownName."""
    if not isinstance(split, str) or split not in SPLITS:
        raise UnknownName("split", split, SPLITS)
    return split


class Stream:
    """The random numbers of one purpose in one instance.

    Args:
        seed: 0 to 2**63 - 1.
        split: train, validation or test.
        name: the purpose, such as "patients"; not empty.

    The generator starts from `SeedSequence([seed, split's index, crc32(name)]).generate_state(4)`, read as one number
    of 128 bits with the first word lowest. Raises UsageError for a bad argument, here and in every method.

    >>> stream = Stream(7, "train", "example")
    >>> stream.between(1, 6), stream.pick(("early", "late"))
    (4, 'late')
    """

    __slots__ = ("_draw", "_generator", "name", "seed", "split")

    def __init__(self, seed: int, split: str, name: str) -> None:
        self.seed = check_seed(seed)
        self.split = check_split(split)
        if not isinstance(name, str) or not name:
            raise UsageError(f"the name of a stream is a str that is not empty; got {name!r}")
        self.name = name
        self._generator = Random(_start(seed, SPLITS.index(split), zlib.crc32(name.encode())))  # noqa: S311
        self._draw = self._generator.random

    def __repr__(self) -> str:
        return f"Stream({self.seed!r}, {self.split!r}, {self.name!r})"

    def __reduce__(self) -> tuple[type["Stream"], tuple[int, str, str], tuple[int, ...]]:
        # By default a copy would share `_draw`, and with it the numbers.
        return Stream, (self.seed, self.split, self.name), self.state()

    def __setstate__(self, state: tuple[int, ...]) -> None:
        self.restore(state)

    def random(self) -> float:
        """A number in [0, 1)."""
        return self._draw()

    def below(self, n: int) -> int:
        """A whole number from 0 to n - 1, for n from 1 to BELOW_LIMIT."""
        if not isinstance(n, int) or not 1 <= n <= BELOW_LIMIT:
            raise UsageError(f"below(n) takes a whole number from 1 to {BELOW_LIMIT}; got {n!r}")
        return int(self._draw() * n)

    def between(self, low: int, high: int) -> int:
        """A whole number from low to high, both included."""
        if not isinstance(low, int) or not isinstance(high, int) or low > high:
            raise UsageError(f"between(low, high) takes whole numbers, low <= high; got {low!r}, {high!r}")
        return low + self.below(high - low + 1)

    def chance(self, p: float) -> bool:
        """True with probability p, from 0 (never) to 1 (always)."""
        if not 0 <= p <= 1:
            raise UsageError(f"a chance is a number from 0 to 1; got {p!r}")
        return self._draw() < p

    def pick(self, items: Sequence[_Item]) -> _Item:
        """One of the items."""
        try:
            return items[int(self._draw() * len(items))]
        except (IndexError, KeyError, TypeError) as problem:
            raise UsageError(f"pick() takes a sequence of at least one item; got {items!r:.80}") from problem

    def sample(self, items: Sequence[_Item], k: int) -> list[_Item]:
        """k of the items, each place at most once, in random order."""
        # A set would be taken in hash order, which is another one in the next process.
        if not isinstance(items, Sequence):
            raise UsageError(f"items come in a list, a tuple or another sequence; got {type(items).__name__}")
        if not isinstance(k, int) or not 0 <= k <= len(items):
            raise UsageError(f"sample() of {len(items)} items takes k from 0 to {len(items)}; got {k!r}")
        left, count, draw = list(items), len(items), self._draw
        for place in range(k):
            other = place + int(draw() * (count - place))
            left[place], left[other] = left[other], left[place]
        return left[:k]

    def shuffle(self, items: Sequence[_Item]) -> list[_Item]:
        """A new list of all the items in random order."""
        return self.sample(items, len(items))

    def state(self) -> tuple[int, ...]:
        """Where the stream is now, for `restore`."""
        words: tuple[int, ...] = self._generator.getstate()[1]
        return words

    def restore(self, state: tuple[int, ...]) -> None:
        """Go back to a state that `state()` gave."""
        try:
            self._generator.setstate((Random.VERSION, state, None))
        except (OverflowError, TypeError, ValueError) as problem:
            raise UsageError(f"restore() takes what state() gave: {problem}") from problem


# Conditions, policies and arms of one instance ask for the same streams again and again.
@lru_cache(maxsize=512)
def _start(seed: int, split: int, name: int) -> int:
    """The generator's start, 128 bits."""
    # The words that SeedSequence makes of the list [seed, split, name]; handed over as an array they cost it half.
    words = (seed, split, name) if seed <= _WORD else (seed & _WORD, seed >> 32, split, name)
    a, b, c, d = np.random.SeedSequence(np.array(words, np.uint32)).generate_state(4).tolist()
    return int(a | b << 32 | c << 64 | d << 96)
