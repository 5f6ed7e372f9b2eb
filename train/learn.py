"""A training run from its clone to its evaluation, and what it leaves in its folder.

`config.json`, `metrics.jsonl` (one line for each iteration), `tensorboard/`, `net.pt` (the network alone),
`checkpoint/`, `curve.png`, `evaluation.json`.
"""

import json
import os
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import torch

from envos.certify.policies import winner
from envos.envs.scenario import ANCHORS, scenario
from envos.errors import UsageError
from envos.train.arms import Arm
from envos.train.clone import clone, collect
from envos.train.evaluate import Score, score, scripted
from envos.train.net import Pointer
from envos.train.rllib_ppo import Run, Settings, begin, iterate, resume

EVERY = 8
"""Iterations from one look at unseen instances to the next."""
LOOKS = 60
"""Validation instances of each arm in such a look."""
SOLVED = 0.98
"""A run ends when every arm's success is this much in a look."""

AUDITED = 0.1
"""Share of an evaluation's episodes on which both keys are turned."""
BASELINE = 50
"""Test instances of each arm that the scripted baselines play."""

Tell = Callable[[str], None]


class Line(NamedTuple):
    """What a run has measured so far, for a progress line."""

    seconds: float
    steps: int
    success: float | None

    def text(self) -> str:
        """One line."""
        shown = "-" if self.success is None else f"{self.success:.2f}"
        return f"{self.seconds:5.0f} s  {self.steps:7,} steps  success while trying {shown}"


def save_net(net: Pointer, path: Path) -> None:
    """Write a network's numbers."""
    torch.save(net.state_dict(), path)


def load_net(path: Path) -> Pointer:
    """The network that `save_net` wrote. Raises UsageError for any other file."""
    net = Pointer()
    try:
        # Numbers alone: a checkpoint of somebody else's may hold code, which is not read.
        net.load_state_dict(torch.load(path, weights_only=True))
    except Exception as problem:
        raise UsageError(f"{path} is no network of this version ({type(problem).__name__})") from problem
    return net


def make_clone(environments: Sequence[str], path: Path, episodes: int, seed: int, tell: Tell) -> Pointer:
    """Clone the reference, and write it."""
    tell(f"playing the reference for {episodes} episodes")
    samples = collect(environments, episodes, first=1000 * seed)
    net = clone(
        samples, seed, progress=lambda epoch, right: tell(f"cloning: epoch {epoch}, {right:.3f} as the reference")
    )
    save_net(net, path)
    return net


def learn(settings: Settings, out: Path, minutes: float, tell: Tell, again: bool = False) -> list[Score]:
    """Train for so many minutes, or until every arm is solved on unseen instances; evaluate on the test instances.

    `again` goes on from the folder's checkpoint, with its settings.
    """
    begun = perf_counter()
    run = resume(out / "checkpoint") if again else begin(settings)
    settings = run.settings
    out.mkdir(parents=True, exist_ok=True)
    (out / "config.json").write_text(json.dumps({**asdict(settings), "minutes": minutes}, indent=1), encoding="utf-8")
    board = _board(out / "tensorboard")
    with (out / "metrics.jsonl").open("a" if again else "w", encoding="utf-8") as file:
        while perf_counter() - begun < 60 * minutes:
            line = iterate(run)
            rates = [one["success"] for one in line["measured"].values() if "success" in one]
            seconds = perf_counter() - begun
            tell(Line(seconds, run.steps, sum(rates) / len(rates) if rates else None).text())
            if run.iterations % EVERY == 0:
                line["greedy"] = look(run)
                tell(
                    "greedy on validation: " + "  ".join(f"{name} {rate:.2f}" for name, rate in line["greedy"].items())
                )
                save_net(run.net(), out / "net.pt")
                run.save(out / "checkpoint")
            file.write(json.dumps({**line, "elapsed": seconds}) + "\n")
            file.flush()
            _tell_board(board, line)
            if _solved(run, line):
                break
    board.close()
    save_net(run.net(), out / "net.pt")
    run.save(out / "checkpoint")
    run.algorithm.stop()
    curve(out / "metrics.jsonl", out / "curve.png")
    tell("evaluating on test instances")
    return evaluation(load_net(out / "net.pt"), settings.arms, out / "evaluation.json", episodes=100)


def _solved(run: Run, line: dict[str, Any]) -> bool:
    """Whether every arm is solved, those of the last stage included."""
    last = run.curriculum.level + 1 >= len(run.settings.stages)
    return last and "greedy" in line and min(line["greedy"].values()) >= SOLVED


def look(run: Run) -> dict[str, float]:
    """Greedy success of each arm on validation instances, by environment and condition.

    Over all of them: an agent that never gets as far as the change, and is not counted there, has not succeeded.
    """
    net = run.net()
    found = {}
    for name, condition in run.settings.arms:
        one = score(net, name, condition, run.settings.anchor, range(LOOKS), "validation")
        found[f"{name.rpartition('/')[2]}/{condition}"] = (one.success or 0.0) * one.counted / one.episodes
    return found


def evaluation(net: Pointer, arms: Iterable[Arm], path: Path, episodes: int = 500) -> list[Score]:
    """Greedy scores on test instances, under both anchors, with scripted baselines beside them; written as JSON, too.

    The baselines are `reference`, of which the clone is made, and the policy that wins everywhere. Both keys are turned
    on a tenth of the agent's episodes.
    """
    found = []
    for name, condition in arms:
        best = winner(scenario(name))
        known = ("reference",) if best is None else ("reference", best.name)
        for anchor in ANCHORS:
            found.append(score(net, name, condition, anchor, range(episodes), "test", AUDITED))
            found += [scripted(one, name, condition, anchor, range(min(episodes, BASELINE))) for one in known]
    path.write_text(json.dumps([one.to_json() for one in found], indent=1), encoding="utf-8")
    return found


def curve(metrics: Path, path: Path) -> None:
    """The learning curve as a picture: success by steps, greedy (dots) and while trying (lines)."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    lines = [json.loads(line) for line in metrics.read_text(encoding="utf-8").splitlines()]
    names = sorted({name for line in lines for name, one in line["measured"].items() if "success" in one})
    figure, panel = pyplot.subplots(figsize=(8, 4.2), layout="constrained")
    for number, name in enumerate(names):
        tried = [
            (line["steps"], line["measured"][name]["success"])
            for line in lines
            if "success" in line["measured"].get(name, {})
        ]
        panel.plot(*zip(*tried, strict=True), color=f"C{number % 10}", linewidth=1, label=name.partition("/")[2])
        greedy = [(line["steps"], line["greedy"][name]) for line in lines if name in line.get("greedy", {})]
        if greedy:
            panel.plot(*zip(*greedy, strict=True), "o", color=f"C{number % 10}", markersize=4)
    panel.set_xlabel("environment steps")
    panel.set_ylabel("success")
    panel.set_ylim(-0.03, 1.03)
    panel.legend(fontsize=8, ncols=2)
    panel.set_title("lines: while trying; dots: greedy, on validation instances", loc="left", fontsize=9)
    figure.savefig(path, dpi=100, metadata={"Software": ""})
    pyplot.close(figure)


def _board(folder: Path) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.utils.tensorboard import SummaryWriter
    os.makedirs(folder, exist_ok=True)
    return SummaryWriter(str(folder))


def _tell_board(board: Any, line: dict[str, Any]) -> None:
    for where, values in line["measured"].items():
        for name, value in values.items():
            board.add_scalar(f"{where}/{name}", value, line["steps"])
    for where, value in line.get("greedy", {}).items():
        board.add_scalar(f"{where}/greedy", value, line["steps"])
