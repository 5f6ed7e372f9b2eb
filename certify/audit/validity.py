"""Decides from an archive alone whether its episode counts: `python -I -S validity.py ARCHIVE [--json]`.

A second implementation of the rules in FORMAT.md beside this file. It imports nothing but the standard library and takes
nothing on trust: every hash, every value and the whole course of the change are worked out again. Exit codes: 0 counted,
1 not counted, 2 no archive that could be read, 3 an error of this program.
"""

import hashlib
import json
import os
import re
import stat
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import parse_qsl

FORMAT = "1"
VERSION = "1"
CLASSES = ("infra_failure", "infra_rejected", "harness_error", "not_triggered", "delivery_ambiguous", "trigger_invalid")
"""Classes of an episode that does not count; the first that holds wins."""
TERMS = {
    "infrastructure": "infra_failure",
    "provider": "infra_rejected",
    **dict.fromkeys(
        ("files", "ledger", "schema", "states", "harness", "identity", "model", "plan", "sequence", "budget"),
        "harness_error",
    ),
    **dict.fromkeys(
        ("actions", "requests", "frames", "exposure_log", "journal", "commit_log", "isolation", "unannounced"),
        "harness_error",
    ),
    "triggered": "not_triggered",
    "notice": "delivery_ambiguous",
    "review": "delivery_ambiguous",
    **dict.fromkeys(
        ("single_firing", "exposure", "anchor", "own_request", "scope", "agreement", "freshness", "commit_order"),
        "trigger_invalid",
    ),
}
"""Every rule, and the class of an episode that breaks it (FORMAT.md section 8)."""

LEDGER, PRE, POST, VERDICT, MANIFEST = "ledger.jsonl", "pre.json", "post.json", "verdict.json", "manifest.json"
NAMES = (LEDGER, MANIFEST, POST, PRE, VERDICT)
FILE_LIMIT, TOTAL_LIMIT, COUNT_LIMIT, LINE_LIMIT = 64 * 2**20, 256 * 2**20, 1000, 100_000
PAGE_LIMIT, ELEMENTS_LIMIT, MEMO_LIMIT, RAW_LIMIT, ACTION_LIMIT = 4000, 6000, 300, 20_000, 10_000
REASONS_KEPT = 50

Row = dict[str, Any]
Tables = dict[str, dict[int, Row]]
Triple = tuple[str, int, str]


