"""`envos certify` and `envos demo`, on few instances."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from envos import cli_certify, cli_demo
from envos.certify.certificate import Certificate, certify
from envos.cli_run import Block, Cell, Outcome
from envos.wrappers.archive import read_archive

ENVIRONMENT = "EnvOS/ClinicStale-v0"
ONE = ("certify", ENVIRONMENT, "--seeds", "4", "--condition", "OFF-A", "--anchor", "first", "--workers", "1")
Command = Callable[..., Result]
Document = Callable[..., Any]


@pytest.fixture(scope="module")
def certificate() -> Certificate:
    """The certificate of one instance under one condition."""
    return certify(ENVIRONMENT, "train", [4], ["OFF-A"], ["first"])


def test_certify_writes_a_certificate_that_run_asks(envos: Command, document: Document, tmp_path: Path) -> None:
    file = tmp_path / "new" / "certificate.json"
    data = document(*ONE, "--out", file)
    assert (data["entries"], data["admitted"], data["refused"], data["seeds"]) == (1, 1, [], [4])
    assert {row["policy"]: row["won"] for row in data["matrix"]} | {"late_reread": 1, "reference": 0} == {
        row["policy"]: row["won"] for row in data["matrix"]
    }
    assert Certificate.load(file).digest == data["digest"]
    arms = ("--policy", "reference", "--condition", "OFF-A", "--anchor", "first", "--certificate", file)
    assert envos("run", ENVIRONMENT, *arms, "--seeds", "4").exit_code == 0
    refused = envos("run", ENVIRONMENT, *arms, "--seeds", "5")
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert "not in the certificate" in refused.stderr


def test_certify_prints_its_matrix(envos: Command) -> None:
    done = envos(*ONE)
    assert done.exit_code == 0
    lines = [line.split() for line in done.stdout.splitlines()]
    assert ["OFF-A", "1", "of", "1"] in lines
    assert ["reference", "0.80", "0", "17.0"] in lines
    assert ["late_reread", "1.00", "100", "25.0"] in lines


def test_an_instance_that_is_not_admitted(
    envos: Command, document: Document, certificate: Certificate, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = replace(certificate.entries[0], refused=("trigger T3: fired twice - mend the guard",))
    monkeypatch.setattr(cli_certify, "certify", lambda *_, **__: replace(certificate, entries=(refused,)))
    done = envos(*ONE)
    assert done.exit_code == 1
    assert "not admitted: seed 4 under OFF-A, anchor first: trigger T3: fired twice - mend the guard" in done.stdout
    data = document(*ONE, code=1)
    assert data["refused"] == [
        {
            "seed": 4,
            "condition": "OFF-A",
            "anchor": "first",
            "reasons": ["trigger T3: fired twice - mend the guard"],
        }
    ]


def test_a_file_that_is_no_certificate(envos: Command, tmp_path: Path) -> None:
    file = tmp_path / "certificate.json"
    file.write_text("{}", encoding="ascii")
    done = envos("run", ENVIRONMENT, "--policy", "reference", "--seeds", "4", "--certificate", file)
    assert (done.exit_code, done.stdout) == (1, "")
    assert "not a certificate" in done.stderr


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the demo take one instance and three conditions."""
    monkeypatch.setattr(cli_demo, "CONDITIONS", ("L0", "OFF-A", "LIVE-A"))
    monkeypatch.setattr(cli_demo, "CERTIFIED", "0:1")
    monkeypatch.setattr(cli_demo, "PLAYED", "0:1")


@pytest.mark.slow
@pytest.mark.usefixtures("small")
def test_demo(envos: Command, document: Document, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "demo"
    data = document("demo", "--out", out, "--workers", "1")
    assert data["failures"] == []
    assert data["certificate"]["admitted"] == data["certificate"]["entries"] == 6
    assert data["verification"]["archives"] == data["verification"]["hold"] == 33
    assert data["contrast"]["rows"] == [
        {"policy": "reference", "pairs": 1, "for": 0, "against": 0, "ties": 1},
        {"policy": "read_review", "pairs": 1, "for": 1, "against": 0, "ties": 0},
    ]
    first = sorted(path.name for path in (out / "archives").iterdir())
    assert len(first) == 33
    start = read_archive(out / "archives" / first[0]).start
    assert start.identity["certificate"] == data["certificate"]["digest"]
    # A second one replaces the first.
    certificate = Certificate.load(out / "certificate.json")
    monkeypatch.setattr(cli_demo, "certified", lambda *_: certificate)
    done = envos("demo", "--out", out)
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert max(len(line) for line in lines if str(out) not in line) <= 100
    assert ["reference", "1.00", "100", "0.80", "0", "0.80", "0", "17.0"] in [line.split() for line in lines]
    assert sorted(path.name for path in (out / "archives").iterdir()) == first


def cell(policy: str, condition: str, rate: float | None) -> Cell:
    """Return a cell of one episode."""
    return Cell(policy, condition, 1, int(rate is not None), rate, rate, 9.0, {}, {}, {})


def test_a_policy_that_fares_otherwise_than_declared_is_said() -> None:
    block = Block.checked(ENVIRONMENT, ["all"], ["all"], "0:1", "test", "first")
    right = [cell("reference", "L0", 1.0), cell("reference", "OFF-A", 0.0), cell("no_op", "L0", None)]
    assert cli_demo.undeclared(block, right) == []
    wrong = [cell("reference", "L0", None), cell("reference", "OFF-A", 1.0), cell("no_op", "L0", 1.0)]
    assert cli_demo.undeclared(block, wrong) == [
        "reference is to win every episode of L0",
        "reference is to win no episode of OFF-A",
        "no_op is to win no episode of L0",
    ]


def test_the_paired_contrast_counts_seeds() -> None:
    """Worked by hand: seed 0 for, 1 against, 2 and 3 ties, 4 has an arm that is not counted, 5 has one arm only."""
    won = {"LIVE-A": (1, 0, 1, 0, None, 1), "OFF-A": (0, 1, 1, 0, 0)}
    outcomes = [
        Outcome("reference", condition, seed, {"counted": value is not None, "endpoint": value}, 9, "")
        for condition, values in won.items()
        for seed, value in enumerate(values)
    ]
    assert cli_demo.contrast(outcomes, "reference") == {
        "policy": "reference",
        "pairs": 4,
        "for": 1,
        "against": 1,
        "ties": 2,
    }
