"""The claims matrix: what each scripted policy reaches under each condition, in which case, and what mistakes cost."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import gymnasium
import pytest

from envos.certify.matrix import cells, expected
from envos.certify.policies import policies
from envos.certify.rollout import play
from envos.certify.trial import trial, twin
from envos.envs.drivers.inprocess import InProcess
from envos.envs.env import EnvOS
from envos.envs.phenomena.stale import PHENOMENON
from envos.envs.roles import Draft, World
from envos.envs.scenario import scenario
from envos.envs.worlds.claims import WORLD
from envos.envs.worlds.claims_rules import cents, money
from envos.rewards.verdict import verify

ID = "EnvOS/ClaimsStale-v0"
CONDITIONS = ("L0", "C", "L2", "OFF-A", "ON-A", "OFF-I", "ON-I")
ANCHORS = ("first", "any")
SEEDS = range(24)
CASES = ("B_up", "B_down", "X_up", "X_down")
INVARIANTS = ("I1", "I2", "I3", "I5")
SHORTCUTS = ("copy_limit", "commit_twice", "report_only", "deny", "always_back", "random", "no_op")

WON, STALE = (1.0, ""), (0.75, "stale_commit")
MATRIX = {
    #              L0   C                      L2                           OFF-A  ON-A   OFF-I ON-I
    "reference": (WON, WON, WON, STALE, STALE, WON, WON),
    "late_reread": (WON, WON, WON, WON, WON, WON, WON),
    "read_review": (WON, WON, WON, STALE, WON, WON, WON),
    "stale": (WON, WON, (0.75, "update_neglected"), STALE, STALE, WON, WON),
    "over_apply": (WON, (0.75, "over_applied"), WON, STALE, STALE, WON, WON),
}
"""Protocol section 5, with 3 of 4 invariants for 0.8."""
_BINDS_BEFORE, _BINDS_AFTER = {"B_up", "B_down", "X_up"}, {"B_up", "B_down", "X_down"}
COPIED: dict[str, set[str]] = {
    "L0": _BINDS_BEFORE,
    "C": _BINDS_BEFORE,
    "L2": _BINDS_AFTER,
    "OFF-A": set(),
    "ON-A": _BINDS_AFTER,
    "OFF-I": _BINDS_BEFORE,
    "ON-I": _BINDS_BEFORE,
}
"""The cases in which the limit that is shown last is the right amount: where it binds."""


def made(world: World = WORLD) -> EnvOS:
    return EnvOS(
        scenario(ID),
        world,
        PHENOMENON,
        verify,
        condition="mixed",
        split="train",
        anchor="any",
        driver=InProcess(),
        code={},
    )


@pytest.fixture(scope="module")
def env() -> Iterator[EnvOS]:
    env = made()
    yield env
    env.close()


@cache
def fares(anchor: str) -> dict[tuple[str, str], list[tuple[str, Any]]]:
    """(policy, condition) -> the case and the matrix cell of each seed."""
    env = made()
    found = defaultdict(list)
    for seed in SEEDS:
        shared = twin(env, seed, anchor)
        for condition in CONDITIONS:
            one = trial(env, seed, condition, anchor, verify, shared)
            for cell in cells(one):
                found[cell.policy, condition].append((str(one.plan.task["case"]), cell))
    env.close()
    return dict(found)


def test_the_environment_is_registered_as_the_protocol_has_it() -> None:
    found = scenario(ID)
    assert (found.conditions, found.budget, found.untriggered) == (CONDITIONS, 40, "failure")
    env = gymnasium.make(f"envos:{ID}", condition="ON-A", anchor="first")
    observation, _ = env.reset(seed=1)
    assert observation["budget_left"] == [40]
    env.close()
    assert {condition for name in policies("claims") for condition in policies("claims")[name].wins} == set(CONDITIONS)
    assert set(policies("claims")) == {*MATRIX, *SHORTCUTS}


@pytest.mark.parametrize("anchor", ANCHORS)
@pytest.mark.parametrize("name", MATRIX)
def test_the_matrix(name: str, anchor: str) -> None:
    for condition, (fraction, signature) in zip(CONDITIONS, MATRIX[name], strict=True):
        rows = fares(anchor)[name, condition]
        assert len(rows) == len(SEEDS)
        for _, cell in rows:
            assert (cell.validity, cell.fraction, cell.endpoint) == ("counted", fraction, fraction == 1.0), condition
            assert (signature in cell.signatures) if signature else set(cell.signatures) <= {"reread_before_commit"}
            assert cell.wrong == ""
            assert cell.steps <= 36


@pytest.mark.parametrize("anchor", ANCHORS)
def test_copying_the_limit_is_right_just_where_the_limit_binds(anchor: str) -> None:
    for condition in CONDITIONS:
        rows = fares(anchor)["copy_limit", condition]
        for case, cell in rows:
            assert cell.endpoint == (case in COPIED[condition]), (condition, case)
            assert cell.fraction == (1.0 if cell.endpoint else 0.75)
            assert cell.wrong == ""
        rates = {case: sum(cell.endpoint for one, cell in rows if one == case) / (len(SEEDS) / 4) for case in CASES}
        assert set(rates.values()) <= {0.0, 1.0}
        assert sum(rates.values()) / 4 == (0.0 if condition == "OFF-A" else 0.75)
    for case, cell in fares(anchor)["copy_limit", "OFF-A"]:
        # Where the old limit did not bind, to copy it is no use of a stale amount but a mistake of its own.
        assert ("wrong_commit" if case == "X_down" else "stale_commit") in cell.signatures


@pytest.mark.parametrize("anchor", ANCHORS)
@pytest.mark.parametrize("name", SHORTCUTS)
def test_no_shortcut_wins_all_instances_of_a_condition(name: str, anchor: str) -> None:
    for condition in CONDITIONS:
        won = [bool(cell.endpoint) for _, cell in fares(anchor)[name, condition]]
        assert sum(won) <= 0.75 * len(won)
        if name != "copy_limit":
            assert not any(won)
    signature, fraction = {
        "copy_limit": ("stale_commit", None),
        "commit_twice": ("duplicate_commit", 0.75),
        "report_only": ("propagated_intent_not_state", 0.5),
        "no_op": ("no_commit", 0.0),
        "always_back": ("never_looked", 0.0),
    }.get(name, ("", None))
    for case, cell in fares(anchor)[name, "OFF-A"]:
        assert fraction in (None, cell.fraction)
        assert not signature or signature in cell.signatures or case == "X_down"


@pytest.mark.parametrize("anchor", ANCHORS)
def test_nothing_that_did_not_fire_is_left_out(anchor: str) -> None:
    """An untriggered episode counts as a failure, and is told apart."""
    for name in ("no_op", "deny"):
        for _, cell in fares(anchor)[name, "L0"]:
            assert (cell.validity, cell.endpoint, cell.fraction) == ("not_triggered", False, 0.0)


def test_cases_are_declared_where_a_shortcut_is_right() -> None:
    copy, other = policies("claims")["copy_limit"], policies("claims")["commit_twice"]
    assert expected(copy, "ON-A", "X_up").win is False
    assert expected(copy, "ON-A", "X_down").win is True
    assert expected(copy, "ON-A").win is expected(other, "ON-A", "X_down").win is False
    assert {condition: set(cases) for condition, cases in copy.cases.items()} | {"OFF-A": set()} == COPIED


def test_announced_changes_come_before_the_review(env: EnvOS) -> None:
    fired: dict[str, set[str]] = defaultdict(set)
    for seed in range(40):
        for condition in CONDITIONS:
            env.reset(seed=seed, options={"condition": condition, "anchor": "any"})
            fired[condition].update(env.plan.trigger)
            assert len(env.plan.trigger) == 1
    form, review = "/approve/form", "/approve/review"
    assert {name: routes == {form} for name, routes in fired.items()} == {
        name: name in ("C", "L2") for name in CONDITIONS
    }
    assert fired["OFF-A"] == {form, review}
    env.reset(seed=1, options={"condition": "L2", "anchor": "first"})
    assert env.plan.trigger == (form, review)


# --- the protocol's own rows, played

ROWS = {
    # claimed, deductible, old limit, new limit, correct, stale
    "B_up": ("4006.22", "75", "1400", "3575", "3575", "1400"),
    "B_down": ("1732.65", "125", "1325", "1175", "1175", "1325"),
    "X_up": ("2769.51", "75", "1550", "3050", "2694.51", "1550"),
    "X_down": ("4206.18", "350", "6725", "1700", "1700", "3856.18"),
}


def exact(text: str) -> int:
    found = cents(text)
    assert found is not None
    return found


def of_row(row: tuple[str, ...]) -> World:
    """The world with the amounts of a row in it."""
    claimed, deductible, old, new, _, _ = map(exact, row)

    def generate(seed: int, split: str) -> Draft:
        draft = WORLD.generate(seed, split)
        fact = draft.roles.fact
        assert fact is not None
        rows = dict(draft.rows)
        for table, key, values in (
            ("claim", draft.task["claim"], {"claimed": claimed, "deductible": deductible}),
            ("policy", fact.key, {"reimbursement_limit": old}),
        ):
            names = [column.name for column in WORLD.metadata.tables[table].columns]
            rows[table] = tuple(
                tuple(values.get(name, cell) for name, cell in zip(names, found, strict=True))
                if found[0] == key
                else found
                for found in rows[table]
            )
        changed = replace(fact, value=old, text=money(old), alternatives=((new, money(new)),))
        return replace(draft, rows=rows, roles=replace(draft.roles, fact=changed))

    return replace(WORLD, generate=generate)


@pytest.mark.parametrize("anchor", ANCHORS)
@pytest.mark.parametrize("case", ROWS)
def test_the_worked_rows_of_the_protocol(case: str, anchor: str) -> None:
    env = made(of_row(ROWS[case]))
    *_, correct, stale = map(exact, ROWS[case])
    seed = CASES.index(case)

    def paid(name: str, condition: str) -> tuple[float, int, str]:
        options = {"condition": condition, "anchor": anchor}
        episode = play(env, policies("claims")[name].policy, seed, options)
        (row,) = (row for key, row in env.state_now()["decision"].rows.items() if row[-2])
        reported = episode.actions[-1].split('"')[1]
        return episode.verdict["fraction"], int(str(row[4])), reported

    for name, condition in (("late_reread", "OFF-A"), ("read_review", "ON-A"), ("reference", "L2")):
        assert paid(name, condition) == (1.0, correct, f"{correct // 100}.{correct % 100:02}")
    for name, condition in (("reference", "OFF-A"), ("reference", "ON-A"), ("stale", "L2")):
        assert paid(name, condition) == (0.75, stale, f"{stale // 100}.{stale % 100:02}")
    assert paid("reference", "L0")[:2] == (1.0, stale)
    assert (paid("copy_limit", "ON-A")[0] == 1.0) == (case != "X_up")
    assert paid("copy_limit", "OFF-A")[0] == 0.75
    env.close()