class Unusable(Exception):
    """What was given is no archive that can be read; `code` says in which way."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(f"{code}: {detail}")
        self.code, self.detail = code, detail


class Malformed(Exception):
    """A text that is not in the form that the format prescribes."""


class Findings:
    """What has been found: broken rules as reasons, measured values by rule."""

    def __init__(self) -> None:
        self.reasons: list[dict[str, Any]] = []
        self.broken: dict[str, str] = {}
        self.measured: dict[str, dict[str, Any]] = {}

    def fail(self, term: str, code: str, detail: str, record: int = -1) -> None:
        """Note that a rule is broken, at a ledger line if `record` is not -1."""
        self.broken.setdefault(term, f"{code}: {shown(detail)}")
        if len(self.reasons) < REASONS_KEPT:
            line = {"class": TERMS[term], "term": term, "code": code, "record": record, "detail": shown(detail)}
            self.reasons.append(line)

    def check(self, holds: bool, term: str, code: str, detail: str, record: int = -1) -> bool:
        """Note a broken rule unless it holds; says whether it does."""
        if not holds:
            self.fail(term, code, detail, record)
        return holds

    def measure(self, term: str, **values: Any) -> None:
        """Keep what was measured for a rule; a rule without a measure was not evaluated."""
        self.measured.setdefault(term, {}).update(values)


def shown(text: object, limit: int = 300) -> str:
    """A text from an archive as a reason repeats it: printable ASCII, clipped."""
    return str(text)[: 4 * limit].encode("ascii", "backslashreplace").decode("ascii").replace("\n", "\\n")[:limit]


def digest(data: bytes | str) -> str:
    """The SHA-256 of bytes, or of a text in UTF-8 with surrogates as they stand."""
    return hashlib.sha256(data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data).hexdigest()


# --- Files -----------------------------------------------------------------------------------------------------------


def read_files(path: str | os.PathLike[str], found: Findings) -> dict[str, bytes]:
    """The files of a folder or zip by name; raises Unusable for anything that is no archive."""
    try:
        mode = os.lstat(path).st_mode
    except (OSError, ValueError) as error:
        raise Unusable("not_found", f"{path}: {error}") from None
    if stat.S_ISDIR(mode):
        files = _read_folder(path, found)
    elif stat.S_ISREG(mode):
        files = _read_zip(path)
    else:
        raise Unusable("not_regular", f"{path} is neither a folder nor a file")
    if not set(files) & set(NAMES):
        raise Unusable("no_archive", f"{path} holds none of {', '.join(NAMES)}")
    return files


def _read_folder(path: str | os.PathLike[str], found: Findings) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    total = 0
    with os.scandir(path) as entries:
        for number, entry in enumerate(entries):
            if number >= COUNT_LIMIT:
                raise Unusable("too_many_files", f"more than {COUNT_LIMIT} entries")
            if not entry.is_file(follow_symlinks=False):
                found.fail("files", "file_unsafe", f"{entry.name} is not a regular file")
                continue
            data = _read_file(entry.path)
            if data is None:
                found.fail("files", "file_unreadable", f"{entry.name} cannot be read or has over {FILE_LIMIT} bytes")
                continue
            files[entry.name] = data
            total += len(data)
            if total > TOTAL_LIMIT:
                raise Unusable("too_large", f"more than {TOTAL_LIMIT} bytes")
    return files


def _read_file(path: str) -> bytes | None:
    # The file is opened before it is looked at, and without following links, so that it cannot be exchanged in between.
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    try:
        with os.fdopen(os.open(path, flags), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode) or status.st_size > FILE_LIMIT:
                return None
            data = file.read(FILE_LIMIT + 1)
    except OSError:
        return None
    return data if len(data) <= FILE_LIMIT else None


_MEMBER = re.compile(r"(?:([A-Za-z0-9._-]{1,128})/)?([A-Za-z0-9._-]{1,128})?", re.ASCII)


def _read_zip(path: str | os.PathLike[str]) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            _check_members(members)
            for member in members:
                if member.filename.endswith("/"):
                    continue
                with archive.open(member) as file:
                    data = file.read(FILE_LIMIT + 1)
                if len(data) != member.file_size:
                    raise Unusable("zip_damaged", f"{member.filename} has another size than it says")
                files[member.filename.rpartition("/")[2]] = data
    except (OSError, ValueError, RuntimeError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise Unusable("zip_damaged", f"{path}: {type(error).__name__}: {error}") from None
    return files


def _check_members(members: list[zipfile.ZipInfo]) -> None:
    if len(members) > COUNT_LIMIT:
        raise Unusable("too_many_files", f"more than {COUNT_LIMIT} members")
    folders, names = set(), set()
    for member in members:
        match = _MEMBER.fullmatch(member.filename)
        parts = member.filename.rstrip("/").split("/")
        if match is None or not match[0] or {".", ".."} & set(parts) or stat.S_ISLNK(member.external_attr >> 16):
            raise Unusable("zip_name", f"member {member.filename!r}")
        folders.add(match[1] or "")
        if parts[-1].casefold() in names:
            raise Unusable("zip_duplicate", f"member {member.filename!r}")
        if match[2]:
            names.add(parts[-1].casefold())
        if member.flag_bits & 1 or member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise Unusable("zip_method", f"member {member.filename!r} is encrypted or packed in an unknown way")
    if len(folders) > 1:
        raise Unusable("zip_name", "members in more than one folder")
    if any(member.file_size > FILE_LIMIT for member in members) or sum(m.file_size for m in members) > TOTAL_LIMIT:
        raise Unusable("too_large", "the zip says that it holds more than the limits")


# --- JSON, types, lines ----------------------------------------------------------------------------------------------


def _constant(name: str) -> None:
    raise ValueError(f"{name} is no number")


_decode = json.JSONDecoder(parse_constant=_constant).decode
_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode


def parse(data: bytes) -> Any:
    """The value of a canonical JSON text; raises Malformed for any other text."""
    try:
        text = data.decode("ascii")
        value = _decode(text)
        if _encode(value) != text:
            raise Malformed("not the canonical text of its value")
    except (ValueError, RecursionError) as error:
        raise Malformed(f"{type(error).__name__}: {error}") from None
    return value


Check = Callable[[Any], bool]


def _int(value: Any) -> bool:
    return type(value) is int and -(2**63) <= value < 2**63


def _natural(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**31


def _text(value: Any) -> bool:
    return type(value) is str


def _scalar(value: Any) -> bool:
    return value is None or type(value) in (str, float) or _int(value)


def _wall(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value < 1e15


_HEX = re.compile(r"[0-9a-f]{64}")


def _digest(value: Any) -> bool:
    return type(value) is str and _HEX.fullmatch(value) is not None


def _one_of(*values: str) -> Check:
    return lambda value: type(value) is str and value in values


def _list(*items: Check) -> Check:
    """A list of exactly these items."""
    return lambda value: (
        type(value) is list and len(value) == len(items) and all(c(v) for c, v in zip(items, value, strict=True))
    )


def _many(item: Check) -> Check:
    return lambda value: type(value) is list and all(map(item, value))


def _map(item: Check) -> Check:
    return lambda value: type(value) is dict and all(map(item, value.values()))


def _object(fields: Mapping[str, Check]) -> Check:
    return lambda value: (
        type(value) is dict and value.keys() == fields.keys() and all(c(value[n]) for n, c in fields.items())
    )


_OPS = _one_of("insert", "update", "delete")
_PAIR = _list(_scalar, _scalar)
_VALUE = _list(_text, _int, _text)
IDENTITY: dict[str, Check] = {
    **dict.fromkeys(("environment", "condition", "anchor", "policy", "model", "model_resolved", "version"), _text),
    **dict.fromkeys(("split", "instance", "certificate", "code", "grader", "format"), _text),
    "seed": _int,
}
PLAN: dict[str, Check] = {
    **dict.fromkeys(("world", "phenomenon", "condition", "anchor", "untriggered", "opened"), _text),
    **dict.fromkeys(("arm_text", "new_text", "review", "review_route", "commit_table"), _text),
    "budget": _natural,
    "task": _map(_scalar),
    "arm": _VALUE,
    "surfaces": _many(_text),
    "trigger": _many(_text),
    "operations": _many(_object({"op": _OPS, "table": _text, "key": _int, "columns": _map(_PAIR)})),
    "announced": lambda value: type(value) is bool,
    "watched": _many(_VALUE),
}
KINDS: dict[str, dict[str, Check]] = {
    "start": {"identity": _object(IDENTITY), "plan": _object(PLAN)},
    "request": {
        **dict.fromkeys(("number", "step", "status"), _natural),
        **dict.fromkeys(("session", "actor", "via", "method", "path", "route", "location"), _text),
        "params": _map(_text),
        "served": _many(_list(_text, _int, _text, _text)),
    },
    "write": {"request": _natural, "actor": _text, "op": _OPS, "table": _text, "key": _int, "columns": _map(_PAIR)},
    "fire": dict.fromkeys(("request", "armed_by", "operations", "neutral"), _natural),
    "frame": {
        **dict.fromkeys(("number", "step", "request", "budget_left"), _natural),
        **dict.fromkeys(("url", "page", "elements", "notice", "error", "memo", "screenshot"), _text),
        "delivered": _many(_list(_text, _int, _text, _text, _natural)),
        "sha256": _digest,
    },
    "action": {
        **dict.fromkeys(("step", "frame", "memo_cut"), _natural),
        **dict.fromkeys(("raw", "verb", "error"), _text),
        "frame_sha256": _digest,
        "args": _many(_text),
        "wall_ms": _wall,
    },
    "report": {"step": _natural, "fields": _map(_text)},
    "fault": {"step": _natural, "kind": _text, "detail": _text},
    "end": {"step": _natural, "reason": _text},
}
"""Every kind of record, its fields and their types (FORMAT.md section 4)."""


def check_manifest(files: Mapping[str, bytes], found: Findings) -> str:
    """Check the files against the manifest; returns the head that it names."""
    found.measure("files", files=len(files), bytes=sum(map(len, files.values())))
    for name in sorted(set(NAMES) - set(files)):
        found.fail("files", "manifest_missing" if name == MANIFEST else "file_missing", f"{name}: there is none")
    if MANIFEST not in files:
        return ""
    try:
        data = parse_file(files[MANIFEST])
        if not _object({"format": _text, "head": _digest, "files": _map(_digest)})(data):
            raise Malformed("not an object of format, head and files")
    except Malformed as error:
        found.fail("files", "manifest_malformed", str(error))
        return ""
    found.check(data["format"] == FORMAT, "files", "format_version", f"format {data['format']!r}, known is {FORMAT!r}")
    listed: dict[str, str] = data["files"]
    present = set(files) - {MANIFEST}
    for name in sorted(present - set(listed)):
        found.fail("files", "file_added", f"{name} is not in the manifest")
    for name in sorted(set(listed) - present):
        found.fail("files", "file_missing", f"{name} is in the manifest only")
    for name in sorted(present & set(listed)):
        known = name in NAMES or (name.endswith(".png") and name[:-4] == listed[name])
        found.check(known, "files", "file_unknown", f"{name} is no file of the format")
        found.check(digest(files[name]) == listed[name], "files", "file_hash", f"{name} was changed after the episode")
    return str(data["head"])


def parse_file(data: bytes) -> Any:
    """The value of a file that holds one canonical JSON text and a line feed."""
    if not data.endswith(b"\n"):
        raise Malformed("the last line is not complete")
    return parse(data[:-1])


class Entry:
    """One record: its place in the ledger, its kind and its fields."""

    __slots__ = ("data", "kind", "seq")

    def __init__(self, seq: int, kind: str, data: dict[str, Any]) -> None:
        self.seq, self.kind, self.data = seq, kind, data


def read_ledger(data: bytes, head: str, found: Findings) -> list[Entry]:
    """The records up to the first line that cannot be read; every deviation is noted."""
    lines = data.split(b"\n")
    entries: list[Entry] = []
    previous = ""
    found.check(lines.pop() == b"", "ledger", "ledger_truncated", "the last line is not complete")
    found.check(len(lines) <= LINE_LIMIT, "ledger", "ledger_length", f"more than {LINE_LIMIT} lines")
    for seq, line in enumerate(lines[:LINE_LIMIT]):
        try:
            entry = parse(line)
            if type(entry) is not dict or entry.keys() != {"seq", "prev", "kind", "data"}:
                raise Malformed("not an object of seq, prev, kind and data")
        except Malformed as error:
            found.fail("ledger", "ledger_line", str(error), seq)
            break
        found.check(entry["seq"] == seq and _int(entry["seq"]), "ledger", "ledger_seq", f"seq is {entry['seq']!r}", seq)
        found.check(entry["prev"] == previous, "ledger", "ledger_chain", "does not follow the line before it", seq)
        previous = digest(line)
        kind, record = entry["kind"], entry["data"]
        fields = KINDS.get(kind) if type(kind) is str else None
        if fields is None or type(record) is not dict or record.keys() != fields.keys():
            found.fail("schema", "record_fields", f"kind {kind!r} with other fields than the format's", seq)
            break
        wrong = [name for name, check in fields.items() if not check(record[name])]
        if wrong:
            found.fail("schema", "record_type", f"{kind}: {', '.join(wrong)}", seq)
            break
        entries.append(Entry(seq, kind, record))
    else:
        found.check(previous == head or not head, "ledger", "ledger_head", "does not end where the manifest says")
    found.measure("ledger", lines=len(lines), head=previous)
    found.measure("schema", records=len(entries))
    return entries


def read_state(files: Mapping[str, bytes], name: str, found: Findings) -> tuple[dict[str, tuple[str, ...]], Tables]:
    """The columns and the rows of every table of a state file."""
    columns: dict[str, tuple[str, ...]] = {}
    tables: Tables = {}
    if name not in files:
        return columns, tables
    try:
        data = parse_file(files[name])
        if not _map(_object({"columns": _many(_text), "rows": _many(_many(_scalar))}))(data):
            raise Malformed("not an object of tables with columns and rows")
        for table, content in data.items():
            names = columns[table] = tuple(content["columns"])
            if names.count("id") != 1 or len(set(names)) != len(names):
                raise Malformed(f"table {table}: columns without one id, or repeated")
            place = names.index("id")
            rows = tables[table] = {}
            last: int | None = None
            for row in content["rows"]:
                if len(row) != len(names) or type(row[place]) is not int or (last is not None and row[place] <= last):
                    raise Malformed(f"table {table}: a row of another width, or out of the order of ids")
                last = row[place]
                rows[row[place]] = dict(zip(names, row, strict=True))
    except Malformed as error:
        found.fail("states", "state_malformed", f"{name}: {error}")
    found.measure("states", **{name: sum(map(len, tables.values()))})
    return columns, tables


# --- The worlds that the format knows --------------------------------------------------------------------------------


@dataclass(frozen=True)
class World:
    """The constants of one environment (FORMAT.md section 9) and the rules that depend on its tables."""

    environment: str
    name: str
    phenomenon: str
    budget: int
    untriggered: str
    conditions: tuple[str, ...]
    surfaces: tuple[str, ...]
    pages: tuple[str, ...]
    review: str
    commit: str
    tables: Mapping[str, frozenset[str]]
    watched: Callable[["Case"], list[str]]
    display: Callable[[Tables, str, Any], str | None]
    serves: Callable[["Case", Tables, dict[str, Any]], set[Triple]]
    wording: Callable[[Tables, Row], str | None]
    target: Callable[["Case", dict[str, Any]], bool]
    reminder: str
    link: str
    answered: Callable[["Case", "Exchange", Findings, Tables], None]


CONDITIONS: dict[str, tuple[int | None, bool, str]] = {
    "L0": (None, False, "nothing"),
    "C": (2, True, "nothing"),
    "L2": (0, True, "nothing"),
    "OFF-A": (0, False, "nothing"),
    "CUE-A": (0, False, "link"),
    "LIVE-A": (0, False, "value"),
    "ON-A": (0, False, "value"),
    "OFF-I": (1, False, "nothing"),
    "LIVE-I": (1, False, "value"),
    "ON-I": (1, False, "value"),
}
"""Condition: the place of the changed value among the watched ones, whether it is announced, what the review shows."""


def clinic_watched(case: "Case") -> list[str]:
    """What is wrong with the plan's task, fact, twin and detail."""
    plan, pre = case.plan, case.pre
    task, watched = plan["task"], plan["watched"]
    if task.keys() != {"patient", "session", "referral"}:
        return ["the task has other keys than patient, session, referral"]
    referral = pre["referral"].get(_key(task["referral"]), {})
    problems = []
    if _key(task["patient"]) not in pre["patient"] or _key(task["session"]) not in pre["clinic_session"]:
        problems.append("the task names rows that are not there")
    elif (referral.get("patient_id"), referral.get("session_id")) != (task["patient"], task["session"]):
        problems.append("the target referral is not the target patient's for the target session")
    fact, detail = ["clinic_session", task["session"], "location_id"], ["clinic_session", task["session"], "parking_id"]
    if len(watched) != 3 or watched[0] != fact or watched[2] != detail or plan["arm"] != fact:
        return [*problems, "fact and detail are not the target session's"]
    twin = watched[1]
    if twin == fact or twin[0] != fact[0] or twin[2] != fact[2] or twin[1] not in pre["clinic_session"]:
        problems.append("the twin is not the same column of another session")
    return problems


