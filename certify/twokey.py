"""Two keys: an episode has a score only where four accounts of it agree on every term.

The verdict that was given live, the verdict that the verifier derives again from the archive, and the findings of the
two auditors, which share no code with it (`certify/audit`). Any difference, and any term that an auditor leaves open,
makes the episode unscorable, and says which term it is.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, TypeVar

import gymnasium

from envos.certify.audit import outcome, validity
from envos.certify.packed import opened
from envos.envs.env import EnvOS, Told
from envos.envs.evidence import Evidence, canonical, state_json
from envos.envs.streams import Stream
from envos.errors import EvidenceError, UsageError
from envos.rewards.verdict import GRADER, verify
from envos.wrappers.archive import (
    MANIFEST,
    POST,
    PRE,
    VERDICT,
    LedgerFile,
    manifest,
    read_archive,
    read_json,
    write_json,
)

_LONG = 160
T = TypeVar("T")
_Derived = tuple[Mapping[str, Any], tuple[str, ...], Any]
_Found = tuple[Mapping[str, Any], str]


class Difference(NamedTuple):
    """A term on which the keys differ: what the verifier says of it, and what the other account does.

    Of a key that broke the term is the key, and `verifier` is "".
    """

    term: str
    verifier: str
    other: str

    def __str__(self) -> str:
        return (
            f"{self.term}: the verifier says {self.verifier}, {self.other}" if self.verifier else ": ".join(self[::2])
        )


@dataclass(frozen=True, slots=True)
class Keys:
    """What each key makes of an archive, and where they differ.

    `verdict` is derived again, `claim` the archived one (None where there is none), `problems` are those of the files;
    `validity` and `outcome` are the auditors' findings as JSON data ({} for an archive that an auditor cannot use).
    `failures` are among the differences: keys that broke, which no archive should be able to do.
    """

    verdict: Mapping[str, Any]
    claim: Any
    problems: tuple[str, ...]
    validity: Mapping[str, Any]
    outcome: Mapping[str, Any]
    differences: tuple[Difference, ...]
    failures: tuple[Difference, ...] = ()

    @property
    def agree(self) -> bool:
        """Whether all keys say the same, of whatever it is."""
        return not self.differences

    @property
    def scorable(self) -> bool:
        """Whether all keys say the same, and that the episode counts."""
        return self.agree and bool(self.verdict["counted"])

    def terms(self) -> dict[str, bool]:
        """Whether the keys agree, by term: archive, verdict, validity, each invariant and the endpoint."""
        names = ("archive", "verdict", "validity", *self.verdict["invariants"], "endpoint")
        differ = {difference.term for difference in self.differences}
        return {name: name not in differ for name in (*names, *sorted(differ.difference(names)))}


def compare(path: str | Path) -> Keys:
    """Turn both keys on one archive, a folder or a zip of it. Never raises: a key that breaks is a difference."""
    path = Path(path)
    failures: list[Difference] = []

    def ask(key: str, question: Callable[[], T], otherwise: T) -> T:
        try:
            return question()
        except Exception as error:  # noqa: BLE001 - whatever it is, this key has decided nothing
            failures.append(_failure(key, error))
            return otherwise

    none: _Derived = (_NOTHING, (), None)
    unfound: _Found = ({}, "")
    derived, problems, claim = ask("verifier", lambda: _derived(path), none)
    found, refused = ask("validity auditor", lambda: _found(path), unfound)
    terms = ask("outcome auditor", lambda: outcome.audit(path), _NO_TERMS)
    if failures:
        broken = tuple(failures)
        return Keys(derived, claim, problems, found, terms, broken, broken)
    return Keys(
        derived, claim, problems, found, terms, tuple(_differences(derived, problems, claim, found, refused, terms))
    )


_NOTHING: Mapping[str, Any] = {
    **{"validity": "harness_error", "counted": False, "untriggered": False, "reasons": [], "invariants": {}},
    **{"endpoint": None, "fraction": None, "signatures": [], "measures": {}, "reward": 0.0, "grader": GRADER},
}
"""The verdict of a verifier that broke."""
_NO_TERMS: Mapping[str, Any] = {"usable": False, "problem": "it broke", "endpoint": "unresolved", "terms": {}}


def _failure(key: str, error: Exception) -> Difference:
    return Difference(key, "", f"it failed: {type(error).__name__}: {error}"[:_LONG])


def _derived(path: Path) -> _Derived:
    """The verdict derived again, what is wrong with the files, and the archived verdict (None: none can be read)."""
    try:
        with opened(path) as folder:
            evidence = read_archive(folder)
            claim = _claim(folder)
    except EvidenceError as error:
        evidence, claim = Evidence((), {}, {}, (str(error),)), None
    return json.loads(canonical(verify(evidence).info())), evidence.problems, claim


def _claim(folder: Path) -> Any:
    try:
        claim = read_json(folder / VERDICT)
        _text(claim)  # what is nested too deeply to be written is not ours
        return claim
    except (EvidenceError, RecursionError):
        return None


def _found(path: Path) -> _Found:
    """What the validity auditor finds, or {} and why it cannot use the archive."""
    try:
        return validity.audit(path), ""
    except validity.Unusable as error:
        return {}, str(error)


def _differences(
    verdict: Mapping[str, Any],
    problems: tuple[str, ...],
    claim: Any,
    found: Mapping[str, Any],
    refused: str,
    terms: Mapping[str, Any],
) -> list[Difference]:
    said = str(verdict["validity"])
    if not found:
        return [Difference("archive", said, f"the validity auditor cannot use it: {refused}"[:_LONG])]
    differ = []
    if problems and found["counted"]:
        differ.append(
            Difference("archive", f"of its files: {problems[0]}"[:_LONG], "the validity auditor finds nothing")
        )
    if _text(claim) != _text(verdict):
        where = _first(claim, verdict)
        differ.append(Difference("verdict", where[1], f"the archived one {where[0]}"))
    if (found["class"], found["counted"]) != (said, verdict["counted"]):
        why = "".join(f" ({reason['code']})" for reason in found["reasons"][:1])
        differ.append(Difference("validity", said, f"the auditor {found['class']}{why}"))
    if not verdict["counted"]:
        # What did not count has no outcome to agree on.
        return differ
    if not terms["usable"]:
        return [*differ, Difference("archive", said, f"the outcome auditor cannot use it: {terms['problem']}"[:_LONG])]
    for name, term in verdict["invariants"].items():
        theirs = terms["terms"].get(name, {"value": "nothing", "reason": "it has no such term"})
        if theirs["value"] != _word(term["passed"]):
            said = f"the auditor {theirs['value']} ({theirs['reason']})"
            differ.append(Difference(name, _word(term["passed"]), said[:_LONG]))
    # An episode whose change never fired has no invariants: it has failed, whatever they are.
    for name in () if verdict["untriggered"] else sorted(set(terms["terms"]) - set(verdict["invariants"])):
        differ.append(Difference(name, "nothing", f"the auditor {terms['terms'][name]['value']}"))
    if terms["endpoint"] != _word(verdict["endpoint"]):
        differ.append(Difference("endpoint", _word(verdict["endpoint"]), f"the auditor {terms['endpoint']}"))
    return differ


def _word(value: Any) -> str:
    return str(bool(value)).lower()


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _first(claim: Any, verdict: Mapping[str, Any]) -> tuple[str, str]:
    """The first field in which an archived verdict is another one: what it says there, and what is derived."""
    if not isinstance(claim, dict):
        return "is none", "that there is one"
    name = next(name for name in sorted({*claim, *verdict}) if _text(claim.get(name)) != _text(verdict.get(name)))
    return f"{name} {_text(claim.get(name))}"[:_LONG], f"{name} {_text(verdict.get(name))}"[:_LONG]


def write_archive(folder: Path, env: EnvOS, verdict: Mapping[str, Any]) -> None:
    """The archive of the episode that an environment has just ended, as the wrapper `Archive` would have written it."""
    write_json(folder / PRE, state_json(env.state_before()))
    ledger = LedgerFile(folder, env.screenshot)
    ledger.rewrite(env.ledger.records())
    ledger.close()
    write_json(folder / POST, state_json(env.state_now()))
    write_json(folder / VERDICT, dict(verdict))
    write_json(folder / MANIFEST, manifest(folder, ledger.head))


class TwoKeyReward(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Pays only what both keys agree on: an episode on which they differ does not count.

    At the end of an episode its archive is made and audited. Where the keys differ the verdict becomes a
    `harness_error`, not counted, with a reason for each term, and the reward is 0.0, as of every episode that does not
    count. `fraction` of the episodes are audited, drawn from split and seed. Raises UsageError for an environment that
    is no EnvOS, or a fraction outside 0 to 1.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], fraction: float = 1.0) -> None:
        super().__init__(env)
        inner = env.unwrapped
        if not isinstance(inner, EnvOS):
            raise UsageError(f"TwoKeyReward takes an EnvOS environment; got {type(inner).__name__}")
        if not 0 <= fraction <= 1:
            raise UsageError(f"a fraction is from 0 to 1; got {fraction!r}")
        self._inner = inner
        self.fraction = fraction
        self.keys: Keys | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode, of which `keys` is None until it has been audited."""
        self.keys = None
        return self.env.reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Carry out one action; the last one is audited."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        if "verdict" not in info or not self._drawn():
            return observation, reward, terminated, truncated, info
        self.keys = self._turned(info["verdict"])
        if self.keys.agree:
            return observation, reward, terminated, truncated, info
        return (
            observation,
            0.0,
            terminated,
            truncated,
            {**info, "verdict": Told(unscorable(info["verdict"], self.keys))},
        )

    def _turned(self, verdict: Mapping[str, Any]) -> Keys:
        try:
            with TemporaryDirectory(prefix="envos-keys-") as folder:
                write_archive(Path(folder), self._inner, verdict)
                return compare(folder)
        except (OSError, EvidenceError) as error:
            # A full disk, say: what cannot be audited has no score, and training goes on.
            broken = (_failure("archive", error),)
            return Keys(verdict, None, (), {}, _NO_TERMS, broken, broken)

    def _drawn(self) -> bool:
        instance = self._inner.instance
        return self.fraction == 1 or Stream(instance.seed, instance.split, "two keys").random() < self.fraction


def unscorable(verdict: Mapping[str, Any], keys: Keys) -> dict[str, Any]:
    """The verdict of an episode on which the keys differ: it does not count, and says on which terms they do."""
    differ = [{"code": "keys_differ", "record": -1, "detail": str(difference)} for difference in keys.differences]
    return {
        **verdict,
        "validity": "harness_error",
        "counted": False,
        "reasons": [*verdict["reasons"], *differ],
        "endpoint": None,
        "fraction": None,
        "reward": 0.0,
    }
