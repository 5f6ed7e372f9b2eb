"""Fills the tables of docs from the runs that are named in them: `python tools/doc_tables.py`, some minutes.

A table stands between `<!-- table: envos run ... -->` and `<!-- end -->`; its header names the conditions, and perhaps
`actions in CODE`. A cell is the mean share of invariants and, in brackets, the share of full endpoints.
"""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
TABLE = re.compile(r"(<!-- table: (envos run [^>]*?) -->\n)(.*?)(<!-- end -->)", re.DOTALL)


def cell(row: dict[str, Any]) -> str:
    """One cell; where no episode counts there is no share."""
    if not row["counted"]:
        return "not counted"
    return f"{row['mean_fraction'] or 0.0:.2f} ({row['endpoint_rate']:.2f})"


def fill(old: str, found: dict[str, Any]) -> str:
    """The table's lines, with the header that stood there."""
    head = old.splitlines()[0]
    columns = [name.strip() for name in head.strip("|").split("|")]
    rows = {(row["policy"], row["condition"]): row for row in found["cells"]}
    lines = [head, "|" + "---|" * len(columns)]
    for policy in found["policies"]:
        cells = [f"`{policy}`"]
        for column in columns[1:]:
            row = rows[policy, column.removeprefix("actions in ")]
            actions = row["mean_actions"]
            cells.append(cell(row) if (policy, column) in rows else "-" if actions is None else f"{actions:.0f}")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run each table's command once and write the pages."""
    runs: dict[str, dict[str, Any]] = {}
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        text = path.read_text(encoding="utf-8")

        def one(found: re.Match[str]) -> str:
            command = found.group(2)
            if command not in runs:
                words = [sys.executable, "-m", *shlex.split(command), "--json"]
                runs[command] = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)  # noqa: S603
            return found.group(1) + fill(found.group(3), runs[command]) + found.group(4)

        new = TABLE.sub(one, text)
        if new != text:
            path.write_text(new, encoding="utf-8")
            print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
