"""What the tests of the command line share: calling a command, and a folder of archives."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from envos.cli import app

ENVIRONMENT = "EnvOS/ClinicStale-v0"
Command = Callable[..., Result]


def call(*arguments: object, typed: str | None = None) -> Result:
    """Run a command in this process."""
    return CliRunner().invoke(app, [str(item) for item in arguments], input=typed)


@pytest.fixture(autouse=True)
def no_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """The width is ours: pytest's parallel workers and a developer's shell set COLUMNS."""
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.fixture
def envos() -> Command:
    """Return a function that runs a command in this process."""
    return call


@pytest.fixture
def bad(envos: Command) -> Callable[..., str]:
    """Return a function that runs a command with bad input and returns its one line."""

    def run(*arguments: object) -> str:
        done = envos(*arguments)
        assert (done.exit_code, done.stdout) == (2, ""), done.output
        assert done.stderr.startswith("envos: ")
        assert done.stderr.count("\n") == 1
        return done.stderr

    return run


@pytest.fixture
def document(envos: Command) -> Callable[..., Any]:
    """Return a function that runs a command with `--json` and returns its document; `code` is the exit code."""

    def run(*arguments: object, code: int = 0, typed: str | None = None) -> Any:
        done = envos(*arguments, "--json", typed=typed)
        assert done.exit_code == code, done.output
        assert "\x1b" not in done.stdout
        return json.loads(done.stdout)

    return run


@pytest.fixture
def process() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Return a function that runs the installed command in its own process."""

    def run(*arguments: object, cwd: Path | None = None, **environ: str) -> subprocess.CompletedProcess[str]:
        command = [str(Path(sys.executable).with_name("envos")), *map(str, arguments)]
        settings = {**os.environ, **environ}
        return subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd, env=settings, timeout=120)

    return run


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Archives of two policies on one seed in two conditions; to be read only."""
    root = tmp_path_factory.mktemp("recorded") / "archives"
    chosen = ("--policy", "reference", "--policy", "no_op", "--condition", "L0", "--condition", "OFF-A")
    done = call("run", ENVIRONMENT, *chosen, "--seeds", "7", "--split", "test", "--out", root)
    assert done.exit_code == 0, done.output
    return root


@pytest.fixture
def archived(recorded: Path, tmp_path: Path) -> Path:
    """A copy of the recorded archives, to be damaged."""
    return shutil.copytree(recorded, tmp_path / "archives")
