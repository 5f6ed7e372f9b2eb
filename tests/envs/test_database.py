"""The database: what is loaded, what the journal sees, what a transaction undoes, what an image and a state hold."""

import gc
import sqlite3
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import (
    Column,
    Float,
    ForeignKey,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    delete,
    exc,
    insert,
    select,
    update,
)

from envos.envs import database as module
from envos.envs.database import EVALUATOR_TABLES, JOURNAL, Database
from envos.envs.evidence import Scalar, TableState, Write, state_from_json, state_json
from envos.errors import DatabaseError, UsageError
from envos.rewards.statediff import replay

metadata = MetaData()
# Declared child first: the order of insertion must come from the foreign keys.
booking = Table(
    "booking",
    metadata,
    Column("place_id", ForeignKey("place.id", ondelete="CASCADE"), nullable=False),
    Column("id", Integer, primary_key=True),
    Column("note", String),
)
place = Table(
    "place",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", String, nullable=False, unique=True),
    Column("rooms", Integer),
)
anything = Table(
    "any'\"thing",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("plain", LargeBinary),  # no affinity: SQLite keeps a value as it comes
    Column("real", Float),
)

ROWS: dict[str, tuple[tuple[Scalar, ...], ...]] = {
    "booking": ((1, 11, "first"), (2, 12, None)),
    "place": ((1, "Riverside", 3), (2, "Harbour", 4)),
}
LOADED = {
    "any'\"thing": TableState(("id", "plain", "real"), {}),
    "booking": TableState(("place_id", "id", "note"), {11: (1, 11, "first"), 12: (2, 12, None)}),
    "canary": TableState(("id", "token"), {1: (1, "canary-7f")}),
    "neutral": TableState(("id", "value"), {1: (1, "-")}),
    "perturbation_guard": TableState(("id", "request"), {}),
    "place": TableState(("id", "name", "rooms"), {1: (1, "Riverside", 3), 2: (2, "Harbour", 4)}),
}


@pytest.fixture
def db() -> Iterator[Database]:
    database = Database(metadata)
    database.load(ROWS, "canary-7f")
    database.actor, database.request = "agent", 5
    yield database
    database.close()


def places(db: Database) -> list[Any]:
    """All places by raw SQL."""
    return db.raw.execute("SELECT id, name, rooms FROM place ORDER BY id").fetchall()


def fail(problem: type[BaseException]) -> None:
    """Raise it."""
    raise problem


# Loading


def test_load_fills_every_table_and_journals_nothing(db: Database) -> None:
    assert db.state() == LOADED
    assert list(db.state()) == sorted(LOADED)
    assert db.drain() == []
    assert db.connection.execute(select(place.c.name).order_by(place.c.id)).scalars().all() == ["Riverside", "Harbour"]


def test_load_replaces_what_was_there(db: Database) -> None:
    db.raw.execute("INSERT INTO place VALUES (3, 'Mill', 1)")
    db.load({"place": [(9, "Quay", 1)]}, "canary-8a")
    assert places(db) == [(9, "Quay", 1)]
    assert db.state()["canary"].rows == {1: (1, "canary-8a")}
    assert db.state()["booking"].rows == {}
    assert db.drain() == []
    assert (db.actor, db.request) == ("harness", 0)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ({"place": [(1, "Riverside")]}, "a row of table 'place' was refused: .*binding"),
        ({"place": [(1, "A", 1), (1, "B", 1)]}, "a row of table 'place' was refused: UNIQUE"),
        ({"place": [(1, None, 1)]}, "a row of table 'place' was refused: NOT NULL"),
        ({"place": [("one", "A", 1)]}, "a row of table 'place' was refused: datatype mismatch"),
        ({"place": [(1, "A", 2**63)]}, "a row of table 'place' was refused: .*too large"),
        ({"place": [(1, "\ud800", 1)]}, "a row of table 'place' was refused: .*surrogates"),
        ({"place": [(1, object(), 1)]}, "a row of table 'place' was refused: .*type 'object'"),
        ({"place": [5]}, "a row of table 'place' was refused"),
        ({"booking": [(1, 1, "x")]}, "a row of table 'booking' was refused: FOREIGN KEY"),
    ],
)
def test_a_refused_row_leaves_the_database_as_it_was(db: Database, rows: Any, message: str) -> None:
    with pytest.raises(DatabaseError, match=message):
        db.load(rows, "canary-8a")
    assert db.state() == LOADED
    assert (db.actor, db.request) == ("agent", 5)
    db.load({}, "canary-8a")
    assert db.state()["place"].rows == {}


