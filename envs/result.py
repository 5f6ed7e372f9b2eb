"""A page as the result of a tool: short JSON with the page's own headings, facts, rows and notice.

    {"notice": {"text": ..., "tool": "acknowledge_notice", "notice_id": 1},       where there is one
     "title": "Clinic sessions",
     "body": [{"heading": ...}, {"text": ..., "links": [...]}, {"banner": ..., "links": [...]},
              {"facts": {"Date": ..., "Place": ...}},
              {"columns": [...], "rows": [[...], ...]},
              {"form": "Confirm booking", "tool": "confirm_booking", "arguments": {...}, "choices": {...}}]}

Navigation is left out. A link is `{"text": ..., "tool": ..., <argument>: ...}`: the call that opens it; a form has the
arguments that are known and, for each that is to be chosen, the [value, text] pairs. Under a notice neither can be
used, and links are plain text. A watched value stands in the JSON as it is, so that the evidence can say where.
"""

from collections.abc import Callable
from json import JSONEncoder
from json.encoder import encode_basestring as encoded
from typing import Any, NamedTuple

from envos.envs.page import (
    TEXT_LIMIT,
    Banner,
    Cell,
    Facts,
    Form,
    Heading,
    Link,
    Mark,
    Modal,
    Node,
    Page,
    Paragraph,
    Table,
    Value,
    View,
)
from envos.envs.toolbox import Offer, Toolbox

LEFT_OUT = "left_out"
"""Says how many rows or choices a result has too many."""

Size = Callable[[str], int]
"""How much a text counts: its code points, or the tokens of a model's tokenizer."""


_encode = JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_PLAIN = ("title", "columns", "links", "arguments", "choices", "notice")
"""Parts of a result in which there is no watched value."""


class _Joined(NamedTuple):
    """Texts and values that stand in one JSON string, with a space between two."""

    parts: tuple[str | Value, ...]