def _key(value: Any) -> int:
    return value if type(value) is int else -1


def clinic_display(tables: Tables, column: str, value: Any) -> str | None:
    """A stored place as pages show it."""
    row = tables["location"].get(_key(value)) if column in ("location_id", "parking_id") else None
    return None if row is None else str(row["name"])


def clinic_serves(case: "Case", tables: Tables, request: dict[str, Any]) -> set[Triple]:
    """The watched values that the page of this request shows."""
    route, params = request["route"], request["params"]
    sessions = tables["clinic_session"]
    shown: set[Triple] = set()
    if route == "/sessions":
        for key, row in sessions.items():
            chosen = (("place", "location_id"), ("provider", "provider_id"))
            if all(_number(params.get(name, "")) in (0, row[column]) for name, column in chosen):
                shown.add(("clinic_session", key, "location_id"))
    elif route == "/sessions/{id}":
        key = _number(request["path"].split("/")[2])
        shown = {("clinic_session", key, "location_id"), ("clinic_session", key, "parking_id")}
    elif route == "/new/review" and case.plan["review"] == "value":
        referral = tables["referral"].get(_number(params.get("referral", "")), {})
        shown = {("clinic_session", _key(referral.get("session_id")), "location_id")}
    return shown & case.watched


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 0


def clinic_wording(tables: Tables, notice: Row) -> str | None:
    """The text of a notice, from the rows as they are."""
    session = tables["clinic_session"].get(_key(notice["record_id"]))
    wording = {"location_id": "the place is now", "parking_id": "parking is now at"}.get(str(notice["field"]))
    if session is None or wording is None or notice["record"] != "clinic_session":
        return None
    name = clinic_display(tables, str(notice["field"]), session[str(notice["field"])])
    return f"{session['title']}, {session['date']}: {wording} {name}."


def clinic_target(case: "Case", request: dict[str, Any]) -> bool:
    """Whether a review step is about the target referral."""
    return _number(request["params"].get("referral", "")) == case.plan["task"]["referral"]


_APPOINTMENT = re.compile(r"/appointments/([0-9]{1,9})\?(created|again)=1", re.ASCII)


def clinic_answered(case: "Case", at: "Exchange", found: Findings, tables: Tables) -> None:
    """Compare the answer to a request with the appointments that it inserted."""
    request = at.request
    made = [write for write in at.commits(case) if write["actor"] == request["actor"]]
    form = request["method"] == "POST" and request["route"] == "/new/review"
    where, seq = f"request {request['number']}", at.seq
    if not form:
        found.check(not made, "commit_log", "commit_elsewhere", f"{where} is no confirmation, yet books", seq)
        return
    match = _APPOINTMENT.fullmatch(request["location"])
    key = request["params"].get("key")
    if match is None:
        refused = request["location"].startswith("/refused?") or request["status"] >= 400
        found.check(refused, "commit_log", "commit_answer", f"{where} leads to {request['location']}", seq)
        found.check(not made, "commit_log", "commit_unlogged", f"{where} was refused, yet books", seq)
        return
    row = tables["appointment"].get(int(match[1]))
    known = row is not None and row["form_key"] == key
    found.check(known, "commit_log", "commit_unstored", f"{where} names a booking that is not stored", seq)
    wanted = [int(match[1])] if match[2] == "created" else []
    detail = f"{where} says that it books {wanted}, the state has {[write['key'] for write in made]}"
    found.check([write["key"] for write in made] == wanted, "commit_log", "commit_contradiction", detail, seq)


def _columns(**tables: str) -> dict[str, frozenset[str]]:
    common = {
        "notice": "id record record_id field visible_from acknowledged",
        "history": "id record record_id field old new at by",
        "perturbation_guard": "id request",
        "neutral": "id value",
        "canary": "id token",
    }
    return {name: frozenset(columns.split()) for name, columns in {**common, **tables}.items()}


WORLDS = {
    world.environment: world
    for world in (
        World(
            environment="EnvOS/ClinicStale-v0",
            name="clinic",
            phenomenon="stale",
            budget=48,
            untriggered="uncounted",
            conditions=("L0", "C", "L2", "OFF-A", "CUE-A", "LIVE-A", "OFF-I", "LIVE-I"),
            surfaces=("/sessions", "/sessions/{id}"),
            pages=("/new/clinic", "/new/slot", "/new/review"),
            review="/new/review",
            commit="appointment",
            tables=_columns(
                location="id name address phone",
                provider="id name role",
                patient="id name born number phone",
                clinic_session="id title provider_id date start end location_id parking_id",
                slot="id location_id date start end status",
                appointment="id reference patient_id location_id slot_id date start end purpose status referral_id form_key",
                referral="id reference patient_id session_id purpose received status appointment_reference",
                message="id sender subject body sent_at read",
            ),
            watched=clinic_watched,
            display=clinic_display,
            serves=clinic_serves,
            wording=clinic_wording,
            target=clinic_target,
            reminder="! Before you confirm",
            link="Check the session record",
            answered=clinic_answered,
        ),
    )
}
"""Every environment that format 1 describes."""


# --- The episode -----------------------------------------------------------------------------------------------------


class Exchange:
    """One request with the writes and firings that stand before it, and what its page was due to show."""

    def __init__(self, entry: Entry, writes: list[Entry], fires: list[Entry]) -> None:
        self.seq = entry.seq
        self.request = entry.data
        self.writes, self.fires = writes, fires
        self.notice: Row | None = None
        self.wording: str | None = None
        self.changed_text: str | None = None

    def own(self, session: str) -> bool:
        """Whether the agent itself asked for it."""
        request = self.request
        return bool(request["actor"] == "agent" and request["via"] == "direct" and request["session"] == session)

    def page(self) -> bool:
        """Whether a page answered a GET."""
        return bool(self.request["method"] == "GET" and self.request["status"] == 200)

    def commits(self, case: "Case") -> list[dict[str, Any]]:
        """The rows that were inserted into the commit table, by whomever."""
        table = case.plan["commit_table"]
        return [w.data for w in self.writes if w.data["table"] == table and w.data["op"] == "insert"]


@dataclass
class Case:
    """A whole episode, typed and in order."""

    world: World
    identity: dict[str, Any]
    plan: dict[str, Any]
    entries: list[Entry]
    columns: dict[str, tuple[str, ...]]
    pre: Tables
    post: Tables
    files: Mapping[str, bytes]
    watched: set[Triple] = field(default_factory=set)
    exchanges: list[Exchange] = field(default_factory=list)
    by_number: dict[int, Exchange] = field(default_factory=dict)
    frames: list[Entry] = field(default_factory=list)
    actions: list[Entry] = field(default_factory=list)
    changed: Triple | None = None
    session: str = ""

    def verb(self, step: int) -> str:
        """The verb of a step's action, "" if there is none."""
        return str(self.actions[step - 1].data["verb"]) if 0 < step <= len(self.actions) else ""


def assemble(case: Case) -> None:
    """Put requests together with their writes, and sort out frames and actions."""
    writes: list[Entry] = []
    fires: list[Entry] = []
    for entry in case.entries:
        if entry.kind == "write":
            writes.append(entry)
        elif entry.kind == "fire":
            fires.append(entry)
        elif entry.kind == "request":
            exchange = Exchange(entry, writes, fires)
            case.exchanges.append(exchange)
            case.by_number.setdefault(entry.data["number"], exchange)
            writes, fires = [], []
        elif entry.kind == "frame":
            case.frames.append(entry)
        elif entry.kind == "action":
            case.actions.append(entry)
    case.watched = {(table, key, column) for table, key, column in case.plan["watched"]}
    case.session = case.exchanges[0].request["session"] if case.exchanges else ""
    place = CONDITIONS.get(case.plan["condition"], (None, False, ""))[0]
    if place is not None and place < len(case.plan["watched"]):
        table, key, column = case.plan["watched"][place]
        case.changed = (table, key, column)


_NEXT = {
    "": {"start": "open0"},
    "open0": {"write": "held0", "fire": "held0", "request": "open0", "frame": "framed"},
    "held0": {"write": "held0", "fire": "held0", "request": "open0"},
    "framed": {"write": "held", "fire": "held", "request": "open", "action": "acted", "end": "ended"},
    "open": {"write": "held", "fire": "held", "request": "open", "action": "acted"},
    "held": {"write": "held", "fire": "held", "request": "open"},
    "acted": {"report": "reported", "frame": "framed"},
    "reported": {"frame": "closing"},
    "closing": {"end": "ended"},
    "ended": {},
}
"""Which kind of record may follow (FORMAT.md section 3)."""


