"""The challenge: enough classes in both strengths, sealed expectations, one result for a seed, none taken for clean."""

import json
from pathlib import Path

import gymnasium
import pytest

from envos.certify.audit import outcome
from envos.certify.challenge import baseline, controls, gradermutants
from envos.certify.challenge.archives import chained, manifested, quiet, sealed, sheet
from envos.certify.challenge.files import FILES, MANIFESTS, TEXTS
from envos.certify.challenge.records import EDITS
from envos.certify.challenge.run import CONTROL, RAW, SEALED, UNIT, kinds, run, summary, unit, wrong
from envos.certify.challenge.tools import SUCCESS, TOOLS, judged
from envos.certify.corruptions import CORRUPTIONS
from envos.certify.forgery import Draft, Original
from envos.certify.log import read
from envos.certify.policies import policies, winner
from envos.certify.policies.panel import panel
from envos.certify.rollout import play
from envos.envs.env import EnvOS
from envos.envs.evidence import chain, sha256
from envos.envs.scenario import SCENARIOS
from envos.rewards.verdict import verify
from envos.wrappers.archive import LEDGER, MANIFEST, Archive

IDS = tuple(name for name in SCENARIOS if name in outcome.RULES)
CASES = 120


def test_there_are_enough_classes_and_kinds() -> None:
    for name, line in SCENARIOS.items():
        found = kinds(name)
        assert len({kind.name for kind in found}) == len(found) >= 150
        world = gymnasium.make(f"envos:{name}", disable_env_checker=True).unwrapped
        assert isinstance(world, EnvOS)
        assert len(controls.ways(line, world.world)) >= 20
    assert len(CORRUPTIONS) + len(EDITS) + len(TEXTS) + len(FILES) + len(MANIFESTS) >= 150


def test_an_archive_in_memory_is_the_one_on_disk(tmp_path: Path) -> None:
    env = Archive(gymnasium.make("envos:EnvOS/ClaimsStale-v0", condition="L2"), tmp_path)
    inner, best = env.unwrapped, winner(SCENARIOS["EnvOS/ClaimsStale-v0"])
    assert isinstance(inner, EnvOS)
    assert best is not None
    verdict = play(env, best.policy, 3).verdict
    assert env.folder is not None
    made = sealed(sheet(inner.evidence(), verdict))
    assert made == {path.name: path.read_bytes() for path in env.folder.iterdir()}
    assert chained(sheet(inner.evidence(), verdict).entries) == list(chain(inner.evidence().records))
    assert manifested(made) == made
    assert judged(env.folder, sealed(sheet(quiet(inner.evidence()), verdict)), regrade=False)[:5] == (SUCCESS,) * 5


def test_a_challenge(tmp_path: Path) -> None:
    seal, results = run(5, CASES, IDS, tmp_path)
    assert len(results) == CASES
    assert wrong(results) == []
    text = (tmp_path / "expectations.jsonl").read_text()
    assert sha256(text) == seal == json.loads((tmp_path / "seal.json").read_text())["sha256"]
    assert [json.loads(line)["number"] for line in text.splitlines()] == list(range(CASES))
    totals = summary(results)["total"]
    assert sum(row["cases"] for row in totals.values()) == CASES
    assert totals[CONTROL]["cases"] == CASES // UNIT
    assert [totals[strength]["pipeline"] for strength in (CONTROL, RAW, SEALED)] == [0, 0, 0]
    # The simple checker takes most corruptions for clean, or the challenge would ask for nothing.
    assert totals[SEALED]["baseline"] > totals[SEALED]["cases"] / 2
    assert set(TOOLS) < set(totals[RAW])


def test_a_seed_gives_the_same_cases_and_another_gives_others() -> None:
    one, again, other = ([case for case, _ in unit(seed, 3, IDS, UNIT)] for seed in (1, 1, 2))
    assert one == again != other
    assert [case.strength == CONTROL for case in one] == [True, *[False] * (UNIT - 1)]


def test_the_last_unit_is_cut() -> None:
    assert len(list(unit(1, 0, IDS, 3))) == 3


def test_a_tool_that_takes_all_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The challenge can fail: with a verifier and auditors that see nothing, corruptions pass for clean."""
    from envos.certify.challenge import run as drawn
    from envos.certify.challenge.tools import Answers

    monkeypatch.setattr(drawn, "judged", lambda folder, files, regrade: Answers(*[SUCCESS] * 5, ""))
    _, results = run(1, 16, IDS, tmp_path)
    assert {item.case.strength for item in wrong(results)} >= {RAW, SEALED}


def test_the_baseline_is_simple_and_alone() -> None:
    text = Path(baseline.__file__).read_text()
    assert len(text.splitlines()) < 150
    assert "envos." not in text
    assert baseline.check({LEDGER: b"", MANIFEST: b""}) == baseline.REJECTED


# --- The grader's own rules ------------------------------------------------------------------------------------------


def test_a_mutated_grader_is_another_and_leaves_the_real_one() -> None:
    from envos.rewards import compare

    flips = [item for item in gradermutants.mutations("compare") if item.what.startswith("flip len(given)")]
    assert len(flips) == 1
    with gradermutants.mutated(flips[0]) as grade:
        assert grade is not verify
    assert compare.equal("money", "25", "25.00")


@pytest.mark.slow
def test_a_sample_of_the_grader_s_mutants_is_killed() -> None:
    """A mutant of each of some rules that decide; `envos challenge --mutants` asks about all."""
    wanted = {
        "validity": "if broken is always False",
        "invariants": "flip reason == 'one'",
        "trigger": "if fire.armed_by != number is always False",
        "verdict": "flip passed == len(terms)",
    }
    for module, what in wanted.items():
        one = next(item for item in gradermutants.mutations(module) if item.what.startswith(what))
        assert gradermutants.judge(one).killer, one


def test_what_a_run_of_20_000_cases_found() -> None:
    """A place name as long as a date, a register whose second row cannot be undone, an episode of one request."""
    line = SCENARIOS["EnvOS/ClinicStale-v0"]
    env = gymnasium.make("envos:EnvOS/ClinicStale-v0", split="test", anchor="any", condition="L0")
    inner, best = env.unwrapped, winner(line)
    assert isinstance(inner, EnvOS)
    assert best is not None
    way, won = controls.ways(line, inner.world)["report_in_another_notation"]
    episode = play(env, way(best.policy), 39)
    assert 'location="\\tGlassworks  Court "' in episode.actions[-1]
    assert episode.verdict["endpoint"] is won is True
    double = panel(line)["double_click"].policy
    assert not any(play(env, double, seed).verdict["endpoint"] for seed in range(25))
    env.close()
    # With one request there is no other session that it could be foreign to.
    claims = gymnasium.make("envos:EnvOS/ClaimsStale-v0", split="test", condition="L0")
    inner = claims.unwrapped
    assert isinstance(inner, EnvOS)
    play(claims, policies("claims")["no_op"].policy, 1)
    fact = inner.instance.roles.fact
    assert fact is not None
    evidence = inner.evidence()
    alone = Original(evidence, inner.plan, inner.world, fact, read(evidence.records, inner.plan))
    with pytest.raises(LookupError):
        next(item for item in CORRUPTIONS if item.name == "foreign_session").make(Draft.again(alone))
    claims.close()
