"""`envos run` writes archives, `envos verify` derives their verdicts again; what was changed in between shows."""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from envos.cli_run import Block, Outcome, cells
from envos.cli_verify import Move, moved
from envos.wrappers.archive import read_archive

ENVIRONMENT = "EnvOS/ClinicStale-v0"
Command = Callable[..., Result]
Document = Callable[..., Any]
Process = Callable[..., "subprocess.CompletedProcess[str]"]


def test_run_counts_what_the_policies_are_declared_to_do(document: Document) -> None:
    arms = ("--condition", "L0", "--condition", "OFF-A", "--seeds", "3:5", "--anchor", "first")
    data = document("run", ENVIRONMENT, "--policy", "reference", "--policy", "no_op", *arms)
    assert data["seeds"] == [3, 5]
    assert (data["policies"], data["conditions"], data["out"]) == (["reference", "no_op"], ["L0", "OFF-A"], None)
    by_cell = {(cell["policy"], cell["condition"]): cell for cell in data["cells"]}
    names = ("episodes", "counted", "endpoint_rate", "mean_fraction")
    assert [by_cell["reference", "L0"][name] for name in names] == [2, 2, 1.0, 1.0]
    assert [by_cell["reference", "OFF-A"][name] for name in names] == [2, 2, 0.0, 0.8]
    assert by_cell["reference", "OFF-A"]["signatures"]["stale_commit"] == 2
    assert [by_cell["no_op", "L0"][name] for name in names] == [2, 0, None, None]
    assert by_cell["no_op", "L0"]["uncounted"] == {"not_triggered": 2}
    # Paired arms: every policy and condition has the same seeds, and a seed's episodes follow each other.
    assert [(item["seed"], item["condition"], item["policy"]) for item in data["episodes"]] == [
        (seed, condition, policy)
        for seed in (3, 4)
        for condition in ("L0", "OFF-A")
        for policy in ("reference", "no_op")
    ]


def outcome(seed: int, endpoint: bool | None, fraction: float | None, actions: int) -> Outcome:
    """Return an episode; one without an endpoint is not counted."""
    counted = endpoint is not None
    validity = "counted" if counted else "harness_error"
    verdict = {
        "validity": validity,
        "counted": counted,
        "endpoint": endpoint,
        "fraction": fraction,
        "signatures": ["x"],
    }
    return Outcome("reference", "L0", seed, verdict, actions, "")


def test_means_leave_out_what_is_not_counted() -> None:
    block = Block.checked(ENVIRONMENT, ["reference"], ["L0"], "0:4", "train", "any")
    rows = [
        outcome(0, True, 1.0, 10),
        outcome(1, False, 0.6, 20),
        outcome(2, False, 0.2, 30),
        outcome(3, None, None, 48),
    ]
    (cell,) = cells(block, rows)
    assert (cell.episodes, cell.counted) == (4, 3)
    assert cell.endpoint_rate == pytest.approx(1 / 3)
    assert cell.mean_fraction == pytest.approx(0.6)
    assert cell.mean_actions == pytest.approx(20)
    assert cell.uncounted == {"harness_error": 1}


def test_the_table_of_a_run(envos: Command, tmp_path: Path) -> None:
    out = tmp_path / "new" / "archives"
    done = envos("run", ENVIRONMENT, "--policy", "reference", "--condition", "OFF-A", "--seeds", "1", "--out", out)
    assert done.exit_code == 0
    row = next(line for line in done.stdout.splitlines() if line.startswith("reference"))
    assert row.split() == ["reference", "OFF-A", "1", "1", "0%", "0.80", "17.0"]
    (folder,) = out.iterdir()
    assert folder.name == "0000-ClinicStale-OFF-A-train-1"
    assert read_archive(folder).start.identity["policy"] == "reference"


def test_a_run_goes_on_in_a_folder_that_holds_archives(envos: Command, archived: Path) -> None:
    envos("run", ENVIRONMENT, "--policy", "no_op", "--condition", "L0", "--seeds", "9", "--out", archived)
    assert sorted(path.name[:4] for path in archived.iterdir()) == ["0000", "0001", "0002", "0003", "0004"]


