"""Named tools: what a world's route is called, and the arguments that it takes, for agents that call functions.

A world lists one `Tool` for each of its routes. The schema that an agent is given, the reading of its calls, the
request that a call makes and the calls that a result offers all come from these lines (`envos.envs.toolbox`).
"""

from typing import Any, NamedTuple

PATH_ID = "{id}"
"""The parameter that stands in the path of a route rather than in its query or form."""
LARGEST_ID = 999_999_999
"""The largest row id that a route takes."""


class Argument(NamedTuple):
    """One argument of a tool: its type (`integer` is a row id, else `string`) and the request parameter that it fills.

    `choices` are the only texts that are allowed, where there are any.
    """

    name: str
    type: str
    about: str
    param: str
    required: bool = True
    choices: tuple[str, ...] = ()

    def schema(self) -> dict[str, Any]:
        """The argument as JSON schema."""
        made: dict[str, Any] = {"type": self.type, "description": self.about}
        if self.type == "integer":
            made |= {"minimum": 1, "maximum": LARGEST_ID}
        if self.choices:
            made["enum"] = list(self.choices)
        return made

    def expects(self) -> str:
        """What the argument must be, in words."""
        if self.choices:
            return f"one of {', '.join(self.choices)}"
        return "an integer from 1" if self.type == "integer" else "a string"


class Tool(NamedTuple):
    """One operation of a world: a name, the route that it asks for, and what it does.

    `answers_notice`: it sends the form of the notice on the last result, and is of no use without one.
    """

    name: str
    method: str
    route: str
    about: str
    arguments: tuple[Argument, ...] = ()
    answers_notice: bool = False

    def usage(self) -> str:
        """The call in one line, such as `list_slots(referral_id: integer, place_id: integer)`; `?`: may be left out."""
        return f"{self.name}({', '.join(f'{item.name}{_mark(item)}: {item.type}' for item in self.arguments)})"

    def schema(self) -> dict[str, Any]:
        """The tool as OpenAI describes a function."""
        parameters = {
            "type": "object",
            "properties": {item.name: item.schema() for item in self.arguments},
            "required": [item.name for item in self.arguments if item.required],
            "additionalProperties": False,
        }
        function = {"name": self.name, "description": self.about, "parameters": parameters}
        return {"type": "function", "function": function}


def _mark(item: Argument) -> str:
    return "" if item.required else "?"


def key(name: str, about: str, param: str = PATH_ID, *, required: bool = True) -> Argument:
    """An argument that is a row id; without `param` it stands in the path."""
    return Argument(name, "integer", about, param, required)


def text(name: str, about: str, param: str = "", *, required: bool = True, choices: tuple[str, ...] = ()) -> Argument:
    """An argument that is a text; without `param` the parameter has its name."""
    return Argument(name, "string", about, param or name, required, choices)
