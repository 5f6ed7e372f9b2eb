"""The Chromium driver: the same application in a real browser, with mouse and keyboard, read from its document.

Every request of the page is answered by the application itself, in the thread of the environment, while an action waits
for it; nothing is listened on and nothing else can be reached. The page is then read from the document, compared with
what the application meant to show, and handed over: one that reads otherwise is a fault, never an observation.
"""

from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl

from envos.envs.address import address
from envos.envs.app import HOPS, Application, Redirect, Reply
from envos.envs.drivers.chromium_browser import Browser, discard, find, lease, release
from envos.envs.drivers.chromium_tab import Answer, Asked, Seen, Tab
from envos.envs.drivers.inprocess import InProcess
from envos.envs.evidence import Fault
from envos.envs.html import render
from envos.envs.page import (
    TEXT_LIMIT,
    Element,
    Field,
    Form,
    Hidden,
    Radio,
    Select,
    TextField,
    View,
    listing,
    observe,
)
from envos.envs.screen import Screen
from envos.errors import BrowserError

_HEADERS = {
    "Content-Type": "text/html; charset=utf-8",
    "Cache-Control": "no-store",
    # What the page asks its own origin for beside a document gets a 404 and a line in the access log; the rest is
    # reported to us and never asked.
    "Content-Security-Policy": "default-src 'self'; script-src 'none'; style-src 'unsafe-inline'; img-src 'self' "
    "data:; object-src 'none'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
_EMPTY = '<!doctype html><title>-</title><link rel="icon" href="data:,">'


class Chromium(InProcess):
    """Shows the application's pages in a browser, with a screenshot of each if `pictures`.

    Raises UsageError when there is no browser, or no Pillow to read its pictures. The browser starts with the first
    episode and is shared by all environments of the process.
    """

    __slots__ = (
        "_actor",
        "_asking",
        "_browser",
        "_hops",
        "_location",
        "_path",
        "_served",
        "_shot",
        "_stub",
        "_tab",
        "screen",
    )

    def __init__(self, limit: int = TEXT_LIMIT, *, pictures: bool = True) -> None:
        super().__init__(limit)
        self._path = find()
        self._browser: Browser | None = None
        self._tab: Tab | None = None
        self.screen: Screen | None = Screen(lambda: self._page().picture()) if pictures else None
        self._shot = ""
        # For the page to come: who asks for it ("": nobody may) and how, where its redirects lead, what it was served.
        self._actor, self._asking, self._location, self._hops = "", ("", ""), "", 0
        self._served: Reply | None = None
        # What is shown instead of asking the application, while a snapshot is restored.
        self._stub: str | None = None

    def open(self, application: Application) -> None:
        """Show the world's home page; a browser that has crashed since the last episode is started again."""
        self._app = application
        self._served = None
        if self.screen is not None:
            self.screen.keep({})
        try:
            self._open()
        except BrowserError:
            self._drop()
            self._open()

    def click(self, index: str) -> str:
        """Click a link, a button or a radio button with the mouse."""
        element, error = self._element(index, ("link", "button", "radio"), "clicked")
        if element is None:
            return error
        if element.role != "radio":
            return self._go(lambda tab: tab.press(element.index, True), self._due(element))
        self._touch(lambda tab: tab.press(element.index, False), element, "on")
        return ""

    def goto(self, path: str) -> str:
        """Open a path of this world."""
        url, error = self._address(path)
        return error or self._go(lambda tab: tab.visit(self._origin() + url), ("GET", url))

    def back(self) -> str:
        """Go back in the browser's history, which asks for the page before this one again."""
        url, error = self._before()
        return error or self._go(lambda tab: tab.revisit(self._origin() + url), ("GET", url))

    def view(self) -> View:
        """The page as it stands; a picture is taken only after something was done to it."""
        view = super().view()
        if self.screen is None:
            return view
        self._shot = self._shot or self.screen.take()
        return view._replace(screenshot=self._shot)

    def snapshot(self) -> Any:
        """What `restore` needs: the page, what was typed, the history and the pictures."""
        return super().snapshot(), self.screen and self.screen.kept()

    def restore(self, snapshot: Any, application: Application) -> None:
        """Go back to a snapshot: its history is visited and its page shown without asking the application."""
        inner, pictures = snapshot
        super().restore(inner, application)
        if self.screen is not None:
            self.screen.keep(pictures)
        try:
            self._replay()
        except BrowserError:
            self._drop()
            self._replay()

    def close(self) -> None:
        """Close the page; the browser ends with the last one."""
        tab, browser = self._tab, self._browser
        self._tab = self._browser = None
        try:
            if tab is not None:
                tab.close()
        except BrowserError:
            if browser is not None:
                discard(browser)
        finally:
            if browser is not None:
                release(browser)

    def _type(self, element: Element, value: str) -> None:
        self._touch(lambda tab: tab.type(element.index, value), element, value)

    def _choose(self, element: Element, place: int) -> None:
        self._touch(lambda tab: tab.choose(element.index, place), element, element.options[place])

    def _look(self) -> View:
        return self._checked(self._page().read())

    def _open(self) -> None:
        """Show the home page, or again what it was answered with: a request is on record once."""
        tab, home = self._ready(), self._app.world.home
        self._history = []
        if self._served is None:
            self._go(lambda tab: tab.visit(self._origin() + home), ("GET", home), "harness")
        else:
            self._show(self._served)
            self._replay()
        tab.start_history()

    def _page(self) -> Tab:
        """The page in the browser. Raises BrowserError when it is gone, and with it what the agent did to it."""
        if self._tab is None:
            raise BrowserError("the page is closed")
        return self._tab

    def _ready(self) -> Tab:
        """The page in the browser, made anew if there is none or its browser has ended."""
        if self._tab is not None and self._tab.browser.gone:
            self._drop()
        if self._tab is None:
            self._browser = lease(self._path)
            self._tab = Tab(self._browser, self._answer)
        return self._tab

    def _drop(self) -> None:
        """Give up a page that does not do what it should, and a browser that cannot even close it."""
        self.close()
        self._shot = ""

    def _due(self, element: Element) -> tuple[str, str]:
        """The request that a link or a button leads to: its method and address."""
        if element.role == "link":
            return "GET", address(element.target)
        form = self.view().forms[element.form]
        sent = "?" if form.method == "get" else ""
        return form.method.upper(), address(form.action) + sent

    def _go(self, act: Callable[[Tab], Seen | None], due: tuple[str, str], actor: str = "agent") -> str:
        """Do what leads to a new page and hand it over; an error line where the browser was refused.

        `due` is the request that this is to make; any other is not the agent's.
        """
        tab = self._caught_up()
        self._expect(actor, due)
        try:
            seen = act(tab)
        finally:
            self._actor = ""
        self._caught_up()
        served = self._served
        if seen is None:
            self._view = None
            return "the page leads out of this application, and was not left"
        if served is None:
            raise BrowserError("the page changed without asking for anything")
        if seen["url"] != self._origin() + served.url:
            raise BrowserError(f"the browser stands at {seen['url'][:200]!r} and was sent to {served.url[:200]!r}")
        self._show(served)
        self._view = self._checked(seen)
        return ""

    def _expect(self, actor: str, due: tuple[str, str]) -> None:
        """From now on this request, with its redirects, is answered by the application."""
        self._shot, self._served = "", None
        self._actor, self._asking, self._location, self._hops = actor, due, "", 0

    def _touch(self, act: Callable[[Tab], Seen | None], element: Element, value: str) -> None:
        """Do what changes a field of the page, and see that it did."""
        tab = self._caught_up()
        self._shot = ""
        seen = act(tab)
        view = self._view = self._checked(seen if seen is not None else tab.read())
        if view.elements[element.index - 1].value != value:
            raise BrowserError(f"element {element.index} does not hold {value[:80]!r}")

    def _checked(self, seen: Seen) -> View:
        """The page as read from the document. Raises BrowserError when it is not the one that was served.

        A document does not tell a watched value from other text. The typed page does, and its offsets hold because the
        two texts are the same.
        """
        view = _view(seen, self._limit)
        self._typed = {
            (number, field.name): field.value
            for number, form in enumerate(view.forms)
            for field in form.fields
            if not isinstance(field, Hidden)
        }
        direct = observe(self._reply.page, self._typed, self._limit)
        if view != direct._replace(marks=()):
            raise BrowserError(f"the page at {self._reply.url[:200]!r} does not read as it was served")
        return view._replace(marks=direct.marks)

    def _replay(self) -> None:
        """Visit the history again, with nothing on its pages, and show the page as it stood."""
        tab, typed = self._ready(), dict(self._typed)
        self._shot = ""
        *before, url = self._history
        try:
            for place, earlier in enumerate(before):
                self._stub = _EMPTY
                tab.visit(self._origin() + earlier)
                if place == 0:
                    tab.start_history()
            self._stub = render(self._reply.page, typed)
            seen = tab.visit(self._origin() + url)
        finally:
            self._stub = None
        if not before:
            tab.start_history()
        if seen is None:
            raise BrowserError(f"the browser did not open {url[:200]!r}")
        self._view = self._checked(seen)

    def _origin(self) -> str:
        # A reserved name, which no resolver knows.
        return f"https://{self._app.world.name}.test"

    def _caught_up(self) -> Tab:
        """The page, with what it did by itself dealt with and on record."""
        tab = self._page()
        tab.catch_up()
        for stray in tab.strays:
            self._unauthorised(stray)
        tab.strays.clear()
        return tab

    def _unauthorised(self, what: str) -> None:
        self._app.ledger.append(Fault(self._app.step, "harness_error", f"unauthorised access, blocked: {what}"))

    def _answer(self, asked: Asked) -> Answer | None:
        """What a request of the page gets; None where it leads out of the world, or away from a page that is in use."""
        origin = self._origin()
        if not asked.url.startswith(f"{origin}/"):
            self._unauthorised(f"{asked.method} {asked.url[:200]}")
            return None
        url = asked.url.removeprefix(origin)
        if asked.navigates and self._stub is not None:
            return Answer(200, _HEADERS, self._stub)
        if not (asked.navigates and self._actor and self._is_due(asked, url)):
            self._app.turn_away(asked.method, url, asked.kind.lower())
            return None if asked.navigates else Answer(404, _HEADERS)
        self._hops += 1
        if self._hops > HOPS:
            raise RuntimeError(f"more than {HOPS} redirects to {url[:200]!r}")
        form = dict(parse_qsl(asked.body, keep_blank_values=True))
        reply = self._app.answer(asked.method, url, form, self._actor, "redirect" if self._location else "direct")
        if isinstance(reply, Redirect):
            self._location = reply.location
            return Answer(303, {"Location": reply.location})
        self._served = reply
        return Answer(reply.request.status, _HEADERS, render(reply.page))

    def _is_due(self, asked: Asked, url: str) -> bool:
        """Whether this is the request that the action makes, or the next hop of its redirects."""
        if self._served is not None:
            return False
        if self._location:
            return asked.redirected and url == address(self._location)
        method, where = self._asking
        # A form's own values follow the question mark.
        there = url.startswith(where) if where.endswith("?") else url == where
        return not asked.redirected and asked.method == method and there


def _view(seen: Seen, limit: int) -> View:
    """A page as chromium.js read it; without marks."""
    elements = tuple(
        Element(index, role, label, value, target, form, choice, tuple(options), row)
        for index, role, label, value, target, form, choice, options, row in seen["elements"]
    )
    forms = tuple(
        Form(method, action, tuple(map(_field, fields)), submit) for method, action, fields, submit in seen["forms"]
    )
    return View(seen["text"][:limit], listing(elements), seen["notice"], elements, (), forms)


def _field(item: list[Any]) -> Field:
    kind, name, *rest = item
    if kind == "hidden":
        return Hidden(name, *rest)
    if kind == "text":
        return TextField(name, *rest)
    label, options, value = rest
    pairs = tuple((choice, text) for choice, text in options)
    return (Select if kind == "select" else Radio)(name, label, pairs, value)