def check_sequence(case: Case, found: Findings) -> None:
    """The order of records, every numbering, and how the episode ended."""
    state = ""
    step = 0
    for entry in case.entries:
        if entry.kind == "fault":
            continue
        following = _NEXT[state].get(entry.kind)
        if following is None:
            found.fail("sequence", "record_order", f"a {entry.kind} record cannot stand here", entry.seq)
            break
        state = following
        step += entry.kind == "request" and state == "open" and entry.data["step"] == step + 1
        if entry.kind == "frame":
            step = entry.data["step"]
    found.check(state == "ended", "sequence", "trajectory_truncated", "the episode has no end record")
    for kind, first, name in (
        ("request", 1, "number"),
        ("frame", 0, "number"),
        ("frame", 0, "step"),
        ("action", 1, "step"),
    ):
        numbers = [(entry.data[name], entry.seq) for entry in case.entries if entry.kind == kind]
        for place, (number, seq) in enumerate(numbers, first):
            if not found.check(number == place, "sequence", "step_gap", f"{kind} {name} {number}, due is {place}", seq):
                break
    _check_steps(case, found)
    _check_end(case, found)


def _check_steps(case: Case, found: Findings) -> None:
    step = 0
    for entry in case.entries:
        if entry.kind == "frame":
            step += 1
        elif entry.kind in ("request", "report", "end"):
            due = step - 1 if entry.kind == "end" else step
            right = entry.data["step"] == due
            found.check(
                right, "sequence", "step_wrong", f"{entry.kind} of step {entry.data['step']}, due {due}", entry.seq
            )


def _check_end(case: Case, found: Findings) -> None:
    ends = [entry for entry in case.entries if entry.kind == "end"]
    reports = [entry for entry in case.entries if entry.kind == "report"]
    reason = ends[-1].data["reason"] if ends else ""
    steps, budget = len(case.actions), case.plan["budget"]
    found.measure("sequence", steps=steps, requests=len(case.exchanges), frames=len(case.frames), end=reason)
    found.measure("budget", steps=steps, budget=budget)
    found.check(steps <= budget, "budget", "over_budget", f"{steps} actions, the budget is {budget}")
    for frame in case.frames:
        left = budget - frame.data["step"]
        detail = f"frame {frame.data['number']} has {frame.data['budget_left']} left, due {left}"
        found.check(frame.data["budget_left"] == left, "budget", "budget_left", detail, frame.seq)
    if ends:
        right = {"report": len(reports) == 1, "budget": not reports and steps == budget}.get(reason, False)
        found.check(
            right, "sequence", "end_reason", f"{reason!r} after {steps} steps and {len(reports)} reports", ends[-1].seq
        )
    found.check(
        not reports or case.verb(steps) == "report", "sequence", "report_unasked", "the last action is no report"
    )


# --- Identity and plan -----------------------------------------------------------------------------------------------


def check_identity(case: Case, found: Findings) -> None:
    """Who and what: forms of all fields, the canary, the model."""
    identity = case.identity
    found.measure(
        "identity", **{name: identity[name] for name in ("environment", "split", "seed", "instance", "certificate")}
    )
    for name in ("instance", "code"):
        found.check(
            _digest(identity[name]), "identity", "identity_digest", f"{name} is no digest: {identity[name]!r}", 0
        )
    certificate = identity["certificate"]
    found.check(certificate == "" or _digest(certificate), "identity", "certificate", f"no digest: {certificate!r}", 0)
    found.check(identity["split"] in ("train", "validation", "test"), "identity", "split", identity["split"], 0)
    found.check(identity["seed"] >= 0, "identity", "seed", str(identity["seed"]), 0)
    found.check(identity["format"] == FORMAT, "identity", "format_version", identity["format"], 0)
    for name in ("version", "grader"):
        found.check(identity[name] != "", "identity", "identity_empty", f"{name} is empty", 0)
    asked, resolved = identity["model"], identity["model_resolved"]
    found.measure("model", model=asked, model_resolved=resolved, code=identity["code"])
    found.check(asked == resolved, "model", "model_resolved", f"{asked!r} was asked for, {resolved!r} answered", 0)
    tokens = [row["token"] for row in case.pre["canary"].values()]
    due = "canary-" + digest(identity["instance"])[:24]
    found.check(tokens == [due], "identity", "canary", "the canary is not that of the instance")
    needle = json.dumps(due)[1:-1].encode()
    lines = case.files[LEDGER].split(b"\n")
    seen = [seq for seq, line in enumerate(lines) if needle in line and b'"table":"canary"' not in line]
    found.measure("isolation", canary_lines=len(seen))
    found.check(not seen, "isolation", "canary_seen", "evaluator data was reached", seen[0] if seen else -1)


def check_plan(case: Case, found: Findings) -> None:
    """The plan agrees with the identity, the world, the condition and the pre-state."""
    plan, world, pre = case.plan, case.world, case.pre

    def check(holds: bool, code: str, detail: str) -> None:
        found.check(holds, "plan", code, detail, 0)

    found.measure("plan", condition=plan["condition"], anchor=plan["anchor"], changed=case.changed)
    for name in ("condition", "anchor"):
        check(plan[name] == case.identity[name], "plan_identity", f"another {name} than the identity's")
    constants = {
        "world": world.name,
        "phenomenon": world.phenomenon,
        "budget": world.budget,
        "untriggered": world.untriggered,
        "surfaces": list(world.surfaces),
        "review_route": world.review,
        "commit_table": world.commit,
    }
    for name, value in constants.items():
        check(plan[name] == value, "plan_world", f"{name} is {plan[name]!r}, the world's is {value!r}")
    check(plan["condition"] in world.conditions, "plan_condition", f"no condition of the world: {plan['condition']!r}")
    _, announced, review = CONDITIONS.get(plan["condition"], (None, False, ""))
    promised = (plan["announced"], plan["review"])
    check(promised == (announced, review), "plan_promise", f"{promised}, the condition's is {(announced, review)}")
    trigger, pages = plan["trigger"], list(world.pages)
    drawn = [route for route in pages if not (announced and route == world.review)]
    right = trigger == pages if plan["anchor"] == "first" else len(trigger) == 1 and trigger[0] in drawn
    check(right and plan["anchor"] in ("first", "any"), "plan_trigger", f"{trigger} for anchor {plan['anchor']!r}")
    check(moment(plan["opened"], 0) == plan["opened"], "plan_opened", plan["opened"])
    problems = world.watched(case)
    for problem in problems:
        check(False, "plan_task", problem)
    if not problems:
        table, key, column = plan["arm"]
        text = world.display(pre, column, pre[table][key][column])
        check(
            text == plan["arm_text"], "plan_fact", f"the fact is shown as {text!r}, the plan says {plan['arm_text']!r}"
        )
    changes = case.changed is not None and list(case.changed) == plan["arm"]
    check(
        (plan["new_text"] != plan["arm_text"]) == changes,
        "plan_fact",
        "the texts do not fit what the condition changes",
    )


def moment(opened: str, step: int) -> str | None:
    """The virtual time of a step."""
    try:
        time = datetime.strptime(opened, "%Y-%m-%d %H:%M") + timedelta(minutes=step)  # noqa: DTZ007 - virtual time
    except (ValueError, OverflowError):
        return None
    return time.isoformat(" ", "minutes")


# --- Actions ---------------------------------------------------------------------------------------------------------

PARAMETERS = {
    "click": ("element",),
    "fill": ("element", "value"),
    "select_option": ("element", "option"),
    "goto": ("path",),
    "go_back": (),
    "memo": ("text",),
    "noop": (),
    "report": (),
}
_S = r"[ \t\r\n]*"
_CALL = re.compile(rf"{_S}([A-Za-z_][A-Za-z0-9_]*){_S}\({_S}(\){_S})?")
_ARGUMENT = re.compile(
    rf"(?:([A-Za-z_][A-Za-z0-9_]*){_S}={_S})?"
    r"""(?:"([^"\\\r\n]*(?:\\[^\r\n][^"\\\r\n]*)*)"|'([^'\\\r\n]*(?:\\[^\r\n][^'\\\r\n]*)*)'|([0-9]+))"""
    rf"{_S}([,)]){_S}"
)
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|([^\r\n]))")
_PLAIN = {'"': '"', "'": "'", "\\": "\\", "n": "\n", "t": "\t"}


def read_action(raw: str) -> tuple[str, list[str], dict[str, str]] | None:
    """Verb, arguments and report fields of a reply, None where it is no action."""
    head = _CALL.match(raw)
    if len(raw) > ACTION_LIMIT or not _unicode(raw) or head is None or head[1] not in PARAMETERS:
        return None
    verb = head[1]
    placed: list[str] = []
    named: dict[str, str] = {}
    digits: set[str] = set()
    place, closed = head.end(), head[2] is not None
    parameters = PARAMETERS[verb]
    while not closed:
        match = _ARGUMENT.match(raw, place)
        if match is None:
            return None
        name, double, single, number, after = match.groups()
        value = number if number is not None else _unescape(double if double is not None else single)
        if value is None or (name is None and named) or name in named:
            return None
        if name is None:
            name = parameters[len(placed)] if len(placed) < len(parameters) else ""
            placed.append(value)
        else:
            named[name] = value
        if number is not None:
            digits.add(name)
        place, closed = match.end(), after == ")"
    if place != len(raw) or digits - {"element"} or (verb == "report" and (placed or digits)):
        return None
    if verb == "report":
        return verb, [], named
    rest = parameters[len(placed) :]
    if len(placed) > len(parameters) or named.keys() != set(rest):
        return None
    return verb, [*placed, *(named[name] for name in rest)], {}


