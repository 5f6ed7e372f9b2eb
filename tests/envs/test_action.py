"""The action grammar: what is accepted, what every error says, and two properties of any input."""

import string
from time import perf_counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envos.envs import action as grammar
from envos.envs.action import MAX_LENGTH, VERBS, Action, ActionError, describe, parse, render
from envos.errors import UsageError


def error(text: object) -> str:
    """The error line of a reply that must be refused."""
    result = parse(text)
    assert isinstance(result, ActionError), result
    return result.message


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('click("12")', Action("click", ("12",), ())),
        ("click('12')", Action("click", ("12",), ())),
        ("click(12)", Action("click", ("12",), ())),
        ('click(element="12")', Action("click", ("12",), ())),
        ("click(element=12)", Action("click", ("12",), ())),
        ('fill("7", "text")', Action("fill", ("7", "text"), ())),
        ('fill(7, value="a, b) c")', Action("fill", ("7", "a, b) c"), ())),
        ('fill(value="text", element=7)', Action("fill", ("7", "text"), ())),
        ('select_option("5", "Riverside")', Action("select_option", ("5", "Riverside"), ())),
        ('goto("/sessions?day=2026-03-12")', Action("goto", ("/sessions?day=2026-03-12",), ())),
        ("go_back()", Action("go_back", (), ())),
        ('memo("")', Action("memo", ("",), ())),
        ('memo("12")', Action("memo", ("12",), ())),
        ("noop()", Action("noop", (), ())),
        ("report()", Action("report", (), ())),
        (
            'report(start="2026-03-12 09:40", location="Riverside")',
            Action("report", (), (("start", "2026-03-12 09:40"), ("location", "Riverside"))),
        ),
        (' \t\r\n click \n(\t"12"\r\n) \n', Action("click", ("12",), ())),
        ('fill ( element = 7 ,value= "x" )', Action("fill", ("7", "x"), ())),
        ('report(\n  a="1",\n  b="2"\n)', Action("report", (), (("a", "1"), ("b", "2")))),
    ],
)
def test_an_action_is_read(text: str, expected: Action) -> None:
    assert parse(text) == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (r'"a \"b\" c"', 'a "b" c'),
        (r"'it\'s'", "it's"),
        ('"it\'s"', "it's"),
        (r'"C:\\n"', "C:\\n"),
        (r'"a\nb\tc"', "a\nb\tc"),
        (r'"caf\u00e9 \u00C9"', "café É"),
        (r'"\ud83d\ude00"', "\U0001f600"),
        (r'"\u0000"', "\0"),
        ('"\0\x7f\u2028"', "\0\x7f\u2028"),
        ('"日本語 \U0001f600"', "日本語 \U0001f600"),
    ],
)
def test_strings_and_escapes(body: str, expected: str) -> None:
    assert parse(f"memo({body})") == Action("memo", (expected,), ())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", 'expected one action such as click("12"); got nothing'),
        (" \n", 'expected one action such as click("12"); got nothing'),
        ("click", 'click is written as a call: click("12")'),
        ("clik(1)", "unknown action 'clik'; did you mean 'click'?"),
        ("Go_Back()", "unknown action 'Go_Back'; did you mean 'go_back'?"),
        (
            "frobnicate(1)",
            "unknown action 'frobnicate'; valid: click, fill, select_option, goto, go_back, memo, report, noop",
        ),
        (
            'I will click("1")',
            'expected one action such as click("12") and no other text; got \'I will click("1")\'',
        ),
        ("```\nnoop()\n```", "expected one action such as click(\"12\") and no other text; got '```\\nnoop()\\n```'"),
        ("noop() now", "one action at a time, and nothing after it; got 'now' after noop(...)"),
        ("click(1)\nclick(2)", "one action at a time, and nothing after it; got 'click(2)' after click(...)"),
        ("click(", 'click: the call has no closing ")"; write click("12")'),
        ("click(1", 'click: expected "," or ")" after an argument; got the end'),
        ("click(1 2)", 'click: expected "," or ")" after an argument; got \'2)\''),
        ("click(1,)", "click: expected a quoted string; got ')'; write click(\"12\")"),
        ("click(-1)", "click: expected a quoted string; got '-1)'; write click(\"12\")"),
        ("click(click(1))", "click: expected a quoted string; got 'click(1))'; write click(\"12\")"),
        ("goto(path=/x)", "goto: expected a quoted string; got 'path=/x)'; write goto(\"/sessions\")"),
        ('memo("a)', "memo: a string is not closed on its line (write \\n for a line break): '\"a)'"),
        ('memo("a\nb")', "memo: a string is not closed on its line (write \\n for a line break): '\"a\\nb\")'"),
        (r'memo("\q")', r"""memo: unknown escape '\q'; valid: \" \' \\ \n \t \uXXXX"""),
        (r'memo("\u12")', r"""memo: unknown escape '\u'; valid: \" \' \\ \n \t \uXXXX"""),
        (r'memo("\ud83d")', "memo: an action is Unicode text; got a lone surrogate"),
        ('memo("\ud83d\ude00")', "an action is Unicode text; got a lone surrogate"),
        ("fill(1)", 'fill: value is missing; write fill("7", "text")'),
        ("fill(1, 2)", 'fill: value takes a quoted string; write fill("7", "text")'),
        ("fill(value=2, element=1)", 'fill: value takes a quoted string; write fill("7", "text")'),
        ("fill(1, element=2)", "fill: 'element' is given twice"),
        ('fill(value="a", value="b")', "fill: 'value' is given twice"),
        ('fill(element=1, "b")', 'fill: an argument without a name follows a named one; write fill("7", "text")'),
        ("click(1, 2)", 'click takes 1 argument; got 2; write click("12")'),
        ("go_back(1)", "go_back takes no arguments; got 1; write go_back()"),
        ("click(elem=1)", "click: unknown parameter 'elem'; did you mean 'element'?; write click(\"12\")"),
        ("noop(a='b')", "noop: unknown parameter 'a'; valid: none; write noop()"),
        (
            'report("x")',
            'report takes named fields only; write report(location="...", start="...", reference="...")',
        ),
        ("report(amount=25)", "report: 'amount' takes a quoted string, such as amount=\"...\""),
        ('report(a="1", a="2")', "report: 'a' is given twice"),
        ("\0", "expected one action such as click(\"12\") and no other text; got '\\x00'"),
        ("select(5, 'Any')", "unknown action 'select'; did you mean 'select_option'?"),
        (None, "an action is text such as click(\"12\"); got an object of type 'NoneType'"),
        (12, "an action is text such as click(\"12\"); got an object of type 'int'"),
        (b"noop()", "an action is text such as click(\"12\"); got an object of type 'bytes'"),
    ],
)
def test_every_error_says_what_was_expected_and_what_came(text: object, message: str) -> None:
    assert error(text) == message


