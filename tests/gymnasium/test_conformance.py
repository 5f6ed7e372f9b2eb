"""Gymnasium conformance: every registered environment, and the traps that this interface has (E27, E28, E29)."""

import copy
import json
import pickle
import subprocess
import sys
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode

import envos
from envos.envs.env import EnvOS
from envos.envs.scenario import SCENARIOS
from envos.envs.spaces import ActionText, AnyText
from envos.errors import UnknownName, UsageError

IDS = tuple(SCENARIOS)
NOOPS = ["noop()"] * 3


@pytest.fixture(params=IDS)
def environment(request: pytest.FixtureRequest) -> str:
    """Each registered id."""
    return str(request.param)


def make(environment: str, **kwargs: Any) -> gymnasium.Env[Any, str]:
    return gymnasium.make(f"envos:{environment}", **kwargs)


def test_check_env_is_clean(environment: str) -> None:
    """E27: Gymnasium's own checker passes; warnings are errors here."""
    env = make(environment).unwrapped
    check_env(env)
    assert isinstance(env, EnvOS)
    env.close()


@pytest.mark.parametrize("anchor", ["first", "any"])
def test_observations_stay_in_the_space(environment: str, anchor: str) -> None:
    """E27, E29: each observation is in the space, steps count up by one, the episode is named."""
    env = make(environment, anchor=anchor)
    observation, info = env.reset(seed=3)
    assert env.observation_space.contains(observation)
    assert info == {"episode": "train/3", "step": 0}
    env.action_space.seed(5)
    for step in range(1, 30):
        observation, reward, terminated, truncated, info = env.step(env.action_space.sample())
        assert env.observation_space.contains(observation)
        assert (reward, terminated, truncated) == (0.0, False, False)
        assert info == {"episode": "train/3", "step": step}
    env.close()


def test_every_declared_action_does_something(environment: str) -> None:
    """E28: each verb of the grammar is accepted; an undeclared one is an error line and changes nothing."""
    env = make(environment)
    observation, _ = env.reset(seed=1)
    assert observation["error"] == ""
    for action in ('goto("/")', "go_back()", 'memo("x")', "noop()", 'click("1")'):
        observation, *_ = env.step(action)
        assert observation["error"] == "" or action == "go_back()", (action, observation["error"])
    observation, *_ = env.step('hover("1")')
    assert "hover" in observation["error"]
    env.close()


def test_objects_are_fresh(environment: str) -> None:
    """No observation or info is handed out twice, so that what a caller keeps never changes under him."""
    env = make(environment)
    first, info = env.reset(seed=1)
    second, _, _, _, info_2 = env.step("noop()")
    third, _, _, _, info_3 = env.step("noop()")
    assert second is not third
    assert second["budget_left"] is not third["budget_left"]
    assert info is not info_2 is not info_3
    assert int(first["budget_left"][0]) == SCENARIOS[environment].budget
    assert int(third["budget_left"][0]) == SCENARIOS[environment].budget - 2
    env.close()


def test_steps_after_the_end_pay_nothing(environment: str) -> None:
    """A step after the end returns an error line, no reward and no verdict, and records nothing."""
    env = make(environment)
    env.reset(seed=1)
    field = next(iter(env.unwrapped.world.report))  # type: ignore[attr-defined]
    _, _, terminated, truncated, info = env.step(f'report({field}="nowhere")')
    assert terminated
    assert not truncated
    assert "verdict" in info
    before = len(env.unwrapped.ledger)  # type: ignore[attr-defined]
    observation, reward, terminated, truncated, info = env.step("noop()")
    assert (reward, terminated, truncated) == (0.0, True, False)
    assert "over" in observation["error"]
    assert "verdict" not in info
    assert len(env.unwrapped.ledger) == before  # type: ignore[attr-defined]
    env.close()


def test_the_budget_truncates(environment: str) -> None:
    """The last step of the budget truncates, with the verdict in its info and nowhere before."""
    env = make(environment)
    env.reset(seed=1)
    budget = SCENARIOS[environment].budget
    seen = [env.step("noop()") for _ in range(budget)]
    assert [truncated for _, _, _, truncated, _ in seen] == [False] * (budget - 1) + [True]
    assert ["verdict" in info for *_, info in seen] == [False] * (budget - 1) + [True]
    env.close()


def test_spec_round_trip(environment: str) -> None:
    """The spec goes through JSON and makes an equal environment."""
    env = make(environment, condition="OFF-A" if "OFF-A" in SCENARIOS[environment].conditions else "mixed")
    assert env.spec is not None
    text = env.spec.to_json()
    again = gymnasium.envs.registration.EnvSpec.from_json(text)
    assert again.kwargs == env.spec.kwargs
    twin = gymnasium.make(again)
    first, second = env.reset(seed=4)[0], twin.reset(seed=4)[0]
    assert first["page"] == second["page"]
    assert first["goal"] == second["goal"]
    json.loads(text)
    env.close()
    twin.close()


def test_ansi_rendering(environment: str) -> None:
    """render_mode "ansi" gives the page as text; another mode is refused with the valid one."""
    env = make(environment, render_mode="ansi")
    env.reset(seed=1)
    shown = env.render()
    assert isinstance(shown, str)
    assert "[1] " in shown
    env.close()