def _unicode(text: str) -> bool:
    return text.isascii() or not any("\ud800" <= char <= "\udfff" for char in text)


def _unescape(body: str) -> str | None:
    if "\\" not in body:
        return body
    parts: list[str] = []
    last = 0
    for match in _ESCAPE.finditer(body):
        char = chr(int(match[1], 16)) if match[1] else _PLAIN.get(match[2])
        if char is None:
            return None
        parts += body[last : match.start()], char
        last = match.end()
    text = "".join(parts) + body[last:]
    try:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    except UnicodeDecodeError:
        return None


def check_actions(case: Case, found: Findings) -> None:
    """Raw text against verb and arguments, requests against verbs, memos, errors and the report."""
    requests: dict[int, list[Exchange]] = {}
    for exchange in case.exchanges:
        requests.setdefault(exchange.request["step"], []).append(exchange)
    memo = ""
    reports = [entry.data["fields"] for entry in case.entries if entry.kind == "report"]
    found.measure("actions", actions=len(case.actions), reports=len(reports))
    for entry in case.actions:
        action, seq = entry.data, entry.seq
        step, verb, args, error = action["step"], action["verb"], action["args"], action["error"]

        def check(holds: bool, code: str, detail: str, seq: int = seq, step: int = step) -> None:
            found.check(holds, "actions", code, f"step {step}: {detail}", seq)

        parsed = read_action(action["raw"])
        fields: dict[str, str] = {}
        if parsed is None:
            check(verb == "" and args == [] and error != "", "action_unparsed", "the raw text is no action")
        else:
            check(
                (verb, args) == parsed[:2], "action_parsed", f"the raw text says {parsed[:2]}, the record {verb, args}"
            )
            fields = parsed[2]
        check(len(action["raw"]) <= RAW_LIMIT, "action_length", "the raw text is longer than the format holds")
        if verb == "report" and not error:
            check(reports == [fields], "report_altered", "the report is not what the action says")
        cut = max(0, len(args[0]) - MEMO_LIMIT) if verb == "memo" and args else 0
        check(action["memo_cut"] == cut, "memo_cut", f"{action['memo_cut']} cut, due {cut}")
        if verb == "memo" and args and not error:
            memo = args[0][:MEMO_LIMIT]
        if step < len(case.frames):
            frame = case.frames[step].data
            check(frame["memo"] == memo, "memo", "the frame after it holds another memo")
            check(frame["error"] == error, "error_line", "the frame after it holds another error line")
        shown = case.frames[step - 1].data if 0 < step <= len(case.frames) else None
        _check_cause(case, action, shown, requests.get(step, []), check)
    found.check(
        bool(requests.get(0)) and case.exchanges[0].request["actor"] == "harness",
        "actions",
        "first_page",
        "no first page",
    )


def _check_cause(
    case: Case,
    action: dict[str, Any],
    shown: dict[str, Any] | None,
    caused: list[Exchange],
    check: Callable[[bool, str, str], None],
) -> None:
    """A step's requests are those that its action makes, on the elements that it was shown."""
    verb, error = action["verb"], action["error"]
    direct = [exchange.request for exchange in caused if exchange.request["via"] != "redirect"]
    own = [request for request in direct if request["actor"] == "agent"]
    role = ""
    if verb in ("click", "fill", "select_option") and not error and shown is not None and action["args"]:
        match = re.search(
            rf"^\[{re.escape(action['args'][0].lstrip('0'))}\] ([a-z]+) ", shown["elements"], re.MULTILINE
        )
        role = match[1] if match else ""
        fits = {"click": ("link", "button", "radio"), "fill": ("textbox",), "select_option": ("combobox",)}[verb]
        cut = not match and len(shown["elements"]) > ELEMENTS_LIMIT // 2
        check(role in fits or cut, "element", f"{verb} on element {action['args'][0]}, a {role or 'missing one'}")
    if error or verb not in ("click", "goto", "go_back") or role == "radio":
        check(not direct, "request_unasked", f"{len(direct)} requests after {verb or 'no action'}")
        return
    due = (1,) if role or verb != "click" else (0, 1)
    # What the agent asked for may carry another actor where an archive was forged: that is a matter of the trigger.
    check(len(direct) in due or len(own) in due, "request_count", f"{len(direct)} requests after {verb}")
    if verb != "click" or role == "link":
        check(all(request["method"] == "GET" for request in own), "request_method", f"{verb} asks with GET")


# --- Requests and frames ---------------------------------------------------------------------------------------------


def clean(text: str) -> str:
    """A text as parameters hold it."""
    kept = "".join(char if char.isprintable() else " " for char in text[:800])
    return " ".join(kept.split())[:200].rstrip()


def route_of(path: str) -> str:
    """The route that a path belongs to."""
    parts = path.split("/")
    for place in range(2, len(parts)):
        if parts[place].isascii() and parts[place].isdecimal() and len(parts[place]) < 10:
            return "/".join([*parts[:place], "{id}", *parts[place + 1 :]])
    return path


def check_requests(case: Case, found: Findings) -> None:
    """Routes and paths, answers and redirects."""
    found.measure("requests", requests=len(case.exchanges))
    before: dict[str, Any] | None = None
    for exchange in case.exchanges:
        request = exchange.request

        def check(
            holds: bool, code: str, detail: str, seq: int = exchange.seq, number: int = request["number"]
        ) -> None:
            found.check(holds, "requests", code, f"request {number}: {detail}", seq)

        status, location = request["status"], request["location"]
        check(request["route"] == route_of(request["path"]), "route", f"{request['path']} is not of {request['route']}")
        check(request["method"] in ("GET", "POST"), "method", request["method"])
        check(status in (200, 303) or 400 <= status < 500, "status", str(status))
        check((status == 303) == (location != ""), "location", f"status {status} with location {location!r}")
        check(status == 200 or not request["served"], "served", f"values served with status {status}")
        if request["via"] == "redirect":
            follows = before is not None and before["status"] == 303 and request["method"] == "GET"
            if follows and before is not None:
                same = all(before[name] == request[name] for name in ("actor", "session", "step"))
                follows = same and address(before["location"]) == (request["path"], request["params"])
            check(follows, "redirect", "it does not follow the redirect before it")
        else:
            check(before is None or before["status"] != 303, "redirect", "the redirect before it was not followed")
        before = request
    found.check(before is None or before["status"] != 303, "requests", "redirect", "the last redirect was not followed")


def address(url: str) -> tuple[str, dict[str, str]]:
    """Path and cleaned parameters of an address."""
    path, _, query = url.partition("?")
    try:
        return path, {name: clean(text) for name, text in parse_qsl(query)} if query else {}
    except ValueError:
        return path, {"": query}


def check_frames(case: Case, found: Findings) -> None:
    """Every frame's digest, address and notice lines; acknowledged, and repeated where nothing was asked for."""
    found.measure("frames", frames=len(case.frames))
    number, before = 0, None
    actions = {entry.data["step"]: entry.data for entry in case.actions}
    latest = iter(case.exchanges)
    upcoming = next(latest, None)
    for place, entry in enumerate(case.frames):
        frame = entry.data

        def check(holds: bool, code: str, detail: str, seq: int = entry.seq, place: int = place) -> None:
            found.check(holds, "frames", code, f"frame {place}: {detail}", seq)

        asked = False
        while upcoming is not None and upcoming.seq < entry.seq:
            number, asked, upcoming = upcoming.request["number"], True, next(latest, None)
        _check_frame(case, frame, number, check)
        answer = actions.get(place + 1)
        if answer is not None:
            right = answer["frame"] == place and answer["frame_sha256"] == frame["sha256"]
            check(right, "frame_unacknowledged", f"action {place + 1} answers another frame")
        if before is not None and not asked:
            verb = case.verb(place)
            names = ("request", "url", "notice") if verb in ("click", "fill", "select_option") else _SEEN
            changed = [name for name in names if frame[name] != before[name]]
            check(not changed, "frame_changed", f"nothing was asked for, yet {', '.join(changed)} differ")
        before = frame
    used = {entry.data["screenshot"] for entry in case.frames} - {""}
    there = {name for name in case.files if name.endswith(".png")}
    found.check(used == there, "frames", "screenshot", "the screenshots are not those that the frames name")


_SEEN = ("request", "url", "notice", "page", "elements", "delivered")


