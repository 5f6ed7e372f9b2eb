"""States compared and journals replayed, on a table of two columns."""

import pytest
from sqlalchemy import Column, Integer, MetaData, String, Table

from envos.envs.evidence import State, TableState, Write
from envos.rewards.statediff import Replay, RowChange, differences, record, replay, volatile

ROWS = {1: (1, "a"), 2: (2, "b")}


def state(rows: dict[int, tuple[int, str]] = ROWS, columns: tuple[str, ...] = ("id", "name")) -> State:
    return {"item": TableState(columns, dict(rows))}


def write(op: str, key: int, table: str = "item", **columns: tuple[object, object]) -> Write:
    return Write(1, "agent", op, table, key, columns)  # type: ignore[arg-type]


def test_replay_of_an_insert_an_update_and_a_delete() -> None:
    before = state()
    done = [
        write("insert", 3, id=(None, 3), name=(None, "c")),
        write("update", 1, name=("a", "z")),
        write("delete", 2, id=(2, None), name=("b", None)),
    ]
    assert replay(before, done) == state({1: (1, "z"), 3: (3, "c")})
    assert before == state()


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (write("update", 1, "other", name=("a", "z")), "there is no table other"),
        (write("insert", 1, id=(None, 1), name=(None, "c")), "item 1 is inserted and was there"),
        (write("insert", 3, id=(None, 3)), "item 3 is inserted with other columns"),
        (write("insert", 3, name=(None, "c")), "item 3 is inserted with other columns"),
        (write("insert", 3, id=(None, 4), name=(None, "c")), "item 3 is inserted with other columns"),
        (write("insert", 3, id=(None, 3), name=(None, "c"), more=(None, 1)), "item 3 is inserted with other columns"),
        (write("update", 3, name=("a", "z")), "item 3 is written and was not there"),
        (write("delete", 3, name=("a", None)), "item 3 is written and was not there"),
        (write("update", 1, name=("b", "z")), "item 1 had another name"),
        (write("delete", 1, name=("b", None)), "item 1 had another name"),
        (write("update", 1, more=("b", "z")), "item 1 has no column more"),
        (write("upsert", 1, name=("a", "z")), "item 1 has the unknown operation 'upsert'"),
    ],
)
def test_contradictions(bad: Write, said: str) -> None:
    running = Replay(state())
    assert running.apply(bad) == said


def test_what_is_consistent_contradicts_nothing() -> None:
    running = Replay(state())
    for good in (
        write("update", 1, name=("a", "z")),
        write("update", 1, name=("z", "a")),
        write("update", 1),
        write("delete", 1, id=(1, None), name=("a", None)),
        write("insert", 1, id=(None, 1), name=(None, "n")),
    ):
        assert running.apply(good) == ""
    assert running.state == state({1: (1, "n"), 2: (2, "b")})


def test_differences_name_rows_and_columns() -> None:
    after = state({1: (1, "z"), 3: (3, "c")})
    assert differences(state(), after) == (
        RowChange("item", 1, "update", {"name": ("a", "z")}),
        RowChange("item", 2, "delete", {"id": (2, None), "name": ("b", None)}),
        RowChange("item", 3, "insert", {"id": (None, 3), "name": (None, "c")}),
    )
    assert differences(state(), state()) == ()
    assert differences(state(), state(dict(reversed(ROWS.items())))) == ()


def test_a_table_that_is_missing_differs() -> None:
    assert [change.op for change in differences({}, state())] == ["insert", "insert"]
    assert [change.op for change in differences(state(), {})] == ["delete", "delete"]


def test_a_renamed_column_differs() -> None:
    assert len(differences(state(), state(columns=("id", "title")))) == 2


def test_record() -> None:
    assert record(state(), "item", 2) == {"id": 2, "name": "b"}
    assert record(state(), "item", 9) is None
    assert record(state(), "other", 1) is None


def test_volatile_columns_and_tables() -> None:
    metadata = MetaData()
    Table(
        "mail",
        metadata,
        Column("id", Integer, primary_key=True),
        Column("read", Integer, info={"volatile": True}),
        Column("text", String),
    )
    Table("session", metadata, Column("id", Integer, primary_key=True), info={"volatile": True})
    assert volatile(metadata) == {("mail", "read"), ("session", "")}
