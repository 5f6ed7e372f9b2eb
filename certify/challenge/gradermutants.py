"""Mutants of the grader's own rules: every comparison flipped, term dropped, constant moved, one at a time.

They are made from the syntax trees of `rewards/*.py`, and each is graded against what certification expects of a
verdict: the matrix, the panel and positive controls, mutants and corruptions of winning episodes, archived verdicts. A
mutant is killed by the first expectation that its verdict does not meet.
"""

import ast
import copy
import importlib
import importlib.abc
import importlib.util
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any, NamedTuple

from envos.certify.certificate import make_env
from envos.certify.challenge.controls import controls
from envos.certify.challenge.records import EDITS, edited
from envos.certify.corruptions import CORRUPTIONS
from envos.certify.forgery import Draft, Original
from envos.certify.log import read
from envos.certify.matrix import expected
from envos.certify.mutants import mutants
from envos.certify.policies import policies, winner
from envos.certify.rollout import play
from envos.envs.env import EnvOS
from envos.envs.evidence import Evidence
from envos.envs.scenario import SCENARIOS, Scenario
from envos.rewards.verdict import verify
from envos.wrappers.tools import ToolActions

MODULES = ("compare", "invariants", "journal", "sequence", "statediff", "trace", "trigger", "validity", "verdict")
"""What decides: signatures and measures of exposure are reported, never scored."""
PACKAGE = "envos.rewards"
DAMAGED = ("L2", "OFF-A", "LIVE-A", "ON-A", "REV-A", "FIN-A")
"""Conditions whose winning episode is damaged: announced, silent, with each promise of the review step, and each way in
which something else than was chosen can come to be stored."""
ALARM = 20
"""Seconds after which a mutant that does not come to an end is dead."""
EQUIVALENT: Mapping[str, str] = {}
"""Survivors that no evidence can tell from the grader, by module and text, and why."""

_WHOLE = 3
"""Blanks in the name of an episode that nobody damaged."""

Verdict = Mapping[str, Any]


class Mutation(NamedTuple):
    """One change: where, what, and its number among the module's."""

    module: str
    number: int
    line: int
    what: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a mutant: the expectation that killed it ("" for none), or why it is no other grader."""

    module: str
    line: int
    what: str
    killer: str
    equivalent: str

    @property
    def survived(self) -> bool:
        """Whether nothing told it from the grader."""
        return not self.killer and not self.equivalent

    def to_json(self) -> dict[str, Any]:
        """The outcome as JSON data."""
        return asdict(self)


_FLIPS: Mapping[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}


class _Mutator(ast.NodeTransformer):
    """Counts the places where something can be mutated, and mutates the one of that number."""

    def __init__(self, wanted: int = -1) -> None:
        self.wanted = wanted
        self.found: list[tuple[int, str]] = []

    def _here(self, node: ast.AST, what: str) -> bool:
        self.found.append((getattr(node, "lineno", 0), what))
        return len(self.found) - 1 == self.wanted

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        for at, op in enumerate(node.ops):
            if type(op) in _FLIPS and self._here(node, f"flip {ast.unparse(node)}"):
                node.ops[at] = _FLIPS[type(op)]()
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        self.generic_visit(node)
        for at in range(len(node.values)):
            if self._here(node, f"drop {ast.unparse(node.values[at])!r} of {ast.unparse(node)}"):
                kept = [value for place, value in enumerate(node.values) if place != at]
                return kept[0] if len(kept) == 1 else ast.BoolOp(node.op, kept)
        if self._here(node, f"and/or in {ast.unparse(node)}"):
            return ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
        return node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.op, ast.Not) and self._here(node, f"no not in {ast.unparse(node)}"):
            return node.operand
        return node

    def visit_If(self, node: ast.If) -> ast.AST:
        self.generic_visit(node)
        for value in (True, False):
            if self._here(node, f"if {ast.unparse(node.test)} is always {value}"):
                node.test = ast.Constant(value)
        return node

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        self.generic_visit(node)
        if not isinstance(node.value, ast.Constant) and self._here(node, f"drop {ast.unparse(node)[:80]}"):
            return ast.copy_location(ast.Pass(), node)
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        self.generic_visit(node)
        if self._here(node, f"drop {ast.unparse(node)[:80]}"):
            return ast.copy_location(ast.Pass(), node)
        return node

    def visit_Return(self, node: ast.Return) -> ast.AST:
        self.generic_visit(node)
        value = node.value.value if isinstance(node.value, ast.Constant) else None
        if isinstance(value, bool) and self._here(node, f"not {ast.unparse(node)}"):
            return ast.copy_location(ast.Return(ast.Constant(not value)), node)
        return node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        return node  # words for people are no rule


def tree_of(module: str) -> ast.Module:
    """The syntax tree of a module of the grader."""
    spec = importlib.util.find_spec(f"{PACKAGE}.{module}")
    if spec is None or spec.origin is None:
        raise ImportError(f"there is no {PACKAGE}.{module}")
    return ast.parse(Path(spec.origin).read_text(encoding="utf-8"))


def mutations(module: str) -> list[Mutation]:
    """Every mutation of a module."""
    walk = _Mutator()
    walk.visit(tree_of(module))
    return [Mutation(module, number, line, what) for number, (line, what) in enumerate(walk.found)]


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds one module of the grader as a mutated tree."""

    def __init__(self, name: str, tree: ast.Module) -> None:
        self.name, self.tree = name, tree

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> Any:
        """The spec of the mutated module, and of no other."""
        return importlib.util.spec_from_loader(fullname, self) if fullname == self.name else None

    def exec_module(self, module: ModuleType) -> None:
        """Run the mutated tree."""
        exec(compile(self.tree, self.name, "exec"), module.__dict__)  # noqa: S102 - our own source, mutated


