"""A world's tools: their schemas, the reading of an agent's call, the request it makes, the calls that a page offers.

A call is `{"name": ..., "arguments": {...}}`, as JSON text. What is wrong with one is said in an error line; nothing
raises for anything that an agent can send.
"""

import json
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any, NamedTuple, NoReturn
from urllib.parse import parse_qsl, urlencode

from envos.envs.action import MAX_LENGTH, Action, ActionError
from envos.envs.evidence import canonical
from envos.envs.page import FIELD_LIMIT, Form, Radio, Select, TextField, clean
from envos.envs.roles import World
from envos.envs.tools import LARGEST_ID, PATH_ID, Argument, Tool, text

NAME = "tools"
"""What the identity of an episode says of its actions."""

_REPORTED = {
    "text": "As the records have it.",
    "datetime": "As YYYY-MM-DD HH:MM.",
    "money": "An amount, such as 3575.00.",
    "id": "The reference.",
}
_DISCLOSED = "Only where a record asks for it."
_MEMO = text("text", "The memo; longer ones are cut to 300 characters.")
_OWN = ("memo", "report", "noop")
"""Tools that ask for no page: they are the verbs of the grammar."""
_SHOWN = 60

Arguments = dict[str, int | str]


class Call(NamedTuple):
    """A call as it was said: nothing in it is checked but its form."""

    name: str
    arguments: dict[str, Any]


class Offer(NamedTuple):
    """A call that a link or a form of a page stands for.

    `arguments` are those that have a value already, `choices` the (value, text) pairs of those that are to be chosen.
    """

    tool: Tool
    arguments: Arguments
    choices: dict[str, list[tuple[int | str, str]]]


class Toolbox:
    """The tools of a world, by name and by route, with memo, report and noop.

    Raises nothing; a world without tools has these three.
    """

    def __init__(self, world: World) -> None:
        self._resolve = world.routes.resolve
        fields = tuple(text(name, _REPORTED.get(kind, kind)) for name, kind in world.report.items())
        fields += tuple(text(name, _DISCLOSED, required=False) for name in world.disclosures)
        own = (
            Tool("memo", "", "", "Replace the memo that comes back with every observation.", (_MEMO,)),
            Tool("report", "", "", "Give the final answer, and end the episode.", fields),
            Tool("noop", "", "", "Do nothing for one step."),
        )
        self.tools: Mapping[str, Tool] = {tool.name: tool for tool in (*world.tools, *own)}
        self._routes = {(tool.method, tool.route): tool for tool in world.tools}

    def schemas(self) -> list[dict[str, Any]]:
        """Every tool as OpenAI describes a function; newly made at each call."""
        return [tool.schema() for tool in self.tools.values()]

    def read(self, reply: object) -> Action | ActionError:
        """The action that a reply is: a verb of the grammar for memo, report and noop, else the tool's name.

        The arguments are in `fields` as texts, in the order of the tool's own, and in `args` as canonical JSON text.
        """
        call = said(reply)
        if isinstance(call, ActionError):
            return call
        tool = self.tools.get(call.name)
        if tool is None:
            return ActionError(_unknown("tool", call.name, self.tools))
        problem = _problem(tool, call.arguments)
        if problem:
            return ActionError(problem)
        given = tuple((item.name, call.arguments[item.name]) for item in tool.arguments if item.name in call.arguments)
        if tool.name == "memo":
            return Action("memo", (given[0][1],))
        fields = tuple((name, str(value)) for name, value in given)
        args = () if tool.name in _OWN else (canonical(call.arguments),)
        return Action(tool.name, args, fields)

    def request(self, action: Action) -> tuple[str, str, dict[str, str]]:
        """The request that a call makes: method, URL, form. A text is sent as it would be typed into a field."""
        tool, given = self.tools[action.verb], dict(action.fields)
        path, params = tool.route, {}
        for item in tool.arguments:
            value = given.get(item.name, "")
            if item.param == PATH_ID:
                path = path.replace(PATH_ID, value)
            elif value:
                params[item.param] = clean(value, FIELD_LIMIT)
        if tool.method == "POST":
            return "POST", path, params
        return "GET", f"{path}?{urlencode(params)}" if params else path, {}

    def link(self, href: str) -> Offer | None:
        """The call that a link stands for, or None where no tool asks for it."""
        path, _, query = href.partition("?")
        return self._offer("GET", path, dict(parse_qsl(query)) if query else {})

    def form(self, form: Form) -> Offer | None:
        """The call that a form stands for, or None where no tool sends it."""
        choices: dict[str, list[tuple[str, str]]] = {}
        params: dict[str, str] = {}
        for field in form.fields:
            params[field.name] = field.value
            if isinstance(field, (Select, Radio)):
                choices[field.name] = [(value, shown) for value, shown in field.options if value]
            elif isinstance(field, TextField):
                choices[field.name] = []
        return self._offer(form.method.upper(), form.action, params, choices)

    def _offer(
        self,
        method: str,
        path: str,
        params: dict[str, str],
        choices: Mapping[str, list[tuple[str, str]]] | None = None,
    ) -> Offer | None:
        route, at = self._resolve(path)
        tool = self._routes.get((method, route))
        if tool is None:
            return None
        if at:
            params[PATH_ID] = str(at)
        arguments: Arguments = {}
        chosen: dict[str, list[tuple[int | str, str]]] = {}
        for item in tool.arguments:
            value = params.pop(item.param, "")
            if value:
                arguments[item.name] = _typed(item, value)
            found = (choices or {}).get(item.param)
            if found is not None:
                chosen[item.name] = [(_typed(item, option), shown) for option, shown in found]
        # What no argument stands for would be lost: the form of a notice has such a field, and the driver sends it.
        return Offer(tool, arguments, chosen) if tool.answers_notice or not any(params.values()) else None


