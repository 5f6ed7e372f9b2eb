"""The class that TRL makes tools of: its methods, its answers, and the only reward there is."""

import inspect
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import pytest

import envos.certify.twokey as twokey
from envos.certify.policies import Policy, policies
from envos.certify.policies.reading import NotFound
from envos.certify.twokey import Difference, Keys, compare
from envos.envs.evidence import Frame
from envos.envs.scenario import load_world
from envos.envs.toolbox import Toolbox
from envos.errors import UnknownName, UsageError
from envos.rewards.verdict import verify
from envos.train.trl_env import CUT, OVER, ToolEnvironment, tool_environment
from envos.wrappers.archive import archives, read_archive

CLAIMS, CLINIC = "EnvOS/ClaimsStale-v0", "EnvOS/ClinicStale-v0"


def seen(text: str, goal: str, before: str) -> dict[str, Any]:
    """What a policy makes of an answer's text: nothing but the text is used."""
    lines = text.split("\n")
    found = {"goal": goal, "result": before, "memo": "", "error": "", "budget_left": [0]}
    for line in lines:
        if line.startswith("{"):
            found["result"] = line
        elif line.startswith(("memo: ", "error: ")):
            name, _, rest = line.partition(": ")
            found[name] = rest
        elif line.startswith("actions left: "):
            found["budget_left"] = [int(line.rpartition(" ")[2])]
    return found


def drive(rollout: ToolEnvironment, policy: Policy, **columns: Any) -> list[str]:
    """Play a scripted policy through the methods, from the texts alone; returns every answer."""
    text = rollout.reset(**columns)
    observation = seen(text, text, "")
    steps = policy(observation)
    said, answers = next(steps), [text]
    while True:
        made = json.loads(said)
        answers.append(getattr(rollout, made["name"])(**made["arguments"]))
        observation = seen(answers[-1], text, observation["result"])
        try:
            said = steps.send(observation)
        except (StopIteration, NotFound):
            return answers


def scripted(world: str, name: str) -> Policy:
    return policies(f"tools_{world}")[name].policy


# What TRL sees


@pytest.mark.parametrize("environment", [CLAIMS, CLINIC])
def test_the_public_methods_are_the_tools_and_nothing_else(environment: str) -> None:
    made = tool_environment(environment)
    assert not issubclass(made, gymnasium.Env)
    public = {name for name, _ in inspect.getmembers(made, inspect.isfunction) if not name.startswith("_")}
    world = load_world("claims" if environment == CLAIMS else "clinic")
    assert public == {*Toolbox(world).tools, "reset", "get_reward"}
    assert {getattr(made(), name).__name__ for name in public} == public


def test_some_tools_only() -> None:
    made = tool_environment(CLAIMS, tools=("report", "list_claims"))
    public = {name for name, _ in inspect.getmembers(made, inspect.isfunction) if not name.startswith("_")}
    assert public == {"list_claims", "report", "reset", "get_reward"}
    with pytest.raises(UnknownName, match="list_claim"):
        tool_environment(CLAIMS, tools=("list_claim",))
    with pytest.raises(UsageError, match="limit of 0"):
        tool_environment(CLAIMS, limit=0)


@pytest.mark.parametrize("environment", [CLAIMS, CLINIC])
def test_every_tool_has_a_schema_as_transformers_makes_it(environment: str) -> None:
    """Names, types, choices and what is required are those of the tool's own schema."""
    utils = pytest.importorskip("transformers.utils")
    rollout = tool_environment(environment)()
    for own in Toolbox(load_world("claims" if environment == CLAIMS else "clinic")).schemas():
        function = own["function"]
        made = utils.get_json_schema(getattr(rollout, function["name"]))["function"]
        assert (made["name"], made["description"]) == (function["name"], function["description"])
        wanted, given = function["parameters"]["properties"], made["parameters"]["properties"]
        assert set(given) == set(wanted)
        for name, typed in wanted.items():
            assert given[name]["type"] == typed["type"]
            assert given[name]["description"] == typed["description"]
            assert given[name].get("enum") == typed.get("enum")
        assert sorted(made["parameters"].get("required", ())) == sorted(function["parameters"]["required"])


def test_the_columns_of_a_row_name_the_episode() -> None:
    """Members of a group, which share a row, share instance, trigger and first page; prompts are not looked at."""
    made = tool_environment(CLINIC)
    one, two = made(), made()
    row = {"prompt": [{"role": "user", "content": ""}], "seed": 5, "condition": "OFF-A", "anchor": "any"}
    assert one.reset(**row) == two.reset(**row)
    starts = [rollout._env()[0].unwrapped.ledger.records()[0] for rollout in (one, two)]  # type: ignore[attr-defined]
    assert starts[0].plan == starts[1].plan
    assert starts[0].identity == starts[1].identity
    assert (starts[0].identity["seed"], starts[0].identity["condition"]) == (5, "OFF-A")
    assert one.reset(**{**row, "seed": 6}) != two.reset(**row)
    assert one.reset(**{**row, "split": "test"}) != two.reset(**row)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"prompt": []}, "has a seed"),
        ({"seed": 1, "condition": "OFF"}, "OFF-A"),
        ({"seed": 1, "anchor": "last"}, "unknown anchor"),
        ({"seed": 1, "split": "dev"}, "split"),
        ({"seed": -1}, "seed"),
    ],
)
def test_a_wrong_row_raises_and_leaves_nothing_to_score(columns: dict[str, Any], message: str) -> None:
    rollout = tool_environment(CLAIMS)()
    rollout.reset(seed=1, condition="L0")
    with pytest.raises(UsageError, match=message):
        rollout.reset(**columns)
    with pytest.raises(UsageError, match="no rollout to score"):
        rollout.get_reward()
    assert rollout.overview() == OVER  # type: ignore[attr-defined]


