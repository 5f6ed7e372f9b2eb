"""States compared row by row, and a journal of writes replayed over a state."""

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

from sqlalchemy import MetaData

from envos.envs.evidence import Scalar, State, TableState, Write

EMPTY = TableState((), {})


class RowChange(NamedTuple):
    """One row that differs: `columns` maps a differing column to (before, after)."""

    table: str
    key: int
    op: str
    columns: dict[str, tuple[Scalar, Scalar]]


class Replay:
    """A state that writes are applied to one by one; the state that it began with is left as it was."""

    __slots__ = ("_owned", "state")

    def __init__(self, state: State) -> None:
        self.state = dict(state)
        self._owned: set[str] = set()

    def apply(self, write: Write) -> str:
        """Carry out one write; returns what it contradicts, or "" (what can be set is set in any case)."""
        name, key = write.table, write.key
        table = self.state.get(name)
        if table is None:
            return f"there is no table {name}"
        if name not in self._owned:
            table = self.state[name] = TableState(table.columns, dict(table.rows))
            self._owned.add(name)
        names, rows = table
        row = rows.get(key)
        if write.op == "insert":
            if row is not None:
                return f"{name} {key} is inserted and was there"
            found = {column: new for column, (_, new) in write.columns.items()}
            rows[key] = tuple(map(found.get, names))
            whole = found.keys() == set(names) and found["id"] == key
            return "" if whole else f"{name} {key} is inserted with other columns"
        if row is None:
            return f"{name} {key} is written and was not there"
        if write.op not in ("update", "delete"):
            return f"{name} {key} has the unknown operation {write.op!r}"
        wrong = []
        values = list(row)
        for column, (old, new) in write.columns.items():
            if column not in names:
                return f"{name} {key} has no column {column}"
            at = names.index(column)
            if values[at] != old:
                wrong.append(column)
            values[at] = new
        if write.op == "update":
            rows[key] = tuple(values)
        else:
            del rows[key]
        return f"{name} {key} had another {min(wrong)}" if wrong else ""


def replay(state: State, writes: Iterable[Write]) -> State:
    """The state after the writes, whatever they contradict."""
    running = Replay(state)
    for write in writes:
        running.apply(write)
    return running.state


def differences(before: State, after: State) -> tuple[RowChange, ...]:
    """Every row that is not identical, by table and id."""
    found: list[RowChange] = []
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name, EMPTY), after.get(name, EMPTY)
        if old != new:
            found += _changes(name, old, new)
    return tuple(found)


def _changes(name: str, old: TableState, new: TableState) -> Iterator[RowChange]:
    columns: dict[str, tuple[Scalar, Scalar]]
    if old.columns == new.columns:
        keys = {key for key, _ in old.rows.items() ^ new.rows.items()}
    else:
        keys = old.rows.keys() | new.rows.keys()
    for key in sorted(keys):
        left, right = old.rows.get(key), new.rows.get(key)
        if left is None and right is not None:
            columns = {column: (None, value) for column, value in zip(new.columns, right, strict=True)}
            yield RowChange(name, key, "insert", columns)
        elif right is None and left is not None:
            columns = {column: (value, None) for column, value in zip(old.columns, left, strict=True)}
            yield RowChange(name, key, "delete", columns)
        elif left is not None and right is not None:
            was, now = (dict(zip(table.columns, row, strict=True)) for table, row in ((old, left), (new, right)))
            names = dict.fromkeys((*was, *now))
            columns = {item: (was.get(item), now.get(item)) for item in names if was.get(item) != now.get(item)}
            yield RowChange(name, key, "update", columns)


def record(state: State, table: str, key: int) -> dict[str, Scalar] | None:
    """One row as column to value, or None."""
    found = state.get(table, EMPTY)
    row = found.rows.get(key)
    return None if row is None else dict(zip(found.columns, row, strict=True))


@lru_cache(maxsize=64)
def volatile(metadata: MetaData) -> frozenset[tuple[str, str]]:
    """What a world declares volatile: (table, column), and (table, "") for a whole table."""
    marked = {(table.name, "") for table in metadata.tables.values() if table.info.get("volatile")}
    for table in metadata.tables.values():
        marked.update((table.name, column.name) for column in table.columns if column.info.get("volatile"))
    return frozenset(marked)
