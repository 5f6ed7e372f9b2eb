"""How a claim is decided: the approval form in two pages, and the form that denies.

Each page of the approval form holds its state in its address, so that it can be left and entered again; only the last
one writes.
"""

from typing import NamedTuple

from sqlalchemy import Integer, bindparam, cast, func, insert, select, update

from envos.envs.app import Context, Redirect, Refused, Routes
from envos.envs.apps import drafts
from envos.envs.page import Banner, Facts, Form, Heading, Hidden, Link, Node, Page, Paragraph, Select, TextField
from envos.envs.worlds.claims_pages import CLERK, KEY
from envos.envs.worlds.claims_rules import cents, money
from envos.envs.worlds.claims_tables import carried, claim, decision, person, policy
from envos.envs.worlds.claims_words import REASONS

ROUTES = Routes()

_NONE = ("", "Choose")

_ASKED = (
    select(
        claim.c.id,
        claim.c.number,
        person.c.name + " (" + person.c.number + ")",
        claim.c.claimed,
        claim.c.deductible,
        claim.c.status,
        policy.c.id,
        policy.c.number,
        policy.c.product,
        policy.c.starts,
        policy.c.ends,
        policy.c.reimbursement_limit,
        select(func.count()).where(decision.c.claim_id == KEY).scalar_subquery(),
    )
    .join(person, person.c.id == claim.c.person_id)
    .join(policy, policy.c.id == claim.c.policy_id)
    .where(claim.c.id == KEY)
)
_CARRIED = drafts.query(carried)
_BY_FORM = select(decision.c.id).where(decision.c.form_key == bindparam("form_key"))
_LAST = select(
    func.coalesce(func.max(cast(func.substr(decision.c.reference, 3), Integer)), 1000),
    func.coalesce(func.max(decision.c.id), 0),
)
_DECIDE = insert(decision)
_LATEST = (
    select(decision.c.outcome)
    .where(decision.c.claim_id == KEY, decision.c.status == "in force")
    .order_by(decision.c.id.desc())
    .limit(1)
    .scalar_subquery()
)
SETTLE = update(claim).where(claim.c.id == KEY).values(status=func.coalesce(_LATEST, "open"))
"""Gives a claim the outcome of its latest decision in force; without one it is open."""


class Asked(NamedTuple):
    """The claim that a form is about, with its policy (ids in `claim` and `policy`), and how many decisions it has."""

    claim: int
    number: str
    claimant: str
    claimed: int
    deductible: int
    status: str
    policy: int
    policy_number: str
    product: str
    starts: str
    ends: str
    limit: int
    decisions: int


def _asked(ctx: Context) -> Asked:
    """The claim that the parameters name; refuses the request when there is none."""
    found = ctx.db.execute(_ASKED, {"key": ctx.number_of("claim")}).first()
    if found is None:
        raise Refused("bad_request")
    return Asked(*found)


def typed(ctx: Context, name: str) -> int:
    """The amount that was typed, in cents; refuses the request when it is none, or zero."""
    found = cents(ctx.params.get(name, ""))
    if not found:
        raise Refused("bad_amount")
    return found


def _about(ctx: Context, asked: Asked) -> tuple[Node, ...]:
    """The claim as every form shows it; a decision that there is already does not hinder another one."""
    facts = Facts(
        (
            ("Claim", Link(asked.number, f"/claims/{asked.claim}")),
            ("Claimant", asked.claimant),
            ("Policy", asked.policy_number),
            ("Claimed amount", ctx.value(money(asked.claimed), "claim", asked.claim, "claimed")),
            ("Deductible", money(asked.deductible)),
        )
    )
    return (facts,) if asked.status == "open" else (Banner((f"This claim is {asked.status} already.",)), facts)


@ROUTES.get("/approve/form")
def form_page(ctx: Context) -> Page | Redirect:
    """The approval form's first page: how much."""
    asked = _asked(ctx)
    fields = (Hidden("claim", str(asked.claim)), TextField("amount", "Amount to approve"))
    return Page("Approve claim: amount", (*_about(ctx, asked), Form("get", "/approve/review", fields, "Continue")))


