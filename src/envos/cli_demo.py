"""`envos demo`: the whole idea in one run - certify, roll out in paired arms, verify, print the tables."""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from envos.certify.certificate import Certificate
from envos.certify.policies import policies
from envos.cli_arguments import new_folder
from envos.cli_certify import certified, certified_json, certified_tables, refusals
from envos.cli_output import Score, console, document, matrix_table, table
from envos.cli_run import Block, Cell, Outcome, block_json, cells, play_block
from envos.cli_verify import Rederived, failures, rederive_all, summary, summary_table
from envos.errors import UsageError

ENVIRONMENT = "EnvOS/ClinicStale-v0"
CONDITIONS = ("all",)
SPLIT = "test"
CERTIFIED = "0:40"
PLAYED = "0:10"
CONTRAST = ("OFF-A", "LIVE-A")
CONTRASTED = ("reference", "read_review")
_MARK, _CERTIFICATE, _ARCHIVES = "demo.json", "certificate.json", "archives"


def run_demo(out: Path, workers: int, as_json: bool) -> int:
    """Run the demo; 1 when an instance is not admitted, a policy fares otherwise than declared, or a verdict moves."""
    prepare(out)
    block = Block.checked(ENVIRONMENT, ["all"], CONDITIONS, PLAYED, SPLIT, "first")
    certificate = certified(ENVIRONMENT, SPLIT, CERTIFIED, CONDITIONS, ["all"], workers)
    certificate.save(out / _CERTIFICATE)
    outcomes = play_block(block, out / _ARCHIVES, out / _CERTIFICATE)
    verdicts = rederive_all(out / _ARCHIVES)
    results = cells(block, outcomes)
    surprises = undeclared(block, results)
    if as_json:
        document(_document(block, certificate, results, outcomes, verdicts, surprises))
    else:
        _print(console(), out, block, certificate, results, outcomes, verdicts, surprises)
    return 0 if not refusals(certificate) and not surprises and all(item.holds for item in verdicts) else 1


def prepare(out: Path) -> None:
    """Make the folder of a demo, emptied of an earlier one. Raises UsageError where something else is in it."""
    new_folder(out)
    if any(out.iterdir()):
        if not (out / _MARK).is_file():
            raise UsageError(f"--out holds something that is not an earlier demo: {out}; name a new folder")
        shutil.rmtree(out / _ARCHIVES, ignore_errors=True)
        (out / _CERTIFICATE).unlink(missing_ok=True)
    (out / _MARK).write_text('{"made_by": "envos demo"}\n', encoding="ascii")


def undeclared(block: Block, results: Sequence[Cell]) -> list[str]:
    """Where a policy fared otherwise than it is declared to: won where it must not, or lost where it must win."""
    scripted = policies(block.line.world, block.line.phenomenon)
    wrong = []
    for cell in results:
        wins = cell.condition in scripted[cell.policy].wins
        if wins and not (cell.counted == cell.episodes and cell.endpoint_rate == 1.0):
            wrong.append(f"{cell.policy} is to win every episode of {cell.condition}")
        elif not wins and cell.endpoint_rate:
            wrong.append(f"{cell.policy} is to win no episode of {cell.condition}")
    return wrong


def contrast(outcomes: Sequence[Outcome], policy: str) -> dict[str, Any]:
    """The pairs of one policy: seeds won only where the review shows the value (for), only where not (against), ties.

    A pair of which one episode is not counted is left out.
    """
    silent, live = (
        {
            item.seed: item.verdict["endpoint"]
            for item in outcomes
            if (item.policy, item.condition) == (policy, condition) and item.verdict["counted"]
        }
        for condition in CONTRAST
    )
    pairs = [(live[seed], silent[seed]) for seed in silent if seed in live]
    return {
        "policy": policy,
        "pairs": len(pairs),
        "for": sum(a and not b for a, b in pairs),
        "against": sum(b and not a for a, b in pairs),
        "ties": sum(a == b for a, b in pairs),
    }


def matrix(block: Block, results: Sequence[Cell]) -> Table:
    """What the policies reached, policies by conditions."""
    return matrix_table(
        f"Rolled out on {block.split} seeds {block.seeds.start}:{block.seeds.stop}, anchor {block.anchor}",
        block.policies,
        block.conditions,
        {
            (cell.policy, cell.condition): Score(cell.mean_fraction, cell.endpoint_rate, cell.mean_actions)
            for cell in results
        },
    )


def contrast_table(outcomes: Sequence[Outcome]) -> Table:
    """The paired contrast of the silent change against the one that the review step shows."""
    shown = table(
        f"Paired contrast, {CONTRAST[1]} against {CONTRAST[0]}, on the same seeds",
        ("policy", ">pairs", f">only {CONTRAST[1]} won", f">only {CONTRAST[0]} won", ">ties"),
    )
    for name in CONTRASTED:
        found = contrast(outcomes, name)
        shown.add_row(name, *(str(found[key]) for key in ("pairs", "for", "against", "ties")))
    return shown


def _document(
    block: Block,
    certificate: Certificate,
    results: Sequence[Cell],
    outcomes: Sequence[Outcome],
    verdicts: Sequence[Rederived],
    surprises: Sequence[str],
) -> Mapping[str, Any]:
    return {
        "certificate": certified_json(certificate),
        "rollout": {**block_json(block), "cells": [cell.to_json() for cell in results]},
        "contrast": {"conditions": list(CONTRAST), "rows": [contrast(outcomes, name) for name in CONTRASTED]},
        "verification": summary(verdicts),
        "failures": [*refusals(certificate), *surprises, *failures(verdicts)],
    }


def _print(
    shown: Console,
    out: Path,
    block: Block,
    certificate: Certificate,
    results: Sequence[Cell],
    outcomes: Sequence[Outcome],
    verdicts: Sequence[Rederived],
    surprises: Sequence[str],
) -> None:
    for part in (
        *certified_tables(certificate),
        matrix(block, results),
        contrast_table(outcomes),
        summary_table(out / _ARCHIVES, verdicts),
    ):
        shown.print(part)
        shown.print()
    for line in (*refusals(certificate), *surprises, *failures(verdicts)):
        shown.print(line, style="red", soft_wrap=True)
    shown.print(f"Certificate and archives are in {out}", soft_wrap=True)
    shown.print(f"Play one yourself: envos play {ENVIRONMENT}")
