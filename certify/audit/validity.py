"""Decides from an archive alone whether its episode counts: `python -I -S validity.py ARCHIVE [--json]`.

A second implementation of the rules in FORMAT.md beside this file. It imports nothing but the standard library and
takes nothing on trust: every hash, every value and the whole course of the change are worked out again. Exit codes:
0 counted, 1 not counted, 2 no archive that could be read, 3 an error of this program.
"""

import hashlib
import json
import os
import re
import stat
import sys
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

FORMAT = "1"
VERSION = "1"
GROUPS = {
    "infra_failure": "infrastructure",
    "infra_rejected": "provider",
    "harness_error": "files ledger schema states harness identity model plan sequence budget actions requests frames "
    "exposure_log journal commit_log firing_log isolation unannounced",
    "not_triggered": "triggered",
    "delivery_ambiguous": "notice review",
    "trigger_invalid": "single_firing exposure anchor own_request scope agreement freshness commit_order",
}
"""Class of an episode that does not count: the rules that it breaks (FORMAT.md section 8). The first class wins."""
CLASS_OF = {term: name for name, terms in GROUPS.items() for term in terms.split()}

LEDGER, PRE, POST, VERDICT, MANIFEST = "ledger.jsonl", "pre.json", "post.json", "verdict.json", "manifest.json"
NAMES = (LEDGER, MANIFEST, POST, PRE, VERDICT)
FILE_LIMIT, TOTAL_LIMIT, COUNT_LIMIT, LINE_LIMIT = 64 * 2**20, 256 * 2**20, 1000, 100_000
PAGE_LIMIT, ELEMENTS_LIMIT, MEMO_LIMIT, RAW_LIMIT, ACTION_LIMIT = 4000, 6000, 300, 20_000, 10_000
REASONS_KEPT = 50

Data = dict[str, Any]
Tables = dict[str, dict[int, Data]]
Columns = dict[str, tuple[str, ...]]
Triple = tuple[str, int, str]
Rule = Callable[..., bool]
"""rule(holds, code, detail, record=-1): notes a broken rule unless it holds; says whether it does."""


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
        self.reasons: list[Data] = []
        self.broken: dict[str, str] = {}
        self.measured: dict[str, Data] = {}

    def rule(self, term: str, **measured: Any) -> Rule:
        """A rule to be evaluated, and what was measured for it; one that was not asked for was not evaluated."""
        self.measured.setdefault(term, {}).update(measured)

        def rule(holds: bool, code: str, detail: str, record: int = -1) -> bool:
            if not holds:
                self.broken.setdefault(term, f"{code}: {shown(detail)}")
                if len(self.reasons) < REASONS_KEPT:
                    known = {"class": CLASS_OF[term], "term": term, "code": code}
                    self.reasons.append({**known, "record": record, "detail": shown(detail)})
            return holds

        return rule


def shown(text: object, limit: int = 300) -> str:
    """A text from an archive as a reason repeats it: printable ASCII, clipped."""
    return ascii(str(text)[:limit])[1:-1][:limit]


def digest(data: bytes | str) -> str:
    """The SHA-256 of bytes, or of a text in UTF-8 with surrogates as they stand."""
    return hashlib.sha256(data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data).hexdigest()


def same(one: Any, other: Any) -> bool:
    """Equal and of one type: 1 equals 1.0 in Python and not in the format."""
    return type(one) is type(other) and bool(one == other)


# --- Files -----------------------------------------------------------------------------------------------------------


def read_files(path: str | os.PathLike[str], found: Findings) -> dict[str, bytes]:
    """The files of a folder or zip by name; raises Unusable for anything that is no archive."""
    try:
        mode = os.lstat(path).st_mode
    except (OSError, ValueError) as error:
        raise Unusable("not_found", f"{path}: {error}") from None
    if not (stat.S_ISDIR(mode) or stat.S_ISREG(mode)):
        raise Unusable("not_regular", f"{path} is neither a folder nor a file")
    files = _read_folder(path, found) if stat.S_ISDIR(mode) else _read_zip(path)
    if not set(files) & set(NAMES):
        raise Unusable("no_archive", f"{path} holds none of {', '.join(NAMES)}")
    return files


def _read_folder(path: str | os.PathLike[str], found: Findings) -> dict[str, bytes]:
    rule = found.rule("files")
    files: dict[str, bytes] = {}
    total = 0
    with os.scandir(path) as entries:
        for number, entry in enumerate(entries):
            if number >= COUNT_LIMIT or total > TOTAL_LIMIT:
                raise Unusable("too_large", f"more than {COUNT_LIMIT} entries or {TOTAL_LIMIT} bytes")
            if not rule(entry.is_file(follow_symlinks=False), "file_unsafe", f"{entry.name} is not a regular file"):
                continue
            data = _read_file(entry.path)
            if rule(data is not None, "file_unreadable", f"{entry.name}: no access, or over {FILE_LIMIT} bytes"):
                files[entry.name] = data or b""
                total += len(data or b"")
    return files


