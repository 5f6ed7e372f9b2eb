"""The challenge: cases drawn from a seed, expectations sealed by digest, then every tool asked, and counted.

A unit is one valid episode: its own case is a positive control, and the others are corruptions of it. Units are made
twice: once to seal what each case is and what is expected of it, and once, when the seal is written, to ask the tools.
"""

import json
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain as flat
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

from envos.certify.certificate import make_env
from envos.certify.challenge.archives import (
    Files,
    Sheet,
    digest,
    manifested,
    quiet,
    raw,
    sealed,
    sheet,
    undigested,
)
from envos.certify.challenge.controls import Control, controls, tool_controls
from envos.certify.challenge.files import CLAIMS, FILES, MANIFESTS, TEXTS
from envos.certify.challenge.records import EDITS, edited
from envos.certify.challenge.tools import FAILURE, REJECTED, SUCCESS, TOOLS, Answers, judged
from envos.certify.corruptions import CORRUPTIONS
from envos.certify.forgery import Draft, Original
from envos.certify.log import read
from envos.certify.mutants import mutants
from envos.certify.rollout import play
from envos.envs.env import EnvOS
from envos.envs.evidence import Evidence, canonical, sha256
from envos.envs.scenario import ANCHORS, scenario
from envos.envs.streams import Stream
from envos.errors import UsageError
from envos.wrappers.tools import ToolActions

RAW, SEALED, CONTROL = "raw", "resealed", "control"
UNIT = 8
"""Cases of one episode: a control and seven corruptions of it."""
SPLIT = "test"
TOOLED = 0.25
"""Share of the units that are played by tools."""
_TRIES = 60

Progress = Callable[[int], None]


class Kind(NamedTuple):
    """A class of corruption: its name, its level, and what is the most that may come of it."""

    name: str
    level: str
    wanted: str


class Case(NamedTuple):
    """One case and its expectation: `wanted` is exactly what must come of a control, and the most of a corruption.

    rejected: no tool may take it for an episode that counts. failure: it may count, and is no success.
    """

    number: int
    environment: str
    condition: str
    episode: str
    kind: str
    strength: str
    wanted: str
    digest: str


class Result(NamedTuple):
    """A case and what each tool made of it."""

    case: Case
    answers: Answers

    def accepted(self, tool: str) -> bool:
        """Whether a tool took a corruption for clean, or a control for what it is."""
        said: str = getattr(self.answers, tool)
        if self.case.strength != CONTROL:
            return said == SUCCESS if self.case.wanted == FAILURE else said != REJECTED
        return said != REJECTED if tool == "validity" else said == self.case.wanted


@lru_cache(maxsize=8)
def kinds(environment: str) -> tuple[Kind, ...]:
    """Every class of corruption of an environment, in a fixed order."""
    world = _env(environment).world
    found = [Kind(item.name, "record", REJECTED) for item in CORRUPTIONS if item.name != "reader_problem"]
    found += [Kind(f"mutant_{item.name}", "mutant", FAILURE) for item in mutants(world.report)]
    found += [Kind(name, "edit", REJECTED) for name in EDITS]
    found += [Kind(name, "text", REJECTED) for name in TEXTS]
    found += [Kind(name, "file", REJECTED) for name in FILES]
    return (*found, *(Kind(name, "manifest", REJECTED) for name in MANIFESTS))


@lru_cache(maxsize=8)
def _env(environment: str) -> EnvOS:
    return make_env(environment, SPLIT)


@lru_cache(maxsize=8)
def _by_tools(environment: str) -> ToolActions:
    return ToolActions(make_env(environment, SPLIT))


def _core(env: ToolActions) -> EnvOS:
    inner = env.unwrapped
    assert isinstance(inner, EnvOS)  # noqa: S101 - made just so
    return inner


class Base(NamedTuple):
    """A valid episode: who played it, its evidence, its text, its files."""

    control: Control
    condition: str
    original: Original
    sheet: Sheet
    files: Files
    success: bool


