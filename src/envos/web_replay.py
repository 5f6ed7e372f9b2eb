"""An archived episode as the replay viewer shows it: JSON data, worked out from the files and from nothing else.

An archive may come from anybody, damaged or made up: whatever can be told of it is told, and what cannot be told is
said to be so.
"""

import base64
import hashlib
import json
import math
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from envos.cli_verify import Rederived, rederive
from envos.envs.evidence import Action, Evidence, Frame, Record, Request, Write, frame_sha256
from envos.envs.perturbation import Plan
from envos.envs.roles import World
from envos.envs.scenario import load_phenomenon, load_world
from envos.errors import EnvOSError, EvidenceError
from envos.rewards.invariants import NAMES
from envos.rewards.journal import shown
from envos.rewards.signatures import SIGNATURES
from envos.rewards.statediff import Replay, RowChange, differences
from envos.rewards.trace import Trace, follow, read
from envos.web_grounds import Mark, grounds, marks, step_of
from envos.web_pages import played_again
from envos.wrappers.archive import LEDGER, MANIFEST, PICTURE, SIZE_LIMIT, read_archive, sha256_file

_PICTURE = re.compile(r"[0-9a-f]{64}\.png")
_MAGIC = b"\x89PNG\r\n\x1a\n"
_PICTURE_LIMIT = 8 * 2**20
_DEPTH = 12

Pictures = Callable[[str], bytes]
"""The bytes of a screenshot by its name; none where there is no such file."""


def replay_folder(folder: Path) -> dict[str, Any]:
    """The replay of an archive."""
    evidence = Evidence((), {}, {})
    if (folder / LEDGER).is_file():
        evidence = read_archive(folder)
    return replay(evidence, rederive(folder), files(folder), lambda name: _picture(folder, name))


def replay(evidence: Evidence, derived: Rederived, held: Mapping[str, Any], pictures: Pictures) -> dict[str, Any]:
    """The replay of an episode; `held` tells of its files."""
    found: dict[str, Any] = {
        "archive": derived.archive,
        "identity": dict(derived.identity),
        "verdict": _verdict(derived.verdict),
        "archived": derived.archived is not None,
        "moved": [str(move) for move in derived.moves],
        "problems": list(derived.problems),
        "files": dict(held),
        "digest": "",
        "steps": [],
        "unread": "",
    }
    try:
        found["digest"] = evidence.digest
        found |= _episode(evidence, pictures)
        found["verdict"]["grounds"] = grounds(evidence, derived.verdict)
    except Exception as error:  # noqa: BLE001 - records that fit no episode must not keep the rest from being shown
        found["unread"] = f"The records do not make an episode: {type(error).__name__}: {error}"
    plain: dict[str, Any] = _plain(found)
    return plain


def _verdict(verdict: Mapping[str, Any]) -> dict[str, Any]:
    """The verdict, with what each name means."""
    told = {name: str(item.__doc__).strip() for name, item in SIGNATURES.items()}
    return {
        **verdict,
        "names": {name: NAMES.get(name, "") for name in verdict["invariants"]},
        "about": {name: told.get(name, "") for name in verdict["signatures"]},
        "grounds": [],
    }


def _episode(evidence: Evidence, pictures: Pictures) -> dict[str, Any]:
    trace = read(evidence.records)
    plan = Plan.from_json(evidence.start.plan)
    world = load_world(plan.world)
    follow(trace, plan, evidence.pre, world)
    brief, pages = played_again(evidence)
    marked = marks(trace, plan)
    told = load_phenomenon(plan.phenomenon).conditions.get(plan.condition)
    found: dict[str, Any] = {
        "brief": brief,
        "about": told.about if told else "",
        "fact": {
            "cell": list(plan.arm),
            "old": plan.arm_text,
            "new": plan.new_text,
            "before": shown(evidence.pre, world, plan.arm),
            "after": shown(evidence.post, world, plan.arm),
        },
        "steps": _Steps(trace, plan, world, evidence, marked).all(),
        "pages": [],
        "pictures": {},
    }
    # Pages repeat: each is held once.
    places: dict[str, int] = {}
    for step in found["steps"]:
        frame = step["frame"]
        if frame is None:
            continue
        page = pages.get(frame["number"])
        frame["html"] = -1 if page is None else places.setdefault(page, len(places))
        if frame["picture"]:
            data = pictures(frame["picture"])
            if data:
                found["pictures"][frame["picture"]] = base64.b64encode(data).decode()
    found["pages"] = list(places)
    return found


