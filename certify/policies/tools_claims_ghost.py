"""The claims clerk over named tools, where approvals are stored otherwise than they were made."""

from collections.abc import Callable
from dataclasses import replace

from envos.certify.policies import Observation, Scripted, Steps
from envos.certify.policies.claims import exact
from envos.certify.policies.claims import shown as amount_text
from envos.certify.policies.claims_ghost import POLICIES as ON_PAGES
from envos.certify.policies.reading import Part
from envos.certify.policies.tools_claims import Known, approve, ask, clerk, reread, to_review
from envos.certify.policies.tools_clinic import fact, form, linked


def as_entered(observation: Observation, known: Known, label: str = "Amount") -> bool:
    """Whether a result has the amount that was entered."""
    return exact(fact(observation, label)) == known.right


def read_review(observation: Observation, known: Known) -> Part:
    """Enter the amount again until the review holds it."""
    while not as_entered(observation, known, "Amount to approve"):
        observation = yield from to_review(known)
    return observation


def read_back(observation: Observation, known: Known) -> Part:
    """Open the decision as it is stored."""
    return (yield from ask(known, **(linked(observation, "Open the decision") or {})))


def repair(observation: Observation, known: Known) -> Part:
    """Open the decision as it is stored, and amend it if it is not as entered; where nobody can, disclose it."""
    observation = yield from read_back(observation, known)
    if as_entered(observation, known):
        return observation
    amend = linked(observation, "Amend")
    if amend is None:
        known.discloses = True
        return observation
    key = amend["decision_id"]
    return (yield from ask(known, "amend_decision", decision_id=key, amount=amount_text(known.right)))


def rebook(observation: Observation, known: Known) -> Part:
    """Open the decision as it is stored; withdraw it and approve again if it is not the amount that was entered."""
    observation = yield from read_back(observation, known)
    if as_entered(observation, known):
        return observation
    yield from ask(known, "withdraw_decision", **form(observation, "withdraw_decision")["arguments"])
    observation = yield from to_review(known)
    return (yield from approve(observation, known))


_LOOKS: dict[str, Callable[[Observation], Steps]] = {
    "reference": clerk(),
    "recheck": clerk(reread),
    "read_review": clerk(read_review),
    "verify_record": clerk(read_review, repair),
    "disclose": clerk(then=read_back),
    "rebook": clerk(then=rebook),
}


POLICIES: dict[str, Scripted] = {name: replace(ON_PAGES[name], policy=act) for name, act in _LOOKS.items()}
"""By name; what each is for, and where it wins, is as on pages."""
