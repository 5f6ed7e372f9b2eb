"""PPO with RLlib's new API stack, on arrays, from a clone of the reference."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import torch
from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.callbacks.callbacks import RLlibCallback
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.apis import ValueFunctionAPI
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.core.rl_module.torch import TorchRLModule
from ray.tune.registry import register_env

from envos.errors import UsageError
from envos.train.arms import Arm, Arms
from envos.train.curriculum import Curriculum
from envos.train.net import Pointer
from envos.train.spread import join

NAME = "envos-arms"
POLICY = "default_policy"


@dataclass(frozen=True, slots=True)
class Settings:
    """What a run is made of; everything that `config.json` holds.

    `arms` are drawn from evenly, or, as `stages`, one after another. `uncounted` says what becomes of episodes that do
    not count: "drop" (never seen by the learner), "zero" (scored 0, as a suite without validity would), or "idle":
    those in which the agent never got as far as the change are scored 0, all others dropped. An agent that is never
    told so may learn to get nowhere. The bonus for `entropy` is gone after `calm` steps, and `gamma` is well below 1:
    else nothing tells an agent that may report now from one that goes around once more, and greedily it goes around
    for ever. An arm in which the agent always fails is drawn `focus` times as often as one in which it never does (1:
    all evenly): a clone knows most of them already. `audit` is the share of the episodes that must pass both keys to
    count (`certify.twokey`).
    """

    arms: tuple[Arm, ...]
    seed: int = 0
    anchor: str = "any"
    reward: str = "binary"
    uncounted: str = "drop"
    stages: tuple[tuple[Arm, ...], ...] = ()
    runners: int = 0
    environments: int = 32
    batch: int = 4096
    minibatch: int = 512
    epochs: int = 4
    rate: float = 4e-4
    entropy: float = 0.01
    calm: int = 250_000
    gamma: float = 0.99
    clone: str = ""
    audit: float = 0.0
    focus: int = 4


class PointerModule(TorchRLModule, ValueFunctionAPI):
    """RLlib's face of `Pointer`; `model_config` may name a `clone` to begin from."""

    def setup(self) -> None:
        """Make the network."""
        super().setup()
        self.net = Pointer()
        start = self.model_config.get("clone")
        if start:
            self.net.load_state_dict(torch.load(start, weights_only=True))

    def _forward(self, batch: dict[str, Any], **_: Any) -> dict[str, Any]:
        return {Columns.ACTION_DIST_INPUTS: self.net(batch[Columns.OBS])[0]}

    def _forward_train(self, batch: dict[str, Any], **_: Any) -> dict[str, Any]:
        logits, values = self.net(batch[Columns.OBS])
        return {Columns.ACTION_DIST_INPUTS: logits, Columns.EMBEDDINGS: values}

    def compute_values(self, batch: dict[str, Any], embeddings: Any = None) -> Any:
        """The values of a batch."""
        return self.net(batch[Columns.OBS])[1] if embeddings is None else embeddings


class Watch(RLlibCallback):
    """Keeps how episodes ended, and lets none that does not count reach the learner."""

    def __init__(self, uncounted: str = "drop") -> None:
        super().__init__()
        self.uncounted = uncounted

    def on_episode_end(self, *, episode: Any, metrics_logger: Any, **_: Any) -> None:
        """Log success, validity, signatures and re-reading, by environment and condition."""
        ended = episode.get_infos(-1).get("ended")
        if ended is None:
            return
        verdict = ended.verdict
        where = f"{ended.environment.rpartition('/')[2]}/{ended.condition}"

        def log(name: str, value: float) -> None:
            metrics_logger.log_value(("envos", where, name), value, reduce="mean", window=200)

        log("counted", float(verdict["counted"]))
        log("actions", float(len(episode)))
        reread = verdict["measures"].get("reread_before_commit")
        if reread is not None:
            log("reread_before_commit", float(reread))
        if verdict["counted"]:
            log("success", float(verdict["endpoint"]))
            log("fraction", float(verdict["fraction"]))
            log("stale_commit", float("stale_commit" in verdict["signatures"]))
            for name, one in (("won", verdict["endpoint"]), ("lost", not verdict["endpoint"])):
                # Of this iteration alone: the curriculum counts episodes.
                metrics_logger.log_value(("envos", where, name), int(one), reduce="sum", clear_on_reduce=True)

    def on_sample_end(self, *, samples: list[Any], **_: Any) -> None:
        """Drop what does not count."""
        if self.uncounted != "zero":
            idle = self.uncounted == "idle"
            samples[:] = [one for one in samples if not (one.is_done and uncounted(one.get_infos(-1), idle))]


def uncounted(info: Mapping[str, Any], idle: bool = False) -> bool:
    """Whether an episode that ended so has no outcome; an environment that failed has no verdict at all.

    With `idle`, one in which nothing fired, since the agent never got so far, has one: it has failed.
    """
    ended = info.get("ended")
    if ended is None:
        return True
    counted: bool = ended.verdict["counted"]
    return not counted and not (idle and ended.verdict["validity"] == "not_triggered")


