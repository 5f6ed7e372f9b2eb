"""GRPO on text: a warm start on the reference's episodes, then TRL's trainer on rollouts through the world's tools.

The verdict is the only reward; an episode that does not count has none and moves nothing. What a run writes:

    config.json       the settings, and the versions of what trained
    metrics.jsonl     a line for each step: loss, reward and TRL's own figures, and what the verdicts say
    rollouts.jsonl    a line for each rollout: which episode, its verdict, its reward (null: not counted)
    evaluation.json   held-out instances by condition, before and after GRPO, beside the scripted policies; also as .md
    checkpoint/       the model (its adapters, with LoRA) and the tokenizer
"""

import json
import math
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from time import process_time
from typing import Any

import torch
from datasets import Dataset
from transformers import PrinterCallback, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from envos.envs.page import TEXT_LIMIT
from envos.envs.scenario import scenario
from envos.errors import UsageError
from envos.train.sft import warm_start
from envos.train.trl_chat import counted, schemas_of
from envos.train.trl_data import Example, Told, demonstrate, examples, feasible, rows
from envos.train.trl_env import Played, ToolEnvironment, tool_environment
from envos.train.trl_eval import baselines, evaluate, markdown, table
from envos.train.trl_models import load, texts_of, with_lora
from envos.train.trl_settings import Settings

REPORTED = (
    "loss",
    "grad_norm",
    "learning_rate",
    "reward",
    "reward_std",
    "frac_reward_zero_std",
    "entropy",
    "completions/mean_length",
    "completions/clipped_ratio",
    "tools/call_frequency",
    "tools/failure_frequency",
)
"""What is kept of TRL's own figures."""

Say = Callable[[str], None]


class Book(TrainerCallback):
    """Writes metrics and rollouts, a line each, as they come."""

    def __init__(self, out: Path, played: list[Played], say: Say) -> None:
        self._metrics, self._rollouts = out / "metrics.jsonl", out / "rollouts.jsonl"
        self._played, self._say, self._started = played, say, process_time()
        for path in (self._metrics, self._rollouts):
            path.write_text("", encoding="ascii")

    def write(self, line: Mapping[str, Any]) -> None:
        """Put down one line of metrics, with the seconds of processor time up to now."""
        data = {**line, "cpu_seconds": round(process_time() - self._started, 1)}
        _append(self._metrics, [data])
        self._say(", ".join(f"{name} {value}" for name, value in data.items() if value is not None)[:200])

    def on_log(self, args: Any, state: Any, control: Any, logs: Mapping[str, Any] | None = None, **rest: Any) -> None:
        """TRL has finished a step: its figures, and what the verdicts of its rollouts say."""
        if not logs or "loss" not in logs:
            return
        done, self._played[:] = list(self._played), []
        _append(self._rollouts, [{"step": state.global_step, **one.to_json()} for one in done])
        kept = {name: figure(logs[name]) for name in REPORTED if name in logs}
        self.write({"stage": "grpo", "step": state.global_step, **kept, **verdicts(done)})


def figure(value: float | None) -> float | None:
    """A figure of TRL's as JSON has it: None for the reward of a step in which no rollout counts."""
    return None if value is None or math.isnan(value) else round(float(value), 6)


def verdicts(done: Sequence[Played]) -> dict[str, Any]:
    """What the verdicts of rollouts say: how many there are, how many count, and the share of these that won."""
    rewards = [one.reward for one in done if one.reward is not None]
    return {
        "rollouts": len(done),
        "counted": len(rewards),
        "success": round(sum(rewards) / len(rewards), 4) if rewards else None,
        "stopped": sum(one.left for one in done),
    }


def _append(path: Path, lines: Sequence[Mapping[str, Any]]) -> None:
    with path.open("a", encoding="ascii") as file:
        for line in lines:
            file.write(json.dumps(line, allow_nan=False) + "\n")