def test_the_length_limit_is_exact() -> None:
    body = "x" * (MAX_LENGTH - len('memo("")'))
    assert parse(f'memo("{body}")') == Action("memo", (body,), ())
    assert error(f'memo("{body}x")') == "an action has at most 10000 characters; got 10001"


def test_what_came_is_clipped() -> None:
    assert error("z" * 500 + "(1)").startswith("unknown action '" + "z" * 80 + "...'; valid: click,")
    assert error("." * 81) == f"expected one action such as click(\"12\") and no other text; got '{'.' * 80}...'"
    assert error("." * 80) == f"expected one action such as click(\"12\") and no other text; got '{'.' * 80}'"


class Hostile:
    """An object that refuses every question."""

    def __getattribute__(self, name: str) -> object:
        raise RuntimeError(name)

    def __repr__(self) -> str:
        raise RuntimeError("repr")


class HostileMeta(type):
    """Its classes do not tell their name."""

    @property
    def __name__(cls) -> str:  # type: ignore[override]
        raise RuntimeError("name")


class Nameless(metaclass=HostileMeta):
    pass


class Text(str):
    """A str that lies about its length."""

    def __len__(self) -> int:
        raise RuntimeError("len")

    def __str__(self) -> str:
        raise RuntimeError("str")


def test_objects_that_raise_do_not_make_parse_raise() -> None:
    assert error(Hostile()) == "an action is text such as click(\"12\"); got an object of type 'Hostile'"
    assert error(Nameless()) == "an action is text such as click(\"12\"); got an object of type 'Nameless'"
    assert parse(Text("click(3)")) == Action("click", ("3",), ())


