"""Amounts: what a claim asks for and what its policy allows, in the four cases of protocol section 3. All in cents."""

from collections.abc import Iterator
from typing import NamedTuple

from envos.envs.streams import Stream

CASES = ("B_up", "B_down", "X_up", "X_down")
"""The limit binds before and after the change (B), or on one side of it only (X), and it moves up or down."""
STEP = 2500
"""Limits are whole multiples of it; what can be claimed never is."""
DEDUCTIBLES = tuple(range(5000, 37500, STEP))
_LOWEST, _COUNT = 100_000, 240


class Amounts(NamedTuple):
    """The target claim and the limits of its policy.

    `others` are limits that it may be changed to, all of one case. `extra` is the limit of an endorsement, `extras`
    what that may be changed to, and `likes` what the like policy's limit may be changed to: each of these would bind,
    and so give a wrong amount that is told from every other mistake.
    """

    claimed: int
    deductible: int
    limit: int
    others: tuple[int, ...]
    extra: int
    extras: tuple[int, ...]
    likes: tuple[int, ...]

    def used(self) -> set[int]:
        """All limits."""
        return {self.limit, self.extra, *self.others, *self.extras, *self.likes}


def case_of(seed: int) -> str:
    """The case of a seed: each once in any four seeds in a row."""
    return CASES[seed % len(CASES)]


def target(stream: Stream, case: str) -> Amounts:
    """The amounts of the target claim in a case; every case draws alike."""
    deductible = stream.pick(DEDUCTIBLES)
    eligible = 100 * (1500 + stream.below(3000)) + 1 + stream.below(99)
    least, most = -(-3 * eligible // 10 // STEP) * STEP, 19 * eligible // 10
    low = stream.sample(range(least, eligible, STEP), 11)
    high = stream.sample(range(eligible // STEP * STEP + STEP, most, STEP), 3)
    under = sorted(low[:4])
    limit, *others = {
        "B_up": under,
        "B_down": under[::-1],
        "X_up": [low[0], *high],
        "X_down": [high[0], *low[:3]],
    }[case]
    return Amounts(eligible + deductible, deductible, limit, tuple(others), low[4], tuple(low[5:8]), tuple(low[8:]))


def limits(stream: Stream, taken: set[int]) -> Iterator[int]:
    """Different limits, none of them taken; there are some 200."""
    draw = stream.random
    seen = set(taken)
    while True:
        limit = _LOWEST + STEP * int(draw() * _COUNT)
        if limit not in seen:
            seen.add(limit)
            yield limit


def lines(stream: Stream, total: int) -> list[int]:
    """The amounts of a claim's two or three lines; they add up, and none is a whole multiple of STEP."""
    draw, found, left = stream.random, list[int](), total
    for _ in range(1 + int(draw() * 2)):
        found.append(100 * (left * (20 + int(draw() * 35)) // 10_000) + 1 + int(draw() * 98))
        left -= found[-1]
    if left % STEP == 0:
        found[0] += 1
        left -= 1
    return [*found, left]
