"""The certificate as data: entries by instance, condition and anchor, and what they admit.

One JSON file. Its digest shows that it was changed; it is no signature.
"""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

from envos.certify.checks import SEVERITY_VERSION, WARNINGS
from envos.certify.result import InstanceResult, plan_digest
from envos.envs.evidence import canonical, sha256
from envos.envs.instance import Instance
from envos.envs.perturbation import Plan
from envos.envs.scenario import scenario
from envos.errors import CertificateError

FORMAT = "1"
CERTIFIER = "1"
"""Version of the checks; a certificate of another one is refused."""
NOTE = (
    "The deep checks run on the first of so many seeds, under each condition and anchor. Shortcuts that never ask for "
    "the form once they have seen the fact are played in the control arm, and elsewhere in the sample only."
)
"""What a certificate says of its sampling."""
ABOUT = ("family", "about", "deep")
"""What a certificate keeps of a check's definition."""
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Entry:
    """One instance under one condition and anchor, as a certificate keeps it.

    `scores`, `steps` and `signatures` are the observed matrix, by the certificate's order of policies; a score is None
    where the episode is not counted. `failed` are the failed checks in full, `evidence` all checks where it is deep.
    """

    seed: int
    condition: str
    anchor: str
    instance: str
    plan: str
    deep: bool
    refused: tuple[str, ...]
    checks: int
    scores: tuple[float | None, ...]
    steps: tuple[int, ...]
    signatures: tuple[tuple[str, ...], ...]
    failed: tuple[Mapping[str, Any], ...]
    evidence: tuple[Mapping[str, Any], ...]

    @classmethod
    def of(cls, result: InstanceResult) -> "Entry":
        """The entry of a result."""
        return cls(
            result.seed,
            result.condition,
            result.anchor,
            result.instance,
            result.plan,
            result.deep,
            result.refused,
            len(result.checks),
            tuple(cell.fraction for cell in result.cells),
            tuple(cell.steps for cell in result.cells),
            tuple(cell.signatures for cell in result.cells),
            tuple(check.to_json() for check in result.failed()),
            tuple(check.to_json() for check in result.checks) if result.deep else (),
        )


