"""The files of an archive in memory: made from evidence, with digests left as they were, or all made anew."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envos.envs.evidence import (
    FORMAT,
    KINDS,
    Action,
    Evidence,
    Frame,
    Record,
    canonical,
    sha256,
    state_json,
)
from envos.wrappers.archive import LEDGER, MANIFEST, POST, PRE, VERDICT

NAMES = {kind: name for name, kind in KINDS.items()}
Files = dict[str, bytes]
Entry = tuple[str, str]
"""A record as text: its kind, and its data as canonical JSON."""


@dataclass(frozen=True)
class Sheet:
    """An episode as text, ready to be chained: the records, and what the three JSON files hold."""

    entries: tuple[Entry, ...]
    pre: str
    post: str
    verdict: str


def entry(record: Record) -> Entry:
    """A record as text."""
    return NAMES[type(record)], canonical(record._asdict())


def sheet(evidence: Evidence, verdict: Mapping[str, Any]) -> Sheet:
    """The text of an episode with a verdict."""
    pre, post = (canonical(state_json(state)) for state in (evidence.pre, evidence.post))
    return Sheet(tuple(map(entry, evidence.records)), pre, post, canonical(verdict))


def line(seq: int, previous: str, item: Entry) -> str:
    """One line of the ledger; equal to `evidence.to_line` of the record."""
    kind, data = item
    return f'{{"data":{data},"kind":"{kind}","prev":"{previous}","seq":{seq}}}'


def chained(entries: Sequence[Entry]) -> list[str]:
    """The lines of a ledger, every one of which holds the digest of the one before."""
    lines: list[str] = []
    previous = ""
    for seq, item in enumerate(entries):
        lines.append(line(seq, previous, item))
        previous = sha256(lines[-1])
    return lines


def sealed(made: Sheet) -> Files:
    """The archive of an episode, with every digest as it should be."""
    return manifested(written(made, chained(made.entries)))


def written(made: Sheet, lines: Sequence[str]) -> Files:
    """The files without a manifest."""
    texts = {
        LEDGER: "".join(f"{text}\n" for text in lines),
        PRE: f"{made.pre}\n",
        POST: f"{made.post}\n",
        VERDICT: f"{made.verdict}\n",
    }
    return {name: text.encode("ascii") for name, text in texts.items()}


def manifested(files: Mapping[str, bytes]) -> Files:
    """The files with a manifest that fits them, whatever they hold."""
    others = {name: data for name, data in files.items() if name != MANIFEST}
    lines = others.get(LEDGER, b"").split(b"\n")
    last = next((text for text in reversed(lines) if text), b"")
    listed = {name: _digest(data) for name, data in others.items()}
    text = canonical({"format": FORMAT, "head": _digest(last) if last else "", "files": listed})
    return {**others, MANIFEST: f"{text}\n".encode("ascii")}


def raw(original: Sheet, made: Sheet, files: Files) -> Files:
    """The archive with the same edits, made by somebody who leaves every digest of the original as it was.

    A line that was edited keeps its place and the digest that it names; a line put in has those of the line that stood
    there. `files` are the original's.
    """
    old = chained(original.entries)
    places: dict[Entry, list[int]] = {}
    for place, item in reversed(list(enumerate(original.entries))):
        places.setdefault(item, []).append(place)
    lines = []
    for seq, item in enumerate(made.entries):
        known = places.get(item)
        if known:
            lines.append(old[known.pop() if len(known) > 1 else known[0]])
        else:
            at = min(seq, len(old) - 1)
            lines.append(line(at, sha256(old[at - 1]) if at else "", item))
    return {**written(made, lines), MANIFEST: files[MANIFEST]}


def undigested(made: Evidence, original: Evidence) -> Evidence:
    """The same edits with the digests of observations left as they were."""
    known = {item.number: item.sha256 for item in original.records if type(item) is Frame}

    def old(record: Record) -> Record:
        if type(record) is Frame:
            return record._replace(sha256=known.get(record.number, record.sha256))
        if type(record) is Action:
            return record._replace(frame_sha256=known.get(record.frame, record.frame_sha256))
        return record

    return Evidence(tuple(map(old, made.records)), made.pre, made.post)


def digest(files: Mapping[str, bytes]) -> str:
    """One digest of all files, names included."""
    return sha256(canonical({name: _digest(data) for name, data in files.items()}))


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def put(folder: Path, files: Mapping[str, bytes]) -> None:
    """Let a folder hold these files and nothing else."""
    for path in folder.iterdir():
        if path.name not in files:
            path.unlink()
    for name, data in files.items():
        (folder / name).write_bytes(data)


def quiet(evidence: Evidence) -> Evidence:
    """The evidence without wall times, so that an episode's archive is a function of what was done."""
    return Evidence(
        tuple(item._replace(wall_ms=0.0) if type(item) is Action else item for item in evidence.records),
        evidence.pre,
        evidence.post,
    )
