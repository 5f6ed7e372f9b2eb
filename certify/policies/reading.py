"""How a scripted policy reads an observation: elements by role and label, table rows by content, labelled lines."""

import re
from collections.abc import Generator
from typing import Any, NamedTuple

from envos.envs.action import click, fill, memo, select_option
from envos.errors import EnvOSError

Observation = dict[str, Any]
Part = Generator[str, Observation, Observation]
"""A piece of a policy: yields actions, is sent observations, returns the last one."""

_ELEMENT = re.compile(r'\[(\d+)\] (\w+) "((?:[^"\\]|\\.)*)"')
_INDEX = re.compile(r"\[\d+\] ")


class NotFound(EnvOSError):
    """A scripted policy looked for something that the page does not hold."""


class Seen(NamedTuple):
    """One line of the element list."""

    at: str
    role: str
    label: str


def elements(observation: Observation) -> list[Seen]:
    """The element list as the observation holds it."""
    return [
        Seen(at, role, re.sub(r"\\(.)", r"\1", label) if "\\" in label else label)
        for at, role, label in _ELEMENT.findall(observation["elements"])
        if role in ("link", "button", "textbox", "combobox", "radio")
    ]


def element(observation: Observation, role: str, label: str) -> str:
    """The index of the first element of that role and label. Raises NotFound."""
    at = _find(observation["elements"], role, label)
    if not at:
        raise NotFound(f"no {role} {label!r} on {observation['url']}")
    return at


def _find(listing: str, role: str, label: str) -> str:
    """The index of the first line of that role and label, or ""; a plain search, since a policy asks at every step."""
    quoted = label.replace("\\", "\\\\").replace('"', '\\"')
    wanted = f'] {role} "{quoted}"'
    place = listing.find(wanted)
    while place >= 0:
        start = listing.rfind("\n", 0, place) + 1
        at = listing[start + 1 : place]
        if listing[start] == "[" and at.isdecimal():
            return at
        place = listing.find(wanted, place + 1)
    return ""


def has(observation: Observation, role: str, label: str) -> bool:
    """Whether there is an element of that role and label."""
    return _find(observation["elements"], role, label) != ""


def rows(observation: Observation) -> list[list[str]]:
    """The lines of the page with cells in them, without element indices."""
    lines = observation["page"].split("\n")
    return [
        [_INDEX.sub("", cell) if "[" in cell else cell for cell in line.split(" | ")] for line in lines if " | " in line
    ]


def row(observation: Observation, *cells: str) -> list[str]:
    """The first table row that holds all these cells. Raises NotFound."""
    for found in rows(observation):
        if all(cell in found for cell in cells):
            return found
    raise NotFound(f"no row with {cells} on {observation['url']}")


def line(observation: Observation, label: str) -> str:
    """What stands behind `label: ` on the page. Raises NotFound."""
    return after(observation["page"], label)


def after(text: str, label: str) -> str:
    """What stands behind `label: ` at the start of a line of a text. Raises NotFound."""
    found = re.search(rf"^{re.escape(label)}: (.*)$", text, re.MULTILINE)
    if found is None:
        raise NotFound(f"no line {label!r}")
    return _INDEX.sub("", found.group(1))


def follow(observation: Observation, label: str) -> Part:
    """Click the link with that label."""
    return (yield click(element(observation, "link", label)))


def press(observation: Observation, label: str) -> Part:
    """Press the button with that label."""
    return (yield click(element(observation, "button", label)))


def choose(observation: Observation, label: str) -> Part:
    """Choose the radio button with that label."""
    return (yield click(element(observation, "radio", label)))


def write(observation: Observation, label: str, text: str) -> Part:
    """Type into the text field with that label."""
    return (yield fill(element(observation, "textbox", label), text))


def select(observation: Observation, label: str, option: str) -> Part:
    """Choose an option of the drop-down list with that label."""
    return (yield select_option(element(observation, "combobox", label), option))


def note(text: str) -> Part:
    """Keep a memo."""
    return (yield memo(text))
