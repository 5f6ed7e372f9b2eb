"""Demonstrations: only the reference's, only what earned 1.0, word for word what an agent is told."""

import json
from pathlib import Path
from typing import Any

import gymnasium
import pytest

from envos.certify.policies import policies
from envos.certify.rollout import play
from envos.envs.scenario import SCENARIOS
from envos.errors import UnknownName, UsageError
from envos.train.trl_data import DONE, NEVER, Told, by_tools, demonstrate, example, examples, feasible, rows
from envos.train.trl_env import OVER, tool_environment
from envos.wrappers.archive import Archive, read_archive
from envos.wrappers.tools import ToolActions

CLAIMS, CLINIC = "EnvOS/ClaimsStale-v0", "EnvOS/ClinicStale-v0"
TOOLS = ("list_claims", "get_claim", "list_policies", "start_approval", "review_approval", "approve_claim", "report")


def archived(root: Path, world: str, policy: str, condition: str, says: str = "") -> Path:
    """The archive of a scripted policy's episode with tools, under a name of its own or another one."""
    environment = CLAIMS if world == "claims" else CLINIC
    archive = Archive(gymnasium.make(f"envos:{environment}", disable_env_checker=True), root)
    env = ToolActions(archive)
    options = {"condition": condition, "policy": says or policy, "anchor": "any"}
    play(env, policies(f"tools_{world}")[policy].policy, 3, options)
    env.close()
    assert archive.folder is not None
    return archive.folder


@pytest.mark.parametrize("world", ["claims", "clinic"])
def test_a_demonstration_is_what_an_agent_is_told(world: str, tmp_path: Path) -> None:
    """The calls of a demonstration, made through the class of TRL, are answered with the demonstration's words."""
    environment = CLAIMS if world == "claims" else CLINIC
    told = Told(environment)
    for condition in ("L0", "L2"):
        evidence = read_archive(archived(tmp_path, world, "reference", condition))
        one = example(evidence, [schema["function"]["name"] for schema in told.schemas()])
        rollout = tool_environment(environment)()
        system, goal, *turns, done = one.messages
        assert system["role"] == "system"
        assert goal["content"] == rollout.reset(seed=3, condition=condition, anchor="any")
        for said, answered in zip(turns[::2], turns[1::2], strict=True):
            function = said["tool_calls"][0]["function"]
            assert answered["content"] == getattr(rollout, function["name"])(**json.loads(function["arguments"]))
        assert (answered["content"], done["content"]) == (OVER, DONE)
        assert rollout.get_reward() == 1.0


@pytest.mark.parametrize(
    ("world", "policy", "condition", "says", "reason"),
    [
        ("claims", "late_reread", "L0", "", "'late_reread' goes back to its source"),
        ("claims", "read_review", "L0", "", "'read_review' goes back to its source"),
        ("clinic", "follow_cue", "L0", "", "'follow_cue' goes back to its source"),
        ("claims", "stale", "L0", "", "'stale' is not 'reference'"),
        ("claims", "late_reread", "L0", "trl", "'trl' is not 'reference'"),
        ("claims", "late_reread", "L0", "reference", "'reference' would have acted otherwise"),
        ("claims", "late_reread", "OFF-A", "reference", "'reference' would have acted otherwise"),
        ("clinic", "follow_cue", "CUE-A", "reference", "'reference' would have acted otherwise"),
        ("claims", "reference", "OFF-A", "", "did not earn 1.0"),
    ],
)
def test_what_must_not_be_shown_is_refused(
    world: str, policy: str, condition: str, says: str, reason: str, tmp_path: Path
) -> None:
    """By name; and an archive that only calls itself the reference's is found out by what was done in it."""
    evidence = read_archive(archived(tmp_path, world, policy, condition, says))
    with pytest.raises(UsageError, match=reason):
        example(evidence, ())


def test_the_three_are_never_shown() -> None:
    assert NEVER == ("late_reread", "follow_cue", "read_review")


