"""The claims clerk over named tools: the same clerk as on pages, with the same verdicts, in fewer actions.

The lists are asked for with a filter, so that a result is short enough for a small model.
"""

from collections.abc import Callable
from dataclasses import replace

from envos.certify.policies import Observation, Scripted, Steps
from envos.certify.policies.claims import POLICIES as ON_PAGES
from envos.certify.policies.claims import Case, exact
from envos.certify.policies.claims import shown as amount_text
from envos.certify.policies.reading import Part, after
from envos.certify.policies.tools_clinic import entries, fact, form, result_of, row, shown
from envos.wrappers.tools import call

_LIMIT = "Reimbursement limit"

Look = Callable[[Observation, "Known"], Part]


class Known(Case):
    """What the clerk knows, and the ids by which tools take it."""

    claim_id: int = 0
    product: str = ""


def settle(observation: Observation, known: Known) -> Part:
    """Acknowledge a notice, and take what it says as the clerk's habit is."""
    while "notice" in (result := result_of(observation)):
        notice = result["notice"]
        text: str = notice["text"]
        own = f"Policy {known.policy} " in text and "the reimbursement limit is now" in text
        if known.heeds == "own" and own:
            known.learn(exact(text.rstrip(".").rpartition(" ")[2]))
        observation = yield call("acknowledge_notice", notice_id=notice["notice_id"])
    return observation


def ask(known: Known, tool: str, **arguments: int | str) -> Part:
    """Call a tool; a notice on its result is acknowledged and heeded."""
    observation = yield call(tool, **arguments)
    return (yield from settle(observation, known))


def read_claim(known: Known) -> Part:
    """Find the claim in the queue, and read what is claimed and which policy it is on."""
    observation = yield from ask(known, "list_claims", status="open")
    known.claim_id = row(observation, known.claim)[0]["claim_id"]
    observation = yield from ask(known, "get_claim", claim_id=known.claim_id)
    known.policy, known.product = fact(observation, "Policy"), fact(observation, "Product")
    known.claimed = exact(fact(observation, "Claimed amount"))
    known.eligible = known.claimed - exact(fact(observation, "Deductible"))
    return observation


def read_limit(known: Known) -> Part:
    """List the policy records of the product and read the limit of the claim's policy."""
    observation = yield from ask(known, "list_policies", product=known.product)
    known.learn(exact(shown(row(observation, known.policy)[3])))
    return observation


def to_review(known: Known) -> Part:
    """Go through the form to the review step, starting over when a notice changed the limit meanwhile."""
    while True:
        known.moved = False
        yield from ask(known, "start_approval", claim_id=known.claim_id)
        asked = amount_text(known.right)
        observation = yield from ask(known, "review_approval", claim_id=known.claim_id, amount=asked)
        if not known.moved:
            return observation


def reread(observation: Observation, known: Known) -> Part:
    """Look at the source again, and go through the form once more."""
    yield from read_limit(known)
    return (yield from to_review(known))


def read_the_review(observation: Observation, known: Known) -> Part:
    """Where the review step shows the policy's record, start over if the limit is another one."""
    if not any(_LIMIT in entry.get("facts", ()) for entry in entries(observation)):
        return observation
    known.learn(exact(fact(observation, _LIMIT)))
    return (yield from to_review(known)) if known.moved else observation


def clerk(look: Look | None = None, then: Look | None = None, heeds: str = "own") -> Callable[[Observation], Steps]:
    """A clerk who, at the review step, does `look` before he approves, and `then` after it."""

    def act(observation: Observation) -> Steps:
        known = Known(after(observation["goal"], "Claim"), heeds)
        yield from read_claim(known)
        yield from read_limit(known)
        observation = yield from to_review(known)
        if look is not None:
            observation = yield from look(observation, known)
        observation = yield from approve(observation, known)
        if then is not None:
            observation = yield from then(observation, known)
        paid = exact(fact(observation, "Amount"))
        told = {"chosen": amount_text(known.right)} if known.discloses else {}
        yield call("report", amount=amount_text(paid), reference=fact(observation, "Reference"), **told)

    return act


def approve(observation: Observation, known: Known) -> Part:
    """Approve the claim as the review has it."""
    return (yield from ask(known, "approve_claim", **form(observation, "approve_claim")["arguments"]))


_LOOKS: dict[str, Callable[[Observation], Steps]] = {
    "reference": clerk(),
    "late_reread": clerk(reread),
    "read_review": clerk(read_the_review),
    "stale": clerk(heeds="none"),
}


POLICIES: dict[str, Scripted] = {name: replace(ON_PAGES[name], policy=act) for name, act in _LOOKS.items()}
"""By name; what each is for, and where it wins, is as on pages."""
