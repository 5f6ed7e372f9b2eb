"""A world's tools as a class for TRL: `GRPOTrainer(environment_factory=tool_environment("EnvOS/ClaimsStale-v0"))`.

TRL makes a tool of every public method of the class, builds one object for each rollout of a batch and resets it for
the next batch. The class is therefore none of Gymnasium's (whose `step`, `render` and `close` would become tools), and
its methods are made from the same lines as the schemas of `envos.ToolActions`. Nothing here needs TRL or torch.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from inspect import Parameter, Signature
from pathlib import Path
from typing import Any, ClassVar, Literal

import gymnasium

from envos.certify.twokey import TwoKeyReward
from envos.envs.page import TEXT_LIMIT
from envos.envs.result import Size
from envos.envs.scenario import load_world, scenario
from envos.envs.toolbox import Toolbox
from envos.envs.tools import Argument, Tool
from envos.errors import UnknownName, UsageError
from envos.wrappers.archive import Archive
from envos.wrappers.tools import ToolActions, call

OVER = "The episode is over. Nothing more can be done."
"""What every tool answers after the end."""
CUT = "(the result is too long: its end is left out)"
COLUMNS = ("seed", "condition", "anchor", "split")
"""The columns of a dataset that say which episode a rollout is; rollouts of one group share them."""
POLICY = "trl"
"""What the identity of a rollout says of its policy."""

Reward = float | None


@dataclass(frozen=True, slots=True)
class Played:
    """One finished rollout: which episode it was, its verdict (as in `info`), the number of its actions, its reward.

    `reward` is None for an episode that does not count, which must be masked and never be scored 0. `left` says that
    the rollout stopped without a report, and `archive` is the folder's name, or "".
    """

    seed: int
    condition: str
    anchor: str
    split: str
    verdict: Mapping[str, Any]
    actions: int
    reward: Reward
    left: bool = False
    archive: str = ""

    def to_json(self) -> dict[str, Any]:
        """The rollout as JSON data: the verdict's main figures, not its evidence."""
        kept = ("validity", "counted", "endpoint", "fraction", "signatures")
        names = (*COLUMNS, "actions", "reward", "left", "archive")
        return {**{name: getattr(self, name) for name in names}, **{name: self.verdict.get(name) for name in kept}}


@dataclass(frozen=True, slots=True)
class Setup:
    """What the rollouts of one class share; `played` collects those that were scored."""

    environment: str
    tools: tuple[str, ...]
    limit: int
    size: Size
    archives: Path | None
    model: str
    audit: float = 0.0
    played: list[Played] = field(default_factory=list)


