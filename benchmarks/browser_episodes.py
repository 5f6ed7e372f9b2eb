"""Many episodes in one process: what the process and its browser hold in between, and what is left at the end.

Every episode is new (its seed is its number, its condition is drawn), has screenshots, and takes the actions of the
scripted policy `late_reread`. Writes `benchmarks/results/browser_episodes.json` and prints a table. Needs Linux, for
/proc.
"""

import argparse
import json
import os
import platform
import threading
from pathlib import Path
from time import perf_counter, sleep

import gymnasium
from rich.console import Console
from rich.table import Table

from envos.certify.policies import policies
from envos.certify.rollout import play
from envos.envs.drivers.chromium_browser import Browser
from envos.envs.env import EnvOS
from envos.envs.scenario import SCENARIOS

RESULTS = Path(__file__).resolve().parent / "results"
ENVIRONMENT = "EnvOS/ClinicStale-v0"
WARM = 10
"""Episodes before the first reading: caches fill."""
COLUMNS = ("processes", "files", "threads", "profile files", "python MB", "browser MB")


def members(group: int) -> list[Path]:
    """The living processes of a process group, as folders of /proc."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            alive = (folder / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
            if alive and os.getpgid(int(folder.name)) == group:
                found.append(folder)
        except OSError:
            continue
    return found


def megabytes(folder: Path, what: str) -> float:
    """The memory of a process: "Pss" (shared pages in proportion) or "Rss"."""
    try:
        lines = (folder / "smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0
    return sum(int(line.split()[1]) for line in lines if line.startswith(f"{what}:")) / 1024


def reading(browser: Browser) -> dict[str, float]:
    """What is held now."""
    processes = members(browser.process.pid)
    return {
        "processes": len(processes),
        "files": len(os.listdir("/proc/self/fd")),
        "threads": threading.active_count(),
        "profile files": len(list(browser.profile.rglob("*"))),
        "python MB": round(megabytes(Path("/proc/self"), "Rss"), 1),
        "browser MB": round(sum(megabytes(folder, "Pss") for folder in processes), 1),
    }


def measure(count: int, every: int) -> dict[str, object]:
    """Play `count` episodes after the warm ones and read every so often."""
    files = len(os.listdir("/proc/self/fd"))
    env = gymnasium.make(f"envos:{ENVIRONMENT}", driver="chromium", disable_env_checker=True)
    inner = env.unwrapped
    assert isinstance(inner, EnvOS)  # noqa: S101
    policy = policies(SCENARIOS[ENVIRONMENT].world)["late_reread"].policy
    steps, rows, begin = 0, {}, perf_counter()
    for number in range(WARM + count + 1):
        if number >= WARM and (number - WARM) % every == 0:
            rows[number - WARM] = reading(inner._driver._page().browser)  # type: ignore[attr-defined]
        if number < WARM + count:
            steps += play(env, policy, number).steps
    browser = inner._driver._page().browser  # type: ignore[attr-defined]
    seconds, group, version = perf_counter() - begin, browser.process.pid, browser.version
    env.close()  # type: ignore[no-untyped-call]
    for _ in range(50):
        if not members(group):
            break
        sleep(0.1)
    left = {
        "processes": len(members(group)),
        "files": len(os.listdir("/proc/self/fd")) - files,
        "threads": threading.active_count() - 1,
        "profile folders": int(browser.profile.exists()),
    }
    return {
        "episodes": count,
        "steps": steps,
        "seconds": round(seconds),
        "browser": version,
        "rows": rows,
        "left": left,
    }


def main() -> None:
    """Measure, print and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--episodes", type=int, default=200)
    parser.add_argument("--every", type=int, default=50)
    parser.add_argument("--out", type=Path, default=RESULTS / "browser_episodes.json")
    options = parser.parse_args()
    found = {"python": platform.python_version(), **measure(options.episodes, options.every)}
    table = Table("after", *COLUMNS)
    for number, row in found["rows"].items():  # type: ignore[attr-defined]
        table.add_row(str(number), *(str(row[name]) for name in COLUMNS))
    Console(width=120).print(table)
    print("left after close:", found["left"])
    options.out.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
