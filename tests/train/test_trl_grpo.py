"""A whole run on the tiny model, in a process of its own: a warm start, GRPO on real episodes, an evaluation."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from typer.testing import CliRunner

from envos.cli import app
from envos.rewards.verdict import verify
from envos.wrappers.archive import archives, read_archive

CLAIMS = "EnvOS/ClaimsStale-v0"
TOOLS = ("list_claims", "get_claim", "list_policies", "start_approval", "review_approval", "approve_claim", "report")
STEPS, GROUP = 3, 4
# Learning to call the one tool that every episode begins with is as much as so small a model can do in half a minute.
RUN = (
    f"train trl --model tiny --env {CLAIMS} --steps {STEPS} --group {GROUP} --condition L0 --condition OFF-A "
    "--observation-tokens 400 --turn-tokens 48 --completion-tokens 1200 --calls 3 --rate 1e-4 --archives "
    "--sft-seeds 1000:1016 --sft-steps 150 --sft-batch 1 --sft-rate 5e-3 --sft-tokens 1340 "
    "--train-seeds 1000:1016 --test-seeds 0:3 --temperature 0.5 --seed 1 --json"
)

needs_trl = pytest.mark.skipif(find_spec("trl") is None, reason="needs the extra trl")


def envos(words: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the command line in a fresh process: torch takes its number of threads when it is loaded."""
    surroundings = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    return subprocess.run(
        [sys.executable, "-m", "envos", *words],
        cwd=folder,
        env=surroundings,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trl")
    tools = [word for tool in TOOLS for word in ("--tool", tool)]
    done = envos([*RUN.split(), *tools, "--out", "run"], folder)
    assert done.returncode == 0, done.stderr[-3000:]
    (folder / "run" / "stdout.json").write_text(done.stdout)
    return folder / "run"


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@needs_trl
def test_grpo_steps_go_through_real_episodes(out: Path) -> None:
    """Every rollout of a step is one of a group that shares its episode, has a verdict, and is archived."""
    rollouts = lines(out / "rollouts.jsonl")
    assert len(rollouts) == STEPS * GROUP
    for first in range(0, len(rollouts), GROUP):
        shared = {
            tuple(one[name] for name in ("step", "seed", "condition", "anchor"))
            for one in rollouts[first : first + GROUP]
        }
        assert len(shared) == 1
    assert {one["split"] for one in rollouts} == {"train"}
    assert sum(int(str(one["actions"])) for one in rollouts) > 0
    found = {folder.name: verify(read_archive(folder)) for folder in archives(out / "archives")}
    assert {one["archive"] for one in rollouts} == set(found)
    for one in rollouts:
        verdict = found[str(one["archive"])]
        assert (verdict.validity, verdict.counted) == (one["validity"], one["counted"])
        assert one["reward"] == (verdict.reward if verdict.counted else None)


@needs_trl
def test_metrics_tell_of_every_step(out: Path) -> None:
    found = lines(out / "metrics.jsonl")
    learned = [one for one in found if one["stage"] == "sft"]
    assert float(str(learned[-1]["loss"])) < 0.5 < float(str(learned[0]["loss"]))
    steps = [one for one in found if one["stage"] == "grpo"]
    assert [one["step"] for one in steps] == [1, 2, 3]
    for one in steps:
        assert (one["rollouts"], one["counted"]) == (GROUP, GROUP)
        assert {"loss", "grad_norm", "reward", "reward_std", "success", "tools/call_frequency"} <= set(one)
    assert sum(float(str(one["tools/call_frequency"])) for one in steps) > 0


@needs_trl
def test_a_run_leaves_config_checkpoint_and_evaluation(out: Path) -> None:
    config = json.loads((out / "config.json").read_text())
    assert config["settings"]["environment"] == CLAIMS
    assert config["rows"]["train"] > 0 < config["rows"]["sft_episodes"]
    assert (out / "checkpoint" / "model.safetensors").is_file()
    table = json.loads((out / "evaluation.json").read_text())
    assert json.loads((out / "stdout.json").read_text())["evaluation"] == table
    by = {(line["policy"], line["condition"]): line for line in table}
    names = ("before GRPO", "after GRPO", "reference", "late_reread", "read_review", "stale")
    assert list(dict.fromkeys(line["policy"] for line in table)) == list(names)
    assert [by[name, "OFF-A"]["success"] for name in names[2:]] == [0.0, 1.0, 0.0, 0.0]
    assert by["reference", "L0"]["success"] == 1.0
    assert by["late_reread", "OFF-A"]["reread"] == 1.0
    assert by["reference", "OFF-A"]["signatures"] == {"stale_commit": by["reference", "OFF-A"]["episodes"]}
    assert (out / "evaluation.md").read_text().count("\n") == 2 + len(table)


@needs_trl
def test_uncounted_rollouts_are_masked_and_a_checkpoint_can_be_trained_on(out: Path, tmp_path: Path) -> None:
    """With LoRA, from the folder of the run before, in the clinic: who does nothing there is not counted, and not 0."""
    words = f"train trl --model {out / 'checkpoint'} --env EnvOS/ClinicStale-v0 --condition OFF-A --steps 1 --group 2 "
    words += "--sft-steps 1 --sft-batch 1 --sft-seeds 0:1 --sft-tokens 4500 --lora 4 "
    words += "--observation-tokens 2000 --turn-tokens 8 --completion-tokens 2100 --calls 1 "
    words += "--train-seeds 0:1 --test-seeds 0:1"
    done = envos([*words.split(), "--out", "run"], tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    (step,) = [one for one in lines(tmp_path / "run" / "metrics.jsonl") if one["stage"] == "grpo"]
    assert (step["rollouts"], step["counted"], step["success"], step["reward"]) == (2, 0, None, None)
    assert (step["loss"], step["grad_norm"]) == (0.0, 0.0)
    rollouts = lines(tmp_path / "run" / "rollouts.jsonl")
    assert [(one["reward"], one["validity"], one["left"]) for one in rollouts] == [(None, "not_triggered", True)] * 2
    assert (tmp_path / "run" / "checkpoint" / "adapter_model.safetensors").is_file()
    # On a narrow terminal the table's cells are broken into lines; the file's are not.
    assert "before GRPO" in (tmp_path / "run" / "evaluation.md").read_text()
    assert "evaluation are in run" in done.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--group 1", "a group has 2 rollouts or more"),
        ("--model nowhere", "--model is tiny, smollm2, or a folder of a model (config.json); got 'nowhere'"),
        ("--steps -1", "steps are 0 or more; got -1 and 50"),
        ("--observation-tokens 900 --completion-tokens 900", "more tokens than one observation; got 900"),
        ("--tool list_claim", "unknown tool"),
        ("--condition OFF", "unknown condition"),
        ("--anchor last", "unknown anchor"),
        ("--test-seeds 4:4", "holds no seed"),
        ("--env EnvOS/Nowhere-v0", "unknown environment"),
    ],
)
def test_what_cannot_be_is_said_at_once(words: str, message: str, tmp_path: Path) -> None:
    """One line, and nothing heavy is loaded, nor a folder made, before it is said."""
    given = ["train", "trl", "--model", "tiny", "--env", CLAIMS, "--out", str(tmp_path / "run"), *words.split()]
    result = CliRunner().invoke(app, given)
    assert result.exit_code == 2
    assert message in result.stderr
    assert not (tmp_path / "run").exists()