@pytest.mark.parametrize("name", ["plaice", "canary", "neutral"])
def test_rows_for_a_table_that_the_world_does_not_have_are_refused(db: Database, name: str) -> None:
    with pytest.raises(UsageError, match=f"rows for the table '{name}', which this world does not have"):
        db.load({name: [(2, "x")]}, "canary-8a")
    assert db.state() == LOADED


def test_foreign_keys_hold_for_handlers_too(db: Database) -> None:
    with pytest.raises(sqlite3.IntegrityError, match="FOREIGN KEY"):
        db.raw.execute("INSERT INTO booking VALUES (77, 13, 'nowhere')")
    with pytest.raises(exc.IntegrityError, match="FOREIGN KEY"):
        db.connection.execute(insert(booking).values(place_id=77, id=13))
    assert db.drain() == []
    assert db.state() == LOADED


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ([Column("key", Integer, primary_key=True)], "table 't' needs the primary key `id` INTEGER, and no other"),
        ([Column("id", String, primary_key=True)], "table 't' needs the primary key `id` INTEGER, and no other"),
        ([Column("id", Integer)], "table 't' needs the primary key `id` INTEGER, and no other"),
        (
            [Column("id", Integer, primary_key=True), Column("b", Integer, primary_key=True)],
            "table 't' needs the primary key `id` INTEGER, and no other",
        ),
    ],
)
def test_tables_without_an_integer_id_are_refused(columns: list[Any], message: str) -> None:
    wrong = MetaData()
    Table("t", wrong, *columns)
    with pytest.raises(UsageError, match=message):
        Database(wrong)


def test_the_names_of_the_evaluators_tables_are_taken() -> None:
    for name in (*EVALUATOR_TABLES, JOURNAL):
        wrong = MetaData()
        Table(name, wrong, Column("id", Integer, primary_key=True))
        with pytest.raises(UsageError, match=f"table '{name}' has the name of an evaluator's table"):
            Database(wrong)


# The journal


def test_the_journal_has_the_writes_of_core_and_of_raw_sql_in_order(db: Database) -> None:
    db.connection.execute(insert(place).values(id=3, name="Mill", rooms=None))
    db.actor, db.request = "perturbation", 6
    db.raw.execute("UPDATE place SET name = 'Old Mill', rooms = NULL WHERE id = 3")
    db.connection.execute(update(place).where(place.c.id == 2).values(name="Harbour", rooms=9))
    db.actor, db.request = "agent", 7
    db.connection.execute(delete(place).where(place.c.id == 3))
    assert db.drain() == [
        Write(5, "agent", "insert", "place", 3, {"id": (None, 3), "name": (None, "Mill"), "rooms": (None, None)}),
        Write(6, "perturbation", "update", "place", 3, {"name": ("Mill", "Old Mill")}),
        Write(6, "perturbation", "update", "place", 2, {"rooms": (4, 9)}),
        Write(7, "agent", "delete", "place", 3, {"id": (3, None), "name": ("Old Mill", None), "rooms": (None, None)}),
    ]
    assert db.drain() == []


def test_the_evaluators_tables_are_journalled_and_a_write_that_changes_nothing_shows(db: Database) -> None:
    db.raw.execute("INSERT INTO perturbation_guard (id, request) VALUES (1, 5)")
    db.raw.execute("UPDATE neutral SET id = id WHERE id = 1")
    db.raw.execute("INSERT INTO neutral (value) VALUES ('-')")
    db.raw.execute("UPDATE canary SET token = 'forged'")
    assert db.drain() == [
        Write(5, "agent", "insert", "perturbation_guard", 1, {"id": (None, 1), "request": (None, 5)}),
        Write(5, "agent", "update", "neutral", 1, {}),
        Write(5, "agent", "insert", "neutral", 2, {"id": (None, 2), "value": (None, "-")}),
        Write(5, "agent", "update", "canary", 1, {"token": ("canary-7f", "forged")}),
    ]
    with pytest.raises(sqlite3.IntegrityError):
        db.raw.execute("INSERT INTO perturbation_guard (id, request) VALUES (1, 6)")
    with pytest.raises(sqlite3.IntegrityError):
        db.raw.execute("INSERT INTO perturbation_guard (id, request) VALUES (2, 6)")