def base(environment: str, stream: Stream) -> Base:
    """A counted episode, drawn: condition, anchor, instance, pages or tools, and kind of episode.

    Raises UsageError after many tries.
    """
    line = scenario(environment)
    for _ in range(_TRIES):
        condition, anchor, seed = stream.pick(line.conditions), stream.pick(ANCHORS), stream.below(100_000)
        tools = stream.chance(TOOLED)
        env = _core(_by_tools(environment)) if tools else _env(environment)
        env.reset(seed=seed, options={"condition": condition, "anchor": anchor})
        plan, instance = env.plan, env.instance
        known = tool_controls if tools else controls
        one = stream.pick(known(line, env.world, condition, str(plan.task.get("case", ""))))
        options = {"condition": condition, "anchor": anchor, "policy": one.name, "model": "m-1"}
        episode = play(_by_tools(environment) if tools else env, one.policy, seed, options)
        fact = instance.roles.fact
        if not episode.verdict["counted"] or fact is None:
            continue
        evidence = quiet(env.evidence())
        text = sheet(evidence, episode.verdict)
        told = Original(evidence, plan, env.world, fact, read(evidence.records, plan))
        return Base(one, condition, told, text, sealed(text), bool(episode.verdict["endpoint"]))
    raise UsageError(f"no episode of {environment} counted in {_TRIES} tries")


def corrupted(one: Base, kind: Kind, strength: str, stream: Stream) -> Files | None:
    """The files of a corruption, or None where there is nothing to corrupt, or nothing that matters changed."""
    if kind.wanted == FAILURE and not one.success:
        return None
    try:
        made = _made(one, kind, strength, stream)
    except LookupError:
        return None
    return None if made is None or made == one.files else made


def _made(one: Base, kind: Kind, strength: str, stream: Stream) -> Files | None:
    if kind.level in ("file", "manifest"):
        files = {**FILES, **MANIFESTS}[kind.name](one.files, stream)
        return files if files is None or strength == RAW or kind.level == "manifest" else manifested(files)
    if kind.level == "text":
        text = TEXTS[kind.name](one.sheet, stream)
    else:
        evidence = _evidence(one, kind)
        if evidence is None:
            return None
        if strength == RAW:
            evidence = undigested(evidence, one.original.evidence)
        text = _with_verdict(evidence, one.sheet.verdict)
        if text == one.sheet:
            return None
    if text is None:
        return None
    return raw(one.sheet, text, one.files) if strength == RAW else sealed(text)


def _with_verdict(evidence: Evidence, verdict: str) -> Sheet:
    made = sheet(evidence, {})
    return Sheet(made.entries, made.pre, made.post, verdict)


def _evidence(one: Base, kind: Kind) -> Evidence | None:
    draft = Draft.again(one.original)
    if kind.level == "record":
        return next(item for item in CORRUPTIONS if item.name == kind.name).make(draft)
    if kind.level == "edit":
        made: Evidence | None = edited(kind.name)(draft)
        return made
    mutant = next(item for item in mutants(one.original.world.report) if f"mutant_{item.name}" == kind.name)
    return draft.evidence() if mutant.make(draft) else None


