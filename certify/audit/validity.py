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
RESULT_LIMIT = 100_000
REASONS_KEPT = 50

Data = dict[str, Any]
Tables = dict[str, dict[int, Data]]
Columns = dict[str, tuple[str, ...]]
Rows = dict[str, list[list[Any]]]
"""A state as its file has it: the rows of each table, in the order of their ids."""
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


_raw_decode = json.JSONDecoder(parse_constant=_constant).raw_decode
_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode


def _decode(text: str) -> Any:
    """The value of a JSON text without white space around it; raises ValueError for any other text."""
    value, end = _raw_decode(text)
    if end < len(text):
        raise ValueError("more than one value")
    return value


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
_ROWS = frozenset({list})


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


def _object(fields: Mapping[str, Check], optional: Mapping[str, Check] | None = None) -> Check:
    """An object of exactly these fields, and of any of the optional ones."""
    more = optional or {}
    known = {**fields, **more}

    def check(value: Any) -> bool:
        whole = type(value) is dict and fields.keys() <= value.keys() <= known.keys()
        return whole and all(known[name](item) for name, item in value.items())

    return check


def _wrong(fields: Mapping[str, Check], value: Data) -> list[str]:
    return [name for name, check in fields.items() if not check(value[name])]


def _fields(**names: Check | str) -> dict[str, Check]:
    """Checks by field; `text`, `natural` and the like list the fields of that type."""
    by_type = {"text": _text, "natural": _natural, "digest": _digest}
    listed = {name: by_type[kind] for kind in by_type for name in str(names.get(kind, "")).split()}
    return {**listed, **{name: check for name, check in names.items() if callable(check)}}


def _pairs(value: Any) -> bool:
    """An object of pairs of scalars."""
    pairs: list[Any] = list(value.values()) if type(value) is dict else [None]
    whole = _ROWS.issuperset(map(type, pairs)) and all(len(pair) == 2 for pair in pairs)
    return whole and all(map(_scalar, [item for pair in pairs for item in pair]))