@dataclass(frozen=True)
class Certificate:
    """The admission evidence of an environment's instances of a split.

    `code` is the identity of the code that was certified, `scenario` the digest of the environment's line. `declared`
    is what each policy must reach under each condition, `tally` maps a check to how often it ran and failed, and
    `about` says what each check is.
    """

    environment: str
    split: str
    seeds: tuple[int, ...]
    conditions: tuple[str, ...]
    anchors: tuple[str, ...]
    code: Mapping[str, str]
    scenario: str
    sample_every: int
    policies: tuple[str, ...]
    declared: Mapping[str, Mapping[str, Mapping[str, Any]]]
    about: Mapping[str, Mapping[str, Any]]
    tally: Mapping[str, tuple[int, int]]
    entries: tuple[Entry, ...]
    certifier: str = CERTIFIER

    @property
    def admitted(self) -> int:
        """How many entries are admitted."""
        return sum(not entry.refused for entry in self.entries)

    @cached_property
    def digest(self) -> str:
        """The digest of everything in it."""
        return sha256(canonical(self._body()))

    @cached_property
    def _places(self) -> Mapping[tuple[int, str, str], Entry]:
        return {(entry.seed, entry.condition, entry.anchor): entry for entry in self.entries}

    def matrix(self) -> list[dict[str, Any]]:
        """For each anchor, condition and policy: what was expected and, over all instances, what was observed."""
        rows = []
        for anchor in self.anchors:
            for condition in self.conditions:
                some = [item for item in self.entries if (item.anchor, item.condition) == (anchor, condition)]
                for at, name in enumerate(self.policies):
                    scores = [entry.scores[at] for entry in some]
                    counted = [score for score in scores if score is not None]
                    rows.append(
                        {
                            "anchor": anchor,
                            "condition": condition,
                            "policy": name,
                            "expected": dict(self.declared[condition][name]),
                            "episodes": len(scores),
                            "counted": len(counted),
                            "won": sum(score == 1.0 for score in counted),
                            "fraction": round(sum(counted) / len(counted), 6) if counted else None,
                            "most": max(counted, default=None),
                            "steps": round(sum(entry.steps[at] for entry in some) / max(1, len(some)), 3),
                            "signatures": dict(sorted(Counter(s for e in some for s in e.signatures[at]).items())),
                        }
                    )
        return rows

    def _body(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "certifier": self.certifier,
            "severity": {"version": SEVERITY_VERSION, "warnings": sorted(WARNINGS)},
            "environment": self.environment,
            "split": self.split,
            "seeds": list(self.seeds),
            "conditions": list(self.conditions),
            "anchors": list(self.anchors),
            "code": dict(self.code),
            "scenario": self.scenario,
            "sampling": {
                "every": self.sample_every,
                "deep": sorted(name for name, item in self.about.items() if item["deep"]),
                "note": NOTE,
                "all": sorted(name for name, item in self.about.items() if not item["deep"]),
            },
            "policies": list(self.policies),
            "declared": {condition: dict(rows) for condition, rows in self.declared.items()},
            "checks": {
                name: {**item, **dict(zip(("ran", "failed"), self.tally.get(name, (0, 0)), strict=True))}
                for name, item in self.about.items()
            },
            "matrix": self.matrix(),
            "admitted": self.admitted,
            "entries": [asdict(entry) for entry in self.entries],
        }

    def to_json(self) -> dict[str, Any]:
        """The certificate as JSON data, with its digest."""
        data: dict[str, Any] = json.loads(canonical(self._body()))
        return {**data, "digest": self.digest}

    def save(self, path: str | Path) -> None:
        """Write it to a file."""
        Path(path).write_text(canonical(self.to_json()) + "\n", encoding="ascii")

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Certificate":
        """The certificate that `to_json` wrote. Raises CertificateError for any other, changed or outdated one."""
        try:
            return _read(data)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise CertificateError(f"not a certificate: {type(error).__name__}: {error}") from error

    @classmethod
    def load(cls, path: str | Path) -> "Certificate":
        """Read a file. Raises CertificateError when it is missing, unreadable, changed or outdated."""
        try:
            data = json.loads(Path(path).read_text(encoding="ascii"))
        except (OSError, ValueError) as error:
            raise CertificateError(
                f"{path} is no certificate that can be read ({type(error).__name__}); "
                f"`{command('ID', 'train', 0)}` makes one"
            ) from error
        return cls.from_json(data)

    def admits(self, instance: Instance, plan: Plan) -> None:
        """Raise CertificateError unless this very instance is admitted under this very plan."""
        line, seed = instance.scenario.id, instance.seed
        name = f"{line} {instance.split}/{seed} under {plan.condition}, anchor {plan.anchor}"
        remedy = f"`{command(line, instance.split, seed)}` makes a certificate that holds it"
        if (self.environment, self.split) != (line, instance.split):
            raise CertificateError(f"{name}: the certificate is of {self.environment} {self.split}; {remedy}")
        key = seed, plan.condition, plan.anchor
        entry = self._places.get(key)
        if entry is None:
            raise CertificateError(f"{name}: not in the certificate; {remedy}")
        if entry.instance != instance.digest or entry.plan != plan_digest(plan):
            what = "instance" if entry.instance != instance.digest else "plan"
            raise CertificateError(f"{name}: another {what} was certified than the code now makes; {remedy}")
        if entry.refused:
            raise CertificateError(f"{name}: refused: {'; '.join(entry.refused[:_SHOWN])}")

    def admits_code(self, code: Mapping[str, str]) -> None:
        """Raise CertificateError unless it was made by this code and for this line of the environment."""
        line = scenario(self.environment)
        remedy = f"`{command(line.id, self.split, self.seeds[0] if self.seeds else 0)}` certifies anew"
        if self.certifier != CERTIFIER:
            raise CertificateError(
                f"the certificate is of certifier {self.certifier}, this one is {CERTIFIER}; {remedy}"
            )
        if self.scenario != scenario_digest(self.environment):
            raise CertificateError(f"the certificate is of another {line.id} than is registered now; {remedy}")
        for name, value in code.items():
            if self.code.get(name) != value:
                raise CertificateError(
                    f"the certificate of {line.id} is of other code ({name} {self.code.get(name, '')[:12]}, "
                    f"running {value[:12]}); {remedy}"
                )


def scenario_digest(environment: str) -> str:
    """The digest of an environment's line."""
    return sha256(canonical(asdict(scenario(environment))))


def command(environment: str, split: str, seed: int) -> str:
    """The command that makes a certificate which holds a seed."""
    return f"envos certify {environment} --split {split} --seeds {seed}:{seed + 1} --out certificate.json"


def _read(data: Mapping[str, Any]) -> Certificate:
    """A certificate from JSON data; every part that is derived from the entries must be what they give."""
    if data["format"] != FORMAT or data["certifier"] != CERTIFIER:
        raise CertificateError(
            f"a certificate of format {data['format']}, certifier {data['certifier']}; this is {FORMAT}, {CERTIFIER}"
        )
    made = Certificate(
        environment=str(data["environment"]),
        split=str(data["split"]),
        seeds=tuple(data["seeds"]),
        conditions=tuple(data["conditions"]),
        anchors=tuple(data["anchors"]),
        code=dict(data["code"]),
        scenario=str(data["scenario"]),
        sample_every=int(data["sampling"]["every"]),
        policies=tuple(data["policies"]),
        declared=dict(data["declared"]),
        about={name: {key: item[key] for key in ABOUT} for name, item in data["checks"].items()},
        tally={name: (item["ran"], item["failed"]) for name, item in data["checks"].items()},
        entries=tuple(_entry(item) for item in data["entries"]),
    )
    if canonical(made.to_json()) != canonical(data):
        raise CertificateError(
            f"the certificate of {made.environment} was changed after it was made: its content has the digest "
            f"{made.digest[:12]}, it says {str(data['digest'])[:12]}"
        )
    return made


def _entry(data: Mapping[str, Any]) -> Entry:
    known = {item.name: data[item.name] for item in fields(Entry)}
    if set(data) != set(known):
        raise CertificateError(f"an entry has other fields than {', '.join(known)}")
    known["signatures"] = tuple(tuple(names) for names in data["signatures"])
    for name in ("refused", "scores", "steps", "failed", "evidence"):
        known[name] = tuple(data[name])
    return Entry(**known)
