"""`envos view`: archived episodes as a local web page, or one of them (or two side by side) as one file."""

from collections.abc import Mapping
from itertools import zip_longest
from pathlib import Path
from threading import Event
from typing import Any

from markupsafe import Markup, escape

from envos.cli_arguments import new_file
from envos.cli_output import console
from envos.cli_verify import Rederived, folders, rederive_all
from envos.errors import UsageError
from envos.web_document import document, plain
from envos.web_replay import replay_folder
from envos.web_server import Call, Response, Server, text

_NAMED = ("environment", "condition", "split", "seed", "policy")


def view(folder: Path, other: Path | None, export: Path | None, port: int) -> None:
    """Show archives until Ctrl-C, or write the one document that shows them."""
    chosen = [_only(path) for path in (folder, other) if path is not None] if export or other else []
    if export is not None:
        path = new_file(export)
        body, _ = page(chosen)
        path.write_text(body, encoding="utf-8")
        console().print(f"wrote {path} ({path.stat().st_size / 1024:.0f} KB)", soft_wrap=True)
        return
    site = Site(chosen) if chosen else Site.of(folder)
    server = Server(site.answer, port)
    console().print(f"The replay is at {server.url} (Ctrl-C stops it)", soft_wrap=True)
    server.until(Event())


def _only(path: Path) -> Path:
    """The one archive at a path. Raises UsageError when there are several."""
    found = folders(path)
    if len(found) > 1:
        shown = ", ".join(item.name for item in found[:3])
        raise UsageError(f"{path} holds {len(found)} archives; name one of them, such as {shown}")
    return found[0]


def page(chosen: list[Path]) -> tuple[str, str]:
    """The document of one archive, or of two side by side, and its content security policy."""
    episodes = [replay_folder(path) for path in chosen]
    title = " and ".join(path.name for path in chosen)
    return document(f"EnvOS replay: {title}", "view", {"episodes": episodes, "parts": parts(episodes)})


def parts(episodes: list[dict[str, Any]]) -> int | None:
    """The first step in which two episodes differ in action or observation; None for one, and for equal ones."""
    if len(episodes) < 2:
        return None
    for one, other in zip_longest(episodes[0]["steps"], episodes[1]["steps"]):
        if one is None or other is None or _seen(one) != _seen(other):
            return int((one or other)["step"])
    return None


def _seen(step: Mapping[str, Any]) -> tuple[Any, ...]:
    action, frame = step["action"], step["frame"]
    return step["step"], action and action["raw"], frame and frame["sha256"]


class Site:
    """The pages of `envos view`: a list of archives, one archive, two of them."""

    def __init__(self, found: list[Path], verified: list[Rederived] | None = None) -> None:
        self.found = found
        self.verified = verified

    @classmethod
    def of(cls, folder: Path) -> "Site":
        """The site of a folder: its archives, or the one that it is."""
        found = folders(folder)
        return cls(found, rederive_all(folder) if len(found) > 1 else None)

    def answer(self, call: Call) -> Response:
        """Answer a request."""
        if call.method != "GET":
            return text(405, "This page is only to be looked at.")
        if call.path == "/" and self.verified is None:
            return _html(*page(self.found))
        if call.path == "/":
            return _html(*plain("EnvOS replays", index(self.verified or [])))
        if call.path == "/one":
            return _html(*page([self._archive(call.query.get("at", ""))]))
        if call.path == "/two":
            return _html(*page([self._archive(call.query.get(side, "")) for side in ("left", "right")]))
        return text(404, "There is no such page.")

    def _archive(self, number: str) -> Path:
        if not (number.isascii() and number.isdecimal() and len(number) < 9 and int(number) < len(self.found)):
            raise UsageError("there is no such archive")
        return self.found[int(number)]


def _html(body: str, policy: str) -> Response:
    return Response(200, "text/html", body, policy)


def index(done: list[Rederived]) -> str:
    """The list of archives, with their verdicts derived again, and a form that sets two of them side by side."""
    rows = "".join(_row(number, item, done) for number, item in enumerate(done))
    names = "".join(f'<th scope="col">{name}</th>' for name in ("archive", *_NAMED, "verdict", "files", "side by side"))
    return (
        f'<header class="top"><h1>EnvOS replays</h1><div class="facts">{len(done)} archives</div></header>'
        '<main class="index"><form action="two" method="get">'
        "<p>Choose an archive, or a left and a right one. Twins are the same instance and policy under another "
        'condition. <button class="main">Show the two side by side</button></p>'
        f"<table><thead><tr>{names}</tr></thead><tbody>{rows}</tbody></table></form></main>"
    )


def _row(number: int, item: Rederived, done: list[Rederived]) -> str:
    verdict = item.verdict
    if not verdict["counted"]:
        kind, said = "warn", f"{verdict['validity']}: not counted"
    elif verdict["endpoint"]:
        kind, said = "good", "success"
    else:
        kind, said = "bad", "failure"
    state = ("good", "intact") if item.holds else ("bad", "problems" if item.problems else "verdict moved")
    cells = "".join(f"<td>{escape(str(item.identity.get(name, ''))[:60])}</td>" for name in _NAMED)
    choice = "".join(_choice(side, number, at) for side, at in (("left", 0), ("right", 1)))
    twin = next((place for place, other in enumerate(done) if place > number and _twins(item, other)), None)
    link = "" if twin is None else f'<a href="two?left={number}&amp;right={twin}">twin</a>'
    return (
        f'<tr><td><a href="one?at={number}">{escape(item.archive)}</a></td>{cells}'
        f"<td>{_chip(kind, said)}</td><td>{_chip(*state)}</td><td>{choice}{link}</td></tr>"
    )


def _chip(kind: str, text: str) -> Markup:
    return Markup('<span class="chip {}">{}</span>').format(kind, text)


def _choice(side: str, number: int, at: int) -> str:
    checked = " checked" if number == at else ""
    return f'<label><input type="radio" name="{side}" value="{number}"{checked}> {side}</label> '


def _twins(one: Rederived, other: Rederived) -> bool:
    same = ("environment", "split", "seed", "policy", "anchor")
    differs = one.identity.get("condition") != other.identity.get("condition")
    return differs and all(one.identity.get(name) == other.identity.get(name) for name in same)
