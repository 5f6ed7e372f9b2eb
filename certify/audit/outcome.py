"""Outcome auditor: re-derives the endpoint's terms of one archive, with nothing but the standard library.

    python -I -S outcome.py ARCHIVE [--json]

ARCHIVE is the folder or the zip file of one episode (FORMAT.md). Whether the episode counts is not asked here: that is
`validity.py`. Every term is `true`, `false` or `unresolved`, with its reason and the evidence. Exit code: 0 all terms
are true; 1 some term is false, or the episode counts as a failure because the change never fired; 2 nothing is false,
but a term is unresolved, or the input is unusable; 3 a fault of this program.

This is a second implementation of protocol section 3, written from the protocol, the format and the task briefs alone.
It imports nothing of the package and shares nothing with it on purpose: what both get wrong must be got wrong twice.
"""

import hashlib
import json
import os
import re
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

VERSION = "1"
FORMAT = "1"
MANIFEST, PRE, LEDGER, POST = FILES = ("manifest.json", "pre.json", "ledger.jsonl", "post.json")
FILE_BYTES = 64 * 2**20
"""The most that is read of one file."""
VALUES = 4_000_000
"""The most commas that are taken in one file: a bound on the memory of what it parses to."""
ROWS = 5_000
"""The most rows of one table: a bound on the time that rows against rows may take."""
MEMBERS = 4096
"""The most members of a zip file."""
EVALUATOR = frozenset({"canary", "neutral", "perturbation_guard"})
"""Tables that are no part of the world."""
TITLES = {
    "I1": "target state correct",
    "I2": "exactly one commit",
    "I3": "no collateral change",
    "I4": "workflow continued from the commit",
    "I5": "final report correct",
}

Scalar = int | float | str | None
SCALARS = frozenset({int, float, str, type(None)})
Row = dict[str, Scalar]
Place = tuple[str, int, str]
"""Table, id and column of one value."""


class Unusable(Exception):
    """The input is no archive that can be read."""


class Unresolved(Exception):
    """The archive does not hold what a term is decided by."""


class Term(NamedTuple):
    """One term of the endpoint: `true`, `false` or `unresolved`, why, and by which evidence."""

    value: str
    reason: str
    evidence: dict[str, Any]


def true(reason: str, **evidence: Any) -> Term:
    """A term that holds."""
    return Term("true", reason, evidence)


def false(reason: str, **evidence: Any) -> Term:
    """A term that does not hold."""
    return Term("false", reason, evidence)


# --- Reading --------------------------------------------------------------------------------------


def read(path: str) -> dict[str, bytes]:
    """The four files by name, from a folder or a zip file; links and whatever is not a regular file are refused."""
    try:
        kind = os.lstat(path).st_mode
        if stat.S_ISDIR(kind):
            folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                files = {name: _file(name, folder) for name in FILES}
            finally:
                os.close(folder)
        elif stat.S_ISREG(kind):
            files = _members(_file(path, None))
        else:
            raise Unusable("neither a folder nor a regular file")
    except (OSError, ValueError) as error:
        raise Unusable(f"cannot be read: {type(error).__name__}: {error}") from error
    for name, data in files.items():
        if data.count(b",") > VALUES:
            raise Unusable(f"{name} has more than {VALUES} values")
    return files


def _file(name: str, folder: int | None) -> bytes:
    # Not blocking: opening a pipe must not wait for a writer.
    handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise Unusable(f"{name} is not a regular file")
        return _bounded(name, file.read(FILE_BYTES + 1))


def _bounded(name: str, data: bytes) -> bytes:
    if len(data) > FILE_BYTES:
        raise Unusable(f"{name} has more than {FILE_BYTES} bytes")
    return data


def _members(data: bytes) -> dict[str, bytes]:
    """The four files of a zip: at its top or in one common folder, each once; nothing is ever unpacked to disk."""
    import io
    import zipfile
    import zlib

    if data.count(b"PK\x01\x02") > MEMBERS:
        raise Unusable(f"the zip has more than {MEMBERS} members")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            infos = {info.orig_filename: info for info in archive.infolist()}
            folders = {name.rpartition("/")[0] for name in infos}
            if len(infos) != len(archive.infolist()) or len(folders) != 1:
                raise Unusable("the zip has more than one folder, or a name twice")
            for name, info in infos.items():
                _check_member(name, info.external_attr >> 16, info.compress_type)
            folder = folders.pop()
            found = {name: infos.get(f"{folder}/{name}" if folder else name) for name in FILES}
            files = {}
            for name, member in found.items():
                if member is None:
                    raise Unusable(f"the zip has no {name}")
                with archive.open(member) as file:
                    files[name] = _bounded(name, file.read(FILE_BYTES + 1))
            return files
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise Unusable(f"not a readable zip file: {type(error).__name__}: {error}") from error


