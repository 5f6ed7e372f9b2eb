"""Every snippet in README and docs runs, every link leads somewhere, and tables of results are what the code gives."""

import re
import shlex
from pathlib import Path

import gymnasium
import pytest
from typer.testing import CliRunner

from envos.certify.policies import policies
from envos.certify.rollout import play
from envos.cli import app
from envos.envs.scenario import SCENARIOS

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
IDS = [str(path.relative_to(ROOT)) for path in PAGES]
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)")
# Long runs are documented commands of their own; here they are only checked for being well-formed.
SLOW = ("envos demo", "envos certify", "envos challenge", "envos clone", "envos play", "envos sweep", "envos train")


def blocks(path: Path, language: str) -> list[str]:
    return [text for name, text in _BLOCK.findall(path.read_text(encoding="utf-8")) if name == language]


@pytest.mark.parametrize("path", PAGES, ids=IDS)
def test_python_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Python blocks of a page run in order, in one namespace, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    space: dict[str, object] = {"__name__": "snippet"}
    for text in blocks(path, "python"):
        exec(compile(text, str(path), "exec"), space)  # noqa: S102 - our own documentation
    assert len(space) >= 1


@pytest.mark.parametrize("path", PAGES, ids=IDS)
def test_commands_run(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The shell lines of a page: `envos ...` runs (the slow ones: their --help), `make ...` names a target."""
    monkeypatch.chdir(tmp_path)
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    for text in blocks(path, "sh"):
        for line in text.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            if not words:
                continue
            if words[0] == "make":
                assert words[1] in targets, line
            elif words[0] == "envos":
                arguments = [words[1], "--help"] if line.startswith(SLOW) else words[1:]
                result = CliRunner().invoke(app, arguments)
                assert result.exit_code in (0, 1), (line, result.output)


@pytest.mark.parametrize("path", PAGES, ids=IDS)
def test_links_lead_somewhere(path: Path) -> None:
    """A relative link names a file of the repository."""
    for target in _LINK.findall(path.read_text(encoding="utf-8")):
        assert (path.parent / target).exists(), target


_TABLE = re.compile(r"<!-- table: (envos run (\S+) .*?--split (\w+) --anchor (\w+)) -->\n(.*?)<!-- end -->", re.DOTALL)
TABLES = [(path, *found) for path in PAGES for found in _TABLE.findall(path.read_text(encoding="utf-8"))]


@pytest.mark.parametrize(("path", "command", "environment", "split", "anchor", "table"), TABLES)
def test_tables_are_what_the_code_gives(
    path: Path, command: str, environment: str, split: str, anchor: str, table: str
) -> None:
    """Where a policy's expectation is exact, two instances give the table's cell; the whole table has its command."""
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.strip().splitlines()]
    header, rows = lines[0], lines[2:]
    scripted = policies(SCENARIOS[environment].world, SCENARIOS[environment].phenomenon)
    assert {cells[0].strip("`") for cells in rows} == set(scripted)
    env = gymnasium.make(f"envos:{environment}", split=split, anchor=anchor)
    for cells in rows:
        one = scripted[cells[0].strip("`")]
        for condition, shown in zip(header[1:], cells[1:], strict=True):
            if one.shortcut or condition not in SCENARIOS[environment].conditions:
                continue
            for seed in (0, 1):
                verdict = play(env, one.policy, seed, {"condition": condition}).verdict
                assert shown == f"{verdict['fraction']:.2f} ({float(verdict['endpoint']):.2f})", (cells[0], condition)
    env.close()


def test_the_pages_have_what_is_tested() -> None:
    """The patterns of this module find what they are for; a changed notation cannot empty the tests."""
    assert {found[2] for found in TABLES} == set(SCENARIOS)
    assert sum(len(blocks(path, "python")) for path in PAGES) >= 1
    assert sum(len(blocks(path, "sh")) for path in PAGES) >= 2
