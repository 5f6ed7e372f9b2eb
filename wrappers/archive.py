"""Archives: an episode's evidence on disk, written as it happens, and read back for `rewards.verify`.

One folder per episode: `pre.json` (state before), `ledger.jsonl` (one chained line per record, in order), the
screenshots that frames name, `post.json` (state after), `verdict.json`, and last `manifest.json` with the SHA-256 of
every other file. A folder without its manifest is an episode that was cut off: it is readable, and a `harness_error`.
"""

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TextIO

import gymnasium

from envos.envs.env import EnvOS
from envos.envs.evidence import (
    FORMAT,
    Evidence,
    Frame,
    Record,
    Start,
    State,
    canonical,
    from_line,
    sha256,
    state_from_json,
    state_json,
    to_line,
)
from envos.envs.instance import generate, plan
from envos.envs.scenario import check_anchor, load_phenomenon, load_world, scenario
from envos.envs.streams import check_split
from envos.errors import EnvOSError, EvidenceError, UsageError

LEDGER, PRE, POST, VERDICT, MANIFEST = "ledger.jsonl", "pre.json", "post.json", "verdict.json", "manifest.json"
PICTURE = ".png"
"""What the names of screenshots end with; before it stands the SHA-256 of the file."""
SIZE_LIMIT = 64 * 2**20
"""Bytes of one archived file that a reader takes."""


class LedgerFile:
    """Writes each record as a chained line and hands it to the operating system at once.

    What `picture` gives for a frame's screenshot is written beside it, before the line that names it.
    """

    def __init__(self, folder: Path, picture: Callable[[str], bytes] | None = None) -> None:
        self._path = folder / LEDGER
        self._picture = picture
        self._file: TextIO = self._path.open("w", encoding="ascii", newline="\n")
        self._seq = 0
        self.head = ""

    def append(self, record: Record) -> None:
        """Write one more line."""
        if isinstance(record, Frame) and record.screenshot and self._picture is not None:
            path = self._path.with_name(record.screenshot)
            if not path.exists():
                path.write_bytes(self._picture(record.screenshot))
        line = to_line(self._seq, self.head, record)
        self._file.write(line + "\n")
        self._file.flush()
        self._seq += 1
        self.head = sha256(line)

    def rewrite(self, records: tuple[Record, ...]) -> None:
        """Start over with these records; pictures that none of them names are removed."""
        for name in _pictures(self._path.parent) - _delivered(records):
            self._path.with_name(name).unlink()
        self._file.seek(0)
        self._file.truncate()
        self._seq, self.head = 0, ""
        for record in records:
            self.append(record)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class Archive(gymnasium.Wrapper[Any, str, Any, str]):
    """Writes every episode of an environment into its own folder under `root`.

    Folders are numbered in order (`0000-ClinicStale-OFF-A-train-17`), so nothing is overwritten; a root that holds
    archives already is continued. Each reset closes the episode before it: what did not end stays without a manifest.
    """

    def __init__(self, env: gymnasium.Env[Any, str], root: str | Path) -> None:
        super().__init__(env)
        inner = env.unwrapped
        if not isinstance(inner, EnvOS):
            raise UsageError(f"Archive wraps an EnvOS environment; got {type(inner).__name__}")
        self._inner = inner
        self._root = Path(root)
        if self._root.exists() and not self._root.is_dir():
            raise UsageError(f"the archive root is a folder; {root} is a file")
        self._root.mkdir(parents=True, exist_ok=True)
        numbers = [name.partition("-")[0] for name in os.listdir(self._root)]
        taken = [int(number) for number in numbers if number.isascii() and number.isdecimal()]
        self._count = max(taken, default=-1) + 1
        self._ledger: LedgerFile | None = None
        self.folder: Path | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode and its archive."""
        self._stop()
        observation, info = self.env.reset(seed=seed, options=options)
        inner = self._inner
        short = inner.scenario.id.split("/")[-1].rsplit("-", 1)[0]
        name = f"{short}-{inner.plan.condition}-{inner.split}-{inner.instance.seed}"
        self.folder = self._make_folder(name)
        write_json(self.folder / PRE, state_json(inner.state_before()))
        self._ledger = LedgerFile(self.folder, inner.screenshot)
        self._ledger.rewrite(inner.ledger.records())
        inner.ledger.sink = self._ledger
        return observation, info

    def _make_folder(self, name: str) -> Path:
        """The next free number's folder; another process may write into the same root."""
        while True:
            folder = self._root / f"{self._count:04d}-{name}"
            self._count += 1
            try:
                folder.mkdir()
            except FileExistsError:
                continue
            return folder

    def step(self, action: str) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Carry out one action; the last one completes the archive."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        if "verdict" in info and self.folder is not None and self._ledger is not None:
            write_json(self.folder / POST, state_json(self._inner.state_now()))
            write_json(self.folder / VERDICT, dict(info["verdict"]))
            head, folder = self._ledger.head, self.folder
            self._stop()
            write_json(folder / MANIFEST, manifest(folder, head))
        return observation, reward, terminated, truncated, info

    def close(self) -> None:
        """Close the running archive and the environment."""
        self._stop()
        self.env.close()  # type: ignore[no-untyped-call]

    def _stop(self) -> None:
        self._inner.ledger.sink = None
        if self._ledger is not None:
            self._ledger.close()
            self._ledger = None