# The reward


@pytest.mark.parametrize(
    ("environment", "policy", "condition", "reward"),
    [
        (CLAIMS, "reference", "L0", 1.0),
        (CLAIMS, "reference", "OFF-A", 0.0),
        (CLAIMS, "late_reread", "OFF-A", 1.0),
        (CLAIMS, "read_review", "ON-A", 1.0),
        (CLAIMS, "stale", "L2", 0.0),
        (CLINIC, "reference", "L0", 1.0),
        (CLINIC, "reference", "OFF-A", 0.0),
        (CLINIC, "late_reread", "OFF-A", 1.0),
        (CLINIC, "follow_cue", "CUE-A", 1.0),
    ],
)
def test_the_reward_is_the_verdicts(environment: str, policy: str, condition: str, reward: float) -> None:
    """Right everywhere, or stale where the fact changed: told from the texts alone, scored from the database."""
    made = tool_environment(environment)
    rollout = made()
    world = "claims" if environment == CLAIMS else "clinic"
    answers = drive(rollout, scripted(world, policy), seed=4, condition=condition, anchor="any")
    assert answers[-1] == OVER
    assert rollout.get_reward() == reward
    (played,) = made._setup.played
    assert (played.seed, played.condition, played.left) == (4, condition, False)
    assert played.actions == len(answers) - 1
    assert ("stale_commit" in played.verdict["signatures"]) == (reward == 0.0)


def test_an_uncounted_episode_has_no_reward() -> None:
    """In the clinic a change that never fired is not counted; in the claims office it is a failure."""
    clinic, claims = tool_environment(CLINIC), tool_environment(CLAIMS)
    for made, expected in ((clinic, None), (claims, 0.0)):
        rollout = made()
        rollout.reset(seed=2, condition="OFF-A")
        rollout.overview()  # type: ignore[attr-defined]
        assert rollout.get_reward() == expected
        (played,) = made._setup.played
        assert (played.verdict["validity"], played.left, played.actions) == ("not_triggered", True, 1)
        assert played.reward == expected


def test_a_fault_has_no_reward(monkeypatch: pytest.MonkeyPatch) -> None:
    """TRL tells a model what a tool raises, and goes on: so nothing is raised, and the rollout does not count."""
    rollout = tool_environment(CLAIMS)()
    rollout.reset(seed=2, condition="L0")

    def broken(action: Any) -> Any:
        raise RuntimeError("the disk is full")

    monkeypatch.setattr(rollout._env()[0], "step", broken)
    assert rollout.list_claims() == OVER  # type: ignore[attr-defined]
    assert rollout.get_reward() is None
    assert rollout._setup.played[0].verdict["error"] == "RuntimeError: the disk is full"