def unit(seed: int, number: int, environments: Sequence[str], most: int) -> Iterator[tuple[Case, Files]]:
    """The cases of one episode, at most so many; a function of the seed and the number."""
    environment = environments[number % len(environments)]
    stream = Stream(seed, SPLIT, f"challenge {number}")
    one = base(environment, stream)
    common = (environment, one.condition, one.control.name)
    first = UNIT * number
    wanted = SUCCESS if one.control.success else FAILURE
    yield Case(first, *common, one.control.name, CONTROL, wanted, digest(one.files)), one.files
    made, seen = 1, set[tuple[str, str]]()
    every = kinds(environment)
    # Units take turns through the classes, so that all come up as often as their episodes allow.
    at = (number // len(environments)) * (UNIT - 1) + stream.below(3)
    while made < min(UNIT, most) and len(seen) < 2 * len(every):
        kind, strength = every[at % len(every)], (RAW, SEALED)[(at // len(every) + at + number) % 2]
        at += 1
        if (kind.name, strength) in seen:
            continue
        seen.add((kind.name, strength))
        files = corrupted(one, kind, strength, stream)
        if files is not None:
            yield Case(first + made, *common, kind.name, strength, kind.wanted, digest(files)), files
            made += 1


class Part(NamedTuple):
    """What one process is to do with a unit: only draw it, or also ask the tools."""

    seed: int
    number: int
    environments: tuple[str, ...]
    most: int
    ask: bool


def _carry_out(part: Part) -> list[Case] | list[Result]:
    drawn = unit(part.seed, part.number, part.environments, part.most)
    if not part.ask:
        return [case for case, _ in drawn]
    with tempfile.TemporaryDirectory() as root:
        return [
            Result(case, judged(Path(root), files, regrade=case.strength == SEALED and case.kind not in CLAIMS))
            for case, files in drawn
        ]


def parts(seed: int, cases: int, environments: Sequence[str], ask: bool) -> list[Part]:
    """The units that make so many cases."""
    return [Part(seed, at // UNIT, tuple(environments), min(UNIT, cases - at), ask) for at in range(0, cases, UNIT)]


def run(
    seed: int,
    cases: int,
    environments: Sequence[str],
    out: Path,
    workers: int = 1,
    progress: Progress | None = None,
) -> tuple[str, list[Result]]:
    """Draw and seal the cases, ask the tools, and write both into a folder; the digest of the seal, and the results.

    `expectations.jsonl` stands, with its digest in `seal.json`, before any tool is asked. Raises UsageError where the
    cases come out otherwise the second time.
    """
    if cases < 1:
        raise UsageError(f"a challenge has at least one case; got {cases}")
    done = 0

    def each(ask: bool) -> Iterator[Any]:
        nonlocal done
        todo = parts(seed, cases, environments, ask)
        for found in _mapped(todo, workers):
            done += 1
            if progress is not None:
                progress(done)
            yield found

    expected: list[Case] = list(flat.from_iterable(each(False)))
    text = "".join(f"{canonical(case._asdict())}\n" for case in expected)
    seal = sha256(text)
    (out / "expectations.jsonl").write_text(text, encoding="ascii")
    (out / "seal.json").write_text(json.dumps({"seed": seed, "cases": len(expected), "sha256": seal}) + "\n")
    results: list[Result] = list(flat.from_iterable(each(True)))
    if [item.case for item in results] != expected:
        raise UsageError("the cases came out otherwise than they were sealed: something is not a function of the seed")
    rows = [{**item.case._asdict(), "answers": item.answers._asdict()} for item in results]
    (out / "results.jsonl").write_text("".join(f"{canonical(row)}\n" for row in rows), encoding="ascii")
    (out / "summary.json").write_text(json.dumps(summary(results), indent=1, sort_keys=True) + "\n", encoding="ascii")
    return seal, results


def _mapped(todo: Sequence[Part], workers: int) -> Iterator[Any]:
    if workers == 1 or len(todo) == 1:
        yield from map(_carry_out, todo)
        return
    with get_context("spawn").Pool(min(workers, len(todo))) as pool:
        yield from pool.imap(_carry_out, todo, chunksize=4)


def summary(results: Sequence[Result]) -> dict[str, Any]:
    """The confusion table: by class and strength the cases, and how many each tool took for clean (or refused)."""
    table: dict[str, dict[str, Counter[str]]] = {}
    for item in results:
        row = table.setdefault(item.case.strength, {}).setdefault(item.case.kind, Counter())
        row["cases"] += 1
        for tool in TOOLS:
            wrong = not item.accepted(tool) if item.case.strength == CONTROL else item.accepted(tool)
            row[tool] += wrong
    return {
        "wrong": {strength: {kind: dict(row) for kind, row in rows.items()} for strength, rows in table.items()},
        "total": {strength: _total(rows) for strength, rows in table.items()},
        "classes": {strength: len(rows) for strength, rows in table.items()},
    }


def _total(rows: Mapping[str, Counter[str]]) -> dict[str, int]:
    total = Counter[str]()
    for row in rows.values():
        total.update(row)
    return {name: total[name] for name in ("cases", *TOOLS)}


def wrong(results: Sequence[Result]) -> list[Result]:
    """The cases that the pipeline got wrong."""
    return [item for item in results if item.accepted("pipeline") == (item.case.strength != CONTROL)]
