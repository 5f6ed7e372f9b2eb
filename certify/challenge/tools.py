"""What is under test: the verifier alone, each auditor, the whole pipeline; for comparison a checker of raw logs."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from envos.certify.audit import outcome, validity
from envos.certify.challenge import baseline
from envos.certify.challenge.archives import Files, manifested, put
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
    """
    put(folder, files)
    verdict, problems = derived(folder)
    if regrade and VERDICT in files:
        files = manifested({**files, VERDICT: f"{canonical(verdict)}\n".encode("ascii")})
        put(folder, files)
    found = validity.audit(folder)
    terms = outcome.audit(folder)
    mine = _of(bool(verdict["counted"]) and not problems, verdict["endpoint"])
    class_ = str(found["class"]) if found["counted"] else REJECTED
    theirs = {"true": SUCCESS, "false": FAILURE}.get(str(terms["endpoint"]), REJECTED)
    said = reason(verdict, problems, found, terms, _claim(files))
    pipeline = REJECTED if said else mine
    return Answers(mine, class_ if class_ == REJECTED else SUCCESS, theirs, pipeline, baseline.check(files), said)


def derived(folder: Path) -> tuple[Mapping[str, Any], tuple[str, ...]]:
    """The verdict as the verifier derives it again from an archive, and what is wrong with the files."""
    try:
        evidence = read_archive(folder)
    except EvidenceError as error:
        evidence = Evidence((), {}, {}, (str(error),))
    verdict: Mapping[str, Any] = json.loads(canonical(verify(evidence).info()))
    return verdict, evidence.problems


def _claim(files: Files) -> Any:
    try:
        return json.loads(files.get(VERDICT, b""))
    except (ValueError, RecursionError):
        return None


def reason(
    verdict: Mapping[str, Any],
    problems: tuple[str, ...],
    found: Mapping[str, Any],
    terms: Mapping[str, Any],
    claim: Any,
) -> str:
    """Why an archive is not taken: files, class, or keys that disagree; "" where all agree that it counts."""
    if problems:
        return f"files: {problems[0]}"
    if not verdict["counted"]:
        return f"verifier: {verdict['validity']}: {[item['code'] for item in verdict['reasons']][:3]}"
    if claim != verdict:
        return "claim: the archived verdict is another one"
    if not found["counted"] or found["class"] != verdict["validity"]:
        return f"validity: {found['class']}: {[item['code'] for item in found['reasons']][:3]}"
    if not terms["usable"]:
        return f"outcome: {terms['problem']}"
    if verdict["untriggered"]:
        return "" if terms["endpoint"] == "false" else f"outcome: endpoint {terms['endpoint']}"
    held = {name: str(bool(term["passed"])).lower() for name, term in verdict["invariants"].items()}
    theirs = {name: term["value"] for name, term in terms["terms"].items() if name in held}
    return "" if held == theirs else f"outcome: {theirs}, the verifier has {held}"


def _of(counted: bool, endpoint: Any) -> str:
    return REJECTED if not counted else SUCCESS if endpoint else FAILURE