def _typed(item: Argument, value: str) -> int | str:
    return int(value) if item.type == "integer" and value.isascii() and value.isdecimal() else value


class _Malformed(Exception):
    """Ends the reading of a call with an error line."""


def said(reply: object) -> Call | ActionError:
    """The call that a reply is, or what is wrong with its form; the tools that there are do not matter."""
    try:
        return _said(reply)
    except _Malformed as problem:
        return ActionError(str(problem))


def _said(reply: object) -> Call:
    # isinstance() would ask the object for its __class__, and the answer may raise.
    if not issubclass(type(reply), str):
        raise _Malformed(f"{_FORM}; got an object of another type")
    text = str.__str__(reply)
    if len(text) > MAX_LENGTH:
        raise _Malformed(f"a tool call has at most {MAX_LENGTH} characters; got {len(text)}")
    try:
        data = _DECODER.decode(text)
        if "\\u" in text or not text.isascii():
            # A lone surrogate, also one that is written as an escape, cannot be sent or stored.
            json.dumps(data, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        raise _Malformed(f"{_FORM}; got {_quoted(text)}") from None
    if not isinstance(data, dict) or not isinstance(data.get("name"), str):
        raise _Malformed(f"{_FORM}; got {_quoted(text)}")
    for name in data:
        if name not in ("name", "arguments"):
            raise _Malformed(f"a tool call has a name and arguments, and nothing else; got {_quoted(name)}")
    arguments = data.get("arguments", {})
    if not isinstance(arguments, dict):
        raise _Malformed(f"the arguments of a tool call are an object; got {_told(arguments)}")
    return Call(data["name"], arguments)


_FORM = 'a tool call is a JSON object, such as {"name": "noop", "arguments": {}}'


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise _Malformed(f"a tool call names everything once; got {_quoted(name)} twice")
        found[name] = value
    return found


def _constant(name: str) -> NoReturn:
    raise _Malformed(f"{name} is no JSON value")


_DECODER = json.JSONDecoder(object_pairs_hook=_once, parse_constant=_constant)


def _problem(tool: Tool, given: Mapping[str, Any]) -> str:
    """What is wrong with the arguments of a call, or ""."""
    known = {item.name: item for item in tool.arguments}
    for name in given:
        if name not in known:
            return f"{tool.name}: {_unknown('argument', name, known)}; expected {tool.usage()}"[:400]
    for name, item in known.items():
        if name not in given:
            if item.required:
                return f"{tool.name}: {name} is missing; expected {tool.usage()}"
        elif not _fits(item, given[name]):
            return f"{tool.name}: {name} is {item.expects()}; got {_told(given[name])}"
    return ""


def _fits(item: Argument, value: object) -> bool:
    if item.type == "integer":
        return type(value) is int and 1 <= value <= LARGEST_ID
    return isinstance(value, str) and (not item.choices or value in item.choices)


def _unknown(kind: str, name: str, valid: Iterable[str]) -> str:
    names = list(valid)
    near = get_close_matches(name[:_SHOWN].casefold(), names, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"valid: {', '.join(names) or 'none'}"
    return f"unknown {kind} {_quoted(name)}; {hint}"


def _told(value: object) -> str:
    """A value as an error line repeats it. What the decoder could read may still be too deep for the encoder."""
    try:
        return _quoted(canonical(value))
    except RecursionError:
        return "something that is nested too deeply"


def _quoted(text: str) -> str:
    """A text as an error line repeats it: clipped, with everything unprintable escaped."""
    shown = repr(text[:_SHOWN])
    return f"{shown[:-1]}...{shown[-1]}" if len(text) > _SHOWN else shown