class ToolEnvironment:
    """One rollout at a time of an environment; `tool_environment` makes the class with the tools.

    Everything but `reset`, `get_reward` and the tools begins with an underscore, or TRL would make a tool of it.
    """

    _setup: ClassVar[Setup]

    def __init__(self) -> None:
        self._made: dict[str, tuple[ToolActions, Archive | None]] = {}
        self._columns: dict[str, Any] = {}
        self._split, self._actions, self._fault, self._over = "", 0, "", True
        self._verdict: Mapping[str, Any] | None = None
        self._played: Played | None = None

    def reset(self, **columns: Any) -> str:
        """Start the episode that the columns of a dataset's row name, and return its goal and its first page.

        `seed` is needed; `condition` (or "mixed", the default), `anchor` ("any") and `split` ("train") may be left
        out, and other columns are not looked at. Raises UsageError for a value that is wrong: that is the data set's
        fault and no model's.
        """
        self._end()
        # A reset that is refused leaves no rollout behind that could be scored a second time.
        self._columns, self._played, self._over = {}, None, True
        if "seed" not in columns:
            raise UsageError(f"a row of the data set has a seed; got the columns {', '.join(columns) or 'none'}")
        given = {name: columns[name] for name in COLUMNS if columns.get(name) is not None}
        chosen: dict[str, Any] = {"condition": "mixed", "anchor": "any", "split": "train", **given}
        self._split = chosen["split"]
        env = self._env()[0]
        options = {"condition": chosen["condition"], "anchor": chosen["anchor"], "policy": POLICY}
        observation, _ = env.reset(seed=chosen["seed"], options={**options, "model": self._setup.model})
        # "mixed" has drawn one.
        self._columns = {**chosen, "condition": env.unwrapped.plan.condition}  # type: ignore[attr-defined]
        self._actions, self._fault, self._over, self._verdict = 0, "", False, None
        return opening(observation["goal"], observation["result"], int(observation["budget_left"][0]))

    def get_reward(self) -> Reward:
        """The verdict's reward, or None for an episode that does not count: the only source of reward there is.

        A rollout that stopped without a report does nothing more until its budget is spent. Asked again, the answer is
        the same.
        """
        if self._played is None:
            self._end()
        if self._played is None:
            raise UsageError("get_reward() before reset(): there is no rollout to score")
        return self._played.reward

    def _env(self) -> tuple[ToolActions, Archive | None]:
        if self._split not in self._made:
            setup = self._setup
            inner = gymnasium.make(f"envos:{setup.environment}", split=self._split, disable_env_checker=True)
            archive = Archive(inner, setup.archives) if setup.archives is not None else None
            env = archive or inner
            keyed = TwoKeyReward(env, setup.audit) if setup.audit else env
            self._made[self._split] = (ToolActions(keyed, setup.limit, setup.size), archive)
        return self._made[self._split]

    def _use(self, name: str, arguments: Mapping[str, Any]) -> str:
        """Carry out one call and tell what came of it; an argument that is null is as if it were left out."""
        if self._over:
            return OVER
        given = {key: value for key, value in arguments.items() if value is not None}
        self._actions += 1
        observation = self._step({"name": name, "arguments": given})
        if self._fault:
            return OVER
        left = int(observation["budget_left"][0])
        return answer(name, observation["result"], observation["error"], observation["memo"], left, self._over)

    def _step(self, action: Any) -> Mapping[str, Any]:
        # TRL hands whatever is raised here to the model as an error and goes on: the rollout must then not count.
        try:
            observation, _, terminated, truncated, info = self._env()[0].step(action)
        except Exception as problem:  # noqa: BLE001
            self._fault, self._over = f"{type(problem).__name__}: {problem}", True
            return {}
        if terminated or truncated:
            self._over, self._verdict = True, dict(info["verdict"])
        found: Mapping[str, Any] = observation
        return found

    def _end(self) -> None:
        """Finish a rollout and put it on record, once; a rollout that was left waits until its budget is spent."""
        if self._played is not None or not self._columns:
            return
        left = not self._over
        while not self._over:
            self._step(call("noop"))
        archive = self._env()[1]
        folder = archive.folder.name if archive is not None and archive.folder is not None else ""
        verdict = self._verdict or {
            "validity": "harness_error",
            "counted": False,
            "signatures": [],
            "error": self._fault,
        }
        reward = float(verdict["reward"]) if verdict["counted"] else None
        where = {name: self._columns[name] for name in COLUMNS}
        self._played = Played(**where, verdict=verdict, actions=self._actions, reward=reward, left=left, archive=folder)
        self._setup.played.append(self._played)

    def __del__(self) -> None:
        # TRL never closes an environment.
        for env, _ in getattr(self, "_made", {}).values():
            env.close()


_NO_PAGE = ("memo", "noop", "report")
"""Tools that ask for no page: the one that was shown last is not told again."""


def told(result: str, error: str, memo: str, left: int, fresh: bool) -> str:
    """What a model is told of an observation: the error or, if it is fresh, the result; the memo; the actions left.

    The result is told as the frame on record has it: what was delivered was told.
    """
    lines = []
    if error:
        lines.append(f"error: {error}")
    elif fresh:
        lines += [result] if result.endswith("}") else [result, CUT]
    if memo:
        lines.append(f"memo: {memo}")
    lines.append(f"actions left: {left}")
    return "\n".join(lines)