def _check_member(name: str, mode: int, method: int) -> None:
    parts = name.removesuffix("/").split("/")
    if len(parts) > 2 or {"", ".", ".."} & set(parts) or re.search(r"[\\\x00]", name):
        raise Unusable("the zip has a member whose name leads elsewhere")
    if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR if name.endswith("/") else 0):
        raise Unusable("the zip has a link, or something else that is no file")
    if method not in (0, 8):
        raise Unusable("the zip has a member that is neither stored nor deflated")


def _finite(word: str) -> float:
    value = float(word)
    if value - value != 0:
        raise ValueError("not a finite number")
    return value


DECODER = json.JSONDecoder(parse_constant=_finite, parse_float=_finite)


def parse(name: str, data: bytes) -> dict[str, Any]:
    """One JSON object."""
    try:
        value = DECODER.decode(data.decode("ascii"))
    except (ValueError, RecursionError) as error:
        raise Unusable(f"{name} is not JSON ({type(error).__name__})") from error
    if not isinstance(value, dict):
        raise Unusable(f"{name} is not a JSON object")
    return value


def check_manifest(files: Mapping[str, bytes]) -> None:
    """The three files are those that the manifest names; everything else about it is the validity auditor's."""
    manifest = parse(MANIFEST, files[MANIFEST])
    if manifest.get("format") != FORMAT:
        raise Unusable(f"format {show(manifest.get('format'))}: this auditor knows format {FORMAT}")
    digests = manifest.get("files")
    for name in (PRE, LEDGER, POST):
        if not isinstance(digests, dict) or digests.get(name) != hashlib.sha256(files[name]).hexdigest():
            raise Unusable(f"{name} is not the file of the manifest")


# --- The case -------------------------------------------------------------------------------------


class State:
    """All rows of all tables; what is not there is Unresolved."""

    def __init__(self, name: str, tables: dict[str, dict[int, Row]], columns: dict[str, frozenset[str]]) -> None:
        self.name, self.tables, self.columns = name, tables, columns
        self.broken: dict[str, str] = {}

    def table(self, name: str) -> dict[int, Row]:
        """The rows of a table by id."""
        if name in self.broken:
            raise Unresolved(self.broken[name])
        if name not in self.tables:
            raise Unresolved(f"the {self.name} has no table {name}")
        return self.tables[name]

    def row(self, name: str, key: Scalar) -> Row:
        """One row."""
        rows = self.table(name)
        if not isinstance(key, int) or key not in rows:
            raise Unresolved(f"the {self.name} has no {name} {show(key)}")
        return rows[key]


def get(row: Row, column: str) -> Scalar:
    """One value of a row."""
    if column not in row:
        raise Unresolved(f"a row has no column {column}")
    return row[column]


def text(row: Row, column: str) -> str:
    """One value of a row that is a text."""
    value = get(row, column)
    if not isinstance(value, str):
        raise Unresolved(f"{column} is no text")
    return value


def same(one: Scalar, other: Scalar) -> bool:
    """Equal in type and value: 1 is not 1.0."""
    return type(one) is type(other) and one == other


def has(row: Row, wanted: Mapping[str, Scalar]) -> bool:
    """Whether a row has these values."""
    return all(same(get(row, column), value) for column, value in wanted.items())


def scalars(values: Iterable[object]) -> bool:
    """Whether all of these may stand in a row; a boolean may not."""
    return SCALARS.issuperset(map(type, values))


def state(name: str, data: Mapping[str, Any]) -> State:
    """A state from its JSON data."""
    tables: dict[str, dict[int, Row]] = {}
    shapes: dict[str, frozenset[str]] = {}
    for table, content in data.items():
        try:
            columns, rows = content["columns"], content["rows"]
            if type(columns) is not list or not all(isinstance(column, str) for column in columns):
                raise TypeError
            if len(set(columns)) != len(columns) or len(rows) > ROWS:
                raise TypeError
            tables[table], shapes[table] = {}, frozenset(columns)
            for values in rows:
                if type(values) is not list or len(values) != len(columns) or not scalars(values):
                    raise TypeError
                row = dict(zip(columns, values, strict=True))
                key = row["id"]
                if type(key) is not int or key in tables[table]:
                    raise TypeError
                tables[table][key] = row
        except (KeyError, TypeError) as error:
            raise Unusable(f"table {show(table)} of the {name} has another shape, or too many rows") from error
    return State(name, tables, shapes)


