"""The Chromium budgets: steps with and without screenshots, resets, memory; beside BrowserGym's MiniWoB in
the same run.

Ratios are what to quote: the machine may be noisy. Writes `benchmarks/results/browser.json` and prints a table. The
actions are those of `late_reread`, so the mix of pages, fields and forms is a real episode's. `--peer PYTHON` names an
interpreter with BrowserGym (`benchmarks/browsergym_peer.py` says how to make one); both use the same browser binary.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
from pathlib import Path
from time import perf_counter
from typing import Any

import gymnasium
from rich.console import Console
from rich.table import Table

from envos.certify.policies import policies
from envos.certify.rollout import play
from envos.envs.drivers.chromium_browser import Browser, find
from envos.envs.env import EnvOS
from envos.envs.scenario import SCENARIOS

RESULTS = Path(__file__).resolve().parent / "results"
ENVIRONMENT = "EnvOS/ClinicStale-v0"
BUDGETS = {"step": (1 / 25, 1 / 60), "step with screenshot": (1 / 14, 1 / 22), "reset": (0.12, 0.04)}
"""Seconds: must and stretch of the architecture's table."""


def make(driver: str, screenshot: bool = True) -> EnvOS:
    """An environment in a driver."""
    env = gymnasium.make(
        f"envos:{ENVIRONMENT}",
        driver=driver,
        screenshot=screenshot,
        condition="OFF-A",
        anchor="first",
        disable_env_checker=True,
    ).unwrapped
    assert isinstance(env, EnvOS)  # noqa: S101
    return env


def scripts(count: int) -> dict[int, tuple[str, ...]]:
    """The actions of real episodes, by seed."""
    env = make("inprocess")
    policy = policies(SCENARIOS[ENVIRONMENT].world)["late_reread"].policy
    found = {seed: play(env, policy, seed).actions for seed in range(count)}
    env.close()
    return found


def episodes(env: EnvOS, actions: dict[int, tuple[str, ...]]) -> tuple[float, float]:
    """Median over episodes of the seconds of a step and of a reset; the first episode warms up."""
    steps, resets = [], []
    for seed, script in actions.items():
        begin = perf_counter()
        env.reset(seed=seed)
        started = perf_counter()
        for action in script:
            env.step(action)
        steps.append((perf_counter() - started) / len(script))
        resets.append(started - begin)
    return statistics.median(steps[1:]), statistics.median(resets[1:])


def memory(browser: Browser) -> float:
    """Megabytes of all processes of a browser, shared pages in proportion; 0 where /proc does not tell."""
    total = 0
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            ours = os.getpgid(int(folder.name)) == browser.process.pid
            lines = (folder / "smaps_rollup").read_text().splitlines() if ours else []
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total / 1024


def per_environment(count: int) -> dict[str, float]:
    """Megabytes of a browser with one environment, and what each further one adds."""
    envs = [make("chromium") for _ in range(count)]
    used = []
    for seed, env in enumerate(envs):
        env.reset(seed=seed)
        env.step('goto("/sessions")')
        used.append(memory(env._driver._page().browser))  # type: ignore[attr-defined]
    for env in envs:
        env.close()
    return {"first": used[0], "each further": (used[-1] - used[0]) / (count - 1)}


def peer(python: str, count: int) -> dict[str, float]:
    """Seconds of BrowserGym's step and reset, with this browser."""
    script = Path(__file__).with_name("browsergym_peer.py")
    done = subprocess.run(
        [python, str(script), find(), str(count)], capture_output=True, text=True, check=False, cwd=script.parent
    )
    if done.returncode:
        sys.exit(f"the peer failed: {(done.stderr.strip().splitlines() or ['?'])[-1]}")
    found: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def measure(count: int, python: str | None) -> dict[str, Any]:
    """Every Chromium row, with its floor and its peer."""
    actions = scripts(count)
    rows: dict[str, Any] = {}
    for name, screenshot in (("step", False), ("step with screenshot", True)):
        env = make("chromium", screenshot)
        step, reset = episodes(env, actions)
        rows[name] = {"seconds": step}
        if screenshot:
            rows["reset"] = {"seconds": reset}
        env.close()
    env = make("inprocess")
    floor = episodes(env, actions)
    env.close()
    others = peer(python, max(2, count // 4)) if python else {}
    for name, row in rows.items():
        row["must"], row["stretch"] = BUDGETS[name]
        row["beside"] = {"in process": floor[name == "reset"]}
        if others:
            row["beside"]["BrowserGym MiniWoB"] = others["reset" if name == "reset" else "step"]
    rows["memory"] = per_environment(3)
    return rows


def show(rows: dict[str, Any]) -> None:
    """Print the rows as a table."""
    table = Table("what", "measured", "must", "stretch", "beside it (ratio)")
    for name, row in rows.items():
        if "seconds" not in row:
            cells = [f"{row['first']:.0f} MB, {row['each further']:.0f} MB for each further environment", "", "", ""]
        else:
            beside = row["beside"].items()
            told = "; ".join(f"{other} {1e3 * value:.2f} ms ({row['seconds'] / value:.3g}x)" for other, value in beside)
            cells = [
                f"{1e3 * value:.1f} ms ({1 / value:.1f}/s)" for value in (row["seconds"], row["must"], row["stretch"])
            ]
            cells.append(told)
        table.add_row(name, *cells)
    Console(width=150).print(table)


def main() -> None:
    """Measure, print and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--episodes", type=int, default=9)
    parser.add_argument("--peer", help="an interpreter that has BrowserGym")
    parser.add_argument("--out", type=Path, default=RESULTS / "browser.json")
    options = parser.parse_args()
    rows = measure(options.episodes, options.peer)
    show(rows)
    env = make("chromium")
    env.reset(seed=0)
    version = env._driver._page().browser.version  # type: ignore[attr-defined]
    env.close()
    load = os.getloadavg()[0]
    options.out.parent.mkdir(parents=True, exist_ok=True)
    document = {"python": platform.python_version(), "browser": version, "load": load, "rows": rows}
    options.out.write_text(json.dumps(document, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
