"""Scripted policies over families, conditions and seeds: resumable, on one machine or on a cluster.

A sweep's folder holds `sweep.json` (what was asked for), `episodes.jsonl` (one line for each finished piece: a policy
under a condition on some seeds) and, at the end, `table.json` and `sweep.png`. Only the process that began the sweep
writes there, a line at a time; a line that was cut off is done again.
"""

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium

from envos.certify.policies import policies
from envos.certify.rollout import play
from envos.envs.scenario import scenario
from envos.errors import UsageError
from envos.train.spread import spread

PIECE = 10
"""Seeds of one piece of work."""
KEPT = ("validity", "counted", "endpoint", "fraction", "reward", "signatures")
"""What of a verdict a sweep keeps; the evidence is `envos run --out`'s."""


class Arm(NamedTuple):
    """One policy in one environment under one condition."""

    environment: str
    condition: str
    policy: str


class Piece(NamedTuple):
    """An arm on some seeds: what one process does at a time."""

    arm: Arm
    split: str
    anchor: str
    seeds: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Sweep:
    """What is asked for: each arm on each seed; `code` is the digest of the code that plays them."""

    arms: tuple[Arm, ...]
    split: str
    anchor: str
    seeds: tuple[int, ...]
    code: str

    def pieces(self) -> list[Piece]:
        """The work in pieces, seeds first, so that every arm has some episodes early."""
        cuts = [self.seeds[at : at + PIECE] for at in range(0, len(self.seeds), PIECE)]
        return [Piece(arm, self.split, self.anchor, seeds) for seeds in cuts for arm in self.arms]


@dataclass(frozen=True, slots=True)
class Row:
    """How one arm fared; rates and means are over the counted episodes, None without any."""

    environment: str
    condition: str
    policy: str
    episodes: int
    counted: int
    endpoint_rate: float | None
    mean_fraction: float | None
    mean_actions: float | None
    validity: dict[str, int]
    signatures: dict[str, int]

    def to_json(self) -> dict[str, Any]:
        """The row as JSON data."""
        return asdict(self)


def evaluate(piece: Piece) -> list[dict[str, Any]]:
    """Play a piece; one JSON line's data for each episode: seed, actions and what is kept of the verdict."""
    line = scenario(piece.arm.environment)
    policy = policies(line.world, line.phenomenon)[piece.arm.policy].policy
    env: gymnasium.Env[Any, str] = gymnasium.make(
        f"envos:{line.id}",
        condition=piece.arm.condition,
        split=piece.split,
        anchor=piece.anchor,
        disable_env_checker=True,
    )
    try:
        found = []
        for seed in piece.seeds:
            episode = play(env, policy, seed, {"policy": piece.arm.policy})
            kept = {name: episode.verdict[name] for name in KEPT}
            found.append({"seed": seed, "actions": episode.steps, **kept})
        return found
    finally:
        env.close()


def sweep(asked: Sweep, out: Path, address: str = "", workers: int = 0) -> Iterator[tuple[int, int]]:
    """Do what of a sweep is not done yet; yields (episodes done, of how many) as it goes.

    Raises UsageError when the folder holds another sweep.
    """
    pieces = asked.pieces()
    done = {key: len(episodes) for key, episodes in begun(asked, out)}
    left = [piece for piece in pieces if _key(piece) not in done]
    count, total = sum(done.values()), sum(len(piece.seeds) for piece in pieces)
    yield count, total
    with (out / "episodes.jsonl").open("a", encoding="utf-8") as file:
        for place, episodes in spread(evaluate, left, address, workers):
            file.write(json.dumps({"piece": _key(left[place]), "episodes": episodes}) + "\n")
            file.flush()
            os.fsync(file.fileno())
            count += len(episodes)
            yield count, total