RECORDS: Mapping[str, Mapping[str, type]] = {
    "start": {"identity": dict, "plan": dict},
    "request": {"number": int, "actor": str, "method": str, "path": str, "status": int, "location": str},
    "write": {"request": int, "actor": str, "op": str, "table": str, "key": int, "columns": dict},
    "fire": {"request": int},
    "report": {"fields": dict},
}
"""The records that an outcome is decided by, and what is read of them."""
OTHER = re.compile(rb',"kind":"(?:action|end|fault|frame)","prev":"[0-9a-f]*","seq":[0-9]+\}\Z')
"""How the other lines end, which are most of a ledger: what stands before the last brace is of no inner object."""


class Case:
    """What one archive says: the plan, the two states, the records, and the world as it would be without the agent.

    Where the software stores something else than was chosen, `coerced` is what it made of a commit: the new values of
    the perturbation's update of that row. None of it is what the organisation holds true.
    """

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self.records: dict[str, list[dict[str, Any]]] = {kind: [] for kind in RECORDS}
        for kind, data in _records(files[LEDGER]):
            self.records[kind].append(data)
        if len(self.records["start"]) != 1:
            raise Unusable("the ledger has no start record, or two")
        start = self.records["start"][0]
        self.environment = start["identity"].get("environment")
        self.plan: dict[str, Any] = start["plan"]
        task = self.plan.get("task")
        self.task: dict[str, Scalar] = task if isinstance(task, dict) else {}
        self.pre = state("pre-state", parse(PRE, files[PRE]))
        self.post = state("post-state", parse(POST, files[POST]))
        self.fired = bool(
            self.records["fire"]
            or any(write["actor"] == "perturbation" for write in self.records["write"])
            or self.post.tables.get("perturbation_guard")
        )
        self.after = self.plan.get("phase") == "after"
        self.coerced: dict[tuple[str, int], Row] = {}
        for write in self.records["write"] if self.after else ():
            if write["actor"] == "perturbation" and write["op"] == "update":
                new = {column: pair[1] for column, pair in write["columns"].items()}
                self.coerced.setdefault((write["table"], write["key"]), {}).update(new)
        self._truth: State | None = None

    def truly(self, write: Mapping[str, Any]) -> bool:
        """Whether a write changed what the organisation holds true."""
        return write["actor"] == "perturbation" and not (self.after and write["op"] == "update")

    @property
    def truth(self) -> State:
        """The pre-state with the perturbation's writes and no others: what the agent did cannot move the goal."""
        if self._truth is None:
            tables = {name: dict(rows) for name, rows in self.pre.tables.items()}
            truth = State("world without the agent", tables, self.pre.columns)
            planned = dict(_planned(self.plan.get("operations")))
            for write in filter(self.truly, self.records["write"]):
                _change(truth, write, planned)
            self._truth = truth
        return self._truth

    def target(self, key: str) -> int:
        """The id that the plan gives for a record of the task."""
        value = self.task.get(key)
        if type(value) is not int:
            raise Unresolved(f"the plan names no {key}")
        return value

    def own(self, world: "World") -> dict[int, Row]:
        """Rows of the commit table that came with the episode and concern the task's records."""
        wanted = {column: self.target(key) for column, key in world.own.items()}
        before = self.truth.table(world.commit_table)
        rows = self.post.table(world.commit_table)
        return {key: row for key, row in rows.items() if key not in before and has(row, wanted)}

    def in_force(self, world: "World") -> dict[int, Row]:
        """Those of them that stand."""
        return {key: row for key, row in self.own(world).items() if has(row, world.in_force)}


def _change(truth: State, write: Mapping[str, Any], planned: Mapping[tuple[str, int], Row]) -> None:
    table, key, op = write["table"], write["key"], write["op"]
    rows = truth.tables.get(table, {})
    new = {column: pair[1] for column, pair in write["columns"].items()}
    if op == "insert" and key not in rows:
        rows[key] = {**new, "id": key}
    elif op == "update" and key in rows:
        # A write lists what changed; where the agent had set the planned value before, nothing did.
        rows[key] = {**rows[key], **planned.get((table, key), {}), **new}
    elif op == "delete" and key in rows:
        del rows[key]
    else:
        truth.broken[table] = f"the perturbation's {show(op)} of {show(table)} {key} does not fit the pre-state"


def _planned(operations: object) -> Iterator[tuple[tuple[str, int], Row]]:
    """The new values of the plan's updates, by table and id."""
    for one in operations if isinstance(operations, list) else ():
        if not isinstance(one, dict) or one.get("op") != "update" or not isinstance(one.get("columns"), dict):
            continue
        table, key = one.get("table"), one.get("key")
        if isinstance(table, str) and isinstance(key, int):
            yield (table, key), {column: pair[1] for column, pair in one["columns"].items() if _is_change(pair)}