def _check_frame(case: Case, frame: dict[str, Any], number: int, check: Callable[[bool, str, str], None]) -> None:
    seen = (frame["url"], frame["page"], frame["elements"], frame["notice"], frame["error"], frame["memo"])
    check(digest("\x1f".join((*seen, str(frame["budget_left"])))) == frame["sha256"], "frame_digest", "altered")
    check(len(frame["page"]) <= PAGE_LIMIT, "page_length", f"{len(frame['page'])} code points")
    check(len(frame["elements"]) <= ELEMENTS_LIMIT, "elements_length", f"{len(frame['elements'])} code points")
    check(len(frame["memo"]) <= MEMO_LIMIT, "memo_length", f"{len(frame['memo'])} code points")
    if frame["notice"]:
        title, _, text = frame["notice"].partition(": ")
        first = f"!! {title}\n{text}\n"
        check(frame["page"].startswith(first[:PAGE_LIMIT]), "notice_lines", "the page does not begin with its notice")
    else:
        check(
            not frame["page"].startswith("!! "), "notice_lines", "the page shows a notice that the frame does not name"
        )
    check(frame["request"] == number, "frame_request", f"shows request {frame['request']}, the last one was {number}")
    exchange = case.by_number.get(frame["request"])
    if exchange is None:
        return
    request = exchange.request
    path, params = address(frame["url"])
    right = path == request["path"] and (params == request["params"] or request["method"] == "POST")
    check(right, "frame_address", f"its address is {frame['url']}, the request asked for {request['path']}")
    before = case.by_number.get(frame["request"] - 1)
    if request["via"] == "redirect" and before is not None:
        check(before.request["location"] == frame["url"], "frame_address", "it does not stand where the redirect led")


# --- Replay: the rows at every request -------------------------------------------------------------------------------


def replay(case: Case, found: Findings) -> None:
    """Carry out all writes from the pre-state, look at every request on the way, and compare with the post-state."""
    tables: Tables = {name: dict(rows) for name, rows in case.pre.items()}
    firing = min((fire.data["request"] for at in case.exchanges for fire in at.fires), default=0)
    total = 0
    for exchange in case.exchanges:
        for write in exchange.writes:
            total += 1
            _apply(case, tables, write, exchange, found)
        _look(case, tables, exchange, firing, found)
    different = sorted(name for name in tables if not _equal(tables[name], case.post[name]))
    found.measure("journal", writes=total, different=different)
    found.check(
        not different, "journal", "state_contradiction", f"pre-state and writes do not lead to: {', '.join(different)}"
    )


def _equal(one: dict[int, Row], other: dict[int, Row]) -> bool:
    if one != other:
        return False
    # 1 equals 1.0 in Python and not in the format.
    return all(list(map(type, row.values())) == list(map(type, other[key].values())) for key, row in one.items())


def _same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and bool(one == other)


def _apply(case: Case, tables: Tables, entry: Entry, exchange: Exchange, found: Findings) -> None:
    write, request = entry.data, exchange.request
    op, table, key, columns = write["op"], write["table"], write["key"], write["columns"]

    def check(holds: bool, code: str, detail: str) -> bool:
        return found.check(holds, "journal", code, f"{op} of {table} {key}: {detail}", entry.seq)

    check(write["request"] == request["number"], "write_request", f"not of request {request['number']}")
    check(write["actor"] in (request["actor"], "perturbation"), "write_actor", f"by {write['actor']}")
    refused = request["status"] >= 400 or request["location"].startswith("/refused?")
    check(not refused or write["actor"] != request["actor"], "write_refused", "inside a request that was refused")
    names = case.columns.get(table)
    if names is None:
        check(False, "write_table", "there is no such table")
        return
    rows = tables[table]
    row = rows.get(key)
    if op == "update":
        known = row is not None and columns.keys() <= set(names) - {"id"}
        if check(known, "write_row", "no such row or column") and row is not None:
            right = all(_same(row[name], old) and not _same(old, new) for name, (old, new) in columns.items())
            check(right, "write_old", "the old values are not the row's")
            rows[key] = {**row, **{name: new for name, (_, new) in columns.items()}}
        return
    complete = columns.keys() == set(names) and ((row is None) == (op == "insert"))
    if not check(complete, "write_row", "not all columns, or the row is there already, or was not"):
        return
    if op == "insert":
        right = all(old is None for old, _ in columns.values()) and _same(columns["id"][1], key)
        check(right, "write_old", "an insert with old values or another id")
        rows[key] = {name: columns[name][1] for name in names}
    elif row is not None:
        right = all(new is None and _same(row[name], old) for name, (old, new) in columns.items())
        check(right, "write_old", "the old values are not the row's")
        del rows[key]


def _look(case: Case, tables: Tables, exchange: Exchange, firing: int, found: Findings) -> None:
    """What this request's page was due to show, and whether the access log says so."""
    world, request, seq = case.world, exchange.request, exchange.seq
    number = request["number"]
    fired = bool(firing) and number >= firing
    due = world.serves(case, tables, request) if exchange.page() else set()
    served = [(table, key, column) for table, key, column, _ in request["served"]]
    right = len(set(served)) == len(served) and set(served) == due
    found.check(
        right, "exposure_log", "served_pages", f"request {number} serves {served}, its page shows {sorted(due)}", seq
    )
    for table, key, column, text in request["served"]:
        row = tables.get(table, {}).get(key, {})
        now = world.display(tables, column, row.get(column))
        term, code = ("freshness", "stale_served") if fired else ("exposure_log", "served_value")
        found.check(text == now, term, code, f"request {number} serves {text!r}, the row holds {now!r}", seq)
    world.answered(case, exchange, found, tables)
    if case.changed is not None:
        table, key, column = case.changed
        exchange.changed_text = world.display(tables, column, tables.get(table, {}).get(key, {}).get(column))
    if fired:
        rows = [row for _, row in sorted(tables["notice"].items()) if _same(row["acknowledged"], 0)]
        exchange.notice = next(
            (row for row in rows if _int(row["visible_from"]) and row["visible_from"] <= number), None
        )
        exchange.wording = world.wording(tables, exchange.notice) if exchange.notice is not None else None


def check_delivered(case: Case, found: Findings) -> None:
    """What frames delivered is what requests served, and stands in the page text where they say."""
    longest = max((len(entry.data["page"]) for entry in case.frames), default=0)
    exposures = 0
    for entry in case.frames:
        frame, page = entry.data, entry.data["page"]
        exchange = case.by_number.get(frame["request"])
        served = [tuple(item) for item in exchange.request["served"]] if exchange is not None else []
        end = -1
        for *value, text, offset in frame["delivered"]:
            exposures += 1
            after = page[offset + len(text) : offset + len(text) + 1]
            before = page[offset - 1 : offset] if offset else ""
            stands = page[offset : offset + len(text)] == text and text != "" and offset > end
            whole = before in ("", " ", "\n") and after in ("", " ", "\n")
            detail = f"frame {frame['number']}: {text!r} does not stand at {offset}"
            found.check(stands and whole, "exposure_log", "delivered_text", detail, entry.seq)
            end = offset
            if not found.check((*value, text) in served, "exposure_log", "delivered_unserved", detail, entry.seq):
                continue
            served.remove((*value, text))
        for *_, text in served:
            # A value may be served and not delivered where the page was cut before it.
            cut = len(page) == PAGE_LIMIT or (len(page) == longest and text not in page)
            detail = f"frame {frame['number']}: {text!r} was served and is not among the delivered"
            found.check(cut, "exposure_log", "served_undelivered", detail, entry.seq)
    found.measure("exposure_log", delivered=exposures)


# --- Promises --------------------------------------------------------------------------------------------------------


def check_promises(case: Case, found: Findings, firing: int) -> None:
    """Notices and disclosures at the review step: shown where promised, and nowhere else."""
    plan, world = case.plan, case.world
    commit = next((at.request["number"] for at in case.exchanges if at.commits(case)), 2**31)
    notices = reviews = reached = 0
    for entry in case.frames:
        frame, seq = entry.data, entry.seq
        exchange = case.by_number.get(frame["request"])
        if exchange is None:
            continue
        where = f"frame {frame['number']}"
        if exchange.notice is None:
            found.check(
                not frame["notice"], "unannounced", "notice_unannounced", f"{where} shows a notice that is not due", seq
            )
        else:
            notices += 1
            right = frame["notice"] == f"Notice: {exchange.wording}"
            found.check(right, "notice", "notice_undelivered", f"{where} was due to show: {exchange.wording}", seq)
            own = case.changed == (exchange.notice["record"], exchange.notice["record_id"], exchange.notice["field"])
            reached += right and own and firing < frame["request"] < commit
        request = exchange.request
        if request["route"] != world.review or not exchange.page():
            continue
        reviews += 1
        _check_review(case, frame, world.target(case, request), f"{where}, the review step", seq, found)
    if plan["announced"] and firing:
        found.check(
            reached > 0, "notice", "notice_missing", "the promised notice reached no frame before the commit or the end"
        )
    found.measure("notice", promised=plan["announced"], due=notices, reached=reached)
    found.measure("review", promised=plan["review"], frames=reviews)
    found.measure("unannounced", frames=len(case.frames))


def _check_review(case: Case, frame: dict[str, Any], target: bool, where: str, seq: int, found: Findings) -> None:
    plan, world = case.plan, case.world
    lines = [line for line in frame["page"].split("\n") if line.startswith(world.reminder)]
    bare = [re.sub(r"\[[0-9]+\] ", "", line) for line in lines]
    linked = any(line.endswith(world.link) for line in bare)
    listed = f'link "{world.link}"' in frame["elements"] or bool(frame["notice"])
    value = any(item[:3] == plan["arm"] for item in frame["delivered"])
    if plan["review"] == "nothing":
        found.check(
            not lines and not value,
            "unannounced",
            "review_unannounced",
            f"{where} discloses what was not promised",
            seq,
        )
    elif target:
        found.check(linked and listed, "review", "review_link", f"{where} does not show the link to the source", seq)
        if plan["review"] == "value":
            found.check(value, "review", "review_value", f"{where} does not show the current value", seq)
        else:
            found.check(
                not value, "unannounced", "review_unannounced", f"{where} shows the value, a link was promised", seq
            )


