"""`envos play`: what a person sees, what costs a step, and what is told only at the end."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium
import pytest
from typer.testing import Result

from envos.certify.policies import policy
from envos.certify.rollout import play
from envos.cli_play import packed

ENVIRONMENT = "EnvOS/ClinicStale-v0"
PLAY = ("play", ENVIRONMENT, "--seed", "3", "--condition", "OFF-A", "--anchor", "first")
Command = Callable[..., Result]


@pytest.fixture
def replay() -> Iterator[Callable[[str], str]]:
    """Return a function that gives what a scripted policy does, a line each."""
    env = gymnasium.make(ENVIRONMENT, disable_env_checker=True, anchor="first")

    def lines(name: str) -> str:
        options = {"condition": "OFF-A"}
        return "".join(f"{action}\n" for action in play(env, policy("clinic", name).policy, 3, options).actions)

    yield lines
    env.close()  # type: ignore[no-untyped-call]


def test_a_careful_person_wins(envos: Command, replay: Callable[[str], str], tmp_path: Path) -> None:
    done = envos(*PLAY, "--out", tmp_path / "mine", typed=replay("late_reread"))
    assert done.exit_code == 0
    for text in ("Validity: counted", "Endpoint: success", "I1 target_state: holds", "reread_before_commit"):
        assert text in done.stdout
    assert "Condition OFF-A: the fact changes, silently" in done.stdout
    assert envos("verify", tmp_path / "mine").exit_code == 0


def test_a_hasty_person_is_told_what_changed(document: Callable[..., Any], replay: Callable[[str], str]) -> None:
    data = document(*PLAY, typed=replay("reference"))
    assert data["ended"]
    assert data["verdict"]["invariants"]["I1"]["passed"] is False
    assert data["verdict"]["signatures"] == ["stale_commit"]
    change = data["change"]
    (write,) = change["writes"]
    assert (write["table"], write["column"]) == ("clinic_session", "location_id")
    assert write["old"] != write["new"]
    # It fired when the booking was begun, and before it was committed.
    assert change["fired"]
    assert change["step"] < change["commit_step"]
    assert change["request"] == "GET /new/clinic"


def test_the_verdict_shows_what_was_measured(envos: Command, replay: Callable[[str], str]) -> None:
    done = envos(*PLAY, typed=replay("reference"))
    assert "I1 target_state: fails, the commit is not the right one" in done.stdout
    assert "right: {" in done.stdout


@pytest.mark.parametrize("last", ["quit\n", ""])
def test_nothing_is_told_before_the_end(envos: Command, replay: Callable[[str], str], last: str) -> None:
    typed = replay("reference").rpartition("report(")[0]
    done = envos(*PLAY, typed=typed + last)
    assert done.exit_code == 0
    assert "Stopped: the episode did not end" in done.stdout
    for text in ("OFF-A", "silently", "canary", "Validity", "stale_commit"):
        assert text not in done.stdout


def test_help_goal_and_empty_lines_cost_nothing(document: Callable[..., Any]) -> None:
    data = document(*PLAY, typed="help\n\n  \ngoal\n?\nQUIT\n")
    assert (data["ended"], data["actions"], data["verdict"], data["change"]) == (False, [], None, None)


def test_a_number_clicks_and_a_wrong_line_costs_a_step(document: Callable[..., Any], envos: Command) -> None:
    assert document(*PLAY, typed="2\nnonsense\nquit\n")["actions"] == ['click("2")', "nonsense"]
    done = envos(*PLAY, typed="2\nnonsense\nquit\n")
    assert "/sessions   step 1 of 48" in done.stdout
    assert "error: expected one action" in done.stdout


def test_with_json_the_pages_go_to_stderr(envos: Command) -> None:
    done = envos(*PLAY, "--json", typed="quit\n")
    assert "Clinic portal" in done.stderr
    assert done.stdout.startswith("{")


def test_the_budget_ends_the_episode(envos: Command) -> None:
    done = envos(*PLAY, typed="noop()\n" * 60)
    assert done.exit_code == 0
    assert "step 48 of 48" in done.stdout
    assert "Validity: not_triggered (not counted)" in done.stdout
    assert "The change did not fire. You committed nothing." in done.stdout


def test_what_is_typed_need_not_be_text(envos: Command) -> None:
    done = envos(*PLAY, typed='memo("\x00\ud800")\nquit\n'.encode("utf-8", "surrogatepass"))
    assert done.exit_code == 0
    assert "error: " in done.stdout


def test_packed_lines_keep_entries_whole() -> None:
    assert list(packed(['[1] link "A"', '[2] link "B"', "x" * 30], 27)) == [
        '[1] link "A"   [2] link "B"',
        "x" * 27,
        "xxx",
    ]
    assert list(packed([""], 10)) == []