def train(settings: Settings, out: Path, say: Say = print) -> list[dict[str, Any]]:
    """Run: warm start, evaluation, GRPO, evaluation; writes to `out` and returns the evaluation table.

    Raises UsageError for settings that cannot be, and where no seed is left at which the reference can win.
    """
    settings = settings.checked()
    out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(settings.seed)
    plain = Told(settings.environment, settings.tools, TEXT_LIMIT)
    model, tokenizer = load(settings.model, _words(plain, settings), out, settings.seed)
    told = Told(settings.environment, settings.tools, settings.observation_tokens, counted(tokenizer))
    factory = _factory(settings, told, out / "archives" if settings.archives else None)
    schemas = schemas_of(factory)
    shown = _demonstrations(told, settings)
    data = {split: _rows(told, settings, split) for split in ("train", "test")}
    write_config(
        out, settings, model, {"sft_episodes": len(shown), **{name: len(found) for name, found in data.items()}}
    )
    book = Book(out, factory._setup.played, say)
    model = with_lora(model, settings.lora)
    warm_start(
        model,
        tokenizer,
        shown,
        schemas,
        steps=settings.sft_steps,
        batch=settings.sft_batch,
        rate=settings.sft_rate,
        tokens=settings.sft_tokens,
        seed=settings.seed,
        log=book.write,
    )
    results: dict[str, Sequence[Played]] = {}
    bench = _factory(settings, told, None)

    def look(name: str) -> None:
        results[name] = evaluate(model, tokenizer, bench, schemas, data["test"], settings.bounds)
        book.write({"stage": f"evaluation {name}", **verdicts(results[name])})

    look("before GRPO")
    if settings.steps:
        model = grpo(model, tokenizer, factory, data["train"], settings, out, book)
        look("after GRPO")
    model.save_pretrained(out / "checkpoint")
    tokenizer.save_pretrained(out / "checkpoint")
    lines = table({**results, **baselines(told, data["test"])})
    (out / "evaluation.json").write_text(json.dumps(lines, indent=1) + "\n", encoding="ascii")
    (out / "evaluation.md").write_text(markdown(lines), encoding="utf-8")
    return lines


def grpo(
    model: Any,
    tokenizer: Any,
    factory: type[ToolEnvironment],
    data: Sequence[Mapping[str, Any]],
    settings: Settings,
    out: Path,
    book: Book,
) -> Any:
    """Run TRL's trainer for the steps of the settings, with the verdict as the only reward; returns the model.

    The rollouts of a step are played together, and learned from one by one, so that memory is that of one rollout.
    """
    os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
    config = GRPOConfig(
        output_dir=str(out / "trainer"),
        max_steps=settings.steps,
        per_device_train_batch_size=1,
        gradient_accumulation_steps=settings.group * settings.prompts,
        num_generations=settings.group,
        max_completion_length=settings.completion_tokens,
        max_tool_calling_iterations=settings.calls,
        generation_kwargs={"max_new_tokens": settings.turn_tokens},
        temperature=settings.temperature,
        learning_rate=settings.rate,
        beta=0.0,
        seed=settings.seed,
        use_cpu=not torch.cuda.is_available(),
        bf16=torch.cuda.is_available(),
        activation_checkpointing=False,
        logging_steps=1,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        dataloader_pin_memory=False,
    )
    trainer = GRPOTrainer(
        model=model,
        args=config,
        train_dataset=Dataset.from_list([dict(row) for row in data]),
        processing_class=tokenizer,
        environment_factory=factory,
        callbacks=[book],
    )
    trainer.remove_callback(PrinterCallback)
    trainer.train()
    return trainer.accelerator.unwrap_model(trainer.model)


def _factory(settings: Settings, told: Told, archives: Path | None) -> type[ToolEnvironment]:
    return tool_environment(
        settings.environment,
        tools=settings.tools,
        limit=told.limit,
        size=told.size,
        archives=archives,
        model=settings.model,
    )


def _demonstrations(told: Told, settings: Settings) -> list[Example]:
    if not settings.sft_steps:
        return []
    with tempfile.TemporaryDirectory() as folder:
        played = demonstrate(
            told, range(*settings.sft_seeds), "train", settings.sft_conditions, settings.anchor, Path(folder)
        )
        return list(examples(played, told, {}))


def _words(told: Told, settings: Settings) -> list[str]:
    """What the tiny model's tokenizer is learned from: a few demonstrations as they are with long results."""
    few = Settings(settings.environment, settings.model, sft_seeds=(1000, 1016), tools=settings.tools)
    spoken = [message for one in _demonstrations(told, few) for message in one.messages]
    return texts_of([*spoken, *schemas_of(_factory(settings, told, None))])


def _rows(told: Told, settings: Settings, split: str) -> list[dict[str, Any]]:
    seeds = settings.train_seeds if split == "train" else settings.test_seeds
    found = list(feasible(told, range(*seeds), split))
    if not found:
        raise UsageError(
            f"at no {split} seed of {seeds[0]}:{seeds[1]} can the reference win with these tools and at most "
            f"{settings.observation_tokens} tokens a result: give more"
        )
    return rows(scenario(settings.environment), found, settings.conditions, settings.anchor, split)


def write_config(out: Path, settings: Settings, model: Any, sizes: Mapping[str, int]) -> None:
    """Put down the settings, how many rows and weights there are, and the versions of what trains."""
    names = ("envos", "torch", "transformers", "trl", "peft")
    data = {
        "settings": asdict(settings),
        "rows": dict(sizes),
        "weights": sum(weight.numel() for weight in model.parameters()),
        "versions": {name: version(name) for name in names},
    }
    (out / "config.json").write_text(json.dumps(data, indent=1) + "\n", encoding="ascii")
