"""Statements: written in SQLAlchemy Core, compiled once, carried out by the driver.

Core's own execution costs some ten times what SQLite needs for a row or two. Here a statement object is compiled the
first time that it is executed with the same parameter names; after that it is one dictionary look-up and one driver
call. Worlds build their statements at module level; one built anew for each request would be compiled each time.
"""

import sqlite3
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from sqlalchemy.dialects import sqlite
from sqlalchemy.sql import ClauseElement

from envos.errors import DatabaseError

Parameters = Mapping[str, Any]
_DIALECT = sqlite.dialect()
_KEPT = 1024


class _Compiled(NamedTuple):
    statement: ClauseElement  # kept, so that its id is not given to another one
    sql: str
    names: tuple[str, ...]
    fixed: Mapping[str, Any]


_COMPILED: dict[tuple[int, tuple[str, ...]], _Compiled] = {}


class Rows:
    """The rows of one statement, as plain tuples; read once."""

    __slots__ = ("_cursor",)

    def __init__(self, cursor: sqlite3.Cursor) -> None:
        self._cursor = cursor

    def all(self) -> list[tuple[Any, ...]]:
        """All rows."""
        return self._cursor.fetchall()

    def first(self) -> tuple[Any, ...] | None:
        """The first row, or None; the rest is dropped."""
        row: tuple[Any, ...] | None = self._cursor.fetchone()
        if row is not None:
            self._cursor.close()
        return row

    def one(self) -> tuple[Any, ...]:
        """The only row. Raises DatabaseError when there is none, or more."""
        rows = self._cursor.fetchall()
        if len(rows) != 1:
            raise DatabaseError(f"expected one row, got {len(rows)}")
        only: tuple[Any, ...] = rows[0]
        return only

    def scalar(self) -> Any:
        """The first column of the first row, or None."""
        row = self.first()
        return None if row is None else row[0]

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self._cursor.fetchall())


class Statements:
    """Executes Core statements on one sqlite3 connection."""

    __slots__ = ("_raw",)

    def __init__(self, raw: sqlite3.Connection) -> None:
        self._raw = raw

    def execute(self, statement: ClauseElement, parameters: Parameters | None = None) -> Rows:
        """Carry out a statement with its bound parameters by name. Raises sqlite3.Error as SQLite does."""
        given = parameters or {}
        key = (id(statement), tuple(given))
        compiled = _COMPILED.get(key)
        if compiled is None:
            compiled = _COMPILED[key] = _compile(statement, given)
        fixed = compiled.fixed
        return Rows(self._raw.execute(compiled.sql, [given[n] if n in given else fixed[n] for n in compiled.names]))


def _compile(statement: ClauseElement, given: Parameters) -> _Compiled:
    if len(_COMPILED) >= _KEPT:
        _COMPILED.clear()
    compiled = statement.compile(dialect=_DIALECT, column_keys=list(given), compile_kwargs={"render_postcompile": True})
    names = tuple(compiled.positiontup or ())  # type: ignore[attr-defined]
    return _Compiled(statement, str(compiled), names, dict(compiled.params))
