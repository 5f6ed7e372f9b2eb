"""Family 5: damaged evidence is never counted, and unusual evidence of a good episode is. All deep."""

import json
import tempfile
from collections.abc import Callable, Generator, Iterable, Mapping
from pathlib import Path

from envos.certify.checks import Finding, faults, rule
from envos.certify.corruptions import CORRUPTIONS
from envos.certify.forgery import Draft, bump
from envos.certify.policies import Observation, Policy, Steps
from envos.certify.rollout import Episode, play
from envos.certify.trial import Trial
from envos.envs.action import go_back, goto, memo
from envos.envs.evidence import Evidence, Write
from envos.envs.perturbation import AFTER
from envos.envs.streams import Stream
from envos.errors import EvidenceError
from envos.wrappers.archive import LEDGER, MANIFEST, POST, PRE, VERDICT, Archive, read_archive

FAMILY = "controls"
FLIPPED = 4
"""Bytes that a deep trial flips, one at a time, in an archive."""


@rule(
    FAMILY,
    "C1",
    "a corrupted record or state costs the episode its validity, in the class that it belongs to",
    "rewards.validity does not see the named corruption",
    deep=True,
)
def corrupted(trial: Trial) -> Finding:
    """The corruptions of protocol section 9 that the evidence itself shows, one at a time.

    A change that follows the commit contradicts the commit's own writes wherever else it is put.
    """
    contradicted = {"harness_error"} if trial.plan.phase == AFTER else set[str]()
    found: dict[str, list[str]] = {}
    made = 0
    for corruption in CORRUPTIONS:
        evidence = corruption.make(Draft.of(trial))
        if evidence is None:
            continue
        made += 1
        verdict = trial.verifier(evidence).info()
        if verdict["counted"] or verdict["endpoint"] or verdict["validity"] not in corruption.validity | contradicted:
            expected = " or ".join(sorted(corruption.validity))
            found[corruption.name] = [f"counted {verdict['counted']}, {verdict['validity']}, expected {expected}"]
    return faults(found, {"corruptions": made, "rejected": made - len(found)})


@rule(
    FAMILY,
    "C2",
    "an archive that was damaged on disk is never counted",
    "wrappers.archive.read_archive does not see the named damage",
    deep=True,
)
def damaged(trial: Trial) -> Finding:
    """Files changed, dropped, added, cut and exchanged, lines dropped and swapped, single bytes flipped."""
    with tempfile.TemporaryDirectory() as root:
        folder = archived(trial, Path(root))
        whole = _grade(trial, folder)
        damages: list[tuple[str, Damage]] = [*DAMAGES.items(), *_flips(trial, folder)]
        found: dict[str, list[str]] = {}
        files = {path.name: path.read_bytes() for path in folder.iterdir()}
        for name, damage in damages:
            damage(folder)
            if _grade(trial, folder):
                found[name] = ["counted all the same"]
            _repair(folder, files)
    if not whole:
        found["intact"] = ["an archive that nobody damaged is not counted"]
    return faults(found, {"damages": len(damages), "rejected": len(damages) - len(found)})


@rule(
    FAMILY,
    "E25",
    "the archive holds the episode: the same evidence and the same verdict come back from it",
    "the record of something is lost on the way to the disk",
    deep=True,
)
def kept(trial: Trial) -> Finding:
    """E24, E25: evidence and verdict from the folder against those of the live episode."""
    with tempfile.TemporaryDirectory() as root:
        evidence = read_archive(archived(trial, Path(root)))
    same = evidence.digest == trial.best.evidence.digest
    verdict = trial.verifier(evidence).info() == trial.best.episode.verdict
    return Finding(same and verdict, {"evidence": same, "verdict": verdict}, list(evidence.problems) or None)


def archived(trial: Trial, root: Path) -> Path:
    """The oracle's episode, played again into an archive under a folder."""
    archive = Archive(trial.env, root)
    play(archive, trial.best.scripted.policy, trial.seed, dict(trial.options))
    if archive.folder is None:
        raise EvidenceError("nothing was archived")
    return archive.folder


