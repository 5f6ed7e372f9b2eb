"""The evidence of one episode: frozen records in one ordered ledger, and the state before and after.

Every record is written when the thing it describes is complete, so the writes and the firing of a
request stand before the request's own line, and an action stands after the requests it caused.
Protocol section 7. Nothing here knows a world or a phenomenon.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from envos.errors import EvidenceError

Scalar = int | str | float | None
"""One value of one column."""

FORMAT = "1"
"""Version of the record format; a reader refuses any other."""


class Served(NamedTuple):
    """A watched value in the page that answered a request: the access log's half of an exposure."""

    table: str
    key: int
    column: str
    text: str


class Delivered(NamedTuple):
    """A watched value in an observation that was handed over, with its offset in code points."""

    table: str
    key: int
    column: str
    text: str
    offset: int


class Start(NamedTuple):
    """The first record: who, what and under which plan."""

    identity: dict[str, Any]
    plan: dict[str, Any]


class Request(NamedTuple):
    """One request as the application answered it (the access log)."""

    number: int
    step: int
    session: str
    actor: str
    via: str
    method: str
    path: str
    route: str
    params: dict[str, str]
    status: int
    location: str
    served: tuple[Served, ...]


class Write(NamedTuple):
    """One row written; `columns` maps a column to (old, new), changed columns only."""

    request: int
    actor: str
    op: str
    table: str
    key: int
    columns: dict[str, tuple[Scalar, Scalar]]

    def new(self) -> dict[str, Scalar]:
        """The values that it left."""
        return {name: new for name, (_, new) in self.columns.items()}


class Fire(NamedTuple):
    """The perturbation fired inside `request`, armed by frame `armed_by`, with so many operations."""

    request: int
    armed_by: int
    operations: int
    neutral: int


class Frame(NamedTuple):
    """One observation as delivered; `sha256` covers every text that the policy saw.

    `screenshot` is the file of its picture, named by the SHA-256 of its bytes ("" where the driver takes none).
    """

    number: int
    step: int
    request: int
    url: str
    page: str
    elements: str
    notice: str
    error: str
    memo: str
    budget_left: int
    delivered: tuple[Delivered, ...]
    screenshot: str
    sha256: str


class Action(NamedTuple):
    """One reply of the policy and what became of it; `frame` is the observation that it answers."""

    step: int
    frame: int
    frame_sha256: str
    raw: str
    verb: str
    args: tuple[str, ...]
    memo_cut: int
    error: str
    wall_ms: float


class Report(NamedTuple):
    """The structured report that ends an episode."""

    step: int
    fields: dict[str, str]


class Fault(NamedTuple):
    """Something that is not the policy's doing; `kind` is a validity class of protocol section 6."""

    step: int
    kind: str
    detail: str


class End(NamedTuple):
    """The last record; `reason` is report, budget or fault."""

    step: int
    reason: str


Record = Start | Request | Write | Fire | Frame | Action | Report | Fault | End

KINDS: dict[str, type[Any]] = {
    kind.__name__.lower(): kind for kind in (Start, Request, Write, Fire, Frame, Action, Report, Fault, End)
}
_NAMES = {kind: name for name, kind in KINDS.items()}
_WALL = "wall_ms"


class TableState(NamedTuple):
    """All rows of one table: `rows` maps the id to the row, in the order of `columns`."""

    columns: tuple[str, ...]
    rows: dict[int, tuple[Scalar, ...]]


State = dict[str, TableState]
"""The content of a database: table name to its rows."""


def canonical(value: object) -> str:
    """The one JSON text of a value: sorted keys, no spaces, ASCII."""
    return _ENCODE(value)


_ENCODE = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True, check_circular=False).encode