class _Steps:
    """The episode step by step: each with its action, requests, writes, marks, frame, and the state after it."""

    def __init__(self, trace: Trace, plan: Plan, world: World, evidence: Evidence, marked: list[Mark]) -> None:
        self.trace, self.plan, self.world, self.pre, self.post = trace, plan, world, evidence.pre, evidence.post
        self.marked = marked
        self.running = Replay(evidence.pre)
        self.last = ("", -1)
        self.elements = ""

    def all(self) -> list[dict[str, Any]]:
        """All steps, in order; step 0 is the first page."""
        by_step: dict[int, list[tuple[int, Record]]] = {0: []}
        for place, record in enumerate(self.trace.records):
            by_step.setdefault(step_of(self.trace, record), []).append((place, record))
        return [self._told(step, by_step[step]) for step in sorted(by_step)]

    def _told(self, step: int, records: list[tuple[int, Record]]) -> dict[str, Any]:
        found: dict[str, Any] = {"step": step, "action": None, "requests": [], "writes": [], "frame": None}
        found["target"] = ""
        for place, record in records:
            if isinstance(record, Action):
                found["action"] = {
                    "record": place,
                    **{name: getattr(record, name) for name in ("raw", "verb", "memo_cut", "error", "wall_ms")},
                }
                found["target"] = self._target(record)
            elif isinstance(record, Request):
                found["requests"].append({"record": place, **record._asdict()})
            elif isinstance(record, Write):
                found["writes"].append({"record": place, **record._asdict()})
                self.running.apply(record)
            elif isinstance(record, Frame):
                found["frame"] = self._frame(place, record)
        # The mark of what a step brought about stands with it, whether it is a record of its own or not.
        found["marks"] = [mark._asdict() for mark in self.marked if mark.step == step]
        state = self.running.state
        found["fact"] = {"now": shown(state, self.world, self.plan.arm), "seen": self.last[0], "seen_at": self.last[1]}
        found["diff"] = [self._row(change) for change in differences(self.pre, state)]
        return found

    def _target(self, action: Action) -> str:
        """The element that an action names, as the frame before it listed it."""
        if not action.args or action.verb not in ("click", "fill", "select_option"):
            return ""
        before = f"[{action.args[0]}] "
        line = next((line for line in self.elements.split("\n") if line.startswith(before)), "")
        return line.removeprefix(before).partition(" options=")[0]

    def _frame(self, place: int, frame: Frame) -> dict[str, Any]:
        texts = [item.text for item in frame.delivered if item[:3] == self.plan.arm]
        if texts:
            self.last = (texts[-1], frame.step)
        self.elements = frame.elements
        digest = frame_sha256(
            frame.url, frame.page, frame.elements, frame.notice, frame.error, frame.memo, frame.budget_left
        )
        data = {name: value for name, value in frame._asdict().items() if name != "screenshot"}
        return {**data, "record": place, "holds": digest == frame.sha256, "picture": frame.screenshot}

    def _row(self, change: RowChange) -> dict[str, Any]:
        cells = []
        for column, (old, new) in change.columns.items():
            cells.append([column, self._value(change, column, old), self._value(change, column, new)])
        return {"table": change.table, "key": change.key, "op": change.op, "cells": cells}

    def _value(self, change: RowChange, column: str, value: Any) -> str | None:
        """A stored value as pages show it, with the stored one beside it where they differ."""
        if value is None:
            return None
        said = self.world.display(self.running.state, change.table, column, value)
        return said if said in ("", str(value)) else f"{said} ({value})"


def files(folder: Path) -> dict[str, Any]:
    """Every file of an archive with its digest, as the manifest has it and as it is."""
    promised: Mapping[str, Any] = {}
    said = ""
    try:
        path = folder / MANIFEST
        if path.is_symlink() or not path.is_file() or path.stat().st_size > SIZE_LIMIT:
            raise EvidenceError("missing")
        read_ = json.loads(path.read_bytes())
        promised = read_["files"] if isinstance(read_["files"], dict) else {}
        said = sha256_file(path)
    except (EnvOSError, OSError, ValueError, KeyError, TypeError, RecursionError):
        said = ""
    names = {path.name for path in folder.iterdir()} - {MANIFEST} if folder.is_dir() else set()
    rows = []
    for name in sorted({*names, *map(str, promised)}):
        try:
            actual = sha256_file(folder / name) if name in names else ""
        except (EnvOSError, OSError):
            actual = ""
        wanted = str(promised.get(name, ""))
        holds = "missing" if name not in names else "added" if not wanted else "same" if wanted == actual else "changed"
        rows.append({"name": name, "promised": wanted, "actual": actual, "state": holds})
    return {"manifest": said, "rows": rows}


def _picture(folder: Path, name: str) -> bytes:
    """A screenshot, if the file is what its name says."""
    path = folder / name
    if not _PICTURE.fullmatch(name) or path.is_symlink() or not path.is_file():
        return b""
    if path.stat().st_size > _PICTURE_LIMIT:
        return b""
    data = path.read_bytes()
    return data if data.startswith(_MAGIC) and hashlib.sha256(data).hexdigest() + PICTURE == name else b""


def _plain(value: Any, depth: int = _DEPTH) -> Any:
    """The value as JSON data of some depth; a number that JSON does not have, and anything else, as text."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, str):
        return value
    if depth == 0:
        return "..."
    if isinstance(value, Mapping):
        return {str(name): _plain(item, depth - 1) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, depth - 1) for item in value]
    return str(value)
