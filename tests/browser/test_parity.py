"""The same world in both drivers: what is seen, asked, written and graded is equal, the digest of the evidence too.

By default every condition of every environment is played by the policy that wins it, which goes through the whole
workflow and the change, by another one (in turn, so that each is used), and wandered through at random.
`ENVOS_PARITY=all` plays every scripted policy under every condition with both anchors, and wanders ten times as much:

    ENVOS_PARITY=all .venv/bin/pytest -q -n 2 tests/browser/test_parity.py
"""

import os
from collections import Counter
from collections.abc import Callable, Iterator

import gymnasium
import pytest
from side_by_side import Pair, wander

from envos.certify.policies import policies
from envos.envs.evidence import Fire, Frame, Request
from envos.envs.scenario import SCENARIOS
from envos.envs.streams import Stream

pytestmark = pytest.mark.chromium

ALL = os.environ.get("ENVOS_PARITY") == "all"
WALKS, STEPS = (10, 400) if ALL else (1, 100)
"""Walks through each condition, and steps of one walk through every condition of an environment."""
CELLS = [(line.id, condition) for line in SCENARIOS.values() for condition in line.conditions]


def scripted(environment: str, condition: str) -> list[str]:
    """The policies to play in a cell: all of them, or the one that wins there and one of the others in turn."""
    line = SCENARIOS[environment]
    found = policies(line.world, line.phenomenon)
    if ALL:
        return list(found)
    first = next(one.name for one in found.values() if one.wins.issuperset(line.conditions))
    others = [name for name in found if name != first]
    return [first, others[CELLS.index((environment, condition)) % len(others)]]


@pytest.fixture(scope="module")
def pairs() -> Iterator[Callable[[str], Pair]]:
    """One pair for each environment, made when it is first asked for."""
    made: dict[str, Pair] = {}

    def get(environment: str) -> Pair:
        if environment not in made:
            made[environment] = Pair(environment, screenshot=False, anchor="any")
        return made[environment]

    yield get
    for one in made.values():
        one.close()


@pytest.mark.parametrize(("environment", "condition"), CELLS)
def test_scripted_policies(environment: str, condition: str, pairs: Callable[[str], Pair]) -> None:
    line, both = SCENARIOS[environment], pairs(environment)
    for seed, name in enumerate(scripted(environment, condition)):
        policy = policies(line.world, line.phenomenon)[name].policy
        for anchor in ("first", "any") if ALL else ("first",):
            verdict = both.play(policy, 40 + seed, {"condition": condition, "anchor": anchor, "policy": name})
            assert verdict["validity"] in ("counted", "not_triggered"), verdict["reasons"]
            if policies(line.world, line.phenomenon)[name].wins.issuperset(line.conditions):
                # An episode that was cut short, or in which nothing happened, would be equal too.
                assert (verdict["validity"], verdict["endpoint"]) == ("counted", True), verdict
                assert sum(isinstance(record, Fire) for record in both.shown.ledger.records()) == 1


def test_every_environment_and_condition_is_played() -> None:
    """All that is registered, and each scripted policy at least once where an environment has conditions enough."""
    registered = {name for name in gymnasium.registry if name.startswith("EnvOS/")}
    assert registered == {environment for environment, _ in CELLS} == set(SCENARIOS)
    assert len(set(CELLS)) == sum(len(line.conditions) for line in SCENARIOS.values())
    for environment in ("EnvOS/ClinicStale-v0", "EnvOS/ClaimsStale-v0"):
        played = {name for cell in CELLS if cell[0] == environment for name in scripted(*cell)}
        assert len(played) >= 8


@pytest.mark.parametrize("environment", SCENARIOS)
def test_random_walks(environment: str, pairs: Callable[[str], Pair]) -> None:
    line, both = SCENARIOS[environment], pairs(environment)
    routes = tuple(
        pattern.replace("{id}", str(key)) for _, pattern in both.direct.world.routes.handlers for key in (1, 3)
    )
    met: Counter[str] = Counter()
    for condition in line.conditions:
        for walk in range(WALKS):
            act = wander(Stream(walk, "train", f"walk {condition}"), routes, STEPS // len(line.conditions))
            verdict = both.play(act, walk, {"condition": condition})
            assert verdict["validity"] not in ("infra_failure", "harness_error"), verdict["reasons"]
            for record in both.shown.ledger.records():
                if isinstance(record, Request):
                    met.update((record.method, str(record.status), record.via))
                elif isinstance(record, Frame):
                    met.update({word for word in ("textbox", "combobox", "radio") if f"] {word} " in record.elements})
                elif isinstance(record, Fire):
                    met["fired"] += 1
    # Walks that never got anywhere would be equal too.
    assert min(met[what] for what in ("GET", "POST", "200", "303", "404", "redirect", "textbox", "combobox")) > 0, met


def test_a_difference_is_seen(pair: Callable[..., Pair], monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison can fail: one character, one more request, and a page that shows something else than it says."""
    both = pair("EnvOS/ClinicStale-v0", condition="L0", screenshot=False)
    both.reset(1)
    both.step('goto("/inbox")')
    both.shown.step("noop()")
    with pytest.raises(AssertionError):
        both.step('goto("/inbox")')
    with pytest.raises(AssertionError):
        both.compare()