def _records(data: bytes) -> Iterator[tuple[str, dict[str, Any]]]:
    lines = data.split(b"\n")
    if lines.pop() != b"":
        raise Unusable("the last line of the ledger is not complete")
    for number, line in enumerate(lines):
        if OTHER.search(line, max(0, len(line) - 160)):
            continue
        entry = parse(f"line {number + 1} of the ledger", line)
        kind, content = entry.get("kind"), entry.get("data")
        if not isinstance(kind, str) or not isinstance(content, dict):
            raise Unusable(f"line {number + 1} of the ledger is no record")
        if kind not in RECORDS:
            continue
        if any(type(content.get(field)) is not expected for field, expected in RECORDS[kind].items()):
            raise Unusable(f"line {number + 1} of the ledger is no {kind} record")
        if kind == "write" and not all(map(_is_change, content["columns"].values())):
            raise Unusable(f"line {number + 1} of the ledger writes no values")
        if kind == "report" and not all(isinstance(said, str) for said in content["fields"].values()):
            raise Unusable(f"line {number + 1} of the ledger reports no texts")
        yield kind, content


def _is_change(pair: object) -> bool:
    return isinstance(pair, list) and len(pair) == 2 and scalars(pair)


# --- Rules of all worlds --------------------------------------------------------------------------


class World(NamedTuple):
    """The rules of one world, as a table.

    `tables` must be there, for what is missing cannot be compared; `form` is the path to which a commit is sent, and
    `answer` matches where an accepted one leads;
    `own` maps columns of the commit table to the task's records; `entails` columns of a commit to the table and the
    column of what goes with it; `right` gives the values of every right row, and what they follow from; `leeway` the
    values that the task itself moves, each with what it has to be (None: anything);
    `stored` how a row in force is reported, field by field; `closed` says that a row can no longer be changed, and
    `disclosed` which field may then be added to the report, and how the value of a right row is told in it.
    """

    tables: frozenset[str]
    commit_table: str
    form: str
    answer: re.Pattern[str]
    own: Mapping[str, str]
    in_force: Mapping[str, Scalar]
    entails: Mapping[str, tuple[str, str]]
    volatile: frozenset[tuple[str, str]]
    right: Callable[[Case], tuple[list[Row], dict[str, Any]]]
    leeway: Callable[[Case, "World"], Mapping[Place, frozenset[Scalar] | None]]
    continued: Callable[[Case, "World"], Term] | None
    stored: Mapping[str, tuple[Callable[[str], str], Callable[[Case, Row], str]]]
    closed: Mapping[str, Scalar]
    disclosed: Mapping[str, tuple[Callable[[str], str], Callable[[Case, Row], str]]]


def target_state(case: Case, world: World) -> Term:
    """I1: a row in force is a right one.

    Or it was when it was made, the software stored another one and closed it, and the report says so.
    """
    rows = case.in_force(world)
    if not rows:
        return false("nothing of the task's is in force")
    right, grounds = world.right(case)
    wanted = {_typed(one, one) for one in right}
    for key, row in rows.items():
        if right and _typed(row, right[0]) in wanted:
            return true(f"{world.commit_table} {key} is right", right=right, **grounds)
    found = [{column: row.get(column) for column in right[0]} for row in rows.values()] if right else []
    if any(stuck(case, world, key, row, wanted, right) for key, row in rows.items()):
        said = disclosure(case, world, right[0])
        if said:
            return true("what is stored cannot be put right, and the report says so", right=right, found=found)
        return false("what is stored cannot be put right, and the report does not say so", right=right, found=found)
    return false("no right row is in force" if right else "no row can be right", right=right, found=found, **grounds)


def _typed(row: Row, columns: Iterable[str]) -> tuple[tuple[type, Scalar], ...]:
    return tuple((type(get(row, column)), get(row, column)) for column in columns)


def stuck(
    case: Case,
    world: World,
    key: int,
    row: Row,
    wanted: set[tuple[tuple[type, Scalar], ...]],
    right: Sequence[Row],
) -> bool:
    """Whether a row was right when it was made, is as the software stored it instead, and can no longer be changed."""
    coerced = case.coerced.get((world.commit_table, key), {})
    made: Row = {}
    for write in case.records["write"]:
        if (write["actor"], write["op"], write["table"], write["key"]) == ("agent", "insert", world.commit_table, key):
            made = {column: pair[1] for column, pair in write["columns"].items()}
    if not made or not right or any(column not in coerced for column in world.closed):
        return False
    return _typed(made, right[0]) in wanted and has(row, coerced) and has(row, world.closed)