def configured(settings: Settings) -> PPOConfig:
    """RLlib's configuration of a run."""
    if settings.uncounted not in ("drop", "idle", "zero"):
        raise UsageError(f"uncounted is drop, idle or zero; got {settings.uncounted!r}")
    register_env(NAME, lambda given: Arms(given["arms"], given["anchor"], given["reward"], given["audit"]))
    first = settings.stages[0] if settings.stages else settings.arms
    rest = {"anchor": settings.anchor, "reward": settings.reward, "audit": settings.audit}
    return (
        PPOConfig()
        .environment(NAME, env_config={"arms": [list(arm) for arm in first], **rest}, disable_env_checking=True)
        .env_runners(
            num_env_runners=settings.runners,
            num_envs_per_env_runner=settings.environments // max(1, settings.runners),
            gym_env_vectorize_mode="sync",
            batch_mode="complete_episodes",
        )
        .training(
            train_batch_size_per_learner=settings.batch,
            minibatch_size=settings.minibatch,
            num_epochs=settings.epochs,
            lr=settings.rate,
            entropy_coeff=[[0, settings.entropy], [settings.calm, 0.0]],
            gamma=settings.gamma,
            lambda_=0.95,
            clip_param=0.2,
            vf_clip_param=100.0,
            vf_loss_coeff=0.5,
            use_kl_loss=False,
            grad_clip=0.5,
            grad_clip_by="global_norm",
        )
        .rl_module(
            rl_module_spec=RLModuleSpec(module_class=PointerModule, model_config={"clone": settings.clone or None})
        )
        .callbacks(callbacks_class=_watch(settings.uncounted))
        .debugging(seed=settings.seed, log_level="ERROR")
    )


def _watch(uncounted: str) -> Any:
    class Chosen(Watch):
        def __init__(self) -> None:
            super().__init__(uncounted)

    return Chosen


@dataclass
class Run:
    """A run of PPO: RLlib's algorithm, and what a checkpoint of it needs besides."""

    settings: Settings
    algorithm: Algorithm
    curriculum: Curriculum
    steps: int = 0
    iterations: int = 0
    success: dict[Arm, float] = field(default_factory=dict)

    def net(self) -> Pointer:
        """A copy of the network as it is now."""
        made = Pointer()
        made.load_state_dict(self.algorithm.get_module(POLICY).net.state_dict())
        return made

    def save(self, folder: Path) -> None:
        """Write a checkpoint: RLlib's own, the curriculum, and the counts."""
        folder.mkdir(parents=True, exist_ok=True)
        self.algorithm.save_to_path(str((folder / "algorithm").resolve()))
        self.curriculum.save(folder / "curriculum.json")
        counts = {"steps": self.steps, "iterations": self.iterations, "settings": asdict(self.settings)}
        (folder / "run.json").write_text(json.dumps(counts, indent=1), encoding="utf-8")

    def allow(self) -> None:
        """Tell all environments which arms they draw from, and by repeating them, how often."""
        chosen = drawn(self.curriculum.arms(), self.success, self.settings.focus)

        def tell(runner: Any) -> None:
            if runner.env is not None:
                runner.env.unwrapped.call("allow", chosen)

        self.algorithm.env_runner_group.foreach_env_runner(tell)


def drawn(chosen: Sequence[Arm], success: Mapping[Arm, float], focus: int) -> list[Arm]:
    """The arms, each repeated 1 to `focus` times by how often the agent fails there; once where that is not known."""
    return [arm for arm in chosen for _ in range(1 + round((focus - 1) * (1 - success.get(arm, 1.0))))]


def begin(settings: Settings) -> Run:
    """A new run."""
    join()
    return Run(settings, configured(settings).build_algo(), Curriculum(settings.stages or (settings.arms,)))


def resume(folder: Path) -> Run:
    """The run that a checkpoint holds, at the level of its curriculum. Raises UsageError where there is none."""
    if not (folder / "run.json").is_file():
        raise UsageError(f"a checkpoint is a folder with run.json; there is none in {folder}")
    join()
    counts = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    settings = revived(counts["settings"])
    algorithm = configured(settings).build_algo()
    algorithm.restore_from_path(str((folder / "algorithm").resolve()))
    run = Run(settings, algorithm, Curriculum.load(folder / "curriculum.json"), counts["steps"], counts["iterations"])
    run.allow()
    return run


def revived(data: Mapping[str, Any]) -> Settings:
    """Settings from JSON data."""
    pairs = tuple((name, condition) for name, condition in data["arms"])
    stages = tuple(tuple((name, condition) for name, condition in stage) for stage in data["stages"])
    return Settings(**{**data, "arms": pairs, "stages": stages})


def iterate(run: Run) -> dict[str, Any]:
    """One iteration of PPO; what it measured, by environment/condition, with steps and seconds."""
    begun = perf_counter()
    result = run.algorithm.train()
    runners = result.get("env_runners", {})
    run.iterations += 1
    run.steps += int(runners.get("num_env_steps_sampled", 0))
    measured: dict[str, dict[str, float]] = {
        where: {name: mean for name, value in values.items() if not math.isnan(mean := float(np.mean(value)))}
        for where, values in runners.get("envos", {}).items()
    }
    if run.settings.stages:
        _advance(run, measured)
    for arm in run.settings.arms:
        where = f"{arm[0].rpartition('/')[2]}/{arm[1]}"
        run.success[arm] = measured.get(where, {}).get("success", run.success.get(arm, 1.0))
    run.allow()
    return {
        "iteration": run.iterations,
        "steps": run.steps,
        "seconds": perf_counter() - begun,
        "level": run.curriculum.level,
        "measured": measured,
    }


def _advance(run: Run, measured: Mapping[str, Mapping[str, float]]) -> None:
    """Take an iteration's episodes of the newest stage into the curriculum."""
    here = run.curriculum
    for arm in here.stages[here.level]:
        values = measured.get(f"{arm[0].rpartition('/')[2]}/{arm[1]}", {})
        for name, success in (("lost", False), ("won", True)):
            for _ in range(round(values.get(name, 0))):
                here.note(arm, success)
    here.rise()
