"""The typed page: what a handler returns, and the text and elements that an agent gets of it.

One node kind has one shape in the text, one in the element list and one in HTML (`envos.envs.html`), so that the
in-process driver and a browser cannot drift apart by more than one renderer. Text that reaches a node is clean
already (`clean`): single spaces, no control characters.
"""

from collections.abc import Mapping
from typing import NamedTuple

TEXT_LIMIT = 4000
"""Code points of page text that an observation holds."""
ELEMENTS_LIMIT = 6000
"""Code points of the element list; whole lines are cut."""
FIELD_LIMIT = 200
"""Code points that a text field keeps."""


class Value(NamedTuple):
    """A watched fact as shown: its text and the row and column that it was read from."""

    text: str
    table: str
    key: int
    column: str


class Link(NamedTuple):
    """A link that asks for `href` with GET."""

    label: str
    href: str


Cell = str | Link | Value


class Heading(NamedTuple):
    """A section heading."""

    text: str


class Paragraph(NamedTuple):
    """Running text; the parts are set with one space between them."""

    parts: tuple[Cell, ...]


class Banner(NamedTuple):
    """A line that stands out: the result of the last operation, or a reminder."""

    parts: tuple[Cell, ...]


class Table(NamedTuple):
    """A table: column names and rows of cells; `empty` is said where there is no row."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    empty: str = "Nothing to show."


class Facts(NamedTuple):
    """A list of label and value pairs."""

    items: tuple[tuple[str, Cell], ...]


class TextField(NamedTuple):
    """A one-line text input."""

    name: str
    label: str
    value: str = ""


class Select(NamedTuple):
    """A drop-down list; `options` are (value, text) pairs, `value` is the chosen one."""

    name: str
    label: str
    options: tuple[tuple[str, str], ...]
    value: str


class Radio(NamedTuple):
    """A group of radio buttons; `options` are (value, text) pairs, `value` the chosen one or ""."""

    name: str
    label: str
    options: tuple[tuple[str, str], ...]
    value: str = ""


class Hidden(NamedTuple):
    """A form value that is sent and not shown."""

    name: str
    value: str


Field = TextField | Select | Radio | Hidden


class Form(NamedTuple):
    """A form and its one button."""

    method: str
    action: str
    fields: tuple[Field, ...]
    submit: str


Node = Heading | Paragraph | Banner | Table | Facts | Form


class Modal(NamedTuple):
    """A notice that must be acknowledged before anything else on the page can be used."""

    title: str
    text: str
    form: Form


class Page(NamedTuple):
    """One page: title, navigation, body, and at most one modal notice on top."""

    title: str
    body: tuple[Node, ...]
    navigation: tuple[Link, ...] = ()
    modal: Modal | None = None


class Element(NamedTuple):
    """One thing that can be acted on.

    role is link, button, textbox, combobox or radio. For a link, `target` is its href; for the others it names the
    form (by its place on the page) and the field, and `choice` is a radio button's own value. `options` are a combobox's
    texts and `row` numbers the table row that a link stands in (-1: none).
    """

    index: int
    role: str
    label: str
    value: str
    target: str
    form: int
    choice: str
    options: tuple[str, ...]
    row: int


class Mark(NamedTuple):
    """A watched value in the page text, with its offset."""

    value: Value
    offset: int


class View(NamedTuple):
    """A page as the agent gets it: text, element list, notice, and what the driver needs to act on it."""

    text: str
    listing: str
    notice: str
    elements: tuple[Element, ...]
    marks: tuple[Mark, ...]
    forms: tuple[Form, ...]


Typed = Mapping[tuple[int, str], str]
"""What the agent has typed or chosen on the page: (form, field name) to value."""


def clean(text: str, limit: int = FIELD_LIMIT) -> str:
    """A text as every page holds it: printable characters, single spaces, at most `limit` code points."""
    kept = "".join(char if char.isprintable() else " " for char in text[: 4 * limit])
    return " ".join(kept.split())[:limit]


class _Writer:
    """Collects lines, elements and marks in one pass over a page."""

    __slots__ = ("elements", "forms", "length", "lines", "live", "marks", "row", "typed")

    def __init__(self, typed: Typed) -> None:
        self.lines: list[str] = []
        self.length = 0
        self.elements: list[Element] = []
        self.forms: list[Form] = []
        self.marks: list[Mark] = []
        self.live = True
        self.row = -1
        self.typed = typed

    def line(self, text: str) -> None:
        self.lines.append(text)
        self.length += len(text) + 1

    def element(
        self,
        role: str,
        label: str,
        value: str = "",
        target: str = "",
        choice: str = "",
        options: tuple[str, ...] = (),
    ) -> str:
        """Add an element and return its index in brackets; under a modal there is none."""
        if not self.live:
            return ""
        index = len(self.elements) + 1
        self.elements.append(
            Element(index, role, label, value, target, len(self.forms) - 1, choice, options, self.row)
        )
        return f"[{index}] "

    def cells(self, cells: tuple[Cell, ...], gap: str, before: str = "") -> None:
        """Write one line of cells with `gap` between them."""
        done: list[str] = []
        for cell in cells:
            kind = type(cell)
            if kind is str:
                done.append(cell)  # type: ignore[arg-type]
            elif kind is Link:
                done.append(self.element("link", cell[0], target=cell[1]) + cell[0])
            else:
                offset = self.length + len(before) + sum(map(len, done)) + len(gap) * len(done)
                self.marks.append(Mark(cell, offset))  # type: ignore[arg-type]
                done.append(cell[0])
        self.line(before + gap.join(done))

    def table(self, node: Table) -> None:
        self.line(" | ".join(node.columns))
        for number, row in enumerate(node.rows):
            self.row = number
            self.cells(row, " | ")
        self.row = -1
        if not node.rows:
            self.line(node.empty)

    def form(self, node: Form) -> None:
        self.forms.append(node)
        number = len(self.forms) - 1
        for item in node.fields:
            if type(item) is Hidden:
                continue
            value = self.typed.get((number, item.name), item.value)
            if type(item) is TextField:
                at = self.element("textbox", item.label, value, item.name)
                self.line(f'{item.label}: {at}"{value}"')
            elif type(item) is Select:
                texts = dict(item.options)
                shown = texts.get(value, "")
                at = self.element(
                    "combobox", item.label, shown, item.name, options=tuple(text for _, text in item.options)
                )
                self.line(f"{item.label}: {at}{shown}")
            elif type(item) is Radio:
                self.line(f"{item.label}:")
                for choice, text in item.options:
                    mark = "(x)" if choice == value else "( )"
                    at = self.element("radio", text, "on" if choice == value else "off", item.name, choice)
                    self.line(f"{at}{mark} {text}")
        self.line(f"{self.element('button', node.submit)}{node.submit}")

    def node(self, node: Node) -> None:
        kind = type(node)
        if kind is Table:
            self.table(node)  # type: ignore[arg-type]
        elif kind is Paragraph:
            self.cells(node.parts, " ")  # type: ignore[union-attr]
        elif kind is Facts:
            for label, cell in node.items:  # type: ignore[union-attr]
                self.cells((cell,), "", f"{label}: ")
        elif kind is Form:
            self.form(node)  # type: ignore[arg-type]
        elif kind is Heading:
            self.line(f"## {node.text}")  # type: ignore[union-attr]
        else:
            self.cells(node.parts, " ", "! ")  # type: ignore[union-attr]


def observe(page: Page, typed: Typed, limit: int = TEXT_LIMIT) -> View:
    """The page as text (clipped to `limit` code points), element list and marks of watched values.

    A mark is kept only when the whole value lies within the clipped text.
    """
    writer = _Writer(typed)
    modal = page.modal
    notice = ""
    if modal is not None:
        notice = f"{modal.title}: {modal.text}"
        writer.line(f"!! {modal.title}")
        writer.line(modal.text)
        writer.form(modal.form)
        writer.live = False
    writer.line(f"# {page.title}")
    if page.navigation:
        writer.cells(page.navigation, " | ")
    for node in page.body:
        writer.node(node)
    text = "\n".join(writer.lines)
    if len(text) > limit:
        text = text[:limit]
        marks = tuple(mark for mark in writer.marks if mark.offset + len(mark.value.text) <= limit)
    else:
        marks = tuple(writer.marks)
    elements = tuple(writer.elements)
    return View(text, listing(elements), notice, elements, marks, tuple(writer.forms))


def listing(elements: tuple[Element, ...], limit: int = ELEMENTS_LIMIT) -> str:
    """The element list as text, one line each: `[3] textbox "Phone" value="555"`."""
    lines: list[str] = []
    room = limit
    for element in elements:
        line = f"[{element[0]}] {element[1]} {_quoted(element[2])}"
        role = element[1]
        if role == "radio":
            line += f" {element[3]}"
        elif role == "textbox" or role == "combobox":
            line += f" value={_quoted(element[3])}"
            if element[7]:
                line += " options=" + "; ".join(map(_quoted, element[7]))
        room -= len(line) + 1
        if room < 0:
            break
        lines.append(line)
    return "\n".join(lines)


def _quoted(text: str) -> str:
    if '"' in text or "\\" in text:
        text = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'
