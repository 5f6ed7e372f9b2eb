"""`envos list` and `envos show`: which environments there are, and what one of them is."""

import json
from typing import Any

import gymnasium
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

import envos
from envos.certify.policies import policies
from envos.cli_output import console, document, table
from envos.envs import action as grammar
from envos.envs.env import EnvOS, Observation
from envos.envs.instance import generate
from envos.envs.roles import Condition
from envos.envs.scenario import SCENARIOS, Scenario, load_phenomenon, load_world, scenario
from envos.envs.streams import check_seed, check_split
from envos.envs.toolbox import Toolbox
from envos.rewards import invariants

_REVIEW = {"nothing": "nothing extra", "link": "a reminder and a link to the source", "value": "and the current value"}


def show_all(as_json: bool) -> None:
    """Print every environment, a line each."""
    if as_json:
        document({"version": envos.__version__, "environments": [_line(line) for line in SCENARIOS.values()]})
        return
    shown = table("", ("id", "world", "phenomenon", ">conditions", ">budget"))
    for line in SCENARIOS.values():
        shown.add_row(line.id, line.world, line.phenomenon, str(len(line.conditions)), str(line.budget))
    console().print(shown)


def _line(line: Scenario) -> dict[str, Any]:
    return {
        "id": line.id,
        "world": line.world,
        "phenomenon": line.phenomenon,
        "conditions": list(line.conditions),
        "budget": line.budget,
        "untriggered": line.untriggered,
    }


def show_one(environment: str, split: str, seed: int, as_json: bool) -> None:
    """Print what an environment is, with one instance as the example."""
    data = description(scenario(environment), check_split(split), check_seed(seed))
    if as_json:
        document(data)
    else:
        _print(console(), data)


def show_tools(environment: str, as_json: bool) -> None:
    """Print the schemas of an environment's tools, as OpenAI describes functions: a JSON list, or one document."""
    line = scenario(environment)
    schemas = Toolbox(load_world(line.world)).schemas()
    if as_json:
        document({"environment": line.id, "tools": schemas})
    else:
        print(json.dumps(schemas, indent=2))


def description(line: Scenario, split: str, seed: int) -> dict[str, Any]:
    """All that `envos show` tells, as JSON data; nothing of it is evaluator data."""
    world, phenomenon = load_world(line.world), load_phenomenon(line.phenomenon)
    instance = generate(line, world, phenomenon, split, seed)
    held = [name for name in invariants.NAMES if name != "I4" or instance.roles.continuation is not None]
    home, source = example(line, split, seed)
    return {
        **_line(line),
        "title": world.title,
        "family": phenomenon.family,
        "rows": sum(len(rows) for rows in instance.rows.values()),
        "example": {"split": split, "seed": seed, "instance": instance.digest},
        "brief": instance.brief,
        "conditions": [_condition(phenomenon.conditions[code]) for code in line.conditions],
        "invariants": {name: _invariant(name) for name in held},
        "actions": [{"example": verb.example, "about": verb.about} for verb in grammar.VERBS.values()],
        "report": dict(world.report),
        "policies": {name: scripted.about for name, scripted in policies(line.world, line.phenomenon).items()},
        "pages": [{key: page[key] for key in ("url", "page", "elements", "notice")} for page in (home, source)],
    }


def _condition(line: Condition) -> dict[str, Any]:
    return {
        "code": line.code,
        "about": line.about,
        "changes": line.changes or None,
        "announced": line.announced,
        "channel": line.channel,
        "review": line.review,
    }


def _invariant(name: str) -> str:
    term = getattr(invariants, invariants.NAMES[name])
    return str(term.__doc__ or invariants.NAMES[name]).split(": ", 1)[-1]


def example(line: Scenario, split: str, seed: int) -> tuple[Observation, Observation]:
    """The first page of an instance, and the page that is the source of the fact."""
    env = gymnasium.make(line.id, split=split, condition=line.conditions[0], disable_env_checker=True)
    try:
        inner = env.unwrapped
        assert isinstance(inner, EnvOS)  # noqa: S101 - the id is one of ours
        home, _ = env.reset(seed=seed)
        # A list where there is one; else the record itself, which the brief names.
        fact = inner.instance.roles.fact
        surfaces, key = (fact.surfaces, fact.key) if fact else (inner.plan.surfaces, inner.plan.arm[1])
        surface = min(surfaces, key=lambda route: "{" in route)
        return home, env.step(grammar.goto(surface.replace("{id}", str(key))))[0]
    finally:
        env.close()  # type: ignore[no-untyped-call]


def _print(out: Console, data: dict[str, Any]) -> None:
    out.print(Text(data["id"], "bold"))
    out.print(
        f"{data['title']} (world {data['world']}, {data['rows']} rows), {data['family']} ({data['phenomenon']}); "
        f"at most {data['budget']} actions"
    )
    example = data["example"]
    _section(out, f"Brief of {example['split']}, seed {example['seed']}", data["brief"])
    shown = table("", ("condition", "what changes", "announced", "the review step shows"))
    for line in data["conditions"]:
        told = {"modal": "by a modal notice", "mail": "by a mail"}.get(line["channel"], "no")
        shown.add_row(line["code"], line["about"], told, _REVIEW.get(line["review"], line["review"]))
    _section(out, "Conditions", shown)
    _section(out, "Invariants (reward 1.0 when all hold, else 0.0)", _pairs(data["invariants"]))
    _section(out, "Actions, one a step", _pairs({verb["example"]: verb["about"] for verb in data["actions"]}))
    fields = ", ".join(f"{name} ({kind})" for name, kind in data["report"].items())
    out.print(Padding(f"The report's fields: {fields}", (0, 0, 0, 2)))
    _section(out, "Scripted policies", _pairs(data["policies"]))
    page = data["pages"][-1]
    _section(out, f"A page as the agent gets it: {page['url']}", page["page"])
    _section(out, "and its elements", page["elements"])


def _pairs(items: dict[str, str]) -> Any:
    shown = table("", ("", ""))
    shown.show_header = False
    for name, text in items.items():
        shown.add_row(name, text)
    return shown


def _section(out: Console, title: str, body: Any) -> None:
    out.print()
    out.print(Text(title, "bold"))
    out.print(Padding(body, (0, 0, 0, 2)))
