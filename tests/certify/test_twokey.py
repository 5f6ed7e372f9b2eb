"""Two keys: live verdict, verifier and both auditors agree, or there is no score; each key can be made to lie."""

import json
import os
import zipfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import pytest

import envos.certify.twokey as module
from envos.certify.challenge.tools import judged
from envos.certify.policies import policies
from envos.certify.rollout import play
from envos.certify.twokey import Difference, TwoKeyReward, compare
from envos.envs.env import EnvOS
from envos.errors import UsageError
from envos.rewards.verdict import Verdict, verify
from envos.train.arms import Arms
from envos.wrappers.archive import MANIFEST, POST, VERDICT, Archive, manifest, read_archive, write_json
from envos.wrappers.numeric import NumericView
from envos.wrappers.tools import ToolActions

ID = "EnvOS/ClinicStale-v0"


def made(condition: str = "OFF-A", **keywords: Any) -> gymnasium.Env[Any, Any]:
    return gymnasium.make(f"envos:{ID}", condition=condition, disable_env_checker=True, **keywords)


def archived(root: Path, policy: str, condition: str = "OFF-A", seed: int = 3) -> Path:
    env = Archive(made(condition), root)
    play(env, policies("clinic")[policy].policy, seed)
    assert env.folder is not None
    env.close()
    return env.folder


def sealed(folder: Path, **files: Any) -> Path:
    """The archive with JSON files replaced, and a manifest that fits."""
    head = json.loads((folder / MANIFEST).read_text())["head"]
    for name, data in files.items():
        write_json(folder / f"{name}.json", data)
    (folder / MANIFEST).unlink()
    write_json(folder / MANIFEST, manifest(folder, head))
    return folder


@pytest.mark.parametrize(
    ("policy", "condition", "endpoint"),
    [("reference", "OFF-A", False), ("late_reread", "OFF-A", True), ("no_op", "L0", None), ("reference", "L0", True)],
)
def test_keys_agree_on_what_happened(tmp_path: Path, policy: str, condition: str, endpoint: bool | None) -> None:
    keys = compare(archived(tmp_path, policy, condition))
    assert keys.differences == ()
    assert keys.verdict["endpoint"] is endpoint
    assert keys.scorable is (endpoint is not None)
    assert all(keys.terms().values())


def test_a_verdict_that_says_something_else_is_named(tmp_path: Path) -> None:
    folder = archived(tmp_path, "reference")
    claim = json.loads((folder / VERDICT).read_text())
    keys = compare(sealed(folder, verdict={**claim, "reward": 1.0}))
    assert [str(item) for item in keys.differences] == [
        "verdict: the verifier says reward 0.0, the archived one reward 1.0"
    ]
    assert not keys.scorable
    # One is no true, in a verdict.
    keys = compare(sealed(folder, verdict={**claim, "counted": 1}))
    assert [item.term for item in keys.differences] == ["verdict"]
    keys = compare(sealed(folder, verdict=[]))
    assert [item.term for item in keys.differences] == ["verdict", "validity"]
    assert keys.differences[0].other == "the archived one is none"


def test_a_state_that_was_exchanged_counts_for_nobody(tmp_path: Path) -> None:
    folder = archived(tmp_path, "reference")
    post = json.loads((folder / POST).read_text())
    post["patient"]["rows"][0][1] = "Somebody Else"
    keys = compare(sealed(folder, post=post))
    assert not keys.scorable
    assert keys.verdict["counted"] is False
    assert keys.validity["counted"] is False


@pytest.mark.parametrize("name", ["ledger.jsonl", "pre.json", "post.json", "verdict.json", "manifest.json"])
def test_no_file_can_be_missing(tmp_path: Path, name: str) -> None:
    folder = archived(tmp_path, "late_reread")
    (folder / name).unlink()
    assert not compare(folder).scorable


