"""One world's database: SQLite in memory behind one held SQLAlchemy connection, loaded from a template image.

Every write, whatever route it takes, is journalled by TEMP triggers with the actor and the request. The evaluator's tables
(canary, perturbation guard, neutral) stand in the same database and belong to no world's metadata.
"""

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

from sqlalchemy import Connection, MetaData, create_engine
from sqlalchemy.pool import StaticPool

from envos.envs.evidence import State, TableState, Write
from envos.errors import DatabaseError

EVALUATOR_TABLES = ("canary", "neutral", "perturbation_guard")
_EVALUATOR_DDL = (
    "CREATE TABLE canary (id INTEGER PRIMARY KEY, token TEXT NOT NULL)",
    "CREATE TABLE neutral (id INTEGER PRIMARY KEY, value TEXT NOT NULL)",
    "CREATE TABLE perturbation_guard (id INTEGER PRIMARY KEY CHECK (id = 1), request INTEGER NOT NULL)",
)
_TEMPLATES: WeakKeyDictionary[MetaData, bytes] = WeakKeyDictionary()


class Database:
    """A database of one world's tables; `load` fills it anew in microseconds.

    `connection` is the held SQLAlchemy connection (no transaction of its own), `raw` the driver's connection beneath it.
    `actor` and `request` are what the journal writes down for each write.
    """

    def __init__(self, metadata: MetaData) -> None:
        self.actor = "harness"
        self.request = 0
        self._engine = create_engine(
            "sqlite://",
            poolclass=StaticPool,
            connect_args={"check_same_thread": False, "isolation_level": None},
            execution_options={"isolation_level": "AUTOCOMMIT"},
        )
        self.connection: Connection = self._engine.connect()
        self.raw: sqlite3.Connection = self.connection.connection.driver_connection  # type: ignore[assignment]
        self._closed = False
        self.raw.deserialize(_template(metadata))
        self.raw.execute("PRAGMA foreign_keys = ON")
        self.raw.execute("PRAGMA recursive_triggers = ON")
        self._template = self.raw.serialize()
        self._loader = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        self._loader.execute("PRAGMA foreign_keys = ON")
        self._columns = _schema(self.raw)
        names = [table.name for table in metadata.sorted_tables]
        self._inserts = {name: _insert(name, self._columns[name]) for name in names}
        self._journal()

    def _journal(self) -> None:
        raw = self.raw
        raw.create_function("envos_actor", 0, lambda: self.actor)
        raw.create_function("envos_request", 0, lambda: self.request)
        raw.execute(
            "CREATE TEMP TABLE journal (seq INTEGER PRIMARY KEY, request INTEGER, actor TEXT, op TEXT, "
            "tbl TEXT, key INTEGER, old TEXT, new TEXT)"
        )
        for table, columns in self._columns.items():
            for op, old, new in (("insert", "", "NEW"), ("update", "OLD", "NEW"), ("delete", "OLD", "")):
                sides = [
                    "json_array(" + ", ".join(f'{side}."{name}"' for name in columns) + ")" if side else "NULL"
                    for side in (old, new)
                ]
                raw.execute(
                    f'CREATE TEMP TRIGGER "journal_{table}_{op}" AFTER {op} ON main."{table}" BEGIN '  # noqa: S608
                    f"INSERT INTO journal (request, actor, op, tbl, key, old, new) VALUES (envos_request(), "
                    f"envos_actor(), '{op}', '{table}', {new or old}.id, {sides[0]}, {sides[1]}); END"
                )
        self._seen = raw.total_changes

    def load(self, rows: Mapping[str, Sequence[tuple[Any, ...]]], canary: str) -> bytes:
        """Replace everything by these rows (in column order) and the canary, and return the image of it.

        The rows go in through a second connection that has no journal, which is also three times faster.
        """
        self._check_idle("load")
        loader = self._loader
        loader.deserialize(self._template)
        loader.execute("BEGIN")
        try:
            for name, insert in self._inserts.items():
                if name in rows:
                    loader.executemany(insert, rows[name])
            loader.execute("INSERT INTO canary VALUES (1, ?)", (canary,))
            loader.execute("INSERT INTO neutral VALUES (1, '-')")
            loader.execute("COMMIT")
        except sqlite3.Error as error:
            if loader.in_transaction:
                loader.execute("ROLLBACK")
            raise DatabaseError(f"the rows do not fit the tables: {error}") from error
        image = loader.serialize()
        self.restore(image)
        return image

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing: what is written inside is kept at the end, and undone on an exception."""
        raw = self.raw
        raw.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            raw.execute("ROLLBACK")
            raise
        raw.execute("COMMIT")

    def drain(self) -> list[Write]:
        """The writes since the last call, in order; next to free when there was none."""
        raw = self.raw
        if raw.total_changes == self._seen:
            return []
        found = raw.execute("SELECT request, actor, op, tbl, key, old, new FROM journal ORDER BY seq").fetchall()
        raw.execute("DELETE FROM journal")
        self._seen = raw.total_changes
        return [self._write(*row) for row in found]

    def _write(
        self, request: int, actor: str, op: str, table: str, key: int, old: str | None, new: str | None
    ) -> Write:
        names = self._columns[table]
        before = json.loads(old) if old else [None] * len(names)
        after = json.loads(new) if new else [None] * len(names)
        changed = {
            name: (was, now)
            for name, was, now in zip(names, before, after, strict=True)
            if op != "update" or was != now
        }
        return Write(request, actor, op, table, key, changed)

    def image(self) -> bytes:
        """The whole database as bytes, for `restore` and `state`."""
        self._check_idle("image")
        return self.raw.serialize()

    def restore(self, image: bytes) -> None:
        """Go back to an image; the journal is empty after it."""
        self._check_idle("restore")
        self.raw.deserialize(image)
        self.drain()

    def state(self, image: bytes | None = None) -> State:
        """Every row of every table, of now or of an image; the schema is read from the database itself."""
        if image is None:
            return _dump(self.raw)
        self._loader.deserialize(image)
        return _dump(self._loader)

    def close(self) -> None:
        """Free the connection; a second call does nothing."""
        if not self._closed:
            self._closed = True
            self._loader.close()
            self.connection.close()
            self._engine.dispose()

    def _check_idle(self, what: str) -> None:
        if self._closed:
            raise DatabaseError(f"{what}() on a closed database")
        if self.raw.in_transaction:
            raise DatabaseError(f"{what}() inside a transaction")


def _template(metadata: MetaData) -> bytes:
    """The image of the empty database, made once for each metadata."""
    if metadata not in _TEMPLATES:
        engine = create_engine("sqlite://", poolclass=StaticPool)
        with engine.begin() as connection:
            metadata.create_all(connection)
            raw: sqlite3.Connection = connection.connection.driver_connection  # type: ignore[assignment]
            for statement in _EVALUATOR_DDL:
                raw.execute(statement)
        with engine.connect() as connection:
            raw = connection.connection.driver_connection  # type: ignore[assignment]
            _TEMPLATES[metadata] = raw.serialize()
        engine.dispose()
    return _TEMPLATES[metadata]


def _schema(raw: sqlite3.Connection) -> dict[str, tuple[str, ...]]:
    names = [row[0] for row in raw.execute("SELECT name FROM main.sqlite_master WHERE type = 'table' ORDER BY name")]
    return {
        name: tuple(row[1] for row in raw.execute(f'PRAGMA main.table_info("{name}")')) for name in names
    }


def _insert(name: str, columns: Sequence[str]) -> str:
    return f'INSERT INTO "{name}" VALUES ({", ".join("?" * len(columns))})'  # noqa: S608


def _dump(raw: sqlite3.Connection) -> State:
    state: State = {}
    for (name,) in raw.execute("SELECT name FROM main.sqlite_master WHERE type = 'table' ORDER BY name").fetchall():
        cursor = raw.execute(f'SELECT * FROM main."{name}"')  # noqa: S608
        columns = tuple(column[0] for column in cursor.description)
        at = columns.index("id") if "id" in columns else 0
        state[name] = TableState(columns, {row[at]: row for row in cursor})
    return state
