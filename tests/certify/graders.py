"""Graders that are wrong on purpose, each made from the real one."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from envos.envs.evidence import Evidence, Verifier
from envos.rewards.verdict import Verdict, verify


def graded(change: Callable[[Evidence, Verdict], Verdict]) -> Verifier:
    """The grader with its verdicts changed."""
    return lambda evidence: change(evidence, verify(evidence))


def as_won(evidence: Evidence, verdict: Verdict) -> Verdict:
    """Everything is a success."""
    return replace(verdict, validity="counted", counted=True, endpoint=True, fraction=1.0, reward=1.0)


def wrong_trigger(evidence: Evidence, verdict: Verdict) -> Verdict:
    """Looks at the request before the one that fired."""
    return _receipt(verdict, "firing_request")


def wrong_commit_request(evidence: Evidence, verdict: Verdict) -> Verdict:
    """Looks at the request before the one that committed."""
    return _receipt(verdict, "commit_request")


def _receipt(verdict: Verdict, name: str) -> Verdict:
    receipt = dict(verdict.measures.get("receipt", {}))
    if receipt.get(name) is None:
        return verdict
    receipt[name] -= 1
    return replace(verdict, measures={**verdict.measures, "receipt": receipt})


def _with(verdict: Verdict, terms: Any) -> Verdict:
    """A verdict whose endpoint is decided from these invariants."""
    if not verdict.counted:
        return verdict
    passed = sum(term.passed for term in terms.values())
    won = passed == len(terms)
    return replace(verdict, invariants=terms, endpoint=won, fraction=passed / len(terms), reward=1.0 if won else 0.0)


def without_collateral(evidence: Evidence, verdict: Verdict) -> Verdict:
    """Leaves I3 out."""
    return _with(verdict, {name: term for name, term in verdict.invariants.items() if name != "I3"})


def blind_to_duplicates(evidence: Evidence, verdict: Verdict) -> Verdict:
    """Lets I2 always pass."""
    terms = dict(verdict.invariants)
    if terms:
        terms["I2"] = replace(terms["I2"], passed=True, reason="one")
    return _with(verdict, terms)


def never_reported(evidence: Evidence, verdict: Verdict) -> Verdict:
    """Lets I5 never pass."""
    terms = dict(verdict.invariants)
    if terms:
        terms["I5"] = replace(terms["I5"], passed=False, reason="never")
    return _with(verdict, terms)


def generous(evidence: Evidence, verdict: Verdict) -> Verdict:
    """Pays half for a failure that is counted."""
    return replace(verdict, reward=0.5) if verdict.counted and not verdict.endpoint else verdict


def only_successes(evidence: Evidence, verdict: Verdict) -> Verdict:
    """Voids every failure."""
    return verdict if verdict.endpoint else replace(verdict, validity="harness_error", counted=False, endpoint=None)


def hasty(evidence: Evidence, verdict: Verdict) -> Verdict:
    """Takes the endpoint from whoever went another way than the shortest."""
    return replace(verdict, endpoint=False, reward=0.0) if verdict.measures.get("steps", 0) > 25 else verdict


def pedantic(evidence: Evidence, verdict: Verdict) -> Verdict:
    """Takes the endpoint from a report with white space around it."""
    fields = [text for record in evidence.records for text in getattr(record, "fields", {}).values()]
    untidy = any(text != text.strip() for text in fields)
    return replace(verdict, endpoint=False, reward=0.0) if untidy and verdict.counted else verdict


def trusting(evidence: Evidence) -> Verdict:
    """Does not look at what the reader of an archive found."""
    return verify(replace(evidence, problems=()))


def moody() -> Verifier:
    """Grades differently each time."""
    times: list[int] = []

    def grade(evidence: Evidence) -> Verdict:
        times.append(1)
        verdict = verify(evidence)
        return replace(verdict, measures={**verdict.measures, "times": len(times)})

    return grade
