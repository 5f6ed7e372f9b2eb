"""Pages as HTML: what is rendered reads back as what `observe` says, and no text becomes markup."""

import re
import sys
from collections import Counter
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from selectolax.lexbor import LexborHTMLParser

from envos.envs.app import Application, Reply
from envos.envs.database import Database
from envos.envs.drivers import html as html_driver
from envos.envs.drivers.html import Html, read
from envos.envs.drivers.inprocess import InProcess
from envos.envs.evidence import Delivered, Frame, Ledger, Request
from envos.envs.html import STYLE, render
from envos.envs.instance import generate, plan
from envos.envs.page import (
    Banner,
    Cell,
    Facts,
    Field,
    Form,
    Heading,
    Hidden,
    Link,
    Modal,
    Node,
    Page,
    Paragraph,
    Radio,
    Select,
    Table,
    TextField,
    Typed,
    Value,
    clean,
    observe,
)
from envos.envs.perturbation import OneShot
from envos.envs.scenario import load_phenomenon, load_world, scenario
from envos.errors import UsageError

NASTY = (
    "<script>alert(1)</script>",
    "</td></tr></table><h1>x</h1>",
    "</style></title></select></option></button></form>",
    "<img src=x onerror=alert(1)>",
    '" autofocus onfocus="alert(1)',
    "' inert '",
    "<!--",
    "]]>",
    "&amp;",
    "&lt;b&gt;",
    "&copy=1",
    "&#0;&#x27;",
    "&",
    "a  b",
    "\u202eabc\u202c",
    "שלום",
    "مرحبا",
    "e\u0301\u0308",
    "\U0001f469\u200d\U0001f4bb",
    "\ufeff",
    "\u00ad",
    "\\",
    '"',
    " | ",
    "[1] ",
    "## ",
    "\r\n",
    "\x00",
)
TEXT = st.lists(st.sampled_from(NASTY) | st.text(max_size=6), max_size=3).map("".join).map(clean)
NAME = st.sampled_from(("q", "place", "a b", "x[]", '"', "&amp;", "é", "<b>"))


def _choice(options: tuple[tuple[str, str], ...]) -> st.SearchStrategy[str]:
    values = [value for value, _ in options]
    return TEXT | st.sampled_from(values) if values else TEXT


LINK = st.builds(Link, TEXT, TEXT | st.sampled_from(("/a?b=1&c=2&copy=3", "/a?b=%20", "")))
CELL: st.SearchStrategy[Cell] = TEXT | LINK | st.builds(Value, TEXT, st.just("fact"), st.integers(1, 9), st.just("c"))
CELLS = st.lists(CELL, max_size=4).map(tuple)
OPTIONS = st.lists(st.tuples(TEXT, TEXT), max_size=4, unique_by=lambda option: option[0]).map(tuple)
FIELD: st.SearchStrategy[Field] = (
    st.builds(Hidden, NAME, TEXT)
    | st.builds(TextField, NAME, TEXT, TEXT)
    | OPTIONS.flatmap(lambda options: st.builds(Select, NAME, TEXT, st.just(options), _choice(options)))
    | OPTIONS.flatmap(lambda options: st.builds(Radio, NAME, TEXT, st.just(options), _choice(options)))
)
FORM = st.builds(
    Form,
    st.sampled_from(("get", "post")),
    TEXT,
    st.lists(FIELD, max_size=4, unique_by=lambda field: field.name).map(tuple),
    TEXT,
)
NODE: st.SearchStrategy[Node] = (
    st.builds(Heading, TEXT)
    | st.builds(Paragraph, CELLS)
    | st.builds(Banner, CELLS)
    | st.builds(Table, st.lists(TEXT, max_size=4).map(tuple), st.lists(CELLS, max_size=4).map(tuple), TEXT)
    | st.builds(Facts, st.lists(st.tuples(TEXT, CELL), max_size=4).map(tuple))
    | FORM
)
PAGE = st.builds(
    Page,
    TEXT,
    st.lists(NODE, max_size=5).map(tuple),
    st.lists(LINK, max_size=4).map(tuple),
    st.none() | st.builds(Modal, TEXT, TEXT, FORM),
)

