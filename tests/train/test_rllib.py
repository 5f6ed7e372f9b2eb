"""Clone, PPO and curriculum, small: that they run, resume, and never learn from what does not count."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("ray", reason="RLlib is an extra: envos[rllib]")
pytest.importorskip("torch", reason="torch is an extra: envos[rllib]")

import torch
from typer.testing import CliRunner

import envos.certify.twokey as twokey
import envos.cli_train as commands
import envos.train.learn as learning
from envos.certify.twokey import Difference, Keys, compare
from envos.cli import app
from envos.errors import UnknownName, UsageError
from envos.train.arms import Arms, Ended, arms
from envos.train.clone import clone, collect, loss
from envos.train.curriculum import ENOUGH, WINDOW, Curriculum
from envos.train.evaluate import score
from envos.train.learn import load_net, save_net
from envos.train.net import Pointer
from envos.train.probe import probe
from envos.train.rllib_ppo import Settings, Watch, begin, drawn, iterate, resume, revived, uncounted

CLINIC, CLAIMS = "EnvOS/ClinicStale-v0", "EnvOS/ClaimsStale-v0"
SMALL = {"environments": 4, "batch": 150, "minibatch": 75, "epochs": 1}


def test_arms_are_named_or_all() -> None:
    assert arms([CLAIMS], ["L0", "OFF-A"]) == [(CLAIMS, "L0"), (CLAIMS, "OFF-A")]
    assert len(arms([CLINIC, CLAIMS])) == 15
    with pytest.raises(UsageError, match="none of"):
        arms([CLAIMS], ["CUE-A"])
    with pytest.raises(UnknownName):
        arms(["EnvOS/ClinicStal-v0"])


def test_episodes_are_drawn_from_the_arms_and_tell_theirs_at_the_end() -> None:
    env = Arms([(CLAIMS, "L0"), (CLINIC, "OFF-A")], reward="fraction")
    seen = []
    observation, _ = env.reset(seed=5)
    for _ in range(6):
        ended = False
        while not ended:
            action = int(observation["action_mask"].argmax())
            observation, _, terminated, truncated, info = env.step(action)
            ended = terminated or truncated
            assert ended == ("ended" in info)
        seen.append(info["ended"][:2])
        env.allow([(CLAIMS, "L0")])
        observation, _ = env.reset()
    # Before the first `allow` either arm may come, after it only that one.
    assert seen[0] in ((CLAIMS, "L0"), (CLINIC, "OFF-A"))
    assert seen[1:] == [(CLAIMS, "L0")] * 5
    env.close()
    with pytest.raises(UsageError, match="no arm"):
        env.allow([])


def test_the_loss_worked_out_by_hand() -> None:
    """Three pairs, one of them illegal: p = 1/2 each, and the smoothing goes to the two legal ones."""
    logits, mask = torch.tensor([[0.0, 0.0, -1e9]]), torch.tensor([[1.0, 1.0, 0.0]])
    assert float(loss(logits, mask, torch.tensor([0]), 0.0)) == pytest.approx(0.693147, abs=1e-5)
    logits = torch.log(torch.tensor([[0.8, 0.2, 1.0]])).masked_fill(mask < 0.5, -1e9)
    # -(0.9 ln 0.8 + 0.1 (ln 0.8 + ln 0.2) / 2) = 0.29245
    assert float(loss(logits, mask, torch.tensor([0]), 0.1)) == pytest.approx(0.29245, abs=1e-4)


def test_a_network_chooses_legal_pairs_only_and_is_read_back(tmp_path: Path) -> None:
    samples = collect([CLAIMS], 7)
    net = clone(samples, epochs=2)
    batch = {name: torch.as_tensor(value) for name, value in samples.observations.items()}
    chosen = net(batch)[0].argmax(-1)
    assert bool((batch["action_mask"].gather(1, chosen[:, None]) == 1).all())
    save_net(net, tmp_path / "net.pt")
    assert bool((load_net(tmp_path / "net.pt")(batch)[0] == net(batch)[0]).all())
    (tmp_path / "other.pt").write_bytes(b"no network")
    with pytest.raises(UsageError, match="no network of this version"):
        load_net(tmp_path / "other.pt")
    rates = probe(net, CLAIMS, "OFF-A", range(2))
    assert rates.episodes == 2
    assert 0 <= rates.goes_back <= 1
    assert score(net, CLAIMS, "L0", "any", range(3)).episodes == 3


def test_what_does_not_count_never_reaches_the_learner() -> None:
    def episode(info: dict[str, Any], done: bool = True) -> Any:
        return SimpleNamespace(is_done=done, get_infos=lambda _: info)

    verdicts = [
        {"counted": True, "validity": "counted"},
        {"counted": False, "validity": "delivery_ambiguous"},
        {"counted": False, "validity": "not_triggered"},
    ]
    good, bad, idle = (episode({"ended": Ended(CLINIC, "L0", verdict)}) for verdict in verdicts)
    broken, running = episode({}), episode({}, done=False)
    samples = [good, bad, idle, broken, running]
    Watch("drop").on_sample_end(samples=samples)
    assert samples == [good, running]
    samples = [good, bad, idle, broken]
    Watch("idle").on_sample_end(samples=samples)
    assert samples == [good, idle]
    samples = [good, bad]
    Watch("zero").on_sample_end(samples=samples)
    assert samples == [good, bad]
    assert uncounted({})


def test_a_curriculum_rises_when_its_newest_stage_goes_well(tmp_path: Path) -> None:
    first, second = (CLINIC, "L0"), (CLAIMS, "OFF-A")
    here = Curriculum([[first], [second]])
    assert here.arms() == [first]
    for number in range(WINDOW):
        assert not here.rise()
        here.note(first, number >= (1 - ENOUGH) * WINDOW)
        here.note(second, False)  # no arm of the stage
    assert here.rise()
    assert here.arms() == [first, second]
    for _ in range(WINDOW):
        here.note(second, True)
    assert not here.rise()
    here.save(tmp_path / "c.json")
    again = Curriculum.load(tmp_path / "c.json")
    assert (again.level, again.arms(), again.recent) == (1, here.arms(), here.recent)


@pytest.mark.filterwarnings("ignore:.*Overriding environment rllib-")  # RLlib's own, of its second algorithm
def test_a_run_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    """Two small iterations over both worlds; weights, counts and the curriculum's level come back."""
    import ray

    net = Pointer()
    save_net(net, tmp_path / "start.pt")
    every = tuple(arms([CLAIMS, CLINIC], ["L0", "OFF-A"]))
    settings = Settings(every, stages=(every[:1], every[1:]), clone=str(tmp_path / "start.pt"), **SMALL)  # type: ignore[arg-type]
    assert revived(json.loads(json.dumps(asdict(settings)))) == settings
    run = begin(settings)
    try:
        lines = [iterate(run) for _ in range(2)]
        assert [line["iteration"] for line in lines] == [1, 2]
        assert lines[1]["steps"] >= 2 * SMALL["batch"]
        assert set(lines[0]["measured"]) == {"ClaimsStale-v0/L0"}
        # The curriculum counts whole episodes, each once.
        figures = [line["measured"]["ClaimsStale-v0/L0"] for line in lines]
        ended = [one["won"] + one["lost"] for one in figures]
        assert all(count == int(count) > 0 for count in ended)
        assert len(run.curriculum.recent) == sum(ended)
        run.curriculum.level = 1
        run.save(tmp_path / "checkpoint")
        again = resume(tmp_path / "checkpoint")
        assert (again.steps, again.iterations, again.curriculum.level) == (run.steps, 2, 1)
        for one, other in zip(run.net().parameters(), again.net().parameters(), strict=True):
            assert bool((one == other).all())
        changed = [
            bool((one != other).any()) for one, other in zip(net.parameters(), again.net().parameters(), strict=True)
        ]
        assert any(changed)
        assert iterate(again)["iteration"] == 3
        with pytest.raises(UsageError, match=r"run\.json"):
            resume(tmp_path)
        again.algorithm.stop()
        run.algorithm.stop()
    finally:
        ray.shutdown()


