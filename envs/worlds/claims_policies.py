"""The records of the policies: the source of the fact, and the form with which a clerk edits one."""

from sqlalchemy import bindparam, exists, insert, or_, select, update

from envos.envs.app import Context, Redirect, Refused, Routes
from envos.envs.page import Facts, Form, Heading, Link, Page, Paragraph, Select, Table, TextField
from envos.envs.worlds.claims_pages import CLERK, KEY, flashed, products
from envos.envs.worlds.claims_rules import FIELDS, cents, money
from envos.envs.worlds.claims_tables import endorsement, history, person, policy

ROUTES = Routes()

_POLICIES = (
    select(
        policy.c.id,
        policy.c.number,
        policy.c.product,
        person.c.name,
        policy.c.reimbursement_limit,
        policy.c.ends,
    )
    .join(person, person.c.id == policy.c.person_id)
    .where(or_(bindparam("product") == "", policy.c.product == bindparam("product")))
    .order_by(policy.c.number)
)
_POLICY = (
    select(
        policy.c.number,
        policy.c.product,
        person.c.name,
        person.c.number,
        policy.c.broker,
        policy.c.starts,
        policy.c.ends,
        policy.c.reimbursement_limit,
    )
    .join(person, person.c.id == policy.c.person_id)
    .where(policy.c.id == KEY)
)
_ENDORSEMENTS = (
    select(endorsement.c.id, endorsement.c.title, endorsement.c.amount, endorsement.c.since)
    .where(endorsement.c.policy_id == KEY)
    .order_by(endorsement.c.id)
)
_HISTORY = (
    select(history.c.at, history.c.field, history.c.old, history.c.new, history.c.by)
    .where(
        or_(
            (history.c.record == "policy") & (history.c.record_id == KEY),
            (history.c.record == "endorsement")
            & exists().where(endorsement.c.id == history.c.record_id, endorsement.c.policy_id == KEY),
        )
    )
    .order_by(history.c.id)
)
_HELD = select(policy.c.number, policy.c.reimbursement_limit, policy.c.broker).where(policy.c.id == KEY)
_BROKERS = select(policy.c.broker).distinct().order_by(policy.c.broker)
_EDIT = (
    update(policy).where(policy.c.id == KEY).values(reimbursement_limit=bindparam("limit"), broker=bindparam("agency"))
)
_NOTE = insert(history)


@ROUTES.get("/policies")
def policies_page(ctx: Context) -> Page | Redirect:
    """The policies and their limits: the source of the fact."""
    product = ctx.params.get("product", "")
    rows = tuple(
        (
            Link(number, f"/policies/{key}"),
            sold,
            holder,
            ctx.value(money(limit), "policy", key, "reimbursement_limit"),
            ends,
        )
        for key, number, sold, holder, limit, ends in ctx.db.execute(_POLICIES, {"product": product}).all()
    )
    columns = ("Policy", "Product", "Holder", "Reimbursement limit", "Valid to")
    fields = (Select("product", "Product", products(ctx), product),)
    return Page(
        "Policy records",
        (Table(columns, rows, "No policy fits."), Form("get", "/policies", fields, "Filter")),
    )


@ROUTES.get("/policies/{id}")
def policy_page(ctx: Context) -> Page | Redirect:
    """One policy with its endorsements, and what has changed in its record."""
    key = ctx.key
    found = ctx.db.execute(_POLICY, {"key": key}).first()
    if found is None:
        raise Refused("not_found")
    number, product, holder, who, broker, starts, ends, limit = found
    endorsed = tuple(
        (title, ctx.value(money(amount), "endorsement", at, "amount"), since)
        for at, title, amount, since in ctx.db.execute(_ENDORSEMENTS, {"key": key}).all()
    )
    changes = tuple(
        (at, FIELDS.get(field, field), old, new, by)
        for at, field, old, new, by in ctx.db.execute(_HISTORY, {"key": key}).all()
    )
    return Page(
        f"Policy {number}",
        (
            *flashed(ctx, changed="The policy record has been changed."),
            Facts(
                (
                    ("Product", product),
                    ("Holder", f"{holder} ({who})"),
                    ("Broker", broker),
                    ("Valid from", starts),
                    ("Valid to", ends),
                    ("Reimbursement limit", ctx.value(money(limit), "policy", key, "reimbursement_limit")),
                )
            ),
            Paragraph((Link("Edit policy", f"/policies/{key}/edit"),)),
            Heading("Endorsements"),
            Table(("Endorsement", "Limit", "Since"), endorsed, "No endorsements."),
            Heading("Changes"),
            Table(("When", "What", "Before", "After", "By"), changes, "No changes."),
        ),
    )


@ROUTES.get("/policies/{id}/edit")
def edit_policy_page(ctx: Context) -> Page | Redirect:
    """The form that changes a policy record; it does not show the limit."""
    found = ctx.db.execute(_HELD, {"key": ctx.key}).first()
    if found is None:
        raise Refused("not_found")
    brokers = (("", "No change"), *((name, name) for (name,) in ctx.db.execute(_BROKERS).all()))
    fields = (
        TextField("limit", "New reimbursement limit"),
        Select("broker", "New broker", brokers, ""),
    )
    return Page(
        "Edit policy",
        (
            Paragraph(("Policy:", Link(found[0], f"/policies/{ctx.key}"))),
            Form("post", f"/policies/{ctx.key}/edit", fields, "Save policy"),
        ),
    )


@ROUTES.post("/policies/{id}/edit")
def edit_policy(ctx: Context) -> Page | Redirect:
    """Change a policy's limit or broker, and note it in the history."""
    found = ctx.db.execute(_HELD, {"key": ctx.key}).first()
    if found is None:
        raise Refused("not_found")
    _, old_limit, old_broker = found
    typed, broker = ctx.params.get("limit", ""), ctx.params.get("broker", "") or old_broker
    limit = cents(typed) if typed else old_limit
    if not limit:
        raise Refused("bad_amount")
    if broker != old_broker and (broker,) not in ctx.db.execute(_BROKERS).all():
        raise Refused("bad_request")
    changes = [
        {
            "record": "policy",
            "record_id": ctx.key,
            "field": field,
            "old": old,
            "new": new,
            "at": ctx.now,
            "by": CLERK,
        }
        for field, old, new in (
            ("reimbursement_limit", money(old_limit), money(limit)),
            ("broker", old_broker, broker),
        )
        if old != new
    ]
    if not changes:
        raise Refused("no_change")
    ctx.db.execute(_EDIT, {"key": ctx.key, "limit": limit, "agency": broker})
    for change in changes:
        ctx.db.execute(_NOTE, change)
    return Redirect(f"/policies/{ctx.key}?changed=1")
