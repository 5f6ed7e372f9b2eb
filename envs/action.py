"""The action grammar: one call per reply, such as `click("12")`, in the syntax that BrowserGym users know.

`parse` turns any reply into an `Action` or an `ActionError` and never raises; `render` is its inverse, and a function
per verb (`click(3)`, `memo("seen")`) writes the text of an action for scripts. Nothing is evaluated.
"""

import re
from collections.abc import Mapping
from difflib import get_close_matches
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple, NoReturn

from envos.errors import UsageError

MAX_LENGTH = 10_000
"""Code points that a reply may have."""

_SHORT = 100
"""Code points of a reply that is remembered with its action."""
_SHOWN = 80
"""Characters of a reply that an error line repeats."""
_INDEX = "element"
"""The parameter that takes a bare integer as well as a string."""


class Action(NamedTuple):
    """One action: `args` in the order of the verb's parameters, `fields` of a report in the order given."""

    verb: str
    args: tuple[str, ...] = ()
    fields: tuple[tuple[str, str], ...] = ()


class ActionError(NamedTuple):
    """A reply that is no action; `message` is one printable line of at most 400 characters."""

    message: str


class Verb(NamedTuple):
    """One kind of action; `free` ones take any named fields in place of `parameters`."""

    parameters: tuple[str, ...]
    example: str
    about: str
    free: bool = False


VERBS: Mapping[str, Verb] = MappingProxyType(
    {
        "click": Verb((_INDEX,), 'click("12")', "follow a link, press a button or choose a radio button, by its index"),
        "fill": Verb((_INDEX, "value"), 'fill("7", "text")', "type into a text field, replacing what it holds"),
        "select_option": Verb(
            (_INDEX, "option"),
            'select_option("5", "Riverside")',
            "choose an option of a drop-down list by its text",
        ),
        "goto": Verb(("path",), 'goto("/sessions")', "open a page of this application by its path"),
        "go_back": Verb((), "go_back()", "open the page before this one again"),
        "memo": Verb(("text",), 'memo("seen")', "replace the memo that comes back with every observation"),
        "report": Verb(
            (),
            'report(location="...", start="...", reference="...")',
            "give the final answer in named fields and end the episode",
            free=True,
        ),
        "noop": Verb((), "noop()", "do nothing for one step"),
    }
)
"""Every verb: its parameters, an example and what it does."""


def describe() -> str:
    """The grammar as text, one verb a line: example and what it does."""
    return "\n".join(f"{verb.example} - {verb.about}" for verb in VERBS.values())


class _Malformed(Exception):
    """Ends the parse with an error line."""


_SPACE = r"[ \t\r\n]*+"
_NAME = r"[A-Za-z_][A-Za-z0-9_]*+"
# Possessive repeats throughout: nothing is tried twice, so a hostile reply costs no more than its length.
_HEAD = re.compile(rf"{_SPACE}({_NAME}){_SPACE}\({_SPACE}")
_CLOSE = re.compile(rf"\){_SPACE}")
_KEY = re.compile(rf"({_NAME}){_SPACE}={_SPACE}")
_ARGUMENT = re.compile(
    rf"(?:({_NAME}){_SPACE}={_SPACE})?"
    r"""(?:"([^"\\\r\n]*+(?:\\[^\r\n][^"\\\r\n]*+)*+)"|'([^'\\\r\n]*+(?:\\[^\r\n][^'\\\r\n]*+)*+)'|([0-9]++))"""
    rf"{_SPACE}([,)]){_SPACE}"
)
_VALUE = re.compile(
    r"""(?:"[^"\\\r\n]*+(?:\\[^\r\n][^"\\\r\n]*+)*+"|'[^'\\\r\n]*+(?:\\[^\r\n][^'\\\r\n]*+)*+'|[0-9]++)"""
    rf"{_SPACE}"
)
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|([^\r\n]))")
_ESCAPES = {'"': '"', "'": "'", "\\": "\\", "n": "\n", "t": "\t"}
_VALID_ESCAPES = r"\" \' \\ \n \t \uXXXX"
_SURROGATE = re.compile("[\ud800-\udfff]")
_TYPE_NAME = type.__dict__["__name__"].__get__  # a metaclass may have a __name__ of its own, which may raise


