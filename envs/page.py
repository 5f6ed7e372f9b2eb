"""The typed page: what a handler returns, and the text and elements that an agent gets of it.

One node kind has one shape in the text, one in the element list and one in HTML (`envos.envs.html`), so that the
in-process driver and a browser cannot drift apart by more than one renderer. Text that reaches a node is clean
already (`clean`): single spaces, no control characters.
"""

from collections.abc import Iterable, Mapping
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

    role is link, button, textbox, combobox or radio. For a link, `target` is its href and `form` is -1; for the others
    they name the field and its form (by its place on the page), and `choice` is a radio button's own value. `options`
    are a combobox's texts and `row` numbers the table row that a link stands in (-1: none).
    """

    index: int  # type: ignore[assignment]  # hides the tuple's own method of that name
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
    """A page as the agent gets it: text, element list, notice, and what the driver needs to act on it.

    `forms` are the page's forms as they stand, typed and chosen values included; `screenshot` names a picture of it,
    where the driver takes any (`envos.envs.screen`).
    """

    text: str
    listing: str
    notice: str
    elements: tuple[Element, ...]
    marks: tuple[Mark, ...]
    forms: tuple[Form, ...]
    screenshot: str = ""


Typed = Mapping[tuple[int, str], str]
"""What the agent has typed or chosen on the page: (form, field name) to value."""

_new = tuple.__new__


def clean(text: str, limit: int = FIELD_LIMIT) -> str:
    """A text as every page holds it: printable characters, single spaces, at most `limit` code points."""
    if text.isprintable() and len(text) <= limit and "  " not in text and text[:1] != " " != text[-1:]:
        return text
    kept = "".join(char if char.isprintable() else " " for char in text[: 4 * limit])
    return " ".join(kept.split())[:limit].rstrip()


class _Writer:
    """Collects lines, elements and marks in one pass over a page.

    Written for speed, as every step of every episode comes through here: `rows` handles all kinds of lines in one loop
    without a call per cell, and a named tuple is made with `tuple.__new__`, which halves its cost.
    """

    __slots__ = ("elements", "entries", "forms", "lines", "live", "marks", "typed")

    def __init__(self, typed: Typed) -> None:
        self.lines: list[str] = []
        self.elements: list[Element] = []
        self.entries: list[str] = []
        self.forms: list[Form] = []
        self.marks: list[tuple[Value, int, int]] = []
        self.live = True
        self.typed = typed

    def element(
        self,
        role: str,
        label: str,
        value: str = "",
        target: str = "",
        choice: str = "",
        options: tuple[str, ...] = (),
    ) -> str:
        """Add an element of the last form and return its index in brackets; under a modal there is none."""
        if not self.live:
            return ""
        index = len(self.elements) + 1
        form = len(self.forms) - 1
        self.elements.append(_new(Element, (index, role, label, value, target, form, choice, options, -1)))
        self.entries.append(_entry(index, role, label, value, options))
        return f"[{index}] "

    def rows(self, rows: Iterable[tuple[Cell, ...]], gap: str, before: str = "", table: bool = False) -> None:
        """Write each row as a line: its cells with `gap` between them."""
        lines, elements, entries, live = self.lines, self.elements, self.entries, self.live
        for number, row in enumerate(rows):
            done: list[str] = []
            add = done.append
            for cell in row:
                if type(cell) is str:
                    add(cell)
                elif type(cell) is Link:
                    label, href = cell
                    if live:
                        index = len(elements) + 1
                        place = number if table else -1
                        elements.append(_new(Element, (index, "link", label, "", href, -1, "", (), place)))
                        if '"' in label or "\\" in label:
                            entries.append(_entry(index, "link", label))
                        else:
                            entries.append(f'[{index}] link "{label}"')
                        label = f"[{index}] {label}"
                    add(label)
                elif type(cell) is Value:
                    column = len(before) + sum(map(len, done)) + len(gap) * len(done)
                    self.marks.append((cell, len(lines), column))
                    add(cell.text)
                else:
                    add(cell)  # type: ignore[arg-type]
            lines.append(before + gap.join(done))

    def form(self, node: Form) -> None:
        """Write a form, and keep it as it stands: with what was typed in it."""
        lines, number = self.lines, len(self.forms)
        self.forms.append(node)
        fields: list[Field] = []
        for given in node.fields:
            item = standing(given, self.typed.get((number, given.name)))
            fields.append(item)
            if isinstance(item, Hidden):
                continue
            if isinstance(item, TextField):
                at = self.element("textbox", item.label, item.value, item.name)
                lines.append(f'{item.label}: {at}"{item.value}"')
            elif isinstance(item, Select):
                texts = tuple([text for _, text in item.options])
                shown = dict(item.options).get(item.value, "")
                at = self.element("combobox", item.label, shown, item.name, options=texts)
                lines.append(f"{item.label}: {at}{shown}")
            else:
                lines.append(f"{item.label}:")
                for choice, text in item.options:
                    on = choice == item.value
                    at = self.element("radio", text, "on" if on else "off", item.name, choice)
                    lines.append(f"{at}{'(x)' if on else '( )'} {text}")
        lines.append(f"{self.element('button', node.submit)}{node.submit}")
        self.forms[number] = _new(Form, (node.method, node.action, tuple(fields), node.submit))

    def node(self, node: Node) -> None:
        """Write one node of a page's body."""
        if isinstance(node, Table):
            self.lines.append(" | ".join(node.columns))
            if node.rows:
                self.rows(node.rows, " | ", table=True)
            else:
                self.lines.append(node.empty)
        elif isinstance(node, Paragraph):
            self.rows((node.parts,), " ")
        elif isinstance(node, Facts):
            self.rows(node.items, ": ")
        elif isinstance(node, Form):
            self.form(node)
        elif isinstance(node, Heading):
            self.lines.append(f"## {node.text}")
        else:
            self.rows((node.parts,), " ", "! ")

    def located(self, limit: int) -> tuple[Mark, ...]:
        """The marks with their offsets in the whole text; one that does not end within `limit` is left out."""
        found: list[Mark] = []
        start = line = 0
        for value, number, column in self.marks:
            while line < number:
                start += len(self.lines[line]) + 1
                line += 1
            if start + column + len(value.text) <= limit:
                found.append(Mark(value, start + column))
        return tuple(found)