def sha256(text: str) -> str:
    """The SHA-256 of a text in UTF-8, as hex (lone surrogates are kept as they are)."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def frame_sha256(url: str, page: str, elements: str, notice: str, error: str, memo: str, budget_left: int) -> str:
    """The digest of what a policy saw; unit separators keep two fields from running together."""
    return sha256("\x1f".join((url, page, elements, notice, error, memo, str(budget_left))))


def to_line(seq: int, previous: str, record: Record) -> str:
    """One ledger line: its place, the SHA-256 of the line before it, its kind and its data."""
    data = record._asdict()
    return canonical({"seq": seq, "prev": previous, "kind": _NAMES[type(record)], "data": data})


def chain(records: tuple[Record, ...]) -> Iterator[str]:
    """The ledger as lines, each holding the digest of the one before (the first holds "")."""
    previous = ""
    for seq, record in enumerate(records):
        line = to_line(seq, previous, record)
        previous = sha256(line)
        yield line


def from_line(line: str) -> tuple[int, str, Record]:
    """The place, the previous digest and the record of one ledger line.

    Raises EvidenceError when the line is not one of ours: not JSON, unknown kind, missing or surplus field.
    """
    try:
        entry = json.loads(line, parse_constant=_refuse)
        kind = KINDS[entry["kind"]]
        data = entry["data"]
        if set(data) != set(kind._fields) or set(entry) != {"seq", "prev", "kind", "data"}:
            raise EvidenceError(f"a {entry['kind']} record has other fields than {', '.join(kind._fields)}")
        return int(entry["seq"]), str(entry["prev"]), _revive(kind, data)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise EvidenceError(f"not a ledger line: {line[:80]!r} ({type(error).__name__})") from error


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _revive(kind: type[Any], data: dict[str, Any]) -> Record:
    """A record from its JSON data: lists become the tuples that they were, types are checked."""
    if kind is Request:
        data = {**data, "served": tuple(Served(*item) for item in data["served"])}
    elif kind is Frame:
        data = {**data, "delivered": tuple(Delivered(*item) for item in data["delivered"])}
    elif kind is Write:
        data = {**data, "columns": {name: (old, new) for name, (old, new) in data["columns"].items()}}
    elif kind is Action:
        data = {**data, "args": tuple(data["args"])}
    for name, expected in kind.__annotations__.items():
        simple = _SIMPLE.get(expected)
        if simple and (not isinstance(data[name], simple) or isinstance(data[name], bool)):
            raise TypeError(f"{name} is {type(data[name]).__name__}, expected {expected}")
    record: Record = kind(**data)
    return record


_SIMPLE: dict[object, type | tuple[type, ...]] = {int: int, str: str, float: (int, float)}


class Sink(Protocol):
    """Something that keeps records as they come, such as an archive on disk."""

    def append(self, record: Record) -> None:
        """Keep one more record."""

    def rewrite(self, records: tuple[Record, ...]) -> None:
        """Start over with these records (the episode went back to a snapshot)."""


class Ledger:
    """The records of the running episode, in order; hashes are computed only when asked for."""

    __slots__ = ("_records", "sink")

    def __init__(self) -> None:
        self._records: list[Record] = []
        self.sink: Sink | None = None

    def append(self, record: Record) -> None:
        """Add one record, and hand it to the sink if there is one."""
        self._records.append(record)
        if self.sink is not None:
            self.sink.append(record)

    def records(self) -> tuple[Record, ...]:
        """All records so far."""
        return tuple(self._records)

    def restore(self, records: tuple[Record, ...]) -> None:
        """Go back to these records; a sink is told."""
        self._records = list(records)
        if self.sink is not None:
            self.sink.rewrite(records)

    def __len__(self) -> int:
        return len(self._records)


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that is known of one episode: what `rewards.verify` decides from.

    `problems` is what a reader found wrong with an archive (a broken chain, a truncated file); it is
    empty for a live episode, and any entry makes the episode a `harness_error`.
    """

    records: tuple[Record, ...]
    pre: State
    post: State
    problems: tuple[str, ...] = field(default=())

    @property
    def start(self) -> Start:
        """The first record, or an empty one where it is missing."""
        first = self.records[0] if self.records else None
        return first if isinstance(first, Start) else Start({}, {})

    @property
    def digest(self) -> str:
        """The digest of all evidence, wall times and screenshots aside: equal for equal actions everywhere.

        A picture depends on the machine's fonts, and only a browser takes any.
        """
        text = "\n".join(chain(tuple(map(_quiet, self.records))))
        return sha256("\n".join((text, canonical(state_json(self.pre)), canonical(state_json(self.post)))))


def _quiet(record: Record) -> Record:
    if isinstance(record, Action):
        return record._replace(wall_ms=0.0)
    return record._replace(screenshot="") if isinstance(record, Frame) and record.screenshot else record


def state_json(state: State) -> dict[str, Any]:
    """A state as JSON data: {table: {"columns": [...], "rows": [[...], ...]}}, rows by id."""
    return {
        name: {"columns": list(table.columns), "rows": [list(table.rows[key]) for key in sorted(table.rows)]}
        for name, table in sorted(state.items())
    }


def state_from_json(data: Mapping[str, Any]) -> State:
    """The state that `state_json` wrote. Raises EvidenceError on any other shape."""
    try:
        state: State = {}
        for name, table in data.items():
            columns = tuple(table["columns"])
            at = columns.index("id")
            rows = {row[at]: tuple(row) for row in table["rows"]}
            if len(rows) != len(table["rows"]) or any(len(row) != len(columns) for row in rows.values()):
                raise EvidenceError(f"table {name} repeats an id or has a row of another width")
            state[name] = TableState(columns, rows)
        return state
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise EvidenceError(f"not a state: {type(error).__name__}: {error}") from error


Verifier = Callable[[Evidence], Any]
"""A function from evidence to verdict; the environment is handed one, so that it never imports rewards."""
