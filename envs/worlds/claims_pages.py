"""The claims office's home, queue and claim pages, and what all of its pages share."""

from sqlalchemy import BindParameter, bindparam, func, literal, or_, select, union_all

from envos.envs.app import Context, Redirect, Refused, Routes
from envos.envs.page import Banner, Facts, Form, Heading, Link, Node, Page, Paragraph, Select, Table
from envos.envs.worlds.claims_rules import money
from envos.envs.worlds.claims_tables import claim, claim_line, decision, document, message, person, policy

NAVIGATION = (
    Link("Home", "/"),
    Link("Claims", "/claims"),
    Link("Policies", "/policies"),
    Link("Decisions", "/decisions"),
    Link("Inbox", "/inbox"),
)
ANY = ("", "Any")
"""The choice of a filter that filters nothing."""
STATUSES = (ANY, ("open", "open"), ("approved", "approved"), ("denied", "denied"))
CLERK = "Claims desk"

ROUTES = Routes()

KEY: BindParameter[int] = bindparam("key")

PRODUCTS = select(policy.c.product).distinct().order_by(policy.c.product)
_COUNTS = select(
    *(
        select(func.count()).select_from(table).where(condition).scalar_subquery()
        for table, condition in (
            (claim, claim.c.status == "open"),
            (policy, policy.c.id > 0),
            (decision, decision.c.status == "in force"),
            (message, message.c.read == 0),
        )
    )
)
_QUEUE = (
    select(
        claim.c.id,
        claim.c.number,
        person.c.name,
        policy.c.number,
        claim.c.claimed,
        claim.c.received,
        claim.c.status,
    )
    .join(person, person.c.id == claim.c.person_id)
    .join(policy, policy.c.id == claim.c.policy_id)
    .where(or_(bindparam("status") == "", claim.c.status == bindparam("status")))
    .where(or_(bindparam("product") == "", policy.c.product == bindparam("product")))
    .order_by(claim.c.received, claim.c.number)
)
CLAIM = (
    select(
        claim.c.number,
        person.c.name,
        person.c.number,
        policy.c.id,
        policy.c.number,
        policy.c.product,
        claim.c.cause,
        claim.c.claimed,
        claim.c.deductible,
        claim.c.lost_on,
        claim.c.received,
        claim.c.status,
    )
    .join(person, person.c.id == claim.c.person_id)
    .join(policy, policy.c.id == claim.c.policy_id)
    .where(claim.c.id == KEY)
)
_PARTS = union_all(
    select(
        literal("line").label("kind"),
        claim_line.c.id.label("at"),
        claim_line.c.text,
        literal("").label("second"),
        literal("").label("third"),
        claim_line.c.amount,
    ).where(claim_line.c.claim_id == KEY),
    select(literal("document"), document.c.id, document.c.title, document.c.received, literal(""), literal(0)).where(
        document.c.claim_id == KEY
    ),
    select(
        literal("decision"),
        decision.c.id,
        decision.c.reference,
        decision.c.outcome,
        decision.c.status,
        decision.c.amount,
    ).where(decision.c.claim_id == KEY),
).order_by("kind", "at")


def flashed(ctx: Context, **texts: str) -> tuple[Node, ...]:
    """The banner of the operation that led here, by a flag of the address."""
    return tuple(Banner((text,)) for flag, text in texts.items() if flag in ctx.params)


def products(ctx: Context) -> tuple[tuple[str, str], ...]:
    """The products as choices of a filter."""
    return (ANY, *((name, name) for (name,) in ctx.db.execute(PRODUCTS).all()))


@ROUTES.get("/")
def home(ctx: Context) -> Page | Redirect:
    """Counts; no record."""
    opened, policies, decided, unread = ctx.db.execute(_COUNTS).one()
    return Page(
        "Claims portal",
        (
            Facts(
                (
                    ("Today", ctx.now[:10]),
                    ("Open claims", str(opened)),
                    ("Policies", str(policies)),
                    ("Decisions in force", str(decided)),
                    ("Unread messages", str(unread)),
                )
            ),
        ),
    )


@ROUTES.get("/claims")
def queue_page(ctx: Context) -> Page | Redirect:
    """The claims, by the date on which they came in."""
    status, product = ctx.params.get("status", ""), ctx.params.get("product", "")
    found = ctx.db.execute(_QUEUE, {"status": status, "product": product}).all()
    rows = tuple(
        (Link(number, f"/claims/{key}"), name, policy_number, money(claimed), received, state)
        for key, number, name, policy_number, claimed, received, state in found
    )
    fields = (
        Select("status", "Status", STATUSES, status),
        Select("product", "Product", products(ctx), product),
    )
    return Page(
        "Claims queue",
        (
            Table(("Claim", "Claimant", "Policy", "Claimed", "Received", "Status"), rows, "No claim fits."),
            Form("get", "/claims", fields, "Filter"),
        ),
    )


@ROUTES.get("/claims/{id}")
def claim_page(ctx: Context) -> Page | Redirect:
    """One claim with its lines, documents and decisions; what the policy allows is in the policy's record."""
    key = ctx.key
    found = ctx.db.execute(CLAIM, {"key": key}).first()
    if found is None:
        raise Refused("not_found")
    number, name, who, policy_id, policy_number, product, cause, claimed, deductible, lost_on, received, status = found
    parts = ctx.db.execute(_PARTS, {"key": key}).all()
    lines = tuple((text, money(amount)) for kind, _, text, _, _, amount in parts if kind == "line")
    papers = tuple((title, came) for kind, _, title, came, _, _ in parts if kind == "document")
    decided = tuple(
        (Link(reference, f"/decisions/{at}"), outcome, money(amount), state)
        for kind, at, reference, outcome, state, amount in parts
        if kind == "decision"
    )
    return Page(
        f"Claim {number}",
        (
            Facts(
                (
                    ("Claimant", f"{name} ({who})"),
                    ("Policy", Link(policy_number, f"/policies/{policy_id}")),
                    ("Product", product),
                    ("Cause", cause),
                    ("Date of loss", lost_on),
                    ("Received", received),
                    ("Claimed amount", money(claimed)),
                    ("Deductible", money(deductible)),
                    ("Status", status),
                )
            ),
            Paragraph((Link("Approve claim", f"/approve/form?claim={key}"),)),
            Paragraph((Link("Deny claim", f"/deny/form?claim={key}"),)),
            Heading("Lines"),
            Table(("Line", "Amount"), lines, "No lines."),
            Heading("Documents"),
            Table(("Document", "Received"), papers, "No documents."),
            Heading("Decisions"),
            Table(("Decision", "Outcome", "Amount", "Status"), decided, "No decisions."),
        ),
    )
