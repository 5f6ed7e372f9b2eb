"""`envos export-sft` and `envos train trl`: demonstrations as text, and GRPO on a world's tools."""

import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from envos.cli_arguments import new_file, new_folder, seed_range, several
from envos.cli_output import console, document, number, progress, share, table
from envos.envs.scenario import check_anchor, scenario
from envos.envs.streams import check_split
from envos.errors import UsageError
from envos.train.trl_data import Told, demonstrate, examples
from envos.train.trl_settings import Settings
from envos.wrappers.archive import archives

SHOWN = 5
"""Archives that are told of one by one."""


def export_sft(
    out: Path,
    environment: str,
    seeds: str,
    split: str,
    conditions: Sequence[str],
    anchor: str,
    folder: Path | None,
    as_json: bool,
) -> int:
    """Write the demonstrations of the reference as JSONL; 1 when there is none among the archives."""
    line = scenario(environment)
    arms = several(f"condition of {line.id}", conditions, line.conditions)
    new_file(out)
    told, refused = Told(line.id), dict[str, str]()
    if folder is not None:
        lines = _lines(told, archives(folder), refused)
    else:
        chosen, held, where = seed_range(seeds), check_split(split), check_anchor(anchor)
        with tempfile.TemporaryDirectory() as root, progress("episodes", len(chosen) * len(arms)):
            lines = _lines(told, demonstrate(told, chosen, held, arms, where, Path(root)), refused)
    out.write_text("".join(f"{one}\n" for one in lines), encoding="utf-8")
    if as_json:
        document({"environment": line.id, "out": str(out), "examples": len(lines), "left_out": refused})
    else:
        _tell(out, len(lines), refused)
    return 0 if lines else 1


def _lines(told: Told, folders: Iterable[Path], refused: dict[str, str]) -> list[str]:
    schemas = told.schemas()
    return [json.dumps(one.to_json(schemas), ensure_ascii=False) for one in examples(folders, told, refused)]


def _tell(out: Path, count: int, refused: Mapping[str, str]) -> None:
    shown = console()
    shown.print(f"{count} demonstrations are in {out}; {len(refused)} archives were left out", soft_wrap=True)
    for reason, number_of in Counter(refused.values()).most_common(SHOWN):
        shown.print(f"  {number_of} left out: {reason}", soft_wrap=True)


def train_trl(out: Path, as_json: bool, seeds: Mapping[str, str], **given: Any) -> None:
    """Train, with a line for each step on stderr, and print the evaluation table. Raises UsageError."""
    line = scenario(given["environment"])
    conditions = several(f"condition of {line.id}", given.pop("conditions"), line.conditions)
    spans: dict[str, Any] = {name: _span(text) for name, text in seeds.items()}
    sft_conditions = several(f"condition of {line.id}", given.pop("sft_conditions"), line.conditions)
    settings = Settings(conditions=conditions, sft_conditions=sft_conditions, **spans, **given).checked()
    new_folder(out)
    # Nothing is looked up or downloaded: a model is a folder.
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    try:
        from envos.train.trl_grpo import train
    except ModuleNotFoundError as missing:
        raise UsageError(f"training needs {missing.name}: pip install 'envos[trl]'") from missing
    errors = console(sys.stderr)
    lines = train(settings, out, lambda text: errors.print(text, soft_wrap=True))
    if as_json:
        document({"environment": line.id, "out": str(out), "evaluation": lines})
        return
    shown = console()
    shown.print(results(line.id, lines))
    shown.print(f"Config, metrics, rollouts, checkpoint and evaluation are in {out}", soft_wrap=True)


def _span(text: str) -> tuple[int, int]:
    chosen = seed_range(text)
    return chosen.start, chosen.stop


def results(environment: str, lines: Sequence[Mapping[str, Any]]) -> Table:
    """The evaluation table: one line for each policy and condition."""
    shown = table(
        f"{environment}, held-out test instances, greedy",
        ("policy", "condition", ">n", ">counted", ">endpoint", ">fraction", ">actions", ">re-read", ">stopped"),
        "endpoint, fraction, actions, re-read: means over the counted episodes; stopped: ended without a report",
    )
    for line in lines:
        shown.add_row(
            line["policy"],
            line["condition"],
            str(line["episodes"]),
            str(line["counted"]),
            share(line["success"]),
            number(line["fraction"]),
            number(line["actions"], 1),
            share(line["reread"]),
            str(line["stopped"]),
        )
    return shown
