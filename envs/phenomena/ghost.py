"""Ghost commit: the commit is accepted and something else is stored, while the confirmation shows what was chosen.

Discipline that wins: read back what is stored, and amend it in place. Phenomena brief, "Ghost commit".
"""

from collections.abc import Mapping
from typing import Any

from envos.envs.perturbation import AFTER, NEUTRAL_UPDATE, Operation, Plan
from envos.envs.roles import Coercion, Condition, Phenomenon, Roles
from envos.envs.streams import Stream

CONDITIONS = {
    line.code: line
    for line in (
        Condition("L0", "", "none", "nothing", "nothing is touched"),
        Condition("C", "same", "none", "nothing", "what was chosen is stored once more"),
        Condition("OFF-A", "value", "none", "nothing", "something else than was chosen is stored"),
    )
}


def plan(roles: Roles, condition: Condition, anchor: str, stream: Stream, base: Mapping[str, Any]) -> Plan:
    """What the right commit has stored is altered in the commit's own request, once the choice was reviewed.

    Only the right commit is altered: else a wrong one would shield the right one, which an amendment stores untouched.
    Both anchors are the commit, since before it nothing is stored that could be altered.
    """
    role, commit = roles.coercion, roles.commit
    assert role  # noqa: S101 - `needs` has been checked by the caller
    assert commit  # noqa: S101
    coercion = role()
    return Plan(
        **base,
        condition=condition.code,
        anchor=anchor,
        arm=coercion.arm,
        arm_text=coercion.text,
        new_text=coercion.text,
        surfaces=coercion.surfaces,
        trigger=(),
        operations=operations(coercion, commit.table, condition),
        announced=condition.announced,
        review=condition.review,
        review_route=commit.review,
        commit_table=commit.table,
        watched=(coercion.arm,),
        posts=(commit.route,),
        phase=AFTER,
        when=coercion.made,
    )


def operations(coercion: Coercion, table: str, condition: Condition) -> tuple[Operation, ...]:
    """The committed row and the rows that follow from it, with the other values or with the same ones."""
    if not condition.changes:
        return (NEUTRAL_UPDATE,) * (1 + len(coercion.following))
    other = condition.changes == "value"
    key = coercion.made["id"]
    assert isinstance(key, int)  # noqa: S101 - the id of a row
    columns = {name: (chosen, stored if other else chosen) for name, (chosen, stored) in coercion.columns.items()}
    return (
        Operation("update", table, key, columns),
        *(
            Operation("update", name, at, {column: (was, became if other else was)})
            for name, at, column, was, became in coercion.following
        ),
    )


PHENOMENON = Phenomenon("ghost", "ghost commit", ("coercion", "commit"), CONDITIONS, plan)
