"""Two keys: an episode has a score only where four accounts of it agree on every term.

The verdict that was given live, the verdict that the verifier derives again from the archive, and the findings of the
two auditors, which share no code with it (`certify/audit`). Any difference, and any term that an auditor leaves open,
makes the episode unscorable, and says which term it is.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import gymnasium

from envos.certify.audit import outcome, validity
from envos.envs.env import EnvOS, Told
from envos.envs.evidence import Evidence, canonical, state_json
from envos.envs.streams import Stream
from envos.errors import EvidenceError, UsageError
from envos.rewards.verdict import verify
from envos.wrappers.archive import MANIFEST, POST, PRE, VERDICT, LedgerFile, manifest, read_archive, write_json

_LONG = 160


class Difference(NamedTuple):
    """A term on which the keys differ: what the verifier says of it, and what the other account does."""

    term: str
    verifier: str
    other: str

    def __str__(self) -> str:
        return f"{self.term}: the verifier says {self.verifier}, {self.other}"


@dataclass(frozen=True, slots=True)
class Keys:
    """What each key makes of an archive, and where they differ.

    `verdict` is derived again, `claim` the archived one (None where there is none), `problems` are those of the files;
    `validity` and `outcome` are the auditors' findings as JSON data ({} for an archive that an auditor cannot use).
    """

    verdict: Mapping[str, Any]
    claim: Any
    problems: tuple[str, ...]
    validity: Mapping[str, Any]
    outcome: Mapping[str, Any]
    differences: tuple[Difference, ...]

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


def compare(folder: str | Path) -> Keys:
    """Turn both keys on one archive. Never raises for what an archive may hold."""
    folder = Path(folder)
    evidence = _read(folder)
    verdict: Mapping[str, Any] = json.loads(canonical(verify(evidence).info()))
    claim = _claim(folder)
    try:
        found: Mapping[str, Any] = validity.audit(folder)
        refused = ""
    except validity.Unusable as error:
        found, refused = {}, str(error)
    terms = outcome.audit(folder)
    differences = tuple(_differences(verdict, evidence.problems, claim, found, refused, terms))
    return Keys(verdict, claim, evidence.problems, found, terms, differences)


def _read(folder: Path) -> Evidence:
    try:
        return read_archive(folder)
    except EvidenceError as error:
        return Evidence((), {}, {}, (str(error),))


def _claim(folder: Path) -> Any:
    """The archived verdict; what is no readable one has been named among the files' problems."""
    try:
        return json.loads((folder / VERDICT).read_bytes())
    except (OSError, ValueError, RecursionError):
        return None


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

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Carry out one action; the last one is audited."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        if "verdict" not in info or not self._drawn():
            return observation, reward, terminated, truncated, info
        with TemporaryDirectory(prefix="envos-keys-") as folder:
            write_archive(Path(folder), self._inner, info["verdict"])
            self.keys = compare(folder)
        if self.keys.agree:
            return observation, reward, terminated, truncated, info
        return (
            observation,
            0.0,
            terminated,
            truncated,
            {**info, "verdict": Told(unscorable(info["verdict"], self.keys))},
        )

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
