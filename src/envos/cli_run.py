"""`envos run`: scripted policies in paired arms, each on the same seeds in every condition."""

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
from rich.table import Table

from envos.certify.policies import policies
from envos.certify.rollout import play
from envos.cli_arguments import new_folder, seed_range, several
from envos.cli_output import console, document, number, progress, share, table
from envos.envs.scenario import Scenario, check_anchor, scenario
from envos.envs.streams import check_split
from envos.errors import UsageError
from envos.wrappers.archive import Archive


@dataclass(frozen=True, slots=True)
class Block:
    """What is to be played: every policy under every condition on every seed of a split."""

    line: Scenario
    policies: tuple[str, ...]
    conditions: tuple[str, ...]
    seeds: range
    split: str
    anchor: str

    @classmethod
    def checked(
        cls,
        environment: str,
        chosen: Sequence[str],
        conditions: Sequence[str],
        seeds: str,
        split: str,
        anchor: str,
    ) -> "Block":
        """The block of what was given on the command line. Raises UsageError."""
        line = scenario(environment)
        return cls(
            line,
            several(f"policy of {line.id}", chosen, policies(line.world, line.phenomenon)),
            several(f"condition of {line.id}", conditions, line.conditions),
            seed_range(seeds),
            check_split(split),
            check_anchor(anchor),
        )

    def __len__(self) -> int:
        return len(self.policies) * len(self.conditions) * len(self.seeds)


class Outcome(NamedTuple):
    """One episode of a block; `archive` is its folder's name, or ""."""

    policy: str
    condition: str
    seed: int
    verdict: Mapping[str, Any]
    actions: int
    archive: str

    def to_json(self) -> dict[str, Any]:
        """The episode as JSON data: the verdict's main figures, not its evidence."""
        kept = ("validity", "counted", "endpoint", "fraction", "reward", "signatures")
        return {
            "policy": self.policy,
            "condition": self.condition,
            "seed": self.seed,
            **{name: self.verdict[name] for name in kept},
            "actions": self.actions,
            "archive": self.archive,
        }


@dataclass(frozen=True, slots=True)
class Cell:
    """How one policy fared under one condition.

    Rates and means are over the counted episodes, None without any; `validity` counts the classes of all episodes, and
    `uncounted` of those without an outcome.
    """

    policy: str
    condition: str
    episodes: int
    counted: int
    endpoint_rate: float | None
    mean_fraction: float | None
    mean_actions: float | None
    validity: Mapping[str, int]
    uncounted: Mapping[str, int]
    signatures: Mapping[str, int]

    def to_json(self) -> dict[str, Any]:
        """The cell as JSON data."""
        return {name: getattr(self, name) for name in self.__slots__}


def played(block: Block, out: Path | None, certificate: Path | None) -> Iterator[Outcome]:
    """Play a block, seed by seed, and write the archives to `out`; a seed's arms and policies follow each other."""
    keywords: dict[str, Any] = {"split": block.split, "anchor": block.anchor, "disable_env_checker": True}
    if certificate is not None:
        keywords |= {"certify": "require", "certificate": str(certificate)}
    env: gymnasium.Env[Any, str] = gymnasium.make(block.line.id, **keywords)
    archive = Archive(env, out) if out is not None else None
    scripted = policies(block.line.world, block.line.phenomenon)
    try:
        for seed in block.seeds:
            for condition in block.conditions:
                for name in block.policies:
                    options = {"condition": condition, "policy": name}
                    episode = play(archive or env, scripted[name].policy, seed, options)
                    folder = archive.folder.name if archive is not None and archive.folder is not None else ""
                    yield Outcome(name, condition, seed, episode.verdict, episode.steps, folder)
    finally:
        (archive or env).close()  # type: ignore[no-untyped-call]


