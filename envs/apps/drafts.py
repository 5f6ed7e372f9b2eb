"""What a form carries from its pages to its review: as a rule what was chosen, and once in a while something else."""

from sqlalchemy import Column, Integer, MetaData, Table, bindparam, select
from sqlalchemy.sql import Select

from envos.envs.app import Context


def table(metadata: MetaData) -> Table:
    """Add the table `carried` to a world's metadata and return it.

    A row says that a form about `subject` in which `chosen` was chosen holds `held` in requests before the number
    `before`.
    """
    return Table(
        "carried",
        metadata,
        Column("id", Integer, primary_key=True),
        Column("subject", Integer, nullable=False),
        Column("chosen", Integer, nullable=False),
        Column("held", Integer, nullable=False),
        Column("before", Integer, nullable=False),
    )


def query(carried: Table) -> Select[tuple[int]]:
    """The statement that `held` executes, which a world builds once."""
    return select(carried.c.held).where(
        carried.c.subject == bindparam("subject"),
        carried.c.chosen == bindparam("chosen"),
        carried.c.before > bindparam("number"),
    )


def held(ctx: Context, statement: Select[tuple[int]], subject: int, chosen: int) -> int:
    """What the form about a subject holds in this request, given what was chosen in it."""
    found = ctx.db.execute(statement, {"subject": subject, "chosen": chosen, "number": ctx.number}).scalar()
    return chosen if found is None else int(found)
