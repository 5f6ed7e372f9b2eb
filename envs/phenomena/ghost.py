"""Ghost commit: something else than was chosen is stored, after the commit or from the review on.

Disciplines that win: read back what is stored, and amend it in place; read the review before the commit, and choose
again; and where what is stored can no longer be changed, leave it and say so in the report. Phenomena brief, "Ghost
commit", and its mistake 7.
"""

from collections.abc import Mapping
from typing import Any

from envos.envs.evidence import Scalar
from envos.envs.perturbation import AFTER, BEFORE, NEUTRAL_UPDATE, NEXT, Operation, Plan
from envos.envs.roles import Coercion, Condition, Phenomenon, Roles
from envos.envs.streams import Stream

CONDITIONS = {
    line.code: line
    for line in (
        Condition("L0", "", "none", "nothing", "nothing is touched"),
        Condition("C", "same", "none", "nothing", "what was chosen is stored once more"),
        Condition("OFF-A", "value", "none", "nothing", "something else than was chosen is stored"),
        Condition("REV-C", "same", "none", "nothing", "the review holds what was chosen, by the way that may alter it"),
        Condition("REV-A", "value", "none", "nothing", "the review holds something else than was chosen"),
        Condition("FIN-C", "same", "none", "nothing", "what was chosen is stored once more, and can not be changed"),
        Condition("FIN-A", "value", "none", "nothing", "something else is stored, and can not be changed"),
    )
}
REVIEWED = frozenset({"REV-C", "REV-A"})
"""Conditions whose change comes before the commit, in the request for its review."""
CLOSED = frozenset({"FIN-C", "FIN-A"})
"""Conditions that close the committed row."""


def plan(roles: Roles, condition: Condition, anchor: str, stream: Stream, base: Mapping[str, Any]) -> Plan:
    """What the right commit is made of is altered: in its own request, once it was made, or in that for its review.

    Only the right choice is altered: else a wrong one would shield the right one, which a second commit or an amendment
    stores untouched. Both anchors are the same, since there is one such request.
    """
    role, commit = roles.coercion, roles.commit
    assert role  # noqa: S101 - `needs` has been checked by the caller
    assert commit  # noqa: S101
    coercion = role()
    early = condition.code in REVIEWED
    return Plan(
        **base,
        condition=condition.code,
        anchor=anchor,
        arm=coercion.arm,
        arm_text=coercion.text,
        new_text=coercion.text,
        surfaces=coercion.offered if early else coercion.surfaces,
        trigger=(commit.review,) if early else (),
        operations=operations(coercion, commit.table, condition),
        announced=condition.announced,
        review=condition.review,
        review_route=commit.review,
        commit_table=commit.table,
        watched=(coercion.arm,),
        posts=() if early else (commit.route,),
        phase=BEFORE if early else AFTER,
        when=coercion.reviewed if early else coercion.made,
    )


def operations(coercion: Coercion, table: str, condition: Condition) -> tuple[Operation, ...]:
    """The committed row and the rows that follow from it, or what the form carries, with the other value or the same.

    All conditions do the same number of operations; neutral ones stand in.
    """
    count = 1 + len(coercion.following)
    if not condition.changes:
        return (NEUTRAL_UPDATE,) * count
    other = condition.changes == "value"
    if condition.code in REVIEWED:
        return (_carried(coercion, other), *(NEUTRAL_UPDATE,) * (count - 1))
    key = coercion.made["id"]
    assert isinstance(key, int)  # noqa: S101 - the id of a row
    columns = {name: (chosen, stored if other else chosen) for name, (chosen, stored) in coercion.columns.items()}
    if condition.code in CLOSED:
        columns |= coercion.closing
    return (
        Operation("update", table, key, columns),
        *(
            Operation("update", name, at, {column: (was, became if other else was)})
            for name, at, column, was, became in coercion.following
        ),
    )


def _carried(coercion: Coercion, other: bool) -> Operation:
    """The row by which the review of the right choice holds another one, in the request that fires and in no other."""
    subject, chosen, held = coercion.carried
    row: dict[str, Scalar] = {"subject": subject, "chosen": chosen, "held": held if other else chosen, "before": NEXT}
    return Operation("insert", "carried", 0, {name: (None, value) for name, value in row.items()})


PHENOMENON = Phenomenon("ghost", "ghost commit", ("coercion", "commit"), CONDITIONS, plan)