@contextmanager
def mutated(one: Mutation) -> Iterator[Callable[[Evidence], Any]]:
    """The `verify` of a grader with that mutation; the modules that are loaded are left as they were."""
    walk = _Mutator(one.number)
    tree = ast.fix_missing_locations(walk.visit(copy.deepcopy(tree_of(one.module))))
    finder = _Finder(f"{PACKAGE}.{one.module}", tree)
    kept = {name: module for name, module in sys.modules.items() if name.startswith(f"{PACKAGE}.")}
    for name in kept:
        del sys.modules[name]
    sys.meta_path.insert(0, finder)
    try:
        yield importlib.import_module(f"{PACKAGE}.verdict").verify
    finally:
        sys.meta_path.remove(finder)
        for name in [name for name in sys.modules if name.startswith(f"{PACKAGE}.")]:
            del sys.modules[name]
        sys.modules.update(kept)
        package = sys.modules[PACKAGE]
        for name, module in kept.items():
            setattr(package, name.rpartition(".")[2], module)


class Question(NamedTuple):
    """Evidence, and what certification expects of its verdict: says what is wrong with it, or ""."""

    name: str
    evidence: Evidence
    wrong: Callable[[Verdict], str]


def _is(won: bool, lost: int | None) -> Callable[[Verdict], str]:
    def wrong(verdict: Verdict) -> str:
        if not verdict["counted"] or bool(verdict["endpoint"]) != won or (verdict["reward"] == 1.0) != won:
            return "matrix"
        failed = sum(not term["passed"] for term in verdict["invariants"].values())
        return "matrix" if lost is not None and failed != lost else ""

    return wrong


def _never(verdict: Verdict) -> str:
    return "shortcut" if verdict["endpoint"] or verdict["reward"] else ""


def _rejected(classes: frozenset[str]) -> Callable[[Verdict], str]:
    return lambda verdict: "" if not verdict["counted"] and verdict["validity"] in classes else "corruption"


def _loses(terms: frozenset[str]) -> Callable[[Verdict], str]:
    def wrong(verdict: Verdict) -> str:
        lost = {name for name, term in verdict["invariants"].items() if not term["passed"]}
        held = verdict["counted"] and not verdict["endpoint"] and lost == terms & verdict["invariants"].keys()
        return "" if held else "mutant"

    return wrong


def _golden(known: Verdict) -> Callable[[Verdict], str]:
    """A verdict that has been archived must be derived again, to the last reason."""
    return lambda verdict: "" if verdict == known else "archived verdict"


@lru_cache(maxsize=1)
def questions(seed: int = 3) -> tuple[Question, ...]:
    """Evidence of every environment and condition, with what is declared of it; archived verdicts come last."""
    declared: list[Question] = []
    for name, line in SCENARIOS.items():
        env = make_env(name, "test")
        for condition in line.conditions:
            for anchor in ("first", "any"):
                declared += _of_arm(env, line, condition, anchor, seed)
        env.close()
        declared += _by_tools(line, seed)
    # What mutants are most often killed by comes first: every eleventh question, then every one.
    declared = [*declared[::11], *(item for at, item in enumerate(declared) if at % 11)]
    whole = [item for item in declared if item.name.count(" ") == _WHOLE]
    archived = [Question(item.name, item.evidence, _golden(verify(item.evidence).info())) for item in whole]
    return (*declared, *archived)


