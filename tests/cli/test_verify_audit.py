"""`envos verify --audit`: what it prints of archives on which both keys agree, and on which they do not."""

import json
from pathlib import Path

import gymnasium
import pytest
from typer.testing import CliRunner

from envos.certify.policies import policies
from envos.certify.rollout import play
from envos.cli import app
from envos.wrappers.archive import MANIFEST, VERDICT, Archive, manifest, write_json


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Two archives: one that wins, one that does not."""
    env = Archive(gymnasium.make("envos:EnvOS/ClaimsStale-v0", condition="OFF-A"), tmp_path)
    for name in ("late_reread", "reference"):
        play(env, policies("claims")[name].policy, 2)
    env.close()
    return tmp_path


def test_agreement_is_a_table_and_exits_with_zero(root: Path) -> None:
    done = CliRunner().invoke(app, ["verify", str(root), "--audit"])
    assert done.exit_code == 0
    lines = {line.split()[0]: line.split()[1:] for line in done.stdout.splitlines() if line.strip()}
    for term in ("archive", "verdict", "validity", "I1", "I2", "I3", "I5", "endpoint"):
        assert lines[term] == ["2", "2", "0"]
    assert "I4" not in lines


def test_a_difference_is_named_and_exits_with_one(root: Path) -> None:
    folder = next(root.iterdir())
    verdict = json.loads((folder / VERDICT).read_text())
    head = json.loads((folder / MANIFEST).read_text())["head"]
    write_json(folder / VERDICT, {**verdict, "endpoint": not verdict["endpoint"]})
    (folder / MANIFEST).unlink()
    write_json(folder / MANIFEST, manifest(folder, head))
    done = CliRunner().invoke(app, ["verify", str(root), "--audit"])
    assert done.exit_code == 1
    said = str(verdict["endpoint"]).lower(), str(not verdict["endpoint"]).lower()
    assert f"verdict: the verifier says endpoint {said[0]}, the archived one endpoint {said[1]}" in done.stdout
    told = json.loads(CliRunner().invoke(app, ["verify", str(root), "--audit", "--json"]).stdout)
    assert (told["archives"], told["agree"], told["scorable"]) == (2, 1, 1)
    (differing,) = [item for item in told["results"] if not item["agree"]]
    assert [item["term"] for item in differing["differences"]] == ["verdict"]
    assert differing["terms"]["verdict"] is False


def test_a_folder_without_archives_is_bad_input(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["verify", str(tmp_path), "--audit"])
    assert done.exit_code != 0
    assert "no archive" in str(done.exception) + done.output
