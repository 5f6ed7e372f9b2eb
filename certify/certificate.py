"""Certification of many instances, and the gate that an environment asks at reset.

Every instance has its matrix and the results of the logged checks of all families. The deep checks, which fork the
application, forge evidence and damage archives, run on a sample of the instances, under each condition and anchor: they
ask of the code and of the condition, hardly of the instance. Policies that never ask for a page of the form (they do
nothing, or wander) are played in the control arm only, except in the sample: no condition shows before the form. The
certificate says which checks ran how often.
"""

import gc
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import gymnasium

from envos.certify.admission import ABOUT, Certificate, Entry, command, scenario_digest
from envos.certify.checks import rules
from envos.certify.matrix import expected
from envos.certify.policies import policies
from envos.certify.result import InstanceResult, certify_instance, code_of, plan_digest
from envos.certify.trial import Twin, twin
from envos.envs.env import EnvOS
from envos.envs.evidence import Start
from envos.envs.instance import Instance
from envos.envs.perturbation import Plan
from envos.envs.scenario import ANCHORS, check_anchor, check_condition, scenario
from envos.envs.streams import check_seed, check_split
from envos.errors import CertificateError, UsageError
from envos.wrappers.certified import Certifier

__all__ = ["Certificate", "Entry", "InstanceResult", "certifier", "certify", "certify_instance"]

SAMPLE_EVERY = 50
"""Of so many seeds, the first one is certified deeply."""
_CHUNK = 4
_KEPT = 4096

Progress = Callable[[int, int], None]
"""Is told how many instances are done, of how many."""


class Work(NamedTuple):
    """Some instances for one process; `deep` are the seeds that are certified deeply."""

    environment: str
    split: str
    seeds: tuple[int, ...]
    deep: frozenset[int]
    conditions: tuple[str, ...]
    anchors: tuple[str, ...]


class Done(NamedTuple):
    """The entries of some instances, the identity of the code, and how often each check ran and failed."""

    entries: tuple[Entry, ...]
    code: Mapping[str, str]
    ran: Mapping[str, int]
    failed: Mapping[str, int]
    seeds: int


Spread = Callable[[Callable[[Work], Done], Sequence[Work]], Iterator[Done]]
"""Does pieces of work somewhere and gives their results in order."""


def certify(
    environment: str,
    split: str,
    seeds: Sequence[int],
    conditions: Sequence[str] | None = None,
    anchors: Sequence[str] = ANCHORS,
    progress: Progress | None = None,
    workers: int = 1,
    sample_every: int = SAMPLE_EVERY,
    spread: Spread | None = None,
) -> Certificate:
    """Certify instances under conditions (all of the environment's, if none are named) and anchors.

    The certificate is the same for any number of `workers` (processes), and for a `spread` that does the work elsewhere
    in place of them. `sample_every` counts seeds: the first of so many is certified deeply. Raises UnknownName or
    UsageError for a name or number that is wrong.
    """
    line = scenario(environment)
    chosen = tuple(dict.fromkeys(conditions or line.conditions))
    for name in chosen:
        if check_condition(line, name) == "mixed":
            raise UsageError("certify takes conditions one by one; got 'mixed'")
    sides = tuple(dict.fromkeys(check_anchor(anchor) for anchor in anchors))
    numbers = tuple(dict.fromkeys(check_seed(seed) for seed in seeds))
    for name, value in (("workers", workers), ("sample_every", sample_every)):
        if value < 1:
            raise UsageError(f"{name} is at least 1; got {value}")
    if not numbers or not sides:
        raise UsageError("certify takes at least one seed and one anchor")
    whole = Work(line.id, check_split(split), numbers, frozenset(numbers[::sample_every]), chosen, sides)
    pieces = [whole._replace(seeds=numbers[at : at + _CHUNK]) for at in range(0, len(numbers), _CHUNK)]
    entries: list[Entry] = []
    ran, failed = Counter[str](), Counter[str]()
    code: Mapping[str, str] = {}
    for done in _carried_out(pieces, workers, spread, progress, len(numbers)):
        entries.extend(done.entries)
        ran.update(done.ran)
        failed.update(done.failed)
        code = code or done.code
        if done.code != code:
            raise CertificateError("the code changed while it was certified: certify again")
    known = policies(line.world, line.phenomenon)
    return Certificate(
        environment=line.id,
        split=split,
        seeds=numbers,
        conditions=chosen,
        anchors=sides,
        code=code,
        scenario=scenario_digest(line.id),
        sample_every=sample_every,
        policies=tuple(known),
        declared={name: {policy: expected(item, name)._asdict() for policy, item in known.items()} for name in chosen},
        about={item.id: {name: getattr(item, name) for name in ABOUT} for item in rules()},
        tally={name: (count, failed[name]) for name, count in ran.items()},
        entries=tuple(entries),
    )


