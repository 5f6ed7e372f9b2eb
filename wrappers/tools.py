"""ToolActions: a world's operations as named tools with typed arguments, for agents that call functions."""

import json
from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict

from envos.envs.action import MAX_LENGTH
from envos.envs.drivers.tools import Tools
from envos.envs.env import MEMO_LIMIT, EnvOS
from envos.envs.page import TEXT_LIMIT
from envos.envs.result import Size
from envos.envs.spaces import AnyText
from envos.envs.toolbox import NAME, Toolbox
from envos.envs.tools import Tool
from envos.errors import UsageError

Observation = dict[str, Any]


def call(name: str, /, **arguments: Any) -> str:
    """The text of a call.

    >>> call("get_session", session_id=3)
    '{"name": "get_session", "arguments": {"session_id": 3}}'
    """
    return json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False)


class CallText(AnyText):
    """A call as JSON text; `sample` draws well-formed calls with small row ids. The report is not drawn."""

    def __init__(self, tools: Mapping[str, Tool]) -> None:
        super().__init__(MAX_LENGTH)
        self._tools = tuple(tool for tool in tools.values() if tool.name != "report")

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        """A well-formed call; a mask is not used."""
        rng = self.np_random
        tool = self._tools[int(rng.integers(len(self._tools)))]
        arguments: dict[str, Any] = {}
        for item in tool.arguments:
            if not item.required and rng.integers(2):
                continue
            number = int(rng.integers(1, 13))
            if item.choices:
                arguments[item.name] = item.choices[number % len(item.choices)]
            else:
                arguments[item.name] = number if item.type == "integer" else str(number)
        return call(tool.name, **arguments)

    def __repr__(self) -> str:
        return f"CallText({self.max_length})"


class ToolActions(gymnasium.Wrapper[Any, Any, Any, str]):
    """Takes calls of named tools in place of actions on pages.

    An action is `{"name": ..., "arguments": {...}}`, as JSON text or as a dict. One call is one request to the same
    application, under the same rules of exposure, trigger and evidence; its result is the page as short JSON
    (`envos.envs.result`). The tools memo, report and noop ask for nothing. A notice must be acknowledged by its tool
    before any other call. A call that is wrong costs a step, changes nothing, and is answered by an error line.

    Observations: `goal`, `result` (of the last call that was carried out), `memo`, `error`, `budget_left`. Stands
    inside or around `Archive`. A result has at most `limit` code points, or of what `size` counts (a model's tokens);
    rows that do not fit are left out, and their number is said. Raises UsageError for an environment that is no EnvOS,
    and for a world without tools.
    """

    def __init__(self, env: gymnasium.Env[Any, str], limit: int = TEXT_LIMIT, size: Size = len) -> None:
        super().__init__(env)
        inner = env.unwrapped
        if not isinstance(inner, EnvOS):
            raise UsageError(f"ToolActions wraps an EnvOS environment; got {type(inner).__name__}")
        if not inner.world.tools:
            raise UsageError(f"world {inner.world.name!r} has no tools")
        self._box = Toolbox(inner.world)
        driver = Tools(self._box, limit, size)
        inner.use(driver, self._box.read, driver.call, NAME)
        self.action_space = CallText(self._box.tools)
        self.observation_space = Dict(
            {
                "goal": AnyText(4000),
                "result": AnyText(TEXT_LIMIT),
                "memo": AnyText(MEMO_LIMIT),
                "error": AnyText(1000),
                "budget_left": Box(0, inner.scenario.budget, (1,), np.int32),
            }
        )

    @property
    def tools(self) -> list[dict[str, Any]]:
        """The schemas of all tools, as OpenAI describes functions."""
        return self._box.schemas()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start the episode of a seed; the first result is the home page."""
        observation, info = self.env.reset(seed=seed, options=options)
        return told(observation), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Carry out one call."""
        observation, reward, terminated, truncated, info = self.env.step(as_text(action))
        return told(observation), reward, terminated, truncated, info


def told(observation: Mapping[str, Any]) -> Observation:
    """What a tool agent gets of an observation of the environment; for `EnvOS.restore`, too."""
    names = ("goal", "memo", "error", "budget_left")
    return {"result": observation["page"], **{name: observation[name] for name in names}}


def as_text(action: Any) -> str:
    """A call as text: a dict is written as JSON; what JSON cannot hold is left as it is, and refused in words."""
    if not isinstance(action, dict):
        text: str = action
        return text
    try:
        return json.dumps(action, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        refused: Any = action
        return refused  # type: ignore[no-any-return]
