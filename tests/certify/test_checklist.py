"""The checklist E01 to E42 has a home for each id, and the checks that had none but here.

E09, E10, E14, E15, E18, E19, E20, E26, E38, E40 and E42 are tested in this file.
"""

import ast
import re
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import pytest

from envos.certify.certificate import certify
from envos.certify.checks import WARNINGS, rules
from envos.certify.checks.checklist import FAILED, ITEMS, OPERATOR, PASSED, SKIPPED, TESTED, results
from envos.certify.policies import policies, winner
from envos.certify.policies.panel import panel
from envos.certify.rollout import play
from envos.envs.action import goto, report
from envos.envs.env import EnvOS
from envos.envs.scenario import SCENARIOS, load_world

ROOT = Path(__file__).resolve().parents[2]
IDS = list(SCENARIOS)


def make(environment: str, **options: Any) -> EnvOS:
    env = gymnasium.make(f"envos:{environment}", disable_env_checker=True, **options).unwrapped
    assert isinstance(env, EnvOS)
    return env


def test_every_id_has_a_home() -> None:
    known = {item.id for item in rules()}
    assert [item.id for item in ITEMS] == [f"E{number:02}" for number in range(1, 43)]
    for item in ITEMS:
        assert item.rules or item.tests or item.operator, item.id
        assert known.issuperset(item.rules), item.id
        for name in item.tests:
            assert re.search(rf"\b{item.id}\b", (ROOT / "tests" / name).read_text(encoding="utf-8")), (item.id, name)


def test_the_report_of_a_certificate() -> None:
    whole = certify("EnvOS/ClaimsGhost-v0", "train", [0], ["L0"], ["first"])
    rows = {row["id"]: row for row in results(whole)}
    assert {rows[name]["result"] for name in ("E01", "E03", "E12", "E16", "E36")} == {PASSED}
    assert (rows["E23"]["result"], rows["E41"]["result"]) == (TESTED, OPERATOR)
    assert rows["E12"]["example"]["double_commit"] == "I2"
    # A check that was not reached is skipped by name; one that failed is failed, with its remedy.
    ran, failed = dict(whole.tally), dict(whole.tally)
    ran["E03"] = (0, 0)
    failed["E30"] = (1, 1)
    assert {row["id"]: row["result"] for row in results(replace(whole, tally=ran))}["E03"] == SKIPPED
    row = {row["id"]: row for row in results(replace(whole, tally=failed))}["E30"]
    assert (row["result"], row["severity"], bool(row["remedy"])) == (FAILED, "warns", True)
    assert "E30" in WARNINGS


@pytest.mark.parametrize("environment", IDS)
def test_the_panel_earns_nothing(environment: str) -> None:
    """E02, E12: every adversary under every condition; where the task is not triggered, that is no success either."""
    line, env = SCENARIOS[environment], make(environment)
    for condition in line.conditions:
        for name, one in panel(line).items():
            episode = play(env, one.policy, 5, {"condition": condition, "anchor": "any"})
            assert not episode.verdict["endpoint"], (condition, name)
            assert episode.reward == 0.0, (condition, name)


@pytest.mark.parametrize("environment", IDS)
def test_no_refusal_wins(environment: str) -> None:
    """E09: "N/A", silence and "done" are no way to end a task well."""
    env = make(environment, condition=SCENARIOS[environment].conditions[0])
    fields = load_world(SCENARIOS[environment].world).report
    for text in ("N/A", "", "done", "not possible"):
        env.reset(seed=2)
        *_, info = env.step(report(**dict.fromkeys(fields, text)))
        assert not info["verdict"]["endpoint"]


def test_the_terms_give_the_reward() -> None:
    """E10: the invariants are listed in the verdict; their share is the fraction, all of them the reward."""
    for name, line in SCENARIOS.items():
        env = make(name, condition=line.conditions[0])
        for scripted in policies(line.world, line.phenomenon).values():
            verdict = play(env, scripted.policy, 3).verdict
            terms = [term["passed"] for term in verdict["invariants"].values()]
            if terms:
                assert verdict["fraction"] == sum(terms) / len(terms)
                assert verdict["reward"] == float(all(terms))


