"""The application of a world: a request comes in, a page goes out, and the access log keeps both.

No sockets: the in-process driver, a browser's server and the tools all call `Application.ask`. The perturbation, when
it is due, is carried out before the handler reads anything, so the page that this very request returns shows it; one
that alters what a commit has stored is carried out after the handler has written it, in the same request.
"""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import parse_qsl

from envos.envs.database import Database
from envos.envs.evidence import Ledger, Request, Served, Write
from envos.envs.page import Cell, Form, Hidden, Modal, Page, Paragraph, Value, clean
from envos.envs.perturbation import OneShot
from envos.envs.statements import Statements

if TYPE_CHECKING:
    from envos.envs.roles import World

HOPS = 4
"""Redirects that one request may lead to."""


class Redirect(NamedTuple):
    """A handler's answer that sends the client on (303)."""

    location: str


class Refused(Exception):
    """A handler's refusal; `code` is a key of the world's refusals."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


REFUSALS: dict[str, tuple[int, str]] = {
    "not_found": (404, "This page does not exist."),
    "bad_request": (400, "The request is incomplete. Go back and fill in the form."),
    "method": (405, "This page cannot be used in that way."),
}
"""Refusals that every world has: code to status and text."""


class Context:
    """What a handler is given: the database, the request's parameters, and what the condition lets the page show."""

    __slots__ = ("db", "key", "method", "now", "number", "params", "review", "served", "watched")

    def __init__(
        self,
        db: Statements,
        method: str,
        params: dict[str, str],
        key: int,
        number: int,
        now: str,
        review: str,
        watched: frozenset[tuple[str, int, str]],
    ) -> None:
        self.db = db
        self.method = method
        self.params = params
        self.key = key
        self.number = number
        self.now = now
        self.review = review
        self.watched = watched
        self.served: list[Served] = []

    def value(self, text: str, table: str, key: int, column: str) -> Cell:
        """A cell that shows a stored value; a watched one is logged as served."""
        if (table, key, column) in self.watched:
            self.served.append(Served(table, key, column, text))
            return Value(text, table, key, column)
        return text

    def number_of(self, name: str) -> int:
        """The parameter as a positive row id; refuses the request when it is not one."""
        text = self.params.get(name, "")
        if not (text.isascii() and text.isdecimal() and len(text) < 10):
            raise Refused("bad_request")
        return int(text)


Handler = Callable[[Context], Page | Redirect]


class Routes:
    """The routes of a world: (method, pattern) to handler; a pattern may hold one `{id}`."""

    def __init__(self) -> None:
        self.handlers: dict[tuple[str, str], Handler] = {}

    def get(self, pattern: str) -> Callable[[Handler], Handler]:
        """Register a handler for GET."""
        return self._register("GET", pattern)

    def post(self, pattern: str) -> Callable[[Handler], Handler]:
        """Register a handler for POST; it answers with a redirect."""
        return self._register("POST", pattern)

    def _register(self, method: str, pattern: str) -> Callable[[Handler], Handler]:
        def keep(handler: Handler) -> Handler:
            self.handlers[method, pattern] = handler
            return handler

        return keep

    def resolve(self, path: str) -> tuple[str, int]:
        """The pattern that a path belongs to and the id in it (0 without one)."""
        return _resolve(path)


# Asked twice for each request, by the application and by the verifier; worlds have some hundred paths each.
@lru_cache(maxsize=1024)
def _resolve(path: str) -> tuple[str, int]:
    parts = path.split("/")
    for place in range(2, len(parts)):
        part = parts[place]
        if part.isascii() and part.isdecimal() and len(part) < 10:
            return "/".join([*parts[:place], "{id}", *parts[place + 1 :]]), int(part)
    return path, 0


class Reply(NamedTuple):
    """The page that answered, where it stands, and its line in the access log."""

    page: Page
    url: str
    request: Request