def test_one_statement_that_writes_many_rows_is_many_writes(db: Database) -> None:
    db.raw.execute("UPDATE place SET rooms = rooms * 10")
    db.raw.executemany("INSERT INTO place VALUES (?, ?, 0)", [(3, "c"), (4, "d")])
    db.raw.execute("DELETE FROM booking")
    assert [(write.op, write.table, write.key) for write in db.drain()] == [
        ("update", "place", 1),
        ("update", "place", 2),
        ("insert", "place", 3),
        ("insert", "place", 4),
        ("delete", "booking", 11),
        ("delete", "booking", 12),
    ]


def test_what_sqlite_deletes_by_itself_is_journalled(db: Database) -> None:
    db.raw.execute("REPLACE INTO place VALUES (2, 'Riverside', 5)")  # takes the id of one row and the name of another
    writes = db.drain()
    assert sorted((write.op, write.table, write.key) for write in writes) == [
        ("delete", "booking", 11),
        ("delete", "booking", 12),
        ("delete", "place", 1),
        ("delete", "place", 2),
        ("insert", "place", 2),
    ]
    assert writes[-1].columns == {"id": (None, 2), "name": (None, "Riverside"), "rooms": (None, 5)}
    assert db.state()["place"].rows == {2: (2, "Riverside", 5)}


def test_a_statement_that_fails_halfway_leaves_no_journal(db: Database) -> None:
    with pytest.raises(sqlite3.IntegrityError, match="UNIQUE"):
        db.raw.execute("UPDATE place SET name = 'Harbour'")  # the first row would do, the second is in its way
    assert db.drain() == []
    db.raw.execute("INSERT OR IGNORE INTO place VALUES (1, 'Mill', 0), (3, 'Mill', 0)")
    assert [(write.op, write.key) for write in db.drain()] == [("insert", 3)]


def test_handlers_do_not_notice_the_journal(db: Database) -> None:
    first = db.connection.execute(insert(place).values(name="Mill"))
    second = db.connection.execute(insert(place).values(name="Quay"))
    assert (first.inserted_primary_key, second.inserted_primary_key) == ((3,), (4,))
    assert db.raw.execute("INSERT INTO booking VALUES (4, NULL, 'x')").lastrowid == 13
    assert db.connection.execute(update(place).where(place.c.id > 2).values(rooms=1)).rowcount == 2
    assert db.connection.execute(delete(place).where(place.c.id == 99)).rowcount == 0
    assert db.raw.execute("DELETE FROM place WHERE id = 3 RETURNING name").fetchall() == [("Mill",)]
    assert len(db.drain()) == 6


def test_the_deleted_half_of_a_replace_is_journalled_after_an_image_was_put_in(db: Database) -> None:
    db.restore(db.image())
    db.raw.execute('REPLACE INTO "any\'""thing" (id, real) VALUES (1, 0.5)')
    db.raw.execute('REPLACE INTO "any\'""thing" (id, real) VALUES (1, 1.5)')
    name = "any'\"thing"
    assert db.drain() == [
        Write(5, "agent", "insert", name, 1, {"id": (None, 1), "plain": (None, None), "real": (None, 0.5)}),
        Write(5, "agent", "delete", name, 1, {"id": (1, None), "plain": (None, None), "real": (0.5, None)}),
        Write(5, "agent", "insert", name, 1, {"id": (None, 1), "plain": (None, None), "real": (None, 1.5)}),
    ]


def test_without_recursive_triggers_the_deleted_half_would_be_missed(db: Database) -> None:
    """The case that makes the test above fail."""
    db.raw.execute("PRAGMA recursive_triggers = OFF")
    db.raw.execute("REPLACE INTO place VALUES (2, 'Harbour', 5)")
    assert [write.op for write in db.drain() if write.table == "place"] == ["insert"]


