"""Contested resource: somebody else takes what the agent has selected, and the software accepts the clash silently.

Discipline that wins: check again that it is free before the commit, or look at what is stored after it, and take the
next best. Phenomena brief, "Contested resource".
"""

from collections.abc import Mapping
from typing import Any

from envos.envs.evidence import Scalar
from envos.envs.perturbation import NEUTRAL_INSERT, NEUTRAL_UPDATE, NEXT, NOW, Operation, Plan
from envos.envs.roles import Condition, Phenomenon, Resource, Roles
from envos.envs.streams import Stream

CONDITIONS = {
    line.code: line
    for line in (
        Condition("L0", "", "none", "nothing", "nothing changes"),
        Condition("C", "other", "modal", "nothing", "a colleague takes something that decides nothing, announced"),
        Condition("L2", "wanted", "modal", "nothing", "a colleague takes what was selected, announced"),
        Condition("OFF-A", "wanted", "none", "nothing", "a colleague takes what was selected, silently"),
        Condition("MAIL-A", "wanted", "mail", "nothing", "a colleague takes what was selected, and writes a mail"),
    )
}


def plan(roles: Roles, condition: Condition, anchor: str, stream: Stream, base: Mapping[str, Any]) -> Plan:
    """The right selection is taken, once it was served; every condition draws alike and operates alike.

    Only the right selection arms: else reviewing a decoy would draw the change away from it. Whatever the anchor, the
    commit itself fires at the latest, since nothing else of the form need be asked for after the review. With "any" one
    of the last two pages fires before it, so that looking again before the commit is enough.
    """
    role, commit = roles.resource, roles.commit
    assert role  # noqa: S101 - `needs` has been checked by the caller
    assert commit  # noqa: S101
    resource, (who, which, page) = role(), (stream.random() for _ in range(3))
    other = resource.others[int(which * len(resource.others))]
    pages = tuple(route for _, route in commit.pages)
    arm = (resource.table, resource.wanted, resource.column)
    return Plan(
        **base,
        condition=condition.code,
        anchor=anchor,
        arm=arm,
        arm_text=resource.text,
        new_text=str(resource.taken) if condition.changes == "wanted" else resource.text,
        surfaces=resource.surfaces,
        trigger=pages if anchor == "first" else (pages[-2:][int(page * 2)],),
        operations=operations(resource, commit.table, condition, other, who),
        announced=condition.announced,
        review=condition.review,
        review_route=commit.review,
        commit_table=commit.table,
        watched=(arm, (resource.table, other, resource.column)),
        posts=(commit.route,),
    )


def operations(resource: Resource, table: str, condition: Condition, other: int, who: float) -> tuple[Operation, ...]:
    """The row is taken, a colleague's row holds it, and a notice or a message says so; neutral ones stand in."""
    if not condition.changes:
        return (NEUTRAL_UPDATE, NEUTRAL_INSERT, NEUTRAL_INSERT)
    key = resource.wanted if condition.changes == "wanted" else other
    record: dict[str, Scalar] = {"record": resource.table, "record_id": key, "field": resource.column}
    told = {
        "none": NEUTRAL_INSERT,
        "mail": _insert("message", {**resource.letter(key, who), "sent_at": NOW}),
        "modal": _insert("notice", {**record, "visible_from": NEXT, "acknowledged": 0}),
    }
    taken = Operation("update", resource.table, key, {resource.column: (resource.free, resource.taken)})
    return (taken, _insert(table, resource.rival(key, who)), told[condition.channel])


def _insert(table: str, columns: Mapping[str, Scalar]) -> Operation:
    return Operation("insert", table, 0, {name: (None, value) for name, value in columns.items()})


PHENOMENON = Phenomenon("contested", "contested resource", ("resource", "commit"), CONDITIONS, plan)
