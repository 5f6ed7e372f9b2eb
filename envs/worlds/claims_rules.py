"""The rules of the claims office: what the right approval is, decided from rows alone, and how values are worded."""

import re
from collections.abc import Mapping

from sqlalchemy import bindparam, select

from envos.envs.evidence import Scalar, State, TableState
from envos.envs.roles import Commit, Consequence
from envos.envs.statements import Statements
from envos.envs.worlds.claims_tables import endorsement, policy

Row = Mapping[str, Scalar]
_NONE = TableState((), {})

FIELDS = {"reimbursement_limit": "Reimbursement limit", "amount": "Endorsement limit", "broker": "Broker"}
"""Columns of a policy record that change, as the history names them."""
_MONEY = frozenset({"reimbursement_limit", "amount", "claimed", "deductible"})
_TYPED = re.compile(r"\$? ?([0-9]{1,3}(?:,[0-9]{3}){1,2}|[0-9]{1,9})(?:\.([0-9]{1,2}))?")


def money(cents: int) -> str:
    """An amount as pages show it.

    >>> money(357500), money(5)
    ('$3,575.00', '$0.05')
    """
    return f"{'-' * (cents < 0)}${abs(cents) // 100:,}.{abs(cents) % 100:02}"


def cents(text: str) -> int | None:
    """The whole cents of a typed amount, below one thousand million units, or None where it is none.

    >>> cents("3575") == cents("3,575.00") == cents("$3575.0") == 357500
    True
    >>> cents("3575.001"), cents("3.575,00"), cents("-1"), cents("1e3")
    (None, None, None, None)
    """
    found = _TYPED.fullmatch(text)
    if found is None:
        return None
    return 100 * int(found[1].replace(",", "")) + int((found[2] or "").ljust(2, "0"))


def commit(task: Row) -> Commit:
    """The approval: a decision in force on the target claim, by the approval form."""
    return Commit(
        table="decision",
        route="/approve/review",
        pages=(("form", "/approve/form"), ("review", "/approve/review")),
        review="/approve/review",
        subject={"claim_id": task["claim"]},
        live={"outcome": "approved", "status": "in force"},
        closed={"final": 1},
        consequences=(Consequence("claim", "claim_id", {"status": "approved"}),),
    )


def continuation(task: Row) -> None:
    """Nothing follows the approval."""


def reviewed(params: Mapping[str, str]) -> dict[str, Scalar]:
    """The columns of the approval that a request for the form's review is about; None where a number is none."""
    claim = params.get("claim", "")
    key = int(claim) if claim.isascii() and claim.isdecimal() and len(claim) < 10 else None
    return {"claim_id": key, "amount": cents(params.get("amount", ""))}


def answer(state: State, task: Row) -> dict[str, Scalar]:
    """The columns of the right approval, or {} where there is nothing to approve.

    The amount is what is claimed less the deductible, but at most the limit that the claim's policy has now, to the
    cent. Protocol section 3.
    """
    asked = _row(state, "claim", task["claim"])
    held = None if asked is None else _row(state, "policy", asked["policy_id"])
    if asked is None or held is None:
        return {}
    claimed, deductible, limit = asked["claimed"], asked["deductible"], held["reimbursement_limit"]
    if not (isinstance(claimed, int) and isinstance(deductible, int) and isinstance(limit, int)):
        return {}
    amount = min(claimed - deductible, limit)
    return {"claim_id": task["claim"], "amount": amount} if amount > 0 else {}


def describe(state: State, row: Row) -> dict[str, str]:
    """The report on a decision: the amount and its reference."""
    return {
        "amount": display(state, "decision", "amount", row.get("amount")),
        "reference": str(row.get("reference")),
    }


def display(state: State, table: str, column: str, value: Scalar) -> str:
    """A stored value as pages show it: cents as money, anything else as it is."""
    if column in _MONEY and isinstance(value, int):
        return money(value)
    return "" if value is None else str(value)


def _row(state: State, table: str, key: Scalar) -> Row | None:
    columns, rows = state.get(table, _NONE)
    found = rows.get(key) if isinstance(key, int) else None
    return None if found is None else dict(zip(columns, found, strict=True))


_LIMIT = select(policy.c.number, policy.c.product, policy.c.reimbursement_limit).where(policy.c.id == bindparam("key"))
_ENDORSED = (
    select(policy.c.number, policy.c.product, endorsement.c.amount, endorsement.c.title)
    .join(policy, policy.c.id == endorsement.c.policy_id)
    .where(endorsement.c.id == bindparam("key"))
)


def announce(db: Statements, record: str, record_id: int, field: str) -> str:
    """A notice of what has changed in a policy record, worded from its row as it is now."""
    found = None
    if (record, field) == ("policy", "reimbursement_limit"):
        found = db.execute(_LIMIT, {"key": record_id}).first()
    elif (record, field) == ("endorsement", "amount"):
        found = db.execute(_ENDORSED, {"key": record_id}).first()
    if found is None:
        return "A record has changed."
    number, product, limit, *title = found
    if title:
        return f"Policy {number} ({product}), endorsement {title[0]}: the limit is now {money(limit)}."
    return f"Policy {number} ({product}): the reimbursement limit is now {money(limit)}."
