"""A world's database: SQLite in memory, filled from an image, every write journalled, snapshots in microseconds.

Handlers use `connection` (SQLAlchemy Core, autocommit, held open for the life of the object), the perturbation and
the evidence use `raw`, the sqlite3 connection beneath. Triggers journal every row that is written by either, with the
actor and the request. They stand in the image itself: TEMP triggers point at a schema that `deserialize` frees, so
that they crash or fire no more (SQLite 3.40: by chance of the allocator; 3.54: always).
"""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary, finalize, ref

from sqlalchemy import Connection, Engine, Integer, MetaData, Table, create_engine
from sqlalchemy.pool import StaticPool

from envos.envs.evidence import Scalar, State, TableState, Write
from envos.errors import DatabaseError, UsageError

EVALUATOR_TABLES: Mapping[str, tuple[str, ...]] = {
    "canary": ("id", "token"),
    "perturbation_guard": ("id", "request"),
    "neutral": ("id", "value"),
}
"""Tables that belong to the evaluator, in the same database and in no world's metadata: name to columns."""
JOURNAL = "envos_journal"
"""The table that the triggers write to; it is no part of any state."""

_EVALUATOR_SCHEMA = (
    "CREATE TABLE canary (id INTEGER PRIMARY KEY, token TEXT)",
    "CREATE TABLE perturbation_guard (id INTEGER PRIMARY KEY CHECK (id = 1), request INTEGER NOT NULL)",
    "CREATE TABLE neutral (id INTEGER PRIMARY KEY, value TEXT)",
    # The row that a neutral update writes back as it was.
    "INSERT INTO neutral (id, value) VALUES (1, '-')",
)
# Small pages: most tables hold a few rows, and an image of 25 KB is copied without the page faults of 100 KB.
_PAGE_SIZE = 1024
_MAGIC = b"SQLite format 3\0"
_COOKIE = slice(40, 44)
_TABLES = (
    "SELECT name FROM main.sqlite_master WHERE type = 'table' "  # noqa: S608
    f"AND name NOT LIKE 'sqlite!_%' ESCAPE '!' AND name <> '{JOURNAL}' ORDER BY name"
)
_DUMPS_KEPT = 2
"""States that a database remembers by their image: that before an episode and that after it are asked for often."""


class _Template(NamedTuple):
    """What all databases of one metadata share.

    `image` is complete but for rows; `bare` lacks the triggers as well, and has the same schema cookie, `version`, in
    its header. `selects` read each table whole, and say where in a row its id stands.
    """

    image: bytes
    bare: bytes
    version: int
    inserts: dict[str, str]
    columns: dict[str, tuple[str, ...]]
    selects: dict[str, tuple[str, int]]


_TEMPLATES: "WeakKeyDictionary[MetaData, _Template]" = WeakKeyDictionary()


