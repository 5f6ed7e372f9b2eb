"""`envos gap`, and `envos show --tools`."""

import json
from collections.abc import Callable
from typing import Any

from typer.testing import Result

ENVIRONMENT = "EnvOS/ClinicStale-v0"
Command = Callable[..., Result]
Document = Callable[..., Any]


def test_gap_prints_a_table(envos: Command) -> None:
    done = envos("gap", ENVIRONMENT, "--policy", "reference", "--policy", "late_reread", "--seeds", "0:2")
    assert done.exit_code == 0, done.output
    lines = [line.split() for line in done.stdout.splitlines()]
    assert ["reference", "OFF-A", "fact", "2/2", "100%", "0%", "1.00", "2", "0"] in [line[:9] for line in lines]
    assert ["late_reread", "OFF-A", "fact", "2/2", "100%", "100%", "0.00", "0", "0"] in [line[:9] for line in lines]
    assert max(map(len, done.stdout.splitlines())) <= 100


def test_gap_as_json(document: Document) -> None:
    data = document(
        "gap", ENVIRONMENT, "--policy", "read_review", "--seeds", "1:3", "--split", "test", "--anchor", "first"
    )
    assert (data["environment"], data["split"], data["anchor"], data["seeds"]) == (ENVIRONMENT, "test", "first", [1, 3])
    assert {one["condition"]: one["gap"] for one in data["gaps"]} == {
        "OFF-A": 1.0,
        "CUE-A": 1.0,
        "LIVE-A": 0.0,
        "OFF-I": 0.0,
        "LIVE-I": 0.0,
    }
    assert {one["policy"] for one in data["gaps"]} == {"read_review"}


def test_gap_with_bad_input(bad: Callable[..., str]) -> None:
    assert "did you mean 'reference'" in bad("gap", ENVIRONMENT, "--policy", "refrence")
    assert "--seeds" in bad("gap", ENVIRONMENT, "--policy", "reference", "--seeds", "5:5")
    assert "valid: first, any" in bad("gap", ENVIRONMENT, "--policy", "reference", "--anchor", "last")
    assert "environment" in bad("gap", "EnvOS/Nothing-v0", "--policy", "reference")
    assert "--policy" in bad("gap", ENVIRONMENT)


def test_show_tools(envos: Command, document: Document) -> None:
    done = envos("show", ENVIRONMENT, "--tools")
    assert done.exit_code == 0
    schemas = json.loads(done.stdout)
    names = [schema["function"]["name"] for schema in schemas]
    assert names[-3:] == ["memo", "report", "noop"]
    assert {"list_sessions", "confirm_booking", "read_message", "acknowledge_notice"} <= set(names)
    assert document("show", ENVIRONMENT, "--tools") == {"environment": ENVIRONMENT, "tools": schemas}
