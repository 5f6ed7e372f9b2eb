"""Certificates: made, kept, read back, and refused when anything about them is not as it was."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import pytest
from subjects import LINE, make_env, without_slots

from envos.certify.certificate import Certificate, certifier, certify, certify_instance
from envos.certify.checks import rules
from envos.certify.policies.clinic import POLICIES
from envos.envs.evidence import Start, canonical, sha256
from envos.envs.instance import Instance
from envos.envs.perturbation import Plan
from envos.errors import CertificateError, UnknownName, UsageError

ID = "EnvOS/ClinicStale-v0"
CONDITIONS = ("L0", "OFF-A")


@pytest.fixture(scope="module")
def certificate() -> Certificate:
    """Two seeds under two conditions, the first one deeply."""
    return certify(ID, "train", [5, 6], CONDITIONS, ["first"])


@pytest.fixture
def file(certificate: Certificate, tmp_path: Path) -> Path:
    """The certificate as a file."""
    certificate.save(tmp_path / "certificate.json")
    return tmp_path / "certificate.json"


def made(**options: Any) -> Any:
    return gymnasium.make(f"envos:{ID}", anchor="first", disable_env_checker=True, **options)


def test_what_a_certificate_holds(certificate: Certificate) -> None:
    assert [(entry.seed, entry.condition, entry.deep) for entry in certificate.entries] == [
        (5, "L0", True),
        (5, "OFF-A", True),
        (6, "L0", False),
        (6, "OFF-A", False),
    ]
    assert certificate.admitted == 4
    assert certificate.policies == tuple(POLICIES)
    shallow = {item.id for item in rules() if not item.deep}
    deep = {item.id for item in rules() if item.deep}
    # Each check ran on all four trials, the deep ones on two, but for those that do not apply under L0 or OFF-A.
    usual = {**dict.fromkeys(shallow, (4, 0)), **dict.fromkeys(deep, (2, 0))}
    assert certificate.tally == {**usual, "M1": (2, 0), "E13.twin": (2, 0), "C3": (1, 0), "E35": (1, 0)}
    data = certificate.to_json()
    assert set(data["sampling"]["deep"]) == deep
    assert data["code"]["grader"] == "1"
    assert data["digest"] == certificate.digest
    assert all(entry["evidence"] == [] for entry in data["entries"] if not entry["deep"])
    evidence = {check["id"] for check in data["entries"][1]["evidence"]}
    assert evidence == shallow | deep - {"E35"} | {"E35"}


def test_the_matrix_over_instances(certificate: Certificate) -> None:
    rows = {(row["condition"], row["policy"]): row for row in certificate.matrix()}
    assert len(rows) == len(CONDITIONS) * len(POLICIES)
    stale = rows["OFF-A", "reference"]
    assert stale["expected"] == {"win": False, "lost": 1, "signature": "stale_commit"}
    assert (stale["episodes"], stale["counted"], stale["won"], stale["fraction"]) == (2, 2, 0, 0.8)
    assert stale["signatures"] == {"stale_commit": 2}
    assert (rows["OFF-A", "late_reread"]["won"], rows["L0", "reference"]["won"]) == (2, 2)
    idle = rows["L0", "no_op"]
    assert (idle["counted"], idle["fraction"], idle["most"], idle["steps"]) == (0, None, None, 48.0)


def test_a_file_gives_the_same_certificate(certificate: Certificate, file: Path) -> None:
    found = Certificate.load(file)
    assert found == certificate
    assert found.digest == certificate.digest
    assert canonical(found.to_json()) == canonical(json.loads(file.read_text()))


def test_any_number_of_workers_makes_the_same_certificate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("envos.certify.certificate._CHUNK", 1)
    seen: list[tuple[int, int]] = []
    one = certify(ID, "test", [3, 4], ["L2"], ["any"], workers=1, progress=lambda done, of: seen.append((done, of)))
    two = certify(ID, "test", [3, 4], ["L2"], ["any"], workers=2, progress=lambda done, of: seen.append((done, of)))
    assert one.digest == two.digest
    assert seen == [(1, 2), (2, 2), (1, 2), (2, 2)]


def test_admitted_by_require(certificate: Certificate, file: Path) -> None:
    env = made(certify="require", certificate=str(file), condition="OFF-A")
    env.reset(seed=6)
    start = env.unwrapped.ledger.records()[0]
    assert isinstance(start, Start)
    assert start.identity["certificate"] == certificate.digest
    env.close()


@pytest.mark.parametrize(
    ("options", "seed", "words"),
    [
        ({"condition": "OFF-A"}, 7, "train/7 under OFF-A, anchor first: not in the certificate; `envos certify"),
        ({"condition": "L2"}, 6, "train/6 under L2, anchor first: not in the certificate"),
        (
            {"condition": "OFF-A", "split": "test"},
            6,
            "the certificate is of EnvOS/ClinicStale-v0 train; `envos certify",
        ),
    ],
)
def test_refused_by_require(file: Path, options: dict[str, str], seed: int, words: str) -> None:
    env = made(certify="require", certificate=str(file), **options)
    with pytest.raises(CertificateError) as caught:
        env.reset(seed=seed)
    assert words in str(caught.value)
    assert f"--seeds {seed}:{seed + 1}" in str(caught.value)
    env.close()


def test_another_anchor_is_not_certified(file: Path) -> None:
    env = made(certify="require", certificate=str(file), condition="OFF-A")
    with pytest.raises(CertificateError, match="anchor any: not in the certificate"):
        env.reset(seed=6, options={"anchor": "any"})
    env.close()


def rewritten(file: Path, change: Callable[[dict[str, Any]], None], *, honest: bool) -> Path:
    """The file with its data changed; an honest change has its digest made anew."""
    data = json.loads(file.read_text())
    change(data)
    if honest:
        data["digest"] = sha256(canonical({name: value for name, value in data.items() if name != "digest"}))
    file.write_text(canonical(data) + "\n")
    return file


def tamper(place: str, value: Any) -> Callable[[dict[str, Any]], None]:
    return lambda data: data["entries"][0].__setitem__(place, value)


@pytest.mark.parametrize(
    "change",
    [
        tamper("instance", "0" * 64),
        tamper("refused", ["x"]),
        tamper("scores", [1.0] * 11),
        lambda data: data["entries"].pop(),
        lambda data: data.__setitem__("split", "test"),
        lambda data: data.__setitem__("digest", "0" * 64),
        lambda data: data.__setitem__("surplus", 1),
        lambda data: data["matrix"][0].__setitem__("won", 7),
        lambda data: data.pop("checks"),
        lambda data: data.__setitem__("format", "0"),
        lambda data: data.__setitem__("certifier", "0"),
        lambda data: data["entries"].__setitem__(0, 3),
        lambda data: data["entries"][0].__setitem__("more", 3),
    ],
)
def test_a_changed_file_is_refused(file: Path, change: Callable[[dict[str, Any]], None]) -> None:
    rewritten(file, change, honest=False)
    with pytest.raises(CertificateError):
        made(certify="require", certificate=str(file))


def test_a_matrix_that_is_not_what_the_entries_give_is_refused_with_any_digest(file: Path) -> None:
    rewritten(file, lambda data: data["matrix"][0].__setitem__("won", 7), honest=True)
    with pytest.raises(CertificateError, match="was changed after it was made"):
        Certificate.load(file)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", "\xff", '{"format": "1"}'])
def test_what_is_no_certificate_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "file.json"
    path.write_text(text, encoding="latin-1")
    with pytest.raises(CertificateError):
        Certificate.load(path)


def test_a_missing_file_says_what_makes_one(tmp_path: Path) -> None:
    with pytest.raises(CertificateError, match="envos certify"):
        made(certify="require", certificate=str(tmp_path / "none.json"))
    with pytest.raises(UsageError, match="envos certify"):
        made(certify="require")


def test_a_certificate_of_other_code_is_refused(certificate: Certificate, tmp_path: Path) -> None:
    other = replace(certificate, code={**certificate.code, "code": "f" * 64})
    other.save(tmp_path / "old.json")
    with pytest.raises(CertificateError, match=r"of other code \(code ffffffffffff, running "):
        made(certify="require", certificate=str(tmp_path / "old.json"))
    replace(certificate, scenario="f" * 64).save(tmp_path / "line.json")
    with pytest.raises(CertificateError, match="of another EnvOS/ClinicStale-v0 than is registered now"):
        made(certify="require", certificate=str(tmp_path / "line.json"))


def instance_and_plan(seed: int) -> tuple[Instance, Plan]:
    env = make_env()
    env.reset(seed=seed, options={"condition": "OFF-A", "anchor": "first"})
    env.close()
    return env.instance, env.plan


def test_another_instance_or_plan_than_certified_is_refused(certificate: Certificate) -> None:
    instance, plan = instance_and_plan(6)
    certificate.admits(instance, plan)
    with pytest.raises(CertificateError, match="another instance was certified"):
        certificate.admits(replace(instance, digest="0" * 64), plan)
    with pytest.raises(CertificateError, match="another plan was certified"):
        certificate.admits(instance, replace(plan, new_text="Elsewhere"))


def test_an_instance_that_failed_is_refused_with_the_reason(certificate: Certificate) -> None:
    result = certify_instance(make_env(world=without_slots()), 6, "OFF-A", "first")
    assert not result.admitted
    assert any(line.startswith("feasibility F2: ") for line in result.refused)
    entries = tuple(
        replace(entry, refused=result.refused) if (entry.seed, entry.condition) == (6, "OFF-A") else entry
        for entry in certificate.entries
    )
    assert replace(certificate, entries=entries).admitted == 3
    with pytest.raises(CertificateError, match="under OFF-A, anchor first: refused: "):
        replace(certificate, entries=entries).admits(*instance_and_plan(6))


def test_auto_certifies_at_reset(monkeypatch: pytest.MonkeyPatch) -> None:
    env = made(certify="auto", condition="OFF-A")
    observation, _ = env.reset(seed=8)
    assert observation["budget_left"][0] == LINE.budget
    digests = [env.unwrapped.ledger.records()[0].identity["certificate"]]
    for seed in (9, 8):
        env.reset(seed=seed)
        digests.append(env.unwrapped.ledger.records()[0].identity["certificate"])
    assert len(set(digests)) == 2
    assert digests[2] == digests[0] != ""
    # A policy that is declared to win and does not: the next new instance is refused, the old one is known.
    broken = replace(POLICIES["reference"], wins=frozenset(LINE.conditions), fails={})
    monkeypatch.setitem(POLICIES, "reference", broken)
    env.reset(seed=8)
    with pytest.raises(CertificateError, match=r"train/10 under OFF-A, anchor first: refused: .*E01"):
        env.reset(seed=10)
    env.close()


def test_what_certify_refuses_to_do() -> None:
    with pytest.raises(UnknownName, match="OFF-A"):
        certify(ID, "train", [1], ["OFF-B"])
    with pytest.raises(UsageError, match="mixed"):
        certify(ID, "train", [1], ["mixed"])
    with pytest.raises(UsageError, match="at least one seed"):
        certify(ID, "train", [])
    with pytest.raises(UsageError, match="workers is at least 1"):
        certify(ID, "train", [1], workers=0)
    with pytest.raises(UsageError, match="whole number"):
        certify(ID, "train", [-1])
    with pytest.raises(UnknownName):
        certify(ID, "training", [1])
    with pytest.raises(UnknownName):
        certify("EnvOS/Nothing-v0", "train", [1])
    with pytest.raises(UsageError, match="require or auto"):
        certifier(ID, "maybe")


def test_a_result_tells_its_digest_and_what_failed() -> None:
    env = make_env()
    one, two = (certify_instance(env, 5, "OFF-A", "first") for _ in range(2))
    assert one.digest == two.digest
    assert one.failed() == ()
    assert replace(one, seed=6).digest != one.digest
    env.close()
