"""The pages as a person has them: every control can be reached, every text read, and nothing runs off the side."""

from collections.abc import Iterator
from typing import Any

import gymnasium
import pytest
from contrast import CONTRAST

from envos.certify.policies import policies
from envos.envs.drivers.chromium import Chromium
from envos.envs.env import EnvOS
from envos.envs.scenario import SCENARIOS

pytestmark = pytest.mark.chromium
CONTROLS = (
    "[...document.querySelectorAll('a, button, input:not([type=hidden]), select')].filter(e => !e.closest('[inert]'))"
)


@pytest.fixture(params=["EnvOS/ClinicStale-v0", "EnvOS/ClaimsStale-v0"])
def env(request: pytest.FixtureRequest) -> Iterator[EnvOS]:
    """One environment of each world."""
    made = gymnasium.make(f"envos:{request.param}", driver="chromium", condition="L2", screenshot=False, anchor="first")
    assert isinstance(made.unwrapped, EnvOS)
    yield made.unwrapped
    made.close()


def tab(env: EnvOS) -> Any:
    """The page in the browser."""
    driver = env._driver
    assert isinstance(driver, Chromium)
    return driver._page()


def check(env: EnvOS) -> None:
    """Every element of the page as it stands can be clicked, every text read, and it is as wide as the window."""
    page, view = tab(env), env._seen
    for element in view.elements:
        assert page._run(f"envos.locate({element.index})") is not None, (env._shown.url, element)
    assert page._run(f"{CONTROLS}.length") == len(view.elements)
    assert page._run("document.documentElement.scrollWidth") <= 1280, env._shown.url
    assert page._run(f"({CONTRAST})().length") == 0, env._shown.url


def test_every_control_can_be_clicked(env: EnvOS) -> None:
    """On every page of an episode with a notice in it, and of every route."""
    scripted = policies(SCENARIOS[env.scenario.id].world)["late_reread"].policy
    observation, _ = env.reset(seed=4)
    steps, over, notices = scripted(dict(observation)), False, 0
    action = next(steps)
    while not over:
        observation, _, terminated, truncated, info = env.step(action)
        over = terminated or truncated
        notices += bool(observation["notice"])
        check(env)
        if not over:
            action = steps.send(dict(observation))
    assert info["verdict"]["endpoint"] is True
    assert notices > 0
    env.reset(seed=5)
    for method, pattern in env.world.routes.handlers:
        if method == "GET":
            env.step(f'goto("{pattern.replace("{id}", "1")}")')
            check(env)


def test_the_tab_key_goes_through_all_controls_in_order(env: EnvOS) -> None:
    """In the order of the element list, each with a visible ring; radio buttons of a group are one stop."""
    env.reset(seed=6)
    for path in ("/", "/inbox", "/patients/1" if env.world.name == "clinic" else "/claims/1"):
        env.step(f'goto("{path}")')
        page, stops = tab(env), []
        for _ in env._seen.elements:
            key = {"key": "Tab", "code": "Tab", "windowsVirtualKeyCode": 9}
            page._session.cast("Input.dispatchKeyEvent", type="rawKeyDown", **key)
            page._session.settle(page._session.cast("Input.dispatchKeyEvent", type="keyUp", **key))
            stops.append(page._run(f"{CONTROLS}.indexOf(document.activeElement) + 1"))
            assert page._run("getComputedStyle(document.activeElement).outlineStyle") == "solid"
        assert stops == [element.index for element in env._seen.elements]


def test_a_notice_holds_the_focus(env: EnvOS) -> None:
    """It has the focus when it appears, and the page beneath cannot be reached by key."""
    scripted = policies(SCENARIOS[env.scenario.id].world)["late_reread"].policy
    observation, _ = env.reset(seed=4)
    steps = scripted(dict(observation))
    action = next(steps)
    while not observation["notice"]:
        observation, *_ = env.step(action)
        action = "" if observation["notice"] else steps.send(dict(observation))
    tab(env).picture()  # a browser gives the focus when it paints the page
    assert tab(env)._run("document.activeElement.textContent") == "Acknowledge"
    assert tab(env)._run(f"{CONTROLS}.length") == 1
