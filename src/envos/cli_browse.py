"""`envos play ID --browser`: a person plays an episode in their own browser."""

import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from envos.cli_arguments import new_folder
from envos.cli_output import console, document
from envos.cli_play import change, changed, outcome, tell
from envos.envs.env import EnvOS
from envos.envs.scenario import check_anchor, check_condition, scenario
from envos.envs.streams import check_seed, check_split
from envos.web_pages import make
from envos.web_play import Session
from envos.web_server import Server
from envos.wrappers.archive import Archive


def browse_episode(
    environment: str, split: str, seed: int, condition: str, anchor: str, out: Path | None, as_json: bool, port: int
) -> None:
    """Serve an episode to a person's browser until it is closed, or Ctrl-C; tell the verdict here as well."""
    line = scenario(environment)
    check_condition(line, condition)
    check_seed(seed)
    shown = console(sys.stderr if as_json else sys.stdout)
    with TemporaryDirectory(prefix="envos-play-") as scratch:
        inner, driver = make(line.id, condition, check_split(split), check_anchor(anchor))
        env = Archive(inner, Path(scratch) if out is None else new_folder(out))
        try:
            session = Session(env, driver, seed, lambda ended: changed(change(ended)), lambda: _folder(env))
            server = Server(session.answer, port)
            shown.print(f"The episode is at {server.url} (Ctrl-C stops it)", soft_wrap=True)
            server.until(session.closed)
            _tell(inner, session.verdict, as_json, None if out is None else env.folder)
        finally:
            env.close()


def _folder(env: Archive) -> Path:
    assert env.folder is not None  # noqa: S101 - a reset has made it
    return env.folder


def _tell(env: EnvOS, verdict: Mapping[str, Any] | None, as_json: bool, folder: Path | None) -> None:
    told = change(env) if verdict is not None else {}
    shown = console(sys.stderr if as_json else sys.stdout)
    if as_json:
        document(outcome(env, verdict, told))
    elif verdict is None:
        shown.print("Stopped: the episode did not end, so there is no verdict.")
    else:
        tell(shown, verdict, told)
    if folder is not None and verdict is not None:
        shown.print(f"The archive is {folder}", soft_wrap=True)