def test_a_fault_of_the_software_has_no_reward(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the environment itself ends as an infra_failure is not scored 0."""
    made = tool_environment(CLAIMS)
    rollout = made()
    rollout.reset(seed=2, condition="L0")
    inner: Any = rollout._env()[0].unwrapped
    monkeypatch.setattr(type(inner._driver), "view", lambda driver: 1 / 0)
    assert rollout.list_claims() == f"error: the application failed\n{OVER}"  # type: ignore[attr-defined]
    assert rollout.get_reward() is None
    assert made._setup.played[0].verdict["validity"] == "infra_failure"


@pytest.mark.parametrize(("audit", "honest", "reward"), [(1.0, True, 1.0), (1.0, False, None), (0.0, False, 1.0)])
def test_a_rollout_on_which_the_keys_differ_has_no_reward(
    monkeypatch: pytest.MonkeyPatch, audit: float, honest: bool, reward: float | None
) -> None:
    def doubted(path: Any) -> Keys:
        keys = compare(path)
        return keys if honest else replace(keys, differences=(Difference("I1", "true", "the auditor false"),))

    monkeypatch.setattr(twokey, "compare", doubted)
    made = tool_environment(CLAIMS, audit=audit)
    rollout = made()
    drive(rollout, scripted("claims", "reference"), seed=3, condition="L0")
    assert rollout.get_reward() == reward
    codes = [reason["code"] for reason in made._setup.played[0].verdict["reasons"]]
    assert ("keys_differ" in codes) is (reward is None)


def test_the_reward_is_paid_once_and_asked_often() -> None:
    made = tool_environment(CLAIMS)
    rollout = made()
    with pytest.raises(UsageError, match="no rollout to score"):
        rollout.get_reward()
    drive(rollout, scripted("claims", "reference"), seed=3, condition="L0")
    assert [rollout.get_reward(), rollout.get_reward()] == [1.0, 1.0]
    rollout.reset(seed=4, condition="L0")
    rollout.reset(seed=5, condition="L0")
    assert [played.seed for played in made._setup.played] == [3, 4]
    assert json.loads(json.dumps(made._setup.played[1].to_json()))["reward"] == 0.0


def test_after_the_end_every_tool_says_so_and_nothing_changes() -> None:
    made = tool_environment(CLAIMS)
    rollout = made()
    drive(rollout, scripted("claims", "reference"), seed=3, condition="L0")
    inner: Any = rollout._env()[0].unwrapped
    records, state = inner.ledger.records(), inner.state_now()
    for name in made._setup.tools:
        assert getattr(rollout, name)() == OVER
        assert getattr(rollout, name)(claim_id=1, anything=[{}]) == OVER
    assert inner.ledger.records() == records
    assert inner.state_now() == state
    assert rollout.get_reward() == 1.0


def test_the_budget_ends_an_episode() -> None:
    rollout = tool_environment(CLAIMS)()
    rollout.reset(seed=3, condition="L0")
    answers = [rollout.noop() for _ in range(41)]  # type: ignore[attr-defined]
    assert answers[0] == "actions left: 39"
    assert answers[-2:] == [OVER, OVER]
    assert rollout.get_reward() == 0.0


# The answers


def test_what_is_wrong_with_a_call_is_said_and_costs_an_action() -> None:
    rollout: Any = tool_environment(CLAIMS)()
    rollout.reset(seed=3, condition="L0")
    assert rollout.get_claim() == (
        "error: get_claim: claim_id is missing; expected get_claim(claim_id: integer)\nactions left: 39"
    )
    assert rollout.get_claim(claim_id="8").startswith("error: get_claim: claim_id is an integer from 1; got '\"8\"'")
    assert rollout.get_claim(id=8).startswith("error: get_claim: unknown argument 'id'")
    assert rollout.list_claims(status="open", product=None).endswith("\nactions left: 36")
    assert rollout.memo(text={1: 2}).startswith("error: ")


def test_a_page_is_told_once_and_the_memo_always() -> None:
    rollout: Any = tool_environment(CLAIMS)()
    rollout.reset(seed=3, condition="L0")
    assert rollout.memo(text="the limit is 5") == "memo: the limit is 5\nactions left: 39"
    page = rollout.list_claims()
    assert page.startswith('{"title":"Claims queue"')
    assert page.endswith("\nmemo: the limit is 5\nactions left: 38")


@pytest.mark.parametrize(
    ("limit", "size"), [(600, len), (150, lambda text: len(re.findall(r"\w+", text)))], ids=["characters", "words"]
)
def test_an_observation_has_a_budget(limit: int, size: Callable[[str], int]) -> None:
    """Rows that do not fit are left out, their number is said, and what is on record is what was told."""
    made = tool_environment(CLAIMS, limit=limit, size=size)
    one, two = made(), made()
    texts = []
    for rollout in (one, two):
        rollout.reset(seed=3, condition="L0")
        texts.append(rollout.list_claims())  # type: ignore[attr-defined]
    assert texts[0] == texts[1]
    result, left = texts[0].split("\n")
    assert size(result) <= limit
    assert left == "actions left: 39"
    table = json.loads(result)["body"][0]
    assert len(table["rows"]) + table["left_out"] == 12
    frame = one._env()[0].unwrapped.ledger.records()[-1]  # type: ignore[attr-defined]
    assert isinstance(frame, Frame)
    assert frame.page == result
    whole: Any = tool_environment(CLAIMS)()
    whole.reset(seed=3, condition="L0")
    assert "left_out" not in whole.list_claims()


def test_a_result_that_is_cut_off_says_so() -> None:
    rollout: Any = tool_environment(CLAIMS, limit=40)()
    rollout.reset(seed=3, condition="L0")
    result, note, _ = rollout.get_claim(claim_id=1).split("\n")
    assert (len(result), note) == (40, CUT)


# The archives


def test_rollouts_are_archived_and_verify(tmp_path: Path) -> None:
    made = tool_environment(CLAIMS, archives=tmp_path, model="m")
    rollout = made()
    drive(rollout, scripted("claims", "late_reread"), seed=4, condition="OFF-A")
    rollout.get_reward()
    rollout.reset(seed=5, condition="L0")
    rollout.get_reward()
    folders = archives(tmp_path)
    assert [played.archive for played in made._setup.played] == [folder.name for folder in folders]
    rewards = []
    for folder in folders:
        evidence = read_archive(folder)
        assert evidence.problems == ()
        identity = evidence.start.identity
        assert (identity["policy"], identity["model"], identity["actions"]) == ("trl", "m", "tools")
        rewards.append(verify(evidence).reward)
    assert rewards == [1.0, 0.0]