def test_help_loads_no_trainer() -> None:
    code = (
        "import sys; from envos.cli import app; app(['train', 'trl', '--help'], standalone_mode=False); "
        "import envos.cli_trl; print(sorted({'torch', 'trl', 'transformers', 'datasets'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("[]\n")


def test_export_writes_conversations(tmp_path: Path) -> None:
    done = envos(["export-sft", "sft.jsonl", "--env", CLAIMS, "--seeds", "0:2", "--json"], tmp_path)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    found = lines(tmp_path / "sft.jsonl")
    # The reference wins in five of the seven conditions.
    assert (told["examples"], len(found), len(told["left_out"])) == (10, 10, 4)
    assert {one["policy"] for one in found} == {"reference"}
    assert {one["condition"] for one in found} == {"L0", "C", "L2", "OFF-I", "ON-I"}
    played = envos(["run", CLAIMS, "--policy", "late_reread", "--seeds", "0:1", "--out", "runs"], tmp_path)
    assert played.returncode == 0
    again = envos(["export-sft", "none.jsonl", "--env", CLAIMS, "--archives", "runs"], tmp_path)
    assert again.returncode == 1
    assert "7 left out: policy 'late_reread' goes back to its source" in again.stdout
    assert (tmp_path / "none.jsonl").read_text() == ""
