"""HTML mode: every page is rendered to HTML, parsed again, and read from the document, as a browser driver does.

`read` is one walk over the document in its own order. It uses nothing but child elements, text nodes, tag names and
attributes, so that the same few lines in another language read the same from a browser's own document:

    h1, h2, p       a line: "# ", "## " (in a dialog "!! ") or nothing (in a status "! "), then the text with its links
    tr, ul          a line: the texts of the cells with " | " between them
    div             a line: a label and a value with ": " between them
    label           a line: a label and a text field or drop-down list with ": " between them
    fieldset        a line for the legend, and one for each radio button
    button          a line
    input           no line: a hidden value (all others are inside a label)
    anything else   no line of its own: its children are walked

A link or a control counts as an element unless something around it is inert.
"""

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

from envos.envs.drivers.inprocess import InProcess
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
from envos.errors import UsageError

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser, LexborNode


class Html(InProcess):
    """Talks to the application by function call and reads each page from its HTML; needs selectolax."""

    __slots__ = ()

    def __init__(self, limit: int = TEXT_LIMIT) -> None:
        _parser()
        super().__init__(limit)

    def _look(self) -> View:
        page, typed, limit = self._reply.page, self._typed, self._limit
        view = read(render(page, typed), limit)
        # HTML does not tell a watched value from other text. The typed page does, and its offsets hold here because
        # the two texts are the same; were they not, evidence would be wrong, so that is a fault and never passed over.
        direct = observe(page, typed, limit)
        if view.text != direct.text:
            raise RuntimeError(f"the HTML of {self._reply.url!r} does not read as the page that it shows")
        return view._replace(marks=direct.marks)


def read(document: str, limit: int = TEXT_LIMIT) -> View:
    """What `observe` says of a page, read from the page's HTML; without marks, which HTML does not have.

    Raises UsageError when selectolax is not installed.
    """
    walk = _Walk()
    tree = _parser()(document)
    if tree.body is not None:
        walk.blocks(tree.body)
    elements = tuple(walk.elements)
    text = "\n".join(walk.lines)[:limit]
    return View(text, listing(elements), walk.notice, elements, (), tuple(walk.forms))


@cache
def _parser() -> "Callable[[str], LexborHTMLParser]":
    try:
        from selectolax.lexbor import LexborHTMLParser
    except ImportError as error:
        raise UsageError('HTML mode needs selectolax: pip install "envos[html]"') from error
    return LexborHTMLParser


class _Walk:
    """One walk over a document: what was found so far, the fields of the form it is in, and whether that is inert."""

    __slots__ = ("elements", "fields", "forms", "lines", "live", "notice", "submit")

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.elements: list[Element] = []
        self.forms: list[Form] = []
        self.fields: list[Field] = []
        self.submit = ""
        self.notice = ""
        self.live = True

    def blocks(self, parent: "LexborNode") -> None:
        """Write the lines of an element's children."""
        lines = self.lines
        for place, node in enumerate(parent.iter()):
            tag = node.tag
            if tag == "tr":
                lines.append(" | ".join([self.inline(cell, place) for cell in node.iter()]))
            elif tag == "ul":
                lines.append(" | ".join([self.inline(cell) for cell in node.iter()]))
            elif tag == "div":
                lines.append(": ".join([self.inline(cell) for cell in node.iter()]))
            elif tag == "p":
                prefix = "! " if node.attributes.get("role") == "status" else ""
                lines.append(prefix + self.inline(node))
            elif tag == "h1":
                lines.append("# " + node.text())
            elif tag == "h2":
                lines.append(("!! " if parent.tag == "dialog" else "## ") + node.text())
            elif tag == "input":
                self.fields.append(Hidden(_attribute(node, "name"), _attribute(node, "value")))
            elif tag == "label":
                self.field(node)
            elif tag == "fieldset":
                self.group(node)
            elif tag == "button":
                self.submit = node.text()
                lines.append(self.element("button", self.submit) + self.submit)
            elif tag == "form":
                self.form(node)
            elif tag == "dialog":
                self.notice = ": ".join([part.text() for part in node.iter() if part.tag in ("h2", "p")])
                self.blocks(node)
            else:
                live = self.live
                self.live = live and "inert" not in node.attributes
                self.blocks(node)
                self.live = live

    def inline(self, parent: "LexborNode", row: int = -1) -> str:
        """The text of an element, with the index of each link in it."""
        text = ""
        node = parent.first_child
        while node is not None:
            piece = node.text_content
            if piece is None:
                label = node.text()
                piece = self.element("link", label, target=_attribute(node, "href"), row=row) + label
            text += piece
            node = node.next
        return text

    def form(self, node: "LexborNode") -> None:
        """Walk a form and keep it as it stands."""
        self.fields = []
        self.blocks(node)
        method, action = _attribute(node, "method"), _attribute(node, "action")
        self.forms.append(Form(method, action, tuple(self.fields), self.submit))

    def field(self, node: "LexborNode") -> None:
        """Write a text field or a drop-down list: its label's text, then the control."""
        caption, control = node.iter()
        label, name = caption.text(), _attribute(control, "name")
        if control.tag == "input":
            value = _attribute(control, "value")
            self.fields.append(TextField(name, label, value))
            self.lines.append(f'{label}: {self.element("textbox", label, value, name)}"{value}"')
            return
        options: list[tuple[str, str]] = []
        value = shown = ""
        for option in control.iter():
            choice, text = _attribute(option, "value"), option.text()
            # Without a selected one a browser shows the first option, of several selected ones the last.
            if not options or "selected" in option.attributes:
                value, shown = choice, text
            options.append((choice, text))
        self.fields.append(Select(name, label, tuple(options), value))
        texts = tuple([text for _, text in options])
        self.lines.append(f"{label}: {self.element('combobox', label, shown, name, options=texts)}{shown}")

    def group(self, node: "LexborNode") -> None:
        """Write a group of radio buttons: the legend, then a line for each."""
        legend, *labels = node.iter()
        label, name = legend.text(), _attribute(node, "name")
        self.lines.append(f"{label}:")
        options: list[tuple[str, str]] = []
        value = ""
        for item in labels:
            control, caption = item.iter()
            choice, text = _attribute(control, "value"), caption.text()
            on = "checked" in control.attributes
            if on:
                value = choice
            options.append((choice, text))
            at = self.element("radio", text, "on" if on else "off", name, choice)
            self.lines.append(f"{at}{'(x)' if on else '( )'} {text}")
        self.fields.append(Radio(name, label, tuple(options), value))

    def element(
        self,
        role: str,
        label: str,
        value: str = "",
        target: str = "",
        choice: str = "",
        options: tuple[str, ...] = (),
        row: int = -1,
    ) -> str:
        """Add an element and return its index in brackets; where the page is inert there is none."""
        if not self.live:
            return ""
        index = len(self.elements) + 1
        form = -1 if role == "link" else len(self.forms)
        self.elements.append(Element(index, role, label, value, target, form, choice, options, row))
        return f"[{index}] "


def _attribute(node: "LexborNode", name: str) -> str:
    # An empty attribute is None in selectolax.
    return node.attributes.get(name) or ""
