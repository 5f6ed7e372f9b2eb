"""What is printed: tables and text on stdout, progress on stderr, or one JSON document."""

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import perf_counter
from typing import Any, NamedTuple, TextIO

from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

WIDTH = 100
"""Columns of what does not go to a terminal."""

Done = Callable[[int], None]
"""Is told how many parts are done."""


class Score(NamedTuple):
    """How a policy fared under a condition: mean fraction, endpoint rate, mean number of actions; None of nothing."""

    fraction: float | None
    endpoint: float | None
    actions: float | None


Place = tuple[str, str]
"""A policy and a condition."""


def console(stream: TextIO | None = None) -> Console:
    """A console for stdout, or another stream; nothing that is printed is read as markup."""
    file = sys.stdout if stream is None else stream
    width = None if file.isatty() or "COLUMNS" in os.environ else WIDTH
    return Console(file=file, width=width, markup=False, highlight=False, emoji=False)


def document(data: Mapping[str, Any]) -> None:
    """Print the one JSON document of `--json`."""
    print(json.dumps(data, indent=2, allow_nan=False))


def table(title: str, columns: Sequence[str], caption: str = "") -> Table:
    """An empty table; a column whose name begins with ">" is set flush right."""
    made = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        caption=caption or None,
        caption_justify="left",
        caption_style="dim",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
        show_edge=False,
    )
    for name in columns:
        right = name.startswith(">")
        made.add_column(name.lstrip(">"), justify="right" if right else "left", no_wrap=right)
    return made


def matrix_table(
    title: str, policies: Sequence[str], conditions: Sequence[str], scores: Mapping[Place, Score]
) -> Table:
    """Policies by conditions: mean fraction and endpoint rate in per cent, and the mean number of actions.

    In a narrow terminal the two stand one above the other.
    """
    narrow = console().width < WIDTH
    shown = table(
        title,
        ("policy", *(f">{name}" for name in conditions), ">steps"),
        "mean fraction and endpoint rate in %, over counted episodes; steps: mean actions; -: none counted",
    )
    if narrow:
        shown.padding = (0, 0)
    for name in policies:
        mine = [scores[name, condition] for condition in conditions]
        steps = [score.actions for score in mine if score.actions is not None]
        cells = [_score(score, "\n" if narrow else " ") for score in mine]
        shown.add_row(name, *cells, number(sum(steps) / len(steps) if steps else None, 1))
    return shown


def _score(score: Score, gap: str) -> Text:
    if score.fraction is None or score.endpoint is None:
        return Text("-", "dim")
    style = "green" if score.endpoint == 1.0 else "" if score.endpoint else "red"
    return Text(f"{score.fraction:.2f}{gap}{100 * score.endpoint:3.0f}", style)


def share(value: float | None) -> str:
    """A share from 0 to 1 as a whole per cent; "-" where there is none."""
    return "-" if value is None else f"{100 * value:.0f}%"


def number(value: float | None, digits: int = 2) -> str:
    """A number with so many decimals; "-" where there is none."""
    return "-" if value is None else f"{value:.{digits}f}"


def plain(text: str) -> str:
    """A text as one line, with everything unprintable replaced: it may come from a file that somebody changed."""
    return "".join(char if char.isprintable() else "?" for char in text)


@contextmanager
def progress(label: str, total: int) -> Iterator[Done]:
    """A bar on stderr while something of `total` parts goes on, or a line before and after where it is no terminal."""
    errors = console(sys.stderr)
    started = perf_counter()
    if not errors.is_terminal:
        errors.print(f"{label}: {total} ...")
        yield lambda count: None
        errors.print(f"{label}: done in {perf_counter() - started:.1f} s")
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=errors, transient=True) as bar:
        task = bar.add_task(label, total=total)
        yield lambda count: bar.update(task, completed=count)