class Database:
    """One world's database in memory; databases share nothing.

    `actor` and `request` (a str and an int) are what the journal says of the writes to come; set them before each
    request. Raises UsageError for metadata in which a table has no `id INTEGER PRIMARY KEY` or takes the name of an
    evaluator's table; DatabaseError for anything done out of order.
    """

    def __init__(self, metadata: MetaData) -> None:
        self._template = template = _TEMPLATES.get(metadata) or _build(metadata)
        self.actor, self.request = "harness", 0
        self._dumps: list[tuple[bytes, State]] = []
        self._pending: list[Write] = []
        engine = create_engine(
            "sqlite://",
            poolclass=StaticPool,
            connect_args={"check_same_thread": False, "cached_statements": 256},
            isolation_level="AUTOCOMMIT",
        )
        connection = engine.connect()
        # Rows are put in on a connection of their own, and stored images are read on another.
        self._scratch = scratch = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
        self._reader = reader = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
        self._release = finalize(self, _release, connection, engine, scratch, reader)
        self._open: tuple[Connection, sqlite3.Connection] | None = (connection, raw := _beneath(connection))
        for statement in ("foreign_keys = ON", "recursive_triggers = ON", "trusted_schema = ON"):
            raw.execute(f"PRAGMA {statement}")
        self._expire(raw)
        raw.deserialize(template.image)
        self._seen = raw.total_changes
        scratch.execute("PRAGMA foreign_keys = ON")
        # Prepared where there are no triggers, and not prepared anew on an image of the same cookie, the inserts fire
        # none. Should a version of SQLite prepare them anew all the same, the journal is emptied.
        for name in ("envos_actor", "envos_request"):
            scratch.create_function(name, 0, lambda: None)
        scratch.deserialize(template.bare)
        for insert in template.inserts.values():
            scratch.executemany(insert, ())

    @property
    def connection(self) -> Connection:
        """The held SQLAlchemy connection, in autocommit: every statement outside `transaction` stands at once."""
        if self._open is None:
            raise DatabaseError("the database is closed")
        return self._open[0]

    @property
    def raw(self) -> sqlite3.Connection:
        """The sqlite3 connection beneath `connection`."""
        if self._open is None:
            raise DatabaseError("the database is closed")
        return self._open[1]

    def load(self, rows: Mapping[str, Sequence[tuple[Scalar, ...]]], canary: str) -> None:
        """Replace everything by an instance: `rows` by table, in column order; nothing of it is journalled.

        Raises UsageError for an unknown table, DatabaseError for a row that the schema refuses; the database is then
        as it was.
        """
        template, scratch = self._template, self._scratch
        unknown = [name for name in rows if name not in template.inserts or name in EVALUATOR_TABLES]
        if unknown:
            raise UsageError(f"rows for the table {unknown[0]!r}, which this world does not have")
        raw = self.raw
        _refuse_transaction(raw)
        scratch.deserialize(template.image)
        scratch.execute("BEGIN")
        name = ""
        try:
            # In the order of the template, so that a row comes after those that it refers to.
            for name, insert in template.inserts.items():
                if name in rows:
                    scratch.executemany(insert, rows[name])
            name = "canary"
            scratch.execute(template.inserts[name], (1, canary))
            scratch.execute(f"DELETE FROM {JOURNAL}")  # noqa: S608
            scratch.execute("COMMIT")
        except (sqlite3.Error, OverflowError, TypeError, ValueError) as problem:
            raise DatabaseError(f"a row of table {name!r} was refused: {problem}") from problem
        finally:
            if scratch.in_transaction:
                scratch.execute("ROLLBACK")
        image = scratch.serialize()
        self._replace(raw, image)
        # What was put in need not be read out again: the state before the episode is asked for at its end.
        self._dumps = [(image, self._filled(rows, canary))]
        self.actor, self.request = "harness", 0

    def _filled(self, rows: Mapping[str, Sequence[tuple[Scalar, ...]]], canary: str) -> State:
        """The state that `load` makes of these rows."""
        own = {"canary": ((1, canary),), "neutral": ((1, "-"),)}
        found: State = {}
        for name, columns in sorted(self._template.columns.items()):
            at = columns.index("id")
            found[name] = TableState(columns, {row[at]: row for row in rows.get(name, own.get(name, ()))})  # type: ignore[misc]
        return found

    def drain(self) -> list[Write]:
        """The writes since the last call, in order, and forget them; costs next to nothing when there were none.

        A write of an id appears as a delete and an insert, a write that changes nothing as an update without columns.
        """
        raw = self.raw
        if raw.total_changes != self._seen:
            self._collect(raw)
        if not self._pending:
            return []
        writes, self._pending = self._pending, []
        return writes

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All writes of the block stand together, or none of them, nor their journal, if it raises."""
        raw = self.raw
        _refuse_transaction(raw)
        raw.execute("BEGIN IMMEDIATE")
        try:
            yield
            if not raw.in_transaction:
                raise DatabaseError("the transaction was ended inside its own block")
            raw.execute("COMMIT")
        except BaseException:
            if raw.in_transaction:
                raw.execute("ROLLBACK")
            raise

    def image(self) -> bytes:
        """Everything as bytes, for `restore` and `state`. Raises DatabaseError inside a transaction."""
        raw = self.raw
        _refuse_transaction(raw)
        if raw.total_changes != self._seen:
            self._collect(raw)
        return raw.serialize()

    def restore(self, image: bytes) -> None:
        """Go back to an image of a database of the same metadata; writes that were not drained are forgotten.

        Raises UsageError for bytes that are no image; DatabaseError inside a transaction, or while a query has rows
        that were not read.
        """
        raw = self.raw
        _refuse_transaction(raw)
        self._replace(raw, _checked(image))

    def state(self, image: bytes | None = None) -> State:
        """All rows of all tables, the evaluator's included, of a stored image or as they are now.

        The tables are those that the database itself has, so one added behind the metadata shows.
        """
        raw, live = self.raw, image is None
        if image is None:
            if raw.in_transaction:
                return _dump(raw)
            image = raw.serialize()
        state = next((state for known, state in self._dumps if known == image), None)
        if state is None:
            state = self._read(raw if live else self._reader, _checked(image), live)
            self._dumps = [(image, state), *self._dumps[: _DUMPS_KEPT - 1]]
        return {name: TableState(table.columns, dict(table.rows)) for name, table in state.items()}

    def close(self) -> None:
        """Free everything; a second call does nothing, any other raises DatabaseError."""
        self._open = None
        self._release()

    def _read(self, raw: sqlite3.Connection, image: bytes, live: bool) -> State:
        """The state that an image holds, which is what is on the connection if it is `live`."""
        if _version(image) == self._template.version:
            if not live:
                raw.deserialize(image)
            return self._dump_known(raw)
        # Another schema: statements prepared on the reader would not notice (see _replace).
        other = sqlite3.connect(":memory:", isolation_level=None)
        try:
            other.deserialize(image)
            return _dump(other)
        finally:
            other.close()

    def _dump_known(self, raw: sqlite3.Connection) -> State:
        """All rows of the tables of the template, which are all that an image of its schema cookie has."""
        columns = self._template.columns
        return {
            name: TableState(columns[name], {row[place]: row for row in raw.execute(select)})
            for name, (select, place) in self._template.selects.items()
        }

    def _expire(self, raw: sqlite3.Connection) -> None:
        """Have every statement prepared anew when it is next used: registering a function does that."""
        # SQLite keeps the callbacks where the garbage collector cannot see them: they must not hold this object.
        me = ref(self)
        raw.create_function("envos_actor", 0, lambda: getattr(me(), "actor"))  # noqa: B009
        raw.create_function("envos_request", 0, lambda: getattr(me(), "request"))  # noqa: B009

    def _collect(self, raw: sqlite3.Connection) -> None:
        """Move the journal out of the database, so that no image holds any of it."""
        if raw.in_transaction:
            raise DatabaseError("the journal was read inside a transaction, whose writes may still be undone")
        found = raw.execute(f"SELECT * FROM {JOURNAL} ORDER BY seq").fetchall()  # noqa: S608
        if found:
            raw.execute(f"DELETE FROM {JOURNAL}")  # noqa: S608
        self._seen = raw.total_changes
        columns = self._template.columns
        for line in found:
            self._pending.extend(_writes(columns[line[4]], line))

    def _replace(self, raw: sqlite3.Connection, image: bytes) -> None:
        """Put an image in place of the database.

        Statements stay prepared across it, which is where the speed comes from, and is right for images of one schema.
        After DDL, on either side, they are prepared anew: two schemas may have the same number.
        """
        _refuse_cursors(raw)
        now = raw.execute("PRAGMA main.schema_version").fetchone()[0]
        if not now == _version(image) == self._template.version:
            self._expire(raw)
        raw.deserialize(image)
        self._pending.clear()
        self._seen = raw.total_changes


def _build(metadata: MetaData) -> _Template:
    """Make and keep the template of a metadata, which must be complete: it is made once."""
    columns: dict[str, tuple[str, ...]] = {}
    for item in metadata.sorted_tables:
        _check_table(item)
        columns[item.name] = tuple(column.name for column in item.columns)
    columns.update(EVALUATOR_TABLES)
    engine = create_engine("sqlite://", poolclass=StaticPool, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.exec_driver_sql(f"PRAGMA page_size = {_PAGE_SIZE}")
        metadata.create_all(connection)
        for statement in (*_EVALUATOR_SCHEMA, _journal(columns)):
            connection.exec_driver_sql(statement)
        raw = _beneath(connection)
        bare = bytearray(raw.serialize())
        for table, names in columns.items():
            for op in ("insert", "update", "delete"):
                raw.execute(_trigger(op, table, names))
        image = raw.serialize()
    engine.dispose()
    version = _version(image)
    bare[_COOKIE] = version.to_bytes(4, "big")
    inserts = {
        name: f"INSERT INTO {_name(name)} VALUES ({', '.join('?' * len(names))})"  # noqa: S608
        for name, names in columns.items()
    }
    selects = {
        name: (f"SELECT * FROM main.{_name(name)}", columns[name].index("id"))  # noqa: S608
        for name in sorted(columns)
    }
    _TEMPLATES[metadata] = template = _Template(image, bytes(bare), version, inserts, columns, selects)
    return template


def _version(image: bytes) -> int:
    """The schema cookie in the header of an image; every DDL statement adds one to it."""
    return int.from_bytes(image[_COOKIE], "big")


def _check_table(table: Table) -> None:
    keys = list(table.primary_key.columns)
    if len(keys) != 1 or keys[0].name != "id" or not isinstance(keys[0].type, Integer):
        raise UsageError(f"table {table.name!r} needs the primary key `id` INTEGER, and no other")
    if table.name in (*EVALUATOR_TABLES, JOURNAL):
        raise UsageError(f"table {table.name!r} has the name of an evaluator's table")


def _name(name: str) -> str:
    """A name as SQL quotes it; names come from a world's metadata or the database's own schema."""
    return '"' + name.replace('"', '""') + '"'


def _journal(columns: Mapping[str, tuple[str, ...]]) -> str:
    """The table of the journal, wide enough for the old and the new values of every table."""
    # Untyped columns keep every value as it is; through JSON a float would come back with 15 digits.
    values = ", ".join(f"c{place}" for place in range(2 * max(map(len, columns.values()))))
    return f"CREATE TABLE {JOURNAL} (seq INTEGER PRIMARY KEY, request, actor, op, name, key, {values})"


def _trigger(op: str, table: str, columns: tuple[str, ...]) -> str:
    """The trigger that journals one kind of write: the old row, then the new one; a missing one stays NULL."""
    width = len(columns)
    sides = {"insert": {"new": width}, "update": {"old": 0, "new": width}, "delete": {"old": 0}}[op]
    values = [f"{side}.{_name(column)}" for side in sides for column in columns]
    places = ", ".join(f"c{first + place}" for first in sides.values() for place in range(width))
    text = table.replace("'", "''")
    return (
        f"CREATE TRIGGER {_name(f'{JOURNAL}_{op}_{table}')} AFTER {op} ON {_name(table)} BEGIN "  # noqa: S608
        f"INSERT INTO {JOURNAL} (request, actor, op, name, key, {places}) VALUES "
        f"(envos_request(), envos_actor(), '{op}', '{text}', {next(iter(sides))}.id, {', '.join(values)}); END"
    )


def _writes(names: tuple[str, ...], line: tuple[Any, ...]) -> Iterator[Write]:
    """The record of one journal line, two where an id was changed: the row under the old id is gone."""
    _, request, actor, op, table, key, *values = line
    width = len(names)
    rows = list(zip(names, values[:width], values[width : 2 * width], strict=True))
    moved = values[width + names.index("id")]
    if op != "update":
        yield Write(request, actor, op, table, key, {name: (old, new) for name, old, new in rows})
    elif moved != key:
        yield Write(request, actor, "delete", table, key, {name: (old, None) for name, old, _ in rows})
        yield Write(request, actor, "insert", table, moved, {name: (None, new) for name, _, new in rows})
    else:
        changed = {name: (old, new) for name, old, new in rows if old != new or type(old) is not type(new)}
        yield Write(request, actor, op, table, key, changed)


def _dump(raw: sqlite3.Connection) -> State:
    state: State = {}
    for (name,) in raw.execute(_TABLES).fetchall():
        cursor = raw.execute(f"SELECT * FROM main.{_name(name)}")  # noqa: S608
        columns = tuple([item[0] for item in cursor.description])
        found = cursor.fetchall()
        rows: dict[int, tuple[Scalar, ...]] = {}
        if "id" in columns:
            place = columns.index("id")
            rows = {row[place]: row for row in found} if place else {row[0]: row for row in found}
        if "id" not in columns or len(rows) != len(found) or not set(map(type, rows)) <= {int}:
            # A table that no world has: number its rows rather than lose one.
            columns = ("id", *(f"stored {column}" if column == "id" else column for column in columns))
            rows = {number: (number, *row) for number, row in enumerate(found, 1)}
        state[name] = TableState(columns, rows)
    return state


def _checked(image: bytes) -> bytes:
    if not isinstance(image, bytes) or not image.startswith(_MAGIC):
        raise UsageError(f"an image is the bytes that image() gave; got {type(image).__name__} of another kind")
    return image


def _refuse_transaction(raw: sqlite3.Connection) -> None:
    if raw.in_transaction:
        raise DatabaseError("a transaction is open: end it first")


def _refuse_cursors(raw: sqlite3.Connection) -> None:
    """Raise DatabaseError while a query has rows left to read: replacing the database beneath it crashes Python.

    SQLite has one test for it in reach of SQL: VACUUM makes it before it looks at its file name, and fails there.
    """
    try:
        raw.execute("VACUUM INTO NULL")
    except sqlite3.OperationalError as problem:
        if "in progress" in str(problem):
            raise DatabaseError("a query has rows that were not read: read them all or close it first") from None


def _beneath(connection: Connection) -> sqlite3.Connection:
    raw = connection.connection.driver_connection
    if not isinstance(raw, sqlite3.Connection):
        raise DatabaseError(f"the driver is not sqlite3 but {type(raw).__name__}")
    return raw


def _release(connection: Connection, engine: Engine, *others: sqlite3.Connection) -> None:
    connection.close()
    engine.dispose()
    for other in others:
        other.close()
