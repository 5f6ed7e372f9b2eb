"""Sweeps on Ray: the right figures, resumable, and a worker that dies loses nothing."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("ray", reason="Ray is an extra: envos[rllib]")

from envos import cli
from envos.certify.certificate import certify
from envos.errors import UsageError
from envos.train import sweep as module
from envos.train.spread import in_order, spread
from envos.train.sweep import Arm, Sweep, begun, finish, rows, sweep

CLINIC = "EnvOS/ClinicStale-v0"
ASKED = Sweep(
    (Arm(CLINIC, "L0", "reference"), Arm(CLINIC, "OFF-A", "reference"), Arm(CLINIC, "OFF-A", "late_reread")),
    "test",
    "any",
    tuple(range(12)),
    "code",
)


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    """One cluster for these tests; `spread` joins it."""
    import ray

    ray.init(
        num_cpus=2, include_dashboard=False, _node_ip_address="127.0.0.1", logging_level="ERROR", log_to_driver=False
    )
    yield
    ray.shutdown()


def _dies_once(given: tuple[int, str]) -> int:
    number, marker = given
    if number == 3 and not Path(marker).exists():
        Path(marker).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number * number


def _fails(number: int) -> int:
    raise UsageError(f"no {number}")


def test_a_worker_that_is_killed_loses_nothing(tmp_path: Path) -> None:
    marker = str(tmp_path / "died")
    found = dict(spread(_dies_once, [(number, marker) for number in range(8)]))
    assert Path(marker).exists()
    assert found == {0: 0, 1: 1, 2: 4, 3: 9, 4: 16, 5: 25, 6: 36, 7: 49}


def test_what_a_piece_raises_is_raised_here() -> None:
    with pytest.raises(UsageError, match="no 5"):
        list(spread(_fails, [5]))


def test_results_come_in_the_order_of_their_pieces() -> None:
    assert list(in_order(iter([(2, "c"), (0, "a"), (1, "b"), (3, "d")]))) == ["a", "b", "c", "d"]


def test_a_sweep_that_was_stopped_goes_on_where_it_was(tmp_path: Path) -> None:
    going = sweep(ASKED, tmp_path)
    assert next(going) == (0, 36)
    first, _ = next(going)
    going.close()
    lines = (tmp_path / "episodes.jsonl").read_text(encoding="utf-8")
    assert len(json.loads(lines)["episodes"]) == first
    # The process was killed in the middle of its next line.
    with (tmp_path / "episodes.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"piece": "EnvOS/Cli')
    assert next(sweep(ASKED, tmp_path)) == (first, 36)
    assert list(sweep(ASKED, tmp_path))[-1] == (36, 36)
    assert (tmp_path / "episodes.jsonl").read_text(encoding="utf-8").startswith(lines)
    # By protocol section 8: the reference is right where nothing changes, and misses one of five terms where it does.
    table = {(row.condition, row.policy): row for row in finish(ASKED, tmp_path)}
    assert {arm: (row.episodes, row.counted, row.endpoint_rate, row.mean_fraction) for arm, row in table.items()} == {
        ("L0", "reference"): (12, 12, 1.0, 1.0),
        ("OFF-A", "reference"): (12, 12, 0.0, pytest.approx(0.8)),
        ("OFF-A", "late_reread"): (12, 12, 1.0, 1.0),
    }
    assert table["OFF-A", "reference"].signatures["stale_commit"] == 12
    seeds = [item["seed"] for key, items in begun(ASKED, tmp_path) for item in items if "L0" in key]
    assert sorted(seeds) == list(range(12))
    assert (tmp_path / "sweep.png").read_bytes().startswith(b"\x89PNG")


def test_another_sweep_is_not_mixed_in(tmp_path: Path) -> None:
    begun(ASKED, tmp_path)
    other = Sweep(ASKED.arms, "train", "any", ASKED.seeds, "code")
    with pytest.raises(UsageError, match="holds another sweep"):
        begun(other, tmp_path)
    (tmp_path / "sweep.json").write_text("{", encoding="utf-8")
    with pytest.raises(UsageError, match=r"sweep\.json is not what a sweep wrote"):
        begun(ASKED, tmp_path)


def test_arms_without_a_counted_episode_have_no_rate(tmp_path: Path) -> None:
    begun(ASKED, tmp_path)
    lost = {"seed": 0, "actions": 48, "validity": "not_triggered", "counted": False, "signatures": []}
    line = {"piece": f"{CLINIC}/L0/reference/0", "episodes": [{**lost, "endpoint": None, "fraction": None}]}
    (tmp_path / "episodes.jsonl").write_text(json.dumps(line) + "\n", encoding="utf-8")
    first, *rest = rows(ASKED, tmp_path)
    assert (first.episodes, first.counted, first.endpoint_rate, first.mean_actions) == (1, 0, None, None)
    assert first.validity == {"not_triggered": 1}
    assert [row.episodes for row in rest] == [0, 0]
    module.plot([first, *rest], tmp_path / "plot.png")


def test_the_certificate_is_the_same_on_ray() -> None:
    here = certify(CLINIC, "train", range(6), ["OFF-A"], ["any"])
    there = certify(CLINIC, "train", range(6), ["OFF-A"], ["any"], spread=lambda f, pieces: in_order(spread(f, pieces)))
    assert here.digest == there.digest
    assert here.admitted == 6


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["sweep", str(tmp_path), "--env", CLINIC, "--policy", "stale", "--condition", "L2", "--seeds", "0:2"]
    with pytest.raises(SystemExit) as done:
        cli.app([*words, "--json"])
    assert done.value.code == 0
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert (row["condition"], row["policy"], row["endpoint_rate"]) == ("L2", "stale", 0.0)
    with pytest.raises(SystemExit) as refused:
        cli.app(["sweep", str(tmp_path / "other"), "--env", CLINIC, "--policy", "refrence"])
    assert refused.value.code == 2
    assert "'reference'" in capsys.readouterr().err
