"""`driver="chromium"` in the processes of a Ray cluster."""

import gymnasium
import pytest

pytest.importorskip("ray", reason="Ray is an extra: envos[rllib]")

from envos.train.spread import spread

ACTIONS = ('click("2")', 'memo("seen")', "go_back()", 'report(location="?", start="?", reference="?")')


def _digest(given: tuple[str, int]) -> str:
    driver, seed = given
    env = gymnasium.make("envos:EnvOS/ClinicStale-v0", driver=driver, condition="OFF-A", disable_env_checker=True)
    try:
        env.reset(seed=seed)
        for action in ACTIONS:
            env.step(action)
        evidence = env.unwrapped.evidence()  # type: ignore[attr-defined]
        return str(evidence.digest)
    finally:
        env.close()


def test_workers_have_browsers_of_their_own() -> None:
    """Two workers, a browser each: the same digests as in process and here."""
    found = dict(spread(_digest, [("chromium", 1), ("chromium", 2)], workers=2))
    assert found == {0: _digest(("inprocess", 1)), 1: _digest(("inprocess", 2))}
    assert found[0] != found[1]