TAGS = {
    *(
        "html",
        "head",
        "meta",
        "title",
        "link",
        "style",
        "body",
        "dialog",
        "header",
        "nav",
        "main",
        "h1",
        "h2",
        "p",
        "a",
    ),
    *("a", "ul", "li", "table", "thead", "tbody", "tr", "th", "td", "dl", "div", "dt", "dd", "form", "label", "span"),
    *("input", "select", "option", "fieldset", "legend", "button"),
}
ATTRIBUTES = {
    *("lang", "charset", "name", "content", "rel", "href", "open", "role", "id", "inert", "scope", "colspan", "method"),
    *("action", "type", "value", "selected", "checked", "autocomplete", "autofocus", "aria-label", "aria-modal"),
    *("aria-labelledby", "aria-describedby"),
}

SMALL = Page(
    "Review <now>",
    (
        Facts((("Patient", Link("Ana & Bo", "/patients/3?a=1&b=2")),)),
        Form(
            "post",
            "/new",
            (Hidden("key", '"1"'), Radio("place", "Place", (("1", "Riverside"),), "1"), TextField("n", "Note")),
            "Book",
        ),
    ),
    (Link("Home", "/"),),
)


@st.composite
def pages(draw: st.DrawFn) -> tuple[Page, Typed]:
    """A page, and something typed or chosen in some of its fields."""
    page = draw(PAGE)
    forms = [page.modal.form] if page.modal else []
    forms += [node for node in page.body if isinstance(node, Form)]
    typed = {}
    for number, form in enumerate(forms):
        for field in form.fields:
            if not isinstance(field, Hidden) and draw(st.booleans()):
                options = () if isinstance(field, TextField) else field.options
                typed[number, field.name] = draw(_choice(options))
    return page, typed


@settings(max_examples=250)
@given(pages(), st.sampled_from((0, 17, 60, 4000)))
@example((Page("", ()), {}), 4000)
def test_html_reads_back_as_the_page(case: tuple[Page, Typed], limit: int) -> None:
    page, typed = case
    assert read(render(page, typed), limit) == observe(page, typed, limit)._replace(marks=())


@settings(max_examples=100)
@given(pages())
def test_no_text_becomes_markup(case: tuple[Page, Typed]) -> None:
    root = LexborHTMLParser(render(*case)).root
    assert root is not None
    nodes = list(root.traverse())
    assert {node.tag for node in nodes} <= TAGS
    assert {name for node in nodes for name in node.attributes} <= ATTRIBUTES
    assert [node.tag for node in nodes].count("style") == 1
    assert [node.tag for node in nodes].count("h1") == 1


def test_the_html_of_a_small_page() -> None:
    document = render(SMALL, {(0, "n"): "5 > 4"})
    assert document.startswith('<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>Review &lt;now&gt;')
    assert document.partition("<body>")[2] == (
        "\n<header><h1>Review &lt;now&gt;</h1>"
        '<nav aria-label="Main"><ul><li><a href="/">Home</a></li></ul></nav></header>'
        '\n<main>\n<dl>\n<div><dt>Patient</dt><dd><a href="/patients/3?a=1&amp;b=2">Ana &amp; Bo</a></dd></div></dl>'
        '\n<form method="post" action="/new" autocomplete="off"><input type="hidden" name="key" value="&#34;1&#34;">'
        '\n<fieldset name="place"><legend>Place</legend>'
        '\n<label><input type="radio" name="place" value="1" checked><span>Riverside</span></label></fieldset>'
        '\n<label><span>Note</span><input name="n" value="5 &gt; 4"></label>'
        "\n<button>Book</button></form>\n</main></body></html>\n"
    )