def _grade(trial: Trial, folder: Path) -> bool:
    """Whether an archive is counted."""
    try:
        return bool(trial.verifier(read_archive(folder)).info()["counted"])
    except EvidenceError:
        return False


def _repair(folder: Path, files: Mapping[str, bytes]) -> None:
    """Put every file back as it was, and take away what was added."""
    for path in folder.iterdir():
        if path.name not in files:
            path.unlink()
    for name, data in files.items():
        (folder / name).write_bytes(data)


Damage = Callable[[Path], None]


def _flips(trial: Trial, folder: Path) -> list[tuple[str, Damage]]:
    """Single bytes to flip, drawn from the seed over all files."""
    stream = Stream(trial.seed, trial.env.split, "flipped bytes")
    sizes = {path.name: path.stat().st_size for path in sorted(folder.iterdir())}
    found: list[tuple[str, Damage]] = []
    for _ in range(FLIPPED):
        name = stream.pick(tuple(sizes))
        # The line break that ends a file is the only byte that a reader need not see.
        found.append((f"flip {name}", _flip(name, stream.below(sizes[name] - 1))))
    return found


def _flip(name: str, place: int) -> Damage:
    def damage(folder: Path) -> None:
        data = bytearray((folder / name).read_bytes())
        data[place] ^= 1
        (folder / name).write_bytes(bytes(data))

    return damage


def _lines(change: Callable[[list[str]], None]) -> Damage:
    def damage(folder: Path) -> None:
        lines = (folder / LEDGER).read_text(encoding="ascii").splitlines(keepends=True)
        change(lines)
        (folder / LEDGER).write_text("".join(lines), encoding="ascii", newline="")

    return damage


