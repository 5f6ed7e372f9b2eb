"""The same id, split, seed and actions give the same digest everywhere (E22, E23, E25)."""

import json
import os
import subprocess
import sys
from pathlib import Path

import gymnasium
import pytest

from envos.certify.policies import policies, winner
from envos.certify.rollout import play
from envos.envs.env import EnvOS
from envos.envs.scenario import SCENARIOS
from envos.envs.streams import SPLITS

IDS = tuple(SCENARIOS)
SCRIPT = """
import json, sys, gymnasium
from envos.certify.policies import policies
from envos.certify.rollout import play
from envos.envs.scenario import SCENARIOS
count = int(sys.argv[1])
digests = []
for environment, line in SCENARIOS.items():
    env = gymnasium.make(f"envos:{environment}", split="test")
    names = sorted(policies(line.world, line.phenomenon))
    for seed in range(count):
        policy = policies(line.world, line.phenomenon)[names[seed % len(names)]].policy
        play(env, policy, seed)
        digests.append(env.unwrapped.evidence().digest)
print(json.dumps(digests))
"""


def digests(tmp_path: Path, count: int, **environment: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(count)],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env={**os.environ, **environment},
    )
    found: list[str] = json.loads(done.stdout)
    return found


def test_hash_seed_time_zone_and_locale_do_not_matter(tmp_path: Path) -> None:
    """E23: 100 digests of two processes are equal, whatever their hash seed, time zone, locale and folder."""
    count = 100
    first = digests(tmp_path, count, PYTHONHASHSEED="0", TZ="UTC", LC_ALL="C")
    second = digests(Path.cwd(), count, PYTHONHASHSEED="1", TZ="Asia/Kathmandu", LC_ALL="C.UTF-8")
    assert len(set(first)) == count * len(IDS)
    assert first == second


@pytest.mark.parametrize("environment", IDS)
def test_seed_is_honoured(environment: str) -> None:
    """E22: equal seeds give equal episodes, other seeds and other splits other instances."""
    line = SCENARIOS[environment]
    policy = policies(line.world, line.phenomenon)["reference"].policy
    seen = {}
    for split in SPLITS:
        env = gymnasium.make(f"envos:{environment}", split=split, condition="L0", anchor="first")
        inner = env.unwrapped
        assert isinstance(inner, EnvOS)
        for seed in (0, 1, 2):
            first = play(env, policy, seed)
            digest = inner.evidence().digest
            assert play(env, policy, seed) == first
            assert inner.evidence().digest == digest
            seen[split, seed] = (inner.instance.digest, inner.instance.brief)
        env.close()
    assert len(set(seen.values())) == len(seen)


@pytest.mark.parametrize("environment", IDS)
def test_replay_of_the_actions_gives_the_digest(environment: str) -> None:
    """E25: the archived actions, played again, lead to the same digest; one other action does not."""
    best = winner(SCENARIOS[environment])
    assert best is not None
    env = gymnasium.make(f"envos:{environment}", split="train")
    inner = env.unwrapped
    assert isinstance(inner, EnvOS)
    episode = play(env, best.policy, 9, {"condition": "L0", "anchor": "first"})
    digest = inner.evidence().digest
    for changed in (False, True):
        env.reset(seed=9, options={"condition": "L0", "anchor": "first"})
        for number, action in enumerate(episode.actions):
            env.step("noop()" if changed and number == 3 else action)
        assert (inner.evidence().digest == digest) is not changed
    env.close()


def test_a_seed_drawn_by_reset_follows_from_the_last(tmp_path: Path) -> None:
    """E22: reset() without a seed goes on from the seeded generator, as Gymnasium's contract has it."""
    runs = []
    for _ in range(2):
        env = gymnasium.make("envos:EnvOS/ClinicStale-v0")
        env.reset(seed=11)
        runs.append([env.reset()[1]["episode"] for _ in range(4)])
        env.close()
    assert runs[0] == runs[1]
    assert len(set(runs[0])) == 4
