"""A world's database: SQLite in memory, filled from an image, every write journalled, snapshots in microseconds.

Handlers use `connection` (SQLAlchemy Core, autocommit, held open for the life of the object), the perturbation and
the evidence use `raw`, the sqlite3 connection beneath. Triggers journal every row that is written by either, with the
actor and the request. They stand in the image itself: TEMP triggers would point at a schema that `deserialize` has freed,
and then they fire no more, or crash.
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
_TABLES = (
    "SELECT name FROM main.sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite!_%' ESCAPE '!' "
    "AND name <> 'journal' ORDER BY name"
)
_Columns = dict[str, tuple[Scalar, Scalar]]
_DUMPS_KEPT = 2
"""States that a database remembers by their image: that before an episode and that after it are asked for often."""


class _Template(NamedTuple):
    """What all databases of one metadata share; `version` is the schema cookie in an image's header."""

    image: bytes
    version: bytes
    inserts: dict[str, str]
    columns: dict[str, tuple[str, ...]]


_TEMPLATES: "WeakKeyDictionary[MetaData, _Template]" = WeakKeyDictionary()


class Database:
    """One world's database in memory; databases share nothing.

    `actor` and `request` (a str and an int) are what the journal says of the writes to come; set them before each
    request. Raises UsageError for metadata in which a table has no `id INTEGER PRIMARY KEY` or takes the name of an
    evaluator's table; DatabaseError for anything done out of order.
    """

    __slots__ = ("__weakref__", "_dumps", "_open", "_release", "_scratch", "_seen", "_template", "actor", "request")

    def __init__(self, metadata: MetaData) -> None:
        self._template = template = _template(metadata)
        self.actor, self.request = "harness", 0
        self._dumps: list[tuple[bytes, State]] = []
        engine = create_engine(
            "sqlite://",
            poolclass=StaticPool,
            connect_args={"check_same_thread": False, "cached_statements": 256},
            isolation_level="AUTOCOMMIT",
        )
        connection = engine.connect()
        raw = _beneath(connection)
        # Rows are put in and stored images are read on a connection of no actor, where nothing is journalled.
        self._scratch = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
        self._release = finalize(self, _release, connection, engine, self._scratch)
        self._open: tuple[Connection, sqlite3.Connection] | None = (connection, raw)
        for statement in ("temp_store = MEMORY", "foreign_keys = ON", "recursive_triggers = ON"):
            raw.execute(f"PRAGMA {statement}")
        self._scratch.execute("PRAGMA foreign_keys = ON")
        self._speak(raw)
        self._scratch.create_function("envos_actor", 0, lambda: "")
        self._scratch.create_function("envos_request", 0, lambda: None)
        raw.deserialize(template.image)
        self._seen = raw.total_changes

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
            scratch.execute(template.inserts["canary"], (1, canary))
            scratch.execute("COMMIT")
        except (sqlite3.Error, OverflowError, TypeError, ValueError) as problem:
            raise DatabaseError(f"a row of table {name!r} was refused: {problem}") from problem
        finally:
            if scratch.in_transaction:
                scratch.execute("ROLLBACK")
        self._replace(raw, scratch.serialize())
        self.actor, self.request = "harness", 0

    def drain(self) -> list[Write]:
        """The writes since the last call, in order, and forget them; costs next to nothing when there were none.

        A write of an id appears as a delete and an insert, a write that changes nothing as an update without columns.
        """
        raw = self.raw
        if raw.total_changes == self._seen:
            return []
        if raw.in_transaction:
            raise DatabaseError("the journal was read inside a transaction, whose writes may still be undone")
        found = raw.execute("SELECT * FROM journal ORDER BY seq").fetchall()
        self._forget(raw)
        columns = self._template.columns
        return [write for line in found for write in _writes(columns[line[4]], line)]

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
        raw = self.raw
        if image is None:
            if raw.in_transaction:
                return _dump(raw)
            image = raw.serialize()
        state = next((state for known, state in self._dumps if known == image), None)
        if state is None:
            state = self._read(_checked(image))
            self._dumps = [(image, state), *self._dumps[: _DUMPS_KEPT - 1]]
        return {name: TableState(table.columns, dict(table.rows)) for name, table in state.items()}

    def close(self) -> None:
        """Free everything; a second call does nothing, any other raises DatabaseError."""
        self._open = None
        self._release()

    def _read(self, image: bytes) -> State:
        """The state that an image holds, read without touching the database."""
        if image[40:44] == self._template.version:
            self._scratch.deserialize(image)
            return _dump(self._scratch)
        # Another schema: statements prepared on the scratch connection would not notice (see _replace).
        other = sqlite3.connect(":memory:", isolation_level=None)
        try:
            other.deserialize(image)
            return _dump(other)
        finally:
            other.close()

    def _speak(self, raw: sqlite3.Connection) -> None:
        """Tell the journal's triggers who writes; to register a function again expires all prepared statements."""
        # SQLite keeps the callbacks where the garbage collector cannot see them: they must not hold this object.
        me = ref(self)
        raw.create_function("envos_actor", 0, lambda: getattr(me(), "actor"))  # noqa: B009
        raw.create_function("envos_request", 0, lambda: getattr(me(), "request"))  # noqa: B009

    def _forget(self, raw: sqlite3.Connection) -> None:
        raw.execute("DELETE FROM journal")
        self._seen = raw.total_changes

    def _replace(self, raw: sqlite3.Connection, image: bytes) -> None:
        """Put an image in place of the database.

        Statements stay prepared across it, which is where the speed comes from, and is right for images of one schema.
        After DDL, on either side, they are prepared anew: two schemas may have the same number.
        """
        version = self._template.version
        now = raw.execute("PRAGMA main.schema_version").fetchone()[0]
        _refuse_cursors(raw)
        raw.deserialize(image)
        if image[40:44] != version or now != int.from_bytes(version):
            self._speak(raw)
        if raw.execute("SELECT seq FROM journal LIMIT 1").fetchone():
            raw.execute("DELETE FROM journal")
        self._seen = raw.total_changes