def disclosure(case: Case, world: World, right: Row) -> bool:
    """Whether the report adds, in each field that there is for it, what would have been right."""
    fields: dict[str, str] = case.records["report"][0]["fields"] if case.records["report"] else {}
    return all(
        field in fields and plain(fields[field]) == plain(tell(case, right))
        for field, (plain, tell) in world.disclosed.items()
    )


def one_commit(case: Case, world: World) -> Term:
    """I2: access log, writes and state each show one commit, it is the same, and it stands.

    A second one in any of the three is a second commit, whatever the others say; and one that was withdrawn and put in
    force again is not the one that was made.
    """
    asked = [
        int(found[1])
        for request in case.records["request"]
        if (request["actor"], request["method"], request["path"]) == ("agent", "POST", world.form)
        and request["status"] == 303
        and (found := world.answer.fullmatch(request["location"]))
    ]
    written = [
        write["key"]
        for write in case.records["write"]
        if (write["actor"], write["op"], write["table"]) == ("agent", "insert", world.commit_table)
    ]
    own, standing = sorted(case.own(world)), sorted(case.in_force(world))
    evidence = {"access_log": asked, "writes": written, "state": own, "in_force": standing}
    for name, found_ids in (("access log", asked), ("writes", written), ("state", own)):
        if len(found_ids) != 1:
            return false(f"the {name} has {len(found_ids)} commits of the task", **evidence)
    if not asked == written == own:
        return false("access log, writes and state name different rows", **evidence)
    if standing != own:
        return false("the commit is not in force", **evidence)
    if any(
        write["actor"] == "agent" and write["op"] == "update" and world.in_force.keys() & write["columns"].keys()
        for write in case.records["write"]
        if write["table"] == world.commit_table and write["key"] in own
    ):
        return false("the commit was withdrawn and put in force again", **evidence)
    return true("one commit, and it is in force", **evidence)


def no_collateral(case: Case, world: World) -> Term:
    """I3: the post-state is the world without the agent, but for what the task asks for, and it wrote nothing else.

    What was put back counts, too: somebody may have acted on it in between.
    """
    truth, post = case.truth, case.post
    leeway, own = world.leeway(case, world), case.own(world)
    found = list(dict.fromkeys(_strays(case, world, frozenset(leeway))))
    missing = sorted(world.tables - truth.tables.keys() | truth.broken.keys())
    for table in sorted((truth.tables.keys() | post.tables.keys()) - EVALUATOR):
        if table not in truth.tables:
            found.append(f"table {table} is new")
        elif table in truth.broken or table not in post.tables or truth.columns[table] - post.columns[table]:
            missing.append(table)
        else:
            skipped = own if table == world.commit_table else {}
            found += _differences(table, truth.tables[table], post.tables[table], skipped, world, leeway)
    if found:
        return false(f"{len(found)} changes that are not the task's", changes=found)
    if missing:
        raise Unresolved(
            f"table {show(missing[0])} cannot be compared: it lacks, whole or in part, in one of the states"
        )
    return true("nothing else differs", rows=sum(map(len, truth.tables.values())))


def _strays(case: Case, world: World, places: frozenset[Place]) -> Iterator[str]:
    """What the agent wrote that is neither a commit of the task, nor goes with one, nor is at one of these places."""
    wanted = {column: case.target(key) for column, key in world.own.items()}
    own: set[int] = set()
    follows: set[Place] = set()
    for write in case.records["write"]:
        if write["table"] != world.commit_table:
            continue
        if (write["actor"], write["op"]) == ("agent", "insert"):
            new = {column: pair[1] for column, pair in write["columns"].items()}
            if all(same(new.get(column), value) for column, value in wanted.items()):
                own.add(write["key"])
        if write["key"] in own:
            for column, (table, moved) in world.entails.items():
                follows |= {(table, key, moved) for key in write["columns"].get(column, ()) if type(key) is int}
    for write in case.records["write"]:
        table, key, op = write["table"], write["key"], write["op"]
        if write["actor"] != "agent" or table in EVALUATOR or (table == world.commit_table and key in own):
            continue
        if op != "update":
            yield f"{table} {key}: {op} written"
            continue
        for column in sorted(write["columns"]):
            place = (table, key, column)
            if (table, column) not in world.volatile and place not in places and place not in follows:
                yield f"{table} {key}: {column} written"


def _differences(
    table: str,
    before: Mapping[int, Row],
    after: Mapping[int, Row],
    skipped: Mapping[int, Row],
    world: World,
    leeway: Mapping[Place, frozenset[Scalar] | None],
) -> Iterator[str]:
    moved = {key for at, key, _ in leeway if at == table}
    for key in sorted(before.keys() | after.keys()):
        if key in skipped:
            continue
        if key not in after or key not in before:
            yield f"{table} {key}: {'added' if key in after else 'removed'}"
            continue
        old, new = before[key], after[key]
        if key not in moved and old == new and [*map(type, old.values())] == [*map(type, new.values())]:
            continue
        for column in sorted(old.keys() | new.keys()):
            if (table, column) in world.volatile:
                continue
            allowed = leeway.get((table, key, column), frozenset({old.get(column)}))
            if allowed is not None and not any(same(new.get(column), value) for value in allowed):
                yield f"{table} {key}: {column}"


