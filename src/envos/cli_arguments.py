"""What is given on the command line, checked: seeds, names, files, folders, workers."""

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from envos.envs.streams import check_seed
from envos.errors import UnknownName, UsageError

_SEEDS = re.compile(r"([0-9]{1,30})(?::([0-9]{1,30}))?")
_MOST = 10_000_000
_PROCESSES = 256


def seed_range(text: str) -> range:
    """The seeds of `A:B` (A to B-1), or of one number. Raises UsageError for anything else, and for no seed at all."""
    found = _SEEDS.fullmatch(text.strip())
    if found is None:
        raise UsageError(f"--seeds is A:B with whole numbers, A below B, such as 0:10; got {text[:80]!r}")
    first = check_seed(int(found[1]))
    last = first if found[2] is None else int(found[2]) - 1
    if last < first:
        raise UsageError(f"--seeds {text} holds no seed: A:B is A to B-1, so A must be below B")
    check_seed(last)
    if last - first >= _MOST:
        raise UsageError(f"--seeds {text} holds {last - first + 1} seeds; at most {_MOST} are taken")
    return range(first, last + 1)


def several(kind: str, given: Sequence[str], valid: Iterable[str]) -> tuple[str, ...]:
    """The names that were given, each once, in the order of the valid ones; `all` is all. Raises UnknownName."""
    names = tuple(valid)
    for name in given:
        if name not in (*names, "all"):
            raise UnknownName(kind, name, (*names, "all"))
    return names if "all" in given else tuple(name for name in names if name in given)


def new_folder(path: Path) -> Path:
    """The folder, made if need be. Raises UsageError where a file stands in its place."""
    for part in (path, *path.parents):
        if part.exists():
            if not part.is_dir():
                raise UsageError(f"--out is a folder; {part} is a file")
            break
    path.mkdir(parents=True, exist_ok=True)
    return path


def new_file(path: Path) -> Path:
    """The file, with its folder made if need be. Raises UsageError where a folder stands in its place."""
    if path.is_dir():
        raise UsageError(f"--out is a file; {path} is a folder")
    new_folder(path.parent)
    return path


def worker_count(given: int) -> int:
    """The number of processes: as given, or one for each core that this process may use. Raises UsageError."""
    if not 0 <= given <= _PROCESSES:
        raise UsageError(f"--workers is a number from 0 (one for each core) to {_PROCESSES}; got {given}")
    if given:
        return given
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
