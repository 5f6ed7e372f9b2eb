"""The snippets of docs/browser.md run, its figures are those of the results, and every page is pictured."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from envos.envs.scenario import SCENARIOS, WORLDS, load_world

pytestmark = pytest.mark.chromium
ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "browser.md"
PICTURES = ROOT / "docs" / "img"
RESULTS = ROOT / "benchmarks" / "results"
LIMIT = 60_000
"""Bytes of a picture."""


def test_the_snippets_run() -> None:
    found = re.findall(r"^```py\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    space: dict[str, Any] = {"__name__": "snippet"}
    for text in found:
        exec(compile(text, str(PAGE), "exec"), space)  # noqa: S102 - our own documentation
    assert len(found) == 2
    assert space["observation"]["screenshot"].shape == (800, 1280, 3)
    assert space["observations"]["screenshot"].shape == (2, 800, 1280, 3)


def rows(header: str) -> list[list[str]]:
    """The cells of the table that begins with this line, without its header."""
    text = PAGE.read_text(encoding="utf-8")
    assert f"\n{header}\n" in text, header
    lines = text.partition(f"\n{header}\n")[2].split("\n\n")[0].split("\n")
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[1:]]


def test_the_speed_is_what_was_measured() -> None:
    """The table of docs/browser.md against benchmarks/results/browser.json; at least twice as fast as the peer."""
    measured = json.loads((RESULTS / "browser.json").read_text(encoding="utf-8"))["rows"]
    shown = rows("| | EnvOS | must | BrowserGym MiniWoB, delays set to zero | ratio |")
    names = {"step without screenshot": "step", "step with screenshot": "step with screenshot", "reset": "reset"}
    assert {row[0] for row in shown} == set(names)
    for name, ours, must, peer, ratio in shown:
        row = measured[names[name]]
        seconds, other = row["seconds"], row["beside"]["BrowserGym MiniWoB"]
        assert ours.startswith(f"{1e3 * seconds:.0f} ms")
        assert must.startswith(f"{1e3 * row['must']:.0f} ms")
        assert peer == f"{1e3 * other:.0f} ms"
        assert ratio == f"{other / seconds:.1f}x"
        assert other / seconds >= 2


def test_what_many_episodes_leave_is_what_was_measured() -> None:
    """The table of docs/browser.md against benchmarks/results/browser_episodes.json; nothing grows."""
    found = json.loads((RESULTS / "browser_episodes.json").read_text(encoding="utf-8"))
    assert found["episodes"] >= 200
    assert set(found["left"].values()) == {0}
    shown = rows("| after | processes | files | threads | Python, MB | browser, MB |")
    assert [row[0] for row in shown] == [f"{number} episodes" for number in sorted(map(int, found["rows"]))]
    first = found["rows"]["0"]
    for label, *cells in shown:
        row = found["rows"][label.split()[0]]
        assert cells[:3] == [str(row[name]) for name in ("processes", "files", "threads")]
        assert cells[3:] == [f"{row[name]:.0f}" for name in ("python MB", "browser MB")]
        assert [row[name] for name in ("processes", "files", "threads")] == [
            first[name] for name in ("processes", "files", "threads")
        ]


def test_every_page_is_pictured() -> None:
    """A picture of every page of both worlds and of the viewer, each in a page of the docs, and none too large."""
    text = PAGE.read_text(encoding="utf-8") + (ROOT / "docs" / "viewer.md").read_text(encoding="utf-8")
    named = re.findall(r"\]\(img/([a-z-]+\.png)\)", text)
    assert sorted(named) == sorted(path.name for path in PICTURES.iterdir())
    assert all(path.stat().st_size <= LIMIT for path in PICTURES.iterdir())
    for world in WORLDS:
        routes = [route for method, route in load_world(world).routes.handlers if method == "GET"]
        shown = [name for name in named if name.startswith(f"{world}-")]
        assert len(shown) == len(routes) + 1  # and the notice
    assert {line.world for line in SCENARIOS.values()} == set(WORLDS)
    assert {name for name in named if name.startswith("viewer-")} == {
        f"viewer-{part}.png" for part in ("episode", "verdict", "files", "twins", "list")
    }