def test_the_document_fetches_nothing_and_runs_nothing() -> None:
    document = render(SMALL)
    assert '<link rel="icon" href="data:,">' in document
    assert not re.search(r"https?:|//|url\(|@import|<script|<img| src=| on\w+=", document)


def test_under_a_modal_the_rest_is_inert() -> None:
    page = SMALL._replace(modal=Modal("Notice", "Moved.", Form("post", "/ack", (), "Acknowledge")))
    tree = LexborHTMLParser(render(page))
    assert [node.tag for node in tree.css("[inert]")] == ["header", "main"]
    assert [node.text() for node in tree.css("dialog[open] button[autofocus]")] == ["Acknowledge"]
    assert [node.tag for node in tree.css("body > *")] == ["dialog", "header", "main"]
    assert not LexborHTMLParser(render(SMALL)).css("[inert], dialog, [autofocus]")


def _luminance(colour: str) -> float:
    """Relative luminance as WCAG 2.2 defines it, of "#rgb" or "#rrggbb"."""
    digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
    parts = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize(
    ("front", "back", "least"),
    [
        ("#1b2430", "#f3f5f8", 4.5),  # text
        ("#1b2430", "#fff6dd", 4.5),  # text in a banner
        ("#0b57a4", "#f3f5f8", 4.5),  # a link
        ("#0b57a4", "#fff6dd", 4.5),  # a link in a banner
        ("#0b57a4", "#f4f8fc", 4.5),  # a link in the row under the pointer
        ("#fff", "#16324f", 4.5),  # navigation
        ("#fff", "#27496d", 4.5),  # navigation under the pointer
        ("#3c4857", "#e9edf2", 4.5),  # a column name
        ("#4d5967", "#fff", 4.5),  # a label of a fact
        ("#fff", "#0b57a4", 4.5),  # a button
        ("#6b7785", "#fff", 3.0),  # the edge of a field
        ("#6b7785", "#f3f5f8", 3.0),  # the same, on the page
        ("#0b57a4", "#f3f5f8", 3.0),  # the focus ring
    ],
)
def test_contrast_is_at_least_wcag_aa(front: str, back: str, least: float) -> None:
    assert front in STYLE
    assert back in STYLE
    low, high = sorted((_luminance(front), _luminance(back)))
    assert (high + 0.05) / (low + 0.05) >= least


def test_without_selectolax_the_driver_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "selectolax.lexbor", None)
    html_driver._parser.cache_clear()
    with pytest.raises(UsageError, match=r'pip install "envos\[html\]"'):
        Html()


class Stand:
    """Stands for an application: answers every request with one of its pages, and keeps what it was asked."""

    def __init__(self, pages: tuple[Page, ...]) -> None:
        self.world = SimpleNamespace(home="/")
        self.pages = pages
        self.asked: list[tuple[str, str, Any]] = []

    def ask(self, method: str, url: str, form: Any = None, actor: str = "agent") -> Reply:
        """Answer with the page whose turn it is."""
        self.asked.append((method, url, form))
        number = len(self.asked)
        request = Request(number, number, "s1", actor, "direct", method, url, url, {}, 200, "", ())
        return Reply(self.pages[number % len(self.pages)], url, request)


ACTION = (
    st.tuples(st.just("click"), st.integers(0, 12).map(str))
    | st.tuples(st.just("fill"), st.integers(0, 12).map(str), TEXT)
    | st.tuples(st.just("select"), st.integers(0, 12).map(str), TEXT)
    | st.tuples(st.just("goto"), st.sampled_from(("/", "/a b?c=1", "//x", "y")))
    | st.tuples(st.just("back"))
)


def seen(driver: InProcess) -> tuple[Any, ...]:
    """Everything that an observation and the evidence take from a driver."""
    return driver.view(), driver.url(), driver.request()


