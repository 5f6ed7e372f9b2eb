"""`envos play`: a person plays an episode in the terminal, with what an agent sees and may do."""

import json
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import gymnasium
from rich.console import Console
from rich.rule import Rule
from rich.text import Text

from envos.cli_arguments import new_folder
from envos.cli_output import console, document
from envos.envs import action as grammar
from envos.envs.env import EnvOS, Observation
from envos.envs.evidence import Action, Fire, Request, Write
from envos.envs.scenario import Scenario, check_anchor, check_condition, scenario
from envos.envs.streams import check_seed, check_split
from envos.rewards.invariants import NAMES
from envos.wrappers.archive import Archive

_HELP = """\
One action a line, in the agent's own syntax; it costs a step, and so does one that is wrong:

{verbs}

A number alone clicks that element. These cost nothing:

goal - show the brief again
help - show this
quit - stop; there is no verdict"""


def play_episode(
    environment: str, split: str, seed: int, condition: str, anchor: str, out: Path | None, as_json: bool
) -> None:
    """Let a person play an episode, and tell the verdict. With `as_json` the pages go to stderr."""
    line = scenario(environment)
    check_condition(line, condition)
    chosen: dict[str, Any] = {"split": check_split(split), "anchor": check_anchor(anchor), "condition": condition}
    check_seed(seed)
    env: gymnasium.Env[Any, str] = gymnasium.make(line.id, disable_env_checker=True, **chosen)
    if out is not None:
        env = Archive(env, new_folder(out))
    inner = env.unwrapped
    assert isinstance(inner, EnvOS)  # noqa: S101 - the id is one of ours
    shown = console(sys.stderr if as_json else sys.stdout)
    try:
        verdict = converse(env, line, seed, shown)
        told = change(inner) if verdict is not None else {}
        if as_json:
            document(outcome(inner, verdict, told))
        elif verdict is None:
            shown.print("Stopped: the episode did not end, so there is no verdict.")
        else:
            tell(shown, verdict, told)
        if isinstance(env, Archive) and verdict is not None:
            shown.print(f"The archive is {env.folder}", soft_wrap=True)
    finally:
        env.close()  # type: ignore[no-untyped-call]


def converse(env: gymnasium.Env[Any, str], line: Scenario, seed: int, shown: Console) -> Mapping[str, Any] | None:
    """Show pages and take actions until the episode ends; the verdict, or None when the person stopped."""
    observation, _ = env.reset(seed=seed, options={"policy": "person"})
    _goal(shown, observation)
    _page(shown, observation, 0, line.budget)
    ask = asker(shown)
    step = 0
    while (given := ask()) is not None:
        word = given.strip()
        if word.casefold() in ("quit", "exit", "q"):
            return None
        if word.casefold() in ("help", "?"):
            shown.print(_HELP.format(verbs=grammar.describe()))
        elif word.casefold() in ("goal", "brief"):
            _goal(shown, observation)
        elif word:
            action = grammar.click(word) if word.isascii() and word.isdecimal() else given
            observation, _, terminated, truncated, info = env.step(action)
            step += 1
            _page(shown, observation, step, line.budget)
            if terminated or truncated:
                verdict: Mapping[str, Any] = dict(info["verdict"])
                return verdict
    return None


def asker(shown: Console) -> Callable[[], str | None]:
    """A function that asks for one line and returns it, or None at the end of the input."""
    edited = sys.stdin.isatty() and shown.file is sys.stdout
    if edited:
        # Loading it is what gives `input` a line editor and a history.
        with suppress(ImportError):
            import_module("readline")

    def ask() -> str | None:
        if edited:
            with suppress(EOFError):
                return input("> ")
            shown.print()
            return None
        shown.print("> ", end="")
        shown.file.flush()
        line = sys.stdin.readline()
        if not line:
            shown.print()
            return None
        return line.rstrip("\r\n")

    return ask


def _goal(shown: Console, observation: Observation) -> None:
    shown.print(Rule("the task", align="left"))
    shown.print(observation["goal"])
    shown.print("('help' tells what you can do)", style="dim")


def _page(shown: Console, observation: Observation, step: int, budget: int) -> None:
    shown.print(Rule(f"{observation['url']}   step {step} of {budget}", align="left"))
    if observation["error"]:
        shown.print(f"error: {observation['error']}", style="red")
    if observation["notice"]:
        shown.print(f"notice: {observation['notice']}", style="yellow")
    shown.print(observation["page"])
    if observation["memo"]:
        shown.print(f"memo: {observation['memo']}", style="dim")
    for line in packed(observation["elements"].split("\n"), shown.width - 1):
        shown.print(line, style="dim")