def parse(text: object) -> Action | ActionError:
    """The action that a reply is, or what is wrong with it; raises for no input and takes linear time.

    White space around tokens is free; anything before or after the call is an error. Strings are in single or
    double quotes, with the escapes \\" \\' \\\\ \\n \\t \\uXXXX; an element may also be a bare integer. Values hold no
    lone surrogates, so they can be stored and archived anywhere.
    """
    try:
        # isinstance() would ask the object for its __class__, and the answer may raise.
        if type(text) is str:
            return _known(text) if len(text) <= _SHORT else _parse(text)
        if issubclass(type(text), str):
            return _parse(str.__str__(text))
        kind = _shown(_TYPE_NAME(type(text)))
        raise _Malformed(f'an action is text such as click("12"); got an object of type {kind}')
    except _Malformed as problem:
        return ActionError(str(problem))


@lru_cache(maxsize=2048)
def _known(text: str) -> Action:
    """The action that a short text is: the same few are parsed again and again, in each episode and by the verifier."""
    return _parse(text)


def _parse(text: str) -> Action:
    if len(text) > MAX_LENGTH:
        raise _Malformed(f"an action has at most {MAX_LENGTH} characters; got {len(text)}")
    if not text.isascii() and _SURROGATE.search(text):
        raise _Malformed("an action is Unicode text; got a lone surrogate")
    head = _HEAD.match(text)
    if head is None:
        _no_call(text)
    verb = head[1]
    known = VERBS.get(verb)
    if known is None:
        raise _Malformed(_unknown("action", verb, tuple(VERBS)))
    values: list[str] = []
    named: dict[str, str] = {}
    bare: list[str] = []
    place = head.end()
    close = _CLOSE.match(text, place)
    if close is not None:
        place = close.end()
    while close is None:
        found = _ARGUMENT.match(text, place)
        if found is None:
            _no_argument(verb, text, place)
        name, double, single, number, after = found.groups()
        value = double or single or number or ""
        if number is not None:
            bare.append(name or str(len(values)))
        elif "\\" in value:
            value = _unescape(verb, value)
        if name is None:
            if named:
                raise _Malformed(f"{verb}: an argument without a name follows a named one; {_usage(known)}")
            values.append(value)
        elif name in named:
            raise _Malformed(f"{verb}: {_shown(name)} is given twice")
        else:
            named[name] = value
        place = found.end()
        if after == ")":
            break
    if place != len(text):
        rest = _shown(text[place : place + _SHOWN + 1])
        raise _Malformed(f"one action at a time, and nothing after it; got {rest} after {verb}(...)")
    return _bind(verb, known, values, named, bare)


def _bind(verb: str, known: Verb, values: list[str], named: dict[str, str], bare: list[str]) -> Action:
    """The action with its values in the order of the parameters; `bare` names or numbers the integers."""
    parameters = known.parameters
    if known.free:
        if values:
            raise _Malformed(f"{verb} takes named fields only; {_usage(known)}")
        if bare:
            raise _Malformed(f'{verb}: {_shown(bare[0])} takes a quoted string, such as {bare[0][:40]}="..."')
        return Action(verb, (), tuple(named.items()))
    first, given = len(values), len(values) + len(named)
    for name in named:
        if name not in parameters:
            raise _Malformed(f"{verb}: {_unknown('parameter', name, parameters)}; {_usage(known)}")
        if name in parameters[:first]:
            raise _Malformed(f"{verb}: {_shown(name)} is given twice")
    if given > len(parameters):
        takes = f"takes {len(parameters)}" if parameters else "takes no"
        plural = "" if len(parameters) == 1 else "s"
        raise _Malformed(f"{verb} {takes} argument{plural}; got {given}; {_usage(known)}")
    for name in parameters[first:]:
        if name not in named:
            raise _Malformed(f"{verb}: {name} is missing; {_usage(known)}")
        values.append(named[name])
    for item in bare:
        name = parameters[int(item)] if item.isdecimal() else item
        if name != _INDEX:
            raise _Malformed(f"{verb}: {name} takes a quoted string; {_usage(known)}")
    return Action(verb, tuple(values))


def _unescape(verb: str, body: str) -> str:
    """The text that an escaped string stands for; two surrogate escapes make one character, as in JSON."""

    def one(found: re.Match[str]) -> str:
        code, char = found.groups()
        if code is not None:
            return chr(int(code, 16))
        if char not in _ESCAPES:
            got = f"'\\{char}'" if char.isprintable() else _shown(char)
            raise _Malformed(f"{verb}: unknown escape {got}; valid: {_VALID_ESCAPES}")
        return _ESCAPES[char]

    text = _ESCAPE.sub(one, body)
    if not text.isascii() and _SURROGATE.search(text):
        try:
            return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
        except UnicodeDecodeError:
            raise _Malformed(f"{verb}: an action is Unicode text; got a lone surrogate") from None
    return text


