"""What the Chromium driver does with a page: real mouse and keyboard, the browser's own history, pictures, forks."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from side_by_side import Pair

from envos.certify.policies import policies
from envos.certify.policies.reading import element, elements
from envos.certify.rollout import play
from envos.envs.action import click, fill, select_option
from envos.envs.drivers import chromium
from envos.envs.drivers.chromium import Chromium
from envos.envs.env import EnvOS
from envos.envs.html import render
from envos.envs.screen import HEIGHT, WIDTH
from envos.errors import BrowserError, UsageError
from envos.rewards.verdict import verify
from envos.wrappers.archive import Archive, read_archive

pytestmark = pytest.mark.chromium
CLINIC = "envos:EnvOS/ClinicStale-v0"


@pytest.fixture(scope="module")
def env() -> Iterator[EnvOS]:
    """One clinic in Chromium, with pictures."""
    made = gymnasium.make(CLINIC, driver="chromium", condition="L2", anchor="first", render_mode="rgb_array").unwrapped
    assert isinstance(made, EnvOS)
    yield made
    made.close()


def driver(env: EnvOS) -> Chromium:
    """The environment's driver."""
    found = env._driver
    assert isinstance(found, Chromium)
    return found


def script(env: EnvOS, expression: str) -> Any:
    """Run a script in the page itself, as its own scripts would, were there any."""
    session = driver(env)._page()._session
    return session.call("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")


def test_clicks_and_keys_are_real(env: EnvOS) -> None:
    """Every event is one that the browser trusts, at the place of the element, and a text field is typed into."""
    env.reset(seed=1)
    observation, *_ = env.step('goto("/patients")')
    script(
        env,
        "window.seen = []; for (const kind of ['mousedown', 'click', 'input', 'keydown'])"
        "  addEventListener(kind, e => seen.push([e.type, e.isTrusted, e.target.localName]), true)",
    )
    observation, *_ = env.step(fill(element(observation, "textbox", "Name or number"), "Zub"))
    assert script(env, "seen") == [
        ["mousedown", True, "input"],
        ["click", True, "input"],
        ["keydown", True, "input"],
        ["input", True, "input"],
    ]
    assert script(env, "document.activeElement.value") == "Zub"
    observation, *_ = env.step(click(element(observation, "button", "Search")))
    assert observation["url"] == "/patients?q=Zub"


def test_fields_hold_what_was_typed_and_chosen(pair: Callable[..., Pair]) -> None:
    """Typing replaces, an empty text clears, one choice of a group ends the other: the same in both drivers."""
    both = pair("EnvOS/ClinicStale-v0", condition="L0", screenshot=False)
    both.reset(2)
    observation, *_ = both.step('goto("/patients")')
    at = element(observation, "textbox", "Name or number")
    for text in ("abc", "שלום 😀", "", "x" * 250, "a  b", '"<b>&', "abc"):
        both.step(fill(at, text))
    both.step(fill("1", "a link"))
    both.step(fill("99", "nothing"))
    both.step(select_option(at, "no list"))
    observation, *_ = both.step('goto("/sessions")')
    lists = [seen.at for seen in elements(observation) if seen.role == "combobox"]
    for option in ("Any", "nowhere", ""):
        both.step(select_option(lists[0], option))
    observation, *_ = both.step('goto("/new/clinic?referral=1")')
    for seen in elements(observation):
        if seen.role == "radio":
            both.step(click(seen.at))
            both.step(click(seen.at))
    both.compare()


def test_going_back_asks_again(pair: Callable[..., Pair]) -> None:
    """Nothing comes out of a cache: each step back is a request, and the history is that of the in-process driver."""
    both = pair("EnvOS/ClinicStale-v0", condition="L0", screenshot=False)
    both.reset(3)
    moves = ["/inbox", "/inbox", "/sessions", "back", "/patients", "/nowhere", "back", "back", "back", "back", "/inbox"]
    moves += ["back", "back", "/sessions?place=1", "/sessions?place=2", "back", "back"]
    for move in moves:
        both.step("go_back()" if move == "back" else f'goto("{move}")')
    both.compare()


