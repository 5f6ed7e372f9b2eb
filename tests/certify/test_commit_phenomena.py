"""Certification of the phenomena about the commit itself: what is admitted, and what a broken plan is refused for."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from envos.certify.certificate import make_env
from envos.certify.result import certify_instance
from envos.envs.perturbation import Plan
from envos.envs.scenario import ANCHORS, SCENARIOS

CONTESTED = "EnvOS/ClinicContested-v0"
IDS = tuple(name for name, line in SCENARIOS.items() if line.phenomenon in ("contested", "ghost"))


@pytest.mark.parametrize("environment", IDS)
def test_an_instance_is_admitted_under_every_condition(environment: str) -> None:
    """All checks, the deep ones included."""
    env = make_env(environment, "train")
    for anchor in ANCHORS:
        for condition in SCENARIOS[environment].conditions:
            result = certify_instance(env, 1, condition, anchor, deep=anchor == "any")
            assert result.refused == (), (anchor, condition)
    env.close()


def _elsewhere(plan: Plan) -> Plan:
    """The colleague's appointment is in another slot than the one that is taken."""
    update, insert, told = plan.operations
    if insert.table == "appointment":
        insert = insert._replace(columns={**insert.columns, "slot_id": (None, plan.arm[1] + 1)})
    return replace(plan, operations=(update, insert, told))


def _too_few(plan: Plan) -> Plan:
    """The slot that the altered appointment is in stays free: one operation less than in the control arm."""
    return plan if plan.condition == "L0" else replace(plan, operations=plan.operations[:-1])


def _whatever(plan: Plan) -> Plan:
    """The change waits for a commit that nobody makes."""
    return replace(plan, when={"id": 0})


@pytest.mark.parametrize(
    ("environment", "bend", "check"),
    [
        (CONTESTED, _elsewhere, "R4"),
        ("EnvOS/ClinicGhost-v0", _too_few, "R6"),
        ("EnvOS/ClinicGhost-v0", _whatever, "R1"),
        ("EnvOS/ClaimsGhost-v0", _whatever, "R1"),
    ],
)
def test_a_broken_plan_is_refused(environment: str, bend: Callable[[Plan], Plan], check: str) -> None:
    env = make_env(environment, "train")
    whole = env.phenomenon.plan
    env.phenomenon = replace(env.phenomenon, plan=lambda *given: bend(whole(*given)))
    result = certify_instance(env, 1, "OFF-A", "first", deep=False)
    assert any(f" {check}: " in text for text in result.refused), result.refused
    env.close()
