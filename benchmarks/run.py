"""`make bench`: the in-process budgets, each beside its floor or peer in the same run.

Ratios are what to quote: the machine may be noisy. Writes `benchmarks/results/inprocess.json` and prints a table.
Times are the best of the repeats, on one core.
"""

import argparse
import json
import platform
import sqlite3
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import gymnasium
from rich.console import Console
from rich.table import Table

from envos.certify.audit import outcome, validity
from envos.certify.certificate import certify_instance
from envos.certify.policies import policies, winner
from envos.certify.rollout import play
from envos.certify.twokey import compare, write_archive
from envos.envs.env import EnvOS
from envos.envs.page import observe
from envos.envs.scenario import SCENARIOS
from envos.rewards.verdict import verify

RESULTS = Path(__file__).resolve().parent / "results"
DOCS = RESULTS.parent.parent / "docs" / "benchmarks.md"
BUDGETS = {
    "step": (1 / 5000, 1 / 10000),
    "reset": (1e-3, 0.35e-3),
    "snapshot + restore": (0.1e-3, 0.02e-3),
    "verify": (0.6e-3, 0.2e-3),
    "two keys": (10e-3, 5e-3),
    "certify instance x condition": (30e-3, 10e-3),
}
"""Seconds: must and stretch of the architecture's table."""


def best(run: Callable[[], Any], repeats: int, number: int = 1) -> float:
    """The seconds that one call takes, in the best of the repeats: what else runs on the machine can only add to it."""
    times = []
    for _ in range(repeats):
        begin = perf_counter()
        for _ in range(number):
            run()
        times.append((perf_counter() - begin) / number)
    return min(times)


def steps(environment: str, repeats: int) -> tuple[float, float]:
    """Seconds of a step through gym.make, a fresh world each episode, and the same without the resets.

    The actions are those of `reference`, so the mix of pages is a real episode's.
    """
    env = gymnasium.make(f"envos:{environment}", condition="OFF-A", split="train", anchor="first")
    line = SCENARIOS[environment]
    reference = policies(line.world, line.phenomenon)["reference"].policy
    scripts = {seed: play(env, reference, seed).actions for seed in range(40)}
    spent, bare = [], []
    for _ in range(repeats):
        count, begin, inside = 0, perf_counter(), 0.0
        for seed, actions in scripts.items():
            env.reset(seed=seed)
            start = perf_counter()
            for action in actions:
                env.step(action)
            inside += perf_counter() - start
            count += len(actions)
        spent.append((perf_counter() - begin) / count)
        bare.append(inside / count)
    env.close()
    return min(spent), min(bare)


def floor_of_a_step(inner: EnvOS, repeats: int) -> float:
    """Seconds of reading the fact's table on raw sqlite3 and of the text of its page: a step cannot go below that."""
    inner.reset(seed=0)
    inner.step(f'goto("{inner.plan.surfaces[0].split("{")[0]}")')
    page = inner._driver._reply.page  # type: ignore[attr-defined]
    raw: sqlite3.Connection = inner._database.raw
    query = f"SELECT * FROM {inner.plan.arm[0]} ORDER BY id"  # noqa: S608 - a world's own table

    def once() -> None:
        raw.execute(query).fetchall()
        observe(page, {})

    return best(once, repeats, 200)


def peer_step(repeats: int) -> float | None:
    """Seconds of a Minigrid DoorKey step with resets, an in-process step's peer; None where it is not installed."""
    try:
        import minigrid  # noqa: F401
    except ImportError:
        return None
    env = gymnasium.make("MiniGrid-DoorKey-8x8-v0")
    env.action_space.seed(0)

    def episode() -> None:
        env.reset(seed=0)
        for _ in range(20):
            env.step(env.action_space.sample())

    return best(episode, repeats, 20) / 20


def memory(environment: str) -> float:
    """Megabytes that one environment holds after an episode (Python's own allocations)."""
    gymnasium.make(f"envos:{environment}").close()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    env = gymnasium.make(f"envos:{environment}")
    env.reset(seed=0)
    for _ in range(20):
        env.step('goto("/")')
    used = (tracemalloc.get_traced_memory()[0] - before) / 2**20
    tracemalloc.stop()
    env.close()
    return used


