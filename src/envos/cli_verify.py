"""`envos verify`: every archive's verdict derived again from its files, and what moved against the archived one."""

import json
import math
import re
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from rich.table import Table
from rich.text import Text

from envos.cli_output import console, document, plain, progress, share, table
from envos.envs.evidence import Evidence, canonical
from envos.errors import UsageError
from envos.registry import code_identity
from envos.rewards.verdict import verify
from envos.wrappers.archive import LEDGER, MANIFEST, POST, PRE, SIZE_LIMIT, VERDICT, archives, read_archive

SHOWN = 20
"""Archives that are told one by one; `--json` has them all."""
_NUMBERED = re.compile(r"[0-9]{4,}-")
_FILES = (PRE, POST, VERDICT, MANIFEST)
_LINES = 6
"""Moves, and problems, that are told of one archive."""
_FIRST = ("validity", "counted", "endpoint", "fraction", "reward", "signatures", "invariants")
"""What is told first of a verdict that moved."""
_LONG = 60


class Move(NamedTuple):
    """One place where the derived verdict differs from the archived one."""

    where: str
    archived: Any
    derived: Any

    def __str__(self) -> str:
        return f"{self.where}: {_short(self.archived)} -> {_short(self.derived)}"


@dataclass(frozen=True, slots=True)
class Rederived:
    """One archive: who it is of, its derived verdict, what moved, and what is wrong with its files.

    `archived` is None where the archive holds no readable verdict.
    """

    archive: str
    identity: Mapping[str, Any]
    verdict: Mapping[str, Any]
    archived: Mapping[str, Any] | None
    moves: tuple[Move, ...]
    problems: tuple[str, ...]

    @property
    def holds(self) -> bool:
        """Whether the archived verdict stands, and nothing is wrong with the files."""
        return self.archived is not None and not self.moves and not self.problems

    def to_json(self) -> dict[str, Any]:
        """The archive as JSON data."""
        names = ("environment", "split", "seed", "condition", "anchor", "policy")
        return {
            "archive": self.archive,
            **{name: value if isinstance(value := self.identity.get(name), int | str) else None for name in names},
            "holds": self.holds,
            "verdict": dict(self.verdict),
            "moved": [move._asdict() for move in self.moves],
            "problems": list(self.problems),
        }


def rederive(folder: Path) -> Rederived:
    """Derive the verdict of one archive, and compare it with the archived one."""
    if (folder / LEDGER).is_file():
        evidence = read_archive(folder)
    else:
        evidence = Evidence((), {}, {}, (f"file_missing: {LEDGER}: the trajectory is gone",))
    derived = json.loads(canonical(verify(evidence).info()))
    problems = list(evidence.problems)
    archived = _archived(folder / VERDICT, problems)
    moves = () if archived is None else tuple(moved(archived, derived))
    identity = evidence.start.identity if isinstance(evidence.start.identity, dict) else {}
    return Rederived(folder.name, identity, derived, archived, moves, tuple(problems))


def _archived(path: Path, problems: list[str]) -> dict[str, Any] | None:
    """The archived verdict, or None and one more problem."""
    try:
        if not path.is_file() or path.stat().st_size > SIZE_LIMIT:
            raise ValueError("missing or no regular file")
        found = json.loads(path.read_bytes(), parse_constant=str, parse_float=_finite)
        if not isinstance(found, dict):
            raise ValueError("not an object")
        _text(found)  # what is nested too deeply to be written is not ours
        return found
    except (OSError, ValueError, RecursionError) as error:
        if not any(VERDICT in problem for problem in problems):
            problems.append(f"verdict_unreadable: {path.name}: {error}"[:200])
        return None


def _finite(text: str) -> float | str:
    """The number, or the text as it stands for one that is too large to be written again."""
    value = float(text)
    return value if math.isfinite(value) else text


def moved(archived: Any, derived: Any, where: str = "") -> Iterator[Move]:
    """Where two verdicts differ: by name, down to the first thing that is no object."""
    if isinstance(archived, dict) and isinstance(derived, dict):
        for name in sorted({*archived, *derived}):
            inner = f"{where}.{name}" if where else name
            yield from moved(archived.get(name), derived.get(name), inner)
    # As text: in Python 1 == 1.0 == True, and a verdict that says 1 for true has moved.
    elif _text(archived) != _text(derived):
        yield Move(where, archived, derived)


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _short(value: Any) -> str:
    text = _text(value)
    return text if len(text) <= _LONG else f"{text[: _LONG - 3]}..."


def folders(root: Path) -> list[Path]:
    """The archives under a folder, and what is numbered like one or has files of one. Raises UsageError without any."""
    found = set(archives(root))
    if root not in found:
        for path in root.iterdir():
            if path.is_dir() and (_NUMBERED.match(path.name) or any((path / name).exists() for name in _FILES)):
                found.add(path)
    return sorted(found)


def folders_and_zips(root: Path) -> list[Path]:
    """The archives under a folder, packed ones too, or the one zip. Raises UsageError without any."""
    if root.is_file():
        if not zipfile.is_zipfile(root):
            raise UsageError(f"no archive in {root}: it is neither a folder nor a zip")
        return [root]
    alone = not root.is_dir() or (root / LEDGER).is_file()
    packed = [] if alone else [path for path in root.glob("*.zip") if _NUMBERED.match(path.name)]
    try:
        return sorted([*folders(root), *packed])
    except UsageError:
        if not packed:
            raise
        return sorted(packed)


