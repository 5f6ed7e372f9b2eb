"""Data for text agents: demonstrations out of archives of the `reference` policy, and the rows that name rollouts.

What a demonstration holds is what an agent is told by `envos.train.trl_env`, word for word. Only episodes of the
reference are ever shown, and never one that goes back to its source by itself: that is what learning has to find.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium

from envos.certify.policies import Scripted, policies
from envos.certify.rollout import play
from envos.envs.evidence import Action, Evidence, Frame
from envos.envs.instance import generate
from envos.envs.page import TEXT_LIMIT
from envos.envs.result import Size
from envos.envs.scenario import Scenario, load_phenomenon, load_world, scenario
from envos.envs.toolbox import NAME
from envos.errors import EvidenceError, UnknownName, UsageError
from envos.rewards.verdict import verify
from envos.train.trl_env import answer, chosen_tools, opening
from envos.wrappers.archive import Archive, read_archive
from envos.wrappers.tools import ToolActions

REFERENCE = "reference"
NEVER = ("late_reread", "follow_cue", "read_review")
"""Policies whose episodes show the answer to what is to be learned."""
SYSTEM = "You work in an office with the tools below. Call one tool at a time, and end with report."
DONE = "Done."
"""What a demonstration says after the report, so that a rollout ends there."""

Messages = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Example:
    """One demonstration: a conversation with tool calls as OpenAI writes them, and whose episode it is."""

    messages: Messages
    identity: Mapping[str, Any]

    def to_json(self, schemas: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """The example as one line of a JSONL file, with the schemas of the tools."""
        names = ("environment", "split", "seed", "condition", "anchor", "policy")
        return {"messages": self.messages, "tools": list(schemas), **{name: self.identity[name] for name in names}}


@dataclass(frozen=True, slots=True)
class Told:
    """How an environment is told to a text agent: which tools there are, and how long a result may be."""

    environment: str
    tools: tuple[str, ...] = ()
    limit: int = TEXT_LIMIT
    size: Size = len

    def schemas(self) -> list[dict[str, Any]]:
        """The schemas of the tools, as OpenAI describes functions."""
        return [tool.schema() for tool in chosen_tools(self.environment, self.tools)]


def by_tools(line: Scenario) -> Mapping[str, Scripted]:
    """The scripted policies of an environment that call tools. Raises UsageError where there are none."""
    if line.phenomenon != "stale":
        raise UsageError(f"{line.id} has no scripted policies that call tools; ClinicStale and ClaimsStale have")
    return policies(f"tools_{line.world}")


def system() -> dict[str, Any]:
    """The first message of every conversation."""
    return {"role": "system", "content": SYSTEM}


def example(evidence: Evidence, tools: Iterable[str]) -> Example:
    """The demonstration that an archive is. Raises UsageError, with the reason, for one that must not be shown."""
    identity = evidence.start.identity
    if evidence.problems:
        raise UsageError(f"something is wrong with its files: {evidence.problems[0]}")
    line = scenario(identity["environment"])
    if identity["policy"] in NEVER:
        raise UsageError(f"policy {identity['policy']!r} goes back to its source, which is what is to be learned")
    if identity["policy"] != REFERENCE:
        raise UsageError(f"policy {identity['policy']!r} is not {REFERENCE!r}")
    if identity.get("actions") != NAME:
        raise UsageError("it was played on pages, not with tools")
    if not verify(evidence).reward == 1.0:
        raise UsageError("it did not earn 1.0")
    instance = generate(
        line, load_world(line.world), load_phenomenon(line.phenomenon), identity["split"], identity["seed"]
    )
    if not _acts_so(by_tools(line)[REFERENCE], instance.brief, evidence):
        raise UsageError(f"policy {REFERENCE!r} would have acted otherwise")
    messages = conversation(instance.brief, evidence)
    _check_calls(messages, set(tools))
    return Example(messages, identity)


def _acts_so(scripted: Scripted, goal: str, evidence: Evidence) -> bool:
    """Whether a policy that is shown the frames of an episode does what was done there: a name alone proves nothing."""
    shown, steps, expected = iter(_frames(evidence)), None, ""
    for record in evidence.records:
        if isinstance(record, Action):
            if record.raw != expected:
                return False
            steps, expected = _go_on(steps, _observation(goal, next(shown)))
        elif isinstance(record, Frame) and steps is None and record.step == 0:
            steps = scripted.policy(_observation(goal, next(shown)))
            expected = next(steps)
    return expected == ""


def _go_on(steps: Any, observation: Mapping[str, Any]) -> tuple[Any, str]:
    try:
        return steps, steps.send(observation)
    except StopIteration:
        return steps, ""


def _frames(evidence: Evidence) -> list[Frame]:
    return [record for record in evidence.records if isinstance(record, Frame)]


def _observation(goal: str, frame: Frame) -> dict[str, Any]:
    return {
        "goal": goal,
        "result": frame.page,
        "memo": frame.memo,
        "error": frame.error,
        "budget_left": [frame.budget_left],
    }


def conversation(goal: str, evidence: Evidence) -> Messages:
    """An episode with tools as a conversation: system, goal and first page; a call and its answer for each step."""
    frames = _frames(evidence)
    messages = [system(), {"role": "user", "content": opening(goal, frames[0].page, frames[0].budget_left)}]
    actions = [record for record in evidence.records if isinstance(record, Action)]
    for action, frame in zip(actions, frames[1:], strict=True):
        call = json.loads(action.raw)
        # As text, and not as an object: a column of objects would gain a null for every argument of every tool.
        function = {"name": call["name"], "arguments": json.dumps(call["arguments"], ensure_ascii=False)}
        text = answer(call["name"], frame.page, frame.error, frame.memo, frame.budget_left, action is actions[-1])
        messages += [
            {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": function}]},
            {"role": "tool", "name": call["name"], "content": text},
        ]
    return [*messages, {"role": "assistant", "content": DONE}]


def _check_calls(messages: Messages, tools: set[str]) -> None:
    for message in messages:
        for made in message.get("tool_calls", ()):
            if made["function"]["name"] not in tools:
                raise UsageError(f"it calls {made['function']['name']}, which is not among the tools")


def examples(folders: Iterable[Path], told: Told, refused: dict[str, str]) -> Iterator[Example]:
    """The demonstrations among archives; for each that is none, `refused` is given its name and the reason."""
    tools = [tool.name for tool in chosen_tools(told.environment, told.tools)]
    wanted = scenario(told.environment).id
    for folder in folders:
        try:
            evidence = read_archive(folder)
            if evidence.start.identity.get("environment") != wanted:
                raise UsageError(f"it is not of {wanted}")
            yield example(evidence, tools)
        except (UsageError, EvidenceError) as problem:
            refused[folder.name] = str(problem)


def demonstrate(
    told: Told, seeds: Iterable[int], split: str, conditions: Iterable[str], anchor: str, root: Path
) -> Iterator[Path]:
    """Play the reference with tools, and yield the folder of each archive under `root`."""
    line = scenario(told.environment)
    scripted = by_tools(line)[REFERENCE]
    inner = gymnasium.make(f"envos:{line.id}", split=split, anchor=anchor, disable_env_checker=True)
    archive = Archive(inner, root)
    env = ToolActions(archive, told.limit, told.size)
    arms = tuple(conditions)
    try:
        for seed in seeds:
            for condition in arms:
                play(env, scripted.policy, seed, {"condition": condition, "policy": REFERENCE})
                assert archive.folder is not None  # noqa: S101 - an episode was archived
                yield archive.folder
    finally:
        env.close()


def feasible(told: Told, seeds: Iterable[int], split: str) -> Iterator[int]:
    """The seeds at which the reference wins where nothing changes, with these tools and this length of results.

    Elsewhere a row that the task needs is left out of a result, and nobody could win.
    """
    line = scenario(told.environment)
    scripted = by_tools(line)[REFERENCE]
    inner = gymnasium.make(f"envos:{line.id}", split=split, condition="L0", disable_env_checker=True)
    env = ToolActions(inner, told.limit, told.size)
    try:
        for seed in seeds:
            if play(env, scripted.policy, seed).reward == 1.0:
                yield seed
    finally:
        env.close()


def rows(
    line: Scenario, seeds: Sequence[int], conditions: Sequence[str], anchor: str, split: str
) -> list[dict[str, Any]]:
    """One row for each seed and condition: the empty prompt that `reset` completes, and the columns that it takes.

    Seeds change fastest, so that a batch holds different instances. Raises UnknownName for a condition.
    """
    for condition in conditions:
        if condition not in line.conditions:
            raise UnknownName(f"condition of {line.id}", condition, line.conditions)
    prompt = [system(), {"role": "user", "content": ""}]
    return [
        {
            "prompt": prompt,
            "seed": seed,
            "condition": conditions[(place + turn) % len(conditions)],
            "anchor": anchor,
            "split": split,
        }
        for turn in range(len(conditions))
        for place, seed in enumerate(seeds)
    ]