def _drop(lines: list[str]) -> None:
    del lines[len(lines) // 2]


def _drop_last(lines: list[str]) -> None:
    del lines[-1]


def _swap(lines: list[str]) -> None:
    middle = len(lines) // 2
    lines[middle], lines[middle + 1] = lines[middle + 1], lines[middle]


def _rewrite(name: str, old: str, new: str) -> Damage:
    def damage(folder: Path) -> None:
        text = (folder / name).read_text(encoding="ascii")
        (folder / name).write_text(text.replace(old, new, 1), encoding="ascii", newline="")

    return damage


def _gone(name: str) -> Damage:
    return lambda folder: (folder / name).unlink()


def _added(folder: Path) -> None:
    (folder / "extra.json").write_text("{}\n", encoding="ascii")


def _head(folder: Path) -> None:
    path = folder / MANIFEST
    data = json.loads(path.read_text(encoding="ascii"))
    path.write_text(json.dumps({**data, "head": "0" * 64}), encoding="ascii")


def _exchanged(folder: Path) -> None:
    pre, post = folder / PRE, folder / POST
    first, second = pre.read_bytes(), post.read_bytes()
    pre.write_bytes(second)
    post.write_bytes(first)


DAMAGES: dict[str, Damage] = {
    "line_dropped": _lines(_drop),
    "lines_swapped": _lines(_swap),
    "line_repeated": _lines(lambda lines: lines.insert(len(lines) // 2, lines[len(lines) // 2])),
    "last_line_dropped": _lines(_drop_last),
    "last_line_cut": _lines(lambda lines: lines.append(lines.pop()[:20])),
    "report_altered": _rewrite(LEDGER, '"kind":"report"', '"kind":"Report"'),
    "action_altered": _rewrite(LEDGER, '"verb":"report"', '"verb":"noop"'),
    "state_altered": _rewrite(POST, "[[1,", "[[1000001,"),
    "verdict_altered": _rewrite(VERDICT, '"reward":1.0', '"reward":0.5'),
    "head_altered": _head,
    "states_exchanged": _exchanged,
    "file_added": _added,
    **{f"{name}_gone": _gone(name) for name in (LEDGER, PRE, POST, VERDICT, MANIFEST)},
}
"""What is done to an archive on disk."""


@rule(
    FAMILY,
    "E04",
    "other ways to the same end are worth the same",
    "the grader asks for more than the right final state",
    deep=True,
)
def other_ways(trial: Trial) -> Finding:
    """E04: extra reads, the same in another order, back and forth, a memo that is cut, actions that are no actions."""
    links = [link.href for link in trial.world.navigation]
    ways = {
        "extra_reads": [goto(url) for url in links],
        "reordered_reads": [goto(url) for url in reversed(links)],
        "back_and_forth": [goto(links[0]), goto(links[1]), go_back()],
        "memo_cut": [memo("x" * 400)],
        "no_actions": ["click(", 'click("999")', 'hover("1")'],
    }
    found: dict[str, list[str]] = {}
    for name, actions in ways.items():
        episode = _play(trial, after_these(trial.best.scripted.policy, actions))
        if episode.reward != 1.0 or not episode.verdict["endpoint"]:
            found[name] = [f"{episode.verdict['validity']}, fraction {episode.verdict['fraction']}"]
    return faults(found, {"ways": list(ways)})


def after_these(policy: Policy, actions: Iterable[str]) -> Policy:
    """A policy that does these actions first."""
    first = tuple(actions)

    def act(observation: Observation) -> Steps:
        observation = yield from _first(observation, first)
        yield from policy(observation)

    return act


def _first(observation: Observation, actions: tuple[str, ...]) -> Generator[str, Observation, Observation]:
    for action in actions:
        observation = yield action
    return observation


def _play(trial: Trial, policy: Policy) -> Episode:
    return play(trial.env, policy, trial.seed, dict(trial.options))


@rule(
    FAMILY,
    "E08",
    "what makes no difference costs nothing: case and white space in the report, columns that are no part of the task",
    "rewards.compare or the world's volatile columns are too narrow",
    deep=True,
)
def tolerated(trial: Trial) -> Finding:
    """E05, E08: a report in upper case with white space around; a volatile column written by the agent."""
    made = {"report": _shouted(trial), "volatile": _volatile(trial)}
    found = {}
    for name, evidence in made.items():
        verdict = trial.verifier(evidence).info() if evidence else None
        if verdict and not (verdict["counted"] and verdict["endpoint"]):
            found[name] = [f"{verdict['validity']}, fraction {verdict['fraction']}"]
    return faults(found, {"variants": [name for name, evidence in made.items() if evidence]})


def _shouted(trial: Trial) -> Evidence:
    draft = Draft.of(trial)
    draft.report_as({name: f"  {text.upper()} " for name, text in draft.reported().items()})
    return draft.evidence()


def _volatile(trial: Trial) -> Evidence | None:
    draft = Draft.of(trial)
    place = draft.committed()
    for table in trial.world.metadata.sorted_tables:
        state = draft.pre[table.name]
        for column in table.columns:
            if column.info.get("volatile") and state.rows:
                key, row = next(iter(state.rows.items()))
                held = row[state.columns.index(column.name)]
                columns = {column.name: (held, bump(held))}
                number = draft.write_at(place).request
                draft.records.insert(place + 1, Write(number, "agent", "update", table.name, key, columns))
                return draft.evidence()
    return None


@rule(
    FAMILY,
    "C3",
    "a valid failure is counted, as a failure",
    "validity must not depend on the outcome: see rewards.validity",
    deep=True,
)
def valid_failure(trial: Trial) -> Finding | None:
    """Each policy that is declared to fail here has an episode that counts."""
    declared = {name: run for name, run in trial.runs.items() if trial.condition in run.scripted.fails}
    if not declared:
        return None
    found = {
        name: [] if run.counted and run.episode.verdict["endpoint"] is False else [str(run.episode.verdict["validity"])]
        for name, run in declared.items()
    }
    return faults(found, {"policies": list(declared)})