def test_the_round_trip(document: Document, envos: Command, recorded: Path) -> None:
    data = document("verify", recorded)
    assert {name: data[name] for name in ("archives", "hold", "moved", "with_problems")} == {
        "archives": 4, "hold": 4, "moved": 0, "with_problems": 0,
    }  # fmt: skip
    assert data["validity"] == {"counted": 2, "not_triggered": 2}
    assert data["successes"] == 1
    assert [(item["policy"], item["condition"], item["seed"]) for item in data["results"]] == [
        ("reference", "L0", 7), ("no_op", "L0", 7), ("reference", "OFF-A", 7), ("no_op", "OFF-A", 7),
    ]  # fmt: skip
    assert all(item["holds"] for item in data["results"])
    assert envos("verify", recorded).exit_code == 0


def test_one_archive_may_be_named(document: Document, recorded: Path) -> None:
    data = document("verify", recorded / "0002-ClinicStale-OFF-A-test-7")
    assert [item["verdict"]["fraction"] for item in data["results"]] == [0.8]


def edit(path: Path, old: str, new: str) -> None:
    """Replace the first occurrence in a file."""
    text = path.read_text(encoding="ascii")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="ascii")


def rehash(folder: Path, name: str) -> None:
    """Make the manifest fit a file that was changed."""
    path = folder / "manifest.json"
    data = json.loads(path.read_text(encoding="ascii"))
    data["files"][name] = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    path.write_text(json.dumps(data, sort_keys=True, separators=(",", ":")) + "\n", encoding="ascii")


def claim_success(folder: Path) -> None:
    """Make the archived verdict of a failure a success, and let the manifest fit."""
    edit(folder / "verdict.json", '"endpoint":false', '"endpoint":true')
    rehash(folder, "verdict.json")


DAMAGES: dict[str, tuple[Callable[[Path], None], str]] = {
    "a verdict that claims success": (claim_success, "moved: endpoint: true -> false"),
    "a verdict edited": (lambda folder: edit(folder / "verdict.json", "0.8", "1.0"), "file_hash: verdict.json"),
    "a verdict removed": (lambda folder: (folder / "verdict.json").unlink(), "file_missing: verdict.json"),
    "a verdict that is no JSON": (lambda folder: edit(folder / "verdict.json", "{", "["), "file_hash: verdict.json"),
    "a ledger line edited": (lambda folder: edit(folder / "ledger.jsonl", '"GET"', '"PUT"'), "ledger_chain"),
    "the ledger removed": (lambda folder: (folder / "ledger.jsonl").unlink(), "the trajectory is gone"),
    "the state edited": (lambda folder: edit(folder / "post.json", '"booked"', '"vacant"'), "file_hash: post.json"),
    "the manifest removed": (lambda folder: (folder / "manifest.json").unlink(), "the episode was cut off"),
    "a file added": (lambda folder: (folder / "note.txt").touch(), "file_added: note.txt"),
}


@pytest.mark.parametrize("damage", list(DAMAGES))
def test_damage_is_named(envos: Command, archived: Path, damage: str) -> None:
    change, expected = DAMAGES[damage]
    folder = archived / "0002-ClinicStale-OFF-A-test-7"
    change(folder)
    done = envos("verify", archived)
    assert done.exit_code == 1, done.output
    assert expected in done.stdout
    assert folder.name in done.stdout
    assert "0000-" not in done.stdout


def test_damage_in_the_document(document: Document, archived: Path) -> None:
    claim_success(archived / "0002-ClinicStale-OFF-A-test-7")
    data = document("verify", archived, code=1)
    assert (data["archives"], data["hold"], data["moved"], data["with_problems"]) == (4, 3, 1, 0)
    assert data["results"][2]["moved"] == [{"where": "endpoint", "archived": True, "derived": False}]


def test_an_emptied_archive_is_missed(envos: Command, archived: Path) -> None:
    folder = archived / "0001-ClinicStale-L0-test-7"
    for path in folder.iterdir():
        path.unlink()
    done = envos("verify", archived)
    assert done.exit_code == 1
    assert folder.name in done.stdout