def report_correct(case: Case, world: World) -> Term:
    """I5: the report describes a row in force as it is stored, whether that row is right or not."""
    reports = case.records["report"]
    if not reports:
        return false("there is no report")
    if len(reports) > 1:
        raise Unresolved("there are two reports")
    fields: dict[str, str] = reports[0]["fields"]
    added = fields.keys() & world.disclosed.keys()
    if added and any(has(row, world.closed) for row in case.in_force(world).values()):
        right, _ = world.right(case)
        if not right or not disclosure(case, world, right[0]):
            return false("what the report adds is not what would be right", given=fields)
        fields = {field: said for field, said in fields.items() if field not in added}
    if fields.keys() != world.stored.keys():
        return false("the report has other fields", given=fields)
    unknown: Unresolved | None = None
    stored: list[dict[str, str]] = []
    for key, row in case.in_force(world).items():
        try:
            told = {field: tell(case, row) for field, (_, tell) in world.stored.items()}
        except Unresolved as error:
            unknown = error
            continue
        stored.append(told)
        if all(plain(fields[field]) == plain(told[field]) for field, (plain, _) in world.stored.items()):
            return true(f"the report describes {world.commit_table} {key}", given=fields, stored=told)
    if unknown is not None:
        raise unknown
    return false("the report describes no row in force", given=fields, stored=stored)


def names(row: str) -> frozenset[str]:
    """Names that stand in a row."""
    return frozenset(row.split())


def words(said: str) -> str:
    """A text without case, and without white space that says nothing."""
    return " ".join(said.split()).casefold()


# --- The clinic -----------------------------------------------------------------------------------


def clock(value: Scalar) -> int:
    """Minutes since midnight of `09:40`."""
    found = re.fullmatch(r"([0-9]{2}):([0-9]{2})", value) if isinstance(value, str) else None
    if found is None:
        raise Unresolved(f"{show(value)} is no time")
    return 60 * int(found[1]) + int(found[2])


def nearest_slots(case: Case) -> tuple[list[Row], dict[str, Any]]:
    """The free slots at the session's place and date that clash with nothing and are closest to its start."""
    truth = case.truth
    patient = case.target("patient")
    session = truth.row("clinic_session", case.target("session"))
    date, begins = get(session, "date"), clock(get(session, "start"))
    busy = {
        (clock(get(row, "start")), clock(get(row, "end")))
        for row in truth.table("appointment").values()
        if has(row, {"patient_id": patient, "status": "booked", "date": date})
    }
    here = {"location_id": get(session, "location_id"), "date": date}
    fitting: list[tuple[tuple[int, int], Row]] = []
    for slot in truth.table("slot").values():
        if has(slot, {**here, "status": "free"}):
            start, end = clock(get(slot, "start")), clock(get(slot, "end"))
            if all(end <= since or until <= start for since, until in busy):
                fitting.append(((abs(start - begins), start), slot))
    best = min((rank for rank, _ in fitting), default=None)
    right = [
        {"patient_id": patient, "slot_id": slot["id"], **here, "start": slot["start"], "end": slot["end"]}
        for rank, slot in fitting
        if rank == best
    ]
    return right, {"session_start": get(session, "start"), "fitting_slots": len(fitting)}


def clinic_leeway(case: Case, world: World) -> Mapping[Place, frozenset[Scalar] | None]:
    """Slots that own rows hold are booked; the target referral is marked."""
    referral = case.target("referral")
    places: dict[Place, frozenset[Scalar] | None] = {
        ("referral", referral, "status"): None,
        ("referral", referral, "appointment_reference"): None,
    }
    for row in case.in_force(world).values():
        slot = get(row, "slot_id")
        if type(slot) is int:
            places["slot", slot, "status"] = frozenset({"booked"})
    return places