def test_an_empty_folder_and_a_folder_of_rubbish_have_no_score(tmp_path: Path) -> None:
    for number, files in enumerate(({}, {"ledger.jsonl": b"\xff"}, {"manifest.json": b"[" * 100_000})):
        folder = tmp_path / str(number)
        folder.mkdir()
        for name, data in files.items():
            (folder / name).write_bytes(data)
        keys = compare(folder)
        assert not keys.scorable


def lying(change: Callable[[Verdict], dict[str, Any]]) -> Callable[[Any], Any]:
    class Lie:
        def __init__(self, verdict: Verdict) -> None:
            self._verdict = verdict

        def info(self) -> dict[str, Any]:
            return change(self._verdict)

    return lambda evidence: Lie(verify(evidence))


def success(verdict: Verdict) -> dict[str, Any]:
    """A verifier that has lost its first invariant."""
    told = verdict.info()
    told["invariants"]["I1"]["passed"] = True
    return {**told, "endpoint": True, "fraction": 1.0, "reward": 1.0}


def test_a_verifier_that_is_wrong_is_found_out_and_the_term_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(module, "verify", lying(success))
    env = TwoKeyReward(made())
    inner = env.unwrapped
    assert isinstance(inner, EnvOS)
    inner._verifier = lambda evidence: type(  # what the environment pays by is wrong in the same way
        "Paid", (), {"info": lambda self: success(verify(evidence)), "reward": 1.0}
    )()
    episode = play(env, policies("clinic")["reference"].policy, 3)
    assert episode.reward == 0.0
    verdict = episode.verdict
    assert (verdict["counted"], verdict["endpoint"], verdict["validity"]) == (False, None, "harness_error")
    told = [reason["detail"] for reason in verdict["reasons"] if reason["code"] == "keys_differ"]
    assert [text.partition(":")[0] for text in told] == ["I1", "endpoint"]
    assert told[0].startswith("I1: the verifier says true, the auditor false")
    env.close()


@pytest.mark.parametrize("term", ["validity", "outcome"])
def test_an_auditor_that_is_wrong_costs_the_score_too(monkeypatch: pytest.MonkeyPatch, term: str) -> None:
    auditor = getattr(module, term)
    honest = auditor.audit

    def wrong(folder: Any) -> dict[str, Any]:
        found = honest(folder)
        if term == "validity":
            return {**found, "class": "not_triggered", "counted": False}
        return {**found, "terms": {**found["terms"], "I3": {"value": "unresolved", "reason": "lost"}}}

    monkeypatch.setattr(auditor, "audit", wrong)
    env = TwoKeyReward(made())
    episode = play(env, policies("clinic")["late_reread"].policy, 3)
    assert episode.reward == 0.0
    assert episode.verdict["counted"] is False
    details = [reason["detail"] for reason in episode.verdict["reasons"]]
    wanted = "validity: the verifier says counted" if term == "validity" else "I3: the verifier says true"
    assert any(text.startswith(wanted) for text in details)
    env.close()


def test_an_honest_episode_is_paid_as_ever_and_its_archive_is_what_archive_writes(tmp_path: Path) -> None:
    plain, keyed = made(), TwoKeyReward(Archive(made(), tmp_path))
    for name in ("late_reread", "reference"):
        one = play(plain, policies("clinic")[name].policy, 5)
        other = play(keyed, policies("clinic")[name].policy, 5)
        assert dict(one.verdict) == dict(other.verdict)
        assert one.reward == other.reward
        assert keyed.keys is not None
        assert keyed.keys.scorable
    inner = keyed.unwrapped
    assert isinstance(inner, EnvOS)
    folder = tmp_path / "again"
    folder.mkdir()
    module.write_archive(folder, inner, other.verdict)
    archive = keyed.env
    assert isinstance(archive, Archive)
    assert archive.folder is not None
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {
        path.name: path.read_bytes() for path in archive.folder.iterdir()
    }
    assert read_archive(folder).problems == ()
    plain.close()
    keyed.close()


