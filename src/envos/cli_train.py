"""`envos clone`, `envos probe`, `envos train rllib`, `envos train evaluate`: agents that learn on arrays."""

import sys
from collections.abc import Sequence
from pathlib import Path

from rich.table import Table

from envos.cli_arguments import new_file, new_folder, seed_range, several
from envos.cli_output import console, document, number, share, table
from envos.envs.scenario import SCENARIOS, check_anchor, scenario
from envos.errors import UsageError
from envos.train.arms import arms
from envos.train.evaluate import Score, score
from envos.train.learn import evaluation, learn, load_net, make_clone
from envos.train.probe import probe
from envos.train.rllib_ppo import Settings


def clone_reference(environments: Sequence[str], out: Path, episodes: int, seed: int, as_json: bool) -> None:
    """Clone the reference and tell how the clone fares where nothing and where the fact changes."""
    if episodes < 1:
        raise UsageError(f"--episodes is at least 1; got {episodes}")
    names = [scenario(name).id for name in environments]
    net = make_clone(names, new_file(out), episodes, seed, _tell)
    found = [score(net, name, condition, "any", range(100)) for name in names for condition in ("L0", "OFF-A")]
    _print(f"The clone, {out}, on 100 test instances", found, as_json)


def probe_net(path: Path, environment: str, condition: str, seeds: str, as_json: bool) -> None:
    """Tell how often a network tries what re-reading takes."""
    line = scenario(environment)
    several(f"condition of {line.id}", [condition], line.conditions)
    found = probe(load_net(_there(path)), line.id, condition, seed_range(seeds))
    if as_json:
        document(found.to_json())
        return
    shown = table(f"{path} in {line.id} under {condition}", (">episodes", ">goes back", ">notes it", ">success"))
    shown.add_row(str(found.episodes), number(found.goes_back, 3), number(found.notes_it, 3), number(found.success, 3))
    console().print(shown)


def train_rllib(
    environments: Sequence[str],
    conditions: Sequence[str],
    out: Path,
    minutes: float,
    seed: int,
    anchor: str,
    reward: str,
    uncounted: str,
    clone: Path | None,
    curriculum: bool,
    runners: int,
    audit: float,
    again: bool,
    as_json: bool,
) -> None:
    """Train, or go on with a run; ends with the scores on test instances."""
    if not 0 <= audit <= 1:
        raise UsageError(f"--audit is a share from 0 to 1; got {audit}")
    if minutes <= 0:
        raise UsageError(f"--minutes is above 0; got {minutes}")
    chosen = tuple(arms(list(SCENARIOS) if "all" in environments else environments, conditions))
    new_folder(out)
    start = out / "clone.pt" if clone is None else _there(clone)
    if clone is None and not start.exists():
        make_clone(list(dict.fromkeys(name for name, _ in chosen)), start, 600, seed, _tell)
    stages = tuple((arm,) for arm in chosen) if curriculum else ()
    settings = Settings(
        chosen,
        seed=seed,
        anchor=check_anchor(anchor),
        reward=reward,
        uncounted=uncounted,
        stages=stages,
        runners=runners,
        audit=audit,
        clone=str(start.resolve()),
    )
    found = learn(settings, out, minutes, _tell, again)
    _print(f"The agent of {out} on 100 test instances of each arm", found, as_json)


def evaluate_net(
    path: Path, environments: Sequence[str], conditions: Sequence[str], out: Path, episodes: int, as_json: bool
) -> None:
    """Tell how a network fares on test instances."""
    found = evaluation(load_net(_there(path)), arms(environments, conditions), new_file(out), episodes)
    _print(f"{path} on {episodes} test instances of each arm", found, as_json)


def _there(path: Path) -> Path:
    if not path.is_file():
        raise UsageError(f"expected a network that `envos clone` or `envos train rllib` wrote; there is no file {path}")
    return path


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _print(title: str, found: Sequence[Score], as_json: bool) -> None:
    if as_json:
        document({"scores": [one.to_json() for one in found]})
    else:
        console().print(scores(title, found))


_KEYS = "; on a tenth of the agent's episodes both keys were turned: {} differ"


def scores(title: str, found: Sequence[Score]) -> Table:
    """The table of scores: one line for each arm, anchor and policy."""
    differ, beside = sum(one.differ for one in found), any(one.policy != "agent" for one in found)
    shown = table(
        title,
        ("environment", "condition", "anchor", "policy", ">n", ">counted", ">success", ">fraction", ">actions"),
        "success, fraction: over the counted episodes" + (_KEYS.format(differ) if beside else ""),
    )
    for one in found:
        shown.add_row(
            one.environment,
            one.condition,
            one.anchor,
            one.policy,
            str(one.episodes),
            str(one.counted),
            share(one.success),
            number(one.fraction),
            number(one.actions, 1),
        )
    return shown