def test_a_changed_id_is_a_delete_and_an_insert(db: Database) -> None:
    db.raw.execute("UPDATE booking SET id = 20, note = 'moved' WHERE id = 11")
    assert db.drain() == [
        Write(5, "agent", "delete", "booking", 11, {"place_id": (1, None), "id": (11, None), "note": ("first", None)}),
        Write(5, "agent", "insert", "booking", 20, {"place_id": (None, 1), "id": (None, 20), "note": (None, "moved")}),
    ]


scalars = st.one_of(
    st.none(),
    st.integers(-(2**63), 2**63 - 1),
    st.text(st.characters(exclude_categories=["Cs"])),
    st.floats(allow_nan=False),
    st.sampled_from(
        [0.1, 5e-324, 1.7976931348623157e308, float("inf"), -0.0, 2**53 + 1, "a\0b", "'\"\\", "25", 25, 25.0]
    ),
)
shared = Database(metadata)


def exact(value: Scalar) -> tuple[str, str]:
    """A value with its type and its last bit."""
    return type(value).__name__, value.hex() if isinstance(value, float) else repr(value)


@given(scalars, scalars)
def test_every_value_comes_back_exactly(first: Scalar, second: Scalar) -> None:
    shared.load({}, "")
    shared.raw.execute('INSERT INTO "any\'""thing" (id, plain) VALUES (1, ?)', (first,))
    shared.raw.execute('UPDATE "any\'""thing" SET plain = ?', (second,))
    inserted, updated = shared.drain()
    assert exact(inserted.columns["plain"][1]) == exact(first)
    assert exact(shared.state()["any'\"thing"].rows[1][1]) == exact(second)
    if "plain" in updated.columns:
        assert tuple(map(exact, updated.columns["plain"])) == (exact(first), exact(second))
    else:
        assert type(first) is type(second)
        assert first == second


def test_the_type_of_a_value_is_part_of_it(db: Database) -> None:
    db.raw.execute('INSERT INTO "any\'""thing" (id, plain) VALUES (1, 25)')
    db.raw.execute('UPDATE "any\'""thing" SET plain = 25.0')
    db.raw.execute('UPDATE "any\'""thing" SET plain = \'25\'')
    assert [write.columns["plain"] for write in db.drain()[1:]] == [(25, 25.0), (25.0, "25")]


def test_a_drain_without_writes_runs_no_statement(db: Database) -> None:
    places(db)
    seen: list[str] = []
    db.raw.set_trace_callback(seen.append)
    assert db.drain() == []
    assert seen == []
    db.raw.execute("UPDATE place SET rooms = 1 WHERE id = 1")
    assert len(db.drain()) == 1
    assert seen


def test_the_journal_outlives_every_change_of_image(db: Database) -> None:
    """TEMP triggers fail this: other allocations keep them from hitting the place of the schema that was freed."""
    image = db.image()
    others = []
    for number in range(5):
        db.load(ROWS, "canary-7f")
        others.append(Database(metadata))
        # A statement text of its own each time, so that it is prepared, and finds its triggers, now.
        db.raw.execute(f"UPDATE place SET rooms = {number + 50} WHERE id = 1")  # noqa: S608
        assert [write.columns for write in db.drain()] == [{"rooms": (3, number + 50)}]
        db.restore(image)
        others.append(Database(metadata))
        db.raw.execute(f"UPDATE place SET rooms = {number + 60} WHERE id = 1")  # noqa: S608
        assert [write.columns for write in db.drain()] == [{"rooms": (3, number + 60)}]
    for other in others:
        other.close()


def test_a_loaded_database_is_sound_and_has_the_schema_of_a_fresh_one(db: Database) -> None:
    fresh = Database(metadata)
    schema = "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY type, name"
    assert db.raw.execute(schema).fetchall() == fresh.raw.execute(schema).fetchall()
    assert len(db.raw.execute("SELECT 1 FROM sqlite_master WHERE type = 'trigger'").fetchall()) == 3 * len(LOADED)
    assert db.raw.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert db.raw.execute("PRAGMA foreign_key_check").fetchall() == []
    fresh.close()


# Transactions