def result(page: Page, box: Toolbox, limit: int = TEXT_LIMIT, size: Size = len) -> View:
    """The page as JSON text of at most `limit` code points (or what `size` counts), its notice, and its marks.

    Where it is too long, rows and choices are left out, the last of the longest list first, and their number is said;
    one that is too long even so is cut off. A value that JSON has to escape is not marked: it does not stand there as
    it is.
    """
    tree = _tree(page, box)
    writer = _written(tree)
    text = "".join(writer.pieces)
    lists = [
        (node, items)
        for node in tree["body"]
        for items in (node.get("rows"), *node.get("choices", {}).values())
        if items
    ]
    while size(text) > limit and any(items for _, items in lists):
        node, items = max(lists, key=lambda pair: len(pair[1]))
        dropped = max(1, len(items) // 8)
        del items[-dropped:]
        node[LEFT_OUT] = node.get(LEFT_OUT, 0) + dropped
        writer = _written(tree)
        text = "".join(writer.pieces)
    text = _cut(text, limit, size)
    marks = tuple(mark for mark in writer.marks if mark.offset + len(mark.value.text) <= len(text))
    notice = f"{page.modal.title}: {page.modal.text}" if page.modal else ""
    return View(text, "", notice, (), marks, ())


def _cut(text: str, limit: int, size: Size) -> str:
    """A beginning of the text that fits: the longest one where `size` grows with the text."""
    if size(text) <= limit:
        return text
    fits, over = 0, len(text)
    while over - fits > 1:
        middle = (fits + over) // 2
        if size(text[:middle]) <= limit:
            fits = middle
        else:
            over = middle
    return text[:fits]


def _written(tree: dict[str, Any]) -> "_Writer":
    writer = _Writer()
    writer.value(tree)
    return writer


def _tree(page: Page, box: Toolbox) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    if page.modal is not None:
        tree["notice"] = _notice(page.modal, box)
    tree["title"] = page.title
    live = page.modal is None
    tree["body"] = [found for node in page.body if (found := _node(node, box, live))]
    return tree


def _notice(modal: Modal, box: Toolbox) -> dict[str, Any]:
    offer = box.form(modal.form)
    return {"text": f"{modal.title}: {modal.text}", **(_call(offer) if offer else {})}


def _call(offer: Offer) -> dict[str, Any]:
    return {"tool": offer.tool.name, **offer.arguments}


def _node(node: Node, box: Toolbox, live: bool) -> dict[str, Any]:
    if isinstance(node, Table):
        rows = [[_cell(cell, box, live) for cell in row] for row in node.rows]
        table = {"columns": list(node.columns), "rows": rows}
        return table if rows else {**table, "empty": node.empty}
    if isinstance(node, Facts):
        return {"facts": _facts(node, box, live)}
    if isinstance(node, Paragraph):
        if len(node.parts) == 1 and isinstance(node.parts[0], Link):
            only = _cell(node.parts[0], box, live)
            return only if isinstance(only, dict) else {"text": only}
        return _parts("text", node.parts, box, live)
    if isinstance(node, Banner):
        return _parts("banner", node.parts, box, live)
    if isinstance(node, Form):
        return _form(node, box) if live else {}
    assert isinstance(node, Heading)  # noqa: S101 - the kinds of nodes are all there
    return {"heading": node.text}


def _cell(cell: Cell, box: Toolbox, live: bool) -> Any:
    """A cell: its text, and for a link the call that opens it."""
    if isinstance(cell, Link):
        offer = box.link(cell.href) if live else None
        return {"text": cell.label, **_call(offer)} if offer else cell.label
    return _Joined((cell,)) if isinstance(cell, Value) else cell


def _facts(node: Facts, box: Toolbox, live: bool) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    for label, cell in node.items:
        name, number = label, 1
        while name in facts:
            number += 1
            name = f"{label} {number}"
        facts[name] = _cell(cell, box, live)
    return facts


def _parts(kind: str, parts: tuple[Cell, ...], box: Toolbox, live: bool) -> dict[str, Any]:
    """Running text, with its links beside it."""
    found: dict[str, Any] = {kind: _Joined(tuple(part.label if isinstance(part, Link) else part for part in parts))}
    links = [seen for part in parts if isinstance(part, Link) and isinstance(seen := _cell(part, box, live), dict)]
    return {**found, "links": links} if links else found


def _form(form: Form, box: Toolbox) -> dict[str, Any]:
    offer = box.form(form)
    if offer is None:
        return {}
    found: dict[str, Any] = {"form": form.submit, "tool": offer.tool.name, "arguments": dict(offer.arguments)}
    choices = {name: [list(pair) for pair in pairs] for name, pairs in offer.choices.items() if pairs}
    return {**found, "choices": choices} if choices else found


_HOLDERS = (_Joined, dict, list)


class _Writer:
    """Writes JSON and keeps the offsets of watched values."""

    __slots__ = ("length", "marks", "pieces")

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.marks: list[Mark] = []
        self.length = 0

    def put(self, piece: str) -> None:
        self.pieces.append(piece)
        self.length += len(piece)

    def value(self, item: Any) -> None:
        """Write one value; what can hold no watched value goes to the encoder as a whole, which is faster by far."""
        if isinstance(item, str):
            self.put(encoded(item))
        elif isinstance(item, _Joined):
            self.joined(item)
        elif isinstance(item, dict):
            before = "{"
            for name, inner in item.items():
                self.put(f"{before}{encoded(name)}:")
                if name in _PLAIN:
                    self.put(_encode(inner))
                else:
                    self.value(inner)
                before = ","
            self.put("}")
        elif isinstance(item, list) and any(type(inner) in _HOLDERS for inner in item):
            before = "["
            for inner in item:
                self.put(before)
                # In a row, a dict is a link.
                if type(inner) is list and _Joined not in map(type, inner):
                    self.put(_encode(inner))
                else:
                    self.value(inner)
                before = ","
            self.put("]")
        else:
            self.put(_encode(item))

    def joined(self, item: _Joined) -> None:
        """Write a string of several parts."""
        before = '"'
        for part in item.parts:
            self.put(before)
            shown = part.text if isinstance(part, Value) else part
            escaped = encoded(shown)[1:-1]
            if isinstance(part, Value) and escaped == shown:
                self.marks.append(Mark(part, self.length))
            self.put(escaped)
            before = " "
        self.put('"' if item.parts else '""')
