"""What people write in the claims office: the task's brief, the mail that asks for it, and other mail."""

from typing import NamedTuple

from envos.envs.streams import Stream


class Case(NamedTuple):
    """The task as words need it: which claim, and whose."""

    claim: str
    name: str
    number: str


_OPENINGS = (
    "Please settle one claim in the claims portal.",
    "A claim has been checked and can be paid. It still needs its approval.",
    "One claim in the queue is waiting for its approval. Please see to it.",
    "You work at the claims desk of an insurer. Approve the claim that is named below.",
    "The team leader has asked for this approval; the request is in the inbox as well.",
    "Please find the claim that is named below and approve it at the right amount.",
    "Claims desk task: one claim, to be approved today.",
    "This claim has been looked into and is covered. Please approve it in the portal.",
)
_RULES = (
    "The right amount is the claimed amount less the deductible, but never more than the reimbursement limit of the "
    "claim's policy. What counts is the limit that the policy record shows now, whatever the date of loss. "
    "Endorsements have limits of their own; those have no bearing on this claim.\n"
    "Work out the amount to the cent, and approve this claim exactly once, with the approval form. If the approval has "
    "to be corrected, amend it; do not withdraw it and approve again.\n"
    "Then report the amount that is approved and the reference of the decision: "
    'report(amount="...", reference="...").\n'
    "Change nothing else. Records can change while you work; the policy records are the authority for limits."
)
_CLOSINGS = (
    "Thank you.",
    "Thanks for taking care of this.",
    "That is all there is to it.",
    "There is nobody to ask, so please rely on the portal.",
    "Please finish it in one go.",
    "No letter to the claimant is needed.",
    "The documents have been checked, so there is nothing else to decide.",
)
_REQUEST = (
    "Please approve claim {claim} of {name} ({number}): the claimed amount less the deductible, within the limit of "
    "the policy.",
    "Claim {claim} can be paid. The claimant is {name} ({number}). Please look up the limit in the policy record and "
    "approve what the rules allow.",
    "{name} ({number}) is waiting for us: claim {claim}. Take off the deductible, keep within the policy's limit, one "
    "approval only.",
)
_OTHER = (
    ("Printer paper", "The paper for the letter printer has been ordered and should be here by the end of the week."),
    ("Rota for next month", "The rota for next month is on the notice board. Please tell me about wishes by Friday."),
    ("Fire drill", "There will be a fire drill one morning this week. Please leave the building when the bell rings."),
    ("Lost scarf", "A blue scarf has been left in the meeting room. It is kept at the reception."),
    ("Password reminder", "Please remember that shared passwords are not allowed. Ask for an account of your own."),
    ("Coffee money", "The coffee tin is empty again. Whoever drinks coffee, please put something in."),
    (
        "Training day",
        "Places are left for the fraud awareness training. Put your name on the list if you want to come.",
    ),
    ("Phone line test", "The phone line will be tested tonight after closing time. No calls will be lost."),
    ("Thank-you card", "A claimant has sent us a card and a box of biscuits. Both are in the kitchen."),
    ("Envelopes", "The new window envelopes have come. Please use up the old ones first."),
    ("Visitor on Thursday", "A trainee will sit in with us on Thursday. Please say hello and show her around."),
    ("Quiet hour", "A reminder that the hour after lunch is kept quiet for phone interviews. Thank you all."),
)
LINES = (
    "Materials",
    "Labour",
    "Replacement goods",
    "Cleaning",
    "Call-out charge",
    "Transport",
    "Disposal",
    "Temporary repair",
    "Surveyor's fee",
    "Delivery",
)
"""What is claimed."""
DOCUMENTS = (
    "Claim form",
    "Photographs",
    "Repair estimate",
    "Invoice",
    "Receipts",
    "Witness statement",
    "Inspection report",
)
ENDORSEMENTS = ("Legal expenses", "Tax investigation", "Jury service", "Mortgage advice")
"""Covers that no claim for damage comes under."""
REASONS = ("Not covered", "Reported too late", "Documents missing")
"""Why claims are denied."""


def brief(stream: Stream, case: Case) -> str:
    """The task in plain words; every check of the verdict is stated in it."""
    return (
        f"{stream.pick(_OPENINGS)}\n\n"
        f"Claim: {case.claim}\n"
        f"Claimant: {case.name} ({case.number})\n\n"
        f"{_RULES}\n\n{stream.pick(_CLOSINGS)}"
    )


def request(stream: Stream, case: Case) -> tuple[str, str]:
    """The team leader's mail that asks for the approval: subject and body."""
    return f"Approval of {case.claim}", stream.pick(_REQUEST).format(**case._asdict())


def other(stream: Stream, count: int) -> list[tuple[str, str]]:
    """Other mail, subject and body; none of it bears on the task."""
    return stream.sample(_OTHER, count)