def measure(environment: str, repeats: int) -> dict[str, dict[str, Any]]:
    """Every in-process row: seconds, budget, and the floor or peer beside it."""
    env = gymnasium.make(f"envos:{environment}", condition="OFF-A", anchor="first")
    inner = env.unwrapped
    assert isinstance(inner, EnvOS)  # noqa: S101
    step, bare = steps(environment, repeats)
    seeds = iter(range(10**6))
    reset = best(lambda: inner.reset(seed=next(seeds)), repeats, 50)
    empty = best(lambda: inner._database.load(inner.instance.rows, "c"), repeats, 50)
    inner.reset(seed=0)
    for _ in range(5):
        inner.step('goto("/")')

    def fork() -> None:
        inner.restore(inner.snapshot())

    forked = best(fork, repeats, 100)
    policy = winner(SCENARIOS[environment])
    assert policy is not None  # noqa: S101
    play(env, policy.policy, 0)
    evidence = inner.evidence()
    graded = best(lambda: verify(evidence), repeats, 50)
    with TemporaryDirectory() as folder:
        verdict = verify(evidence).info()
        write_archive(Path(folder), inner, verdict)
        keyed = best(lambda: compare(folder), repeats, 5)
        apart = {
            "validity auditor": best(lambda: validity.audit(folder), repeats, 5),
            "outcome auditor": best(lambda: outcome.audit(folder), repeats, 5),
            "verify": graded,
        }
    conditions = SCENARIOS[environment].conditions
    certified = best(
        lambda: [certify_instance(inner, 7, condition, "first") for condition in conditions], max(3, repeats // 3)
    ) / len(conditions)
    floor = floor_of_a_step(inner, repeats)
    peer = peer_step(repeats)
    env.close()
    rows: dict[str, dict[str, Any]] = {
        "step": {"seconds": step, "beside": {"floor: query + page text": floor, "without resets": bare}},
        "reset": {"seconds": reset, "beside": {"floor: load the rows": empty}},
        "snapshot + restore": {"seconds": forked, "beside": {}},
        "verify": {"seconds": graded, "beside": {}},
        "two keys": {"seconds": keyed, "beside": apart},
        "certify instance x condition": {"seconds": certified, "beside": {}},
    }
    if peer is not None:
        rows["step"]["beside"]["peer: Minigrid DoorKey"] = peer
    for name, row in rows.items():
        row["must"], row["stretch"] = BUDGETS[name]
    rows["memory"] = {"megabytes": memory(environment), "must": 20, "stretch": 8}
    return rows


def main() -> None:
    """Measure, print and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--out", type=Path, default=RESULTS / "inprocess.json")
    options = parser.parse_args()
    results = {environment: measure(environment, options.repeats) for environment in SCENARIOS}
    table = Table("environment", "what", "measured", "must", "stretch", "beside it (ratio)")
    for environment, rows in results.items():
        for name, row in rows.items():
            if "seconds" in row:
                seconds = row["seconds"]
                beside = "; ".join(f"{other} {seconds / value:.1f}x" for other, value in row["beside"].items())
                cells = [f"{1e3 * value:.3f} ms" for value in (seconds, row["must"], row["stretch"])]
                if name == "step":
                    cells[0] += f" ({1 / seconds:,.0f}/s)"
            else:
                cells, beside = [f"{row[key]:.1f} MB" for key in ("megabytes", "must", "stretch")], ""
            table.add_row(environment, name, *cells, beside)
    Console(width=150).print(table)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    document = {"python": platform.python_version(), "machine": platform.machine(), "environments": results}
    options.out.write_text(json.dumps(document, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    page = DOCS.read_text(encoding="utf-8")
    before, _, rest = page.partition("<!-- bench -->\n")
    DOCS.write_text(
        f"{before}<!-- bench -->\n{lines(results)}<!-- end -->{rest.partition('<!-- end -->')[2]}", encoding="utf-8"
    )


def lines(results: dict[str, dict[str, dict[str, Any]]]) -> str:
    """The table of the docs."""
    found = ["| environment | what | measured | must | beside it, in the same run |", "|---|---|---|---|---|"]
    for environment, rows in sorted(results.items()):
        for name, row in sorted(rows.items()):
            if "seconds" not in row:
                found.append(f"| {environment} | {name} | {row['megabytes']:.1f} MB | {row['must']} MB | |")
                continue
            beside = "; ".join(f"{other} {row['seconds'] / value:.1f}x" for other, value in row["beside"].items())
            rate = f" ({1 / row['seconds']:,.0f}/s)" if name == "step" else ""
            measured = f"{1e3 * row['seconds']:.3f} ms{rate}"
            found.append(f"| {environment} | {name} | {measured} | {1e3 * row['must']:.3f} ms | {beside} |")
    return "".join(f"{line}\n" for line in found)


if __name__ == "__main__":
    main()