def test_an_evaluation_has_scripted_baselines_beside_the_agent_and_turns_both_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An untrained network, `reference` and the policy that wins: what each is known to reach under OFF-A."""
    torch.manual_seed(0)
    monkeypatch.setattr(learning, "AUDITED", 1.0)
    arm = ("EnvOS/ClaimsStale-v0", "OFF-A")
    found = learning.evaluation(Pointer(), [arm], tmp_path / "scores.json", episodes=3)
    assert [(one.policy, one.anchor) for one in found] == [
        (name, anchor) for anchor in ("first", "any") for name in ("agent", "reference", "late_reread")
    ]
    success = {one.policy: one.success for one in found}
    assert success == {"agent": 0.0, "reference": 0.0, "late_reread": 1.0}
    assert [one.differ for one in found] == [0] * 6
    assert json.loads((tmp_path / "scores.json").read_text()) == [one.to_json() for one in found]

    def lie(folder: object) -> Keys:
        keys = compare(str(folder))
        return replace(keys, differences=(Difference("I1", "true", "the auditor false"),))

    monkeypatch.setattr(twokey, "compare", lie)
    (agent, *_) = learning.evaluation(Pointer(), [arm], tmp_path / "again.json", episodes=3)
    assert (agent.counted, agent.differ, agent.success) == (0, 3, None)


@pytest.mark.parametrize(("audit", "kept"), [(1.0, 0), (0.0, 1)])
def test_an_episode_on_which_the_keys_differ_never_reaches_the_learner(
    monkeypatch: pytest.MonkeyPatch, audit: float, kept: int
) -> None:
    def doubted(path: object) -> Keys:
        return replace(compare(str(path)), differences=(Difference("I1", "true", "the auditor false"),))

    monkeypatch.setattr(twokey, "compare", doubted)
    # A change that never fires is a failure here, and counts.
    env = Arms([("EnvOS/ClaimsGhost-v0", "C")], audit=audit)
    observation, _ = env.reset(seed=1)
    ended, info = False, dict[str, Any]()
    while not ended:
        action = int(observation["action_mask"].argmax())
        observation, _, terminated, truncated, info = env.step(action)
        ended = terminated or truncated
    env.close()
    assert info["ended"].verdict["counted"] is (audit == 0)
    samples: list[Any] = [SimpleNamespace(is_done=True, get_infos=lambda _: info)]
    Watch("drop").on_sample_end(samples=samples)
    assert len(samples) == kept


def test_the_share_that_is_audited_reaches_the_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = []
    monkeypatch.setattr(commands, "learn", lambda settings, *rest: found.append(settings) or [])
    monkeypatch.setattr(commands, "make_clone", lambda *arguments: None)
    line = ["train", "rllib", "--env", CLAIMS, "--condition", "L0"]
    for share in ("0.25", "1.5"):
        CliRunner().invoke(app, [*line, "--out", str(tmp_path / share), "--audit", share])
    CliRunner().invoke(app, [*line, "--out", str(tmp_path / "none")])
    assert [settings.audit for settings in found] == [0.25, 0.0]


def test_arms_in_which_the_agent_fails_are_drawn_more_often() -> None:
    one, other, third = (CLINIC, "L0"), (CLINIC, "OFF-A"), (CLINIC, "CUE-A")
    success = {one: 1.0, other: 0.0, third: 0.5}
    assert drawn([one, other, third], success, 4) == [one, *[other] * 4, *[third] * 3]
    assert drawn([one, other], success, 1) == [one, other]
    # What is not known yet is drawn as often as what is solved.
    assert drawn([one, other], {}, 4) == [one, other]