def rederive_all(root: Path) -> list[Rederived]:
    """All archives under a folder, in order, with a progress bar. Raises UsageError without any."""
    found = folders(root)
    results = []
    with progress("archives", len(found)) as done:
        for folder in found:
            results.append(rederive(folder))
            done(len(results))
    return results


def verify_folder(root: Path, as_json: bool) -> int:
    """Verify every archive under a folder and print what was found; 1 when something does not hold."""
    done = rederive_all(root)
    if as_json:
        document({"folder": str(root), **summary(done), "results": [item.to_json() for item in done]})
    else:
        shown = console()
        shown.print(summary_table(root, done))
        for line in failures(done):
            shown.print(line, soft_wrap=True)
    return 0 if all(item.holds for item in done) else 1


def audit_folder(root: Path, as_json: bool) -> int:
    """Turn both keys on every archive under a folder, and print on which terms they agree; 1 where they differ."""
    from envos.certify.twokey import Keys, compare

    found = folders_and_zips(root)
    audited: list[tuple[str, Keys]] = []
    with progress("archives", len(found)) as done:
        for folder in found:
            audited.append((folder.name, compare(folder)))
            done(len(audited))
    agree = sum(keys.agree for _, keys in audited)
    if as_json:
        results = [
            {
                "archive": name,
                "agree": keys.agree,
                "scorable": keys.scorable,
                "validity": keys.verdict["validity"],
                "endpoint": keys.verdict["endpoint"],
                "terms": keys.terms(),
                "differences": [difference._asdict() for difference in keys.differences],
            }
            for name, keys in audited
        ]
        scorable = sum(keys.scorable for _, keys in audited)
        counts = {"archives": len(audited), "agree": agree, "scorable": scorable}
        document({"folder": str(root), **counts, "results": results})
        return 0 if agree == len(audited) else 1
    shown = table(f"Two keys on {root}", ("", ">archives", ">agree", ">differ"))
    terms = Counter[str]()
    for _, keys in audited:
        terms.update(keys.terms().keys())
    broken = Counter(name for _, keys in audited for name, held in keys.terms().items() if not held)
    for name in sorted(terms, key=_term):
        style = "bold red" if broken[name] else ""
        shown.add_row(
            *(Text(str(cell), style) for cell in (name, terms[name], terms[name] - broken[name], broken[name]))
        )
    shown.add_section()
    row = ("all terms", len(audited), agree, len(audited) - agree)
    shown.add_row(*map(str, row))
    printed = console()
    printed.print(shown)
    differ = [(name, keys) for name, keys in audited if not keys.agree]
    for name, keys in differ[:SHOWN]:
        printed.print(plain(name), soft_wrap=True)
        for line in _told("differ", list(map(str, keys.differences))):
            printed.print(line, soft_wrap=True)
    if len(differ) > SHOWN:
        printed.print(f"... and {len(differ) - SHOWN} more archives (--json has them all)")
    return 0 if agree == len(audited) else 1


_TERMS = ("archive", "verdict", "validity", "I1", "I2", "I3", "I4", "I5", "endpoint")


def _term(name: str) -> int:
    return _TERMS.index(name) if name in _TERMS else len(_TERMS)


def summary(done: Sequence[Rederived]) -> dict[str, Any]:
    """The counts of a verification, as JSON data."""
    code = code_identity()["code"]
    return {
        "archives": len(done),
        "hold": sum(item.holds for item in done),
        "moved": sum(bool(item.moves) for item in done),
        "with_problems": sum(bool(item.problems) for item in done),
        "validity": dict(sorted(Counter(item.verdict["validity"] for item in done).items())),
        "successes": sum(item.verdict["endpoint"] is True for item in done),
        "of_other_code": sum(item.identity.get("code", code) != code for item in done),
    }


def summary_table(root: Path, done: Sequence[Rederived]) -> Table:
    """The counts of a verification as a table."""
    counts = summary(done)
    shown = table(f"Verdicts derived again from {root}", ("", ">archives", ">share"))
    whole = len(done)

    def row(name: str, count: int, style: str = "") -> None:
        shown.add_row(Text(name, style), Text(str(count), style), share(count / whole))

    row("archives", whole)
    row("the archived verdict holds", counts["hold"], "green" if counts["hold"] == whole else "")
    row("the verdict moved", counts["moved"], "bold red" if counts["moved"] else "")
    row("something is wrong with the files", counts["with_problems"], "bold red" if counts["with_problems"] else "")
    shown.add_section()
    for name, count in counts["validity"].items():
        row(f"derived: {name}", count)
    row("derived: full endpoint", counts["successes"])
    if counts["of_other_code"]:
        shown.add_section()
        row("recorded by other code than this", counts["of_other_code"])
    return shown


def failures(done: Sequence[Rederived]) -> Iterator[str]:
    """What does not hold, archive by archive: what is wrong with the files, and what moved."""
    failed = [item for item in done if not item.holds]
    for item in failed[:SHOWN]:
        yield plain(item.archive)
        yield from _told("wrong", item.problems)
        yield from _told("moved", [str(move) for move in sorted(item.moves, key=_rank)])
    if len(failed) > SHOWN:
        yield f"... and {len(failed) - SHOWN} more archives (--json has them all)"


def _told(word: str, lines: Sequence[str]) -> Iterator[str]:
    yield from (f"  {word}: {plain(line)}" for line in lines[:_LINES])
    if len(lines) > _LINES:
        yield f"  {word}: ... and {len(lines) - _LINES} more"


def _rank(move: Move) -> int:
    name = move.where.partition(".")[0]
    return _FIRST.index(name) if name in _FIRST else len(_FIRST)
