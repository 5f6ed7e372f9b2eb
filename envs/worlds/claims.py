"""Insurance claims: a queue of claims, the records of the policies, and a form that approves a claim.

The task: approve a claim at the right amount and report. Nothing follows the approval, so there are four invariants.
Paper tables 2 and 3; protocol section 3.
"""

from envos.envs.app import Routes
from envos.envs.apps import mail, notices
from envos.envs.roles import World
from envos.envs.worlds import (
    claims_approval,
    claims_decisions,
    claims_pages,
    claims_policies,
    claims_rows,
    claims_rules,
    claims_tools,
)
from envos.envs.worlds.claims_tables import METADATA, message, notice

ROUTES = Routes()
for _part in (claims_pages, claims_policies, claims_approval, claims_decisions):
    ROUTES.handlers.update(_part.ROUTES.handlers)
mail.mount(ROUTES, message)
notices.mount(ROUTES, notice)

REFUSALS = {
    "bad_amount": (422, "An amount is a number such as 3,575.00: above zero, with at most two decimals."),
    "bad_reason": (422, "Choose one of the reasons."),
    "final": (409, "This decision is final: it can be neither amended nor withdrawn."),
    "withdrawn": (409, "This decision is withdrawn."),
    "no_change": (422, "Nothing was changed: enter something that differs."),
}

WORLD = World(
    name="claims",
    title="Claims portal",
    metadata=METADATA,
    routes=ROUTES,
    navigation=claims_pages.NAVIGATION,
    home="/",
    report={"amount": "money", "reference": "id"},
    reviewed=claims_rules.reviewed,
    disclosures={"chosen": "amount"},
    labels={"amount": ("Amount",), "reference": ("Reference",)},
    refusals=REFUSALS,
    generate=claims_rows.generate,
    commit=claims_rules.commit,
    continuation=claims_rules.continuation,
    announce=claims_rules.announce,
    answer=claims_rules.answer,
    describe=claims_rules.describe,
    display=claims_rules.display,
    tools=(*claims_tools.TOOLS, *mail.TOOLS, *notices.TOOLS),
)