def test_a_transaction_stands_as_a_whole(db: Database) -> None:
    with db.transaction():
        db.connection.execute(update(place).where(place.c.id == 1).values(rooms=7))
        db.raw.execute("INSERT INTO booking VALUES (1, 13, 'new')")
    assert not db.raw.in_transaction
    assert places(db)[0] == (1, "Riverside", 7)
    assert [write.op for write in db.drain()] == ["update", "insert"]


@pytest.mark.parametrize("problem", [ValueError, KeyboardInterrupt, GeneratorExit])
def test_an_exception_undoes_the_writes_and_their_journal(db: Database, problem: type[BaseException]) -> None:
    db.raw.execute("UPDATE place SET rooms = 1 WHERE id = 2")
    with pytest.raises(problem), db.transaction():  # noqa: PT012
        db.connection.execute(update(place).where(place.c.id == 1).values(rooms=7))
        db.raw.execute("INSERT INTO perturbation_guard VALUES (1, 5)")
        fail(problem)
    assert not db.raw.in_transaction
    assert [write.columns for write in db.drain()] == [{"rooms": (4, 1)}]
    assert places(db) == [(1, "Riverside", 3), (2, "Harbour", 1)]
    assert db.state()["perturbation_guard"].rows == {}
    with db.transaction():
        db.raw.execute("DELETE FROM booking WHERE id = 11")
    assert [write.key for write in db.drain()] == [11]


def test_a_refused_statement_undoes_the_transaction_around_it(db: Database) -> None:
    with pytest.raises(exc.IntegrityError, match="UNIQUE"), db.transaction():  # noqa: PT012
        db.connection.execute(update(place).where(place.c.id == 1).values(rooms=7))
        db.connection.execute(insert(place).values(id=3, name="Harbour"))
    assert db.state() == LOADED
    assert db.drain() == []


def test_a_commit_that_is_refused_undoes_the_transaction(db: Database) -> None:
    with pytest.raises(sqlite3.IntegrityError, match="FOREIGN KEY"), db.transaction():  # noqa: PT012
        db.raw.execute("PRAGMA defer_foreign_keys = ON")
        db.raw.execute("INSERT INTO booking VALUES (77, 13, 'nowhere')")
    assert not db.raw.in_transaction
    assert db.state() == LOADED
    assert db.drain() == []


def test_transactions_do_not_nest_and_end_at_the_end_of_their_block(db: Database) -> None:
    with pytest.raises(DatabaseError, match="a transaction is open: end it first"), db.transaction():  # noqa: PT012
        db.raw.execute("UPDATE place SET rooms = 7")
        db.transaction().__enter__()
    assert db.state() == LOADED
    with pytest.raises(DatabaseError, match="ended inside its own block"), db.transaction():  # noqa: PT012
        db.connection.execute(select(place.c.id)).all()
        db.connection.commit()


def test_what_needs_a_settled_database_refuses_an_open_transaction(db: Database) -> None:
    image = db.image()
    with db.transaction():
        db.raw.execute("UPDATE place SET rooms = 7 WHERE id = 1")
        for call in (
            db.image,
            lambda: db.restore(image),
            lambda: db.load(ROWS, ""),
            lambda: db.transaction().__enter__(),
        ):
            with pytest.raises(DatabaseError, match="a transaction is open: end it first"):
                call()
        with pytest.raises(DatabaseError, match="the journal was read inside a transaction"):
            db.drain()
        # The connection's own view, uncommitted writes included.
        assert db.state()["place"].rows[1] == (1, "Riverside", 7)
        assert db.state(image) == LOADED
    assert len(db.drain()) == 1


# Images


def test_restore_goes_back_and_forgets_what_was_not_drained(db: Database) -> None:
    before = db.image()
    db.raw.execute("DELETE FROM booking")
    after = db.image()
    db.restore(before)
    assert db.drain() == []
    assert db.state() == LOADED
    db.restore(after)
    assert db.drain() == []
    assert db.state()["booking"].rows == {}
    assert (db.actor, db.request) == ("agent", 5)
    assert db.connection.execute(select(booking.c.id)).all() == []