def test_a_share_is_drawn_from_split_and_seed() -> None:
    def audited(fraction: float) -> list[bool]:
        env = TwoKeyReward(made("L0"), fraction)
        found = []
        for seed in range(40):
            env.keys = None
            env.reset(seed=seed)
            env.step('report(location="x", start="y", reference="z")')
            found.append(env.keys is not None)
        env.close()
        return found

    some = audited(0.3)
    assert some == audited(0.3)
    assert 4 <= sum(some) <= 20
    assert not any(audited(0.0))
    assert all(audited(1.0))


def test_what_it_wraps_and_what_wraps_it() -> None:
    with pytest.raises(UsageError, match="takes an EnvOS environment; got CartPole"):
        TwoKeyReward(gymnasium.make("CartPole-v1"))
    for fraction in (-0.1, 1.5):
        with pytest.raises(UsageError, match="from 0 to 1"):
            TwoKeyReward(made(), fraction)
    tools = ToolActions(TwoKeyReward(made()))
    assert play(tools, policies("tools_clinic")["late_reread"].policy, 3).reward == 1.0
    tools.close()
    view = NumericView(TwoKeyReward(made()))
    view.reset(seed=1)
    view.close()
    arms = Arms([(ID, "OFF-A")], audit=1.0)
    arms.reset(seed=1)
    assert isinstance(arms._running.env, TwoKeyReward)
    arms.close()


def zipped(folder: Path) -> Path:
    path = folder.with_suffix(".zip")
    with zipfile.ZipFile(path, "w") as made:
        for item in folder.iterdir():
            made.write(item, item.name)
    return path


def test_a_zip_is_what_its_folder_is(tmp_path: Path) -> None:
    folder = archived(tmp_path, "late_reread")
    one, other = compare(folder), compare(zipped(folder))
    assert other.scorable
    assert (one.verdict, one.claim, one.outcome) == (other.verdict, other.claim, other.outcome)
    (tmp_path / "no.zip").write_bytes(b"PK")
    keys = compare(tmp_path / "no.zip")
    assert not keys.scorable
    assert [item.term for item in keys.differences] == ["archive"]


def broken(*_: Any) -> Any:
    raise ZeroDivisionError("by zero")


@pytest.mark.parametrize(
    ("where", "name", "key"),
    [
        (module, "verify", "verifier"),
        (module, "read_archive", "verifier"),
        (module.validity, "audit", "validity auditor"),
        (module.outcome, "audit", "outcome auditor"),
    ],
)
def test_a_key_that_breaks_costs_the_score_and_is_no_rejection_in_the_challenge(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, where: Any, name: str, key: str
) -> None:
    folder = archived(tmp_path, "late_reread")
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    monkeypatch.setattr(where, name, broken)
    keys = compare(folder)
    assert not keys.scorable
    assert keys.failures == keys.differences
    assert [str(item) for item in keys.differences] == [f"{key}: it failed: ZeroDivisionError: by zero"]
    assert keys.terms()[key] is False
    with pytest.raises(RuntimeError, match=f"{key}: it failed"):
        judged(folder, files, regrade=False)
    env = TwoKeyReward(made())
    episode = play(env, policies("clinic")["late_reread"].policy, 3)
    assert (episode.reward, episode.verdict["counted"]) == (0.0, False)
    env.close()


def test_a_term_that_the_verifier_has_lost_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = archived(tmp_path, "late_reread")

    def lost(verdict: Verdict) -> dict[str, Any]:
        told = verdict.info()
        return {**told, "invariants": {name: term for name, term in told["invariants"].items() if name != "I3"}}

    monkeypatch.setattr(module, "verify", lying(lost))
    keys = compare(sealed(folder, verdict=lost(verify(read_archive(folder)))))
    assert [str(item) for item in keys.differences] == ["I3: the verifier says nothing, the auditor true"]