def answer(name: str, result: str, error: str, memo: str, left: int, over: bool) -> str:
    """What the call of a tool is answered with, in an episode and in a demonstration alike."""
    if over:
        return f"error: {error}\n{OVER}" if error else OVER
    return told(result, error, memo, left, fresh=name not in _NO_PAGE and not error)


def opening(goal: str, result: str, left: int) -> str:
    """What a model is told first."""
    return f"{goal}\n\n{told(result, '', '', left, fresh=True)}"


def chosen_tools(environment: str, names: tuple[str, ...] = ()) -> list[Tool]:
    """The tools of an environment of these names, or all of them; in the world's order. Raises UnknownName."""
    tools = Toolbox(load_world(scenario(environment).world)).tools
    for name in names:
        if name not in tools:
            raise UnknownName(f"tool of {environment}", name, tools)
    return [tool for name, tool in tools.items() if not names or name in names]


def tool_environment(
    environment: str,
    *,
    tools: tuple[str, ...] = (),
    limit: int = TEXT_LIMIT,
    size: Size = len,
    archives: Path | None = None,
    model: str = "",
    audit: float = 0.0,
) -> type[ToolEnvironment]:
    """A class for `environment_factory` whose methods are the tools of an environment.

    `tools` are the names of those that there are (default: all; without `report` no episode can be won). A result has
    at most `limit` code points, or of what `size` counts: give a tokenizer's count for a budget of tokens. Every
    rollout is archived under `archives`, if that is given, with `model` in its identity. Of the rollouts, the share
    `audit` must pass both keys to count. Raises UnknownName and UsageError.
    """
    line = scenario(environment)
    if limit < 1:
        raise UsageError(f"a result has at least 1; got a limit of {limit}")
    found = chosen_tools(line.id, tools)
    setup = Setup(line.id, tuple(tool.name for tool in found), limit, size, archives, model, audit)
    methods: dict[str, Any] = {tool.name: method(tool) for tool in found}
    about = f"Rollouts of {line.id} for TRL."
    return type("EnvOSRollout", (ToolEnvironment,), {"__doc__": about, "_setup": setup, **methods})


def method(tool: Tool) -> Callable[..., str]:
    """A method that calls a tool, with the hints and the docstring of which TRL makes the tool's schema.

    It takes any arguments by keyword: what is wrong with them is said by the environment, and costs an action.
    """

    def use(self: ToolEnvironment, **arguments: Any) -> str:
        return self._use(tool.name, arguments)

    hints = {item.name: _hint(item) for item in tool.arguments}
    use.__name__ = tool.name
    use.__qualname__ = f"EnvOSRollout.{tool.name}"
    use.__doc__ = docstring(tool)
    # Without a hint of what it returns, which would say the same words in the prompt for every tool.
    use.__annotations__ = hints
    keywords = [
        Parameter(
            item.name,
            Parameter.POSITIONAL_OR_KEYWORD,
            annotation=hints[item.name],
            default=Parameter.empty if item.required else None,
        )
        for item in sorted(tool.arguments, key=lambda item: not item.required)
    ]
    receiver = Parameter("self", Parameter.POSITIONAL_OR_KEYWORD)
    use.__signature__ = Signature([receiver, *keywords])  # type: ignore[attr-defined]
    return use


def _hint(item: Argument) -> Any:
    plain: Any = Literal[item.choices] if item.choices else int if item.type == "integer" else str
    return plain if item.required else plain | None


def docstring(tool: Tool) -> str:
    """A tool's docstring, as Google writes them.

    >>> from envos.envs.tools import Tool, key
    >>> print(docstring(Tool("get_claim", "GET", "/claims/{id}", "Show one claim.", (key("claim_id", "Its id."),))))
    Show one claim.
    <BLANKLINE>
    Args:
        claim_id: Its id.
    """
    arguments = "".join(f"\n    {item.name}: {item.about}" for item in tool.arguments)
    return f"{tool.about}\n\nArgs:{arguments}" if arguments else tool.about
