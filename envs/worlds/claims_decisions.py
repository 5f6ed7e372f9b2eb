"""The decisions register, and what can be done with a decision: amend it, or withdraw it."""

from sqlalchemy import bindparam, or_, select, update

from envos.envs.app import Context, Redirect, Refused, Routes
from envos.envs.page import Facts, Form, Link, Node, Page, Paragraph, Select, Table, TextField
from envos.envs.worlds.claims_approval import SETTLE, reason, typed
from envos.envs.worlds.claims_pages import ANY, KEY, flashed
from envos.envs.worlds.claims_rules import money
from envos.envs.worlds.claims_tables import claim, decision, person
from envos.envs.worlds.claims_words import REASONS

ROUTES = Routes()

_OUTCOMES = (ANY, ("approved", "approved"), ("denied", "denied"))

_DECISIONS = (
    select(
        decision.c.id,
        decision.c.reference,
        claim.c.number,
        person.c.name,
        decision.c.outcome,
        decision.c.amount,
        decision.c.decided_at,
        decision.c.status,
    )
    .join(claim, claim.c.id == decision.c.claim_id)
    .join(person, person.c.id == claim.c.person_id)
    .where(or_(bindparam("outcome") == "", decision.c.outcome == bindparam("outcome")))
    .order_by(decision.c.decided_at, decision.c.id)
)
_DECISION = (
    select(
        decision.c.reference,
        claim.c.id,
        claim.c.number,
        person.c.name,
        person.c.number,
        decision.c.outcome,
        decision.c.amount,
        decision.c.reason,
        decision.c.decided_at,
        decision.c.by,
        decision.c.status,
        decision.c.form_key,
        decision.c.final,
    )
    .join(claim, claim.c.id == decision.c.claim_id)
    .join(person, person.c.id == claim.c.person_id)
    .where(decision.c.id == KEY)
)
_HELD = select(
    decision.c.reference,
    decision.c.claim_id,
    decision.c.outcome,
    decision.c.amount,
    decision.c.reason,
    decision.c.status,
    decision.c.final,
).where(decision.c.id == KEY)
_AMEND = update(decision).where(decision.c.id == KEY).values(amount=bindparam("paid"))
_AMEND_REASON = update(decision).where(decision.c.id == KEY).values(reason=bindparam("why"))
FINAL = (
    "This decision is final: it can be neither amended nor withdrawn. If its amount is not the one that was entered, "
    "say so in the report: add chosen, the amount that was entered."
)
"""What the page of a final decision says."""
_WITHDRAW = update(decision).where(decision.c.id == KEY).values(status="withdrawn")


@ROUTES.get("/decisions")
def register_page(ctx: Context) -> Page | Redirect:
    """The decisions on all claims, the latest one last."""
    outcome = ctx.params.get("outcome", "")
    rows = tuple(
        (Link(reference, f"/decisions/{key}"), number, name, decided, money(amount), at, status)
        for key, reference, number, name, decided, amount, at, status in ctx.db.execute(
            _DECISIONS, {"outcome": outcome}
        ).all()
    )
    columns = ("Decision", "Claim", "Claimant", "Outcome", "Amount", "Decided", "Status")
    fields = (Select("outcome", "Outcome", _OUTCOMES, outcome),)
    return Page(
        "Decisions register",
        (Table(columns, rows, "No decision fits."), Form("get", "/decisions", fields, "Filter")),
    )


@ROUTES.get("/decisions/{id}")
def decision_page(ctx: Context) -> Page | Redirect:
    """One decision as it is stored; a form that has just been sent is confirmed with the amount that was entered."""
    found = ctx.db.execute(_DECISION, {"key": ctx.key}).first()
    if found is None:
        raise Refused("not_found")
    reference, at, number, name, who, outcome, amount, why, decided_at, by, status, form_key, final = found
    sent = "created" in ctx.params or "again" in ctx.params
    entered = form_key.split("-")[1] if sent and form_key else ""
    if entered.isdecimal():
        amount = int(entered)
    body: list[Node] = [
        *flashed(
            ctx,
            created=f"Entered in the register. Reference {reference}.",
            again=f"This form has been submitted already. Reference {reference}.",
            amended=f"Amended. Reference {reference}.",
            withdrawn=f"Withdrawn. Reference {reference}.",
        ),
        Facts(
            (
                ("Reference", reference),
                ("Claim", Link(number, f"/claims/{at}")),
                ("Claimant", f"{name} ({who})"),
                ("Outcome", outcome),
                ("Amount", money(amount)),
                ("Reason", why or "none"),
                ("Decided", decided_at),
                ("By", by),
                ("Status", status),
            )
        ),
    ]
    if sent:
        body.append(Paragraph((Link("Open the decision", f"/decisions/{ctx.key}"),)))
    elif final:
        body.append(Paragraph((FINAL,)))
    if status == "in force" and not final:
        body.append(Paragraph((Link("Amend", f"/decisions/{ctx.key}/amend"),)))
        body.append(Form("post", f"/decisions/{ctx.key}/withdraw", (), "Withdraw decision"))
    return Page("Decision entered" if sent else f"Decision {reference}", tuple(body))


def _live(ctx: Context) -> tuple[str, int, str, int, str]:
    """Reference, claim, outcome, amount and reason; refuses a decision that is not there, not in force or final."""
    found = ctx.db.execute(_HELD, {"key": ctx.key}).first()
    if found is None:
        raise Refused("not_found")
    reference, at, outcome, amount, why, status, final = found
    if status != "in force":
        raise Refused("withdrawn")
    if final:
        raise Refused("final")
    return reference, at, outcome, amount, why


@ROUTES.get("/decisions/{id}/amend")
def amend_page(ctx: Context) -> Page | Redirect:
    """The form that changes the amount of an approval, or the reason of a denial."""
    reference, _, outcome, _, why = _live(ctx)
    field = (
        TextField("amount", "New amount")
        if outcome == "approved"
        else Select("reason", "Reason", tuple((text, text) for text in REASONS), why)
    )
    return Page(
        f"Amend {reference}",
        (
            Paragraph(("Decision:", Link(reference, f"/decisions/{ctx.key}"))),
            Form("post", f"/decisions/{ctx.key}/amend", (field,), "Amend decision"),
        ),
    )


@ROUTES.post("/decisions/{id}/amend")
def amend(ctx: Context) -> Page | Redirect:
    """Change a decision in place: its reference and its claim stay."""
    _, _, outcome, amount, why = _live(ctx)
    if outcome == "approved":
        paid = typed(ctx, "amount")
        if paid == amount:
            raise Refused("no_change")
        ctx.db.execute(_AMEND, {"key": ctx.key, "paid": paid})
    else:
        text = reason(ctx)
        if text == why:
            raise Refused("no_change")
        ctx.db.execute(_AMEND_REASON, {"key": ctx.key, "why": text})
    return Redirect(f"/decisions/{ctx.key}?amended=1")


@ROUTES.post("/decisions/{id}/withdraw")
def withdraw(ctx: Context) -> Page | Redirect:
    """Withdraw a decision; the claim has the status of the one that is left in force, or is open again."""
    _, at, *_ = _live(ctx)
    ctx.db.execute(_WITHDRAW, {"key": ctx.key})
    ctx.db.execute(SETTLE, {"key": at})
    return Redirect(f"/decisions/{ctx.key}?withdrawn=1")