def test_other_folders_are_left_alone(envos: Command, archived: Path) -> None:
    (archived / "notes").mkdir()
    (archived / "notes" / "today.txt").touch()
    assert envos("verify", archived).exit_code == 0


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "null",
        '{"endpoint":NaN}',
        '{"fraction":1e999}',
        "[" * 3000 + "]" * 3000,
        '{"a":"\\u001b[2J\\ud800"}',
        "\xff",
    ],
)
def test_a_hostile_verdict_is_a_failure_and_no_error(document: Document, archived: Path, text: str) -> None:
    (archived / "0000-ClinicStale-L0-test-7" / "verdict.json").write_bytes(text.encode("latin-1"))
    data = document("verify", archived, code=1)
    assert [item["holds"] for item in data["results"]] == [False, True, True, True]


def test_what_a_file_says_cannot_command_the_terminal(envos: Command, archived: Path) -> None:
    (archived / "0000-ClinicStale-L0-test-7" / "x\x1b[2J").touch()
    done = envos("verify", archived)
    assert done.exit_code == 1
    assert "file_added: x?[2J" in done.stdout


@pytest.mark.parametrize(
    ("archived_verdict", "expected"),
    [
        ({"a": 1, "b": {"c": 2}}, []),
        ({"a": 1, "b": {"c": 3}}, [Move("b.c", 3, 2)]),
        ({"a": 1.0, "b": {"c": 2}}, [Move("a", 1.0, 1)]),
        ({"a": True, "b": {"c": 2}}, [Move("a", True, 1)]),
        ({"b": {"c": 2}}, [Move("a", None, 1)]),
        ({"a": 1, "b": None, "z": 0}, [Move("b", None, {"c": 2}), Move("z", 0, None)]),
    ],
)
def test_what_moved(archived_verdict: dict[str, Any], expected: list[Move]) -> None:
    assert list(moved(archived_verdict, {"a": 1, "b": {"c": 2}})) == expected


def test_ctrl_c_leaves_archives_that_can_be_read(document: Document, tmp_path: Path) -> None:
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        pytest.skip("started in the background, where a shell has SIGINT ignored, for children too")
    out = tmp_path / "archives"
    words = ["run", ENVIRONMENT, "--policy", "reference", "--seeds", "0:500", "--out", str(out)]
    command = [str(Path(sys.executable).with_name("envos")), *words]
    started = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    waited = time.monotonic()
    while not (out.is_dir() and len(list(out.iterdir())) > 3) and time.monotonic() - waited < 60:
        time.sleep(0.02)
    os.killpg(started.pid, signal.SIGINT)
    stdout, stderr = started.communicate(timeout=60)
    assert (started.returncode, stdout) == (130, "")
    assert "Traceback" not in stderr
    assert stderr.endswith("envos: stopped\n")
    found = sorted(out.iterdir())
    whole = [folder for folder in found if (folder / "manifest.json").is_file()]
    assert len(found) - len(whole) <= 1
    data = document("verify", out, code=int(len(whole) < len(found)))
    assert data["hold"] == len(whole) >= 3
    assert data["results"][-1]["holds"] or data["results"][-1]["verdict"]["validity"] == "harness_error"


def test_output_is_the_same_in_another_process(process: Process) -> None:
    words = ("run", ENVIRONMENT, "--policy", "random", "--condition", "C", "--seeds", "0:2", "--json")
    first, second = (process(*words, PYTHONHASHSEED=value) for value in ("1", "2"))
    assert first.returncode == 0
    assert first.stdout == second.stdout
    json.loads(first.stdout)


def test_a_terminal_without_unicode_still_shows_the_tables(process: Process, recorded: Path) -> None:
    done = process("verify", recorded, PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stdout.isascii()) == (0, True)
    assert "the archived verdict holds" in done.stdout


def test_a_folder_that_cannot_be_written(bad: Callable[..., str], tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may write anywhere")
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    assert "ermission" in bad("run", ENVIRONMENT, "--policy", "no_op", "--out", closed / "x")
    shutil.rmtree(closed)
