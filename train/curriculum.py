"""Which arms an agent trains on as it gets better: a stage more when it succeeds often enough in those that it has."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from envos.train.arms import Arm

WINDOW = 200
"""Counted episodes that a success rate is taken over."""
ENOUGH = 0.8
"""Success rate at which the next stage begins."""


class Curriculum:
    """Stages of arms; those up to the `level` are trained on.

    A stage is a list of arms. `note` takes in the outcome of a counted episode; the rate is that of the newest stage's
    episodes. What it knows goes into a checkpoint as JSON data.
    """

    def __init__(self, stages: Sequence[Sequence[Arm]]) -> None:
        self.stages = [[(str(name), str(condition)) for name, condition in stage] for stage in stages]
        self.level = 0
        self.recent: list[bool] = []

    def arms(self) -> list[Arm]:
        """The arms of the stages so far."""
        return [arm for stage in self.stages[: self.level + 1] for arm in stage]

    def note(self, arm: Arm, success: bool) -> None:
        """Take in how a counted episode ended."""
        if arm in self.stages[self.level]:
            self.recent = [*self.recent, success][-WINDOW:]

    def rise(self) -> bool:
        """Begin the next stage if there is one and the newest has gone well; whether it did."""
        well = len(self.recent) == WINDOW and sum(self.recent) >= ENOUGH * WINDOW
        if not well or self.level + 1 >= len(self.stages):
            return False
        self.level, self.recent = self.level + 1, []
        return True

    def save(self, path: Path) -> None:
        """Write what it knows."""
        path.write_text(
            json.dumps({"level": self.level, "recent": self.recent, "stages": self.stages}), encoding="utf-8"
        )

    @classmethod
    def load(cls, path: Path) -> "Curriculum":
        """What `save` wrote."""
        data: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        made = cls([[(name, condition) for name, condition in stage] for stage in data["stages"]])
        made.level, made.recent = int(data["level"]), [bool(one) for one in data["recent"]]
        return made