def test_a_changed_archive_and_one_on_pages_are_refused(tmp_path: Path) -> None:
    folder = archived(tmp_path, "claims", "reference", "L0")
    ledger = folder / "ledger.jsonl"
    ledger.write_text(ledger.read_text().replace("list_claims", "list_claimz", 1))
    with pytest.raises(UsageError, match="something is wrong with its files"):
        example(read_archive(folder), ())
    archive = Archive(gymnasium.make(f"envos:{CLAIMS}", disable_env_checker=True), tmp_path)
    play(archive, policies("claims")["reference"].policy, 3, {"condition": "L0", "policy": "reference"})
    archive.close()
    assert archive.folder is not None
    with pytest.raises(UsageError, match="played on pages"):
        example(read_archive(archive.folder), ())


def test_examples_come_from_archives_and_the_rest_is_told(tmp_path: Path) -> None:
    """A call of a tool that the model does not have cannot be shown either."""
    refused: dict[str, str] = {}
    told = Told(CLAIMS, TOOLS)
    found = list(examples(demonstrate(told, (1, 2), "train", ("L0", "L2", "OFF-A"), "any", tmp_path), told, refused))
    assert [(one.identity["seed"], one.identity["condition"]) for one in found] == [(1, "L0"), (2, "L0")]
    assert (
        sorted(refused.values())
        == ["it calls acknowledge_notice, which is not among the tools"] * 2 + ["it did not earn 1.0"] * 2
    )
    assert not list(examples([archived(tmp_path, "clinic", "reference", "L0")], told, refused))
    assert refused.popitem()[1] == f"it is not of {CLAIMS}"
    line = found[0].to_json(told.schemas())
    assert json.loads(json.dumps(line)) == line
    assert [tool["function"]["name"] for tool in line["tools"]] == list(TOOLS)
    assert (line["policy"], line["split"]) == ("reference", "train")


def test_seeds_at_which_the_row_is_left_out_are_left_out() -> None:
    """With results too short for the row that is needed nobody can win."""
    assert list(feasible(Told(CLAIMS), range(4), "train")) == [0, 1, 2, 3]
    some = list(feasible(Told(CLAIMS, limit=1100), range(8), "train"))
    assert 0 < len(some) < 8
    assert not list(feasible(Told(CLAIMS, limit=100), range(2), "train"))


def test_rows_have_every_seed_under_every_condition() -> None:
    found = rows(SCENARIOS[CLAIMS], (7, 8, 9), ("L0", "OFF-A"), "any", "train")
    assert [row["seed"] for row in found] == [7, 8, 9, 7, 8, 9]
    assert [row["condition"] for row in found] == ["L0", "OFF-A", "L0", "OFF-A", "L0", "OFF-A"]
    assert {(row["anchor"], row["split"], row["prompt"][-1]["content"]) for row in found} == {("any", "train", "")}
    with pytest.raises(UnknownName, match="OFF-B"):
        rows(SCENARIOS[CLAIMS], (7,), ("OFF-B",), "any", "train")


def test_an_environment_without_a_reference_says_so() -> None:
    with pytest.raises(UsageError, match="no scripted policies that call tools"):
        by_tools(SCENARIOS["EnvOS/ClaimsGhost-v0"])


@pytest.mark.parametrize("anchor", ["first", "any"])
@pytest.mark.parametrize("name", ["reference", "late_reread", "read_review", "stale"])
def test_the_claims_clerk_fares_with_tools_as_on_pages(name: str, anchor: str) -> None:
    """He wins where he is declared to win, with the signature that is declared elsewhere, and in fewer actions."""
    env: Any = ToolActions(gymnasium.make(f"envos:{CLAIMS}", anchor=anchor, disable_env_checker=True))
    pages = gymnasium.make(f"envos:{CLAIMS}", anchor=anchor, disable_env_checker=True)
    one, other = policies("tools_claims")[name], policies("claims")[name]
    assert one.wins == other.wins
    for condition in SCENARIOS[CLAIMS].conditions:
        episode = play(env, one.policy, 6, {"condition": condition})
        assert episode.reward == float(condition in one.wins)
        if condition in one.fails:
            assert one.fails[condition][0] in episode.verdict["signatures"]
        assert episode.steps < play(pages, other.policy, 6, {"condition": condition}).steps
    env.close()
    pages.close()
