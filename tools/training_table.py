"""Fills the tables of docs/training.md from the runs in benchmarks/results/training: `python tools/training_table.py`.

Each folder there is one of `envos train rllib` without its checkpoint: `config.json`, `metrics.jsonl`, evaluation and
the learning curve.
"""

import json
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RUNS = ROOT / "benchmarks" / "results" / "training"
PAGE = ROOT / "docs" / "training.md"
TABLE = re.compile(r"(<!-- training: (\S+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)


def scores(folder: Path) -> list[dict[str, Any]]:
    """The rows of a run's evaluation."""
    found: list[dict[str, Any]] = json.loads((folder / "evaluation.json").read_text(encoding="utf-8"))
    return found


def whole(row: dict[str, Any]) -> float:
    """Success over all episodes: one that does not count is no success."""
    return float((row["success"] or 0.0) * row["counted"] / row["episodes"])


def table(prefix: str) -> str:
    """One line for each run whose name begins so: what it took, and the agent's success by condition, worst anchor."""
    folders = sorted(path for path in RUNS.glob(f"{prefix}-*") if path.is_dir())
    conditions = list(dict.fromkeys(row["condition"] for row in scores(folders[0])))
    lines = [
        f"| run | steps | minutes | {' | '.join(conditions)} | actions in L0 | uncounted |",
        "|---" * (len(conditions) + 5) + "|",
    ]
    for folder in folders:
        last = json.loads((folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()[-1])
        rows = [row for row in scores(folder) if row["policy"] == "agent"]
        least = [min(whole(row) for row in rows if row["condition"] == name) for name in conditions]
        actions = max(row["actions"] for row in rows if row["condition"] == "L0")
        lost = sum(row["episodes"] - row["counted"] for row in rows)
        cells = [f"{value:.3f}" for value in least]
        minutes = f"{last['elapsed'] / 60:.1f}"
        lines.append(
            f"| {folder.name} | {last['steps']:,} | {minutes} | {' | '.join(cells)} | {actions:.1f} | {lost} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Fill every table."""
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(TABLE.sub(lambda found: found[1] + table(found[2]) + found[4], text), encoding="utf-8")


if __name__ == "__main__":
    main()
