"""Modal notices and the change history: the two tables that every world with a changing fact has."""

from sqlalchemy import Column, Integer, MetaData, String, Table, select, update

from envos.envs.app import Context, Redirect, Refused, Routes
from envos.envs.page import Page
from envos.envs.tools import Tool, key

TOOLS = (
    Tool(
        "acknowledge_notice",
        "POST",
        "/notices/{id}/acknowledge",
        "Acknowledge the notice that the last result holds; until then nothing else can be called.",
        (key("notice_id", "Id of the notice."),),
        answers_notice=True,
    ),
)


def tables(metadata: MetaData) -> tuple[Table, Table]:
    """Add the tables `notice` and `history` to a world's metadata and return them."""
    notice = Table(
        "notice",
        metadata,
        Column("id", Integer, primary_key=True),
        Column("record", String, nullable=False),
        Column("record_id", Integer, nullable=False),
        Column("field", String, nullable=False),
        Column("visible_from", Integer, nullable=False),
        Column("acknowledged", Integer, nullable=False, info={"volatile": True}),
    )
    history = Table(
        "history",
        metadata,
        Column("id", Integer, primary_key=True),
        Column("record", String, nullable=False),
        Column("record_id", Integer, nullable=False),
        Column("field", String, nullable=False),
        Column("old", String, nullable=False),
        Column("new", String, nullable=False),
        Column("at", String, nullable=False),
        Column("by", String, nullable=False),
    )
    return notice, history


def mount(routes: Routes, notice: Table) -> None:
    """Add the route that acknowledges a notice and goes back to the page beneath it."""

    @routes.post("/notices/{id}/acknowledge")
    def acknowledge(ctx: Context) -> Page | Redirect:
        found = ctx.db.execute(select(notice.c.id).where(notice.c.id == ctx.key)).first()
        if found is None:
            raise Refused("not_found")
        ctx.db.execute(update(notice).where(notice.c.id == ctx.key).values(acknowledged=1))
        back = ctx.params.get("back", "/")
        return Redirect(back if back.startswith("/") and not back.startswith("//") else "/")

    @routes.get("/refused")
    def refused(ctx: Context) -> Page | Redirect:
        return Page("Not possible", ())
