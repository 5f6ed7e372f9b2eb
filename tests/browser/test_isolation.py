"""What the page can reach: its own world and nothing else; and what the browser asks for by itself, which is nobody's.

The pages hold no script. These tests run some in the page, as a page that was broken into would.
"""

import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
import pytest
from side_by_side import Pair

from envos.envs.action import click
from envos.envs.drivers import chromium
from envos.envs.drivers.chromium import Chromium
from envos.envs.env import EnvOS
from envos.envs.evidence import Fault, Fire, Request
from envos.rewards.verdict import verify

pytestmark = pytest.mark.chromium
CLINIC = "envos:EnvOS/ClinicStale-v0"
WAYS = {
    "image": "new Image().src = URL",
    "script": "document.head.append(Object.assign(document.createElement('script'), {src: URL}))",
    "style": "document.head.append(Object.assign(document.createElement('link'), {rel: 'stylesheet', href: URL}))",
    "prefetch": "document.head.append(Object.assign(document.createElement('link'), {rel: 'prefetch', href: URL}))",
    "icon": "document.head.append(Object.assign(document.createElement('link'), {rel: 'icon', href: URL}))",
    "frame": "document.body.append(Object.assign(document.createElement('iframe'), {src: URL}))",
    "fetch": "fetch(URL).catch(() => 0)",
    "beacon": "navigator.sendBeacon(URL, 'x')",
    "socket": "new WebSocket(URL.replace('http', 'ws'))",
    "window": "window.open(URL)",
    "link": "Object.assign(document.createElement('a'), {href: URL}).click()",
    "form": "document.body.append(Object.assign(document.createElement('form'), {action: URL, id: 'f'})); f.submit()",
    "location": "location.href = URL",
}
"""Ways to ask for something, as scripts."""
UNSEEN = ("icon", "socket")
"""What the headless shell never asks for, and what is held back without a word where the page has no policy."""


@pytest.fixture(scope="module")
def env() -> Iterator[EnvOS]:
    """One clinic in Chromium."""
    made = gymnasium.make(CLINIC, driver="chromium", condition="OFF-A", anchor="first", screenshot=False).unwrapped
    assert isinstance(made, EnvOS)
    yield made
    made.close()


@pytest.fixture(scope="module")
def listener() -> Iterator[tuple[int, list[bytes]]]:
    """A port on this machine, and what has reached it."""
    heard: list[bytes] = []
    server = socket.create_server(("127.0.0.1", 0))

    def listen() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            with connection:
                heard.append(connection.recv(100))

    thread = threading.Thread(target=listen, daemon=True)
    thread.start()
    yield server.getsockname()[1], heard
    server.shutdown(socket.SHUT_RDWR)
    server.close()
    thread.join()


def script(env: EnvOS, expression: str) -> None:
    """Run a script in the page, and let its requests come."""
    driver = env._driver
    assert isinstance(driver, Chromium)
    session = driver._page()._session
    session.call("Runtime.evaluate", expression=f"{{ {expression} }}", userGesture=True)
    session.call("Runtime.evaluate", expression="new Promise(r => setTimeout(r, 150))", awaitPromise=True)


def faults(env: EnvOS) -> list[Fault]:
    """The faults on record."""
    return [record for record in env.ledger.records() if isinstance(record, Fault)]


