"""Archives: the verdict of the folder is that of the live episode, and a killed run never leaves a false success."""

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import gymnasium
import pytest

from envos.certify.policies import policies
from envos.certify.rollout import play
from envos.envs.env import EnvOS
from envos.envs.scenario import SCENARIOS
from envos.errors import EvidenceError, UsageError
from envos.rewards.verdict import verify
from envos.wrappers.archive import LEDGER, MANIFEST, POST, PRE, VERDICT, Archive, archives, read_archive

IDS = tuple(SCENARIOS)
RECORDER = """
import sys, gymnasium
from envos.certify.policies import policies
from envos.certify.rollout import play
from envos.wrappers.archive import Archive
env = Archive(gymnasium.make("envos:EnvOS/ClinicStale-v0", condition="OFF-A", anchor="first"), sys.argv[1])
print("ready", flush=True)
seed = 0
while True:
    play(env, policies("clinic")["late_reread"].policy, seed)
    seed += 1
"""


@pytest.mark.parametrize("environment", IDS)
def test_the_folder_gives_the_live_verdict(environment: str, tmp_path: Path) -> None:
    """Every condition and every scripted policy: verdict and digest from disk equal those of the live episode."""
    line = SCENARIOS[environment]
    env = Archive(gymnasium.make(f"envos:{environment}", split="validation"), tmp_path / "run")
    inner = env.unwrapped
    assert isinstance(inner, EnvOS)
    for condition in line.conditions:
        for name, scripted in policies(line.world, line.phenomenon).items():
            episode = play(env, scripted.policy, 6, {"condition": condition, "policy": name})
            assert env.folder is not None
            evidence = read_archive(env.folder)
            assert evidence.problems == ()
            assert evidence.digest == inner.evidence().digest
            assert verify(evidence).info() == episode.verdict
            assert json.loads((env.folder / VERDICT).read_text()) == json.loads(json.dumps(episode.verdict))
    assert len(archives(tmp_path / "run")) == len(line.conditions) * len(policies(line.world, line.phenomenon))
    env.close()


def test_kill_leaves_no_false_success(tmp_path: Path) -> None:
    """kill -9 at 20 random moments: each archive is readable, and complete or a harness_error."""
    chance = random.Random(7)  # noqa: S311 - moments of a kill, not of an episode
    kinds = {"complete": 0, "harness_error": 0}
    for moment in range(20):
        root = tmp_path / str(moment)
        process = subprocess.Popen([sys.executable, "-c", RECORDER, str(root)], stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(0.02 + 0.3 * chance.random())
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
        for folder in sorted(root.iterdir()):
            if not (folder / LEDGER).exists():
                continue
            verdict = verify(read_archive(folder))
            if (folder / MANIFEST).exists():
                assert verdict.validity == "counted"
                kinds["complete"] += 1
            else:
                assert verdict.validity == "harness_error"
                assert not verdict.counted
                assert verdict.reward == 0.0
                kinds["harness_error"] += 1
    assert min(kinds.values()) > 0


@pytest.mark.parametrize("name", [LEDGER, PRE, POST, VERDICT, MANIFEST])
@pytest.mark.parametrize("damage", ["flip", "truncate", "remove", "empty"])
def test_any_damage_is_no_verdict(name: str, damage: str, tmp_path: Path) -> None:
    """E36, E37: a flipped byte, a truncated, a removed and an empty file each make the episode uncounted."""
    env = Archive(gymnasium.make("envos:EnvOS/ClinicStale-v0", condition="L0"), tmp_path)
    assert play(env, policies("clinic")["reference"].policy, 1).reward == 1.0
    assert env.folder is not None
    path = env.folder / name
    data = path.read_bytes()
    if damage == "remove":
        path.unlink()
        if name == LEDGER:
            with pytest.raises(EvidenceError, match="no archive"):
                read_archive(env.folder)
            return
    else:
        middle = len(data) // 2
        flipped = data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]
        path.write_bytes({"flip": flipped, "truncate": data[: middle or 1], "empty": b""}[damage])
    verdict = verify(read_archive(env.folder))
    assert verdict.validity == "harness_error"
    assert verdict.endpoint is None
    env.close()


def test_added_file_and_wrong_format(tmp_path: Path) -> None:
    """E37: a file that is not in the manifest, and a format of another version, are rejected."""
    env = Archive(gymnasium.make("envos:EnvOS/ClinicStale-v0", condition="L0"), tmp_path)
    play(env, policies("clinic")["reference"].policy, 1)
    assert env.folder is not None
    (env.folder / "extra.json").write_text("{}")
    assert any(problem.startswith("file_added") for problem in read_archive(env.folder).problems)
    manifest = json.loads((env.folder / MANIFEST).read_text())
    listed = {**manifest["files"], "extra.json": hashlib.sha256(b"{}").hexdigest()}
    (env.folder / MANIFEST).write_text(json.dumps({**manifest, "files": listed}))
    assert [problem.partition(":")[0] for problem in read_archive(env.folder).problems] == ["file_unknown"]
    (env.folder / MANIFEST).write_text(json.dumps(manifest))
    (env.folder / "extra.json").unlink()
    assert verify(read_archive(env.folder)).counted
    (env.folder / MANIFEST).write_text(json.dumps({**manifest, "format": "0"}))
    assert any(problem.startswith("format") for problem in read_archive(env.folder).problems)
    env.close()


def test_an_archive_that_ends_early_is_followed_by_the_next(tmp_path: Path) -> None:
    """A reset in mid-episode leaves the archive before it readable and uncounted; nothing is overwritten."""
    env = Archive(gymnasium.make("envos:EnvOS/ClinicStale-v0", condition="L0"), tmp_path)
    env.reset(seed=1)
    env.step("noop()")
    play(env, policies("clinic")["reference"].policy, 1)
    env.close()
    again = Archive(gymnasium.make("envos:EnvOS/ClinicStale-v0", condition="L0"), tmp_path)
    play(again, policies("clinic")["reference"].policy, 1)
    again.close()
    found = [verify(read_archive(folder)).validity for folder in archives(tmp_path)]
    assert found == ["harness_error", "counted", "counted"]


def test_bad_roots(tmp_path: Path) -> None:
    """A root that is a file and a folder without archives are refused in words."""
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="is a file"):
        Archive(gymnasium.make("envos:EnvOS/ClinicStale-v0"), tmp_path / "file")
    with pytest.raises(UsageError, match="no archive in"):
        archives(tmp_path)
    with pytest.raises(UsageError, match="wraps an EnvOS environment"):
        Archive(gymnasium.make("CartPole-v1"), tmp_path)