def manifest(folder: Path, head: str) -> dict[str, Any]:
    """The format, the digest of the ledger's last line, and the SHA-256 of every other file."""
    files = {
        path.name: sha256_file(path)
        for path in sorted(folder.iterdir())
        if path.name != MANIFEST and not path.name.endswith(".tmp")
    }
    return {"format": FORMAT, "head": head, "files": files}


def sha256_file(path: Path) -> str:
    """The SHA-256 of a file's bytes. Raises EvidenceError for a file over the size limit."""
    return hashlib.sha256(read_bytes(path)).hexdigest()


def write_json(path: Path, data: Mapping[str, Any]) -> None:
    """Write JSON under a temporary name and rename it, so that no half-written file has the final name."""
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_text(canonical(data) + "\n", encoding="ascii")
    os.replace(temporary, path)


def read_bytes(path: Path) -> bytes:
    """The bytes of a regular file, no link. Raises EvidenceError for anything else, and over the size limit."""
    try:
        if path.is_symlink() or not path.is_file():
            raise EvidenceError(f"{path.name} is not a regular file")
        size = path.stat().st_size
        if size > SIZE_LIMIT:
            raise EvidenceError(f"{path.name} has {size} bytes; at most {SIZE_LIMIT} are read")
        return path.read_bytes()
    except OSError as error:
        raise EvidenceError(f"{path.name} cannot be read: {type(error).__name__}") from error


def _text(path: Path) -> str:
    # A byte that is not ASCII cannot be ours; it stays visible as a surrogate and fails the checks.
    return read_bytes(path).decode("ascii", "surrogateescape")


