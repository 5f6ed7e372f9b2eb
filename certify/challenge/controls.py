"""Positive controls: unusual episodes that are valid all the same, and what must come of each."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from envos.certify.matrix import expected
from envos.certify.policies import Observation, Policy, Scripted, Steps, policies, winner
from envos.certify.policies.panel import panel
from envos.certify.policies.reading import NotFound
from envos.envs.action import Action, go_back, goto, memo, noop, parse, report
from envos.envs.roles import World
from envos.envs.scenario import Scenario
from envos.errors import UsageError


@dataclass(frozen=True, slots=True)
class Control:
    """A kind of episode: the policy, and whether it must succeed."""

    name: str
    policy: Policy
    success: bool


def rewriting(policy: Policy, change: Callable[[str, Observation], Iterable[str]]) -> Policy:
    """A policy that does other actions in place of each of its own; the last one's observation counts."""

    def act(observation: Observation) -> Steps:
        steps = policy(observation)
        action = next(steps)
        while True:
            for one in change(action, observation):
                observation = yield one
            try:
                action = steps.send(observation)
            except (StopIteration, NotFound):
                return

    return act


def first(policy: Policy, actions: Iterable[str]) -> Policy:
    """A policy that does these actions first."""
    before = tuple(actions)

    def act(observation: Observation) -> Steps:
        for action in before:
            observation = yield action
        yield from policy(observation)

    return act


def reporting(policy: Policy, say: Callable[[dict[str, str]], str]) -> Policy:
    """A policy that words its report in another way."""

    def change(action: str, observation: Observation) -> Iterable[str]:
        if not action.startswith("report("):
            return (action,)
        said = parse(action)
        if not isinstance(said, Action):
            raise UsageError(f"a scripted policy said {action!r}")
        return (say(dict(said.fields)),)

    return rewriting(policy, change)


def beside(policy: Policy, extra: Callable[[int], Iterable[str]]) -> Policy:
    """A policy that does something else before each of its actions, by their number; for what shows the same page."""
    count = iter(range(10_000))

    def change(action: str, observation: Observation) -> Iterable[str]:
        return (*extra(next(count)), action)

    return rewriting(policy, change)


def _noted(kind: str, text: str) -> str:
    """A field of a type in another notation: seconds, a `T`, a dollar sign, more white space."""
    if kind == "datetime":
        return f"{text.replace(' ', 'T')}:00"
    if kind == "money":
        amount, _, cents = text.partition(".")
        return f"$ {int(amount):,}.{cents}0"
    return f"\t{text.replace(' ', '  ')} "


def _quoted(fields: dict[str, str]) -> str:
    """The report in single quotes, in another order, with blanks."""
    return f" report( {', '.join(f'{name} = {_single(text)}' for name, text in reversed(list(fields.items())))} )"