def test_bad_arguments(environment: str) -> None:
    """A wrong name lists the valid ones and the nearest match."""
    with pytest.raises(UnknownName, match=r"'ofa'.*valid: .*L0"):
        make(environment, condition="ofa")
    with pytest.raises(UnknownName, match="did you mean 'train'"):
        make(environment, split="trian")
    with pytest.raises(UnknownName, match="did you mean 'first'"):
        make(environment, anchor="frst")
    with pytest.raises(UnknownName, match="did you mean 'condition'"):
        make(environment, conditon="L0")
    env = make(environment)
    with pytest.raises(UnknownName, match="did you mean 'condition'"):
        env.reset(seed=1, options={"conditon": "L0"})
    with pytest.raises(UsageError, match="is a str; got int"):
        env.reset(seed=1, options={"condition": 3})
    with pytest.raises(UsageError, match="number from 0"):
        env.unwrapped.reset(seed=-1)
    env.close()


def test_step_before_reset(environment: str) -> None:
    """A step before the first reset says what to do."""
    with pytest.raises(UsageError, match="call reset"):
        make(environment).unwrapped.step("noop()")


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_sync_vector(environment: str, mode: AutoresetMode) -> None:
    """SyncVectorEnv steps, and pays a finished episode once, in each autoreset mode."""
    envs = gymnasium.make_vec(
        f"envos:{environment}", num_envs=2, vectorization_mode="sync", vector_kwargs={"autoreset_mode": mode}
    )
    observation, _ = envs.reset(seed=[1, 2])
    assert len(observation["page"]) == 2
    budget = SCENARIOS[environment].budget
    for _ in range(budget):
        observation, rewards, _, truncated, _ = envs.step(("noop()", "noop()"))
    assert truncated.all()
    assert np.allclose(rewards, 0.0)
    if mode is AutoresetMode.DISABLED:
        envs.reset(options={"reset_mask": np.array([True, True])})
    observation, _, _, truncated, _ = envs.step(("noop()", "noop()"))
    assert not truncated.any()
    assert len(observation["page"]) == 2
    assert all(page.startswith("# ") for page in observation["page"])
    envs.close()


def test_async_vector_equals_sync(environment: str) -> None:
    """AsyncVectorEnv without shared memory gives the same texts as SyncVectorEnv.

    Gymnasium's shared memory garbles text (seen on 1.2.2 and 1.4.0), so it has to be off.
    """
    pages = {}
    for mode, extra in (("sync", {}), ("async", {"shared_memory": False})):
        envs = gymnasium.make_vec(f"envos:{environment}", num_envs=2, vectorization_mode=mode, vector_kwargs=extra)
        envs.reset(seed=[1, 2])
        observation, *_ = envs.step(('click("2")', 'click("3")'))
        pages[mode] = (observation["page"], observation["goal"])
        envs.close()
    assert tuple(pages["sync"][0]) == tuple(pages["async"][0])
    assert tuple(pages["sync"][1]) == tuple(pages["async"][1])


def test_text_space_takes_any_character() -> None:
    """Our text space refuses by type and length only, and holds the empty text."""
    space = AnyText(5)
    assert all(space.contains(text) for text in ("", " ", "\n", "é\u202e😀", "12345"))
    assert not space.contains("123456")
    assert not space.contains(b"123")
    assert ActionText(100).contains('click("1")')


def test_import_is_light_and_make_needs_no_import() -> None:
    """`gym.make("envos:...")` works in a process that never imported envos itself."""
    code = (
        "import gymnasium, sys; env = gymnasium.make('envos:EnvOS/ClinicStale-v0', condition='OFF-A', split='test');"
        "print(env.reset(seed=0)[1]['episode'], 'envs' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["test/0", "False"]
    assert envos.__version__


def test_an_environment_is_not_copied_or_pickled() -> None:
    """Two environments on one open database would write into each other's episodes."""
    env = gymnasium.make("envos:EnvOS/ClinicStale-v0")
    for attempt in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(UsageError, match=r"snapshot\(\) and restore\(\)"):
            attempt(env.unwrapped)
    env.close()


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_vector_environment_hands_on_whole_verdicts(mode: str) -> None:
    """One episode that counts and one that does not, ended by the same step: None stays None, in either order."""
    from envos.certify.policies import policies

    def made(condition: str) -> Any:
        return lambda: make("EnvOS/ClinicStale-v0", condition=condition, disable_env_checker=True)

    kind: Any = gymnasium.vector.SyncVectorEnv
    if mode == "async":
        kind = partial(gymnasium.vector.AsyncVectorEnv, shared_memory=False)
    for counting in (0, 1):
        # The reference at its report, and a report at once of somebody who was shown nothing.
        single = make("EnvOS/ClinicStale-v0", condition="L0")
        steps = policies("clinic")["reference"].policy(single.reset(seed=3)[0])
        actions = [next(steps)]
        while not actions[-1].startswith("report"):
            actions.append(steps.send(single.step(actions[-1])[0]))
        single.close()
        envs = kind([made("L0"), made("L0")])
        envs.reset(seed=[3, 3])
        for action in actions:
            other = 'report(location="?", start="?", reference="?")' if action == actions[-1] else "noop()"
            pair = (action, other) if counting == 0 else (other, action)
            _, rewards, terminated, _, infos = envs.step(pair)
        assert terminated.all()
        one, two = (infos["verdict"][place] for place in (counting, 1 - counting))
        assert (one["endpoint"], one["validity"], rewards[counting]) == (True, "counted", 1.0)
        assert (two["endpoint"], two["fraction"], two["validity"]) == (None, None, "not_triggered")
        assert dict(one)["measures"]["steps"] == len(actions)
        envs.close()