def test_an_episode_that_fails_for_want_of_a_change_has_no_terms_to_differ_on(tmp_path: Path) -> None:
    """It counts, with no invariants, where the plan says so; the auditor has them all the same."""
    env = Archive(gymnasium.make("envos:EnvOS/ClinicGhost-v0", condition="C", disable_env_checker=True), tmp_path)
    env.reset(seed=3)
    verdict = env.step('report(location="x", start="y", reference="z")')[4]["verdict"]
    assert (verdict["counted"], verdict["untriggered"], dict(verdict["invariants"])) == (True, True, {})
    assert env.folder is not None
    keys = compare(env.folder)
    assert keys.differences == ()
    assert set(keys.outcome["terms"]) >= {"I1", "I5"}
    env.close()


def test_an_environment_that_an_auditor_does_not_know_has_no_score(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = archived(tmp_path, "late_reread")
    rules = {name: rule for name, rule in module.outcome.RULES.items() if name != ID}
    monkeypatch.setattr(module.outcome, "RULES", rules)
    keys = compare(folder)
    assert not keys.scorable
    assert [item.term for item in keys.differences] == ["archive"]
    assert f"no rules for environment '{ID}'" in keys.differences[0].other


@pytest.mark.parametrize("kind", ["pipe", "link", "large", "deep", "twice"])
def test_an_archived_verdict_that_is_no_plain_file_is_none(tmp_path: Path, kind: str) -> None:
    """A pipe would be waited for, for ever; a large file would be read whole."""
    folder = archived(tmp_path, "late_reread")
    path = folder / VERDICT
    data = path.read_bytes()
    path.unlink()
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "link":
        (tmp_path / "elsewhere").write_bytes(data)
        path.symlink_to(tmp_path / "elsewhere")
    elif kind == "large":
        path.touch()
        os.truncate(path, 3 * 2**30)
    else:
        path.write_bytes(b'{"a":' * 50_000 + b"1" + b"}" * 50_000 if kind == "deep" else b'{"counted":1,' + data[1:])
    keys = compare(folder)
    assert not keys.scorable
    assert keys.failures == ()
    assert keys.claim is None


def test_what_cannot_be_written_cannot_be_audited(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "write_archive", full)
    env = TwoKeyReward(made())
    episode = play(env, policies("clinic")["late_reread"].policy, 3)
    assert (episode.reward, episode.verdict["counted"]) == (0.0, False)
    assert episode.verdict["reasons"][-1]["detail"] == "archive: it failed: OSError: [Errno 28] No space left on device"
    assert env.keys is not None
    env.reset(seed=4)
    assert env.keys is None
    env.close()


@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.parametrize("honest", [True, False])
def test_in_a_vector_environment_one_episode_loses_its_score_and_the_other_does_not(
    monkeypatch: pytest.MonkeyPatch, mode: str, honest: bool
) -> None:
    def doubted(path: Any) -> module.Keys:
        keys = compare(path)
        if honest or keys.verdict["endpoint"]:
            return keys
        return replace(keys, differences=(Difference("I1", "false", "the auditor true"),))

    monkeypatch.setattr(module, "compare", doubted)
    # The workers are forked, and so doubt as this process does.
    kind: Any = gymnasium.vector.SyncVectorEnv
    if mode == "async":
        kind = partial(gymnasium.vector.AsyncVectorEnv, shared_memory=False, context="fork")
    single = made("L0")
    steps = policies("clinic")["reference"].policy(single.reset(seed=3)[0])
    actions = [next(steps)]
    while not actions[-1].startswith("report"):
        actions.append(steps.send(single.step(actions[-1])[0]))
    single.close()
    envs = kind([lambda: TwoKeyReward(made("L0"))] * 2)
    envs.reset(seed=[3, 3])
    for action in actions:
        wrong = 'report(location="?", start="?", reference="?")' if action == actions[-1] else action
        _, rewards, terminated, _, infos = envs.step((action, wrong))
    assert terminated.all()
    one, two = infos["verdict"]
    assert (one["validity"], one["endpoint"], rewards[0]) == ("counted", True, 1.0)
    assert rewards[1] == 0.0
    wanted = (True, "counted", False) if honest else (False, "harness_error", None)
    assert (two["counted"], two["validity"], two["endpoint"]) == wanted
    envs.close()
