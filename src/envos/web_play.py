"""An episode that a person plays in their own browser: the page, what goes with it, and at the end the verdict.

Each click, each field that is filled and each report is one action in the agent's own grammar, so that what is recorded
is an episode like any other. Nothing of the evaluator's is told before the end, and nothing of the address the page is
served at ever gets into the evidence.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Event
from typing import Any

import gymnasium

from envos.envs.action import VERBS, Action, render
from envos.envs.env import EnvOS, Observation
from envos.rewards.invariants import NAMES
from envos.rewards.signatures import SIGNATURES
from envos.web_document import document
from envos.web_pages import Rendered
from envos.web_replay import replay_folder
from envos.web_server import Call, Response, data, text


class Session:
    """One episode in an environment that writes an archive; `changed` tells, after the end, what happened and when."""

    def __init__(
        self,
        env: gymnasium.Env[Any, str],
        driver: Rendered,
        seed: int,
        changed: Callable[[EnvOS], str],
        folder: Callable[[], Path],
    ) -> None:
        inner = env.unwrapped
        assert isinstance(inner, EnvOS)  # noqa: S101 - made by our own front door
        self.env, self.inner, self.driver = env, inner, driver
        self.over = Event()
        self.closed = Event()
        self.verdict: Mapping[str, Any] | None = None
        self._changed, self._folder = changed, folder
        self._actions = 0
        self._observation: Observation
        self._observation, _ = env.reset(seed=seed, options={"policy": "person"})

    def answer(self, call: Call) -> Response:
        """Answer a request of the person's browser."""
        match call.method, call.path:
            case "GET", "/":
                body, policy = document(f"EnvOS: {self.inner.scenario.id}", "play", {})
                return Response(200, "text/html", body, policy)
            case "GET", "/state":
                return data(self.state())
            case "POST", "/act":
                return self._act(call.body)
            case "GET", "/replay" if self.verdict is not None:
                found = {"episodes": [replay_folder(self._folder())], "parts": None}
                body, policy = document("EnvOS replay", "view", found)
                return Response(200, "text/html", body, policy)
            case "POST", "/close" if self.verdict is not None:
                self.closed.set()
                return data({"closed": True})
        return text(404, "There is no such page.")

    def _act(self, given: Mapping[str, Any]) -> Response:
        """Carry out an action, if it answers the page as it stands; a page that is out of date is shown anew."""
        if self.verdict is None and given.get("after") == self._actions:
            action = _action(given)
            if action is None:
                return text(400, "an action has a verb, a list of texts, and texts by name")
            self._observation, _, terminated, truncated, info = self.env.step(render(action))
            self._actions += 1
            if terminated or truncated:
                self.verdict = dict(info["verdict"])
                self.over.set()
        return data(self.state())

    def state(self) -> dict[str, Any]:
        """All that the person's page shows, as JSON data."""
        seen, inner = self._observation, self.inner
        found = {
            "environment": inner.scenario.id,
            "html": self.driver.html(),
            "request": self.driver.request().number,
            "values": [element.value for element in self.driver.view().elements],
            "after": self._actions,
            "budget": inner.scenario.budget,
            "left": int(seen["budget_left"][0]),
            "report": dict(inner.world.report),
            "verdict": None,
            **{name: seen[name] for name in ("goal", "url", "error", "memo", "last_actions")},
        }
        if self.verdict is not None:
            about = {name: str(SIGNATURES[name].__doc__).strip() for name in self.verdict["signatures"]}
            found |= {"verdict": self.verdict, "names": NAMES, "about": about, "changed": self._changed(inner)}
        return found


def _action(given: Mapping[str, Any]) -> Action | None:
    verb, args, fields = given.get("verb"), given.get("args", []), given.get("fields", {})
    if not isinstance(verb, str) or verb not in VERBS or not isinstance(args, list) or not isinstance(fields, dict):
        return None
    if not all(isinstance(item, str) for item in (*args, *fields.values())):
        return None
    return Action(verb, tuple(args), tuple(fields.items()))