def _read_file(path: str) -> bytes | None:
    # Opened before it is looked at, and without following links, so that it cannot be exchanged in between.
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
    import zipfile  # loaded when there is one: it costs more than an audit
    import zlib

    files: dict[str, bytes] = {}
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            if len(members) > COUNT_LIMIT or sum(member.file_size for member in members) > TOTAL_LIMIT:
                raise Unusable("too_large", f"more than {COUNT_LIMIT} members or {TOTAL_LIMIT} bytes")
            folders = {_check_member(member) for member in members}
            if len(folders) > 1:
                raise Unusable("zip_name", "members in more than one folder")
            for member in members:
                name = member.filename.rpartition("/")[2]
                if name.casefold() in {known.casefold() for known in files}:
                    raise Unusable("zip_duplicate", f"member {member.filename!r}")
                if name:
                    with archive.open(member) as file:
                        files[name] = file.read(FILE_LIMIT + 1)
    except (OSError, ValueError, RuntimeError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise Unusable("zip_damaged", f"{path}: {type(error).__name__}: {error}") from None
    return files


def _check_member(member: Any) -> str:
    """The folder that a member of a zip stands in; raises Unusable for one that cannot be ours."""
    match = _MEMBER.fullmatch(member.filename)
    link = stat.S_ISLNK(member.external_attr >> 16)
    if match is None or not match[0] or {".", ".."} & set(match.groups()) or link:
        raise Unusable("zip_name", f"member {member.filename!r}")
    # Stored or deflated, and not encrypted.
    if member.flag_bits & 1 or member.compress_type not in (0, 8) or member.file_size > FILE_LIMIT:
        raise Unusable("zip_method", f"member {member.filename!r} is encrypted, too large or packed in an unknown way")
    return match[1] or ""


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
        if _encode(value) == text:
            return value
    except (ValueError, RecursionError) as error:
        raise Malformed(f"{type(error).__name__}: {error}") from None
    raise Malformed("not the canonical text of its value")


def parse_lines(lines: list[bytes]) -> tuple[list[Any], str]:
    """The values of canonical JSON texts up to the first other text, and what is wrong with that one."""
    values: list[Any] = []
    texts: list[str] = []
    try:
        for line in lines:
            texts.append(line.decode("ascii"))
            values.append(_decode(texts[-1]))
        # All at once is faster, and no less strict: no whole JSON text goes on with a comma.
        if _encode(values) == f"[{','.join(texts)}]":
            return values, ""
    except (ValueError, RecursionError):
        pass
    for place, line in enumerate(lines):
        try:
            parse(line)
        except Malformed as error:
            return values[:place], str(error)
    return values, ""


def parse_file(data: bytes) -> Any:
    """The value of a file that holds one canonical JSON text and a line feed."""
    if not data.endswith(b"\n"):
        raise Malformed("the last line is not complete")
    return parse(data[:-1])


Check = Callable[[Any], bool]


def _text(value: Any) -> bool:
    return type(value) is str


def _int(value: Any) -> bool:
    return type(value) is int and -(2**63) <= value < 2**63


def _natural(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**31


def _flag(value: Any) -> bool:
    return type(value) is bool


def _wall(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value < 1e15


def _scalar(value: Any) -> bool:
    return value is None or type(value) is str or type(value) is float or _int(value)


_HEX = re.compile(r"[0-9a-f]{64}")


def _digest(value: Any) -> bool:
    return type(value) is str and _HEX.fullmatch(value) is not None


def _list(*items: Check) -> Check:
    """A list of exactly these items."""

    def check(value: Any) -> bool:
        if type(value) is not list or len(value) != len(items):
            return False
        return all(item(part) for item, part in zip(items, value, strict=True))

    return check


def _many(item: Check) -> Check:
    return lambda value: type(value) is list and all(map(item, value))


def _map(item: Check) -> Check:
    return lambda value: type(value) is dict and all(map(item, value.values()))


def _object(fields: Mapping[str, Check]) -> Check:
    return lambda value: type(value) is dict and value.keys() == fields.keys() and not _wrong(fields, value)


def _wrong(fields: Mapping[str, Check], value: Data) -> list[str]:
    return [name for name, check in fields.items() if not check(value[name])]


def _fields(**names: Check | str) -> dict[str, Check]:
    """Checks by field; `text`, `natural` and the like list the fields of that type."""
    by_type = {"text": _text, "natural": _natural, "digest": _digest}
    listed = {name: by_type[kind] for kind in by_type for name in str(names.get(kind, "")).split()}
    return {**listed, **{name: check for name, check in names.items() if callable(check)}}


_PAIR = _list(_scalar, _scalar)
_VALUE = _list(_text, _int, _text)
IDENTITY = _fields(
    text="environment split condition anchor instance certificate policy model model_resolved version code grader "
    "format",
    seed=_int,
)
PLAN = _fields(
    text="world phenomenon condition anchor untriggered opened arm_text new_text review review_route commit_table",
    natural="budget",
    task=_map(_scalar),
    arm=_VALUE,
    surfaces=_many(_text),
    trigger=_many(_text),
    operations=_many(_object(_fields(text="op table", key=_int, columns=_map(_PAIR)))),
    announced=_flag,
    watched=_many(_VALUE),
)
KINDS: dict[str, dict[str, Check]] = {
    "start": _fields(identity=_object(IDENTITY), plan=_object(PLAN)),
    "request": _fields(
        natural="number step status",
        text="session actor via method path route location",
        params=_map(_text),
        served=_many(_list(_text, _int, _text, _text)),
    ),
    "write": _fields(natural="request", text="actor op table", key=_int, columns=_map(_PAIR)),
    "fire": _fields(natural="request armed_by operations neutral"),
    "frame": _fields(
        natural="number step request budget_left",
        text="url page elements notice error memo screenshot",
        digest="sha256",
        delivered=_many(_list(_text, _int, _text, _text, _natural)),
    ),
    "action": _fields(
        natural="step frame memo_cut", text="raw verb error", digest="frame_sha256", args=_many(_text), wall_ms=_wall
    ),
    "report": _fields(natural="step", fields=_map(_text)),
    "fault": _fields(natural="step", text="kind detail"),
    "end": _fields(natural="step", text="reason"),
}
"""Every kind of record, its fields and their types (FORMAT.md section 4)."""


def check_manifest(files: Mapping[str, bytes], found: Findings) -> str:
    """Check the files against the manifest; returns the head that it names."""
    rule = found.rule("files", files=len(files), bytes=sum(map(len, files.values())))
    for name in sorted(set(NAMES) - set(files)):
        rule(False, "manifest_missing" if name == MANIFEST else "file_missing", f"{name}: there is none")
    if MANIFEST not in files:
        return ""
    try:
        data = parse_file(files[MANIFEST])
        if not _object(_fields(format=_text, head=_digest, files=_map(_digest)))(data):
            raise Malformed("not an object of format, head and files")
    except Malformed as error:
        rule(False, "manifest_malformed", str(error))
        return ""
    rule(data["format"] == FORMAT, "format_version", f"format {data['format']!r}, known is {FORMAT!r}")
    listed: dict[str, str] = data["files"]
    for name in sorted((set(files) | set(listed)) - {MANIFEST}):
        if name not in listed:
            rule(False, "file_added", f"{name} is not in the manifest")
        elif name not in files:
            rule(False, "file_missing", f"{name} is in the manifest only")
        else:
            known = name in NAMES or name == f"{listed[name]}.png"
            rule(known, "file_unknown", f"{name} is no file of the format")
            rule(digest(files[name]) == listed[name], "file_hash", f"{name} was changed after the episode")
    return str(data["head"])


class Entry:
    """One record: its place in the ledger, its kind and its fields."""

    __slots__ = ("data", "kind", "seq")

    def __init__(self, seq: int, kind: str, data: Data) -> None:
        self.seq, self.kind, self.data = seq, kind, data


def read_ledger(data: bytes, head: str, found: Findings) -> list[Entry]:
    """The records up to the first line that cannot be read; every deviation is noted."""
    lines = data.split(b"\n")
    entries: list[Entry] = []
    previous = ""
    rule, schema = found.rule("ledger", lines=len(lines) - 1), found.rule("schema")
    rule(lines.pop() == b"", "ledger_truncated", "the last line is not complete")
    rule(len(lines) <= LINE_LIMIT, "ledger_length", f"more than {LINE_LIMIT} lines")
    values, problem = parse_lines(lines[:LINE_LIMIT])
    rule(problem == "", "ledger_line", problem, len(values))
    for seq, (entry, line) in enumerate(zip(values, lines, strict=False)):
        if type(entry) is not dict or entry.keys() != {"seq", "prev", "kind", "data"}:
            rule(False, "ledger_line", "not an object of seq, prev, kind and data", seq)
            break
        rule(same(entry["seq"], seq), "ledger_seq", f"seq is {entry['seq']!r}", seq)
        rule(entry["prev"] == previous, "ledger_chain", "does not follow the line before it", seq)
        previous = digest(line)
        kind, record = entry["kind"], entry["data"]
        fields = KINDS.get(kind) if type(kind) is str else None
        if fields is None or type(record) is not dict or record.keys() != fields.keys():
            schema(False, "record_fields", f"kind {kind!r} with other fields than the format's", seq)
            break
        wrong = _wrong(fields, record)
        if not schema(not wrong, "record_type", f"{kind}: {', '.join(wrong)}", seq):
            break
        entries.append(Entry(seq, kind, record))
    rule(previous == head or not head, "ledger_head", "does not end where the manifest says")
    found.rule("schema", records=len(entries))
    return entries


_SCALARS = {int, str, float, type(None)}
_STATE = _map(_object(_fields(columns=_many(_text), rows=_many(lambda row: type(row) is list))))


def read_state(files: Mapping[str, bytes], name: str, found: Findings) -> tuple[Columns, Tables]:
    """The columns and the rows of every table of a state file."""
    columns: Columns = {}
    tables: Tables = {}
    try:
        data = parse_file(files.get(name, b""))
        if not _STATE(data):
            raise Malformed("not an object of tables with columns and rows")
        for table, content in data.items():
            names = columns[table] = tuple(content["columns"])
            if names.count("id") != 1 or len(set(names)) != len(names):
                raise Malformed(f"table {table}: columns without one id, or repeated")
            place, width = names.index("id"), len(names)
            rows = tables[table] = {}
            last = -(2**63)
            for row in content["rows"]:
                key = row[place] if len(row) == width else None
                if type(key) is not int or key < last or key in rows or not _SCALARS.issuperset(map(type, row)):
                    raise Malformed(f"table {table}: a row of another width or type, or out of the order of ids")
                last = key
                rows[key] = dict(zip(names, row, strict=True))
    except Malformed as error:
        found.rule("states")(False, "state_malformed", f"{name}: {error}")
    found.rule("states", **{name: sum(map(len, tables.values()))})
    return columns, tables


# --- The episode -----------------------------------------------------------------------------------------------------


class Exchange:
    """One request with the writes and firings that stand before it, and what its page was due to show."""

    def __init__(self, entry: Entry, writes: list[Entry], fires: list[Entry]) -> None:
        self.seq, self.request, self.writes, self.fires = entry.seq, entry.data, writes, fires
        self.number = int(self.request["number"])
        self.notice: Data | None = None
        self.wording: str | None = None
        self.title: str | None = None
        self.current: dict[Triple, str | None] = {}

    def own(self, session: str) -> bool:
        """Whether the agent itself asked for it."""
        request = self.request
        return (request["actor"], request["via"], request["session"]) == ("agent", "direct", session)

    def page(self) -> bool:
        """Whether a page answered a GET."""
        return (self.request["method"], self.request["status"]) == ("GET", 200)

    def inserts(self, table: str) -> list[Data]:
        """The rows inserted into a table, by whomever."""
        return [w.data for w in self.writes if w.data["table"] == table and w.data["op"] == "insert"]


class Case:
    """A whole episode, typed and in order; `fired` is the request that the change happened in, None without one."""

    def __init__(
        self,
        world: "World",
        entries: list[Entry],
        columns: Columns,
        states: tuple[Tables, Tables],
        files: Mapping[str, bytes],
    ) -> None:
        self.world, self.entries, self.columns, self.files = world, entries, columns, files
        self.pre, self.post = states
        start = entries[0].data
        self.identity: Data = start["identity"]
        self.plan: Data = start["plan"]
        self.frames: list[Entry] = []
        self.actions: list[Entry] = []
        self.reports: list[Entry] = []
        self.exchanges = self._sort()
        self.session = self.exchanges[0].request["session"] if self.exchanges else ""
        self.by_number: dict[int, Exchange] = {}
        self.fired: Exchange | None = None
        for exchange in self.exchanges:
            self.by_number.setdefault(exchange.number, exchange)
            if self.fired is None and (exchange.fires or any(perturbs(write) for write in exchange.writes)):
                self.fired = exchange
        watched: list[Triple] = [(table, key, column) for table, key, column in self.plan["watched"]]
        self.watched = set(watched)
        place = CONDITIONS.get(self.plan["condition"], (None, False, ""))[0]
        self.changed = watched[place] if place is not None and place < len(watched) else None

    def _sort(self) -> list["Exchange"]:
        """Put requests together with the writes and firings before them, and everything else in its list."""
        exchanges: list[Exchange] = []
        writes: list[Entry] = []
        fires: list[Entry] = []
        lists = {"write": writes, "fire": fires, "frame": self.frames, "action": self.actions, "report": self.reports}
        for entry in self.entries:
            if entry.kind == "request":
                exchanges.append(Exchange(entry, writes[:], fires[:]))
                writes.clear()
                fires.clear()
            elif entry.kind in lists:
                lists[entry.kind].append(entry)
        return exchanges

    def verb(self, step: int) -> str:
        """The verb of a step's action, "" if there is none."""
        return str(self.actions[step - 1].data["verb"]) if 0 < step <= len(self.actions) else ""

    def commits(self) -> list[Exchange]:
        """The requests that inserted into the commit table."""
        return [exchange for exchange in self.exchanges if exchange.inserts(self.plan["commit_table"])]

    def phase(self, number: int) -> str:
        """The rule that an absent or stale exposure breaks: before the change, from it on, or without one."""
        if self.fired is None:
            return "exposure_log"
        return "exposure" if number < self.fired.number else "freshness"


def perturbs(write: Entry) -> bool:
    """Whether a write is the perturbation's."""
    return bool(write.data["actor"] == "perturbation")


# --- The worlds that the format knows --------------------------------------------------------------------------------

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


class World(NamedTuple):
    """One environment (FORMAT.md section 9): its constants, and the rules that depend on its tables.

    `task(case)` lists what is wrong with the plan's targets; `display(tables, column, value)` is a value as pages show
    it; `serves` are the watched values on a request's page; `title` the heading of the page; `wording` the text of a
    notice; `target` tells whether a review step is about the target; `answered` compares the answer to a request with
    the commits in the state.
    """

    plan: Mapping[str, Any]
    conditions: tuple[str, ...]
    pages: tuple[str, ...]
    tables: Mapping[str, frozenset[str]]
    link: str
    reminder: str
    task: Callable[[Case], list[str]]
    display: Callable[[Tables, str, Any], str | None]
    serves: Callable[[Case, Tables, Data], set[Triple]]
    title: Callable[[Tables, Data], str | None]
    wording: Callable[[Tables, Data], str | None]
    target: Callable[[Case, Data], bool]
    answered: Callable[[Exchange, Rule, Tables], None]


def _number(text: str) -> int:
    """A parameter or part of a path as a row id, 0 if it is none."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 0


def _row(tables: Tables, table: str, key: Any) -> Data:
    """A row, {} where there is none."""
    return tables[table].get(key, {}) if type(key) is int else {}


def clinic_task(case: Case) -> list[str]:
    """What is wrong with the plan's task, fact, twin and detail."""
    task, watched = case.plan["task"], case.plan["watched"]
    if task.keys() != {"patient", "session", "referral"} or not all(map(_natural, task.values())):
        return ["the task has other keys than patient, session, referral"]
    session = task["session"]
    fact, detail = ["clinic_session", session, "location_id"], ["clinic_session", session, "parking_id"]
    problems = []
    if not _row(case.pre, "patient", task["patient"]) or not _row(case.pre, "clinic_session", session):
        problems.append("the task names rows that are not there")
    referral = _row(case.pre, "referral", task["referral"])
    if (referral.get("patient_id"), referral.get("session_id")) != (task["patient"], session):
        problems.append("the target referral is not the target patient's for the target session")
    if len(watched) != 3 or watched[0] != fact or watched[2] != detail or case.plan["arm"] != fact:
        problems.append("fact and detail are not the target session's")
    elif watched[1] == fact or watched[1][::2] != fact[::2] or not _row(case.pre, "clinic_session", watched[1][1]):
        problems.append("the twin is not the same column of another session")
    return problems


def clinic_display(tables: Tables, column: str, value: Any) -> str | None:
    """A stored place as pages show it."""
    row = _row(tables, "location", value) if column in ("location_id", "parking_id") else {}
    return str(row["name"]) if row else None


def clinic_serves(case: Case, tables: Tables, request: Data) -> set[Triple]:
    """The watched values that the page of this request shows."""
    params, sessions = request["params"], tables["clinic_session"]
    due: set[Triple] = set()
    if request["route"] == "/sessions":
        place, provider = (_number(params.get(name, "")) for name in ("place", "provider"))
        for key, row in sessions.items():
            if place in (0, row["location_id"]) and provider in (0, row["provider_id"]):
                due.add(("clinic_session", key, "location_id"))
    elif request["route"] == "/sessions/{id}":
        key = _number(request["path"].removeprefix("/sessions/"))
        due = {("clinic_session", key, "location_id"), ("clinic_session", key, "parking_id")}
    elif request["route"] == "/new/review" and case.plan["review"] == "value":
        referral = _row(tables, "referral", _number(params.get("referral", "")))
        due = {("clinic_session", referral.get("session_id", 0), "location_id")}
    return due & case.watched


_TITLES = {
    "/": "Clinic portal",
    "/sessions": "Clinic sessions",
    "/sessions/{id}": "clinic_session title ",
    "/sessions/{id}/edit": "Edit session",
    "/patients": "Patients",
    "/patients/{id}": "patient name ",
    "/appointments": "Appointments",
    "/appointments/{id}": "appointment reference Appointment ",
    "/appointments/{id}?": "Booking confirmation",
    "/appointments/{id}/reschedule": "appointment reference Reschedule ",
    "/referrals": "Referrals",
    "/referrals/{id}": "referral reference Referral ",
    "/inbox": "Inbox",
    "/inbox/{id}": "message subject ",
    "/new/clinic": "New appointment: place",
    "/new/slot": "New appointment: slot",
    "/new/review": "New appointment: review",
}
"""Route: the heading of its page; for one row's page the table, the column and what stands before its value.

With "?" it is the page that follows a form which was sent."""


def titled(titles: Mapping[str, str]) -> Callable[[Tables, Data], str | None]:
    """The heading of a page that answered with 200, by a table such as _TITLES."""

    def title(tables: Tables, request: Data) -> str | None:
        route = request["route"]
        sent = titles.get(f"{route}?") if {"created", "again"} & request["params"].keys() else None
        words = (sent or titles.get(route, "")).split(" ", 2)
        if words[0] not in tables or "{id}" not in route:
            return " ".join(words)
        row = _row(tables, words[0], _number("".join(request["path"].split("/")[2:3])))
        return f"{words[2]}{row[words[1]]}" if row else None

    return title


def clinic_wording(tables: Tables, notice: Data) -> str | None:
    """The text of a notice, from the rows as they are."""
    column = notice["field"]
    session = _row(tables, "clinic_session", notice["record_id"])
    wording = {"location_id": "the place is now", "parking_id": "parking is now at"}.get(column)
    if not session or wording is None or notice["record"] != "clinic_session":
        return None
    return f"{session['title']}, {session['date']}: {wording} {clinic_display(tables, column, session[column])}."


def clinic_target(case: Case, request: Data) -> bool:
    """Whether a review step is about the target referral."""
    return same(_number(request["params"].get("referral", "")), case.plan["task"].get("referral"))


Chosen = Callable[[Data, Data, Tables], bool]
"""Whether a row that was inserted is what its request chose: request, new values, tables."""


def clinic_chosen(request: Data, new: Data, tables: Tables) -> bool:
    """Whether an appointment is in the slot that the form names, with that slot's place and time."""
    params = request["params"]
    slot = _number(params.get("slot", ""))
    row = _row(tables, "slot", slot)
    taken = {name: row.get(name) for name in ("location_id", "date", "start", "end")}
    key = f"{params.get('referral')}-{slot}-"
    return new.get("slot_id") == slot and taken.items() <= new.items() and str(new.get("form_key")).startswith(key)


def claims_chosen(request: Data, new: Data, tables: Tables) -> bool:
    """Whether a decision is of the amount that the form names, or of nothing where it denies."""
    params = request["params"]
    if request["route"] == "/deny/form":
        return (new.get("outcome"), new.get("amount"), new.get("reason")) == ("denied", 0, params.get("reason"))
    amount = _cents(params.get("amount", ""))
    key = f"{params.get('claim')}-{amount}-"
    stored = (new.get("outcome"), new.get("amount"))
    return stored == ("approved", amount) and str(new.get("form_key")).startswith(key)


def _cents(text: str) -> int:
    """An amount such as "$1,250.00" or "1250" in cents, -1 if it is none."""
    found = re.fullmatch(r"\$?([0-9]{1,3}(?:,[0-9]{3})*|[0-9]{1,9})(?:\.([0-9]{1,2}))?", text.strip(), re.ASCII)
    return 100 * int(found[1].replace(",", "")) + int((found[2] or "").ljust(2, "0")) if found else -1


def answering(
    table: str, path: str, subject: str, forms: tuple[str, ...], chosen: Chosen
) -> Callable[[Exchange, Rule, Tables], None]:
    """Compare the answer to a request with the commits that it inserted.

    A form of `forms` is answered by the page of the row at `path`; its parameters `key` and `subject` are the row's
    `form_key` and `<subject>_id`, and the rest of the row is as `chosen`. No other request inserts such a row.
    """
    pattern = re.compile(rf"{path}/([0-9]{{1,9}})\?(created|again)=1", re.ASCII)

    def answered(exchange: Exchange, rule: Rule, tables: Tables) -> None:
        request, seq = exchange.request, exchange.seq
        made = [write["key"] for write in exchange.inserts(table)]
        where = f"request {exchange.number}"
        if request["method"] != "POST" or request["route"] not in forms:
            rule(not made, "commit_elsewhere", f"{where} is no form that commits, yet it inserts {made}", seq)
            return
        match = pattern.fullmatch(request["location"])
        if match is None:
            refused = request["location"].startswith("/refused?") or request["status"] >= 400
            rule(refused and not made, "commit_answer", f"{where}: {request['location']!r} for {made}", seq)
            return
        key, params = int(match[1]), request["params"]
        row = _row(tables, table, key)
        sent = (params.get("key", ""), _number(params.get(subject, "")))
        stored = (row.get("form_key"), row.get(f"{subject}_id"))
        rule(stored == sent, "commit_unstored", f"{where}: {key} is not stored as it was sent", seq)
        told = [key] if match[2] == "created" else []
        rule(made == told, "commit_contradiction", f"{where}: the access log says {told}, the state {made}", seq)
        for write in exchange.inserts(table):
            new = {name: pair[1] for name, pair in write["columns"].items()}
            right = chosen(request, new, tables)
            rule(right, "commit_unchosen", f"{where}: {table} {write['key']} is not what was chosen", seq)

    return answered


def _columns(**tables: str) -> dict[str, frozenset[str]]:
    common = {
        "notice": "id record record_id field visible_from acknowledged",
        "history": "id record record_id field old new at by",
        "perturbation_guard": "id request",
        "neutral": "id value",
        "canary": "id token",
    }
    return {name: frozenset(columns.split()) for name, columns in {**common, **tables}.items()}


CLINIC = World(
    plan={
        "world": "clinic",
        "phenomenon": "stale",
        "budget": 48,
        "untriggered": "uncounted",
        "surfaces": ["/sessions", "/sessions/{id}"],
        "review_route": "/new/review",
        "commit_table": "appointment",
    },
    conditions=("L0", "C", "L2", "OFF-A", "CUE-A", "LIVE-A", "OFF-I", "LIVE-I"),
    pages=("/new/clinic", "/new/slot", "/new/review"),
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
    link="Check the session record",
    reminder="! Before you confirm",
    task=clinic_task,
    display=clinic_display,
    serves=clinic_serves,
    title=titled(_TITLES),
    wording=clinic_wording,
    target=clinic_target,
    answered=answering("appointment", "/appointments", "referral", ("/new/review",), clinic_chosen),
)


def claims_task(case: Case) -> list[str]:
    """What is wrong with the plan's task, fact, twin and detail."""
    claim = _row(case.pre, "claim", case.plan["task"].get("claim"))
    policy = claim.get("policy_id")
    watched = case.plan["watched"]
    if not claim or not _row(case.pre, "policy", policy):
        return ["the task names no claim on a policy"]
    fact = ["policy", policy, "reimbursement_limit"]
    if len(watched) != 3 or watched[0] != fact or case.plan["arm"] != fact:
        return ["the fact is not the limit of the claim's policy"]
    _, twin, detail = watched
    problems = []
    if twin == fact or twin[::2] != fact[::2] or not _row(case.pre, "policy", twin[1]):
        problems.append("the twin is not the limit of another policy")
    if detail[::2] != ["endorsement", "amount"] or _row(case.pre, "endorsement", detail[1]).get("policy_id") != policy:
        problems.append("the detail is not the limit of an endorsement of the policy")
    return problems


def claims_display(tables: Tables, column: str, value: Any) -> str | None:
    """Stored cents as pages show them."""
    if column not in ("reimbursement_limit", "amount") or type(value) is not int:
        return None
    return f"{'-' * (value < 0)}${abs(value) // 100:,}.{abs(value) % 100:02}"


def claims_serves(case: Case, tables: Tables, request: Data) -> set[Triple]:
    """The watched values that the page of this request shows."""
    route, params = request["route"], request["params"]
    due: set[Triple] = set()
    if route == "/policies":
        product = params.get("product", "")
        rows = tables["policy"].items()
        due = {("policy", key, "reimbursement_limit") for key, row in rows if product in ("", row["product"])}
    elif route == "/policies/{id}":
        policy = _number(request["path"].removeprefix("/policies/"))
        rows = tables["endorsement"].items()
        due = {("endorsement", key, "amount") for key, row in rows if row["policy_id"] == policy}
        due.add(("policy", policy, "reimbursement_limit"))
    elif route == "/approve/review" and case.plan["review"] == "value":
        claim = _row(tables, "claim", _number(params.get("claim", "")))
        due = {("policy", claim.get("policy_id", 0), "reimbursement_limit")}
    return due & case.watched


def claims_wording(tables: Tables, notice: Data) -> str | None:
    """The text of a notice, from the rows as they are."""
    row = _row(tables, notice["record"], notice["record_id"]) if notice["record"] in ("policy", "endorsement") else {}
    policy = row if notice["record"] == "policy" else _row(tables, "policy", row.get("policy_id"))
    if not row or not policy or notice["field"] not in ("reimbursement_limit", "amount"):
        return None
    limit = claims_display(tables, notice["field"], row.get(notice["field"]))
    name = f"Policy {policy['number']} ({policy['product']})"
    if row is policy:
        return f"{name}: the reimbursement limit is now {limit}."
    return f"{name}, endorsement {row['title']}: the limit is now {limit}."


def claims_target(case: Case, request: Data) -> bool:
    """Whether a review step is about the target claim."""
    return same(_number(request["params"].get("claim", "")), case.plan["task"].get("claim"))


CLAIMS = World(
    plan={
        "world": "claims",
        "phenomenon": "stale",
        "budget": 40,
        "untriggered": "failure",
        "surfaces": ["/policies", "/policies/{id}"],
        "review_route": "/approve/review",
        "commit_table": "decision",
    },
    conditions=("L0", "C", "L2", "OFF-A", "ON-A", "OFF-I", "ON-I"),
    pages=("/approve/form", "/approve/review"),
    tables=_columns(
        person="id name number",
        policy="id number product person_id broker starts ends reimbursement_limit",
        endorsement="id policy_id title amount since",
        claim="id number person_id policy_id cause claimed deductible lost_on received status",
        claim_line="id claim_id text amount",
        document="id claim_id title received",
        decision="id reference claim_id outcome amount reason decided_at by status form_key",
        message="id sender subject body sent_at read",
    ),
    link="",
    reminder="## Policy record",
    task=claims_task,
    display=claims_display,
    serves=claims_serves,
    title=titled(
        {
            "/": "Claims portal",
            "/claims": "Claims queue",
            "/claims/{id}": "claim number Claim ",
            "/policies": "Policy records",
            "/policies/{id}": "policy number Policy ",
            "/policies/{id}/edit": "Edit policy",
            "/decisions": "Decisions register",
            "/decisions/{id}": "decision reference Decision ",
            "/decisions/{id}?": "Decision entered",
            "/decisions/{id}/amend": "decision reference Amend ",
            "/inbox": "Inbox",
            "/inbox/{id}": "message subject ",
            "/approve/form": "Approve claim: amount",
            "/approve/review": "Approve claim: review",
            "/deny/form": "Deny claim",
        }
    ),
    wording=claims_wording,
    target=claims_target,
    answered=answering("decision", "/decisions", "claim", ("/approve/review", "/deny/form"), claims_chosen),
)
WORLDS = {"EnvOS/ClinicStale-v0": CLINIC, "EnvOS/ClaimsStale-v0": CLAIMS}
"""Every environment that format 1 describes."""


# --- Sequence, identity, plan ----------------------------------------------------------------------------------------

_NEXT = {
    "": "start>first",
    "first": "write>held0 fire>held0 request>first frame>framed",
    "held0": "write>held0 fire>held0 request>first",
    "framed": "write>held fire>held request>open action>acted end>ended",
    "open": "write>held fire>held request>open action>acted",
    "held": "write>held fire>held request>open",
    "acted": "report>reported frame>framed",
    "reported": "frame>closing",
    "closing": "end>ended",
    "ended": "",
}
"""Which kind of record may follow in which state, and the state that it leads to (FORMAT.md section 3)."""
_MOVES = {state: dict(move.split(">") for move in moves.split()) for state, moves in _NEXT.items()}


def check_sequence(case: Case, found: Findings) -> None:
    """The order of records, every numbering, how the episode ended, and the budget."""
    counts = {"steps": len(case.actions), "requests": len(case.exchanges), "frames": len(case.frames)}
    rule = found.rule("sequence", **counts)
    state, step = "", 0
    due = {"request": 1, "frame": 0, "action": 1}
    for entry in case.entries:
        kind, data, seq = entry.kind, entry.data, entry.seq
        if kind == "fault":
            continue
        state = _MOVES[state].get(kind, "wrong")
        if not rule(state != "wrong", "record_order", f"a {kind} record cannot stand here", seq):
            return
        if kind in due:
            number = data["step"] if kind == "action" else data["number"]
            rule(number == due[kind], "step_gap", f"{kind} {number}, due is {due[kind]}", seq)
            due[kind] += 1
        if "step" in data:
            expected = step - 1 if kind == "end" else step
            rule(data["step"] == expected, "step_wrong", f"{kind} of step {data['step']}, due {expected}", seq)
        step += kind == "frame"
    rule(state == "ended", "trajectory_truncated", "the episode has no end")
    steps, budget = len(case.actions), case.plan["budget"]
    reason = case.entries[-1].data.get("reason", "")
    ends = {"report": case.verb(steps) == "report" and len(case.reports) == 1, "budget": steps == budget}
    found.rule("sequence", end=reason)
    rule(ends.get(reason, False), "end_reason", f"{reason!r} after {steps} steps", len(case.entries) - 1)
    rule(bool(case.reports) == (reason == "report"), "end_reason", f"{reason!r} with {len(case.reports)} reports")
    spent = found.rule("budget", steps=steps, budget=budget)
    spent(steps <= budget, "over_budget", f"{steps} actions, the budget is {budget}")
    for frame in case.frames:
        left = budget - frame.data["step"]
        spent(frame.data["budget_left"] == left, "budget_left", f"{frame.data['budget_left']}, due {left}", frame.seq)


def check_identity(case: Case, found: Findings) -> None:
    """Who and what: the forms of all fields, the canary, the model."""
    identity = case.identity
    names = ("environment", "split", "seed", "instance", "certificate", "version", "grader")
    rule = found.rule("identity", **{name: identity[name] for name in names})
    for name in ("instance", "code", "certificate"):
        empty = name == "certificate" and identity[name] == ""
        rule(_digest(identity[name]) or empty, "identity_digest", f"{name}: {identity[name]!r}", 0)
    rule(identity["split"] in ("train", "validation", "test"), "split", identity["split"], 0)
    rule(identity["seed"] >= 0, "seed", str(identity["seed"]), 0)
    rule(identity["format"] == FORMAT, "format_version", identity["format"], 0)
    rule("" not in (identity["version"], identity["grader"]), "identity_empty", "version or grader", 0)
    asked, resolved = identity["model"], identity["model_resolved"]
    model = found.rule("model", model=asked, model_resolved=resolved, code=identity["code"])
    model(asked == resolved, "model_resolved", f"{asked!r} was asked for, {resolved!r} answered", 0)
    due = "canary-" + digest(identity["instance"])[:24]
    tokens = [row["token"] for row in case.pre["canary"].values()]
    rule(tokens == [due], "canary", f"the canary {tokens} is not that of the instance")
    needles = {str(token).encode("ascii", "backslashreplace") for token in (due, *tokens)}
    lines = case.files[LEDGER].split(b"\n")
    seen = [seq for seq, line in enumerate(lines) if any(needle in line for needle in needles)]
    isolation = found.rule("isolation", canary_lines=seen)
    isolation(not seen, "canary_seen", "evaluator data was reached", *seen[:1])


def check_plan(case: Case, found: Findings) -> None:
    """The plan agrees with the identity, the world, the condition and the pre-state."""
    plan, world = case.plan, case.world
    rule = found.rule("plan", condition=plan["condition"], anchor=plan["anchor"], changed=case.changed)
    for name in ("condition", "anchor"):
        rule(plan[name] == case.identity[name], "plan_identity", f"another {name} than the identity's", 0)
    for name, value in world.plan.items():
        rule(same(plan[name], value), "plan_world", f"{name} is {plan[name]!r}, the world's is {value!r}", 0)
    rule(plan["condition"] in world.conditions, "plan_condition", f"{plan['condition']!r}", 0)
    _, announced, review = CONDITIONS.get(plan["condition"], (None, False, ""))
    promised = (plan["announced"], plan["review"])
    rule(promised == (announced, review), "plan_promise", f"{promised}, due {(announced, review)}", 0)
    trigger, pages = plan["trigger"], list(world.pages)
    drawn = [[route] for route in pages if not (announced and route == plan["review_route"])]
    right = {"first": trigger == pages, "any": trigger in drawn}.get(plan["anchor"], False)
    rule(right, "plan_trigger", f"{trigger} for anchor {plan['anchor']!r}", 0)
    rule(moment(plan["opened"], 0) == plan["opened"], "plan_opened", plan["opened"], 0)
    problems = world.task(case)
    rule(not problems, "plan_task", "; ".join(problems), 0)
    if not problems:
        table, key, column = plan["arm"]
        text = world.display(case.pre, column, case.pre[table][key][column])
        rule(text == plan["arm_text"], "plan_fact", f"{plan['arm_text']!r}, pages show {text!r}", 0)
    changes = case.changed is not None and list(case.changed) == plan["arm"]
    rule((plan["new_text"] != plan["arm_text"]) == changes, "plan_fact", "the texts do not fit the condition", 0)


def moment(opened: str, step: int) -> str | None:
    """The virtual time of a step."""
    try:
        return (datetime.fromisoformat(opened) + timedelta(minutes=step)).isoformat(" ", "minutes")
    except (ValueError, OverflowError):
        return None


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
ROLES = {"click": ("link", "button", "radio"), "fill": ("textbox",), "select_option": ("combobox",)}
_S = r"[ \t\r\n]*+"
_NAME = r"[A-Za-z_][A-Za-z0-9_]*+"
_CALL = re.compile(rf"{_S}({_NAME}){_S}\({_S}(\){_S})?")
_ARGUMENT = re.compile(
    rf"(?:({_NAME}){_S}={_S})?"
    r"""(?:"([^"\\\r\n]*+(?:\\[^\r\n][^"\\\r\n]*+)*+)"|'([^'\\\r\n]*+(?:\\[^\r\n][^'\\\r\n]*+)*+)'|([0-9]++))"""
    rf"{_S}([,)]){_S}"
)
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|([^\r\n]))")
_PLAIN = {'"': '"', "'": "'", "\\": "\\", "n": "\n", "t": "\t"}


def read_action(raw: str) -> tuple[str, list[str], dict[str, str]] | None:
    """Verb, arguments and report fields of a reply, None where it is no action."""
    head = _CALL.match(raw)
    if len(raw) > ACTION_LIMIT or head is None or head[1] not in PARAMETERS or _surrogates(raw):
        return None
    verb, place, closed = head[1], head.end(), head[2] is not None
    parameters = PARAMETERS[verb]
    placed: list[str] = []
    named: dict[str, str] = {}
    bare: list[str] = []
    while not closed:
        match = _ARGUMENT.match(raw, place)
        if match is None:
            return None
        name, double, single, number, after = match.groups()
        value = number or _unescape(double or single or "")
        if value is None or (name is None and named) or name in named:
            return None
        if number:
            bare.append(name or "".join(parameters[len(placed) : len(placed) + 1]))
        if name is None:
            placed.append(value)
        else:
            named[name] = value
        place, closed = match.end(), after == ")"
    if place != len(raw) or any(name != "element" for name in bare):
        return None
    if verb == "report":
        return None if placed or bare else (verb, [], named)
    rest = parameters[len(placed) :]
    if len(placed) > len(parameters) or named.keys() != set(rest):
        return None
    return verb, [*placed, *(named[name] for name in rest)], {}


def _surrogates(text: str) -> bool:
    return not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text)


def _unescape(body: str) -> str | None:
    """The text that an escaped string stands for, None for an escape or surrogate that there is not."""
    if "\\" not in body:
        return body
    escapes = [match.groups() for match in _ESCAPE.finditer(body)]
    if any(char is not None and char not in _PLAIN for _, char in escapes):
        return None
    text = _ESCAPE.sub(lambda match: chr(int(match[1], 16)) if match[1] else _PLAIN[match[2]], body)
    try:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    except UnicodeDecodeError:
        return None


def check_actions(case: Case, found: Findings) -> None:
    """Raw text against verb and arguments, requests against verbs, memos, errors and the report."""
    rule = found.rule("actions", actions=len(case.actions), reports=len(case.reports))
    caused: dict[int, list[Exchange]] = {}
    for exchange in case.exchanges:
        caused.setdefault(exchange.request["step"], []).append(exchange)
    first = [exchange.request["actor"] for exchange in caused.get(0, [])]
    rule(first[:1] == ["harness"], "first_page", "the harness did not open the first page")
    memo = ""
    for frame in case.frames[:1]:
        clear = frame.data["memo"] == frame.data["error"] == ""
        rule(clear, "aftermath", "the first frame holds a memo or an error line", frame.seq)
    for entry in case.actions:
        action, seq = entry.data, entry.seq
        step, verb, args, error = action["step"], action["verb"], action["args"], action["error"]
        parsed = read_action(action["raw"])
        right = parsed[:2] == (verb, args) if parsed else (verb, args) == ("", []) and error != ""
        rule(right, "action_parsed", f"step {step}: {verb} {args} is not what the raw text says", seq)
        rule(len(action["raw"]) <= RAW_LIMIT, "action_length", f"step {step}", seq)
        if verb == "report" and not error:
            fields = [parsed[2]] if parsed else []
            reported = [report.data["fields"] for report in case.reports]
            rule(reported == fields, "report_altered", "the report is not what the action says", seq)
        text = args[0] if verb == "memo" and args else ""
        cut = max(0, len(text) - MEMO_LIMIT)
        rule(action["memo_cut"] == cut, "memo_cut", f"step {step}: {action['memo_cut']}, due {cut}", seq)
        memo = text[:MEMO_LIMIT] if verb == "memo" and not error else memo
        if step < len(case.frames):
            after = case.frames[step].data
            kept = (after["memo"], after["error"]) == (memo, error)
            rule(kept, "aftermath", f"step {step}: the frame after it holds another memo or error line", seq)
        _check_cause(case, action, caused.get(step, []), lambda *noted, seq=seq: rule(*noted, seq))


def _check_cause(case: Case, action: Data, caused: list[Exchange], rule: Rule) -> None:
    """A step's requests are those that its action makes, on the element that it was shown."""
    step, verb, role = action["step"], action["verb"], ""
    direct = [exchange.request for exchange in caused if exchange.request["via"] != "redirect"]
    where = f"step {step}, {verb or 'no action'}"
    if verb in ROLES and action["args"] and not action["error"] and 0 < step <= len(case.frames):
        elements = case.frames[step - 1].data["elements"]
        index = action["args"][0].lstrip("0")
        match = re.search(rf"^\[{re.escape(index)}\] ([a-z]+) ", elements, re.MULTILINE)
        role = match[1] if match else ""
        cut = not match and len(elements) > ELEMENTS_LIMIT // 2
        rule(role in ROLES[verb] or cut, "element", f"{where}: element {index} is a {role or 'missing one'}")
    if action["error"] or verb not in ("click", "goto", "go_back") or role == "radio":
        rule(not direct, "request_unasked", f"{where}: {len(direct)} requests")
        return
    # What the agent asked for bears another actor where the change was forged: that is a matter of the trigger.
    rule(len(direct) == 1 or (verb == "click" and not role), "request_count", f"{where}: {len(direct)} requests")
    asks = verb != "click" or role == "link"
    rule(not asks or all(request["method"] == "GET" for request in direct), "request_method", f"{where} asks with GET")


# --- Requests and frames ---------------------------------------------------------------------------------------------


def clean(text: str) -> str:
    """A text as parameters hold it."""
    kept = "".join([char if char.isprintable() else " " for char in text[:800]])
    return " ".join(kept.split())[:200].rstrip()


def address(url: str) -> tuple[str, dict[str, str]]:
    """Path and cleaned parameters of an address."""
    path, _, query = url.partition("?")
    params = {}
    for part in query.split("&"):
        name, _, text = part.partition("=")
        if text:
            params[_unquote(name)] = clean(_unquote(text))
    return path, params


def _unquote(text: str) -> str:
    """A part of a query as a form means it: plus is a blank, percent and two digits a byte of UTF-8."""
    text = text.replace("+", " ")
    if "%" not in text:
        return text
    return re.sub(r"[\x00-\x7f]+", lambda run: _PERCENT.sub(_byte, run[0].encode()).decode("utf-8", "replace"), text)


def _byte(match: re.Match[bytes]) -> bytes:
    return bytes([int(match[1], 16)])


_PERCENT = re.compile(rb"%([0-9A-Fa-f]{2})")


def route_of(path: str) -> str:
    """The route that a path belongs to."""
    parts = path.split("/")
    for place in range(2, len(parts)):
        if parts[place].isascii() and parts[place].isdecimal() and len(parts[place]) < 10:
            return "/".join([*parts[:place], "{id}", *parts[place + 1 :]])
    return path


def check_requests(case: Case, found: Findings) -> None:
    """Routes and paths, answers and redirects."""
    rule = found.rule("requests", requests=len(case.exchanges))
    before: Data | None = None
    # Whose the requests are that the change rests on is a matter of the trigger.
    armed = {fire.data["armed_by"] for exchange in case.exchanges for fire in exchange.fires}
    trigger = {frame.data["request"] for frame in case.frames if frame.data["number"] in armed}
    trigger |= {case.fired.number} if case.fired is not None else set()
    for exchange in case.exchanges:
        request, seq, where = exchange.request, exchange.seq, f"request {exchange.number}"
        who = (request["actor"], request["session"], request["via"] in ("direct", "redirect"))
        mine = who == ("agent" if request["step"] else "harness", case.session, True)
        rule(mine or exchange.number in trigger, "request_foreign", f"{where} by {who}", seq)
        status, location = request["status"], request["location"]
        rule(request["route"] == route_of(request["path"]), "route", f"{where}: {request['path']}", seq)
        rule(request["method"] in ("GET", "POST"), "method", f"{where}: {request['method']}", seq)
        rule(status in (200, 303) or 400 <= status < 500, "status", f"{where}: {status}", seq)
        rule((status == 303) == (location != ""), "location", f"{where}: {status} to {location!r}", seq)
        rule(status == 200 or not request["served"], "served", f"{where}: values with status {status}", seq)
        pending = before is not None and before["status"] == 303
        follows = request["via"] == "redirect"
        if follows and pending and before is not None:
            kept = all(before[name] == request[name] for name in ("actor", "session", "step"))
            there = address(before["location"]) == (request["path"], request["params"])
            follows = kept and there and request["method"] == "GET"
        rule(pending == follows, "redirect", f"{where}: the redirect before it was not followed, or there is none", seq)
        before = request
    rule(before is None or before["status"] != 303, "redirect", "the last redirect was not followed")


_SEEN = ("request", "url", "notice", "page", "elements", "delivered")


def check_frames(case: Case, found: Findings) -> None:
    """Every frame's digest, address and notice lines; acknowledged, and repeated where nothing was asked for."""
    rule = found.rule("frames", frames=len(case.frames))
    actions = {entry.data["step"]: entry.data for entry in case.actions}
    before: Data | None = None
    asked = 0
    for place, entry in enumerate(case.frames):
        frame, seq = entry.data, entry.seq
        earlier = asked
        while asked < len(case.exchanges) and case.exchanges[asked].seq < seq:
            asked += 1
        latest = case.exchanges[asked - 1] if asked else None
        _check_frame(frame, lambda *noted, seq=seq: rule(*noted, seq))
        shows = latest is not None and frame["request"] == latest.number
        rule(shows, "frame_request", f"frame {place} shows request {frame['request']}, not the last", seq)
        if shows and latest is not None:
            _check_page(case, frame, latest, lambda *noted, seq=seq: rule(*noted, seq))
        answer = actions.get(place + 1, {"frame": place, "frame_sha256": frame["sha256"]})
        right = (answer["frame"], answer["frame_sha256"]) == (place, frame["sha256"])
        rule(right, "frame_unacknowledged", f"action {place + 1} answers another frame", seq)
        if before is not None and asked == earlier:
            # Clicking a radio button, filling and selecting change the page without a request.
            names = _SEEN[:3] if case.verb(place) in ROLES else _SEEN
            changed = [name for name in names if frame[name] != before[name]]
            rule(not changed, "frame_changed", f"frame {place}: nothing was asked for, yet {changed} differ", seq)
        before = frame
    used = {entry.data["screenshot"] for entry in case.frames} - {""}
    there = {name for name in case.files if name not in NAMES}
    rule(used == there, "screenshot", "the screenshots are not those that the frames name")


def _check_frame(frame: Data, rule: Rule) -> None:
    """What a frame says of itself."""
    where, page, notice = f"frame {frame['number']}", frame["page"], frame["notice"]
    seen = (frame["url"], page, frame["elements"], notice, frame["error"], frame["memo"], str(frame["budget_left"]))
    rule(digest("\x1f".join(seen)) == frame["sha256"], "frame_digest", f"{where} was altered")
    lengths = (len(page), len(frame["elements"]), len(frame["memo"]))
    fits = all(a <= b for a, b in zip(lengths, (PAGE_LIMIT, ELEMENTS_LIMIT, MEMO_LIMIT), strict=True))
    rule(fits, "frame_length", f"{where}: page, elements, memo {lengths}")
    title, _, text = notice.partition(": ")
    begins = page.startswith(f"!! {title}\n{text}\n"[:PAGE_LIMIT]) if notice else not page.startswith("!! ")
    rule(begins, "notice_lines", f"{where}: its notice and the first lines of its page differ")


def _check_page(case: Case, frame: Data, exchange: Exchange, rule: Rule) -> None:
    """The frame stands where its request asked, and its page has that page's heading."""
    request, where = exchange.request, f"frame {frame['number']}"
    path, params = address(frame["url"])
    right = path == request["path"] and (params == request["params"] or request["method"] == "POST")
    before = case.by_number.get(exchange.number - 1)
    if request["via"] == "redirect" and before is not None:
        right = right and before.request["location"] == frame["url"]
    rule(right, "frame_address", f"{where} stands at {frame['url']}, its request asked for {request['path']}")
    heading = next((line for line in frame["page"].split("\n") if line.startswith("# ")), "")
    rule(heading == f"# {exchange.title}", "frame_heading", f"{where} is headed {heading!r}, due {exchange.title!r}")


# --- Replay: the rows at every request -------------------------------------------------------------------------------


def replay(case: Case, found: Findings) -> None:
    """Carry out all writes from the pre-state, look at every request on the way, and compare with the post-state."""
    tables: Tables = {name: dict(rows) for name, rows in case.pre.items()}
    total = sum(len(exchange.writes) for exchange in case.exchanges)
    journal = found.rule("journal", writes=total)
    commits = found.rule("commit_log", requests=[exchange.number for exchange in case.commits()])
    found.rule("exposure_log", serves=sum(len(exchange.request["served"]) for exchange in case.exchanges))
    for exchange in case.exchanges:
        for write in exchange.writes:
            _apply(case, tables, write, exchange, journal)
        case.world.answered(exchange, commits, tables)
        _look(case, tables, exchange)
        _check_served(case, tables, exchange, found)
    different = sorted(name for name, rows in tables.items() if not _equal(rows, case.post[name]))
    journal(not different, "state_contradiction", f"pre-state and writes do not lead to: {', '.join(different)}")


def _equal(one: dict[int, Data], other: dict[int, Data]) -> bool:
    return one == other and all(
        list(map(type, row.values())) == list(map(type, other[key].values())) for key, row in one.items()
    )


def _apply(case: Case, tables: Tables, entry: Entry, exchange: Exchange, rule: Rule) -> None:
    """Carry out one write, and check it against its request and the row as it is."""
    write, request, seq = entry.data, exchange.request, entry.seq
    op, table, key, columns = write["op"], write["table"], write["key"], write["columns"]
    where = f"{op} of {table} {key}"
    placed = write["request"] == exchange.number and write["actor"] in (request["actor"], "perturbation")
    rule(placed, "write_place", f"{where}: not of this request or by another actor", seq)
    refused = request["status"] >= 400 or request["location"].startswith("/refused?")
    rule(not refused or perturbs(entry), "write_refused", f"{where}: inside a request that was refused", seq)
    names = set(case.columns.get(table, ()))
    row = tables.get(table, {}).get(key)
    known = op in ("insert", "update", "delete") and (row is None) == (op == "insert")
    fits = columns.keys() <= names - {"id"} if op == "update" else columns.keys() == names
    if not rule(known and fits and table in tables, "write_row", f"{where}: no such row or column, or one again", seq):
        return
    if op == "update" and row is not None:
        right = all(same(row[name], old) and not same(old, new) for name, (old, new) in columns.items())
        tables[table][key] = {**row, **{name: new for name, (_, new) in columns.items()}}
    elif op == "delete" and row is not None:
        right = all(new is None and same(row[name], old) for name, (old, new) in columns.items())
        del tables[table][key]
    else:
        right = all(old is None for old, _ in columns.values()) and same(columns["id"][1], key)
        tables[table][key] = {name: columns[name][1] for name in case.columns[table]}
    rule(right, "write_old", f"{where}: its old values are not the row's, or its id is another", seq)


def _look(case: Case, tables: Tables, exchange: Exchange) -> None:
    """Note what this request's page was due to show."""
    world, request = case.world, exchange.request
    for table, key, column in case.watched:
        value = tables.get(table, {}).get(key, {}).get(column)
        exchange.current[table, key, column] = world.display(tables, column, value)
    exchange.title = world.title(tables, request) if request["status"] == 200 else "Not possible"
    if request["route"] == "/refused":
        exchange.title = "Not possible"
    if case.fired is None or exchange.number < case.fired.number:
        return
    for _, row in sorted(tables["notice"].items()):
        if same(row["acknowledged"], 0) and _int(row["visible_from"]) and row["visible_from"] <= exchange.number:
            exchange.notice, exchange.wording = row, world.wording(tables, row)
            return


def _check_served(case: Case, tables: Tables, exchange: Exchange, found: Findings) -> None:
    """The access log says what this request's page shows, as the rows are."""
    request, number = exchange.request, exchange.number
    due = case.world.serves(case, tables, request) if exchange.page() else set()
    served = {(table, key, column): text for table, key, column, text in request["served"]}
    rule, log = found.rule(case.phase(number)), found.rule("exposure_log")
    missing = due - served.keys()
    if missing == {tuple(case.plan["arm"])} and _promised(case, exchange):
        missing = set()  # not served where it was promised: check_promises says so
    detail = f"request {number} serves {sorted(served)}, its page shows {sorted(due)}"
    log(served.keys() <= due and len(served) == len(request["served"]), "served_unshown", detail, exchange.seq)
    rule(not missing, "shown_unserved", detail, exchange.seq)
    for value, text in served.items():
        now = exchange.current.get(value)
        rule(text == now, "served_value", f"request {number} serves {text!r}, the row holds {now!r}", exchange.seq)


def _promised(case: Case, exchange: Exchange) -> bool:
    """Whether a page is the review step for the target, and the fact was promised there."""
    reviews = exchange.page() and exchange.request["route"] == case.plan["review_route"]
    return reviews and case.plan["review"] == "value" and case.world.target(case, exchange.request)


def check_delivered(case: Case, found: Findings) -> None:
    """What frames delivered is what requests served, and stands in the page text where they say."""
    longest = max((len(entry.data["page"]) for entry in case.frames), default=0)
    total = 0
    for entry in case.frames:
        frame, page, seq = entry.data, entry.data["page"], entry.seq
        exchange = case.by_number.get(frame["request"])
        if exchange is None:
            continue
        log, where = found.rule("exposure_log"), f"frame {frame['number']}"
        rule = found.rule(case.phase(exchange.number))
        left = [tuple(item) for item in exchange.request["served"]]
        last = -1
        for *value, text, offset in frame["delivered"]:
            total += 1
            stands = text != "" and last < offset and _stands(page, text, offset)
            log(stands, "delivered_text", f"{where}: {text!r} does not stand at {offset}", seq)
            last = offset
            if log((*value, text) in left, "delivered_unserved", f"{where}: {text!r} was not served", seq):
                left.remove((*value, text))
        for *value, text in left:
            # A value may be served and not delivered where the page was cut before it.
            cut = len(page) == PAGE_LIMIT or (len(page) == longest and text not in page)
            lost = value == case.plan["arm"] and _promised(case, exchange) and text not in page
            rule(cut or lost, "served_undelivered", f"{where}: {text!r} was served and is not delivered", seq)
    found.rule("exposure_log", delivered=total)


def _stands(page: str, text: str, offset: int) -> bool:
    """Whether a text stands whole at an offset of a page: between blanks or line ends."""
    end = offset + len(text)
    return page[offset:end] == text and {page[offset - 1 : offset] if offset else "", page[end : end + 1]} <= _AROUND


_AROUND = {"", " ", "\n"}


# --- Promises --------------------------------------------------------------------------------------------------------


def check_promises(case: Case, found: Findings) -> None:
    """Notices and disclosures at the review step: shown where promised, and nowhere else."""
    plan = case.plan
    fired = case.fired.number if case.fired is not None else 2**31
    commit = min((exchange.number for exchange in case.commits()), default=2**31)
    notice, review = found.rule("notice", promised=plan["announced"]), found.rule("review", promised=plan["review"])
    leak = found.rule("unannounced")
    due = reached = reviews = 0
    for entry in case.frames:
        frame, seq, where = entry.data, entry.seq, f"frame {entry.data['number']}"
        exchange = case.by_number.get(frame["request"])
        if exchange is None:
            continue
        if exchange.notice is None:
            leak(frame["notice"] == "", "notice_unannounced", f"{where} shows a notice that is not due", seq)
        else:
            due += 1
            shows = frame["notice"] == f"Notice: {exchange.wording}"
            notice(shows, "notice_undelivered", f"{where} was due to show: {exchange.wording}", seq)
            row = exchange.notice
            own = case.changed == (row["record"], row["record_id"], row["field"])
            reached += shows and own and fired < exchange.number < commit
        if exchange.page() and exchange.request["route"] == plan["review_route"]:
            reviews += 1
            _check_review(case, frame, exchange, review, leak, seq)
    missing = plan["announced"] and case.fired is not None and not reached
    notice(not missing, "notice_missing", "the promised notice reached no frame before the commit or the end")
    found.rule("notice", due=due, reached=reached)
    found.rule("review", frames=reviews)


def _check_review(case: Case, frame: Data, exchange: Exchange, review: Rule, leak: Rule, seq: int) -> None:
    plan, world, where = case.plan, case.world, f"frame {frame['number']}, the review step,"
    lines = [without_indices(line) for line in frame["page"].split("\n") if line.startswith(world.reminder)]
    # A world without such a link shows the record itself beneath the reminder.
    linked = any(line.endswith(f" {world.link}" if world.link else world.reminder) for line in lines)
    listed = f'link "{world.link}"\n' in frame["elements"] + "\n" or frame["notice"] != "" or not world.link
    value = any(item[:3] == plan["arm"] for item in frame["delivered"])
    leak(not lines or plan["review"] != "nothing", "review_unannounced", f"{where} shows a reminder", seq)
    leak(not value or plan["review"] == "value", "review_unannounced", f"{where} shows the fact", seq)
    if plan["review"] in ("link", "value") and world.target(case, exchange.request):
        review(linked and listed, "review_link", f"{where} does not show the link to the source", seq)
        review(value or plan["review"] == "link", "review_value", f"{where} does not show the current value", seq)


def without_indices(line: str) -> str:
    """A line of a page without the numbers of its elements."""
    return re.sub(r"\[[0-9]+\] ", "", line)


# --- The change ------------------------------------------------------------------------------------------------------


def check_change(case: Case, found: Findings) -> None:
    """Whether the change happened, and every rule of protocol section 4."""
    fires = [fire for exchange in case.exchanges for fire in exchange.fires]
    made = [write for exchange in case.exchanges for write in exchange.writes if perturbs(write)]
    before, after = ([list(row.values()) for row in t["perturbation_guard"].values()] for t in (case.pre, case.post))
    arming = next((entry for entry in case.frames if _arms(case, entry)), None)
    first = _eligible(case, arming)
    guards = [write.data["op"] for write in made if write.data["table"] == "perturbation_guard"]
    triggered = found.rule("triggered", fires=len(fires), writes=len(made), guard=after)
    log = found.rule("firing_log", fires=len(fires), guard_writes=len(guards))
    if case.fired is None and not before and not after:
        if log(first is None, "missed_firing", "a request that fires did not fire", first.seq if first else -1):
            code = "never_exposed" if arming is None else "never_reached"
            triggered(False, code, "nothing shows that the change happened")
        return
    told = [bool(fires), bool(guards), bool(after)]
    log(all(told), "firing_contradiction", f"fire record, guard write, guard row: {told}")
    single = found.rule("single_firing", fires=len(fires), guard=after)
    if case.fired is None:
        return
    number = case.fired.number
    single(len(fires) == 1, "fired_twice", f"{len(fires)} fire records")
    right = guards == ["insert"] and not before and after == [[1, number]]
    single(right, "guard", f"guard {before} before, {after} after, writes {guards}, firing request {number}")
    for exchange in case.exchanges:
        named = [fire.data["request"] for fire in exchange.fires]
        single(set(named) <= {exchange.number}, "fire_request", f"{named} in request {exchange.number}", exchange.seq)
    _check_trigger(case, case.fired, fires, arming, first, found)
    _check_scope(case, case.fired, made, found)
    _check_agreement(case, fires, found)
    _check_fresh(case, case.fired, found)
    commits = [exchange.number for exchange in case.commits()]
    order = found.rule("commit_order", firing=number, commits=commits)
    order(min(commits, default=number + 1) > number, "commit_before_change", f"commits {commits}, change {number}")


def _arms(case: Case, entry: Entry) -> bool:
    """Whether a frame delivered the old value of the fact, on a source page that the agent itself asked for."""
    frame, plan = entry.data, case.plan
    exchange = case.by_number.get(frame["request"])
    if exchange is None or not exchange.own(case.session) or exchange.request["route"] not in plan["surfaces"]:
        return False
    fact = [*plan["arm"], plan["arm_text"]]
    shown = any(item[:4] == fact and _stands(frame["page"], fact[3], item[4]) for item in frame["delivered"])
    return shown and fact in exchange.request["served"]


def _eligible(case: Case, arming: Entry | None) -> Exchange | None:
    """The first request that fires, after a frame that arms and before the agent commits."""
    for exchange in case.exchanges if arming is not None else ():
        request = exchange.request
        if any(write["actor"] == "agent" for write in exchange.inserts(case.plan["commit_table"])):
            return None
        fits = exchange.own(case.session) and request["method"] == "GET" and request["route"] in case.plan["trigger"]
        if arming is not None and exchange.seq > arming.seq and fits:
            return exchange
    return None


def _check_trigger(
    case: Case, at: Exchange, fires: list[Entry], arming: Entry | None, first: Exchange | None, found: Findings
) -> None:
    """Exposed before, in the first eligible request, which is the agent's own."""
    begin = min([entry.seq for entry in (*at.fires, *at.writes) if entry.kind == "fire" or perturbs(entry)])
    named = fires[0].data["armed_by"] if fires else -1
    frame = arming.data["number"] if arming is not None else -1
    exposure = found.rule("exposure", armed_by=named, first_exposure=frame)
    shown_before = arming is not None and arming.seq < begin
    if exposure(shown_before, "change_before_exposure", "no frame before the change delivered the old value", begin):
        exposure(named == frame, "armed_by", f"armed by frame {named}, the first exposure is {frame}", begin)
    due = first.number if first is not None else None
    anchor = found.rule("anchor", firing=at.number, first_eligible=due)
    anchor(due == at.number, "not_first_eligible", f"fired in request {at.number}, the first eligible is {due}", begin)
    who = {name: at.request[name] for name in ("actor", "via", "session", "method")}
    verb = case.verb(at.request["step"])
    own = found.rule("own_request", verb=verb, **who)
    mine = at.own(case.session) and verb in ("click", "goto", "go_back")
    own(mine, "not_agents_request", f"the change is inside {who} after {verb!r}", at.seq)


def _check_scope(case: Case, at: Exchange, made: list[Entry], found: Findings) -> None:
    """The perturbation wrote what was planned and nothing else; nobody but it and the agent wrote."""
    symbols: Data = {"$now": moment(case.plan["opened"], at.request["step"]), "$next": at.number + 1}
    due = [{"op": "insert", "table": "perturbation_guard", "key": 0, "columns": {"request": [None, at.number]}}]
    for operation in case.plan["operations"]:
        given = operation["columns"].items()
        columns = {name: [old, symbols.get(new, new) if type(new) is str else new] for name, (old, new) in given}
        due.append({**operation, "columns": columns})
    scope = found.rule("scope", writes=len(made), planned=len(due))
    scope(len(made) == len(due), "scope_count", f"{len(made)} writes by the perturbation, {len(due)} planned", at.seq)
    for entry, planned in zip(made, due, strict=False):
        write = entry.data
        fits = _fits(case, entry, planned) and entry in at.writes
        scope(fits, "scope_write", f"{write['op']} of {write['table']} {write['key']} was not planned", entry.seq)
    for exchange in case.exchanges:
        actors = [write.data["actor"] for write in exchange.writes]
        kept = actors == sorted(actors, key=lambda actor: actor != "perturbation")
        scope(kept, "scope_order", "the change does not stand before what the request itself wrote", exchange.seq)
        others = set(actors) - {"agent", "perturbation"}
        scope(not others, "scope_actor", f"writes by {sorted(others)}", exchange.seq)


def _fits(case: Case, entry: Entry, planned: Data) -> bool:
    """Whether a write is a planned operation; where the agent had written the column, its value is the old one."""
    write, columns = entry.data, dict(planned["columns"])
    if write["op"] != planned["op"] or write["table"] != planned["table"]:
        return False
    if planned["op"] == "insert":
        blank = {name: [None, None] for name in case.columns.get(write["table"], ())}
        return bool({**blank, "id": [None, write["key"]], **columns} == write["columns"] and planned["key"] == 0)
    if write["key"] != planned["key"]:
        return False
    given = dict(write["columns"])
    for other in (write for exchange in case.exchanges for write in exchange.writes):
        earlier = other.seq < entry.seq and other.data["actor"] == "agent"
        if earlier and (other.data["table"], other.data["key"]) == (write["table"], write["key"]):
            for name in other.data["columns"].keys() & columns.keys():
                new = columns[name][1]
                columns[name] = [given.setdefault(name, [new, new])[0], new]
    return bool(given == columns)


def _check_agreement(case: Case, fires: list[Entry], found: Findings) -> None:
    """The update, the history row and the notice row name one value, with the texts that pages show for it."""
    plan, world, operations = case.plan, case.world, case.plan["operations"]
    neutral = sum(operation["table"] == "neutral" for operation in operations)
    rule = found.rule("agreement", operations=len(operations), neutral=neutral)
    for fire in fires:
        counted = (fire.data["operations"], fire.data["neutral"])
        right = counted == (len(operations), neutral)
        rule(right, "operation_count", f"{counted}, planned {len(operations)}", fire.seq)
    blank = {"op": "insert", "table": "neutral", "key": 0, "columns": {"value": [None, "-"]}}
    if case.changed is None:
        due = [{"op": "update", "table": "neutral", "key": 1, "columns": {}}, blank, blank]
        rule(operations == due, "operations", "the condition changes nothing, the plan does", 0)
        return
    table, key, column = case.changed
    before = case.pre.get(table, {}).get(key, {}).get(column)
    after = operations[0]["columns"].get(column, [None, None])[1] if operations else None
    old, new = world.display(case.pre, column, before), world.display(case.pre, column, after)
    rule(old is not None and new is not None and old != new, "operations", f"{before!r} becomes {after!r}", 0)
    if list(case.changed) == plan["arm"]:
        rule(new == plan["new_text"], "fact_text", f"the fact becomes {new!r}, the plan says {plan['new_text']!r}", 0)
    record: Data = {"record": [None, table], "record_id": [None, key], "field": [None, column]}
    history = {**record, "old": [None, old], "new": [None, new], "at": [None, "$now"], "by": [None, "Administration"]}
    notice = {**record, "visible_from": [None, "$next"], "acknowledged": [None, 0]}
    due = [
        {"op": "update", "table": table, "key": key, "columns": {column: [before, after]}},
        {"op": "insert", "table": "history", "key": 0, "columns": history},
        {"op": "insert", "table": "notice", "key": 0, "columns": notice} if plan["announced"] else blank,
    ]
    for name, wanted, given in zip(("update", "history", "notice"), due, (*operations, *[None] * 3), strict=False):
        rule(wanted == given, f"{name}_operation", f"planned {given}, due {wanted}", 0)
    rule(len(operations) == len(due), "operations", f"{len(operations)} operations", 0)


def _check_fresh(case: Case, at: Exchange, found: Findings) -> None:
    """From the firing on no frame repeats a line that showed the old value, unless that is the value again."""
    stale: dict[str, dict[str, str]] = {}
    rule = found.rule("freshness")
    later = 0
    for entry in case.frames:
        frame = entry.data
        exchange = case.by_number.get(frame["request"])
        if exchange is None or case.changed is None:
            continue
        lines = stale.setdefault(exchange.request["path"], {})
        if exchange.number < at.number:
            for *value, text, offset in frame["delivered"]:
                if tuple(value) == case.changed:
                    lines[_line(frame["page"], offset)] = text
            continue
        later += 1
        for line in map(without_indices, frame["page"].split("\n") if lines else ()):
            right = lines.get(line, exchange.current[case.changed]) == exchange.current[case.changed]
            rule(right, "stale_page", f"frame {frame['number']} shows again: {line}", entry.seq)
    found.rule("freshness", frames_after=later)


def _line(page: str, offset: int) -> str:
    """The line of a page text that holds an offset, without element numbers."""
    end = page.find("\n", offset)
    return without_indices(page[page.rfind("\n", 0, offset) + 1 : end if end >= 0 else len(page)])


# --- The verdict -----------------------------------------------------------------------------------------------------


def check_faults(entries: list[Entry], found: Findings) -> None:
    """What was recorded as not the policy's doing."""
    terms = {"infra_failure": "infrastructure", "infra_rejected": "provider"}
    for term in ("infrastructure", "provider", "harness"):
        found.rule(term)
    for entry in entries:
        kind, detail = entry.data.get("kind"), entry.data.get("detail", "")
        if entry.kind == "fault":
            found.rule(terms.get(str(kind), "harness"))(False, str(kind), detail, entry.seq)
        elif entry.kind == "end" and entry.data["reason"] not in ("report", "budget"):
            found.rule("harness")(False, "stopped", f"ended by {entry.data['reason']!r}", entry.seq)


def load(files: Mapping[str, bytes], found: Findings) -> Case | None:
    """The episode of an archive's files, or None where it cannot be put together; what is wrong is noted."""
    head = check_manifest(files, found)
    entries = read_ledger(files.get(LEDGER, b""), head, found)
    columns, pre = read_state(files, PRE, found)
    post_columns, post = read_state(files, POST, found)
    check_faults(entries, found)
    try:
        claim = parse_file(files.get(VERDICT, b""))
        found.rule("files")(type(claim) is dict, "verdict_malformed", "no object")
    except Malformed as error:
        found.rule("files")(False, "verdict_malformed", str(error))
    starts = [entry.seq for entry in entries if entry.kind == "start"]
    found.rule("sequence")(starts == [0], "start_missing", f"start records at {starts}")
    if found.broken.keys() & {"files", "ledger", "schema", "states", "sequence"}:
        return None
    name = entries[0].data["identity"]["environment"]
    world = WORLDS.get(name)
    if world is None:
        found.rule("plan")(False, "environment", f"format {FORMAT} knows no environment {name!r}", 0)
        return None
    states = found.rule("states")
    right = {table: frozenset(names) for table, names in columns.items()} == world.tables and post_columns == columns
    if not states(right, "state_tables", "the tables and columns are not the world's, or differ before and after"):
        return None
    states(pre["neutral"] == {1: {"id": 1, "value": "-"}}, "state_neutral", "the neutral table is not as it begins")
    return Case(world, entries, columns, (pre, post), files)


def claimed(files: Mapping[str, bytes]) -> str:
    """The validity that the live verdict claims, "" if there is none; a claim, never an input."""
    try:
        verdict = parse_file(files.get(VERDICT, b""))
    except Malformed:
        return ""
    claim = verdict.get("validity") if type(verdict) is dict else None
    return shown(claim, 40) if type(claim) is str else ""


CHECKS: tuple[Callable[[Case, Findings], None], ...] = (
    check_sequence,
    check_identity,
    check_plan,
    check_actions,
    check_requests,
    replay,
    check_frames,
    check_delivered,
    check_promises,
    check_change,
)


def audit(path: str | os.PathLike[str]) -> Data:
    """Decide whether an archived episode counts.

    Returns {"class", "counted", "untriggered", "claimed", "reasons", "terms", ...}; `terms` has each rule with `passed`
    (None: not evaluated), its class, what was measured and the first reason. Raises Unusable for what is no archive.
    """
    found = Findings()
    files = read_files(path, found)
    case = load(files, found)
    if case is not None:
        for check in CHECKS:
            check(case, found)
    classes = {CLASS_OF[term] for term in found.broken}
    result = next((name for name in GROUPS if name in classes), "counted")
    # Where the plan says so, an episode that never came to the change counts as a failure, and is reported apart.
    failed = result == "not_triggered" and case is not None and case.plan["untriggered"] == "failure"
    terms = {
        term: {
            "class": name,
            "passed": term not in found.broken if term in found.measured else None,
            "measured": found.measured.get(term, {}),
            "reason": found.broken.get(term, ""),
        }
        for term, name in CLASS_OF.items()
    }
    return {
        "auditor": "validity",
        "version": VERSION,
        "format": FORMAT,
        "class": result,
        "counted": result == "counted" or failed,
        "untriggered": result == "not_triggered",
        "claimed": claimed(files),
        "reasons": [reason for name in GROUPS for reason in found.reasons if reason["class"] == name],
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
        yield f"  {term:14} {state:14} {values}".rstrip()


def main(arguments: list[str]) -> int:
    """The command line."""
    paths = [text for text in arguments if text != "--json"]
    as_json = len(paths) < len(arguments)
    try:
        if len(paths) != 1 or paths[0].startswith("-"):
            raise Unusable("usage", "python -I -S validity.py ARCHIVE [--json]")
        result = audit(paths[0])
    except Unusable as error:
        detail = shown(error.detail)
        problem = {"auditor": "validity", "class": "", "counted": False, "error": error.code, "detail": detail}
        print(_encode(problem) if as_json else f"unusable: {error.code}: {detail}")
        return 2
    except Exception as error:  # noqa: BLE001 - whatever it is, it must not look like a verdict
        print(f"internal error: {type(error).__name__}: {shown(error)}", file=sys.stderr)
        return 3
    print(_encode(result) if as_json else "\n".join(lines_of(result)))
    return 0 if result["counted"] else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