_VALUE = _list(_text, _int, _text)
IDENTITY = _fields(
    text="environment split condition anchor instance brief certificate policy model model_resolved version code "
    "grader format",
    seed=_int,
)
IDENTITY_MORE = _fields(text="actions")
PLAN = _fields(
    text="world phenomenon condition anchor untriggered opened arm_text new_text review review_route commit_table",
    natural="budget",
    task=_map(_scalar),
    arm=_VALUE,
    surfaces=_many(_text),
    trigger=_many(_text),
    operations=_many(_object(_fields(text="op table", key=_int, columns=_pairs))),
    announced=_flag,
    watched=_many(_VALUE),
)
PLAN_MORE = _fields(posts=_many(_text), phase=_text, when=_map(_scalar))
USUAL: Data = {"posts": [], "phase": "before", "when": {}}
"""Fields of the plan that are written only where they are another value than this."""
KINDS: dict[str, dict[str, Check]] = {
    "start": _fields(identity=_object(IDENTITY, IDENTITY_MORE), plan=_object(PLAN, PLAN_MORE)),
    "request": _fields(
        natural="number step status",
        text="session actor via method path route location",
        params=_map(_text),
        served=_many(_list(_text, _int, _text, _text)),
    ),
    "write": _fields(natural="request", text="actor op table", key=_int, columns=_pairs),
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
_TEXTS, _NATURALS = (
    {kind: [name for name, check in fields.items() if check is which] for kind, fields in KINDS.items()}
    for which in (_text, _natural)
)
_OTHERS = {
    kind: {name: check for name, check in fields.items() if check not in (_text, _natural)}
    for kind, fields in KINDS.items()
}
_STRING, _INTEGER = frozenset({str}), frozenset({int})


def _mistyped(kind: str, record: Data) -> list[str]:
    """The fields of a record that are of another type; texts and numbers are looked at together, for speed."""
    numbers = [record[name] for name in _NATURALS[kind]]
    right = _STRING.issuperset(map(type, map(record.__getitem__, _TEXTS[kind])))
    right = right and _INTEGER.issuperset(map(type, numbers)) and all(0 <= number < 2**31 for number in numbers)
    return _wrong(_OTHERS[kind] if right else KINDS[kind], record)


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
        if not same(entry["seq"], seq):
            rule(False, "ledger_seq", f"seq is {entry['seq']!r}", seq)
        if entry["prev"] != previous:
            rule(False, "ledger_chain", "does not follow the line before it", seq)
        previous = digest(line)
        kind, record = entry["kind"], entry["data"]
        fields = KINDS.get(kind) if type(kind) is str else None
        if fields is None or type(record) is not dict or record.keys() != fields.keys():
            schema(False, "record_fields", f"kind {kind!r} with other fields than the format's", seq)
            break
        wrong = _mistyped(kind, record)
        if wrong:
            schema(False, "record_type", f"{kind}: {', '.join(wrong)}", seq)
            break
        entries.append(Entry(seq, kind, record))
    rule(previous == head or not head, "ledger_head", "does not end where the manifest says")
    found.rule("schema", records=len(entries))
    return entries


_STATE = _map(
    _object(_fields(columns=_many(_text), rows=lambda rows: type(rows) is list and _ROWS.issuperset(map(type, rows))))
)


def read_state(files: Mapping[str, bytes], name: str, found: Findings) -> tuple[Columns, Rows]:
    """The columns and the rows of every table of a state file."""
    columns: Columns = {}
    tables: Rows = {}
    try:
        data = parse_file(files.get(name, b""))
        if not _STATE(data):
            raise Malformed("not an object of tables with columns and rows")
        for table, content in data.items():
            names = columns[table] = tuple(content["columns"])
            if names.count("id") != 1 or len(set(names)) != len(names):
                raise Malformed(f"table {table}: columns without one id, or repeated")
            rows: list[list[Any]] = content["rows"]
            keys = [row[names.index("id")] for row in rows if len(row) == len(names)]
            whole = len(keys) == len(rows) and {int}.issuperset(map(type, keys)) and sorted(set(keys)) == keys
            if not whole:
                raise Malformed(f"table {table}: a row of another width, or out of the order of ids")
            tables[table] = rows
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
        self.facts: dict[str, str] = {}
        self.current: dict[Triple, str | None] = {}

    def own(self, session: str) -> bool:
        """Whether the agent itself asked for it."""
        request = self.request
        return (request["actor"], request["via"], request["session"]) == ("agent", "direct", session)

    def page(self) -> bool:
        """Whether a page answered a GET."""
        return (self.request["method"], self.request["status"]) == ("GET", 200)

    def inserts(self, table: str) -> list[Data]:
        """The rows inserted into a table, by whomever but the perturbation."""
        made = [write.data for write in self.writes if not perturbs(write)]
        return [write for write in made if write["table"] == table and write["op"] == "insert"]


class Case:
    """A whole episode, typed and in order; `fired` is the request that the change happened in, None without one."""

    def __init__(
        self,
        environment: "Environment",
        entries: list[Entry],
        columns: Columns,
        states: tuple[Rows, Rows],
        files: Mapping[str, bytes],
    ) -> None:
        self.environment, self.world = environment, environment.world
        self.entries, self.columns, self.files = entries, columns, files
        self.before, self.after = states
        self.pre: Tables = {
            table: {row[names.index("id")]: dict(zip(names, row, strict=True)) for row in self.before[table]}
            for table, names in columns.items()
        }
        start = entries[0].data
        self.identity: Data = start["identity"]
        self.plan: Data = {**USUAL, **start["plan"]}
        self.by_tools = "actions" in self.identity
        self.arm = environment.phenomenon.arms.get(self.plan["condition"], Arm())
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
        place = self.arm.changes
        self.changed = watched[place] if place is not None and place < len(watched) else None
        self._results: dict[int, Data] = {}
        self._choice: list[Choice | None] | None = None

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

    def choice(self) -> "Choice | None":
        """The right commit before the change, and what may be stored in its place; None where there is none."""
        if self._choice is None:
            self._choice = [self.world.choice(self)]
        return self._choice[0]

    def result(self, frame: Data) -> Data:
        """The result of a tool that a frame shows, {} where it is cut off in its middle."""
        number = frame["number"]
        if number not in self._results:
            try:
                found = _decode(frame["page"])
            except (ValueError, RecursionError):
                found = {}
            self._results[number] = found if type(found) is dict else {}
        return self._results[number]

    def body(self, frame: Data) -> list[Data]:
        """The parts of the result that a frame shows."""
        body = self.result(frame).get("body")
        return [part for part in body if type(part) is dict] if type(body) is list else []

    def commits(self) -> list[Exchange]:
        """The requests that inserted into the commit table."""
        return [exchange for exchange in self.exchanges if exchange.inserts(self.plan["commit_table"])]

    def triggers(self, exchange: Exchange) -> bool:
        """Whether such a request fires, if the change is armed and nothing is committed yet."""
        request, plan = exchange.request, self.plan
        routes = {"GET": plan["trigger"], "POST": plan["posts"]}.get(request["method"], [])
        if not exchange.own(self.session) or request["route"] not in routes:
            return False
        when = plan["when"]
        if plan["phase"] == "before":
            return bool(not when or when.items() <= self.world.asked(request["params"]).items())
        made = [write["columns"] for write in exchange.inserts(plan["commit_table"]) if write["actor"] == "agent"]
        return bool(made) and all(same(made[0].get(name, [0, None])[1], value) for name, value in when.items())

    def phase(self, number: int) -> str:
        """The rule that an absent or stale exposure breaks: before the change, from it on, or without one."""
        if self.fired is None:
            return "exposure_log"
        return "exposure" if number < self.fired.number else "freshness"


def perturbs(write: Entry) -> bool:
    """Whether a write is the perturbation's."""
    return bool(write.data["actor"] == "perturbation")


# --- The worlds that the format knows --------------------------------------------------------------------------------


class Arm(NamedTuple):
    """One condition: which watched value changes, how that is told, what the review step shows.

    `changes` is the place of the value among the watched ones. Where what a commit stores is altered, `stores` is what
    is stored: the `same` or `other` than was chosen; `when` is `commit`, `review`, or `closed` where the row is closed.
    """

    changes: int | None = None
    channel: str = ""
    review: str = "nothing"
    stores: str = ""
    when: str = "commit"


class Choice(NamedTuple):
    """The right commit of an instance before the change, and what may be stored in its place.

    `arm` shows that it is being chosen, on the pages `offered` before the review; `made` and `asked` are the columns of
    the committed row, and those that its review asks for; `columns` and `following` (table, id, column) are what is
    stored, with what it is after the commit and what may stand there instead; `carried` the same for the form.
    """

    arm: Triple
    offered: str
    made: Data
    asked: Data
    columns: dict[str, tuple[Any, Any]]
    following: dict[Triple, tuple[Any, Any]]
    carried: tuple[Any, Any, Any]


class Tool(NamedTuple):
    """A tool: the method and route that a call asks for, its arguments, whether it acknowledges a notice."""

    method: str
    route: str
    arguments: tuple["Argument", ...]
    acknowledges: bool


class Argument(NamedTuple):
    """An argument of a tool: the parameter that it fills ({id}: a part of the path), the texts that it may be."""

    name: str
    param: str
    number: bool
    required: bool
    choices: frozenset[str]


Types = dict[str, dict[str, frozenset[type]]]
"""The types of the values of each column, by table and column."""


class World(NamedTuple):
    """The software of one organisation (FORMAT.md sections 9 and 11): constants, and rules that depend on its tables.

    `display(tables, column, value)` is a value as pages show it; `serves` are the watched values on a request's page;
    `title` is the heading of the page, `facts` what it says of the commit, by label; `wording` the text of a notice;
    `target` tells whether a review step is about the target; `asked` are the columns of the commit that a review step
    is about; `answered` compares the answer to a request with the commits in the state; `targets` lists what is wrong
    with the plan's fact, twin and detail; `choice` is the right commit, None where there is none.
    """

    plan: Mapping[str, Any]
    surfaces: tuple[str, ...]
    pages: tuple[str, ...]
    tables: Types
    tools: Mapping[str, Tool]
    link: str
    reminder: str
    targets: Callable[[Case], list[str]]
    choice: Callable[[Case], Choice | None]
    display: Callable[[Tables, str, Any], str | None]
    serves: Callable[[Case, Tables, Data], set[Triple]]
    title: Callable[[Tables, Data], str | None]
    facts: Callable[[Tables, Data], dict[str, str]]
    wording: Callable[[Tables, Data], str | None]
    target: Callable[[Case, Data], bool]
    asked: Callable[[Data], Data]
    answered: Callable[[Exchange, Rule, Tables], None]


class Phenomenon(NamedTuple):
    """One way in which a world changes (FORMAT.md section 5).

    `timing` are the fields of the plan that say when it fires, `trigger` being a list of what that may be; `targets`
    lists what is wrong with what the plan is about; `operations` are the operations that are due, each with its name.
    """

    name: str
    arms: Mapping[str, Arm]
    timing: Callable[[Case], Data]
    targets: Callable[[Case], list[str]]
    operations: Callable[[Case, Rule], list[tuple[str, Data]]]


class Environment(NamedTuple):
    """A world under a phenomenon: its conditions, and how an episode without a change counts."""

    world: World
    phenomenon: Phenomenon
    conditions: str
    untriggered: str


def _number(text: str) -> int:
    """A parameter or part of a path as a row id, 0 if it is none."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 0


def _row(tables: Tables, table: str, key: Any) -> Data:
    """A row, {} where there is none."""
    return tables[table].get(key, {}) if type(key) is int else {}


def clinic_task(case: Case) -> list[str]:
    """What is wrong with the plan's task."""
    task = case.plan["task"]
    if task.keys() != {"patient", "session", "referral"} or not all(map(_natural, task.values())):
        return ["the task has other keys than patient, session, referral"]
    if not _row(case.pre, "patient", task["patient"]) or not _row(case.pre, "clinic_session", task["session"]):
        return ["the task names rows that are not there"]
    referral = _row(case.pre, "referral", task["referral"])
    if (referral.get("patient_id"), referral.get("session_id")) != (task["patient"], task["session"]):
        return ["the target referral is not the target patient's for the target session"]
    return []


def clinic_targets(case: Case) -> list[str]:
    """What is wrong with the plan's task, fact, twin and detail."""
    problems, watched = clinic_task(case), case.plan["watched"]
    session = case.plan["task"].get("session")
    fact, detail = ["clinic_session", session, "location_id"], ["clinic_session", session, "parking_id"]
    if len(watched) != 3 or watched[0] != fact or watched[2] != detail or case.plan["arm"] != fact:
        problems.append("fact and detail are not the target session's")
    elif watched[1] == fact or watched[1][::2] != fact[::2] or not _row(case.pre, "clinic_session", watched[1][1]):
        problems.append("the twin is not the same column of another session")
    return problems


def clinic_nearest(case: Case, without: int = 0) -> Data | None:
    """The right slot of the target before the change (FORMAT.md section 10), among all slots but one."""
    task, pre = case.plan["task"], case.pre
    session = pre["clinic_session"][task["session"]]
    begin = _minutes(session["start"])
    busy = [
        (row["start"], row["end"])
        for row in pre["appointment"].values()
        if (row["patient_id"], row["date"], row["status"]) == (task["patient"], session["date"], "booked")
    ]
    there = ("free", session["location_id"], session["date"])
    fitting = [
        (abs(_minutes(row["start"]) - begin), row["start"], key)
        for key, row in pre["slot"].items()
        if key != without
        and (row["status"], row["location_id"], row["date"]) == there
        and all(row["end"] <= since or until <= row["start"] for since, until in busy)
    ]
    return pre["slot"][min(fitting)[2]] if fitting else None


def _minutes(clock: Any) -> int:
    hours, _, rest = str(clock).partition(":")
    return 60 * _number(hours) + _number(rest)


def clinic_choice(case: Case) -> Choice | None:
    """The nearest slot that fits, and the next nearest, which may be stored instead."""
    if clinic_task(case):
        return None
    best = clinic_nearest(case)
    other = clinic_nearest(case, best["id"]) if best else None
    if best is None or other is None:
        return None
    task, key = case.plan["task"], best["id"]
    about = {"referral_id": task["referral"], "slot_id": key}
    return Choice(
        arm=("slot", key, "status"),
        offered="/new/slot",
        made={"id": max(case.pre["appointment"], default=0) + 1, "patient_id": task["patient"], **about},
        asked=about,
        columns={
            "slot_id": (key, other["id"]),
            "start": (best["start"], other["start"]),
            "end": (best["end"], other["end"]),
        },
        following={
            ("slot", key, "status"): ("booked", "free"),
            ("slot", other["id"], "status"): ("free", "booked"),
        },
        carried=(task["referral"], key, other["id"]),
    )


def clinic_asked(params: Data) -> Data:
    """The columns of the booking that a review step is about."""
    return {"referral_id": _number(params.get("referral", "")), "slot_id": _number(params.get("slot", ""))}


def carried(tables: Tables, request: int, subject: int, chosen: int) -> int:
    """What a form about a subject holds in a request, given what was chosen in it."""
    for row in tables["carried"].values():
        if (row["subject"], row["chosen"]) == (subject, chosen) and _int(row["before"]) and row["before"] > request:
            return int(row["held"]) if _int(row["held"]) else chosen
    return chosen


def clinic_facts(tables: Tables, request: Data) -> dict[str, str]:
    """What the review says of the slot that the form holds, and an appointment's page of what is stored or was sent."""
    route, params = request["route"], request["params"]
    shown: Data = {}
    if route == "/new/review":
        asked = clinic_asked(params)
        slot = _row(tables, "slot", carried(tables, request["number"], asked["referral_id"], asked["slot_id"]))
        shown = {"Slot": slot.get("status")}
    elif route == "/appointments/{id}":
        slot = row = _row(tables, "appointment", _number(request["path"].split("/")[2]))
        shown = {"Reference": row.get("reference"), "Status": row.get("status")}
        if {"created", "again"} & params.keys() and row.get("form_key"):
            slot = _row(tables, "slot", _number(row["form_key"].split("-")[1]))
    else:
        return {}
    if not slot:
        return {}
    place = clinic_display(tables, "location_id", slot["location_id"])
    return {**shown, "Place": str(place), "Date": slot["date"], "Time": f"{slot['start']}-{slot['end']}"}


def clinic_display(tables: Tables, column: str, value: Any) -> str | None:
    """A stored place as pages show it, by its name; the status of a slot as it is."""
    if column == "status":
        return value if type(value) is str else None
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
    elif request["route"] == "/new/slot":
        place = _number(params.get("place", ""))
        due = {("slot", key, "status") for key, row in tables["slot"].items() if row["location_id"] == place}
    elif request["route"] == "/new/review":
        asked = clinic_asked(params)
        held = carried(tables, request["number"], asked["referral_id"], asked["slot_id"])
        due = {("slot", held, "status")}
        if case.plan["review"] == "value":
            referral = _row(tables, "referral", asked["referral_id"])
            due.add(("clinic_session", referral.get("session_id", 0), "location_id"))
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
    if (notice["record"], column) == ("slot", "status"):
        slot = _row(tables, "slot", notice["record_id"])
        place = clinic_display(tables, "location_id", slot.get("location_id"))
        when = f"{slot.get('date')}, {slot.get('start')}-{slot.get('end')}"
        return f"The slot at {place}, {when}, is now {slot['status']}." if slot else None
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
    found = re.fullmatch(r"\$? ?([0-9]{1,3}(?:,[0-9]{3}){1,2}|[0-9]{1,9})(?:\.([0-9]{1,2}))?", text)
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


def _types(**tables: str) -> Types:
    """The columns of the world's tables and of those that every world has: `#` a number, `?` may be null."""
    common = {
        "notice": "#id record #record_id field #visible_from #acknowledged",
        "history": "#id record #record_id field old new at by",
        "carried": "#id #subject #chosen #held #before",
        "perturbation_guard": "#id #request",
        "neutral": "#id value",
        "canary": "#id token",
    }
    found: Types = {}
    for name, columns in {**common, **tables}.items():
        found[name] = {}
        for column in columns.split():
            types: set[type] = {int if column[0] == "#" else str} | ({type(None)} if column[-1] == "?" else set())
            found[name][column.strip("#?")] = frozenset(types)
    return found


def _tools(text: str, **choices: tuple[str, ...]) -> dict[str, Tool]:
    """Tools by name, from lines of name, method, route and arguments, as FORMAT.md section 12 writes them.

    An argument is `name`, or `name=parameter`; `#` before it is a number, `?` behind its name may be left out.
    """
    found = {}
    for line in filter(None, text.splitlines()):
        name, method, route, *arguments = line.split()
        made = []
        for argument in arguments:
            at, _, param = argument.lstrip("#").partition("=")
            bare = at.rstrip("?")
            choice = frozenset(choices.get(bare, ()))
            made.append(Argument(bare, param or bare, argument[0] == "#", at == bare, choice))
        found[name] = Tool(method, route, tuple(made), name == "acknowledge_notice")
    return found


_COMMON_TOOLS = """
overview GET /
list_messages GET /inbox
read_message GET /inbox/{id} #message_id={id}
acknowledge_notice POST /notices/{id}/acknowledge #notice_id={id}
memo - - text
noop - -
"""

CLINIC = World(
    plan={"world": "clinic", "budget": 48, "review_route": "/new/review", "commit_table": "appointment"},
    surfaces=("/sessions", "/sessions/{id}"),
    pages=("/new/clinic", "/new/slot", "/new/review"),
    tables=_types(
        location="#id name address phone",
        provider="#id name role",
        patient="#id name born number phone",
        clinic_session="#id title #provider_id date start end #location_id #parking_id",
        slot="#id #location_id date start end status",
        appointment="#id reference #patient_id #location_id #slot_id date start end purpose status #referral_id? "
        "form_key #final",
        referral="#id reference #patient_id #session_id purpose received status appointment_reference?",
        message="#id sender subject body sent_at #read",
    ),
    tools=_tools(
        _COMMON_TOOLS
        + """
list_sessions GET /sessions #place_id?=place #provider_id?=provider
get_session GET /sessions/{id} #session_id={id}
get_session_form GET /sessions/{id}/edit #session_id={id}
edit_session POST /sessions/{id}/edit #session_id={id} #place_id?=place #parking_id?=parking
list_patients GET /patients query?=q
get_patient GET /patients/{id} #patient_id={id}
change_phone POST /patients/{id}/phone #patient_id={id} phone
list_appointments GET /appointments date? #patient_id?=patient
get_appointment GET /appointments/{id} #appointment_id={id}
cancel_appointment POST /appointments/{id}/cancel #appointment_id={id}
get_reschedule_form GET /appointments/{id}/reschedule #appointment_id={id} #place_id?=place
reschedule_appointment POST /appointments/{id}/reschedule #appointment_id={id} #slot_id=slot
list_referrals GET /referrals
get_referral GET /referrals/{id} #referral_id={id}
mark_referral_booked POST /referrals/{id}/book #referral_id={id} reference
mark_referral_declined POST /referrals/{id}/decline #referral_id={id}
start_booking GET /new/clinic #referral_id=referral
list_slots GET /new/slot #referral_id=referral #place_id=place
review_booking GET /new/review #referral_id=referral #slot_id=slot
confirm_booking POST /new/review #referral_id=referral #slot_id=slot form_key=key
report - - location start reference chosen?
"""
    ),
    link="Check the session record",
    reminder="! Before you confirm",
    targets=clinic_targets,
    choice=clinic_choice,
    display=clinic_display,
    serves=clinic_serves,
    title=titled(_TITLES),
    facts=clinic_facts,
    wording=clinic_wording,
    target=clinic_target,
    asked=clinic_asked,
    answered=answering("appointment", "/appointments", "referral", ("/new/review",), clinic_chosen),
)


def claims_targets(case: Case) -> list[str]:
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


def claims_choice(case: Case) -> Choice | None:
    """The right amount before the change, and the one that may be stored instead."""
    claim = _row(case.pre, "claim", case.plan["task"].get("claim"))
    policy = _row(case.pre, "policy", claim.get("policy_id"))
    known = (claim.get("claimed"), claim.get("deductible"), policy.get("reimbursement_limit"))
    if not all(map(_int, known)):
        return None
    right = min(claim["claimed"] - claim["deductible"], policy["reimbursement_limit"])
    if right <= 0:
        return None
    about = {"claim_id": claim["id"], "amount": right}
    return Choice(
        arm=("claim", claim["id"], "claimed"),
        offered="/approve/form",
        made={"id": max(case.pre["decision"], default=0) + 1, "outcome": "approved", **about},
        asked=about,
        columns={"amount": (right, swapped(right))},
        following={},
        carried=(claim["id"], right, swapped(right)),
    )


def swapped(amount: int) -> int:
    """An amount with its first two unequal neighbouring digits exchanged, if that can be without a leading 0.

    >>> swapped(393122), swapped(100000), swapped(333333)
    (933122, 10000, 333342)
    """
    digits = str(amount)
    unequal = [at for at in range(len(digits) - 1) if digits[at] != digits[at + 1]]
    if not unequal:
        return amount + 9
    at = next((at for at in unequal if at or digits[1] != "0"), unequal[0])
    return int(digits[:at] + digits[at + 1] + digits[at] + digits[at + 2 :])


def claims_asked(params: Data) -> Data:
    """The columns of the approval that a review step is about."""
    return {"claim_id": _number(params.get("claim", "")), "amount": _cents(params.get("amount", ""))}


def claims_facts(tables: Tables, request: Data) -> dict[str, str]:
    """What the review says of the amount that the form holds, and a decision's page of what is stored or was sent."""
    route, params = request["route"], request["params"]
    if route == "/approve/review":
        asked = claims_asked(params)
        held = carried(tables, request["number"], asked["claim_id"], asked["amount"])
        return {"Amount to approve": str(claims_display(tables, "amount", held))}
    row = _row(tables, "decision", _number(request["path"].split("/")[2])) if route == "/decisions/{id}" else {}
    if not row:
        return {}
    key = row["form_key"].split("-") if {"created", "again"} & params.keys() else []
    sent = int(key[1]) if len(key) > 1 and key[1].isascii() and key[1].isdecimal() else row["amount"]
    shown = {"Reference": row["reference"], "Outcome": row["outcome"], "Status": row["status"]}
    return {**shown, "Amount": str(claims_display(tables, "amount", sent))}


def claims_display(tables: Tables, column: str, value: Any) -> str | None:
    """Stored cents as pages show them."""
    if column not in ("reimbursement_limit", "amount", "claimed") or type(value) is not int:
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
    elif route in ("/approve/form", "/approve/review", "/deny/form"):
        claim = _number(params.get("claim", ""))
        due = {("claim", claim, "claimed")}
        if route == "/approve/review" and case.plan["review"] == "value":
            policy = _row(tables, "claim", claim).get("policy_id", 0)
            due.add(("policy", policy, "reimbursement_limit"))
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


_REASONS = ("Not covered", "Reported too late", "Documents missing")

CLAIMS = World(
    plan={"world": "claims", "budget": 40, "review_route": "/approve/review", "commit_table": "decision"},
    surfaces=("/policies", "/policies/{id}"),
    pages=("/approve/form", "/approve/review"),
    tables=_types(
        person="#id name number",
        policy="#id number product #person_id broker starts ends #reimbursement_limit",
        endorsement="#id #policy_id title #amount since",
        claim="#id number #person_id #policy_id cause #claimed #deductible lost_on received status",
        claim_line="#id #claim_id text #amount",
        document="#id #claim_id title received",
        decision="#id reference #claim_id outcome #amount reason decided_at by status form_key #final",
        message="#id sender subject body sent_at #read",
    ),
    tools=_tools(
        _COMMON_TOOLS
        + """
list_claims GET /claims status? product?
get_claim GET /claims/{id} #claim_id={id}
list_policies GET /policies product?
get_policy GET /policies/{id} #policy_id={id}
get_policy_form GET /policies/{id}/edit #policy_id={id}
edit_policy POST /policies/{id}/edit #policy_id={id} limit? broker?
start_approval GET /approve/form #claim_id=claim
review_approval GET /approve/review #claim_id=claim amount
approve_claim POST /approve/review #claim_id=claim amount form_key=key
start_denial GET /deny/form #claim_id=claim
deny_claim POST /deny/form #claim_id=claim form_key=key reason
list_decisions GET /decisions outcome?
get_decision GET /decisions/{id} #decision_id={id}
get_amendment_form GET /decisions/{id}/amend #decision_id={id}
amend_decision POST /decisions/{id}/amend #decision_id={id} amount? reason?
withdraw_decision POST /decisions/{id}/withdraw #decision_id={id}
report - - amount reference chosen?
""",
        status=("open", "approved", "denied"),
        outcome=("approved", "denied"),
        reason=_REASONS,
    ),
    link="",
    reminder="## Policy record",
    targets=claims_targets,
    choice=claims_choice,
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
    facts=claims_facts,
    wording=claims_wording,
    target=claims_target,
    asked=claims_asked,
    answered=answering("decision", "/decisions", "claim", ("/approve/review", "/deny/form"), claims_chosen),
)


# --- The phenomena that the format knows -----------------------------------------------------------------------------

UPDATE: Data = {"op": "update", "table": "neutral", "key": 1, "columns": {}}
INSERT: Data = {"op": "insert", "table": "neutral", "key": 0, "columns": {"value": [None, "-"]}}
"""The operations that change nothing."""


def inserted(table: str, columns: Data) -> Data:
    """An operation that inserts a row."""
    return {"op": "insert", "table": table, "key": 0, "columns": {name: [None, new] for name, new in columns.items()}}


def noticed(case: Case, record: Data) -> Data:
    """The operation that announces a change, or the one that stands in for it."""
    notice = {**record, "visible_from": "$next", "acknowledged": 0}
    return inserted("notice", notice) if case.arm.channel == "modal" else INSERT


def given(case: Case, place: int, column: str) -> Any:
    """The new value of a column in one of the plan's operations, None where there is none."""
    operations = case.plan["operations"]
    return operations[place]["columns"].get(column, [None, None])[1] if place < len(operations) else None


def drawn(case: Case, pages: tuple[str, ...]) -> list[list[str]]:
    """What the trigger may be: all form pages, or one of those that the anchor `any` draws from."""
    return {"first": [list(case.world.pages)], "any": [[page] for page in pages]}.get(case.plan["anchor"], [])


def stale_timing(case: Case) -> Data:
    """A form page fires; an announced change comes before the review."""
    review = case.world.plan["review_route"]
    pages = [page for page in case.world.pages if page != review or case.arm.channel != "modal"]
    return {**USUAL, "surfaces": list(case.world.surfaces), "trigger": drawn(case, tuple(pages))}


def stale_operations(case: Case, rule: Rule) -> list[tuple[str, Data]]:
    """Update, history row and notice, which name one value, with the texts that pages show for it."""
    if case.changed is None:
        return [("operations", UPDATE), ("operations", INSERT), ("operations", INSERT)]
    table, key, column = case.changed
    before, after = case.pre.get(table, {}).get(key, {}).get(column), given(case, 0, column)
    old, new = (case.world.display(case.pre, column, value) for value in (before, after))
    rule(old is not None and new is not None and old != new, "operations", f"{before!r} becomes {after!r}", 0)
    if list(case.changed) == case.plan["arm"]:
        text = case.plan["new_text"]
        rule(new == text, "fact_text", f"the fact becomes {new!r}, the plan says {text!r}", 0)
    record = {"record": table, "record_id": key, "field": column}
    history = {**record, "old": old, "new": new, "at": "$now", "by": "Administration"}
    update = {"op": "update", "table": table, "key": key, "columns": {column: [before, after]}}
    return [("update", update), ("history", inserted("history", history)), ("notice", noticed(case, record))]


def contested_timing(case: Case) -> Data:
    """A form page fires, and the commit at the latest."""
    review = case.world.plan["review_route"]
    trigger = drawn(case, case.world.pages[-2:])
    return {**USUAL, "surfaces": [review], "trigger": trigger, "posts": [review]}


def contested_targets(case: Case) -> list[str]:
    """What is wrong with the right slot, and with the one that decides nothing."""
    choice, watched = case.choice(), case.plan["watched"]
    if choice is None:
        return ["the task has no right slot"]
    if len(watched) != 2 or watched[0] != list(choice.arm) or case.plan["arm"] != watched[0]:
        return ["the fact is not the status of the right slot"]
    best, second = (case.pre["slot"][key] for key in choice.columns["slot_id"])
    spare = [
        row
        for row in case.pre["slot"].values()
        if row not in (best, second) and (row["status"], row["date"]) == ("free", best["date"])
    ]
    near = [row for row in spare if row["location_id"] == best["location_id"]] or spare
    right = watched[1] in [["slot", row["id"], "status"] for row in near]
    return [] if right else ["the other slot is none that decides nothing"]


def contested_operations(case: Case, rule: Rule) -> list[tuple[str, Data]]:
    """The slot is taken, by the booking of another patient, and a notice or a mail says so."""
    if case.changed is None:
        return [("operations", UPDATE), ("operations", INSERT), ("operations", INSERT)]
    table, key, column = case.changed
    slot, pre = _row(case.pre, table, key), case.pre
    place = {name: slot.get(name) for name in ("location_id", "date", "start", "end")}
    patient = _row(pre, "patient", given(case, 1, "patient_id"))
    busy = {case.plan["task"].get("patient")} | {
        row["patient_id"]
        for row in pre["appointment"].values()
        if row["date"] == place["date"] and row["start"] < place["end"] and place["start"] < row["end"]
    }
    free = patient.get("id") not in busy and bool(patient)
    rule(free, "rival", f"patient {given(case, 1, 'patient_id')!r} is the target's, none, or not free at that time", 0)
    numbers = [_number(row["reference"].removeprefix("AP-")) for row in pre["appointment"].values()]
    purposes = [row["purpose"] for _, row in sorted(pre["appointment"].items())]
    held: Data = {
        "reference": f"AP-{max(numbers, default=0) + 1}",
        "patient_id": patient.get("id"),
        "slot_id": key,
        **place,
        "purpose": purposes[0] if purposes else "",
        "status": "booked",
        "referral_id": None,
        "form_key": "",
        "final": 0,
    }
    update = {"op": "update", "table": table, "key": key, "columns": {column: ["free", "booked"]}}
    told = ("notice", noticed(case, {"record": table, "record_id": key, "field": column}))
    if case.arm.channel == "mail":
        told = ("message", inserted("message", _letter(case, patient, place, rule)))
    return [("update", update), ("rival", inserted("appointment", held)), told]


def _letter(case: Case, patient: Data, slot: Data, rule: Rule) -> Data:
    """The message in which a colleague says that a slot has been given to a patient."""
    sender = given(case, 2, "sender")
    staff = [row["name"] for row in case.pre["provider"].values()]
    rule(sender in staff, "sender", f"{sender!r} is none of the staff", 0)
    place = clinic_display(case.pre, "location_id", slot["location_id"])
    when = f"{slot['date']}, {slot['start']}-{slot['end']}"
    body = f"I have just booked {patient.get('name')} at {place}, {when}. The slot is no longer free."
    return {"sender": sender, "subject": "Slot given away", "body": body, "read": 0, "sent_at": "$now"}


def ghost_timing(case: Case) -> Data:
    """The right commit's own request fires once it has written, or that for the review of it before it reads."""
    choice, review = case.choice(), case.world.plan["review_route"]
    if choice is None:
        return {}
    if case.arm.when == "review":
        return {**USUAL, "surfaces": [choice.offered], "trigger": [[review]], "when": choice.asked}
    return {"surfaces": [review], "trigger": [[]], "posts": [review], "phase": "after", "when": choice.made}


def ghost_targets(case: Case) -> list[str]:
    """What is wrong with the value that shows that the right commit is being chosen."""
    choice = case.choice()
    if choice is None:
        return ["the task has no right commit"]
    right = case.plan["watched"] == [list(choice.arm)] == [case.plan["arm"]]
    return [] if right else ["the fact is not what the form shows of the right commit"]


def ghost_operations(case: Case, rule: Rule) -> list[tuple[str, Data]]:
    """What the commit stored, or what the form carries, once more or otherwise."""
    choice, stores, when = case.choice(), case.arm.stores, case.arm.when
    if choice is None or not stores:
        return [("operations", UPDATE)] * (1 + len(choice.following if choice else ()))
    other = stores == "other"
    if when == "review":
        subject, chosen, held = choice.carried
        row = {"subject": subject, "chosen": chosen, "held": held if other else chosen, "before": "$next"}
        return [("carried", inserted("carried", row)), *[("operations", UPDATE)] * len(choice.following)]
    columns = {name: [old, new if other else old] for name, (old, new) in choice.columns.items()}
    if when == "closed":
        columns["final"] = [0, 1]
    table = case.world.plan["commit_table"]
    update = {"op": "update", "table": table, "key": choice.made["id"], "columns": columns}
    following = [
        {"op": "update", "table": name, "key": key, "columns": {column: [old, new if other else old]}}
        for (name, key, column), (old, new) in choice.following.items()
    ]
    return [("commit", update), *(("following", operation) for operation in following)]


STALE = Phenomenon(
    "stale",
    {
        "L0": Arm(),
        "C": Arm(2, "modal"),
        "L2": Arm(0, "modal"),
        "OFF-A": Arm(0),
        "CUE-A": Arm(0, review="link"),
        "LIVE-A": Arm(0, review="value"),
        "ON-A": Arm(0, review="value"),
        "OFF-I": Arm(1),
        "LIVE-I": Arm(1, review="value"),
        "ON-I": Arm(1, review="value"),
    },
    stale_timing,
    lambda case: case.world.targets(case),
    stale_operations,
)
CONTESTED = Phenomenon(
    "contested",
    {"L0": Arm(), "C": Arm(1, "modal"), "L2": Arm(0, "modal"), "OFF-A": Arm(0), "MAIL-A": Arm(0, "mail")},
    contested_timing,
    contested_targets,
    contested_operations,
)
GHOST = Phenomenon(
    "ghost",
    {
        "L0": Arm(),
        "C": Arm(stores="same"),
        "OFF-A": Arm(stores="other"),
        "REV-C": Arm(stores="same", when="review"),
        "REV-A": Arm(stores="other", when="review"),
        "FIN-C": Arm(stores="same", when="closed"),
        "FIN-A": Arm(stores="other", when="closed"),
    },
    ghost_timing,
    ghost_targets,
    ghost_operations,
)
_GHOSTS = "L0 C OFF-A REV-C REV-A FIN-C FIN-A"
ENVIRONMENTS = {
    "EnvOS/ClinicStale-v0": Environment(CLINIC, STALE, "L0 C L2 OFF-A CUE-A LIVE-A OFF-I LIVE-I", "uncounted"),
    "EnvOS/ClaimsStale-v0": Environment(CLAIMS, STALE, "L0 C L2 OFF-A ON-A OFF-I ON-I", "failure"),
    "EnvOS/ClinicContested-v0": Environment(CLINIC, CONTESTED, "L0 C L2 OFF-A MAIL-A", "failure"),
    "EnvOS/ClinicGhost-v0": Environment(CLINIC, GHOST, _GHOSTS, "failure"),
    "EnvOS/ClaimsGhost-v0": Environment(CLAIMS, GHOST, _GHOSTS, "failure"),
}
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
        if state == "wrong":
            rule(False, "record_order", f"a {kind} record cannot stand here", seq)
            return
        if kind in due:
            number = data["step"] if kind == "action" else data["number"]
            if number != due[kind]:
                rule(False, "step_gap", f"{kind} {number}, due is {due[kind]}", seq)
            due[kind] += 1
        if "step" in data:
            expected = step - 1 if kind == "end" else step
            if data["step"] != expected:
                rule(False, "step_wrong", f"{kind} of step {data['step']}, due {expected}", seq)
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


EVALUATOR = ("canary", "neutral", "perturbation_guard")
"""Tables that are no part of the instance."""


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
    told = identity.get("actions", "tools")
    rule(told == "tools", "actions", f"format {FORMAT} knows no actions {told!r}", 0)
    rows = {name: rows for name, rows in case.before.items() if name not in EVALUATOR}
    known = [identity[name] for name in ("environment", "split", "seed")]
    made = digest(_encode([*known, rows, case.plan["task"], identity["brief"], case.plan["opened"]]))
    rule(identity["instance"] == made, "instance", "rows, task and brief before the episode are not the instance's")
    rule("" not in (identity["version"], identity["grader"]), "identity_empty", "version or grader", 0)
    asked, resolved = identity["model"], identity["model_resolved"]
    model = found.rule("model", model=asked, model_resolved=resolved, code=identity["code"])
    model(asked == resolved, "model_resolved", f"{asked!r} was asked for, {resolved!r} answered", 0)
    due = "canary-" + digest(identity["instance"])[:24]
    tokens = [row["token"] for row in case.pre["canary"].values()]
    rule(tokens == [due], "canary", f"the canary {tokens} is not that of the instance")
    needles = {str(token).encode("ascii", "backslashreplace") for token in (due, *tokens)}
    data = case.files[LEDGER]
    lines = data.split(b"\n") if any(needle in data for needle in needles) else []
    seen = [seq for seq, line in enumerate(lines) if any(needle in line for needle in needles)]
    isolation = found.rule("isolation", canary_lines=seen)
    isolation(not seen, "canary_seen", "evaluator data was reached", *seen[:1])


def check_plan(case: Case, found: Findings) -> None:
    """The plan agrees with the identity, the world, the condition and the pre-state."""
    plan, world, kind = case.plan, case.world, case.environment
    rule = found.rule("plan", condition=plan["condition"], anchor=plan["anchor"], changed=case.changed)
    for name in ("condition", "anchor"):
        rule(plan[name] == case.identity[name], "plan_identity", f"another {name} than the identity's", 0)
    rule(plan["condition"] in kind.conditions.split(), "plan_condition", f"{plan['condition']!r}", 0)
    rule(plan["anchor"] in ("first", "any"), "plan_anchor", f"{plan['anchor']!r}", 0)
    problems = kind.phenomenon.targets(case)
    rule(not problems, "plan_task", "; ".join(problems), 0)
    timing = kind.phenomenon.timing(case)
    allowed = timing.pop("trigger", [])
    rule(plan["trigger"] in allowed, "plan_trigger", f"{plan['trigger']} for anchor {plan['anchor']!r}", 0)
    constants = {**world.plan, "phenomenon": kind.phenomenon.name, "untriggered": kind.untriggered, **timing}
    for name, value in constants.items():
        right = plan[name] == value and (name != "when" or _encode(plan[name]) == _encode(value))
        rule(right, "plan_world", f"{name} is {plan[name]!r}, due is {value!r}", 0)
    promised, due = (plan["announced"], plan["review"]), (case.arm.channel == "modal", case.arm.review)
    rule(promised == due, "plan_promise", f"{promised}, due {due}", 0)
    for name, usual in USUAL.items():
        rule(case.entries[0].data["plan"].get(name) != usual, "plan_usual", f"{name} is as usual, and is told", 0)
    rule(moment(plan["opened"], 0) == plan["opened"], "plan_opened", plan["opened"], 0)
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
ASKING = ("click", "goto", "go_back")
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


def read_call(raw: str, tools: Mapping[str, Tool]) -> tuple[str, list[str], dict[str, str]] | None:
    """Verb, arguments and report fields of a call of a tool, None where it is none."""
    if len(raw) > ACTION_LIMIT:
        return None
    try:
        call = _decode_once(raw)
        json.dumps(call, ensure_ascii=False).encode()  # a lone surrogate, which may be written as an escape
    except (ValueError, RecursionError):
        return None
    if type(call) is not dict or not call.keys() <= {"name", "arguments"}:
        return None
    name, given = str(call.get("name")), call.get("arguments", {})
    tool = tools.get(name) if type(call.get("name")) is str else None
    if tool is None or type(given) is not dict or not given.keys() <= {item.name for item in tool.arguments}:
        return None
    for item in tool.arguments:
        if not (_fitting(item, given[item.name]) if item.name in given else not item.required):
            return None
    if name == "report":
        return name, [], {item.name: given[item.name] for item in tool.arguments if item.name in given}
    return name, {"memo": list(given.values()), "noop": []}.get(name, [_encode(given)]), {}


def _fitting(item: Argument, value: Any) -> bool:
    """Whether an argument may have a value."""
    if item.number:
        return type(value) is int and 0 < value < 10**9
    return type(value) is str and (not item.choices or value in item.choices)


def _once(pairs: list[tuple[str, Any]]) -> Data:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name is given twice")
    return found


_decode_once = json.JSONDecoder(object_pairs_hook=_once, parse_constant=_constant).decode


def asked_by(tool: Tool, given: Data) -> tuple[str, str, dict[str, str]]:
    """Method, path and parameters of the request that a call makes."""
    path, params = tool.route, {}
    for item in tool.arguments:
        text = str(given.get(item.name, ""))
        if item.param == "{id}":
            path = path.replace("{id}", text)
        elif text and (clean(text) or tool.method == "POST"):
            params[item.param] = clean(text)
    return tool.method, path, params


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
        parsed = read_call(action["raw"], case.world.tools) if case.by_tools else read_action(action["raw"])
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
        check = _check_call if case.by_tools else _check_cause
        check(case, action, caused.get(step, []), lambda *noted, seq=seq: rule(*noted, seq))


def _check_cause(case: Case, action: Data, caused: list[Exchange], rule: Rule) -> None:
    """A step's requests are those that its action makes, on the element that it was shown."""
    step, verb, role = action["step"], action["verb"], ""
    direct = [exchange.request for exchange in caused if exchange.request["via"] != "redirect"]
    where = f"step {step}, {verb or 'no action'}"
    if verb in ROLES and action["args"] and not action["error"] and 0 < step <= len(case.frames):
        elements = case.frames[step - 1].data["elements"]
        index = action["args"][0].lstrip("0")
        _, found, rest = f"\n{elements}".partition(f"\n[{index}] ")
        role = rest.partition(" ")[0]
        cut = not found and len(elements) > ELEMENTS_LIMIT // 2
        rule(role in ROLES[verb] or cut, "element", f"{where}: element {index} is a {role or 'missing one'}")
    if action["error"] or verb not in ASKING or role == "radio":
        rule(not direct, "request_unasked", f"{where}: {len(direct)} requests")
        return
    # What the agent asked for bears another actor where the change was forged: that is a matter of the trigger.
    rule(len(direct) == 1 or (verb == "click" and not role), "request_count", f"{where}: {len(direct)} requests")
    asks = verb != "click" or role == "link"
    rule(not asks or all(request["method"] == "GET" for request in direct), "request_method", f"{where} asks with GET")


def _check_call(case: Case, action: Data, caused: list[Exchange], rule: Rule) -> None:
    """A call makes the one request that its arguments say; a notice comes first."""
    step, verb = action["step"], action["verb"]
    direct = [exchange.request for exchange in caused if exchange.request["via"] != "redirect"]
    where, tool = f"step {step}, {verb or 'no action'}", case.world.tools.get(verb)
    if action["error"] or tool is None or tool.method == "-" or len(action["args"]) != 1:
        rule(not direct, "request_unasked", f"{where}: {len(direct)} requests")
        return
    if not rule(len(direct) == 1, "request_count", f"{where}: {len(direct)} requests"):
        return
    try:
        given = _decode_once(action["args"][0])
    except (ValueError, RecursionError):
        return  # what the raw text says is another matter
    method, path, params = asked_by(tool, given if type(given) is dict else {})
    frame = case.frames[step - 1].data if 0 < step <= len(case.frames) else {"notice": "", "url": ""}
    if tool.acknowledges:
        params["back"] = clean(frame["url"])
    rule(tool.acknowledges == (frame["notice"] != ""), "notice_first", f"{where}: the notice was {frame['notice']!r}")
    asked = tuple(direct[0][name] for name in ("method", "path", "params"))
    rule(asked == (method, path, params), "request_differs", f"{where} asks for {asked}, due {(method, path, params)}")


# --- Requests and frames ---------------------------------------------------------------------------------------------


def clean(text: str) -> str:
    """A text as parameters hold it."""
    if len(text) <= 200 and text.isprintable() and text == text.strip() and "  " not in text:
        return text
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
        _check_frame(case, frame, lambda *noted, seq=seq: rule(*noted, seq))
        shows = latest is not None and frame["request"] == latest.number
        rule(shows, "frame_request", f"frame {place} shows request {frame['request']}, not the last", seq)
        if shows and latest is not None:
            _check_page(case, frame, latest, lambda *noted, seq=seq: rule(*noted, seq))
        answer = actions.get(place + 1, {"frame": place, "frame_sha256": frame["sha256"]})
        right = (answer["frame"], answer["frame_sha256"]) == (place, frame["sha256"])
        rule(right, "frame_unacknowledged", f"action {place + 1} answers another frame", seq)
        if before is not None and asked == earlier:
            # Clicking a radio button, filling and selecting change the page without a request.
            names = _SEEN[:3] if case.verb(place) in ROLES and not case.by_tools else _SEEN
            changed = [name for name in names if frame[name] != before[name]]
            rule(not changed, "frame_changed", f"frame {place}: nothing was asked for, yet {changed} differ", seq)
        before = frame
    used = {entry.data["screenshot"] for entry in case.frames} - {""}
    there = {name for name in case.files if name not in NAMES}
    rule(used == there, "screenshot", "the screenshots are not those that the frames name")


def _check_frame(case: Case, frame: Data, rule: Rule) -> None:
    """What a frame says of itself."""
    where, page, notice = f"frame {frame['number']}", frame["page"], frame["notice"]
    seen = (frame["url"], page, frame["elements"], notice, frame["error"], frame["memo"], str(frame["budget_left"]))
    rule(digest("\x1f".join(seen)) == frame["sha256"], "frame_digest", f"{where} was altered")
    most = (RESULT_LIMIT, 0) if case.by_tools else (PAGE_LIMIT, ELEMENTS_LIMIT)
    fits = len(page) <= most[0] and len(frame["elements"]) <= most[1] and len(frame["memo"]) <= MEMO_LIMIT
    rule(fits, "frame_length", f"{where} is longer than frames are")
    if case.by_tools:
        begin = f'{{"notice":{{"text":{_quoted(notice)}' if notice else '{"title":'
        begins = page.startswith(begin[: len(page)]) and page != ""
    else:
        title, _, text = notice.partition(": ")
        begins = page.startswith(f"!! {title}\n{text}\n"[:PAGE_LIMIT]) if notice else not page.startswith("!! ")
    rule(begins, "notice_lines", f"{where}: its notice and what its page begins with differ")


_quoted = json.JSONEncoder(ensure_ascii=False).encode


def _check_page(case: Case, frame: Data, exchange: Exchange, rule: Rule) -> None:
    """The frame stands where its request asked, and its page has that page's heading."""
    request, where = exchange.request, f"frame {frame['number']}"
    path, params = address(frame["url"])
    right = path == request["path"] and (params == request["params"] or request["method"] == "POST")
    before = case.by_number.get(exchange.number - 1)
    if request["via"] == "redirect" and before is not None:
        right = right and before.request["location"] == frame["url"]
    rule(right, "frame_address", f"{where} stands at {frame['url']}, its request asked for {request['path']}")
    if case.by_tools:
        # A result that was cut off has a notice, or begins with its title.
        result = case.result(frame)
        right = exchange.title is not None and result.get("title") == exchange.title
        if not result:
            begin = f'{{"title":{_quoted(exchange.title)}'
            right = frame["notice"] != "" or begin.startswith(frame["page"]) or frame["page"].startswith(begin)
        rule(right, "frame_heading", f"{where} is titled {result.get('title')!r}, due {exchange.title!r}")
        return
    _, found, rest = f"\n{frame['page']}".partition("\n# ")
    heading = rest.partition("\n")[0]
    right = found != "" and heading == exchange.title
    rule(right, "frame_heading", f"{where} is headed {heading!r}, due {exchange.title!r}")


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
    written = {write.data["table"] for exchange in case.exchanges for write in exchange.writes}
    now = {name: [list(row.values()) for _, row in sorted(tables[name].items())] for name in written & tables.keys()}
    # Where nothing was written, the types are known to be the column's on both sides.
    equal = {
        name: _equal(now[name], rows) if name in now else case.before[name] == rows for name, rows in case.after.items()
    }
    different = sorted(name for name in equal if not equal[name])
    journal(not different, "state_contradiction", f"pre-state and writes do not lead to: {', '.join(different)}")


def _equal(one: list[list[Any]], other: list[list[Any]]) -> bool:
    """Whether two tables have the same rows, types included."""
    return one == other and all(
        list(map(type, row)) == list(map(type, same)) for row, same in zip(one, other, strict=True)
    )


def _apply(case: Case, tables: Tables, entry: Entry, exchange: Exchange, rule: Rule) -> None:
    """Carry out one write, and check it against its request and the row as it is."""
    write, request, seq = entry.data, exchange.request, entry.seq
    op, table, key, columns = write["op"], write["table"], write["key"], write["columns"]
    where = f"{op} of {table} {key}"
    placed = write["request"] == exchange.number and write["actor"] in (request["actor"], "perturbation")
    rule(placed, "write_place", f"{where}: not of this request or by another actor", seq)
    # To acknowledge a notice leads back to the page beneath it, which may be that of a refusal.
    back = request["route"] == "/notices/{id}/acknowledge" and request["params"].get("back") == request["location"]
    refused = request["status"] >= 400 or (request["location"].startswith("/refused?") and not back)
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
    exchange.facts = world.facts(tables, request) if exchange.page() else {}
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
    known = served.keys() <= due and len(served) == len(request["served"])
    if missing or not known:
        detail = f"request {number} serves {sorted(served)}, its page shows {sorted(due)}"
        log(known, "served_unshown", detail, exchange.seq)
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
        if exchange.facts and not _says(case, frame, exchange.facts, (PAGE_LIMIT, longest)):
            rule(False, "fact_unshown", f"{where} does not say of the commit: {exchange.facts}", seq)
        for *value, text, offset in frame["delivered"]:
            total += 1
            stands = text != "" and last < offset and _stands(page, text, offset, case.by_tools)
            log(stands, "delivered_text", f"{where}: {text!r} does not stand at {offset}", seq)
            last = offset
            if log((*value, text) in left, "delivered_unserved", f"{where}: {text!r} was not served", seq):
                left.remove((*value, text))
        for *value, text in left:
            # A value may be served and not delivered where the page was cut before it.
            cut = len(page) == PAGE_LIMIT or (len(page) == longest and text not in page)
            if case.by_tools:
                cut = not case.result(frame) or '"left_out":' in page or _quoted(text) != f'"{text}"'
            lost = value == case.plan["arm"] and _promised(case, exchange) and text not in page
            rule(cut or lost, "served_undelivered", f"{where}: {text!r} was served and is not delivered", seq)
    found.rule("exposure_log", delivered=total)


def _says(case: Case, frame: Data, facts: Mapping[str, str], cut: tuple[int, ...]) -> bool:
    """Whether a page says all of these facts; one that was cut, to one of these lengths, need not."""
    if case.by_tools:
        said = [part["facts"] for part in case.body(frame) if type(part.get("facts")) is dict]
        return not case.result(frame) or any(
            all(part.get(label) == text for label, text in facts.items()) for part in said
        )
    lines = frame["page"].split("\n")
    return len(frame["page"]) in cut or all(f"{label}: {text}" in lines for label, text in facts.items())


def _stands(page: str, text: str, offset: int, by_tools: bool = False) -> bool:
    """Whether a text stands whole at an offset of a page: between blanks or line ends, in a result blanks or quotes.

    The end of what was cut off is as good.
    """
    end = offset + len(text)
    around = {page[offset - 1 : offset] if offset else "", page[end : end + 1]}
    return page[offset:end] == text and around <= (_QUOTED if by_tools else _AROUND)


_AROUND = {"", " ", "\n"}
_QUOTED = {"", " ", '"'}


# --- Promises --------------------------------------------------------------------------------------------------------


def check_promises(case: Case, found: Findings) -> None:
    """Notices and disclosures at the review step: shown where promised, and nowhere else."""
    plan = case.plan
    fired = case.fired.number if case.fired is not None else 2**31
    commit = min((exchange.number for exchange in case.commits()), default=2**31)
    notice, review = found.rule("notice", promised=plan["announced"]), found.rule("review", promised=plan["review"])
    leak = found.rule("unannounced")
    due = reached = reviews = 0
    _check_reviewed(case, fired, review)
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
            # Where the commit's own request may fire, no notice is sure to come before it.
            reached += shows and own and fired < exchange.number and (exchange.number < commit or bool(plan["posts"]))
        if exchange.page() and exchange.request["route"] == plan["review_route"]:
            reviews += 1
            _check_review(case, frame, exchange, review, leak, seq)
    missing = plan["announced"] and case.fired is not None and not reached
    notice(not missing, "notice_missing", "the promised notice reached no frame in time")
    found.rule("notice", due=due, reached=reached)
    found.rule("review", frames=reviews)


def _check_reviewed(case: Case, fired: int, review: Rule) -> None:
    """Where the review promises something, a commit for the target comes from a page of the review after the change.

    A tool needs no page to come from, and another form has no review: there it is the agent that passed it by.
    """
    plan, world = case.plan, case.world
    if plan["review"] == "nothing" or case.by_tools or case.fired is None:
        return
    for exchange in case.commits():
        request = exchange.request
        if not world.target(case, request):
            continue
        shown = (case.by_number.get(frame.data["request"]) for frame in case.frames if frame.seq < exchange.seq)
        pages = [page for page in shown if page and page.number >= fired and page.page()]
        reviewed = any(
            page.request["route"] == plan["review_route"] and world.target(case, page.request) for page in pages
        )
        detail = f"request {exchange.number} commits, and no review stands between the change and it"
        review(reviewed or request["route"] != plan["review_route"], "review_missing", detail, exchange.seq)
        return


def _check_review(case: Case, frame: Data, exchange: Exchange, review: Rule, leak: Rule, seq: int) -> None:
    plan, world, where = case.plan, case.world, f"frame {frame['number']}, the review step,"
    if case.by_tools:
        parts = [part for part in case.body(frame) if _reminds(world, part)]
        linked = not world.link or any(str(part.get("banner")).endswith(f" {world.link}") for part in parts)
        links = [link for part in parts if type(part.get("links")) is list for link in part["links"]]
        offered = [link for link in links if type(link) is dict and link.get("text") == world.link and "tool" in link]
        reminded, linked, listed = bool(parts), linked and bool(parts), bool(offered)
    else:
        lines = [without_indices(line) for line in frame["page"].split("\n") if line.startswith(world.reminder)]
        # A world without such a link shows the record itself beneath the reminder.
        linked = any(line.endswith(f" {world.link}" if world.link else world.reminder) for line in lines)
        reminded, listed = bool(lines), f'link "{world.link}"\n' in frame["elements"] + "\n"
    listed = listed or frame["notice"] != "" or not world.link
    value = any(item[:3] == plan["arm"] for item in frame["delivered"])
    leak(not reminded or plan["review"] != "nothing", "review_unannounced", f"{where} shows a reminder", seq)
    # A fact of which the form itself is the source is no disclosure.
    shown = not value or plan["review"] == "value" or plan["surfaces"] != list(world.surfaces)
    leak(shown, "review_unannounced", f"{where} shows the fact", seq)
    if plan["review"] in ("link", "value") and world.target(case, exchange.request):
        review(linked and listed, "review_link", f"{where} does not show the link to the source", seq)
        review(value or plan["review"] == "link", "review_value", f"{where} does not show the current value", seq)


def _reminds(world: World, part: Data) -> bool:
    """Whether a part of a result is the reminder of the review step."""
    kind, words = ("banner", world.reminder[2:]) if world.link else ("heading", world.reminder[3:])
    return str(part.get(kind)).startswith(words)


def without_indices(line: str) -> str:
    """Lines of a page without the numbers of their elements."""
    return _INDEX.sub("", line)


_INDEX = re.compile(r"\[[0-9]+\] ")


# --- The change ------------------------------------------------------------------------------------------------------


def check_change(case: Case, found: Findings) -> None:
    """Whether the change happened, and every rule of protocol section 4."""
    fires = [fire for exchange in case.exchanges for fire in exchange.fires]
    made = [write for exchange in case.exchanges for write in exchange.writes if perturbs(write)]
    before, after = (rows["perturbation_guard"] for rows in (case.before, case.after))
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
    # The commit's own request may be the one that fires; which of the two comes first there is a matter of scope.
    before = case.plan["phase"] == "before"
    begun = min(commits, default=number if before else 0)
    right = begun >= number if before else begun == number
    order(right, "commit_before_change", f"commits {commits}, change {number}, {case.plan['phase']} the commit")


def _arms(case: Case, entry: Entry) -> bool:
    """Whether a frame delivered the old value of the fact, on a source page that the agent itself asked for."""
    frame, plan = entry.data, case.plan
    exchange = case.by_number.get(frame["request"])
    if exchange is None or not exchange.own(case.session) or exchange.request["route"] not in plan["surfaces"]:
        return False
    fact = [*plan["arm"], plan["arm_text"]]
    given = [item[4] for item in frame["delivered"] if item[:4] == fact]
    shown = any(_stands(frame["page"], fact[3], offset, case.by_tools) for offset in given)
    return shown and fact in exchange.request["served"]


def _eligible(case: Case, arming: Entry | None) -> Exchange | None:
    """The first request that fires, after a frame that arms and before the agent commits."""
    for exchange in case.exchanges if arming is not None else ():
        if arming is not None and exchange.seq > arming.seq and case.triggers(exchange):
            return exchange
        if any(write["actor"] == "agent" for write in exchange.inserts(case.plan["commit_table"])):
            return None
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
    asks = case.world.tools[verb].method != "-" if case.by_tools and verb in case.world.tools else verb in ASKING
    mine = at.own(case.session) and asks
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
    # In its request the change comes first, or after what the commit wrote, and is closed by its fire record.
    order = ("perturbation", "fire", "") if case.plan["phase"] == "before" else ("", "perturbation", "fire")
    for exchange in case.exchanges:
        actors = {write.data["actor"] for write in exchange.writes}
        scope(actors <= {"agent", "perturbation"}, "scope_actor", f"writes by {sorted(actors)}", exchange.seq)
        entries = sorted((*exchange.writes, *exchange.fires), key=lambda entry: entry.seq)
        kinds = ["fire" if entry.kind == "fire" else "perturbation" if perturbs(entry) else "" for entry in entries]
        kept = kinds == sorted(kinds, key=order.index)
        detail = f"the change does not stand {case.plan['phase']} what the request itself wrote"
        scope(kept, "scope_order", detail, exchange.seq)


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
    touched = {
        name
        for exchange in case.exchanges
        for other in exchange.writes
        if other.seq < entry.seq and other.data["actor"] == "agent"
        if (other.data["table"], other.data["key"]) == (write["table"], write["key"])
        for name in other.data["columns"]
    }
    for name, (old, new) in columns.items():
        before, after = write["columns"].get(name, (new, new))
        if after != new or (before != old and name not in touched):
            return False
    return bool(write["columns"].keys() <= columns.keys())


def _check_agreement(case: Case, fires: list[Entry], found: Findings) -> None:
    """The plan's operations are those of its condition, and the fire record counts them."""
    operations = case.plan["operations"]
    neutral = sum(operation["table"] == "neutral" for operation in operations)
    rule = found.rule("agreement", operations=len(operations), neutral=neutral)
    for fire in fires:
        counted = (fire.data["operations"], fire.data["neutral"])
        right = counted == (len(operations), neutral)
        rule(right, "operation_count", f"{counted}, planned {len(operations)}", fire.seq)
    due = case.environment.phenomenon.operations(case, rule)
    for (name, wanted), planned in zip(due, operations, strict=False):
        code = "operations" if name == "operations" else f"{name}_operation"
        rule(_encode(wanted) == _encode(planned), code, f"planned {planned}, due {wanted}", 0)
    rule(len(operations) == len(due), "operations", f"{len(operations)} operations, due {len(due)}", 0)


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
        lines = stale.setdefault(_about(case, exchange.request), {})
        if exchange.number < at.number:
            for *value, text, offset in frame["delivered"]:
                if tuple(value) == case.changed:
                    lines[_line(frame["page"], offset, case.by_tools)] = text
            continue
        later += 1
        page = frame["page"] if lines else ""
        for line in _LISTS.split(page) if case.by_tools else without_indices(page).split("\n"):
            right = lines.get(line, exchange.current[case.changed]) == exchange.current[case.changed]
            rule(right, "stale_page", f"frame {frame['number']} shows again: {line}", entry.seq)
    found.rule("freshness", frames_after=later)


def _about(case: Case, request: Data) -> str:
    """What a page is about: its path, and where the fact is one of a form's choices, what was chosen."""
    path = str(request["path"])
    return path if case.environment.phenomenon is STALE else f"{path}?{_encode(request['params'])}"


_LISTS = re.compile(r"[\[\]]")


def _line(page: str, offset: int, by_tools: bool) -> str:
    """The line of a page that holds an offset, without element numbers; in a result what stands between brackets."""
    if by_tools:
        before = max(page.rfind(bracket, 0, offset) for bracket in "[]")
        return _LISTS.split(page[before + 1 :], 1)[0]
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
    environment = ENVIRONMENTS.get(name)
    if environment is None:
        found.rule("plan")(False, "environment", f"format {FORMAT} knows no environment {name!r}", 0)
        return None
    states = found.rule("states")
    types = environment.world.tables
    right = {table: set(names) for table, names in columns.items()} == {name: set(row) for name, row in types.items()}
    detail = "the tables and columns are not the world's, or differ before and after"
    if not states(right and post_columns == columns, "state_tables", detail):
        return None
    for state, rows in ((PRE, pre), (POST, post)):
        odd = [f"{table}.{column}" for table, column in _odd(types, columns, rows)]
        if not states(not odd, "state_types", f"{state}: values of another type in {', '.join(odd)}"):
            return None
    neutral = [dict(zip(columns["neutral"], row, strict=True)) for row in pre["neutral"]]
    states(neutral == [{"id": 1, "value": "-"}], "state_neutral", "the neutral table is not as it begins")
    return Case(environment, entries, columns, (pre, post), files)


def _odd(types: Types, columns: Columns, tables: Rows) -> Iterator[tuple[str, str]]:
    """The columns that hold a value of another type than theirs."""
    for table, rows in tables.items():
        for column, values in zip(columns[table], zip(*rows, strict=True), strict=False):
            if not types[table][column].issuperset(map(type, values)):
                yield table, column


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