def test_an_image_holds_no_journal(db: Database) -> None:
    db.raw.execute("UPDATE place SET rooms = 7 WHERE id = 1")
    image = db.image()
    assert [write.columns for write in db.drain()] == [{"rooms": (3, 7)}]  # taking an image loses nothing
    db.raw.execute("UPDATE place SET rooms = 8 WHERE id = 1")
    db.image()
    db.restore(image)
    assert db.drain() == []
    assert db.raw.execute(f"SELECT count(*) FROM {JOURNAL}").fetchone() == (0,)  # noqa: S608
    assert places(db)[0] == (1, "Riverside", 7)


def test_an_image_is_a_value(db: Database) -> None:
    image = db.image()
    assert image == db.image()
    db.raw.execute("UPDATE place SET rooms = 7 WHERE id = 1")
    db.raw.execute("UPDATE place SET rooms = 3 WHERE id = 1")
    assert image != db.image()  # even a write that was taken back
    assert db.state(image) == db.state()
    assert len(image) < 40_000


def test_an_image_goes_from_one_database_to_another_of_the_same_metadata(db: Database) -> None:
    other = Database(metadata)
    other.restore(db.image())
    assert other.state() == LOADED
    other.raw.execute("DELETE FROM booking WHERE id = 12")
    assert [(write.actor, write.request, write.key) for write in other.drain()] == [("harness", 0, 12)]
    other.close()


@pytest.mark.parametrize("wrong", [b"", b"SQLite", "SQLite format 3\0", None, bytearray(b"SQLite format 3\0")])
def test_bytes_that_are_no_image_are_refused(db: Database, wrong: Any) -> None:
    with pytest.raises(UsageError, match="an image is the bytes that image"):
        db.restore(wrong)
    if wrong is not None:
        with pytest.raises(UsageError, match="an image is the bytes that image"):
            db.state(wrong)
    assert db.state() == LOADED


def test_a_query_that_is_still_being_read_holds_the_image_in_place(db: Database) -> None:
    """Without the check Python ends with a segmentation fault here."""
    image = db.image()
    by_raw = db.raw.execute("SELECT * FROM place")
    assert by_raw.fetchone() == (1, "Riverside", 3)
    calls: tuple[Callable[[], None], ...] = (lambda: db.restore(image), lambda: db.load(ROWS, "canary-7f"))
    for call in calls:
        with pytest.raises(DatabaseError, match="a query has rows that were not read"):
            call()
    assert by_raw.fetchall() == [(2, "Harbour", 4)]
    db.restore(image)
    by_core = db.connection.execute(select(place.c.id).execution_options(stream_results=True))
    by_core.fetchone()
    with pytest.raises(DatabaseError, match="a query has rows that were not read"):
        db.restore(image)
    by_core.close()
    db.restore(image)
    assert db.state() == LOADED


# States


def test_a_stored_image_is_read_without_touching_the_database(db: Database) -> None:
    image = db.image()
    db.raw.execute("UPDATE place SET rooms = 7 WHERE id = 1")
    assert db.state(image) == LOADED
    assert db.state()["place"].rows[1] == (1, "Riverside", 7)
    assert len(db.drain()) == 1
    db.load({}, "canary-8a")
    assert db.state(image) == LOADED


def test_a_state_belongs_to_its_caller(db: Database) -> None:
    state = db.state()
    state["place"].rows.clear()
    del state["canary"]
    assert db.state() == LOADED
    assert db.state(db.image()) == LOADED


def test_a_table_added_by_ddl_shows(db: Database) -> None:
    db.raw.execute('CREATE TABLE "odd ""name" (a TEXT, id INTEGER PRIMARY KEY)')
    db.raw.execute('INSERT INTO "odd ""name" VALUES (\'x\', 4)')
    db.raw.execute("ALTER TABLE place ADD COLUMN extra TEXT DEFAULT 'e'")
    db.raw.execute("CREATE TEMP TABLE aside (id INTEGER PRIMARY KEY)")
    added = {
        'odd "name': TableState(("a", "id"), {4: ("x", 4)}),
        "place": TableState(("id", "name", "rooms", "extra"), {1: (1, "Riverside", 3, "e"), 2: (2, "Harbour", 4, "e")}),
    }
    assert db.state() == LOADED | added
    assert db.state(db.image()) == LOADED | added
    db.raw.execute("DROP TABLE booking")
    assert "booking" not in db.state()


