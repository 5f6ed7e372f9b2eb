"""`envos certify`: admit instances, and tell on what evidence."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from envos.certify.certificate import Certificate, Spread, certify
from envos.certify.checks import FAMILIES, rules
from envos.certify.checks.checklist import FAILED, results
from envos.cli_arguments import new_file, seed_range, several, worker_count
from envos.cli_output import Score, console, document, matrix_table, plain, progress, table
from envos.envs.scenario import ANCHORS, scenario
from envos.envs.streams import check_split

_SHORT = 70
"""Characters of what a check measured that the report shows; `--json` has all of it."""
SHOWN = 10
"""Refused instances that are told one by one; `--json` and the certificate have them all."""


def certify_seeds(
    environment: str,
    split: str,
    seeds: str,
    conditions: Sequence[str],
    anchors: Sequence[str],
    out: Path | None,
    workers: int,
    as_json: bool,
    address: str | None = None,
    report: bool = False,
) -> int:
    """Certify, write the certificate and print what it says; 1 when an instance is not admitted.

    With `report`, also the checklist. With an `address`, on the Ray cluster there, or on one that is started here where
    it is "".
    """
    if out is not None:
        new_file(out)
    certificate = certified(environment, split, seeds, conditions, anchors, workers, address)
    if out is not None:
        certificate.save(out)
    if as_json:
        listed = {"checklist": results(certificate)} if report else {}
        document({**certified_json(certificate), **listed, "out": None if out is None else str(out)})
    else:
        shown = console()
        for part in (*certified_tables(certificate), *matrices(certificate)):
            shown.print(part)
            shown.print()
        if report:
            shown.print(checklist(certificate))
        for line in refusals(certificate):
            shown.print(line, style="red", soft_wrap=True)
        if out is not None:
            shown.print(f"The certificate is {out} (digest {certificate.digest[:16]})", soft_wrap=True)
    return 1 if certificate.admitted < len(certificate.entries) else 0


def certified(
    environment: str,
    split: str,
    seeds: str,
    conditions: Sequence[str],
    anchors: Sequence[str],
    workers: int,
    address: str | None = None,
) -> Certificate:
    """The certificate of what was given on the command line, made with a progress bar. Raises UsageError."""
    line = scenario(environment)
    arms = several(f"condition of {line.id}", conditions, line.conditions)
    places = several("anchor", anchors, ANCHORS)
    chosen, held, processes = seed_range(seeds), check_split(split), worker_count(workers)
    with progress("certified instances", len(chosen)) as done:
        return certify(
            line.id,
            held,
            chosen,
            conditions=arms,
            anchors=places,
            progress=lambda count, _: done(count),
            workers=processes,
            spread=None if address is None else _over_ray(address, workers),
        )


def _over_ray(address: str, workers: int) -> Spread:
    from envos.train.spread import in_order, spread

    return lambda function, pieces: in_order(spread(function, pieces, address, workers))


def certified_json(certificate: Certificate) -> dict[str, Any]:
    """What a certificate says, as JSON data; the file itself has the evidence of each instance."""
    body = certificate.to_json()
    kept = ("environment", "split", "seeds", "conditions", "anchors", "code", "checks", "matrix", "admitted", "digest")
    refused = [
        {"seed": entry.seed, "condition": entry.condition, "anchor": entry.anchor, "reasons": list(entry.refused)}
        for entry in certificate.entries
        if entry.refused
    ]
    return {**{name: body[name] for name in kept}, "entries": len(certificate.entries), "refused": refused}


def certified_tables(certificate: Certificate) -> Iterator[Table]:
    """How many instances are admitted under each condition and anchor, and how the checks went, by family."""
    seeds = certificate.seeds
    shown = table(
        f"Certified: {certificate.environment}, {len(seeds)} instances of {certificate.split}",
        ("condition", *(f">anchor {anchor}: admitted" for anchor in certificate.anchors)),
    )
    for condition in certificate.conditions:
        row = []
        for anchor in certificate.anchors:
            some = [entry for entry in certificate.entries if (entry.condition, entry.anchor) == (condition, anchor)]
            admitted = sum(not entry.refused for entry in some)
            row.append(Text(f"{admitted} of {len(some)}", "" if admitted == len(some) else "bold red"))
        shown.add_row(condition, *row)
    yield shown
    families = table("Certification checks", ("family", ">checks", ">ran", ">failed"))
    for family in FAMILIES:
        names = [item.id for item in rules() if item.family == family]
        counts = [certificate.tally.get(name, (0, 0)) for name in names]
        failed = sum(count[1] for count in counts)
        ran = sum(count[0] for count in counts)
        families.add_row(family, str(len(names)), str(ran), Text(str(failed), "bold red" if failed else ""))
    yield families


def matrices(certificate: Certificate) -> Iterator[Table]:
    """What the scripted policies reached, one matrix for each anchor."""
    rows = certificate.matrix()
    for anchor in certificate.anchors:
        scores = {(row["policy"], row["condition"]): _score(row) for row in rows if row["anchor"] == anchor}
        yield matrix_table(f"Matrix, anchor {anchor}", certificate.policies, certificate.conditions, scores)


def _score(row: Mapping[str, Any]) -> Score:
    counted = row["counted"]
    return Score(row["fraction"], row["won"] / counted, row["steps"]) if counted else Score(None, None, None)


def refusals(certificate: Certificate) -> list[str]:
    """The first of the instances that are not admitted, and why."""
    refused = [entry for entry in certificate.entries if entry.refused]
    lines = []
    for entry in refused[:SHOWN]:
        where = f"seed {entry.seed} under {entry.condition}, anchor {entry.anchor}"
        lines.append(plain(f"not admitted: {where}: {'; '.join(entry.refused)}"))
    if len(refused) > SHOWN:
        lines.append(f"... and {len(refused) - SHOWN} more (--json has them all)")
    return lines


def checklist(certificate: Certificate) -> Table:
    """The checklist E01 to E42: result, what was measured, the evidence or where the check is made, and the remedy."""
    shown = table(
        f"Checklist: {certificate.environment}",
        ("id", "check", "result", "severity", "ran / failed", "evidence"),
        "skipped: not reached by this certificate; in the tests: `make test` decides; operator: left to a study",
    )
    for row in results(certificate):
        measured = ", ".join(f"{name} {item['ran']}/{item['failed']}" for name, item in row["measured"].items())
        told = row["remedy"] or row["operator"] or ", ".join(map(str, row["evidence"] or ()))
        style = "bold red" if row["result"] == FAILED else ""
        shown.add_row(
            row["id"], row["about"], Text(row["result"], style), row["severity"], measured, plain(told)[:_SHORT]
        )
    return shown