def read_json(path: Path) -> Any:
    """The data of a JSON file. Raises EvidenceError for what other readers may read otherwise: a name twice, NaN."""
    try:
        return json.loads(_text(path), object_pairs_hook=_object, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise EvidenceError(f"{path.name} is not JSON as archives have it ({type(error).__name__})") from error


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name is given twice")
    return found


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON")


def read_archive(folder: str | Path) -> Evidence:
    """The evidence in a folder; whatever is wrong with the files is listed in its `problems`, never raised.

    Raises EvidenceError only when the folder is no archive at all (no ledger in it).
    """
    folder = Path(folder)
    if not (folder / LEDGER).is_file():
        raise EvidenceError(f"{folder} is no archive: it has no {LEDGER}")
    problems: list[str] = []
    records, head = _read_ledger(folder, problems)
    _check_manifest(folder, head, problems)
    for name in sorted(_pictures(folder) ^ _delivered(records)):
        problems.append(f"screenshot: {_named(name)} is named by a frame, or is there, and not both"[:300])
    pre = _read_state(folder / PRE, problems)
    post = _read_state(folder / POST, problems)
    _check_instance(records, pre, problems)
    return Evidence(records, pre, post, tuple(problems))


def _pictures(folder: Path) -> set[str]:
    return {path.name for path in folder.glob(f"*{PICTURE}")}


def _delivered(records: tuple[Record, ...]) -> set[str]:
    """The pictures that frames name."""
    return {record.screenshot for record in records if isinstance(record, Frame) and record.screenshot}


def _read_ledger(folder: Path, problems: list[str]) -> tuple[tuple[Record, ...], str]:
    records: list[Record] = []
    previous = ""
    try:
        lines = _text(folder / LEDGER).split("\n")
    except EvidenceError as error:
        problems.append(f"ledger_unreadable: {error}")
        return (), ""
    if lines.pop() != "":
        problems.append("ledger_truncated: the last line is not complete")
    for number, line in enumerate(lines):
        try:
            seq, before, record = from_line(line)
            same = line == to_line(seq, before, record)
        except (EvidenceError, RecursionError) as error:
            problems.append(f"ledger_line: line {number + 1}: {error}")
            break
        if seq != number or before != previous or not same:
            problems.append(f"ledger_chain: line {number + 1} does not follow the line before it")
        previous = sha256(line)
        records.append(record)
    return tuple(records), previous


def _check_manifest(folder: Path, head: str, problems: list[str]) -> None:
    try:
        data = read_json(folder / MANIFEST)
        files = data["files"]
        if not isinstance(files, dict):
            raise EvidenceError(f"{MANIFEST} has no list of files")
        if data["format"] != FORMAT:
            problems.append(f"format: this reader knows format {FORMAT}; the archive has {data['format']!r}")
        if data["head"] != head:
            problems.append("ledger_head: the ledger does not end where the manifest says")
    except (EvidenceError, KeyError, TypeError) as error:
        problems.append(f"manifest: missing or unreadable ({type(error).__name__}): the episode was cut off")
        return
    try:
        present = {path.name for path in folder.iterdir()} - {MANIFEST}
    except OSError as error:
        problems.append(f"folder_unreadable: {type(error).__name__}")
        return
    for name in sorted(present - set(files)):
        problems.append(f"file_added: {_named(name)} is not in the manifest")
    for name in sorted({LEDGER, PRE, POST, VERDICT} - set(files)):
        problems.append(f"file_missing: {name} is not in the manifest")
    for name in sorted(files):
        if name not in (LEDGER, PRE, POST, VERDICT) and not name.endswith(PICTURE):
            problems.append(f"file_unknown: {_named(name)} is no part of an archive")
        if name not in present:
            problems.append(f"file_missing: {_named(name)}")
            continue
        try:
            if name.endswith(PICTURE) and name != files[name] + PICTURE:
                problems.append(f"screenshot: {_named(name)} is not named by its digest")
            if sha256_file(folder / name) != files[name]:
                problems.append(f"file_hash: {name} was changed after the episode")
        except EvidenceError as error:
            problems.append(f"file_unreadable: {error}")


def _check_instance(records: tuple[Record, ...], pre: State, problems: list[str]) -> None:
    """Instance and plan are worked out again from the seed: an archive is believed neither its task nor its change."""
    start = records[0] if records else None
    if not isinstance(start, Start) or not pre:
        return
    identity = start.identity
    try:
        line = scenario(identity["environment"])
        world, phenomenon = load_world(line.world), load_phenomenon(line.phenomenon)
        condition, anchor = identity["condition"], check_anchor(identity["anchor"])
        if condition not in line.conditions:
            raise EvidenceError(f"{line.id} has no condition {condition!r}")
        instance = generate(line, world, phenomenon, check_split(identity["split"]), identity["seed"])
        planned = canonical(plan(instance, phenomenon, condition, anchor).to_json()) == canonical(start.plan)
    except (EnvOSError, KeyError, TypeError, AttributeError, RecursionError) as error:
        problems.append(f"identity: it names no episode of this code ({type(error).__name__}: {error})"[:300])
        return
    if identity.get("instance") != instance.digest:
        problems.append("instance: the seed gives another one than the archive was made of")
    if identity.get("brief") != instance.brief:
        problems.append("brief: it is not the instance's")
    if not planned:
        problems.append("plan: the seed and the condition give another one")
    for name, rows in instance.rows.items():
        table = pre.get(name)
        if table is None or canonical([list(table.rows[key]) for key in sorted(table.rows)]) != canonical(sorted(rows)):
            problems.append(f"state_before: table {name} is not as the instance has it")


def _named(name: str) -> str:
    """A file's name, also one that is no UTF-8, as text that can be written anywhere."""
    return name.encode("utf-8", "backslashreplace").decode("utf-8")


def _read_state(path: Path, problems: list[str]) -> State:
    try:
        return state_from_json(read_json(path))
    except EvidenceError as error:
        problems.append(f"state_unreadable: {path.name}: {error}"[:300])
        return {}


def archives(root: str | Path) -> list[Path]:
    """The archives under a folder (or the folder itself), in order. Raises UsageError when there is none."""
    root = Path(root)
    if (root / LEDGER).is_file():
        return [root]
    found = sorted(path.parent for path in root.glob(f"*/{LEDGER}")) if root.is_dir() else []
    if not found:
        raise UsageError(f"no archive in {root}: expected folders that hold {LEDGER}")
    return found