class Application:
    """One world's software, running on one database for one episode."""

    __slots__ = (
        "_opened",
        "_statements",
        "_watched",
        "database",
        "ledger",
        "number",
        "oneshot",
        "session",
        "step",
        "world",
    )

    def __init__(self, world: "World", database: Database, ledger: Ledger, oneshot: OneShot) -> None:
        self.world = world
        self.database = database
        self.ledger = ledger
        self.oneshot = oneshot
        self.number = 0
        self.step = 0
        self.session = "s1"
        self._statements = Statements(database.raw)
        self._watched = frozenset(oneshot.plan.watched)
        self._opened = oneshot.plan.opened

    def ask(self, method: str, url: str, form: Mapping[str, str] | None = None, actor: str = "agent") -> Reply:
        """Answer one request, redirects followed; each hop has its own line in the access log."""
        reply = self._answer(method, url, form or {}, actor, "direct")
        for _ in range(HOPS):
            if isinstance(reply, Reply):
                return reply
            reply = self._answer("GET", reply.location, {}, actor, "redirect")
        raise RuntimeError(f"more than {HOPS} redirects from {url!r}")

    def answer(self, method: str, url: str, form: Mapping[str, str], actor: str, via: str) -> Reply | Redirect:
        """Answer one request and follow nothing: a browser asks for each hop itself."""
        return self._answer(method, url, form, actor, via)

    def turn_away(self, method: str, url: str, kind: str) -> None:
        """Put on record what a browser asked for by itself (an icon, a prefetch): no handler sees it, it gets a 404."""
        path, _, query = url.partition("?")
        self.number += 1
        params = {name: clean(text) for name, text in parse_qsl(query)}
        route = self.world.routes.resolve(path)[0]
        self.ledger.append(
            Request(self.number, self.step, self.session, "browser", kind, method, path, route, params, 404, "", ())
        )

    def now(self) -> str:
        """The virtual time: one minute passes with each step."""
        return _later(self._opened, self.step)

    def _answer(self, method: str, url: str, form: Mapping[str, str], actor: str, via: str) -> Reply | Redirect:
        path, _, query = url.partition("?")
        params = {name: clean(text) for name, text in parse_qsl(query)} if query else {}
        for name, text in form.items():
            params[name] = clean(text)
        self.number = number = self.number + 1
        routes = self.world.routes
        route, key = routes.resolve(path)
        database, oneshot = self.database, self.oneshot
        now = self.now()
        if oneshot.due(actor, via, method, route) and oneshot.plan.concerns(params, self.world.reviewed):
            oneshot.fire(database, self.ledger, number, now)
        database.actor, database.request = actor, number
        context = Context(self._statements, method, params, key, number, now, oneshot.plan.review, self._watched)
        handler = routes.handlers.get((method, route))
        status, page, location = self._handle(handler, context, route)
        made: Write | None = None
        for write in database.drain():
            self.ledger.append(write)
            if write.table == oneshot.plan.commit_table and write.op == "insert" and write.actor == "agent":
                made = made or write
        if made is not None:
            if oneshot.due(actor, via, method, route, made):
                oneshot.fire(database, self.ledger, number, now)
            oneshot.closed = True
        request = Request(
            number,
            self.step,
            self.session,
            actor,
            via,
            method,
            path,
            route,
            params,
            status,
            location,
            tuple(context.served),
        )
        self.ledger.append(request)
        if page is None:
            return Redirect(location)
        modal = self._modal(number, url) if oneshot.fired and oneshot.notifies else None
        return Reply(Page(page.title, page.body, self.world.navigation, modal), url, request)

    def _handle(self, handler: Handler | None, context: Context, route: str) -> tuple[int, Page | None, str]:
        """The handler's answer as (status, page or None, redirect target)."""
        try:
            if handler is None:
                known = any(pattern == route for _, pattern in self.world.routes.handlers)
                raise Refused("method" if known else "not_found")
            if context.method == "POST":
                with self.database.transaction():
                    answer = handler(context)
            else:
                answer = handler(context)
        except Refused as refusal:
            # A form that is refused leads to a page of its own, so that going back never sends it again.
            if context.method == "POST":
                return 303, None, f"/refused?code={refusal.code}"
            context.served.clear()
            return self._refusal(refusal.code)
        if isinstance(answer, Redirect):
            return 303, None, answer.location
        if route == "/refused":
            return self._refusal(context.params.get("code", ""))
        return 200, answer, ""

    def _refusal(self, code: str) -> tuple[int, Page | None, str]:
        status, text = self.world.refusals.get(code) or REFUSALS.get(code) or REFUSALS["bad_request"]
        return status, Page("Not possible", (Paragraph((text,)),)), ""

    def _modal(self, number: int, url: str) -> Modal | None:
        """The oldest notice that is due and not acknowledged, worded from the rows as they are now."""
        row = self.database.raw.execute(
            "SELECT id, record, record_id, field FROM notice WHERE acknowledged = 0 AND visible_from <= ? "
            "ORDER BY id LIMIT 1",
            (number,),
        ).fetchone()
        if row is None:
            return None
        key, record, record_id, field = row
        text = self.world.announce(self._statements, record, record_id, field)
        form = Form("post", f"/notices/{key}/acknowledge", (Hidden("back", url),), "Acknowledge")
        return Modal("Notice", text, form)


@lru_cache(maxsize=256)
def _later(opened: str, minutes: int) -> str:
    """A time so many minutes after another; a request and its redirects ask for the same one."""
    return (datetime.fromisoformat(opened) + timedelta(minutes=minutes)).isoformat(" ", "minutes")
