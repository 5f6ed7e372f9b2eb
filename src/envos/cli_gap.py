"""`envos gap`: what a silent change costs a policy, over pairs of episodes that differ in nothing else."""

from collections.abc import Mapping, Sequence
from functools import partial

from envos.certify.policies import policies
from envos.certify.twin import Gap, gap
from envos.cli_arguments import seed_range, several
from envos.cli_output import Done, console, document, number, progress, share, table
from envos.envs.scenario import check_anchor, load_phenomenon, scenario
from envos.envs.streams import check_split

_COLUMNS = ("policy", "condition", "changes", ">pairs", ">without", ">with", ">gap", ">lost", ">won", ">steps")


def print_gaps(environment: str, chosen: Sequence[str], seeds: str, split: str, anchor: str, as_json: bool) -> None:
    """Print the gap of each policy in each silent condition. Raises UsageError."""
    line = scenario(environment)
    names = several(f"policy of {line.id}", chosen, policies(line.world, line.phenomenon))
    span, split, anchor = seed_range(seeds), check_split(split), check_anchor(anchor)
    found: dict[str, Mapping[str, Gap]] = {}
    with progress("seeds", len(names) * len(span)) as done:
        for name in names:
            tell = partial(_tell, done, len(found) * len(span))
            found[name] = gap(line.id, name, span, split=split, anchor=anchor, progress=tell)
    if as_json:
        document(
            {
                "environment": line.id,
                "split": split,
                "anchor": anchor,
                "seeds": [span.start, span.stop],
                "gaps": [{"policy": name, **one.to_json()} for name, gaps in found.items() for one in gaps.values()],
            }
        )
        return
    lines = load_phenomenon(line.phenomenon).conditions
    shown = table(
        f"{line.id}, {split} seeds {span.start}:{span.stop}, anchor {anchor}",
        _COLUMNS,
        "pairs: those that count, of all; without, with: success without and with the change; lost, won: pairs "
        "that have it without, with the change only; steps: with it",
    )
    for name, gaps in found.items():
        for place, (condition, one) in enumerate(gaps.items()):
            rates = (
                f"{one.pairs}/{one.pairs + one.uncounted}",
                share(one.without_change),
                share(one.with_change),
                number(one.gap),
            )
            counts = (str(one.lost), str(one.won), number(one.actions_with, 1))
            shown.add_row(name if not place else "", condition, lines[condition].changes, *rates, *counts)
        shown.add_section()
    console().print(shown)


def _tell(done: Done, before: int, count: int) -> None:
    done(before + count)
