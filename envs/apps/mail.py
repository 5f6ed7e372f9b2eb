"""Mail: the messages that have come in, as every world with a mailbox has them."""

from sqlalchemy import Column, Integer, MetaData, String, Table, bindparam, select, update

from envos.envs.app import Context, Redirect, Refused, Routes
from envos.envs.page import Facts, Link, Page, Paragraph
from envos.envs.page import Table as Rows
from envos.envs.tools import Tool, key

TOOLS = (
    Tool("list_messages", "GET", "/inbox", "List the messages in the inbox, the newest first."),
    Tool(
        "read_message",
        "GET",
        "/inbox/{id}",
        "Read one message; it counts as read from then on.",
        (key("message_id", "Id of a message, as list_messages gives it."),),
    ),
)


def table(metadata: MetaData) -> Table:
    """Add the table `message` to a world's metadata and return it; whether a message is read is volatile."""
    return Table(
        "message",
        metadata,
        Column("id", Integer, primary_key=True),
        Column("sender", String, nullable=False),
        Column("subject", String, nullable=False),
        Column("body", String, nullable=False),
        Column("sent_at", String, nullable=False),
        Column("read", Integer, nullable=False, info={"volatile": True}),
    )


def mount(routes: Routes, message: Table) -> None:
    """Add the inbox, newest message first, and the page of one message, which marks it as read."""
    columns = message.c
    inbox = select(columns.id, columns.sender, columns.subject, columns.sent_at, columns.read).order_by(
        columns.sent_at.desc(), columns.id.desc()
    )
    one = select(columns.sender, columns.subject, columns.body, columns.sent_at, columns.read).where(
        columns.id == bindparam("key")
    )
    mark = update(message).where(columns.id == bindparam("key")).values(read=1)

    @routes.get("/inbox")
    def show_inbox(ctx: Context) -> Page | Redirect:
        found = ctx.db.execute(inbox).all()
        rows = tuple(
            (Link(subject, f"/inbox/{key}"), sender, sent_at, "read" if read else "unread")
            for key, sender, subject, sent_at, read in found
        )
        return Page("Inbox", (Rows(("Subject", "From", "Received", "Status"), rows, "No messages."),))

    @routes.get("/inbox/{id}")
    def show_message(ctx: Context) -> Page | Redirect:
        found = ctx.db.execute(one, {"key": ctx.key}).first()
        if found is None:
            raise Refused("not_found")
        sender, subject, body, sent_at, read = found
        if not read:
            ctx.db.execute(mark, {"key": ctx.key})
        return Page(subject, (Facts((("From", sender), ("Received", sent_at))), Paragraph((body,))))