def _template(metadata: MetaData) -> _Template:
    """The template of a metadata, which must be complete: it is made once."""
    found = _TEMPLATES.get(metadata)
    if found is None:
        found = _TEMPLATES[metadata] = _build(metadata)
    return found


def _build(metadata: MetaData) -> _Template:
    columns: dict[str, tuple[str, ...]] = {}
    for table in metadata.sorted_tables:
        _check_table(table)
        columns[table.name] = tuple(column.name for column in table.columns)
    columns.update(EVALUATOR_TABLES)
    engine = create_engine("sqlite://", poolclass=StaticPool, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.exec_driver_sql(f"PRAGMA page_size = {_PAGE_SIZE}")
        metadata.create_all(connection)
        for statement in _EVALUATOR_SCHEMA:
            connection.exec_driver_sql(statement)
        raw = _beneath(connection)
        # Untyped columns keep every value as it is; through JSON a float would come back with 15 digits.
        width = 2 * max(map(len, columns.values()))
        values = ", ".join(f"c{place}" for place in range(width))
        raw.execute(f"CREATE TABLE journal (seq INTEGER PRIMARY KEY, request, actor, op, name, key, {values})")
        for table, names in columns.items():
            for op in ("insert", "update", "delete"):
                raw.execute(_trigger(_name(f"journal_{op}_{table}"), op, table, names))
        image = raw.serialize()
    engine.dispose()
    inserts = {
        name: f"INSERT INTO {_name(name)} VALUES ({', '.join('?' * len(names))})"  # noqa: S608
        for name, names in columns.items()
    }
    return _Template(image, image[40:44], inserts, columns)


def _check_table(table: Table) -> None:
    keys = list(table.primary_key.columns)
    if len(keys) != 1 or keys[0].name != "id" or not isinstance(keys[0].type, Integer):
        raise UsageError(f"table {table.name!r} needs the primary key `id` INTEGER, and no other")
    if table.name in EVALUATOR_TABLES:
        raise UsageError(f"table {table.name!r} has the name of an evaluator's table")


def _name(name: str) -> str:
    """A name as SQL quotes it; names come from a world's metadata or the database's own schema."""
    return '"' + name.replace('"', '""') + '"'


def _trigger(name: str, op: str, table: str, columns: tuple[str, ...]) -> str:
    """The trigger that journals one kind of write: old values first, then new ones."""
    sides = {"insert": ("new",), "update": ("old", "new"), "delete": ("old",)}[op]
    values = [f"{side}.{_name(column)}" for side in sides for column in columns]
    places = ", ".join(f"c{place}" for place in range(len(values)))
    text = table.replace("'", "''")
    return (
        f"CREATE TRIGGER {name} AFTER {op} ON {_name(table)} WHEN envos_request() IS NOT NULL BEGIN "  # noqa: S608
        f"INSERT INTO journal (request, actor, op, name, key, {places}) VALUES "
        f"(envos_request(), envos_actor(), '{op}', '{text}', {sides[0]}.id, {', '.join(values)}); END"
    )


def _writes(names: tuple[str, ...], line: tuple[Any, ...]) -> Iterator[Write]:
    """The record of one journal line, two where an id was changed: the row under the old id is gone."""
    _, request, actor, op, table, key = line[:6]
    width = len(names)
    old, new = line[6 : 6 + width], line[6 + width : 6 + 2 * width]
    if op == "insert":
        new = old
    place = names.index("id")
    if op == "update" and new[place] == key:
        changed = {
            name: (before, after)
            for name, before, after in zip(names, old, new, strict=True)
            if before != after or type(before) is not type(after)
        }
        yield Write(request, actor, op, table, key, changed)
        return
    if op != "insert":
        gone: _Columns = {name: (before, None) for name, before in zip(names, old, strict=True)}
        yield Write(request, actor, "delete", table, key, gone)
    if op != "delete":
        come: _Columns = {name: (None, after) for name, after in zip(names, new, strict=True)}
        yield Write(request, actor, "insert", table, new[place], come)


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


def _release(connection: Connection, engine: Engine, scratch: sqlite3.Connection) -> None:
    connection.close()
    engine.dispose()
    scratch.close()