def begun(asked: Sweep, out: Path) -> list[tuple[str, list[dict[str, Any]]]]:
    """The pieces that a folder has already; begins a new sweep where it has none. Raises UsageError for another one."""
    plan, lines = out / "sweep.json", out / "episodes.jsonl"
    wanted = json.loads(json.dumps(asdict(asked)))
    if not plan.exists():
        if lines.exists():
            raise UsageError(f"{out} holds episodes of a sweep without its sweep.json: take another folder")
        _write(plan, wanted)
        return []
    if _read(plan) != wanted:
        raise UsageError(f"{out} holds another sweep: give the arguments that began it, or another folder")
    if not lines.exists():
        return []
    text = lines.read_text(encoding="utf-8")
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        # The process was stopped while it wrote.
        _replace(lines, whole)
    found = {}
    for line in whole.splitlines():
        entry = json.loads(line)
        found[str(entry["piece"])] = entry["episodes"]
    return list(found.items())


def rows(asked: Sweep, out: Path) -> list[Row]:
    """How each arm fared, in the sweep's order."""
    found: dict[str, list[dict[str, Any]]] = {"/".join(arm): [] for arm in asked.arms}
    for key, episodes in begun(asked, out):
        found[key.rpartition("/")[0]] += episodes
    return [_row(arm, found["/".join(arm)]) for arm in asked.arms]


def finish(asked: Sweep, out: Path) -> list[Row]:
    """Write the table and the plot of a sweep; returns the table's rows."""
    found = rows(asked, out)
    _write(out / "table.json", [row.to_json() for row in found])
    plot(found, out / "sweep.png")
    return found


def plot(found: Sequence[Row], path: Path) -> None:
    """Endpoint rates as one picture: a panel for each environment, policies by conditions; PNG."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    environments = list(dict.fromkeys(row.environment for row in found))
    height = [1.1 + 0.32 * len({row.policy for row in found if row.environment == name}) for name in environments]
    figure, axes = pyplot.subplots(
        len(environments), 1, figsize=(8, sum(height)), height_ratios=height, squeeze=False, layout="constrained"
    )
    for name, panel in zip(environments, axes[:, 0], strict=True):
        _panel(panel, name, [row for row in found if row.environment == name])
    figure.savefig(path, dpi=110, metadata={"Software": ""})
    pyplot.close(figure)


def _panel(panel: Any, name: str, found: Sequence[Row]) -> None:
    names, conditions = (list(dict.fromkeys(getattr(row, item) for row in found)) for item in ("policy", "condition"))
    rates = {(row.policy, row.condition): row.endpoint_rate for row in found}
    missing = float("nan")
    values = [[missing if (rate := rates.get((one, two))) is None else rate for two in conditions] for one in names]
    panel.imshow(values, vmin=0, vmax=1, cmap="viridis", aspect="auto")
    panel.set_xticks(range(len(conditions)), conditions)
    panel.set_yticks(range(len(names)), names)
    panel.set_title(f"{name}: endpoint rate", loc="left", fontsize=10)
    panel.tick_params(length=0, labelsize=8)
    for place, line in enumerate(values):
        for at, value in enumerate(line):
            text, color = ("-", "black") if value != value else (f"{value:.2f}", "black" if value > 0.5 else "white")
            panel.text(at, place, text, ha="center", va="center", fontsize=8, color=color)


def _row(arm: Arm, episodes: Sequence[dict[str, Any]]) -> Row:
    counted = [item for item in episodes if item["counted"]]
    return Row(
        *arm,
        len(episodes),
        len(counted),
        _mean(float(item["endpoint"]) for item in counted),
        _mean(item["fraction"] for item in counted),
        _mean(item["actions"] for item in counted),
        dict(sorted(Counter(item["validity"] for item in episodes).items())),
        dict(sorted(Counter(name for item in episodes for name in item["signatures"]).items())),
    )


def _mean(values: Iterable[float]) -> float | None:
    given = list(values)
    return sum(given) / len(given) if given else None


def _key(piece: Piece) -> str:
    return f"{'/'.join(piece.arm)}/{piece.seeds[0]}"


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as problem:
        raise UsageError(f"{path} is not what a sweep wrote: {problem}") from problem


def _write(path: Path, data: Any) -> None:
    _replace(path, json.dumps(data, indent=1) + "\n")


def _replace(path: Path, text: str) -> None:
    part = path.with_name(path.name + ".part")
    part.write_text(text, encoding="utf-8")
    part.replace(path)