def packed(entries: Sequence[str], width: int) -> Iterator[str]:
    """The entries on as few lines as hold them, three spaces between two; only one that is too long is broken."""
    line = ""
    for entry in entries:
        if line and len(line) + 3 + len(entry) > width:
            yield line
            line = ""
        line = f"{line}   {entry}" if line else entry
        if len(line) > width:
            *whole, line = textwrap.wrap(line, width, break_on_hyphens=False)
            yield from whole
    if line:
        yield line


def change(env: EnvOS) -> dict[str, Any]:
    """What changed in the episode and when, from the evidence: only for after the end."""
    evidence, plan, world = env.evidence(), env.plan, env.world
    records = evidence.records
    fire = next((record for record in records if isinstance(record, Fire)), None)
    told: dict[str, Any] = {
        "condition": plan.condition,
        "about": env.phenomenon.conditions[plan.condition].about,
        "fired": fire is not None,
        "writes": [],
        "commit_step": None,
    }
    requests = {record.number: record for record in records if isinstance(record, Request)}
    commit = next((r for r in records if _is_commit(r, plan.commit_table)), None)
    if isinstance(commit, Write):
        told["commit_step"] = requests[commit.request].step
    if fire is None:
        return told
    inside = requests[fire.request]
    told |= {"step": inside.step, "request": f"{inside.method} {inside.path}"}
    for record in records:
        if isinstance(record, Write) and record.actor == "perturbation" and record.op == "update":
            for column, (old, new) in record.columns.items():
                cell = {"table": record.table, "id": record.key, "column": column}
                shown = [world.display(evidence.post, record.table, column, value) for value in (old, new)]
                told["writes"].append({**cell, "old": shown[0], "new": shown[1]})
    return told


def _is_commit(record: object, table: str) -> bool:
    return isinstance(record, Write) and record.actor == "agent" and record.op == "insert" and record.table == table


def tell(shown: Console, verdict: Mapping[str, Any], told: Mapping[str, Any]) -> None:
    """Print the verdict with its evidence, and what changed."""
    shown.print(Rule("the verdict", align="left"))
    counted = "counted" if verdict["counted"] else "not counted"
    validity = verdict["validity"] if verdict["validity"] == "counted" else f"{verdict['validity']} ({counted})"
    shown.print(f"Validity: {validity}")
    for reason in verdict["reasons"]:
        shown.print(f"  {reason['code']}: {reason['detail']}")
    if verdict["counted"]:
        outcome = "success" if verdict["endpoint"] else "failure"
        shown.print(f"Endpoint: {outcome}; fraction {verdict['fraction']:.2f}; reward {verdict['reward']:.1f}")
    for name, term in verdict["invariants"].items():
        word = Text("holds", "green") if term["passed"] else Text("fails", "bold red")
        shown.print(Text.assemble(f"  {name} {NAMES[name]}: ", word, f", {term['reason']}"))
        if not term["passed"]:
            for what, value in term["measured"].items():
                shown.print(f"       {what}: {json.dumps(value)}", soft_wrap=True)
    shown.print(f"Signatures: {', '.join(verdict['signatures']) or 'none'}")
    shown.print(changed(told))


def changed(told: Mapping[str, Any]) -> str:
    """What changed and when, in words."""
    lines = [f"Condition {told['condition']}: {told['about']}."]
    if not told["fired"]:
        lines.append("The change did not fire.")
    elif not told["writes"]:
        lines.append(f"It fired in step {told['step']} ({told['request']}) and changed nothing.")
    for write in told["writes"]:
        lines.append(
            f"In step {told['step']} ({told['request']}) {write['column']} of {write['table']} {write['id']} went from "
            f"{write['old']!r} to {write['new']!r}."
        )
    step = told["commit_step"]
    lines.append("You committed nothing." if step is None else f"You committed in step {step}.")
    return " ".join(lines)


def outcome(env: EnvOS, verdict: Mapping[str, Any] | None, told: Mapping[str, Any]) -> dict[str, Any]:
    """The one JSON document of `--json`."""
    records = env.ledger.records()
    return {
        "environment": env.scenario.id,
        "split": env.split,
        "seed": env.instance.seed,
        "anchor": env.plan.anchor,
        "ended": verdict is not None,
        "actions": [record.raw for record in records if isinstance(record, Action)],
        "verdict": verdict,
        "change": dict(told) or None,
    }
