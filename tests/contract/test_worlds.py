"""Properties of every world (dm_control's habit: a new world is tested the moment it exists)."""

import pytest

from envos.envs.database import Database
from envos.envs.scenario import WORLDS, load_world
from envos.envs.streams import SPLITS


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("name", WORLDS)
def test_the_remembered_state_is_what_the_database_holds(name: str, split: str) -> None:
    """`load` remembers the rows that it was given: the same values, of the same types, as a dump reads out."""
    world = load_world(name)
    database, other = Database(world.metadata), Database(world.metadata)
    for seed in range(20):
        database.load(world.generate(seed, split).rows, "canary-x")
        image = database.image()
        remembered, dumped = database.state(image), other.state(image)
        assert remembered == dumped
        for table in dumped:
            for key, row in dumped[table].rows.items():
                assert list(map(type, row)) == list(map(type, remembered[table].rows[key]))
    database.close()
    other.close()


@pytest.mark.parametrize("name", WORLDS)
def test_size_and_roles(name: str) -> None:
    """60 to 200 rows, and every role of a fact names a value that is there, with other values that differ."""
    world = load_world(name)
    for seed in range(20):
        draft = world.generate(seed, "train")
        assert 60 <= sum(map(len, draft.rows.values())) <= 200
        for role in (draft.roles.fact, draft.roles.twin, draft.roles.detail):
            assert role is not None
            columns = [column.name for column in world.metadata.tables[role.table].columns]
            row = next(row for row in draft.rows[role.table] if row[0] == role.key)
            assert row[columns.index(role.column)] == role.value
            assert role.alternatives
            assert role.value not in [value for value, _ in role.alternatives]
