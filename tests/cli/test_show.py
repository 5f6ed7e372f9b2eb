"""`envos list` and `envos show`."""

from collections.abc import Callable
from typing import Any

from typer.testing import Result

ENVIRONMENT = "EnvOS/ClinicStale-v0"
CONDITIONS = ["L0", "C", "L2", "OFF-A", "CUE-A", "LIVE-A", "OFF-I", "LIVE-I"]
Command = Callable[..., Result]
Document = Callable[..., Any]


def test_list(envos: Command, document: Document) -> None:
    done = envos("list")
    assert done.exit_code == 0
    assert [ENVIRONMENT, "clinic", "stale", "8", "48"] in [line.split() for line in done.stdout.splitlines()]
    (line,) = [item for item in document("list")["environments"] if item["id"] == ENVIRONMENT]
    assert line == {
        "id": ENVIRONMENT,
        "world": "clinic",
        "phenomenon": "stale",
        "conditions": CONDITIONS,
        "budget": 48,
        "untriggered": "uncounted",
    }


def test_show_tells_everything_once(envos: Command) -> None:
    done = envos("show", ENVIRONMENT)
    assert done.exit_code == 0
    for text in ("Brief of train, seed 0", "Conditions", "Invariants", "click(", "late_reread", "# Clinic sessions"):
        assert text in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 100


def test_show_as_json(document: Document) -> None:
    data = document("show", ENVIRONMENT, "--seed", 5, "--split", "test")
    assert [line["code"] for line in data["conditions"]] == CONDITIONS
    by_code = {line["code"]: (line["changes"], line["announced"], line["review"]) for line in data["conditions"]}
    assert by_code["L0"] == (None, False, "nothing")
    assert by_code["L2"] == ("fact", True, "nothing")
    assert by_code["CUE-A"] == ("fact", False, "link")
    assert by_code["LIVE-I"] == ("twin", False, "value")
    assert list(data["invariants"]) == ["I1", "I2", "I3", "I4", "I5"]
    assert [item["example"].partition("(")[0] for item in data["actions"]] == [
        "click", "fill", "select_option", "goto", "go_back", "memo", "report", "noop",
    ]  # fmt: skip
    assert data["report"] == {"location": "text", "start": "datetime", "reference": "id"}
    assert [page["url"] for page in data["pages"]] == ["/", "/sessions"]
    assert data["example"]["split"] == "test"


def test_show_is_a_function_of_the_seed(document: Document) -> None:
    assert document("show", ENVIRONMENT, "--seed", 5) == document("show", ENVIRONMENT, "--seed", 5)
    assert document("show", ENVIRONMENT, "--seed", 5)["brief"] != document("show", ENVIRONMENT, "--seed", 6)["brief"]


def test_show_tells_no_evaluator_data(envos: Command) -> None:
    assert "canary" not in envos("show", ENVIRONMENT, "--json").stdout