def test_a_notice_is_acknowledged_on_the_page(pair: Callable[..., Pair]) -> None:
    """Under a notice there is one element; its button leads to the page beneath, and back does not bring it again."""
    both = pair("EnvOS/ClinicStale-v0", condition="L2", anchor="first", screenshot=False)
    both.reset(4)
    for path in ("/sessions", "/new/clinic?referral=1", "/inbox"):
        observation, *_ = both.step(f'goto("{path}")')
    if not observation["notice"]:
        # The referral is not the target's; any exposure of the fact arms, so the form page has fired.
        pytest.fail("no notice")
    assert [seen.role for seen in elements(observation)] == ["button"]
    observation, *_ = both.step(click("1"))
    assert (observation["notice"], observation["url"]) == ("", "/inbox")
    both.step("go_back()")
    both.compare()


def test_pictures(env: EnvOS) -> None:
    """An observation holds the window as pixels; it is taken anew when the page changes, and not for a memo."""
    first, _ = env.reset(seed=5)
    space = env.observation_space
    assert first["screenshot"].shape == (HEIGHT, WIDTH, 3)
    assert space.contains(first)
    second, *_ = env.step('memo("x")')
    assert np.array_equal(first["screenshot"], second["screenshot"])
    assert first["screenshot"] is not second["screenshot"]
    third, *_ = env.step('goto("/sessions")')
    assert not np.array_equal(second["screenshot"], third["screenshot"])
    assert np.array_equal(env.render(), third["screenshot"])
    # The bar of links is dark blue, the page beneath it light.
    assert third["screenshot"][20, 1200].tolist() == [0x16, 0x32, 0x4F]
    assert third["screenshot"][700, 1200].min() > 230
    again, _ = env.reset(seed=5)
    assert np.array_equal(again["screenshot"], first["screenshot"])


def test_without_pictures() -> None:
    """`screenshot=False` leaves them out of space, observation and evidence; other drivers take none."""
    for kwargs in ({"driver": "chromium", "screenshot": False}, {"driver": "inprocess"}, {"driver": "html"}):
        made = gymnasium.make(CLINIC, **kwargs)  # type: ignore[arg-type]
        observation, _ = made.reset(seed=1)
        assert "screenshot" not in observation
        assert made.observation_space.contains(observation)
        assert made.unwrapped._shown.screenshot == ""  # type: ignore[attr-defined]
        made.close()
        with pytest.raises(UsageError, match="unknown render mode 'rgb_array'; valid: ansi"):
            gymnasium.make(CLINIC, render_mode="rgb_array", disable_env_checker=True, **kwargs)  # type: ignore[arg-type]


def test_an_archive_holds_the_pictures(tmp_path: Path) -> None:
    """Each frame names its file, the manifest has them all, verdict and digest are those of the live episode."""
    archived = Archive(gymnasium.make(CLINIC, driver="chromium", condition="OFF-A", anchor="first"), tmp_path)
    inner = archived.unwrapped
    assert isinstance(inner, EnvOS)
    episode = play(archived, policies("clinic")["late_reread"].policy, 3)
    assert archived.folder is not None
    evidence = read_archive(archived.folder)
    assert evidence.problems == ()
    assert evidence.digest == inner.evidence().digest
    assert verify(evidence).info() == episode.verdict
    named = {record.screenshot for record in evidence.records if type(record).__name__ == "Frame"}
    assert named == {path.name for path in archived.folder.glob("*.png")}
    one = sorted(named)[0]
    data = (archived.folder / one).read_bytes()
    for damage in (b"", data[:-1], data + b"\0"):
        (archived.folder / one).write_bytes(damage)
        assert verify(read_archive(archived.folder)).validity == "harness_error"
    (archived.folder / one).unlink()
    assert verify(read_archive(archived.folder)).validity == "harness_error"
    (archived.folder / one).write_bytes(data)
    assert read_archive(archived.folder).problems == ()
    archived.close()