def _no_call(text: str) -> NoReturn:
    """Raise what is wrong with a reply that does not begin with a call."""
    bare = text.strip(" \t\r\n")
    if not bare:
        raise _Malformed('expected one action such as click("12"); got nothing')
    if bare in VERBS:
        raise _Malformed(f"{bare} is written as a call: {VERBS[bare].example}")
    raise _Malformed(f'expected one action such as click("12") and no other text; got {_shown(bare)}')


def _no_argument(verb: str, text: str, place: int) -> NoReturn:
    """Raise what is wrong at the place where an argument was expected."""
    key = _KEY.match(text, place)
    start = place if key is None else key.end()
    value = _VALUE.match(text, start)
    rest = text[place : place + _SHOWN + 1]
    if value is not None:
        after = text[value.end() : value.end() + _SHOWN + 1]
        got = _shown(after) if after else "the end"
        raise _Malformed(f'{verb}: expected "," or ")" after an argument; got {got}')
    if not rest:
        raise _Malformed(f'{verb}: the call has no closing ")"; {_usage(VERBS[verb])}')
    if text[start : start + 1] in ('"', "'"):
        raise _Malformed(f"{verb}: a string is not closed on its line (write \\n for a line break): {_shown(rest)}")
    raise _Malformed(f"{verb}: expected a quoted string; got {_shown(rest)}; {_usage(VERBS[verb])}")


def _usage(known: Verb) -> str:
    return f"write {known.example}"


def _unknown(kind: str, name: str, valid: tuple[str, ...]) -> str:
    near = get_close_matches(name[:_SHOWN].casefold(), valid, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"valid: {', '.join(valid) or 'none'}"
    return f"unknown {kind} {_shown(name)}; {hint}"


def _shown(text: str) -> str:
    """A text as an error repeats it: quoted, clipped, with everything unprintable escaped."""
    clear = repr(text[:_SHOWN])[1:-1]
    return f"'{clear[:_SHOWN]}...'" if len(clear) > _SHOWN or len(text) > _SHOWN else f"'{clear}'"


def render(action: Action) -> str:
    """The canonical text of an action: double quotes, a space after each comma, the unprintable escaped.

    `parse(render(action)) == action` for every action that `parse` returns, if the text keeps to MAX_LENGTH.
    """
    parts = [_quoted(value) for value in action.args]
    parts.extend(f"{name}={_quoted(value)}" for name, value in action.fields)
    return f"{action.verb}({', '.join(parts)})"


def _quoted(text: str) -> str:
    if text.isprintable():
        if '"' in text or "\\" in text:
            text = text.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{text}"'
    return '"' + "".join(map(_escaped, text)) + '"'


def _escaped(char: str) -> str:
    if char in '"\\':
        return f"\\{char}"
    if char.isprintable():
        return char
    if char == "\n":
        return "\\n"
    if char == "\t":
        return "\\t"
    units = char.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def click(element: int | str) -> str:
    """The text of a click on an element."""
    return render(Action("click", (str(element),)))


def fill(element: int | str, value: str) -> str:
    """The text of an action that types into a text field."""
    return render(Action("fill", (str(element), value)))


def select_option(element: int | str, option: str) -> str:
    """The text of an action that chooses an option."""
    return render(Action("select_option", (str(element), option)))


def goto(path: str) -> str:
    """The text of an action that opens a path."""
    return render(Action("goto", (path,)))


def go_back() -> str:
    """The text of an action that goes back."""
    return "go_back()"


def memo(text: str) -> str:
    """The text of an action that replaces the memo."""
    return render(Action("memo", (text,)))


def report(**fields: str) -> str:
    """The text of the final report. Raises UsageError for a field name that is no ASCII identifier."""
    for name in fields:
        if re.fullmatch(_NAME, name) is None:
            raise UsageError(f"a report field is named by letters, digits and _; got {_shown(name)}")
    return render(Action("report", (), tuple(fields.items())))


def noop() -> str:
    """The text of an action that does nothing."""
    return "noop()"