def _of_arm(env: Any, line: Any, condition: str, anchor: str, seed: int) -> Iterator[Question]:
    options = {"condition": condition, "anchor": anchor}
    env.reset(seed=seed, options=options)
    case = str(env.plan.task.get("case", ""))
    known = policies(line.world, line.phenomenon)
    for one in controls(line, env.world, condition, case):
        if anchor == "any" and not one.name.startswith("policy_"):
            continue
        if one.name.startswith("panel_") and condition != line.conditions[0]:
            continue
        play(env, one.policy, seed, options)
        evidence = env.evidence()
        name = f"{line.id} {condition} {anchor} {one.name}"
        wanted = expected(known[one.name[7:]], condition, case) if one.name.startswith("policy_") else None
        if wanted is not None and not wanted.win and wanted.lost is None:
            yield Question(name, evidence, _never)
        elif one.success or (wanted is not None and wanted.lost):
            yield Question(name, evidence, _is(one.success, None if wanted is None else wanted.lost))
        else:
            yield Question(name, evidence, _never)
        if one.name == "plain" and condition in DAMAGED:
            told = Original(evidence, env.plan, env.world, env.instance.roles.fact, read(evidence.records, env.plan))
            yield from _damaged(name, told)


def _by_tools(line: Scenario, seed: int) -> Iterator[Question]:
    """The scripted policies that call tools, as they are declared on pages, and the winning episode damaged."""
    tools = ToolActions(make_env(line.id, "test"))
    env = tools.unwrapped
    assert isinstance(env, EnvOS)  # noqa: S101 - made just so
    best = winner(line)
    for condition in line.conditions:
        for name, one in policies(f"tools_{line.world}", line.phenomenon).items():
            play(tools, one.policy, seed, {"condition": condition, "anchor": "any"})
            wanted = expected(one, condition, str(env.plan.task.get("case", "")))
            evidence = env.evidence()
            told = f"{line.id} {condition} any tools_{name}"
            yield Question(told, evidence, _never if wanted.lost is None else _is(wanted.win, wanted.lost))
            fact = env.instance.roles.fact
            if fact is not None and best is not None and name == best.name and condition in DAMAGED:
                log = read(evidence.records, env.plan)
                yield from _damaged(told, Original(evidence, env.plan, env.world, fact, log))
    tools.close()  # type: ignore[no-untyped-call]


def _damaged(name: str, told: Original) -> Iterator[Question]:
    """What the grader itself refuses, or scores otherwise, made of one episode."""
    for item in CORRUPTIONS:
        made = _attempt(lambda item=item: item.make(Draft.again(told)))  # type: ignore[misc]
        if made is not None and verify(made).validity in item.validity:
            yield Question(f"{name} {item.name}", made, _rejected(item.validity))
    for edit in EDITS:
        made = _attempt(lambda edit=edit: edited(edit)(Draft.again(told)))  # type: ignore[misc]
        if made is not None and not (verdict := verify(made)).counted:
            yield Question(f"{name} {edit}", made, _rejected(frozenset({verdict.validity})))
    for mutant in mutants(told.world.report):
        draft = Draft.again(told)
        if _attempt(lambda mutant=mutant, draft=draft: mutant.make(draft)):  # type: ignore[misc]
            evidence = draft.evidence()
            if verify(evidence).counted:
                yield Question(f"{name} {mutant.name}", evidence, _loses(mutant.lost))


def _attempt(make: Callable[[], Any]) -> Any:
    try:
        return make()
    except LookupError:
        return None


def judge(one: Mutation) -> Outcome:
    """Whether certification kills a mutant, and by what."""
    asked = questions()
    killer = ""
    try:
        with mutated(one) as grade, _limited():
            killer = next((said for item in asked if (said := item.wrong(grade(item.evidence).info()))), "")
    except Exception as error:  # noqa: BLE001 - a grader that fails is no grader
        killer = f"error {type(error).__name__}"
    same = "" if killer else EQUIVALENT.get(f"{one.module}: {one.what}", "")
    return Outcome(one.module, one.line, one.what, killer, same)


@contextmanager
def _limited() -> Iterator[None]:
    def ring(number: int, frame: FrameType | None) -> None:
        raise TimeoutError("the mutant does not come to an end")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(ALARM)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def survey(every: int = 1, workers: int = 1, progress: Callable[[int], None] | None = None) -> list[Outcome]:
    """What becomes of every mutant, or of each `every`-th, in order."""
    chosen: Sequence[Mutation] = [item for module in MODULES for item in mutations(module)][::every]
    outcomes: list[Outcome] = []
    for item in _judged(chosen, workers):
        outcomes.append(item)
        if progress is not None:
            progress(len(outcomes))
    return outcomes


def _judged(chosen: Sequence[Mutation], workers: int) -> Iterator[Outcome]:
    if workers == 1:
        yield from map(judge, chosen)
        return
    with get_context("spawn").Pool(workers) as pool:
        yield from pool.imap(judge, chosen, chunksize=8)
