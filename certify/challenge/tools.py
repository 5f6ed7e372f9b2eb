"""What is under test: the verifier alone, each auditor, the whole pipeline; for comparison a checker of raw logs."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from envos.certify.challenge import baseline
from envos.certify.challenge.archives import Files, manifested, put
from envos.certify.twokey import Keys, compare
from envos.envs.evidence import Evidence, canonical
from envos.errors import EvidenceError
from envos.rewards.verdict import verify
from envos.wrappers.archive import VERDICT, read_archive

REJECTED, FAILURE, SUCCESS = baseline.REJECTED, baseline.FAILURE, baseline.SUCCESS
TOOLS = ("verifier", "validity", "outcome", "pipeline", "baseline")


class Answers(NamedTuple):
    """What each tool makes of an archive: rejected, failure or success; the validity auditor knows no outcome."""

    verifier: str
    validity: str
    outcome: str
    pipeline: str
    baseline: str
    reason: str


def judged(folder: Path, files: Files, *, regrade: bool) -> Answers:
    """What the tools make of these files, put into a folder.

    With `regrade` the archived verdict is made anew by the grader first, and sealed: who forges an archive would do so.
    Raises RuntimeError where a tool breaks: that is no rejection, and must not pass for one in a table.
    """
    put(folder, files)
    if regrade and VERDICT in files:
        files = manifested({**files, VERDICT: f"{canonical(derived(folder))}\n".encode("ascii")})
        put(folder, files)
    keys = compare(folder)
    if keys.failures:
        raise RuntimeError("; ".join(map(str, keys.failures)))
    verdict = keys.verdict
    mine = _of(bool(verdict["counted"]) and not keys.problems, verdict["endpoint"])
    theirs = {"true": SUCCESS, "false": FAILURE}.get(str(keys.outcome["endpoint"]), REJECTED)
    return Answers(
        mine,
        SUCCESS if keys.validity.get("counted") else REJECTED,
        theirs,
        mine if keys.scorable else REJECTED,
        baseline.check(files),
        reason(keys),
    )


def derived(folder: Path) -> Mapping[str, Any]:
    """The verdict as the verifier derives it again from an archive."""
    try:
        evidence = read_archive(folder)
    except EvidenceError as error:
        evidence = Evidence((), {}, {}, (str(error),))
    return verify(evidence).info()


def reason(keys: Keys) -> str:
    """Why an archive is not taken: the first term on which keys differ, or the class; "" where all agree it counts."""
    if keys.differences:
        return str(keys.differences[0])
    if not keys.verdict["counted"]:
        return f"{keys.verdict['validity']}: {[item['code'] for item in keys.verdict['reasons']][:3]}"
    return ""


def _of(counted: bool, endpoint: Any) -> str:
    return REJECTED if not counted else SUCCESS if endpoint else FAILURE
