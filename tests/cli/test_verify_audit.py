"""`envos verify --audit`: what it prints of archives on which both keys agree, and on which they do not."""

import json
import shutil
from pathlib import Path

import gymnasium
import pytest
from typer.testing import CliRunner

from envos.certify.audit import outcome
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


def test_a_zip_and_a_run_that_holds_one(root: Path) -> None:
    first, second = sorted(root.iterdir())
    packed = shutil.make_archive(str(first), "zip", first)
    done = CliRunner().invoke(app, ["verify", packed, "--audit", "--json"])
    assert done.exit_code == 0
    told = json.loads(done.stdout)
    assert (told["archives"], told["scorable"]) == (1, 1)
    shutil.rmtree(first)
    told = json.loads(CliRunner().invoke(app, ["verify", str(root), "--audit", "--json"]).stdout)
    assert [item["archive"] for item in told["results"]] == [f"{first.name}.zip", second.name]
    shutil.rmtree(second)
    assert json.loads(CliRunner().invoke(app, ["verify", str(root), "--audit", "--json"]).stdout)["agree"] == 1
    (root / "0007-broken.zip").write_bytes(b"PK")
    done = CliRunner().invoke(app, ["verify", str(root), "--audit"])
    assert done.exit_code == 1
    assert "differ: archive: the verifier says harness_error, the validity auditor cannot use it" in done.stdout


def test_a_file_that_is_no_zip_is_bad_input(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no archive")
    done = CliRunner().invoke(app, ["verify", str(tmp_path / "notes.txt"), "--audit"])
    assert done.exit_code != 0
    assert "it is neither a folder nor a zip" in str(done.exception) + done.output


def test_an_environment_that_an_auditor_does_not_know_is_never_clean(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outcome, "RULES", {})
    done = CliRunner().invoke(app, ["verify", str(root), "--audit"])
    assert done.exit_code == 1
    assert "no rules for environment 'EnvOS/ClaimsStale-v0'" in done.stdout
