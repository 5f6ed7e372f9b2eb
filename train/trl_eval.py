"""Text agents on held-out instances: greedy rollouts through the same tools, beside the scripted policies."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import gymnasium
import torch
from transformers import DynamicCache
from trl.chat_template_utils import parse_response

from envos.certify.rollout import play
from envos.envs.scenario import scenario
from envos.train.trl_chat import answered, prompt_tokens
from envos.train.trl_data import Told, by_tools
from envos.train.trl_env import Played, ToolEnvironment
from envos.train.trl_settings import Bounds
from envos.wrappers.tools import ToolActions


def evaluate(
    model: Any,
    tokenizer: Any,
    factory: type[ToolEnvironment],
    schemas: Sequence[Mapping[str, Any]],
    rows: Iterable[Mapping[str, Any]],
    bounds: Bounds,
) -> list[Played]:
    """Play one greedy rollout for each row, and return them with their verdicts."""
    environment = factory()
    start = len(factory._setup.played)
    model.eval()
    for row in rows:
        rollout(model, tokenizer, environment, row, schemas, bounds)
        environment.get_reward()
    done = factory._setup.played[start:]
    del factory._setup.played[start:]
    return done


def rollout(
    model: Any,
    tokenizer: Any,
    environment: ToolEnvironment,
    row: Mapping[str, Any],
    schemas: Sequence[Mapping[str, Any]],
    bounds: Bounds,
) -> None:
    """Play one episode as TRL would, turn by turn, but greedily, and with a cache of what was read."""
    opened = environment.reset(**row)
    *before, last = row["prompt"]
    ids = prompt_tokens(tokenizer, [*before, {**last, "content": last["content"] + opened}], schemas)
    start, cache = len(ids), DynamicCache()
    for _ in range(bounds.calls):
        left = bounds.completion_tokens - (len(ids) - start)
        if left < 1:
            return
        said = _say(model, tokenizer, ids, cache, min(left, bounds.turn_tokens))
        made = parse_response(tokenizer, said, prefix=ids).get("tool_calls")
        ids = ids + said
        if not made:
            return
        function = made[0]["function"]
        ids += answered(tokenizer, function["name"], _call(environment, function["name"], function["arguments"]))


def _say(model: Any, tokenizer: Any, ids: list[int], cache: DynamicCache, most: int) -> list[int]:
    tokens = torch.tensor([ids], device=model.device)
    with torch.no_grad():
        found = model.generate(
            input_ids=tokens,
            attention_mask=torch.ones_like(tokens),
            cache=cache,
            max_new_tokens=most,
            do_sample=False,
            temperature=None,
            top_p=None,
            top_k=None,
        )
    said: list[int] = found[0, len(ids) :].tolist()
    return said


def _call(environment: ToolEnvironment, name: str, arguments: Any) -> str:
    """Call a tool as TRL does: what is no tool, or has no arguments by name, is told as an error and costs nothing."""
    if name not in environment._setup.tools:
        return str({"error": f"Tool {name} not found."})
    if not isinstance(arguments, dict):
        return str({"error": "the arguments of a tool call are an object"})
    return str(getattr(environment, name)(**arguments))


def baselines(told: Told, rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Played]]:
    """The scripted policies on the same rows, through the same tools and the same length of results."""
    line = scenario(told.environment)
    split = rows[0]["split"]
    inner = gymnasium.make(f"envos:{line.id}", split=split, disable_env_checker=True)
    env = ToolActions(inner, told.limit, told.size)
    found: dict[str, list[Played]] = {}
    for name, scripted in by_tools(line).items():
        found[name] = []
        for row in rows:
            where = {"condition": row["condition"], "anchor": row["anchor"]}
            episode = play(env, scripted.policy, row["seed"], {**where, "policy": name})
            reward = episode.reward if episode.verdict["counted"] else None
            one = Played(
                row["seed"], **where, split=split, verdict=episode.verdict, actions=episode.steps, reward=reward
            )
            found[name].append(one)
    env.close()
    return found


def table(results: Mapping[str, Sequence[Played]]) -> list[dict[str, Any]]:
    """One line for each policy and condition: episodes, counted ones, and over these the means and the signatures.

    `success`, `fraction`, `actions` and `reread` (the share in which the new value was seen before the commit) are
    None where no episode counts.
    """
    lines = []
    for name, played in results.items():
        for condition in dict.fromkeys(one.condition for one in played):
            mine = [one for one in played if one.condition == condition]
            counted = [one for one in mine if one.reward is not None]
            signatures: dict[str, int] = {}
            for one in counted:
                for signature in one.verdict["signatures"]:
                    signatures[signature] = signatures.get(signature, 0) + 1
            lines.append(
                {
                    "policy": name,
                    "condition": condition,
                    "episodes": len(mine),
                    "counted": len(counted),
                    "success": _mean([float(one.reward or 0.0) for one in counted]),
                    "fraction": _mean([one.verdict["fraction"] for one in counted]),
                    "actions": _mean([float(one.actions) for one in counted]),
                    "reread": _mean([float(bool(_measure(one, "new_value_before_commit"))) for one in counted]),
                    "stopped": sum(one.left for one in mine),
                    "signatures": dict(sorted(signatures.items())),
                }
            )
    return lines


def _measure(one: Played, name: str) -> Any:
    return one.verdict.get("measures", {}).get(name)


def _mean(values: Sequence[float]) -> float | None:
    return round(sum(values) / len(values), 4) if values else None


def markdown(lines: Sequence[Mapping[str, Any]]) -> str:
    """The table as Markdown."""
    names = ("policy", "condition", "episodes", "counted", "success", "fraction", "actions", "reread", "stopped")
    text = [f"| {' | '.join((*names, 'signatures'))} |", f"|{'---|' * (len(names) + 1)}"]
    for line in lines:
        signatures = ", ".join(f"{count} {name}" for name, count in line["signatures"].items())
        cells = ["-" if line[name] is None else str(line[name]) for name in names]
        text.append(f"| {' | '.join((*cells, signatures))} |")
    return "\n".join(text) + "\n"