# --- The change ------------------------------------------------------------------------------------------------------


def check_change(case: Case, found: Findings) -> int:
    """Every rule of protocol section 4; returns the number of the firing request, 0 if nothing happened."""
    fires = [(at, fire) for at in case.exchanges for fire in at.fires]
    made = [(at, w) for at in case.exchanges for w in at.writes if w.data["actor"] == "perturbation"]
    guards = [[row["id"], row["request"]] for row in case.post["perturbation_guard"].values()]
    arming = next((entry for entry in case.frames if _arms(case, entry)), None)
    found.measure("triggered", fires=len(fires), writes=len(made), guards=guards)
    if not (fires or made or guards or case.pre["perturbation_guard"]):
        eligible = _eligible(case, arming)
        code = "never_exposed" if arming is None else "never_reached" if eligible is None else "never_fired"
        missed = eligible.seq if eligible is not None else -1
        if case.plan["untriggered"] != "failure":
            found.fail("triggered", code, "nothing shows that the change happened", missed)
        elif eligible is not None:
            found.fail("anchor", code, "a request that fires did not fire", missed)
        return 0
    at = fires[0][0] if fires else made[0][0] if made else None
    number = (
        int(fires[0][1].data["request"])
        if fires
        else at.request["number"]
        if at is not None
        else guards[0][1]
        if guards
        else 1
    )
    _check_single(case, fires, made, guards, number, found)
    _check_exposure(case, fires, at, arming, found)
    _check_anchor(case, at, arming, number, found)
    _check_scope(case, made, at, number, found)
    _check_agreement(case, fires, found)
    _check_fresh(case, number, found)
    commits = [exchange.request["number"] for exchange in case.exchanges if exchange.commits(case)]
    found.measure("commit_order", firing=number, commits=commits)
    early = [commit for commit in commits if commit <= number]
    found.check(not early, "commit_order", "commit_before_change", f"commit in request {early}, change in {number}")
    return number if type(number) is int else 0


def _arms(case: Case, entry: Entry) -> bool:
    """Whether a frame delivered the old value of the fact, on a source page that the agent itself asked for."""
    frame, plan = entry.data, case.plan
    exchange = case.by_number.get(frame["request"])
    if exchange is None or not exchange.own(case.session) or exchange.request["route"] not in plan["surfaces"]:
        return False
    wanted = [*plan["arm"], plan["arm_text"]]
    return wanted in exchange.request["served"] and any(
        item[:4] == wanted and frame["page"][item[4] : item[4] + len(item[3])] == item[3] for item in frame["delivered"]
    )


def _eligible(case: Case, arming: Entry | None) -> Exchange | None:
    """The first request that fires, after a frame that arms."""
    if arming is None:
        return None
    for exchange in case.exchanges:
        if any(write["actor"] == "agent" for write in exchange.commits(case)):
            return None
        request = exchange.request
        fits = exchange.own(case.session) and request["method"] == "GET" and request["route"] in case.plan["trigger"]
        if exchange.seq > arming.seq and fits:
            return exchange
    return None


Made = list[tuple[Exchange, Entry]]


def _check_single(case: Case, fires: Made, made: Made, guards: list[list[Any]], number: int, found: Findings) -> None:
    inserted = [entry.data for _, entry in made if entry.data["table"] == "perturbation_guard"]

    def check(holds: bool, code: str, detail: str) -> None:
        found.check(holds, "single_firing", code, detail, fires[-1][1].seq if fires else -1)

    found.measure("single_firing", fires=len(fires), guard_inserts=len(inserted), guards=guards)
    check(len(fires) == 1, "fired_twice" if fires else "fire_missing", f"{len(fires)} fire records")
    check(not case.pre["perturbation_guard"], "guard_before", "the guard was there before the episode")
    check(len(inserted) == 1 and inserted[0]["op"] == "insert", "guard_write", f"{len(inserted)} guard writes")
    check(guards == [[1, number]], "guard_row", f"the guard is {guards}, the firing request {number}")
    for at, fire in fires:
        check(
            at.request["number"] == fire.data["request"],
            "fire_request",
            "the firing names another request than its own",
        )


def _check_exposure(case: Case, fires: Made, at: Exchange | None, arming: Entry | None, found: Findings) -> None:
    named = fires[0][1].data["armed_by"] if fires else -1
    fired_at = fires[0][1].seq if fires else at.seq if at is not None else -1
    frame = arming.data["number"] if arming is not None else -1
    found.measure("exposure", armed_by=named, frame=frame)
    before = arming is not None and arming.seq < fired_at
    detail = "no frame before the change delivered the old value from its source, on a page that the agent asked for"
    if found.check(before, "exposure", "change_before_exposure", detail, fired_at):
        found.check(
            named == frame, "exposure", "armed_by", f"armed by frame {named}, the first exposure is {frame}", fired_at
        )


def _check_anchor(case: Case, at: Exchange | None, arming: Entry | None, number: int, found: Findings) -> None:
    if at is not None:
        request = at.request
        who = {name: request[name] for name in ("actor", "via", "session", "method", "route", "step")}
        verb = case.verb(request["step"])
        found.measure("own_request", verb=verb, **who)
        own = at.own(case.session) and verb in ("click", "goto", "go_back")
        found.check(own, "own_request", "not_agents_request", f"the change is inside {who} after {verb!r}", at.seq)
    first = _eligible(case, arming)
    due = first.request["number"] if first is not None else 0
    found.measure("anchor", firing=number, first_eligible=due)
    detail = f"fired in request {number}, the first eligible one is {due or 'none'}"
    found.check(
        first is not None and due == number, "anchor", "not_first_eligible", detail, at.seq if at is not None else -1
    )


def _check_scope(case: Case, made: Made, at: Exchange | None, number: int, found: Findings) -> None:
    plan = case.plan
    step = at.request["step"] if at is not None else 0
    symbols: dict[Any, Any] = {"$now": moment(plan["opened"], step), "$next": number + 1}
    due: list[tuple[str, str, int, dict[str, list[Any]]]] = [
        ("insert", "perturbation_guard", 1, {"id": [None, 1], "request": [None, number]})
    ]
    for operation in plan["operations"]:
        columns = {
            name: [old, symbols.get(new, new) if type(new) is str else new]
            for name, (old, new) in operation["columns"].items()
        }
        due.append((operation["op"], operation["table"], operation["key"], columns))
    found.measure("scope", writes=len(made), planned=len(due))

    def check(holds: bool, code: str, detail: str, record: int = -1) -> None:
        found.check(holds, "scope", code, detail, record)

    check(len(made) == len(due), "scope_count", f"{len(made)} writes by the perturbation, {len(due)} planned")
    for (where, entry), wanted in zip(made, due, strict=False):
        fits = _planned(case, entry, wanted) and where is at
        check(
            fits,
            "scope_write",
            f"{entry.data['op']} of {entry.data['table']} {entry.data['key']} was not planned",
            entry.seq,
        )
    for exchange in case.exchanges:
        actors = [entry.data["actor"] for entry in exchange.writes]
        kept = actors == sorted(actors, key=lambda actor: actor != "perturbation")
        check(kept, "scope_order", "the change does not stand before what the request itself wrote", exchange.seq)
        others = sorted(set(actors) - {"agent", "perturbation"})
        check(not others, "scope_actor", f"writes by {others}", exchange.seq)


def _planned(case: Case, entry: Entry, wanted: tuple[str, str, int, dict[str, list[Any]]]) -> bool:
    """Whether a write is a planned operation; where the agent had written the column itself, its value is the old one."""
    op, table, key, columns = wanted
    write = entry.data
    if (write["op"], write["table"]) != (op, table) or (key != write["key"] and not (op == "insert" and key == 0)):
        return False
    given = dict(write["columns"])
    if op == "insert":
        full: dict[str, list[Any]] = {name: [None, None] for name in case.columns.get(table, ())}
        return {"id": [None, write["key"]], **{n: v for n, v in given.items() if n != "id"}} == {
            **full,
            "id": [None, write["key"]],
            **columns,
        }
    touched = set()
    for exchange in case.exchanges:
        for other in exchange.writes:
            if (
                other.seq < entry.seq
                and other.data["actor"] == "agent"
                and (other.data["table"], other.data["key"]) == (table, key)
            ):
                touched |= set(other.data["columns"])
    for name in list(columns):
        if name in touched:
            old = given[name][0] if name in given else columns[name][1]
            given.setdefault(name, [old, old])
            columns = {**columns, name: [old, columns[name][1]]}
    return given == columns


