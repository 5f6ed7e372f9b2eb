"""The checklist: every check of a strict auditor (E01 to E42), where it is made, and what its failure means.

A check has its home in certification (ids of registered rules), in the tests (files that carry its id), or with whoever
runs a study (`operator`). Results come from a certificate; a severity table decides what blocks.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from envos.certify.certificate import Certificate
from envos.certify.checks import WARNINGS, rules

BLOCKS, WARNS, REPORTS = "blocks", "warns", "reports"
PASSED, FAILED, SKIPPED, TESTED, OPERATOR = "passed", "failed", "skipped", "in the tests", "operator"


@dataclass(frozen=True, slots=True)
class Item:
    """One check: its id, what it asks, the certification rules and the test files that are its home, its severity.

    `operator` says what is left to whoever runs a study.
    """

    id: str
    about: str
    rules: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    severity: str = BLOCKS
    operator: str = ""


_HERE = ("certify/test_checklist.py",)
_ANY = ("contract/test_any_agent.py",)

ITEMS = (
    Item("E01", "the oracle reaches the maximum through the public interface only", ("E01", "S4")),
    Item("E02", "doing nothing, random clicks and shortcuts stay at the floor", ("E02",), _ANY),
    Item("E03", "mutants of a success fail, each for its own reason", ("E03",)),
    Item("E04", "other ways to the same end are worth the same", ("E04",)),
    Item("E05", "any unrelated row that changes fails; volatile columns are declared", ("E03", "E08")),
    Item("E06", "a reward is a finite float in range, and the verdict's", ("E06",), ("rewards/test_verdict.py",)),
    Item("E07", "full, zero, malformed and repeated requests", (), (*_ANY, "wrappers/test_tools.py")),
    Item("E08", "equality by type, never by substring", ("E08", "E03"), ("rewards/test_compare.py",)),
    Item("E09", "nothing but a specific report ends a task well: no N/A, no silence", ("E02",), _HERE),
    Item("E10", "the terms of the reward are listed, and give the reward", ("S3",), _HERE),
    Item("E11", "an error decides nothing: no verdict, no pass, no zero", (), ("rewards/test_verdict.py",)),
    Item("E12", "known cheats are played again and earn nothing", ("E02", "E12", "C1"), _ANY),
    Item("E13", "blind replay stays at the floor", ("E13.twin", "E13.seeds")),
    Item("E14", "no language model in the reward path", (), _HERE),
    Item("E15", "the portal holds no gold; the grader reads evidence, not the agent's words", ("E16",), _HERE),
    Item("E16", "no gold in anything delivered", ("E16",), _ANY),
    Item("E17", "no eval, exec or pickle on the agent's text", (), ("test_imports.py", *_ANY)),
    Item("E18", "files, other origins and hidden routes are out of reach", (), _HERE),
    Item("E19", "an episode needs no network", (), _HERE),
    Item("E20", "an episode writes nothing outside its archive", (), _HERE, BLOCKS, "limits on processor and memory"),
    Item("E21", "a reset leaves nothing behind", ("E22",), _ANY),
    Item("E22", "the same seed and actions give the same evidence", ("E22",), ("contract/test_determinism.py",)),
    Item("E23", "the same in every process, locale and time zone", (), ("contract/test_determinism.py",)),
    Item("E24", "grading again, from the archive alone, gives the same", ("E24",), ("audit/test_validity.py",)),
    Item("E25", "archived actions lead to the same evidence", ("E25",), ("contract/test_determinism.py",)),
    Item("E26", "dependencies and versions are pinned", (), _HERE),
    Item("E27", "Gymnasium's own checker and vector environments", (), ("gymnasium/test_conformance.py",)),
    Item("E28", "declared actions work, undeclared ones are errors", (), ("gymnasium/test_conformance.py",)),
    Item("E29", "the step count and the record are as promised", (), ("gymnasium/test_conformance.py",)),
    Item("E30", "there are actions to spare", ("E30", "F1"), (), WARNS),
    Item("E31", "receipt chain: exposed, changed, committed, seen", ("E31",), ("audit/test_validity.py",)),
    Item("E32", "nothing fires for what was not delivered, nor twice", ("E32", "R3"), ()),
    Item("E33", "arms are equal up to the change", ("E33",)),
    Item("E34", "after the change the task can be won, and the old plan fails", ("E34",)),
    Item("E35", "no side channel tells of the change", ("E35",)),
    Item("E36", "every changed byte, record and order is detected", ("C2",), ("audit/test_validity.py",)),
    Item("E37", "missing, added, renamed and cut files are refused", ("C2",), ("contract/test_archive.py",)),
    Item("E38", "as many results as were planned", (), _HERE),
    Item("E39", "intervals and paired tests, also at the edges", (), (), REPORTS, "the evaluation study's statistics"),
    Item(
        "E40", "trivial agents are reported beside the others", (), _HERE, REPORTS, "flaws and their effect on a number"
    ),
    Item("E41", "a reference model can learn it", (), (), REPORTS, "a training run: separation, headroom, variance"),
    Item("E42", "the task says what is checked, and no more is checked", (), _HERE, BLOCKS, "reading a sample"),
)
"""Every check, by id and in order."""


def results(certificate: Certificate) -> list[dict[str, Any]]:
    """Each check as JSON data: its result in a certificate, what was measured, the evidence and the remedy.

    A check that certification did not reach (a deep one, with no deep sample) is `skipped` by name, never passed.
    """
    remedies = {item.id: item.remedy for item in rules()}
    return [_result(item, certificate, remedies) for item in ITEMS]


def _result(item: Item, certificate: Certificate, remedies: Mapping[str, str]) -> dict[str, Any]:
    counts = {name: certificate.tally.get(name, (0, 0)) for name in item.rules}
    failed = [name for name, (_, lost) in counts.items() if lost]
    shown = sorted(failed or item.rules, key=lambda name: name != item.id)
    first = _first(certificate, shown, bool(failed))
    return {
        "id": item.id,
        "about": item.about,
        "result": _said(item, counts, failed),
        "severity": WARNS if failed and WARNINGS.issuperset(failed) else item.severity,
        "measured": {name: {"ran": ran, "failed": lost} for name, (ran, lost) in counts.items()},
        "example": None if first is None else first["measured"],
        "evidence": [*item.rules, *(f"tests/{name}" for name in item.tests)]
        if first is None or not failed
        else first["evidence"],
        "remedy": "; ".join(remedies.get(name, "") for name in failed),
        "operator": item.operator,
    }


def _said(item: Item, counts: Mapping[str, tuple[int, int]], failed: list[str]) -> str:
    if failed:
        return FAILED
    if item.rules:
        return PASSED if all(ran for ran, _ in counts.values()) else SKIPPED
    return TESTED if item.tests else OPERATOR


def _first(certificate: Certificate, names: list[str], lost: bool) -> Mapping[str, Any] | None:
    """The first result of these rules that a certificate keeps: a failed one, or one of the deep sample."""
    for name in names:
        for entry in certificate.entries:
            for check in entry.failed if lost else entry.evidence:
                if check["id"] == name:
                    return check
    return None
