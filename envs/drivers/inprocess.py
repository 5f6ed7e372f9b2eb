"""The default driver: pages straight from the application, as text and elements, without a browser or a socket."""

from typing import Any, Protocol

from envos.envs.address import address, form_query
from envos.envs.app import Application, Reply
from envos.envs.evidence import Request
from envos.envs.page import (
    FIELD_LIMIT,
    TEXT_LIMIT,
    Element,
    Form,
    Radio,
    Select,
    View,
    clean,
    observe,
)
from envos.envs.screen import Screen

_URL_LIMIT = 300


class Driver(Protocol):
    """How an agent's actions reach the application and what it sees of it.

    Every operation returns "" or one error line for the agent; none raises for anything that an agent can send.
    `screen` keeps the pictures that its views name; None where there are none.
    """

    screen: Screen | None

    def open(self, application: Application) -> None:
        """Show the first page of a new episode; the harness asks for it."""

    def view(self) -> View:
        """The page as it stands, with what was typed."""

    def url(self) -> str:
        """Where the page stands."""

    def request(self) -> Request:
        """The access-log line of the page."""

    def click(self, index: str) -> str:
        """Follow a link, press a button or choose a radio button."""

    def fill(self, index: str, text: str) -> str:
        """Type into a text field, replacing what it holds."""

    def select(self, index: str, option: str) -> str:
        """Choose an option of a drop-down list by its text."""

    def goto(self, path: str) -> str:
        """Ask for a path of this world."""

    def back(self) -> str:
        """Ask for the page before this one again."""

    def snapshot(self) -> Any:
        """What `restore` needs."""

    def restore(self, snapshot: Any, application: Application) -> None:
        """Go back to a snapshot, on this application."""

    def close(self) -> None:
        """Free what the driver holds."""


class InProcess:
    """Talks to the application by function call; one request is one page."""

    __slots__ = ("_app", "_history", "_limit", "_reply", "_typed", "_view")

    screen: Screen | None = None

    def __init__(self, limit: int = TEXT_LIMIT) -> None:
        self._limit = limit
        self._app: Application
        self._reply: Reply
        self._history: list[str] = []
        self._typed: dict[tuple[int, str], str] = {}
        self._view: View | None = None

    def open(self, application: Application) -> None:
        """Show the world's home page; the harness asks for it, so it arms nothing."""
        self._app = application
        self._history = []
        self._show(application.ask("GET", application.world.home, actor="harness"))

    def view(self) -> View:
        """The page as it stands, with what was typed."""
        if self._view is None:
            self._view = self._look()
        return self._view

    def url(self) -> str:
        """Where the page stands."""
        return self._reply.url

    def request(self) -> Request:
        """The access-log line of the page."""
        return self._reply.request

    def click(self, index: str) -> str:
        """Follow a link, press a button or choose a radio button."""
        element, error = self._element(index, ("link", "button", "radio"), "clicked")
        if element is None:
            return error
        if element.role == "link":
            self._show(self._app.ask("GET", element.target))
        elif element.role == "button":
            self._submit(element.form)
        else:
            self._type(element, element.choice)
        return ""

    def fill(self, index: str, text: str) -> str:
        """Type into a text field, replacing what it holds."""
        element, error = self._element(index, ("textbox",), "filled")
        if element is None:
            return error
        self._type(element, clean(text, FIELD_LIMIT))
        return ""

    def select(self, index: str, option: str) -> str:
        """Choose an option of a drop-down list by its text."""
        element, error = self._element(index, ("combobox",), "selected from")
        if element is None:
            return error
        wanted = clean(option)
        if wanted not in element.options:
            shown = "; ".join(element.options)
            return f"element {element.index} has no option {clean(option, 60)!r}; options: {shown[:400]}"
        self._choose(element, element.options.index(wanted))
        return ""

    def goto(self, path: str) -> str:
        """Ask for a path of this world."""
        url, error = self._address(path)
        if not error:
            self._show(self._app.ask("GET", url))
        return error

    def back(self) -> str:
        """Ask for the page before this one again."""
        url, error = self._before()
        if not error:
            self._show(self._app.ask("GET", url))
        return error

    def snapshot(self) -> Any:
        """What `restore` needs."""
        return self._reply, tuple(self._history), dict(self._typed)

    def restore(self, snapshot: Any, application: Application) -> None:
        """Go back to a snapshot, on this application."""
        self._app = application
        reply, history, typed = snapshot
        self._reply, self._history, self._typed = reply, list(history), dict(typed)
        self._view = None

    def close(self) -> None:
        """Nothing is held."""

    def _look(self) -> View:
        """Read the page; a driver that gets it in another way overrides this and nothing else."""
        return observe(self._reply.page, self._typed, self._limit)

    def _element(self, index: str, roles: tuple[str, ...], done: str) -> tuple[Element | None, str]:
        elements = self.view().elements
        if not (index.isascii() and index.isdecimal() and len(index) < 6 and 0 < int(index) <= len(elements)):
            return None, f"there is no element {clean(index, 20)!r} on this page; it has 1 to {len(elements)}"
        element = elements[int(index) - 1]
        if element.role not in roles:
            return None, f"element {element.index} is a {element.role} and cannot be {done}"
        return element, ""

    def _address(self, path: str) -> tuple[str, str]:
        """The address that a path stands for, and an error line where it is none of this application."""
        url = ""
        if path.startswith("/") and not path.startswith("//") and len(path) <= _URL_LIMIT and path.isprintable():
            url = address(path)
        if not url or len(url) > _URL_LIMIT:
            return "", f'only this application\'s own paths can be opened, such as "/"; got {clean(path, 80)!r}'
        return url, ""

    def _before(self) -> tuple[str, str]:
        """The address of the page before this one, which is then the last in the history no more; or an error line."""
        if len(self._history) < 2:
            return "", "there is no page to go back to"
        del self._history[-1]
        return self._history.pop(), ""

    def _choose(self, element: Element, place: int) -> None:
        for field in self.view().forms[element.form].fields:
            if isinstance(field, Select) and field.name == element.target:
                self._type(element, field.options[place][0])

    def _type(self, element: Element, value: str) -> None:
        self._typed[element.form, element.target] = value
        self._view = None

    def _submit(self, number: int) -> None:
        form: Form = self.view().forms[number]
        # As in a browser, a group of radio buttons with nothing chosen sends nothing; nor does an empty list.
        sent = {
            item.name: item.value
            for item in form.fields
            if not isinstance(item, (Select, Radio)) or any(item.value == value for value, _ in item.options)
        }
        if form.method == "get":
            self._show(self._app.ask("GET", f"{form.action}?{form_query(sent)}"))
        else:
            self._show(self._app.ask("POST", form.action, sent))

    def _show(self, reply: Reply) -> None:
        self._reply = reply
        self._typed = {}
        self._view = None
        if not self._history or self._history[-1] != reply.url:
            self._history.append(reply.url)
