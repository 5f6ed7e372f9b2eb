"""`envos sweep`: scripted policies over environments, conditions and seeds, on Ray."""

from collections.abc import Sequence
from pathlib import Path

from rich.table import Table

from envos.certify.certificate import make_env, running_code
from envos.certify.policies import policies
from envos.cli_arguments import new_folder, seed_range, several
from envos.cli_output import console, document, number, progress, share, table
from envos.envs.scenario import SCENARIOS, check_anchor, scenario
from envos.envs.streams import check_split
from envos.errors import UnknownName
from envos.train.sweep import Arm, Row, Sweep, finish, sweep


def run_sweep(
    out: Path,
    environments: Sequence[str],
    conditions: Sequence[str],
    chosen: Sequence[str],
    seeds: str,
    split: str,
    anchor: str,
    address: str,
    workers: int,
    as_json: bool,
) -> None:
    """Do a sweep, or what is left of one, with a progress bar; print its table and say where its plot is."""
    asked = Sweep(
        arms_of(environments, conditions, chosen),
        check_split(split),
        check_anchor(anchor),
        tuple(seed_range(seeds)),
        code(environments),
    )
    new_folder(out)
    with progress("episodes", len(asked.arms) * len(asked.seeds)) as done:
        for count, _ in sweep(asked, out, address, workers):
            done(count)
    found = finish(asked, out)
    if as_json:
        document({"out": str(out), "rows": [row.to_json() for row in found]})
        return
    shown = console()
    shown.print(results(asked, found))
    shown.print(f"Table, plot and episodes are in {out}", soft_wrap=True)


def arms_of(environments: Sequence[str], conditions: Sequence[str], chosen: Sequence[str]) -> tuple[Arm, ...]:
    """The arms that were named; a name must be one of some environment's. Raises UnknownName, UsageError."""
    ids = list(SCENARIOS) if "all" in environments else [scenario(name).id for name in environments]
    arms: list[Arm] = []
    known: dict[str, set[str]] = {"condition": set(), "policy": set()}
    for name in dict.fromkeys(ids):
        line = SCENARIOS[name]
        scripted = tuple(policies(line.world, line.phenomenon))
        known["condition"].update(line.conditions)
        known["policy"].update(scripted)
        arms += [
            Arm(name, condition, policy)
            for condition in line.conditions
            if condition in conditions or "all" in conditions
            for policy in scripted
            if policy in chosen or "all" in chosen
        ]
    for kind, given in (("condition", conditions), ("policy", chosen)):
        several(f"{kind} of these environments", given, sorted(known[kind]))
    if not arms:
        raise UnknownName("condition with this policy", conditions[0], sorted(known["condition"]))
    return tuple(arms)


def code(environments: Sequence[str]) -> str:
    """The identity of the code that runs: a sweep that other code has begun is not gone on with."""
    first = next(iter(SCENARIOS)) if "all" in environments else environments[0]
    env = make_env(first, "train")
    try:
        return running_code(env)["code"]
    finally:
        env.close()


def results(asked: Sweep, found: Sequence[Row]) -> Table:
    """The table of a sweep: one line for each environment, condition and policy."""
    shown = table(
        f"{len(asked.seeds)} {asked.split} seeds, anchor {asked.anchor}",
        ("environment", "condition", "policy", ">n", ">counted", ">endpoint", ">fraction", ">actions"),
        "endpoint, fraction and actions: means over the counted episodes",
    )
    before: tuple[str, str] | None = None
    for row in found:
        if before and row.environment != before[0]:
            shown.add_section()
        shown.add_row(
            row.environment if before is None or row.environment != before[0] else "",
            row.condition if (row.environment, row.condition) != before else "",
            row.policy,
            str(row.episodes),
            str(row.counted),
            share(row.endpoint_rate),
            number(row.mean_fraction),
            number(row.mean_actions, 1),
        )
        before = row.environment, row.condition
    return shown
