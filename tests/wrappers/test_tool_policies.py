"""The scripted policies over named tools, in every environment: what they earn on pages, by fewer actions."""

from importlib.util import find_spec

import gymnasium
import pytest

from envos.certify.matrix import expected
from envos.certify.policies import policies
from envos.certify.rollout import play
from envos.envs.scenario import ANCHORS, SCENARIOS
from envos.wrappers.tools import ToolActions

CELLS = [(name, condition) for name, line in SCENARIOS.items() for condition in line.conditions]


def by_tools(environment: str) -> dict[str, str]:
    """The names of an environment's policies over tools."""
    line = SCENARIOS[environment]
    return dict.fromkeys(policies(f"tools_{line.world}", line.phenomenon), environment)


def test_every_environment_has_policies_over_tools() -> None:
    for line in SCENARIOS.values():
        rest = "" if line.phenomenon == "stale" else f"_{line.phenomenon}"
        assert find_spec(f"envos.certify.policies.tools_{line.world}{rest}") is not None
        assert {"reference"} < by_tools(line.id).keys() <= policies(line.world, line.phenomenon).keys()


@pytest.mark.parametrize("anchor", ANCHORS)
@pytest.mark.parametrize(("environment", "condition"), CELLS)
def test_policies_earn_over_tools_what_they_earn_on_pages(environment: str, condition: str, anchor: str) -> None:
    """Validity, counted, endpoint, fraction and signatures are those on pages, and as declared."""
    line = SCENARIOS[environment]
    options = {"condition": condition, "anchor": anchor}
    pages = gymnasium.make(f"envos:{environment}", disable_env_checker=True)
    tools = ToolActions(gymnasium.make(f"envos:{environment}", disable_env_checker=True))
    names = ("validity", "counted", "endpoint", "fraction", "signatures")
    for seed in range(2):
        for name in by_tools(environment):
            scripted = policies(line.world, line.phenomenon)[name]
            page = play(pages, scripted.policy, seed, options)
            tool = play(tools, policies(f"tools_{line.world}", line.phenomenon)[name].policy, seed, options)
            assert {key: tool.verdict[key] for key in names} == {key: page.verdict[key] for key in names}, (seed, name)
            assert tool.verdict["endpoint"] is expected(scripted, condition).win, (seed, name)
            assert tool.steps < page.steps or tool.steps == line.budget
    pages.close()
    tools.close()