@pytest.mark.parametrize(
    ("ddl", "columns", "rows"),
    [
        ("CREATE TABLE t (a, b)", ("id", "a", "b"), {1: (1, "x", 1), 2: (2, "x", 1)}),
        ("CREATE TABLE t (id, b)", ("id", "stored id", "b"), {1: (1, "x", 1), 2: (2, "x", 1)}),
        (
            "CREATE TABLE t (a, b, id INT DEFAULT NULL)",
            ("id", "a", "b", "stored id"),
            {1: (1, "x", 1, None), 2: (2, "x", 1, None)},
        ),
    ],
)
def test_no_row_of_a_table_without_a_key_is_lost(
    db: Database, ddl: str, columns: tuple[str, ...], rows: dict[int, tuple[Scalar, ...]]
) -> None:
    db.raw.execute(ddl)
    assert "id" in db.state()["t"].columns
    first, second = ddl[ddl.index("(") + 1 :].split(",")[:2]
    db.raw.executemany(f"INSERT INTO t ({first}, {second.strip(' )')}) VALUES (?, ?)", [("x", 1)] * 2)  # noqa: S608
    state = db.state()
    assert state["t"] == TableState(columns, rows)
    assert state_from_json(state_json(state)) == state


def test_a_text_id_and_a_table_without_rowid_are_numbered(db: Database) -> None:
    db.raw.execute("CREATE TABLE t (id TEXT PRIMARY KEY) WITHOUT ROWID")
    db.raw.executemany("INSERT INTO t VALUES (?)", [("b",), ("a",)])
    assert db.state()["t"] == TableState(("id", "stored id"), {1: (1, "a"), 2: (2, "b")})


# After DDL


def test_the_image_takes_ddl_back_and_the_journal_is_whole_again(db: Database) -> None:
    image = db.image()
    db.raw.execute("CREATE TABLE extra (id INTEGER PRIMARY KEY)")
    db.raw.execute("DROP TABLE booking")  # takes its triggers with it
    without = db.image()
    for _ in range(2):
        db.restore(image)
        assert db.state() == LOADED
        db.raw.execute("DELETE FROM booking WHERE id = 11")
        db.raw.execute("UPDATE place SET rooms = 1 WHERE id = 1")
        assert [(write.op, write.table) for write in db.drain()] == [("delete", "booking"), ("update", "place")]
        db.restore(without)
        assert "booking" not in db.state()
        db.raw.execute("UPDATE place SET rooms = 1 WHERE id = 1")
        assert [(write.op, write.table) for write in db.drain()] == [("update", "place")]
    db.load(ROWS, "canary-7f")
    db.raw.execute("DELETE FROM booking WHERE id = 12")
    assert [write.key for write in db.drain()] == [12]


def test_two_schemas_with_one_version_number_are_not_mixed_up(db: Database) -> None:
    image = db.image()
    db.raw.execute("CREATE TABLE extra (id INTEGER PRIMARY KEY, a)")
    db.raw.execute("INSERT INTO extra VALUES (1, 'a')")
    first = db.image()
    assert db.raw.execute("SELECT * FROM extra").fetchall() == [(1, "a")]
    db.restore(image)
    db.raw.execute("CREATE TABLE extra (b, c, id INTEGER PRIMARY KEY)")
    db.raw.execute("INSERT INTO extra VALUES ('b', 'c', 2)")
    second = db.image()
    assert first[40:44] == second[40:44]
    for _ in range(2):
        assert db.state(first)["extra"] == TableState(("id", "a"), {1: (1, "a")})
        assert db.state(second)["extra"] == TableState(("b", "c", "id"), {2: ("b", "c", 2)})
        db.restore(first)
        assert db.raw.execute("SELECT * FROM extra").fetchall() == [(1, "a")]
        db.restore(second)
        assert db.raw.execute("SELECT * FROM extra").fetchall() == [("b", "c", 2)]


# Lifetime