@ROUTES.get("/approve/review")
def review_page(ctx: Context) -> Page | Redirect:
    """The approval form's last page: all of it once more as the form holds it, and what the condition discloses."""
    asked = _asked(ctx)
    amount = drafts.held(ctx, _CARRIED, asked.claim, typed(ctx, "amount"))
    # The number of decisions so far tells a second approval from the same one sent again.
    fields = (
        Hidden("claim", str(asked.claim)),
        Hidden("amount", f"{amount // 100}.{amount % 100:02}"),
        Hidden("key", f"{asked.claim}-{amount}-{asked.decisions}"),
    )
    return Page(
        "Approve claim: review",
        (
            *_disclosed(ctx, asked),
            *_about(ctx, asked),
            Facts((("Amount to approve", money(amount)),)),
            Form("post", "/approve/review", fields, "Approve claim"),
            Paragraph((Link("Change the amount", f"/approve/form?claim={asked.claim}"),)),
        ),
    )


def _disclosed(ctx: Context, asked: Asked) -> tuple[Node, ...]:
    """The policy's record as its row says now, without the amount that follows from it."""
    if ctx.review != "value":
        return ()
    limit = ctx.value(money(asked.limit), "policy", asked.policy, "reimbursement_limit")
    return (
        Heading("Policy record"),
        Facts(
            (
                ("Number", asked.policy_number),
                ("Product", asked.product),
                ("Valid from", asked.starts),
                ("Valid to", asked.ends),
                ("Reimbursement limit", limit),
            )
        ),
        Heading("Approval"),
    )


@ROUTES.post("/approve/review")
def approve(ctx: Context) -> Page | Redirect:
    """Approve: one decision for one form, however often that form is sent."""
    key = _asked(ctx).claim
    amount, form_key = typed(ctx, "amount"), ctx.params.get("key", "")
    if not form_key.startswith(f"{key}-{amount}-"):
        raise Refused("bad_request")
    return _decide(ctx, key, "approved", amount, "", form_key)


@ROUTES.get("/deny/form")
def deny_page(ctx: Context) -> Page | Redirect:
    """The form that denies a claim."""
    asked = _asked(ctx)
    fields = (
        Hidden("claim", str(asked.claim)),
        Hidden("key", f"{asked.claim}-denied-{asked.decisions}"),
        Select("reason", "Reason", (_NONE, *((text, text) for text in REASONS)), ""),
    )
    return Page("Deny claim", (*_about(ctx, asked), Form("post", "/deny/form", fields, "Deny claim")))


@ROUTES.post("/deny/form")
def deny(ctx: Context) -> Page | Redirect:
    """Deny a claim: nothing is paid."""
    key, form_key = _asked(ctx).claim, ctx.params.get("key", "")
    if not form_key.startswith(f"{key}-denied-"):
        raise Refused("bad_request")
    return _decide(ctx, key, "denied", 0, reason(ctx), form_key)


def reason(ctx: Context) -> str:
    """The reason that was chosen; refuses the request when it is none of those."""
    text = ctx.params.get("reason", "")
    if text not in REASONS:
        raise Refused("bad_reason")
    return text


def _decide(ctx: Context, key: int, outcome: str, amount: int, why: str, form_key: str) -> Redirect:
    """Enter a decision in the register, and give the claim its status."""
    made = ctx.db.execute(_BY_FORM, {"form_key": form_key}).scalar()
    if made is not None:
        return Redirect(f"/decisions/{made}?again=1")
    number, last = ctx.db.execute(_LAST).one()
    ctx.db.execute(
        _DECIDE,
        {
            "id": last + 1,
            "reference": f"D-{number + 1}",
            "claim_id": key,
            "outcome": outcome,
            "amount": amount,
            "reason": why,
            "decided_at": ctx.now,
            "by": CLERK,
            "status": "in force",
            "form_key": form_key,
            "final": 0,
        },
    )
    ctx.db.execute(SETTLE, {"key": key})
    return Redirect(f"/decisions/{last + 1}?created=1")
