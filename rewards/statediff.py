"""States compared row by row, and a journal of writes replayed over a state."""

from collections.abc import Iterable
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
        """Carry out one write; returns what it contradicts, or "" (the new values are set in any case)."""
        table = self.state.get(write.table)
        if table is None:
            return f"there is no table {write.table}"
        if write.table not in self._owned:
            table = self.state[write.table] = TableState(table.columns, dict(table.rows))
            self._owned.add(write.table)
        names, rows = table
        row = rows.get(write.key)
        where = f"{write.table} {write.key}"
        if write.op == "insert":
            if row is not None:
                return f"{where} is inserted and was there"
            found = {name: new for name, (_, new) in write.columns.items()} | {"id": write.key}
            rows[write.key] = tuple(found.get(name) for name in names)
            return "" if set(found) == set(names) else f"{where} is inserted with other columns"
        if row is None:
            return f"{where} is written and was not there"
        if any(name not in names for name in write.columns):
            return f"{where} is written in a column that it does not have"
        known = dict(zip(names, row, strict=True))
        contradicted = [name for name, (old, _) in write.columns.items() if known[name] != old]
        if write.op == "delete":
            del rows[write.key]
        elif write.op == "update":
            known.update((name, new) for name, (_, new) in write.columns.items())
            rows[write.key] = tuple(known[name] for name in names)
        else:
            return f"{where} has the unknown operation {write.op!r}"
        return f"{where} had another {contradicted[0]}" if contradicted else ""


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
        if old == new:
            continue
        for key in sorted(old.rows.keys() | new.rows.keys()):
            left, right = old.rows.get(key), new.rows.get(key)
            if left != right or old.columns != new.columns:
                found.append(_change(name, key, old.columns, left, new.columns, right))
    return tuple(found)


def _change(
    table: str,
    key: int,
    old_names: tuple[str, ...],
    left: tuple[Scalar, ...] | None,
    new_names: tuple[str, ...],
    right: tuple[Scalar, ...] | None,
) -> RowChange:
    before = dict(zip(old_names, left, strict=True)) if left is not None else {}
    after = dict(zip(new_names, right, strict=True)) if right is not None else {}
    op = "insert" if left is None else "delete" if right is None else "update"
    columns = {
        name: (before.get(name), after.get(name))
        for name in dict.fromkeys((*old_names, *new_names))
        if op != "update" or before.get(name) != after.get(name)
    }
    return RowChange(table, key, op, columns)


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