def test_no_model_and_no_network_in_the_reward_path() -> None:
    """E14: what grades imports no model, no client and no socket."""
    banned = {"anthropic", "http", "httpx", "openai", "requests", "socket", "torch", "transformers", "urllib3", "vllm"}
    for path in [*(ROOT / "rewards").glob("*.py"), *(ROOT / "certify" / "audit").glob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [item.name for item in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not {name.partition(".")[0] for name in names} & banned, path


def test_nothing_of_the_evaluator_before_the_end() -> None:
    """E15: until the last step `info` holds no plan, task, answer or verdict."""
    for name, line in SCENARIOS.items():
        env = make(name, condition=line.conditions[-1])
        _, info = env.reset(seed=4)
        *_, after = env.step("noop()")
        for told in (info, after):
            text = repr(told)
            assert env.instance.canary not in text
            assert not {"plan", "verdict", "task", "answer", "roles"} & told.keys()


def test_other_addresses_are_out_of_reach() -> None:
    """E18: files, other origins, hidden routes: an error line or a refused page, and nothing is written."""
    env = make("EnvOS/ClinicStale-v0", condition="L0")
    env.reset(seed=1)
    before = env.state_now()
    for url in (
        "file:///etc/passwd",
        "view-source:/",
        "//elsewhere/x",
        "/admin",
        "/api/plan",
        "/../pre.json",
        "/canary",
    ):
        observation, *_ = env.step(goto(url))
        assert observation["error"] or "# Not possible" in observation["page"], url
    assert env.state_now() == before


def test_an_episode_without_a_network(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """E19, E20: with no socket to be had an episode is won, and nothing is written to the working folder."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("an episode asked for a socket")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.chdir(tmp_path)
    line = SCENARIOS["EnvOS/ClaimsGhost-v0"]
    best = winner(line)
    assert best is not None
    assert play(make(line.id, condition="OFF-A"), best.policy, 1).reward == 1.0
    assert list(tmp_path.iterdir()) == []


def test_versions_are_pinned() -> None:
    """E26: every dependency of the development environment has one version; ids and identities carry theirs."""
    lines = [line.partition("#")[0].strip() for line in (ROOT / "constraints.txt").read_text().splitlines()]
    assert all("==" in line for line in lines if line)
    assert all(re.fullmatch(r"EnvOS/\w+-v\d+", name) for name in SCENARIOS)
    env = make("EnvOS/ClinicStale-v0")
    env.reset(seed=0)
    identity = env.evidence().start.identity
    assert all(identity[name] for name in ("version", "code", "grader", "format", "instance"))


def test_as_many_results_as_planned() -> None:
    """E38: a certificate has an entry for each instance, condition and anchor, those that failed included."""
    made = certify("EnvOS/ClaimsGhost-v0", "train", [0, 1], ["L0", "OFF-A"], ["first", "any"])
    assert len(made.entries) == 2 * 2 * 2
    assert all(row["episodes"] == 2 for row in made.matrix())


@pytest.mark.parametrize("environment", IDS)
def test_trivial_agents_are_reported(environment: str) -> None:
    """E40: the tables of every environment's page have the agents that do nothing, anything, and always go back."""
    pages = [path.read_text(encoding="utf-8") for path in (ROOT / "docs" / "environments").glob("*.md")]
    page = next(text for text in pages if f"envos run {environment} " in text)
    assert all(f"| `{name}` |" in page for name in ("no_op", "random", "always_back"))


@pytest.mark.parametrize("environment", IDS)
def test_the_task_says_what_is_checked(environment: str) -> None:
    """E42: the brief names each field of the report, and the record that is to be worked on."""
    env = make(environment)
    observation, _ = env.reset(seed=9)
    for name in env.world.report:
        assert name in observation["goal"].lower(), name