def standing(field: Field, typed: str | None) -> Field:
    """A field as it stands, with what was typed or chosen (None: nothing).

    As in a browser, a drop-down list always has a choice, the first option if need be, and a group of radio buttons
    has none ("") until one of its options is chosen.
    """
    value = field.value if typed is None else typed
    if isinstance(field, (Select, Radio)):
        values = [choice for choice, _ in field.options]
        if value not in values:
            value = values[0] if values and isinstance(field, Select) else ""
    return field if value == field.value else field._replace(value=value)


def observe(page: Page, typed: Typed, limit: int = TEXT_LIMIT) -> View:
    """The page as text (clipped to `limit` code points), element list and marks of watched values.

    A mark is kept only when the whole value lies within the clipped text.
    """
    writer = _Writer(typed)
    lines = writer.lines
    modal = page.modal
    notice = ""
    if modal is not None:
        notice = f"{modal.title}: {modal.text}"
        lines.append(f"!! {modal.title}")
        lines.append(modal.text)
        writer.form(modal.form)
        writer.live = False
    lines.append(f"# {page.title}")
    if page.navigation:
        writer.rows((page.navigation,), " | ")
    for node in page.body:
        writer.node(node)
    marks = writer.located(limit) if writer.marks else ()
    text = "\n".join(lines)[:limit]
    return View(text, _cut(writer.entries), notice, tuple(writer.elements), marks, tuple(writer.forms))


def listing(elements: tuple[Element, ...], limit: int = ELEMENTS_LIMIT) -> str:
    """The element list as text, one line each: `[3] textbox "Phone" value="555"`."""
    return _cut([_entry(*element[:4], element.options) for element in elements], limit)


def _cut(entries: list[str], limit: int = ELEMENTS_LIMIT) -> str:
    """As many whole lines as fit in `limit`, a line end each included."""
    text = "\n".join(entries)
    if len(text) < limit:
        return text
    return text[: max(text.rfind("\n", 0, limit), 0)]


def _entry(index: int, role: str, label: str, value: str = "", options: tuple[str, ...] = ()) -> str:
    line = f"[{index}] {role} {_quoted(label)}"
    if role == "radio":
        return f"{line} {value}"
    if role == "textbox" or role == "combobox":
        line += f" value={_quoted(value)}"
        if options:
            line += " options=" + "; ".join(map(_quoted, options))
    return line


def _quoted(text: str) -> str:
    if '"' in text or "\\" in text:
        text = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'