def _single(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _out_of_budget(policy: Policy) -> Policy:
    """Does everything but report, until the budget is spent."""

    def act(observation: Observation) -> Steps:
        steps = policy(observation)
        action = next(steps)
        while True:
            observation = yield noop() if action.startswith("report(") else action
            if not action.startswith("report("):
                action = steps.send(observation)

    return act


def _at_the_last_moment(policy: Policy) -> Policy:
    """Reports with the last action of the budget."""

    def act(observation: Observation) -> Steps:
        steps = policy(observation)
        action = next(steps)
        while True:
            while action.startswith("report(") and observation["budget_left"] > 1:
                observation = yield noop()
            observation = yield action
            action = steps.send(observation)

    return act


def _looks_back(policy: Policy) -> Policy:
    """Goes back to the review step after the commit, and comes again."""

    def act(observation: Observation) -> Steps:
        steps, done = policy(observation), False
        action = next(steps)
        while True:
            observation = yield action
            if "created=" in observation["url"] and not done and not observation["notice"]:
                done = True
                url = observation["url"]
                yield go_back()
                observation = yield goto(url)
            action = steps.send(observation)

    return act


def _acting_alone(policy: Policy) -> Policy:
    """Presses numbers that are not there, and things that cannot be done, on the way."""
    return beside(policy, lambda number: ['click("999")', "click(", "hover(1)"][number : number + 1])


def ways(line: Scenario, world: World) -> dict[str, tuple[Callable[[Policy], Policy], bool]]:
    """Ways to play the winning policy, and whether it still wins."""
    links = [link.href for link in world.navigation]
    odd = [goto("/nowhere/1"), "goto('//elsewhere')", goto(f"{links[0]}?x=%20a#top")]
    refused = [goto(f"{page.partition('{')[0]}?{'x=1'}") for page in ("/new/review", "/approve/review")]
    kinds = {**world.report, **{name: world.report[field] for name, field in world.disclosures.items()}}
    return {
        "plain": (lambda policy: policy, True),
        "extra_reads": (lambda policy: first(policy, map(goto, links)), True),
        "reordered_reads": (lambda policy: first(policy, map(goto, reversed(links))), True),
        "back_and_forth": (lambda policy: first(policy, (goto(links[0]), goto(links[1]), go_back())), True),
        "wandering": (
            lambda policy: first(policy, map(goto, [f"{links[-1]}/1", f"{links[0]}/3", "/", links[1]])),
            True,
        ),
        "memo_cut": (lambda policy: first(policy, (memo("x" * 400),)), True),
        "memo_of_many_scripts": (lambda policy: first(policy, (memo('Zoë "42" \\ 東京 🙂'),)), True),
        "malformed_replies": (lambda policy: first(policy, ("click(", "", "I would click 3", 'fill("1")')), True),
        "impossible_actions": (_acting_alone, True),
        "error_pages": (lambda policy: first(policy, odd), True),
        "refused_and_tried_again": (lambda policy: first(policy, refused), True),
        "pauses": (lambda policy: beside(policy, lambda number: [noop()] if number < 4 else []), True),
        "reading_the_mail": (lambda policy: first(policy, (goto("/inbox"), goto("/inbox/1"), go_back())), True),
        "report_in_capitals": (
            lambda policy: reporting(policy, lambda f: report(**{k: v.upper() for k, v in f.items()})),
            True,
        ),
        "report_in_small_letters": (
            lambda policy: reporting(policy, lambda f: report(**{k: v.lower() for k, v in f.items()})),
            True,
        ),
        "report_with_blanks": (
            lambda policy: reporting(policy, lambda f: report(**{k: f"  {v} " for k, v in f.items()})),
            True,
        ),
        "report_in_another_notation": (
            lambda policy: reporting(policy, lambda f: report(**{k: _noted(kinds[k], v) for k, v in f.items()})),
            True,
        ),
        "report_in_single_quotes": (lambda policy: reporting(policy, _quoted), True),
        "report_without_a_field": (
            lambda policy: reporting(policy, lambda f: report(**dict(list(f.items())[1:]))),
            False,
        ),
        "looking_back": (_looks_back, True),
        "at_the_last_moment": (_at_the_last_moment, True),
        "budget_exhausted": (_out_of_budget, False),
    }


def controls(line: Scenario, world: World, condition: str, case: str = "") -> list[Control]:
    """Every kind of an environment under a condition."""
    best = winner(line)
    if best is None:
        raise UsageError(f"no policy wins under every condition of {line.id}")
    made = [Control(name, way(best.policy), won) for name, (way, won) in ways(line, world).items()]
    for name, scripted in policies(line.world, line.phenomenon).items():
        made.append(Control(f"policy_{name}", scripted.policy, _declared(scripted, condition, case)))
    made += [Control(f"panel_{name}", one.policy, False) for name, one in panel(line).items()]
    return made


def tool_controls(line: Scenario, world: World, condition: str, case: str = "") -> list[Control]:
    """The scripted policies of an environment that call tools, each as it is declared on pages."""
    known = policies(f"tools_{line.world}", line.phenomenon)
    return [Control(f"tools_{name}", one.policy, _declared(one, condition, case)) for name, one in known.items()]


def _declared(scripted: Scripted, condition: str, case: str) -> bool:
    wanted = expected(scripted, condition, case)
    return wanted.win