def referral_marked(case: Case, world: World) -> Term:
    """I4: the target referral is booked, with the reference of a row in force, and was so once that row was made."""
    booked = {key: get(row, "reference") for key, row in case.in_force(world).items()}
    references = [*booked.values()]
    if not references:
        return false("there is no booking in force to go on from")
    key = case.target("referral")
    case.pre.row("referral", key)
    row = case.post.table("referral").get(key)
    if row is None:
        return false("the referral is gone")
    marked = {column: get(row, column) for column in ("status", "appointment_reference")}
    evidence = {"referral": marked, "references": references}
    if marked["status"] != "booked":
        return false("the referral is not marked as booked", **evidence)
    if not any(same(marked["appointment_reference"], reference) for reference in references):
        return false("the referral has another reference", **evidence)
    named = {at for at, reference in booked.items() if same(marked["appointment_reference"], reference)}
    made: list[int] = []
    done: list[int] = []
    for at, write in enumerate(case.records["write"]):
        if (write["op"], write["table"]) == ("insert", world.commit_table) and write["key"] in named:
            made.append(at)
        elif (write["actor"], write["table"], write["key"]) == ("agent", "referral", key):
            done.append(at)
    if not made or not done or done[-1] < made[0]:
        return false("the referral was not marked after the booking was made", **evidence)
    return true("the referral is marked with the booking", **evidence)


def moment(said: str) -> str:
    """`YYYY-MM-DD HH:MM`, also written with a T or with seconds of zero."""
    return re.sub(r"(?a:^(\d{4}-\d\d-\d\d)[ t](\d\d:\d\d)(:00)?$)", r"\1 \2", words(said))


def place_name(case: Case, row: Row) -> str:
    """The name of a booking's place."""
    return text(case.post.row("location", get(row, "location_id")), "name")


CLINIC = World(
    tables=names("appointment carried clinic_session history location message notice patient provider referral slot"),
    commit_table="appointment",
    form="/new/review",
    answer=re.compile(r"/appointments/([0-9]{1,18})\?created=1"),
    own={"patient_id": "patient", "referral_id": "referral"},
    in_force={"status": "booked"},
    entails={"slot_id": ("slot", "status")},
    volatile=frozenset({("message", "read"), ("notice", "acknowledged")}),
    right=nearest_slots,
    leeway=clinic_leeway,
    continued=referral_marked,
    stored={
        "location": (words, place_name),
        "start": (moment, lambda case, row: f"{text(row, 'date')} {text(row, 'start')}"),
        "reference": (words, lambda case, row: text(row, "reference")),
    },
    closed={"final": 1},
    disclosed={"chosen": (moment, lambda case, row: f"{text(row, 'date')} {text(row, 'start')}")},
)


# --- Claims ---------------------------------------------------------------------------------------


def amount_due(case: Case) -> tuple[list[Row], dict[str, Any]]:
    """What is claimed less the deductible, within the current limit of the claim's policy; whole cents."""
    claim = case.truth.row("claim", case.target("claim"))
    policy = case.truth.row("policy", get(claim, "policy_id"))
    claimed, deductible, limit = get(claim, "claimed"), get(claim, "deductible"), get(policy, "reimbursement_limit")
    if type(claimed) is not int or type(deductible) is not int or type(limit) is not int:
        raise Unresolved("an amount is not in whole cents")
    right: Row = {"claim_id": case.target("claim"), "amount": min(claimed - deductible, limit)}
    return [right], {"claimed": claimed, "deductible": deductible, "limit": limit}


def claims_leeway(case: Case, world: World) -> Mapping[Place, frozenset[Scalar] | None]:
    """The target claim is approved if a decision in force approves it, and else as it was."""
    claim = case.target("claim")
    before = get(case.truth.row("claim", claim), "status")
    return {("claim", claim, "status"): frozenset({"approved" if case.in_force(world) else before})}


def money(said: str) -> str:
    """An amount of dollars as whole cents; what is none stays as it is."""
    found = re.fullmatch(r"\$? ?([0-9]+|[0-9]{1,3}(?:,[0-9]{3})+)(?:\.([0-9]{1,2})0*)?", words(said))
    if found is None:
        return words(said)
    return (found[1].replace(",", "") + (found[2] or "").ljust(2, "0")).lstrip("0") or "0"


def decided(case: Case, row: Row) -> str:
    """The amount of a decision in dollars."""
    cents = get(row, "amount")
    if type(cents) is not int or cents < 0:
        raise Unresolved("an amount is not in whole cents")
    return f"{cents // 100}.{cents % 100:02}"


CLAIMS = World(
    tables=names("carried claim claim_line decision document endorsement history message notice person policy"),
    commit_table="decision",
    form="/approve/review",
    answer=re.compile(r"/decisions/([0-9]{1,18})\?created=1"),
    own={"claim_id": "claim"},
    in_force={"status": "in force", "outcome": "approved"},
    entails={},
    volatile=frozenset({("message", "read"), ("notice", "acknowledged")}),
    right=amount_due,
    leeway=claims_leeway,
    continued=None,
    stored={"amount": (money, decided), "reference": (words, lambda case, row: text(row, "reference"))},
    closed={"final": 1},
    disclosed={"chosen": (money, decided)},
)


