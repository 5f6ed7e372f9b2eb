"""Environment steps per second inside RLlib, with 0, 1 and 2 runners, beside CartPole with the same settings.

`python benchmarks/rllib.py` writes `benchmarks/results/rllib.json` and prints a table. An iteration samples and learns;
`in the environment` is the share of the time that 0 runners spend in `reset` and `step`, the numeric view included.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import json
from pathlib import Path
from time import perf_counter
from typing import Any

import gymnasium
from ray.rllib.algorithms.ppo import PPOConfig
from ray.tune.registry import register_env
from rich.console import Console
from rich.table import Table

from envos.train.arms import Arms, arms
from envos.train.rllib_ppo import Settings, configured
from envos.train.spread import join

RESULTS = Path(__file__).resolve().parent / "results" / "rllib.json"
RUNNERS = (0, 1, 2)


class Timed(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Adds up the seconds that are spent in an environment."""

    spent = 0.0

    def reset(self, **keywords: Any) -> Any:
        """Start an episode, timed."""
        begin = perf_counter()
        try:
            return self.env.reset(**keywords)
        finally:
            Timed.spent += perf_counter() - begin

    def step(self, action: Any) -> Any:
        """Act, timed."""
        begin = perf_counter()
        try:
            return self.env.step(action)
        finally:
            Timed.spent += perf_counter() - begin


def cartpole(settings: Settings, runners: int) -> PPOConfig:
    """CartPole with RLlib's own module and our batch, minibatch and epochs."""
    register_env("timed-cartpole", lambda _: Timed(gymnasium.make("CartPole-v1")))
    return (
        PPOConfig()
        .environment("timed-cartpole", disable_env_checking=True)
        .env_runners(
            num_env_runners=runners,
            num_envs_per_env_runner=settings.environments // max(1, runners),
            gym_env_vectorize_mode="sync",
            batch_mode="complete_episodes",
        )
        .training(
            train_batch_size_per_learner=settings.batch,
            minibatch_size=settings.minibatch,
            num_epochs=settings.epochs,
        )
        .debugging(seed=0, log_level="ERROR")
    )


def measure(config: PPOConfig, iterations: int) -> dict[str, float]:
    """Steps per second over some iterations after a first one, and the share of the time in the environment."""
    algorithm = config.build_algo()
    algorithm.train()
    Timed.spent, steps, begin = 0.0, 0, perf_counter()
    for _ in range(iterations):
        steps += int(algorithm.train()["env_runners"]["num_env_steps_sampled"])
    seconds = perf_counter() - begin
    algorithm.stop()
    return {"steps_per_second": steps / seconds, "in_environment": Timed.spent / seconds}


def envos(settings: Settings) -> PPOConfig:
    """A run of ours, timed."""
    config = configured(settings)
    register_env(
        "timed-arms", lambda given: Timed(Arms(given["arms"], given["anchor"], given["reward"], given["audit"]))
    )
    return config.environment("timed-arms")


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--iterations", type=int, default=4)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    join()
    found: dict[str, dict[str, dict[str, float]]] = {}
    for name in ("EnvOS/ClinicStale-v0", "EnvOS/ClaimsStale-v0", "CartPole-v1"):
        for runners in RUNNERS:
            settings = Settings(tuple(arms([name])), runners=runners) if name != "CartPole-v1" else Settings(())
            config = envos(settings) if name != "CartPole-v1" else cartpole(settings, runners)
            found.setdefault(name, {})[str(runners)] = measure(config, options.iterations)
    table = Table("environment", "runners", "steps/s", "of CartPole's", "in the environment")
    for name, rows in found.items():
        for runners, row in rows.items():
            share = row["steps_per_second"] / found["CartPole-v1"][runners]["steps_per_second"]
            inside = f"{row['in_environment']:.0%}" if runners == "0" else ""
            table.add_row(name, runners, f"{row['steps_per_second']:,.0f}", f"{share:.0%}", inside)
    Console(width=110).print(table)
    options.out.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