def cells(block: Block, outcomes: Iterable[Outcome]) -> list[Cell]:
    """How each policy fared under each condition, in the block's order."""
    found: dict[tuple[str, str], list[Outcome]] = {
        (name, condition): [] for name in block.policies for condition in block.conditions
    }
    for outcome in outcomes:
        found[outcome.policy, outcome.condition].append(outcome)
    return [_cell(name, condition, items) for (name, condition), items in found.items()]


def _cell(policy: str, condition: str, outcomes: Sequence[Outcome]) -> Cell:
    counted = [item for item in outcomes if item.verdict["counted"]]
    return Cell(
        policy,
        condition,
        len(outcomes),
        len(counted),
        mean([float(item.verdict["endpoint"]) for item in counted]),
        mean([item.verdict["fraction"] for item in counted]),
        mean([item.actions for item in counted]),
        tally(item.verdict["validity"] for item in outcomes),
        tally(item.verdict["validity"] for item in outcomes if not item.verdict["counted"]),
        tally(name for item in outcomes for name in item.verdict["signatures"]),
    )


def tally(names: Iterable[str]) -> dict[str, int]:
    """How often each name occurs, by name."""
    return dict(sorted(Counter(names).items()))


def mean(values: Sequence[float]) -> float | None:
    """The mean, or None of nothing."""
    return sum(values) / len(values) if values else None


def play_block(block: Block, out: Path | None, certificate: Path | None) -> list[Outcome]:
    """Play a block with a progress bar; when it is stopped, say what is left of it."""
    outcomes: list[Outcome] = []
    try:
        with progress("episodes", len(block)) as done:
            for outcome in played(block, out, certificate):
                outcomes.append(outcome)
                done(len(outcomes))
    except KeyboardInterrupt:
        if out is not None:
            # The one that was cut off has no manifest, and so can never pass for a success.
            left = f"{len(outcomes)} of {len(block)} archives are complete in {out}; the next may be cut off"
            console(sys.stderr).print(left, soft_wrap=True)
        raise
    return outcomes


def run_block(block: Block, out: Path | None, certificate: Path | None, as_json: bool) -> None:
    """Play a block and print how it went. Raises CertificateError for an instance that is not admitted."""
    if out is not None:
        new_folder(out)
    if certificate is not None and not certificate.is_file():
        raise UsageError(f"--certificate is a file that `envos certify` wrote; there is none at {certificate}")
    outcomes = play_block(block, out, certificate)
    found = cells(block, outcomes)
    if as_json:
        document(
            {
                **block_json(block),
                "out": None if out is None else str(out),
                "cells": [cell.to_json() for cell in found],
                "episodes": [outcome.to_json() for outcome in outcomes],
            }
        )
        return
    shown = console()
    shown.print(results(block, found))
    if out is not None:
        shown.print(f"Archives of {len(outcomes)} episodes are in {out} (envos verify {out})", soft_wrap=True)


def block_json(block: Block) -> dict[str, Any]:
    """What was played, as JSON data."""
    return {
        "environment": block.line.id,
        "split": block.split,
        "anchor": block.anchor,
        "seeds": [block.seeds.start, block.seeds.stop],
        "policies": list(block.policies),
        "conditions": list(block.conditions),
    }


def results(block: Block, found: Sequence[Cell]) -> Table:
    """The table of results: one line for each policy and condition."""
    title = f"{block.line.id}, {block.split} seeds {block.seeds.start}:{block.seeds.stop}, anchor {block.anchor}"
    shown = table(
        title,
        ("policy", "condition", ">n", ">counted", ">endpoint", ">fraction", ">actions", "not counted"),
        "endpoint, fraction and actions: means over the counted episodes",
    )
    before = ""
    for cell in found:
        if before and cell.policy != before:
            shown.add_section()
        shown.add_row(
            cell.policy if cell.policy != before else "",
            cell.condition,
            str(cell.episodes),
            str(cell.counted),
            share(cell.endpoint_rate),
            number(cell.mean_fraction),
            number(cell.mean_actions, 1),
            ", ".join(f"{count} {name}" for name, count in cell.uncounted.items()),
        )
        before = cell.policy
    return shown
