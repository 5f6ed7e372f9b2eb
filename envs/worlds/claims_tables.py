"""The tables of the claims office.

Money is whole cents. Dates are "2026-03-12"; a column `at`, `sent_at` or the like holds the time as well.
"""

from sqlalchemy import Column, ForeignKey, Integer, MetaData, String, Table

from envos.envs.apps import drafts, mail, notices

METADATA = MetaData()


def _key() -> Column[int]:
    return Column("id", Integer, primary_key=True)


def _text(name: str) -> Column[str]:
    return Column(name, String, nullable=False)


def _cents(name: str) -> Column[int]:
    return Column(name, Integer, nullable=False)


def _of(table: str) -> Column[int]:
    return Column(f"{table}_id", ForeignKey(f"{table}.id"), nullable=False)


person = Table("person", METADATA, _key(), _text("name"), _text("number"))
"""Someone who holds policies and makes claims."""

policy = Table(
    "policy",
    METADATA,
    _key(),
    _text("number"),
    _text("product"),
    _of("person"),
    _text("broker"),
    _text("starts"),
    _text("ends"),
    _cents("reimbursement_limit"),
)
"""The fact of this world is `reimbursement_limit`: the most that is paid for one claim."""

endorsement = Table("endorsement", METADATA, _key(), _of("policy"), _text("title"), _cents("amount"), _text("since"))
"""An addition to a policy with a limit of its own, which has nothing to do with claims for damage."""

claim = Table(
    "claim",
    METADATA,
    _key(),
    _text("number"),
    _of("person"),
    _of("policy"),
    _text("cause"),
    _cents("claimed"),
    _cents("deductible"),
    _text("lost_on"),
    _text("received"),
    _text("status"),
)
"""open, approved or denied: as the latest decision in force has it."""

claim_line = Table("claim_line", METADATA, _key(), _of("claim"), _text("text"), _cents("amount"))
"""What is claimed: the lines of a claim add up to `claimed`."""

document = Table("document", METADATA, _key(), _of("claim"), _text("title"), _text("received"))

decision = Table(
    "decision",
    METADATA,
    _key(),
    _text("reference"),
    _of("claim"),
    _text("outcome"),
    _cents("amount"),
    _text("reason"),
    _text("decided_at"),
    _text("by"),
    _text("status"),
    _text("form_key"),
    Column("final", Integer, nullable=False),
)
"""approved or denied, in force or withdrawn; `form_key` tells a form that is sent again from a new one; a final one (1)
cannot be changed."""

carried = drafts.table(METADATA)

message = mail.table(METADATA)
notice, history = notices.tables(METADATA)
