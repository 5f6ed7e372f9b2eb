"""`envos play ID --browser` from end to end: a browser, real links and fields, the verdict with its evidence."""

import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium
import pytest

from envos.certify.policies import policy
from envos.certify.rollout import play
from envos.envs.action import parse
from envos.envs.evidence import Action
from envos.rewards.verdict import verify
from envos.wrappers.archive import read_archive

pytestmark = pytest.mark.chromium
ENVIRONMENT = "EnvOS/ClinicStale-v0"
CHOSEN = ("--seed", "3", "--condition", "OFF-A", "--anchor", "first")
CONTROLS = "a, button, input:not([type=hidden]), select"

Start = Callable[..., tuple[str, subprocess.Popen[str]]]


@pytest.fixture
def start() -> Iterator[Start]:
    """Return a function that starts the command, and gives the address that it prints."""
    made: list[subprocess.Popen[str]] = []

    def run(*arguments: object) -> tuple[str, subprocess.Popen[str]]:
        command = [str(Path(sys.executable).with_name("envos")), "play", ENVIRONMENT, "--browser", *CHOSEN]
        process = subprocess.Popen(
            [*command, *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # A shell that starts the tests in the background has SIGINT ignored, for children too.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        made.append(process)
        stream = process.stderr if "--json" in arguments else process.stdout
        assert stream is not None
        found = re.search(r"http://127\.0\.0\.1:\d+/[\w-]+/", stream.readline())
        assert found
        return found[0], process

    yield run
    for process in made:
        process.kill()
        process.communicate()


def do(window: Any, raw: str) -> None:
    """Do what an action of the grammar says, with mouse and keyboard in the page."""
    action = parse(raw)
    inside = window.frame_locator("iframe")
    used = window.locator(".log li").count()

    def control() -> Any:
        every = inside.locator(CONTROLS)
        live = every.evaluate_all(
            "all => all.map((node, at) => node.closest('[inert]') ? -1 : at).filter(at => at >= 0)"
        )
        return every.nth(live[int(action.args[0]) - 1])  # type: ignore[union-attr]

    match action.verb:  # type: ignore[union-attr]
        case "click":
            control().click()
        case "fill":
            control().fill(action.args[1])  # type: ignore[union-attr]
            control().blur()
        case "select_option":
            control().select_option(label=action.args[1])  # type: ignore[union-attr]
        case "goto":
            window.get_by_label("Address").fill(action.args[0])  # type: ignore[union-attr]
            window.get_by_role("button", name="Go", exact=True).click()
        case "go_back":
            window.get_by_role("button", name="Back", exact=True).click()
        case "memo":
            window.get_by_label("Memo").fill(action.args[0])  # type: ignore[union-attr]
            window.get_by_role("button", name="Keep the memo").click()
        case "report":
            for name, value in action.fields:  # type: ignore[union-attr]
                window.get_by_label(name, exact=True).fill(value)
            window.get_by_role("button", name="Report and end the episode").click()
            window.get_by_role("heading", name="The verdict").wait_for()
            return
    # The page is there when the action stands in the log, and its own document has been read.
    window.wait_for_function("n => document.querySelectorAll('.log li').length > n", arg=used)
    window.wait_for_function("() => document.querySelector('iframe').contentDocument.readyState === 'complete'")
    inside.locator("h1").wait_for()


@pytest.mark.parametrize("name", ["late_reread", "reference"])
def test_a_person_plays_from_brief_to_verdict(window: Any, start: Start, tmp_path: Path, name: str) -> None:
    """What a scripted policy does, done by hand in the page: the same actions, verdict and evidence."""
    env = gymnasium.make(ENVIRONMENT, anchor="first", disable_env_checker=True)
    scripted = play(env, policy("clinic", name).policy, 3, {"condition": "OFF-A"})
    env.close()  # type: ignore[no-untyped-call]
    url, process = start("--out", tmp_path / "mine", "--json")
    window.goto(url)
    window.frame_locator("iframe").locator("h1").wait_for()
    side = window.locator(".side").inner_text()
    assert "48 of 48 actions left" in side
    assert "Clinic session:" in side
    assert "OFF-A" not in window.content()
    for raw in scripted.actions:
        do(window, raw)
    said = window.locator("main").inner_text()
    assert ("success" if scripted.verdict["endpoint"] else "failure") in said
    assert "Condition OFF-A: the fact changes, silently" in said
    assert ("I1 target_state\tholds" if name == "late_reread" else "I1 target_state\tfails") in said
    window.get_by_role("link", name="The replay").click()
    assert window.locator(".timeline li").count() == scripted.steps + 1
    assert "verdict holds" in window.locator(".top").inner_text()
    window.go_back()
    window.get_by_role("button", name="Close").click()
    out, _ = process.communicate(timeout=20)
    assert process.returncode == 0
    told = json.loads(out)
    assert tuple(told["actions"]) == scripted.actions
    assert told["verdict"] == scripted.verdict
    (folder,) = (tmp_path / "mine").iterdir()
    evidence = read_archive(folder)
    assert evidence.problems == ()
    assert verify(evidence).info() == scripted.verdict
    token = url.rstrip("/").rpartition("/")[2]
    assert all(token not in path.read_text() for path in folder.iterdir())


def test_fields_keys_and_the_side_panel(window: Any, start: Start) -> None:
    """A field is filled once, the Enter key sends a form, an error is shown, the budget goes down, back goes back."""
    url, process = start()
    window.goto(url)
    inside = window.frame_locator("iframe")
    do(window, 'goto("/patients")')
    field = inside.get_by_label("Name or number")
    field.fill("a   b")
    field.press("Enter")
    window.wait_for_function("() => document.querySelectorAll('.log li').length === 3")
    assert window.get_by_label("Address").input_value() == "/patients?q=a+b"
    do(window, 'goto("/sessions")')
    choice = inside.get_by_label("Place").locator("option").nth(1).inner_text()
    inside.get_by_label("Place").select_option(label=choice)
    window.wait_for_function("() => document.querySelectorAll('.log li').length === 5")
    inside.get_by_role("button", name="Filter").press("Enter")
    window.wait_for_function("() => document.querySelectorAll('.log li').length === 6")
    assert inside.get_by_label("Place").input_value() != ""
    do(window, "go_back()")
    assert window.get_by_label("Address").input_value() == "/sessions"
    do(window, 'goto("https://other.test/")')
    assert "only this application's own paths" in window.get_by_role("alert").inner_text()
    do(window, 'memo("Place: here")')
    assert window.get_by_label("Memo").input_value() == "Place: here"
    assert "39 of 48 actions left" in window.locator(".side").inner_text()
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=20)
    assert "there is no verdict" in out


def test_a_notice_takes_the_focus_and_the_page_beneath_is_out_of_reach(window: Any, start: Start) -> None:
    url, _ = start("--condition", "L2")
    window.goto(url)
    for path in ("/sessions", "/new/clinic?referral=1", "/inbox"):
        do(window, f'goto("{path}")')
    inside = window.frame_locator("iframe")
    assert inside.get_by_role("alertdialog").is_visible()
    assert inside.locator("button:focus").inner_text() == "Acknowledge"
    window.keyboard.press("Enter")
    inside.get_by_role("alertdialog").wait_for(state="detached")
    assert window.get_by_label("Address").input_value() == "/inbox"


OTHER = """async ([url, calls]) => {
  const tried = [];
  for (const [path, options] of calls) tried.push(await fetch(url + path, options).then(r => r.type, () => "refused"));
  return tried;
}"""


def test_another_site_gets_nothing(window: Any, start: Start) -> None:
    """A page of another origin can neither read the state nor act, whatever way it asks."""
    url, _ = start()
    window.goto(url)
    do(window, 'goto("/inbox")')
    window.goto("data:text/html,<title>other</title>")
    act = {"method": "POST", "body": '{"verb":"noop","args":[],"fields":{},"after":1}'}
    kind = {"headers": {"Content-Type": "application/json"}}
    calls = [
        ["state", {}],
        ["state", {"mode": "no-cors"}],
        ["act", {**act, **kind}],
        ["act", {**act, "mode": "no-cors"}],
    ]
    assert set(window.evaluate(OTHER, [url, calls])) == {"refused"}
    window.said.clear()  # the browser told each refusal
    window.goto(url)
    window.locator(".log li").wait_for()
    assert window.locator(".log li").count() == 1
    assert "47 of 48 actions left" in window.locator(".side").inner_text()


def test_what_was_played_is_in_the_grammar_of_an_agent(window: Any, start: Start, tmp_path: Path) -> None:
    url, process = start("--out", tmp_path / "mine")
    window.goto(url)
    window.frame_locator("iframe").get_by_role("link", name="Sessions").click()
    window.wait_for_function("() => document.querySelectorAll('.log li').length === 1")
    do(window, 'report(location="x")')
    window.get_by_role("button", name="Close").click()
    assert "not_triggered" in process.communicate(timeout=20)[0]
    (folder,) = (tmp_path / "mine").iterdir()
    raws = [record.raw for record in read_archive(folder).records if isinstance(record, Action)]
    assert raws == ['click("2")', 'report(location="x", start="", reference="")']