pieces = st.sampled_from(
    [*VERBS, "(", ")", ",", "=", '"', "'", "\\", "\\u00", "\n", " ", "\0", "\ud800", "12", "element", "x"]
)
anything = st.one_of(
    st.text(st.characters(), max_size=40),  # surrogates included
    st.lists(pieces, max_size=30).map("".join),
    st.none() | st.integers() | st.floats() | st.binary() | st.lists(st.text()) | st.dictionaries(st.text(), st.text()),
)


@given(anything)
def test_any_reply_is_an_action_or_one_printable_line(reply: object) -> None:
    result = parse(reply)
    if isinstance(result, ActionError):
        assert result.message.isprintable()
        assert 0 < len(result.message) <= 400
    else:
        assert isinstance(result, Action)
        assert result.verb in VERBS
        assert len(result.args) == len(VERBS[result.verb].parameters)
        assert VERBS[result.verb].free or result.fields == ()
        assert parse(render(result)) == result


no_surrogates = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
identifiers = st.text(string.ascii_letters + string.digits + "_", min_size=1, max_size=12).filter(
    lambda name: not name[0].isdigit()
)


@st.composite
def actions(draw: st.DrawFn) -> Action:
    verb = draw(st.sampled_from(list(VERBS)))
    if VERBS[verb].free:
        return Action(verb, (), tuple(draw(st.dictionaries(identifiers, no_surrogates, max_size=5)).items()))
    return Action(verb, tuple(draw(no_surrogates) for _ in VERBS[verb].parameters), ())


@given(actions())
def test_render_is_the_inverse_of_parse(action: Action) -> None:
    text = render(action)
    assert parse(text) == action
    assert text.isprintable()


@pytest.mark.parametrize(
    ("action", "text"),
    [
        (Action("click", ("12",)), 'click("12")'),
        (Action("fill", ("7", 'say "hi" \\ it\'s')), r"""fill("7", "say \"hi\" \\ it's")"""),
        (Action("memo", ("a\nb\tc\r\0é\u2028",)), r'memo("a\nb\tc\u000d\u0000é\u2028")'),
        (Action("memo", ("\U000e0001",)), r'memo("\udb40\udc01")'),
        (Action("report", (), (("b", "2"), ("a", "1"))), 'report(b="2", a="1")'),
    ],
)
def test_the_canonical_text(action: Action, text: str) -> None:
    assert render(action) == text
    assert parse(text) == action


def test_constructors_write_the_canonical_text() -> None:
    assert grammar.click(12) == grammar.click("12") == 'click("12")'
    assert grammar.fill(7, 'a"b') == r'fill("7", "a\"b")'
    assert grammar.select_option(5, "Riverside") == 'select_option("5", "Riverside")'
    assert grammar.goto("/sessions") == 'goto("/sessions")'
    assert grammar.go_back() == "go_back()"
    assert grammar.memo("seen") == 'memo("seen")'
    assert grammar.report(location="Riverside", start="09:40") == 'report(location="Riverside", start="09:40")'
    assert grammar.noop() == "noop()"
    with pytest.raises(UsageError, match="letters, digits and _; got 'a b'"):
        grammar.report(**{"a b": "x"})


def test_every_verb_is_described_and_its_example_is_an_action_of_it() -> None:
    lines = describe().splitlines()
    assert len(lines) == len(VERBS) == 8
    assert lines[0] == 'click("12") - follow a link, press a button or choose a radio button, by its index'
    for verb, known in VERBS.items():
        example = parse(known.example)
        assert isinstance(example, Action)
        assert example.verb == verb
        assert callable(getattr(grammar, verb))
    with pytest.raises(TypeError):
        VERBS["shell"] = VERBS["noop"]  # type: ignore[index]


@pytest.mark.parametrize(
    "unit",
    ["\\", "a\\", '"', "a" * 10 + " " * 10, "click(", 'x="1",', '"",', "(" * 5 + ")" * 5, "\\u0041", " ", "\\u"],
)
@pytest.mark.parametrize("head", ["", "memo(", 'memo("', "report("])
def test_time_grows_with_the_length_only(head: str, unit: str) -> None:
    def cost(length: int) -> float:
        text = head + (unit * length)[:length]
        times = []
        for _ in range(5):
            start = perf_counter()
            parse(text)
            times.append(perf_counter() - start)
        return min(times)

    # Eight times the text may take eight times as long, not sixty-four; the slack is for a busy machine.
    assert cost(9_600) < 24 * cost(1_200) + 0.002
