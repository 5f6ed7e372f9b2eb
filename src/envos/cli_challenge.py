"""`envos challenge`: corrupted and unusual archives against every tool; or the grader's own rules, mutated."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.text import Text

from envos.certify.challenge.gradermutants import MODULES, Outcome, mutations, survey
from envos.certify.challenge.run import UNIT, Result, run, summary, wrong
from envos.certify.challenge.tools import TOOLS
from envos.cli_arguments import new_folder, several, worker_count
from envos.cli_output import console, document, plain, progress, share, table
from envos.envs.scenario import SCENARIOS

SHOWN = 10
"""Cases that are told one by one; `results.jsonl` has them all."""
_STRENGTHS = {"raw": "corrupted, digests left", "resealed": "corrupted, every digest made anew", "control": "valid"}


def challenge(
    seed: int, cases: int, environments: Sequence[str], out: Path, workers: int, whole: bool, as_json: bool
) -> int:
    """Run the challenge, write it into a folder and print the confusion table; 1 where the pipeline was wrong."""
    names = several("environment", environments, SCENARIOS)
    folder, processes = new_folder(out), worker_count(workers)
    with progress("units, drawn and asked", 2 * -(-cases // UNIT)) as done:
        seal, results = run(seed, cases, names, folder, processes, done)
    found = wrong(results)
    if as_json:
        document({"seed": seed, "seal": seal, **summary(results), "pipeline_wrong": len(found)})
        return 1 if found else 0
    _print(seal, results, found, whole)
    return 1 if found else 0


def _print(seal: str, results: Sequence[Result], found: Sequence[Result], whole: bool) -> None:
    told, shown = summary(results), console()
    totals = table(
        f"Challenge of {len(results)} cases (expectations sealed as {seal[:16]})",
        ("cases", ">classes", ">cases", *(f">{tool}" for tool in TOOLS)),
        "corrupted: how many each tool took for clean; valid: how many it refused. The auditors each look at one half.",
    )
    for strength, about in _STRENGTHS.items():
        if strength in told["total"]:
            totals.add_row(about, str(told["classes"][strength]), *_cells(told["total"][strength]))
    shown.print(totals)
    if whole:
        for strength, rows in told["wrong"].items():
            shown.print()
            part = table(_STRENGTHS[strength], ("class", ">cases", *(f">{tool}" for tool in TOOLS)))
            for kind, row in sorted(rows.items()):
                part.add_row(kind, *_cells(row))
            shown.print(part)
    for item in found[:SHOWN]:
        case = item.case
        where = f"{case.environment} {case.condition} {case.episode}: {case.kind}, {case.strength}"
        shown.print(plain(f"wrong: case {case.number}: {where}: {item.answers.pipeline}, expected {case.wanted}"))
    if len(found) > SHOWN:
        shown.print(f"... and {len(found) - SHOWN} more (results.jsonl has them all)")


def _cells(row: Mapping[str, int]) -> list[Text]:
    cells = [Text(str(row["cases"]))]
    for tool in TOOLS:
        count = row.get(tool, 0)
        cells.append(Text(str(count), "bold red" if count and tool == "pipeline" else ""))
    return cells


def mutate(sample: int, workers: int, as_json: bool) -> int:
    """Mutate the grader's rules, and tell which mutants the certification suite kills; 1 where one survives."""
    count = len(range(0, sum(len(mutations(name)) for name in MODULES), sample))
    with progress("mutants", count) as done:
        outcomes = survey(sample, worker_count(workers), done)
    survivors = [item for item in outcomes if item.survived]
    if as_json:
        document({"mutants": len(outcomes), **_score(outcomes), "survivors": [item.to_json() for item in survivors]})
        return 1 if survivors else 0
    shown = console()
    parts = table("Mutants of the grader's rules", ("module", ">mutants", ">killed", ">equivalent", ">score"))
    for name in sorted({item.module for item in outcomes}):
        mine = [item for item in outcomes if item.module == name]
        score = _score(mine)
        parts.add_row(name, str(len(mine)), str(score["killed"]), str(score["equivalent"]), share(score["score"]))
    whole = _score(outcomes)
    parts.add_section()
    parts.add_row("all", str(len(outcomes)), str(whole["killed"]), str(whole["equivalent"]), share(whole["score"]))
    shown.print(parts)
    killers = Counter(item.killer for item in outcomes if item.killer)
    shown.print(", ".join(f"{name} {count}" for name, count in killers.most_common()), soft_wrap=True)
    for item in survivors:
        shown.print(plain(f"survived: {item.module}:{item.line} {item.what}"), soft_wrap=True)
    return 1 if survivors else 0


def _score(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    killed = sum(bool(item.killer) for item in outcomes)
    same = sum(bool(item.equivalent) for item in outcomes)
    rest = len(outcomes) - same
    return {"killed": killed, "equivalent": same, "score": killed / rest if rest else 1.0}