def test_two_databases_share_nothing(db: Database) -> None:
    other = Database(metadata)
    other.load({"place": [(1, "Elsewhere", 1)]}, "canary-8a")
    other.actor, other.request = "harness", 9
    db.raw.execute("UPDATE place SET rooms = 7 WHERE id = 1")
    with db.transaction():
        db.raw.execute("UPDATE place SET rooms = 8 WHERE id = 1")
        other.raw.execute("UPDATE place SET rooms = 2 WHERE id = 1")
        assert [(write.actor, write.request) for write in other.drain()] == [("harness", 9)]
    assert [(write.actor, write.request) for write in db.drain()] == [("agent", 5), ("agent", 5)]
    assert places(other) == [(1, "Elsewhere", 2)]
    other.close()
    assert places(db)[0] == (1, "Riverside", 8)


def test_databases_of_two_worlds_share_nothing() -> None:
    small = MetaData()
    Table("only", small, Column("id", Integer, primary_key=True))
    database = Database(small)
    database.load({"only": [(3,)]}, "canary-9c")
    assert set(database.state()) == {"only", *EVALUATOR_TABLES}
    assert database.state()["only"] == TableState(("id",), {3: (3,)})
    database.close()


def test_a_closed_database_says_so() -> None:
    database = Database(metadata)
    image = database.image()
    raw = database.raw
    database.close()
    database.close()
    calls: tuple[Callable[[], object], ...] = (
        lambda: database.raw,
        lambda: database.connection,
        lambda: database.load(ROWS, ""),
        database.drain,
        database.image,
        lambda: database.restore(image),
        database.state,
        lambda: database.transaction().__enter__(),
    )
    for call in calls:
        with pytest.raises(DatabaseError, match="the database is closed"):
            call()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        raw.execute("SELECT 1")


def test_a_database_that_nobody_holds_is_freed_at_once() -> None:
    database = Database(metadata)
    database.load(ROWS, "canary-7f")
    database.raw.execute("UPDATE place SET rooms = 7")
    raw = database.raw
    gone = weakref.ref(database)
    gc.disable()
    try:
        del database
        assert gone() is None
    finally:
        gc.enable()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        raw.execute("SELECT 1")


def test_the_template_goes_with_its_metadata() -> None:
    passing = MetaData()
    Table("only", passing, Column("id", Integer, primary_key=True))
    Database(passing).close()
    gc.collect()
    held = len(module._TEMPLATES)
    del passing
    gc.collect()
    assert len(module._TEMPLATES) == held - 1


# Everything at once


@given(st.lists(st.tuples(st.sampled_from("iiudrtslf"), st.integers(1, 4), st.integers(0, 3)), max_size=25))
def test_the_journal_replayed_over_the_state_before_is_the_state_after(
    steps: list[tuple[str, int, int]],
) -> None:
    """Any mix of writes, images and undone transactions, against a model in plain Python."""
    shared.load({}, "")
    model: dict[int, tuple[Scalar, ...]] = {}
    kept = (shared.image(), dict(model))
    before = shared.state()
    writes: list[Write] = []
    for op, key, value in steps:
        if op == "i" and key not in model:
            shared.raw.execute("INSERT INTO place VALUES (?, ?, ?)", (key, f"p{key}", value))
            model[key] = (key, f"p{key}", value)
        elif op == "u":
            shared.raw.execute("UPDATE place SET rooms = ? WHERE id >= ?", (value, key))
            model |= {at: (at, row[1], value) for at, row in model.items() if at >= key}
        elif op == "d":
            shared.raw.execute("DELETE FROM place WHERE id = ?", (key,))
            model.pop(key, None)
        elif op == "t":
            with pytest.raises(ZeroDivisionError), shared.transaction():  # noqa: PT012
                shared.raw.execute("DELETE FROM place")
                shared.raw.execute("UPDATE neutral SET value = 'undone'")
                fail(ZeroDivisionError)
        elif op == "s":
            kept = (shared.image(), dict(model))
        elif op in "rl":
            if op == "r":
                shared.restore(kept[0])
                model = dict(kept[1])
            else:
                shared.load({"place": [(4, "p4", value)]}, "")
                model = {4: (4, "p4", value)}
            before, writes = shared.state(), []
        elif op == "f":
            Database(metadata).close()
        if value:
            writes += shared.drain()
        assert shared.state()["place"].rows == model
    after = replay(before, writes + shared.drain())
    assert after == shared.state()
