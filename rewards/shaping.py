"""Verdict to number. None means that the episode must be masked or dropped, never scored."""

import math

from envos.errors import UsageError
from envos.rewards.verdict import Verdict


def endpoint_reward(verdict: Verdict) -> float | None:
    """1.0 for the full endpoint, else 0.0; None for an episode that is not counted."""
    return checked(verdict.reward) if verdict.counted else None


def fraction_reward(verdict: Verdict) -> float | None:
    """The share of invariants that hold, 0 to 1; None for an episode that is not counted."""
    if not verdict.counted:
        return None
    if verdict.fraction is None:
        raise UsageError("a counted verdict has a fraction; this one has none")
    return checked(verdict.fraction)


def checked(value: object) -> float:
    """The value, if it is a reward: a finite float from 0 to 1, no bool. Raises UsageError."""
    if isinstance(value, bool) or not isinstance(value, float) or not math.isfinite(value) or not 0.0 <= value <= 1.0:
        raise UsageError(f"a reward is a finite float from 0 to 1; got {value!r}")
    return value
