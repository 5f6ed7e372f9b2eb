"""Stale information: a value that the agent has already been shown changes before it acts on it.

Discipline that wins: re-read the source before committing. Protocol sections 3 to 5; paper tables 2, 3 and 36.
"""

from collections.abc import Mapping
from typing import Any

from envos.envs.evidence import Scalar
from envos.envs.perturbation import NEUTRAL_INSERT, NEUTRAL_UPDATE, NEXT, NOW, Operation, Plan
from envos.envs.roles import Commit, Condition, Fact, Phenomenon, Roles
from envos.envs.streams import Stream

CONDITIONS = {
    line.code: line
    for line in (
        Condition("L0", "", "none", "nothing", "nothing changes"),
        Condition("C", "detail", "modal", "nothing", "an irrelevant detail of the record changes, announced"),
        Condition("L2", "fact", "modal", "nothing", "the fact changes, announced"),
        Condition("OFF-A", "fact", "none", "nothing", "the fact changes, silently"),
        Condition("CUE-A", "fact", "none", "link", "the fact changes; the review step links to the source"),
        Condition("LIVE-A", "fact", "none", "value", "the fact changes; the review step shows it"),
        Condition("ON-A", "fact", "none", "value", "the fact changes; the review step shows the record"),
        Condition("OFF-I", "twin", "none", "nothing", "a like record changes, silently"),
        Condition("LIVE-I", "twin", "none", "value", "a like record changes; the review shows the target's"),
        Condition("ON-I", "twin", "none", "value", "a like record changes; the review shows the target's"),
    )
}


def plan(roles: Roles, condition: Condition, anchor: str, stream: Stream, base: Mapping[str, Any]) -> Plan:
    """The change of one fact, armed by its old value; every condition draws alike and operates alike."""
    fact, twin, detail, commit = roles.fact, roles.twin, roles.detail, roles.commit
    assert fact is not None  # noqa: S101 - `needs` has been checked by the caller
    assert twin is not None  # noqa: S101
    assert detail is not None  # noqa: S101
    assert commit is not None  # noqa: S101
    roles_of = {"fact": fact, "twin": twin, "detail": detail}
    drawn = {name: stream.pick(role.alternatives) for name, role in roles_of.items()}
    page = stream.random()
    return Plan(
        **base,
        condition=condition.code,
        anchor=anchor,
        arm=(fact.table, fact.key, fact.column),
        arm_text=fact.text,
        new_text=drawn["fact"][1] if condition.changes == "fact" else fact.text,
        surfaces=fact.surfaces,
        trigger=trigger(commit, condition, anchor, page),
        operations=operations(roles, condition, drawn),
        announced=condition.announced,
        review=condition.review,
        review_route=commit.review,
        commit_table=commit.table,
        watched=tuple((role.table, role.key, role.column) for role in (fact, twin, detail)),
    )


def trigger(commit: Commit, condition: Condition, anchor: str, draw: float) -> tuple[str, ...]:
    """The routes that fire: every form page, or the one drawn; an announced change must come before the review."""
    routes = tuple(route for _, route in commit.pages)
    if anchor == "first":
        return routes
    if condition.announced:
        routes = tuple(route for route in routes if route != commit.review)
    return (routes[int(draw * len(routes))],)


def operations(roles: Roles, condition: Condition, drawn: Mapping[str, tuple[Any, str]]) -> tuple[Operation, ...]:
    """Update, history row and notice; where one of them changes nothing, a neutral operation stands in."""
    if not condition.changes:
        return (NEUTRAL_UPDATE, NEUTRAL_INSERT, NEUTRAL_INSERT)
    role: Fact = getattr(roles, condition.changes)
    value, text = drawn[condition.changes]
    record: dict[str, tuple[Scalar, Scalar]] = {
        "record": (None, role.table),
        "record_id": (None, role.key),
        "field": (None, role.column),
    }
    update = Operation("update", role.table, role.key, {role.column: (role.value, value)})
    history = Operation(
        "insert",
        "history",
        0,
        {**record, "old": (None, role.text), "new": (None, text), "at": (None, NOW), "by": (None, "Administration")},
    )
    notice = Operation("insert", "notice", 0, {**record, "visible_from": (None, NEXT), "acknowledged": (None, 0)})
    return (update, history, notice if condition.announced else NEUTRAL_INSERT)


PHENOMENON = Phenomenon("stale", "stale information", ("fact", "twin", "detail", "commit"), CONDITIONS, plan)