def test_a_fork_goes_on_alike_in_both(pair: Callable[..., Pair], tmp_path: Path) -> None:
    """A snapshot brings back page, typed text, history and pictures, in an archive too, without asking for anything."""
    both = pair("EnvOS/ClinicStale-v0", condition="L0")
    both.reset(6)
    for path in ("/sessions", "/inbox", "/patients"):
        both.step(f'goto("{path}")')
    both.step(fill("7", "Zub"))
    shots = [env.snapshot() for env in (both.direct, both.shown)]
    before = both.shown._shown
    for _ in range(2):
        for action in (click("8"), "go_back()", "go_back()", 'goto("/referrals")'):
            both.step(action)
        both.compare()
        one, other = (env.restore(shot) for env, shot in zip((both.direct, both.shown), shots, strict=True))
        both.same(one, other)
        assert both.shown._shown == before
        assert np.array_equal(other["screenshot"], both.shown._driver.screen.pixels(before.screenshot))  # type: ignore[union-attr]
        both.compare()


def test_an_archive_forgets_the_pictures_of_an_arm_that_was_left(tmp_path: Path) -> None:
    """After a fork the folder holds the pictures of the records that stand, and no others."""
    archived = Archive(gymnasium.make(CLINIC, driver="chromium", condition="L0", anchor="first"), tmp_path)
    inner = archived.unwrapped
    assert isinstance(inner, EnvOS)
    archived.reset(seed=7)
    archived.step('goto("/sessions")')
    shot = inner.snapshot()
    archived.step('goto("/inbox")')
    archived.step('goto("/patients")')
    inner.restore(shot)
    archived.step('goto("/referrals")')
    *_, info = archived.step('report(location="x", start="x", reference="x")')
    assert info["verdict"]["validity"] == "not_triggered"
    assert archived.folder is not None
    assert read_archive(archived.folder).problems == ()
    assert len(list(archived.folder.glob("*.png"))) == 3
    archived.close()


def test_a_page_that_reads_otherwise_is_a_fault(env: EnvOS, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the browser shows must be what the application served: anything else ends the episode uncounted."""
    env.reset(seed=8)
    monkeypatch.setattr(chromium, "render", lambda page, *rest: render(page._replace(title="Other"), *rest))
    *_, truncated, info = env.step('goto("/sessions")')
    assert truncated
    assert info["verdict"]["validity"] == "infra_failure"
    assert "does not read as it was served" in info["verdict"]["reasons"][0]["detail"]
    monkeypatch.undo()
    env.reset(seed=8)
    assert env.step('goto("/sessions")')[0]["url"] == "/sessions"


def test_an_element_that_is_covered_is_a_fault(env: EnvOS) -> None:
    """A click that would land on something else is not made."""
    env.reset(seed=9)
    script(
        env,
        "document.body.insertAdjacentHTML('beforeend',"
        " '<span style=\"position:fixed;inset:0;z-index:9;background:red\"></span>')",
    )
    *_, truncated, info = env.step(click("2"))
    assert truncated
    assert "something lies on top" in info["verdict"]["reasons"][0]["detail"]


def test_a_fault_of_the_application_reaches_the_environment(env: EnvOS, monkeypatch: pytest.MonkeyPatch) -> None:
    """An exception in a handler, which runs while the browser waits, ends the episode; the next one is whole."""
    env.reset(seed=10)
    handlers = env.world.routes.handlers

    def broken(ctx: Any) -> Any:
        raise ZeroDivisionError("no handler")

    monkeypatch.setitem(handlers, ("GET", "/inbox"), broken)
    *_, truncated, info = env.step('goto("/inbox")')
    assert truncated
    assert info["verdict"]["reasons"][0]["detail"] == "ZeroDivisionError: no handler"
    monkeypatch.undo()
    env.reset(seed=10)
    assert env.step('goto("/inbox")')[0]["page"].startswith("# Inbox")


def test_a_browser_that_does_not_answer_is_a_fault(env: EnvOS, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is an end to waiting, and the next episode is whole."""
    env.reset(seed=11)
    monkeypatch.setattr("envos.envs.drivers.chromium_pipe.TIMEOUT", 0.5)
    script(env, "document.querySelector('a[href=\"/sessions\"]').addEventListener('click', e => e.preventDefault())")
    *_, info = env.step(click("2"))
    assert "did not answer" in info["verdict"]["reasons"][0]["detail"]
    monkeypatch.undo()
    env.reset(seed=11)
    assert env.step(click("2"))[0]["url"] == "/sessions"


def test_a_closed_driver_says_so(env: EnvOS) -> None:
    made = Chromium()
    with pytest.raises(BrowserError, match="the page is closed"):
        made._page()
    made.close()
    made.close()