def _carried_out(
    pieces: Sequence[Work], workers: int, spread: Spread | None, progress: Progress | None, total: int
) -> Iterator[Done]:
    """The pieces' results in order, from this process or from several."""
    finished = 0

    def tell(seeds: int) -> None:
        nonlocal finished
        finished += seeds
        if progress is not None:
            progress(finished, total)

    if spread is not None:
        for done in spread(_certify_some, pieces):
            tell(done.seeds)
            yield done
        return
    if workers == 1 or len(pieces) == 1:
        for piece in pieces:
            yield _certify_some(piece, tell)
        return
    # spawn: a forked process would share open databases.
    with get_context("spawn").Pool(min(workers, len(pieces)), _begin) as pool:
        for done in pool.imap(_certify_some, pieces):
            tell(done.seeds)
            yield done


def _begin() -> None:
    """Ready a process: Ctrl-C is for the one that waits for it, and what is imported is no garbage to look through."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.freeze()


def _certify_some(work: Work, tell: Callable[[int], None] | None = None) -> Done:
    env = make_env(work.environment, work.split)
    entries: list[Entry] = []
    ran, failed = Counter[str](), Counter[str]()
    code: Mapping[str, str] = {}
    try:
        for seed in work.seeds:
            for anchor in work.anchors:
                shared = twin(env, seed, anchor)
                for condition in work.conditions:
                    result = certify_instance(env, seed, condition, anchor, shared=shared, deep=seed in work.deep)
                    entries.append(Entry.of(result))
                    ran.update(check.id for check in result.checks)
                    failed.update(check.id for check in result.failed())
                    code = result.code
            if tell is not None:
                tell(1)
    finally:
        env.close()
    return Done(tuple(entries), code, ran, failed, len(work.seeds))


def make_env(environment: str, split: str) -> EnvOS:
    """An environment as anybody gets it, without wrappers: made by its id, since nobody imports the front door."""
    made = gymnasium.make(f"envos:{scenario(environment).id}", split=split, disable_env_checker=True).unwrapped
    if not isinstance(made, EnvOS):
        raise UsageError(f"{environment} is no EnvOS environment but a {type(made).__name__}")
    return made


def running_code(env: EnvOS) -> dict[str, str]:
    """The identity of the code that an environment's episodes have."""
    env.reset(seed=0)
    start = env.ledger.records()[0]
    return code_of(start.identity if isinstance(start, Start) else {})


def certifier(environment: str, mode: str, path: str | Path | None = None) -> Certifier:
    """The gate of an environment: called at reset with instance and plan, it gives a certificate's digest or raises.

    `mode` is "require" (the certificate at `path` must admit them) or "auto" (each is certified when it first comes,
    the first one deeply). Raises CertificateError for a certificate that is missing, changed or of other code.
    """
    line = scenario(environment)
    if mode == "auto":
        return _Auto(line.id)
    if mode != "require":
        raise UsageError(f"a certify mode is require or auto; got {mode!r}")
    if path is None:
        raise UsageError(f"certify='require' needs certificate=FILE; `{command(line.id, 'train', 0)}` makes one")
    certificate = Certificate.load(path)
    env = make_env(line.id, "train")
    try:
        certificate.admits_code(running_code(env))
    finally:
        env.close()

    def admit(instance: Instance, plan: Plan) -> str:
        certificate.admits(instance, plan)
        return certificate.digest

    return admit


class _Auto:
    """Certifies each instance when it first comes."""

    def __init__(self, environment: str) -> None:
        self._environment = environment
        self._envs: dict[str, EnvOS] = {}
        self._found: dict[tuple[str, int, str, str], InstanceResult] = {}
        self._twin: tuple[tuple[str, int, str], Twin] | None = None

    def __call__(self, instance: Instance, plan: Plan) -> str:
        key = (instance.split, instance.seed, plan.condition, plan.anchor)
        result = self._found.get(key)
        if result is None:
            result = self._certify(*key)
            if len(self._found) >= _KEPT:
                self._found.clear()
            self._found[key] = result
        name = f"{self._environment} {instance.split}/{instance.seed} under {plan.condition}, anchor {plan.anchor}"
        if (result.instance, result.plan) != (instance.digest, plan_digest(plan)):
            raise CertificateError(f"{name}: another instance was certified than this environment makes")
        if result.refused:
            raise CertificateError(f"{name}: refused: {'; '.join(result.refused[:3])}")
        return result.digest

    def _certify(self, split: str, seed: int, condition: str, anchor: str) -> InstanceResult:
        env = self._envs.get(split)
        if env is None:
            env = self._envs[split] = make_env(self._environment, split)
        if self._twin is None or self._twin[0] != (split, seed, anchor):
            self._twin = (split, seed, anchor), twin(env, seed, anchor)
        return certify_instance(env, seed, condition, anchor, shared=self._twin[1], deep=not self._found)