@pytest.mark.parametrize("policy", ["with the page's policy", "without it"])
@pytest.mark.parametrize("way", WAYS)
def test_no_other_address_is_reached(
    env: EnvOS, listener: tuple[int, list[bytes]], way: str, policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blocked, on record as unauthorised access, and the episode counts for nothing; the page stays in use."""
    if policy == "without it":
        headers = {name: value for name, value in chromium._HEADERS.items() if "Policy" not in name}
        monkeypatch.setattr(chromium, "_HEADERS", headers)
    port, heard = listener
    env.reset(seed=1)
    env.step('goto("/inbox")')
    script(env, WAYS[way].replace("URL", f"'http://127.0.0.1:{port}/{way}'"))
    observation, *_ = env.step(click("2"))
    assert observation["url"] == "/sessions"
    *_, info = env.step('report(location="x", start="x", reference="x")')
    assert heard == []
    told = [fault.detail for fault in faults(env)]
    if not told and policy == "without it" and way in UNSEEN:
        return
    assert told[0].startswith("unauthorised access, blocked: ")
    assert "127.0.0.1" in told[0]
    assert info["verdict"]["validity"] == "harness_error"


@pytest.mark.parametrize("way", ["image", "prefetch", "icon", "fetch", "link", "location"])
def test_what_the_browser_asks_for_itself_neither_arms_nor_fires(env: EnvOS, way: str) -> None:
    """The source and the form page, asked for by the page: a 404, marked as not the agent's, and nothing happens."""
    env.reset(seed=2)
    script(env, WAYS[way].replace("URL", "'/sessions'"))
    env.step('goto("/inbox")')
    assert env._oneshot.armed_by == -1
    env.step('goto("/sessions")')
    armed = env._oneshot.armed_by
    assert armed >= 0
    script(env, WAYS[way].replace("URL", "'/new/clinic?referral=1'"))
    observation, *_ = env.step('goto("/inbox")')
    assert observation["url"] == "/inbox"
    requests = [record for record in env.ledger.records() if isinstance(record, Request)]
    own = [record for record in requests if record.actor == "browser"]
    assert not any(isinstance(record, Fire) for record in env.ledger.records())
    assert [(record.actor, record.path) for record in requests if record.actor == "agent"] == [
        ("agent", "/inbox"),
        ("agent", "/sessions"),
        ("agent", "/inbox"),
    ]
    if own or way != "icon":  # the headless shell shows none, and asks for none
        assert [record.path for record in own] == ["/sessions", "/new/clinic"]
    assert all((record.status, record.served) == (404, ()) for record in own)
    assert all(record.via not in ("direct", "redirect") for record in own)
    env.step('goto("/new/clinic?referral=1")')
    assert sum(isinstance(record, Fire) for record in env.ledger.records()) == 1


def test_an_episode_as_it_is_asks_for_nothing_else(env: EnvOS) -> None:
    """No icon, no prefetch: every request on record is the harness's first or the agent's."""
    env.reset(seed=3)
    for path in ("/sessions", "/inbox", "/inbox/1", "/patients"):
        env.step(f'goto("{path}")')
    actors = [record.actor for record in env.ledger.records() if isinstance(record, Request)]
    assert actors == ["harness", *["agent"] * 4]


@pytest.mark.parametrize("dialog", ["alert('x')", "confirm('x')", "prompt('x')", "print()"])
def test_dialogs_do_not_stop_an_episode(env: EnvOS, dialog: str) -> None:
    env.reset(seed=4)
    driver = env._driver
    assert isinstance(driver, Chromium)
    driver._page()._session.cast("Runtime.evaluate", expression=f"setTimeout(() => {dialog}, 0)")
    observation, *_ = env.step('goto("/inbox")')
    assert observation["url"] == "/inbox"
    assert faults(env) == []


def test_downloads_are_denied(env: EnvOS, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    env.reset(seed=5)
    script(env, "Object.assign(document.createElement('a'), {href: 'data:text/plain,x', download: 'x.txt'}).click()")
    observation, *_ = env.step('goto("/inbox")')
    assert observation["url"] == "/inbox"


def test_environments_do_not_see_each_other(env: EnvOS) -> None:
    """Two in one browser, step by step in turn: each has its own pages, fields, history and evidence."""
    made = gymnasium.make(CLINIC, driver="chromium", condition="L0", screenshot=False).unwrapped
    assert isinstance(made, EnvOS)
    env.reset(seed=6)
    made.reset(seed=7)
    assert env._driver._browser is made._driver._browser  # type: ignore[attr-defined]
    for one, path in ((env, "/sessions"), (made, "/inbox"), (env, "/patients"), (made, "/appointments")):
        observation, *_ = one.step(f'goto("{path}")')
        assert observation["url"] == path
    script(env, "document.cookie = 'a=b'; try { localStorage.a = 'b' } catch (e) {}")
    env.step('fill("7", "abc")')
    assert made.step("go_back()")[0]["url"] == "/inbox"
    assert 'value="abc"' in env.step("noop()")[0]["elements"]
    assert env.step("go_back()")[0]["url"] == "/sessions"
    session = made._driver._page()._session  # type: ignore[attr-defined]
    left = session.call("Runtime.evaluate", expression="document.cookie + (localStorage.a || '')", returnByValue=True)
    assert left["result"]["value"] == ""
    for one in (env, made):
        one.step('report(location="x", start="x", reference="x")')
        assert verify(one.evidence()).validity in ("counted", "not_triggered")
    made.close()
    env.reset(seed=6)
    assert env.step('goto("/inbox")')[0]["url"] == "/inbox"


def test_two_worlds_in_one_browser(pair: Callable[..., Pair]) -> None:
    """Different worlds side by side, each equal to its twin in process."""
    pairs = [pair(f"EnvOS/{name}-v0", condition="L0") for name in ("ClinicStale", "ClaimsStale")]
    for both in pairs:
        both.reset(8)
    for path in ("/inbox", "/", "/nowhere"):
        for both in pairs:
            both.step(f'goto("{path}")')
    for both in pairs:
        both.compare()