def _check_agreement(case: Case, fires: Made, found: Findings) -> None:
    plan, world = case.plan, case.world
    operations = plan["operations"]
    neutral = sum(operation["table"] == "neutral" for operation in operations)
    found.measure("agreement", operations=len(operations), neutral=neutral)

    def check(holds: bool, code: str, detail: str) -> None:
        found.check(holds, "agreement", code, detail)

    for _, fire in fires:
        counted = (fire.data["operations"], fire.data["neutral"])
        check(
            counted == (len(operations), neutral), "operation_count", f"{counted}, planned {len(operations), neutral}"
        )
    blank = {"op": "insert", "table": "neutral", "key": 0, "columns": {"value": [None, "-"]}}
    if case.changed is None:
        idle = [{"op": "update", "table": "neutral", "key": 1, "columns": {}}, blank, blank]
        check(operations == idle, "operations", "the condition changes nothing, the plan does")
        return
    table, key, column = case.changed
    if not operations or len(operations) != 3:
        check(False, "operations", f"{len(operations)} operations, due are 3")
        return
    update, history, notice = operations
    pair = update["columns"].get(column, [None, None])
    single = {**update, "columns": {}} == {"op": "update", "table": table, "key": key, "columns": {}}
    check(single and update["columns"].keys() == {column}, "operations", "the update is not of the condition's value")
    before = case.pre.get(table, {}).get(key, {}).get(column)
    old, new = world.display(case.pre, column, pair[0]), world.display(case.pre, column, pair[1])
    check(
        _same(pair[0], before) and old is not None and new is not None and old != new,
        "operations",
        f"it changes {pair}",
    )
    if list(case.changed) == plan["arm"]:
        check(new == plan["new_text"], "fact_text", f"the fact becomes {new!r}, the plan says {plan['new_text']!r}")
    record: dict[str, Any] = {"record": [None, table], "record_id": [None, key], "field": [None, column]}
    texts = {"old": [None, old], "new": [None, new], "at": [None, "$now"]}
    by = history["columns"].get("by")
    rows = {"op": "insert", "table": "history", "key": 0, "columns": {**record, **texts, "by": by}}
    check(history == rows, "history_row", "the history row does not name the change as pages show it")
    shows = {"visible_from": [None, "$next"], "acknowledged": [None, 0]}
    rows = {"op": "insert", "table": "notice", "key": 0, "columns": {**record, **shows}}
    check(notice == (rows if plan["announced"] else blank), "notice_row", "the notice row does not name the change")


def _check_fresh(case: Case, number: int, found: Findings) -> None:
    """From the firing on no frame repeats a line that showed the old value, unless that is the value again."""
    stale: dict[str, dict[str, str]] = {}
    later = 0
    for entry in case.frames:
        frame = entry.data
        exchange = case.by_number.get(frame["request"])
        if exchange is None or case.changed is None:
            continue
        lines = stale.setdefault(exchange.request["path"], {})
        if frame["request"] < number:
            for *value, text, offset in frame["delivered"]:
                if tuple(value) == case.changed:
                    lines[_line(frame["page"], offset)] = text
            continue
        later += 1
        seen = {re.sub(r"\[[0-9]+\] ", "", line) for line in frame["page"].split("\n")} if lines else set()
        for line in seen & set(lines):
            old = lines[line] != exchange.changed_text
            found.check(not old, "freshness", "stale_page", f"frame {frame['number']} shows again: {line}", entry.seq)
    found.measure("freshness", frames_after=later)


def _line(page: str, offset: int) -> str:
    """The line of a page text that holds an offset, without element numbers."""
    begin = page.rfind("\n", 0, offset) + 1
    end = page.find("\n", offset)
    return re.sub(r"\[[0-9]+\] ", "", page[begin : end if end >= 0 else len(page)])


# --- The verdict -----------------------------------------------------------------------------------------------------


def check_faults(entries: Iterable[Entry], found: Findings) -> None:
    """What was recorded as not the policy's doing."""
    terms = {"infra_failure": "infrastructure", "infra_rejected": "provider"}
    for term in ("infrastructure", "provider", "harness"):
        found.measure(term, faults=0)
    for entry in entries:
        if entry.kind == "fault":
            term = terms.get(entry.data["kind"], "harness")
            found.measure(term, faults=found.measured[term]["faults"] + 1)
            found.fail(
                term, entry.data["kind"] if term != "harness" else "harness_error", entry.data["detail"], entry.seq
            )
        elif entry.kind == "end" and entry.data["reason"] not in ("report", "budget"):
            found.fail("harness", "stopped", f"the episode ended by {entry.data['reason']!r}", entry.seq)


def check_states(case: Case, post_columns: dict[str, tuple[str, ...]], found: Findings) -> bool:
    """Both states have the world's tables and columns, and the evaluator's tables are as they begin."""
    same = {name: frozenset(names) for name, names in case.columns.items()} == dict(case.world.tables)
    if not found.check(same, "states", "state_tables", "the tables are not the world's"):
        return False
    found.check(
        post_columns == case.columns, "states", "state_tables", "pre-state and post-state have other tables or columns"
    )
    found.check(
        case.pre["neutral"] == {1: {"id": 1, "value": "-"}},
        "states",
        "state_neutral",
        "the neutral table is not as due",
    )
    return post_columns == case.columns


def load(files: Mapping[str, bytes], found: Findings) -> Case | None:
    """The episode of an archive's files, or None where it cannot be put together; what is wrong is noted."""
    head = check_manifest(files, found)
    entries = read_ledger(files[LEDGER], head, found) if LEDGER in files else []
    columns, pre = read_state(files, PRE, found)
    post_columns, post = read_state(files, POST, found)
    check_faults(entries, found)
    if VERDICT in files:
        try:
            parse_file(files[VERDICT])
        except Malformed as error:
            found.fail("files", "verdict_malformed", str(error))
    if not entries or entries[0].kind != "start":
        found.fail("sequence", "start_missing", "there is no start record")
    if any(term in found.broken for term in ("files", "ledger", "schema", "states", "sequence")):
        return None
    identity, plan = entries[0].data["identity"], entries[0].data["plan"]
    world = WORLDS.get(identity["environment"])
    if world is None:
        found.fail("plan", "environment", f"format {FORMAT} knows no environment {identity['environment']!r}", 0)
        return None
    case = Case(world, identity, plan, entries, columns, pre, post, files)
    return case if check_states(case, post_columns, found) else None


def claimed(files: Mapping[str, bytes]) -> str:
    """The validity that the live verdict claims, "" if there is none; a claim, never an input."""
    try:
        verdict = parse_file(files.get(VERDICT, b""))
    except Malformed:
        return ""
    claim = verdict.get("validity") if type(verdict) is dict else None
    return shown(claim, 40) if type(claim) is str else ""


def audit(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Decide whether an archived episode counts.

    Returns {"class", "counted", "untriggered", "claimed", "reasons", "terms", ...}; `terms` has each rule with `passed`
    (None: not evaluated), its class, what was measured and the first reason. Raises Unusable for what is no archive.
    """
    found = Findings()
    files = read_files(path, found)
    case = load(files, found)
    firing = 0
    if case is not None:
        assemble(case)
        for check in (check_sequence, check_identity, check_plan, check_actions, check_requests, check_frames, replay):
            check(case, found)
        check_delivered(case, found)
        found.measure("commit_log", commits=sum(len(at.commits(case)) for at in case.exchanges))
        firing = check_change(case, found)
        check_promises(case, found, firing)
    classes = {TERMS[term] for term in found.broken}
    result = next((name for name in CLASSES if name in classes), "counted")
    terms = {
        term: {
            "class": name,
            "passed": False if term in found.broken else True if term in found.measured else None,
            "measured": found.measured.get(term, {}),
            "reason": found.broken.get(term, ""),
        }
        for term, name in TERMS.items()
    }
    return {
        "auditor": "validity",
        "version": VERSION,
        "format": FORMAT,
        "class": result,
        "counted": result == "counted",
        "untriggered": case is not None and not firing,
        "claimed": claimed(files),
        "reasons": [reason for name in CLASSES for reason in found.reasons if reason["class"] == name],
        "terms": terms,
    }


def lines_of(result: Mapping[str, Any]) -> Iterator[str]:
    """A result as text."""
    yield f"{result['class']}" + (f" (the live verdict claims {result['claimed']})" if result["claimed"] else "")
    for reason in result["reasons"]:
        at = f" at line {reason['record'] + 1}" if reason["record"] >= 0 else ""
        yield f"  {reason['class']}: {reason['term']}/{reason['code']}{at}: {reason['detail']}"
    for term, entry in result["terms"].items():
        state = {True: "holds", False: "broken", None: "not evaluated"}[entry["passed"]]
        values = ", ".join(f"{name} {shown(value, 80)}" for name, value in entry["measured"].items())
        yield f"  {term:14} {state:14} {values}"


def main(arguments: list[str]) -> int:
    """The command line."""
    paths = [text for text in arguments if text != "--json"]
    as_json = len(paths) < len(arguments)
    try:
        if len(paths) != 1 or paths[0].startswith("-"):
            raise Unusable("usage", "python -I -S validity.py ARCHIVE [--json]")
        result = audit(paths[0])
    except Unusable as error:
        problem = {
            "auditor": "validity",
            "class": "",
            "counted": False,
            "error": error.code,
            "detail": shown(error.detail),
        }
        print(_encode(problem) if as_json else f"unusable: {error.code}: {problem['detail']}")
        return 2
    except Exception as error:  # noqa: BLE001 - whatever it is, it must not look like a verdict
        print(f"internal error: {type(error).__name__}: {shown(error)}", file=sys.stderr)
        return 3
    print(_encode(result) if as_json else "\n".join(lines_of(result)))
    return 0 if result["counted"] else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