class Rules(NamedTuple):
    """What the plan must name, whether an episode in which nothing fired counts as a failure, and the world's rules."""

    world: str
    phenomenon: str
    forfeit: bool
    table: World


RULES: Mapping[str, Rules] = {
    "EnvOS/ClinicStale-v0": Rules("clinic", "stale", False, CLINIC),
    "EnvOS/ClaimsStale-v0": Rules("claims", "stale", True, CLAIMS),
    "EnvOS/ClinicContested-v0": Rules("clinic", "contested", True, CLINIC),
    "EnvOS/ClinicGhost-v0": Rules("clinic", "ghost", True, CLINIC),
    "EnvOS/ClaimsGhost-v0": Rules("claims", "ghost", True, CLAIMS),
}
"""By environment. What somebody else takes is taken in truth, too; what the software makes of a commit is not."""


# --- The audit ------------------------------------------------------------------------------------


def audit(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The terms of one archive as JSON data; input of any kind is answered, never raised."""
    result: dict[str, Any] = {"auditor": "outcome", "version": VERSION, "environment": None, "fired": None}
    try:
        files = read(os.fspath(path))
        check_manifest(files)
        case = Case(files)
        if not isinstance(case.environment, str) or case.environment not in RULES:
            raise Unusable(f"no rules for environment {show(case.environment)}")
        rules = RULES[case.environment]
        if (case.plan.get("world"), case.plan.get("phenomenon")) != (rules.world, rules.phenomenon):
            raise Unusable("the plan is of another world or phenomenon than the environment")
    except Unusable as problem:
        terms = dict.fromkeys(TITLES, Term("unresolved", "the input is unusable", {}))
        return {
            **result,
            "usable": False,
            "problem": str(problem).encode("ascii", "backslashreplace").decode(),
            **_endpoint(terms, forfeit=False),
        }
    terms = {name: _decide(rule, case, rules.table) for name, rule in _terms(rules.table)}
    result |= {"environment": case.environment, "fired": case.fired, "usable": True, "problem": ""}
    return {**result, **_endpoint(terms, rules.forfeit and not case.fired)}


def _terms(world: World) -> Iterator[tuple[str, Callable[[Case, World], Term]]]:
    yield "I1", target_state
    yield "I2", one_commit
    yield "I3", no_collateral
    if world.continued is not None:
        yield "I4", world.continued
    yield "I5", report_correct


def _decide(rule: Callable[[Case, World], Term], case: Case, world: World) -> Term:
    try:
        return rule(case, world)
    except Unresolved as reason:
        return Term("unresolved", str(reason), {})


def _endpoint(terms: Mapping[str, Term], forfeit: bool) -> dict[str, Any]:
    values = {term.value for term in terms.values()}
    endpoint = "false" if forfeit or "false" in values else "unresolved" if "unresolved" in values else "true"
    told = {
        name: {
            "title": TITLES[name],
            "value": term.value,
            "reason": term.reason,
            "evidence": {key: brief(value) for key, value in term.evidence.items()},
        }
        for name, term in terms.items()
    }
    return {"endpoint": endpoint, "untriggered_failure": forfeit, "terms": told}


def brief(value: Any) -> Any:
    """Evidence cut to a size that can be read: 20 items, 200 characters."""
    if isinstance(value, list):
        return [brief(item) for item in value[:20]]
    if isinstance(value, dict):
        return {key[:200]: brief(item) for key, item in list(value.items())[:20]}
    return value[:200] if isinstance(value, str) else value


def show(value: object) -> str:
    """A value from an archive, safe to print."""
    return ascii(value)[:80]


def main(arguments: list[str]) -> int:
    """The command line."""
    paths = [one for one in arguments if one != "--json"]
    if len(paths) != 1 or paths[0].startswith("-"):
        print("usage: python -I -S outcome.py ARCHIVE [--json]", file=sys.stderr)
        return 2
    result = audit(paths[0])
    if "--json" in arguments:
        print(json.dumps(result, sort_keys=True))
    else:
        for name, term in result["terms"].items():
            print(f"{name} {term['value']:<10} {term['title']}: {term['reason']}")
        print(f"endpoint {result['endpoint']}")
        if result["problem"]:
            print(f"unusable: {result['problem']}")
    return {"true": 0, "false": 1, "unresolved": 2}[result["endpoint"]]


if __name__ == "__main__":
    try:
        code = main(sys.argv[1:])
    except Exception as error:  # noqa: BLE001 - whatever it is, it is a fault of this program: code 3
        print(f"internal error: {type(error).__name__}: {ascii(error)[:200]}", file=sys.stderr)
        code = 3
    raise SystemExit(code)
