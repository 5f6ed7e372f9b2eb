"""Policies that know no world: nothing, anything, and always back. None may ever earn a reward."""

from collections.abc import Callable

from envos.certify.policies import Observation, Scripted, Steps
from envos.certify.policies.reading import elements
from envos.envs.action import click, fill, go_back, goto, noop, report, select_option
from envos.envs.evidence import sha256
from envos.envs.streams import Stream


def no_op(observation: Observation) -> Steps:
    """Does nothing until the budget is spent."""
    while True:
        yield noop()


def always_back(observation: Observation) -> Steps:
    """Follows the first link and goes back, over and over."""
    while True:
        links = [seen for seen in elements(observation) if seen.role == "link"]
        observation = yield click(links[1].at) if len(links) > 1 else noop()
        observation = yield go_back()


def random(fields: tuple[str, ...]) -> Callable[[Observation], Steps]:
    """Acts on elements of the page at random; the draws depend on the goal alone."""

    def act(observation: Observation) -> Steps:
        stream = Stream(int(sha256(observation["goal"])[:12], 16), "train", "random policy")
        while True:
            seen = elements(observation)
            draw = stream.random()
            if not seen or draw < 0.03:
                observation = yield go_back()
            elif draw < 0.05:
                observation = yield goto("/")
            elif draw < 0.055:
                yield report(**dict.fromkeys(fields, "unknown"))
                return
            else:
                one = stream.pick(seen)
                if one.role == "textbox":
                    observation = yield fill(one.at, str(stream.below(1000)))
                elif one.role == "combobox":
                    observation = yield select_option(one.at, "Any")
                else:
                    observation = yield click(one.at)

    return act


def shortcuts(fields: tuple[str, ...]) -> dict[str, Scripted]:
    """The shortcuts that every world shares; `fields` are its report fields."""
    lines = (
        Scripted("always_back", always_back, "follows a link and goes back, over and over", shortcut=True),
        Scripted("random", random(fields), "acts on elements of the page at random", shortcut=True),
        Scripted("no_op", no_op, "does nothing", shortcut=True),
    )
    return {line.name: line for line in lines}
