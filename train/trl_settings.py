"""What a run on text is: its settings, checked before anything heavy is loaded."""

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from envos.envs.scenario import check_anchor, check_condition, scenario
from envos.errors import UsageError
from envos.train.trl_env import chosen_tools

TINY, SMOLLM2 = "tiny", "smollm2"
"""Names that stand for a model that is made: with random weights, or out of an installed package."""
_CONFIGS = ("config.json", "adapter_config.json")


class Bounds(NamedTuple):
    """How long a rollout may be: calls in all, tokens of one turn, and tokens of all turns and answers together."""

    calls: int
    turn_tokens: int
    completion_tokens: int


@dataclass(frozen=True, slots=True)
class Settings:
    """A run: what is learned, from what, for how long.

    `conditions` (default: all) and `anchor` say what changes in training and evaluation alike; `tools` (default: all)
    are the tools that there are. A result has at most `observation_tokens`, a turn `turn_tokens`, and an episode
    `completion_tokens` in all turns and answers together, in at most `calls` turns (0: the budget of the environment,
    and one). A step has `prompts` groups of `group` rollouts; a group shares instance, condition and trigger. Seeds of
    training and of the warm start are of the train split, those of evaluation of the test split; only seeds at which
    the reference can win are used. `lora` is the rank, 0 trains all weights. Rates are per step of AdamW.
    """

    environment: str
    model: str
    steps: int = 20
    conditions: tuple[str, ...] = ()
    anchor: str = "any"
    tools: tuple[str, ...] = ()
    observation_tokens: int = 1024
    turn_tokens: int = 128
    completion_tokens: int = 6144
    calls: int = 0
    prompts: int = 1
    group: int = 4
    rate: float = 1e-5
    temperature: float = 1.0
    lora: int = 0
    train_seeds: tuple[int, int] = (0, 200)
    sft_seeds: tuple[int, int] = (1000, 1064)
    sft_conditions: tuple[str, ...] = ("L0",)
    sft_steps: int = 50
    sft_batch: int = 2
    sft_rate: float = 1e-4
    sft_tokens: int = 8192
    test_seeds: tuple[int, int] = (0, 10)
    seed: int = 0
    archives: bool = False

    def checked(self) -> "Settings":
        """The settings with the defaults of the environment filled in. Raises UsageError for what cannot be."""
        line = scenario(self.environment)
        for condition in (*self.conditions, *self.sft_conditions):
            check_condition(line, condition)
        check_anchor(self.anchor)
        chosen_tools(line.id, self.tools)
        if self.model not in (TINY, SMOLLM2) and not any((Path(self.model) / name).is_file() for name in _CONFIGS):
            raise UsageError(f"--model is {TINY}, {SMOLLM2}, or a folder of a model (config.json); got {self.model!r}")
        if self.steps < 0 or self.sft_steps < 0:
            raise UsageError(f"steps are 0 or more; got {self.steps} and {self.sft_steps}")
        if self.group < 2:
            raise UsageError(f"a group has 2 rollouts or more: a rollout alone has no advantage; got {self.group}")
        if self.observation_tokens >= self.completion_tokens:
            raise UsageError(
                f"an episode has more tokens than one observation; got {self.completion_tokens} for all turns and "
                f"{self.observation_tokens} for a result"
            )
        given = {name: getattr(self, name) for name in self.__slots__}
        given |= {"environment": line.id, "conditions": self.conditions or line.conditions}
        return Settings(**{**given, "calls": self.calls or line.budget + 1})

    @property
    def bounds(self) -> Bounds:
        """How long a rollout may be."""
        return Bounds(self.calls, self.turn_tokens, self.completion_tokens)