@settings(max_examples=100)
@given(st.lists(PAGE, min_size=1, max_size=3).map(tuple), st.lists(ACTION, max_size=12))
def test_both_drivers_see_and_ask_the_same(shown: tuple[Page, ...], actions: list[tuple[str, ...]]) -> None:
    stands: list[Any] = [Stand(shown), Stand(shown)]
    direct, parsed = InProcess(), Html()
    direct.open(stands[0])
    parsed.open(stands[1])
    assert seen(direct) == seen(parsed)
    for verb, *args in actions:
        assert getattr(direct, verb)(*args) == getattr(parsed, verb)(*args)
        assert seen(direct) == seen(parsed)
    assert stands[0].asked == stands[1].asked


def test_a_document_that_reads_otherwise_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    stand: Any = Stand((SMALL,))
    driver = Html()
    monkeypatch.setattr(html_driver, "render", lambda page, typed: render(page._replace(title="Other"), typed))
    driver.open(stand)
    with pytest.raises(RuntimeError, match="does not read as the page"):
        driver.view()


def choose(draw: Random, driver: InProcess) -> tuple[str, ...]:
    """An action that a driver can carry out: mostly on an element of the page, now and then back or elsewhere."""
    view = driver.view()
    if not view.elements or draw.random() < 0.1:
        return draw.choice((("back",), ("goto", "/"), ("goto", "/sessions"), ("goto", "/new/clinic?referral=1")))
    role = draw.choice(sorted({element.role for element in view.elements}))
    element = draw.choice([element for element in view.elements if element.role == role])
    index = str(element.index)
    if element.role == "textbox":
        return "fill", index, draw.choice(("", "a", "555 0100", *NASTY))
    if element.role == "combobox":
        return "select", index, draw.choice((*element.options, "none of these"))
    return "click", index


def walk(seed: int) -> Counter[str]:
    """Play one random episode of the clinic with both drivers, comparing at each step; counts what it met."""
    line = scenario("EnvOS/ClinicStale-v0")
    world, phenomenon = load_world(line.world), load_phenomenon(line.phenomenon)
    instance = generate(line, world, phenomenon, "train", seed)
    chosen = plan(instance, phenomenon, line.conditions[seed % len(line.conditions)], "any")
    drivers = (InProcess(), Html())
    applications = []
    for driver in drivers:
        database = Database(world.metadata)
        database.load(instance.rows, instance.canary)
        applications.append(Application(world, database, Ledger(), OneShot(chosen)))
        driver.open(applications[-1])
    met: Counter[str] = Counter()
    draw = Random(seed)  # noqa: S311
    for step in range(1, 49):
        verb, *args = choose(draw, drivers[0])
        for application in applications:
            application.step = step
        first, second = (getattr(driver, verb)(*args) for driver in drivers)
        assert first == second
        assert seen(drivers[0]) == seen(drivers[1])
        for driver, application in zip(drivers, applications, strict=True):
            view = driver.view()
            delivered = tuple(Delivered(*mark.value[1:], mark.value.text, mark.offset) for mark in view.marks)
            frame = Frame(step, step, 0, "", view.text, view.listing, view.notice, "", "", 0, delivered, "", "")
            application.oneshot.deliver(frame, driver.request())
        met.update({verb, *(element.role for element in view.elements), driver.request().method})
        met.update(marks=len(view.marks), notices=bool(view.notice), fired=applications[0].oneshot.fired)
    assert applications[0].ledger.records() == applications[1].ledger.records()
    assert applications[0].database.state() == applications[1].database.state()
    return met


def test_walks_through_the_clinic_are_the_same_in_html() -> None:
    met: Counter[str] = Counter()
    for seed in range(32):
        met += walk(seed)
    # Walks that never got anywhere would be the same too.
    for what in ("back", "goto", "fill", "select", "link", "button", "radio", "textbox", "combobox", "marks", "fired"):
        assert met[what] > 10, what
    assert met["notices"] > 0
