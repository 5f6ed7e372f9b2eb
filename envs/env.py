"""The environment loop: a reply of the policy comes in, an observation goes out, everything is put on record.

It knows no world and no phenomenon. The verifier is handed to it (a function from evidence to verdict), so that nothing
here depends on how episodes are graded.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict

from envos.envs import action as grammar
from envos.envs.app import Application
from envos.envs.database import Database
from envos.envs.drivers.inprocess import Driver
from envos.envs.evidence import (
    Action,
    Delivered,
    End,
    Evidence,
    Fault,
    Frame,
    Ledger,
    Record,
    Report,
    Request,
    Start,
    State,
    Verifier,
    frame_sha256,
)
from envos.envs.instance import Instance, draw_condition, generate, plan
from envos.envs.page import ELEMENTS_LIMIT, TEXT_LIMIT, clean
from envos.envs.perturbation import OneShot, Plan, replayed
from envos.envs.roles import Phenomenon, World
from envos.envs.scenario import Scenario, check_anchor, check_condition
from envos.envs.screen import Pixels
from envos.envs.spaces import ActionText, AnyText
from envos.envs.streams import check_seed, check_split
from envos.errors import UnknownName, UsageError

MEMO_LIMIT = 300
"""Code points of the memo that comes back with every observation; a longer one is cut, and the cut is recorded."""
ACTIONS_SHOWN = 48
"""Past actions that an observation lists."""
_LINE = 160
_OPTIONS = ("condition", "anchor", "policy", "model", "model_resolved")

Observation = dict[str, Any]
Reader = Callable[[object], grammar.Action | grammar.ActionError]
"""Makes an action of a reply of the policy."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """An episode at one moment: enough to go on from there, in the same environment object, any number of times."""

    image: bytes
    driver: Any
    records: tuple[Record, ...]
    oneshot: tuple[int, bool, bool]
    number: int
    step: int
    memo: str
    actions: tuple[str, ...]
    frame: Frame
    instance: Instance
    plan: Plan
    identity: Mapping[str, Any]
    pre: bytes


class Told(Mapping[str, Any]):
    """A verdict in `info`: a mapping to read, and no dict (`dict(told)` makes one).

    A vector environment takes a dict apart and puts its values into arrays of their type, where None, which is what an
    episode without an outcome has, becomes False or an error. Anything else it hands on as it is.
    """

    __slots__ = ("_data",)

    def __init__(self, data: Mapping[str, Any]) -> None:
        self._data = dict(data)

    def __getitem__(self, name: str) -> Any:
        return self._data[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._data)

    def __len__(self) -> int:
        return len(self._data)

    def __repr__(self) -> str:
        return f"Told({self._data!r})"


class EnvOS(gymnasium.Env[Observation, str]):
    """One scenario as a Gymnasium environment; `envos show ID` and the docs page of the id describe it.

    Args:
        scenario: the environment's line.
        world, phenomenon: what it is made of.
        verifier: evidence -> verdict (with `reward` and `info()`).
        condition: a condition of the scenario, or "mixed" to draw one from the seed.
        split: train, validation or test.
        anchor: "first" or "any" (protocol section 4, rule 9).
        driver: makes a driver.
        code: the digest of the code, archived with every episode.
        render_mode: None, "ansi", or "rgb_array" with a driver that takes pictures.
    """

    metadata = {"render_modes": ["ansi"], "render_fps": 4}  # noqa: RUF012 - Gymnasium declares it so

    def __init__(
        self,
        scenario: Scenario,
        world: World,
        phenomenon: Phenomenon,
        verifier: Verifier,
        *,
        condition: str,
        split: str,
        anchor: str,
        driver: Driver,
        code: Mapping[str, str],
        render_mode: str | None = None,
    ) -> None:
        if driver.screen is not None:
            self.metadata = {**self.metadata, "render_modes": ["ansi", "rgb_array"]}
        if render_mode is not None and render_mode not in self.metadata["render_modes"]:
            raise UnknownName("render mode", render_mode, self.metadata["render_modes"])
        self.scenario = scenario
        self.world = world
        self.phenomenon = phenomenon
        self.condition = check_condition(scenario, condition)
        self.split = check_split(split)
        self.anchor = check_anchor(anchor)
        self.render_mode = render_mode
        self.ledger = Ledger()
        self.admit: Callable[[Instance, Plan], str] | None = None
        self._verifier = verifier
        self._code = dict(code)
        self._driver = driver
        self._read: Reader = grammar.parse
        self._call: Callable[[grammar.Action], str] = lambda action: ""
        self._database = Database(world.metadata)
        self._live = False
        self._final: Observation | None = None
        self.observation_space = Dict(
            {
                "goal": AnyText(4000),
                "url": AnyText(400),
                "page": AnyText(TEXT_LIMIT),
                "elements": AnyText(ELEMENTS_LIMIT),
                "notice": AnyText(1000),
                "error": AnyText(1000),
                "memo": AnyText(MEMO_LIMIT),
                "last_actions": AnyText(ACTIONS_SHOWN * (_LINE + 1)),
                "budget_left": Box(0, scenario.budget, (1,), np.int32),
            }
        )
        if driver.screen is not None:
            self.observation_space["screenshot"] = driver.screen.space
        self.action_space = ActionText(grammar.MAX_LENGTH)

    def use(self, driver: Driver, read: Reader, call: Callable[[grammar.Action], str], name: str) -> None:
        """From the next reset on, take actions of another kind: `read` makes one of a reply, `call` carries it out.

        `name` goes into the identity of their episodes. The grammar's own verbs are carried out as ever.
        """
        self._driver.close()
        self._driver, self._read, self._call, self._code["actions"] = driver, read, call, name
        self._live, self._final = False, None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start the episode of a seed; without one, of a seed drawn from the last.

        `options` may hold condition, anchor, and policy, model and model_resolved (identity for the archive).
        """
        chosen = self._options(options)
        super().reset(seed=None if seed is None else check_seed(seed))
        instance_seed = int(self.np_random.integers(2**31)) if seed is None else seed
        condition = chosen.get("condition", self.condition)
        if condition == "mixed":
            condition = draw_condition(self.scenario, self.split, instance_seed)
        instance = generate(self.scenario, self.world, self.phenomenon, self.split, instance_seed)
        planned = plan(instance, self.phenomenon, condition, chosen.get("anchor", self.anchor))
        certificate = self.admit(instance, planned) if self.admit else ""
        # Only now: a reset that is refused leaves the episode before it as it was.
        self.instance, self.plan = instance, planned
        self._begin(chosen, certificate)
        return self._observe(""), self._info()

    def _options(self, options: dict[str, Any] | None) -> dict[str, str]:
        chosen = options or {}
        if not isinstance(chosen, Mapping):
            raise UsageError(f"reset options are a dict; got {type(chosen).__name__}")
        for name, value in chosen.items():
            if name not in _OPTIONS:
                raise UnknownName("reset option", name, _OPTIONS)
            if not isinstance(value, str):
                raise UsageError(f"reset option {name!r} is a str; got {type(value).__name__}")
        if "condition" in chosen:
            check_condition(self.scenario, chosen["condition"])
        if "anchor" in chosen:
            check_anchor(chosen["anchor"])
        return chosen

    def _begin(self, chosen: Mapping[str, str], certificate: str) -> None:
        """Fill the database, put the start on record and show the first page."""
        instance = self.instance
        self._live, self._final = False, None
        self._database.load(instance.rows, instance.canary)
        self._pre = self._database.image()
        self._oneshot = OneShot(self.plan)
        self._identity = {
            "environment": instance.scenario.id,
            "split": instance.split,
            "seed": instance.seed,
            "condition": self.plan.condition,
            "anchor": self.plan.anchor,
            "instance": instance.digest,
            "brief": instance.brief,
            "certificate": certificate,
            "policy": chosen.get("policy", ""),
            "model": chosen.get("model", ""),
            "model_resolved": chosen.get("model_resolved", chosen.get("model", "")),
            **self._code,
        }
        self.ledger.restore((Start(self._identity, self.plan.to_json()),))
        self._app = Application(self.world, self._database, self.ledger, self._oneshot)
        self._step, self._frame, self._memo = 0, -1, ""
        self._actions: list[str] = []
        self._clock = perf_counter()
        self._driver.open(self._app)
        self._seen = self._driver.view()
        self._live = True

    def step(self, action: str) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Carry out one action; the verdict is in `info` at the last step only.

        An action after the end changes nothing and pays nothing. A fault of the software ends the episode, truncated,
        as an `infra_failure`; it is never raised.
        """
        if not self._live:
            return self._after_end()
        self._step += 1
        self._app.step = self._step
        parsed = self._read(action)
        raw = str.__str__(action) if isinstance(action, str) else f"<{type(action).__name__}>"
        fault, verb, cut, args = "", "", 0, tuple[str, ...]()
        if isinstance(parsed, grammar.ActionError):
            error = parsed.message
        else:
            verb, args = parsed.verb, parsed.args
            try:
                error, cut = self._carry_out(parsed)
                self._seen = self._driver.view()
            except Exception as problem:  # noqa: BLE001 - any fault of ours must end the episode uncounted
                error, fault = "the application failed", f"{type(problem).__name__}: {problem}"
        self._record(raw, verb, args, cut, error)
        if fault:
            # What was shown last is shown again: there may be no page any more.
            self.ledger.append(Fault(self._step, "infra_failure", fault))
            return self._finish("fault", error)
        if verb == "report" and not error:
            self.ledger.append(Report(self._step, dict(parsed.fields)))  # type: ignore[union-attr]
            return self._finish("report", "")
        if self._step >= self.scenario.budget:
            return self._finish("budget", error)
        return self._observe(error), 0.0, False, False, self._info()

    def _carry_out(self, action: grammar.Action) -> tuple[str, int]:
        """Do it; returns an error line or "", and how many code points a memo lost."""
        driver, args = self._driver, action.args
        match action.verb:
            case "click":
                return driver.click(args[0]), 0
            case "fill":
                return driver.fill(args[0], args[1]), 0
            case "select_option":
                return driver.select(args[0], args[1]), 0
            case "goto":
                return driver.goto(args[0]), 0
            case "go_back":
                return driver.back(), 0
            case "memo":
                self._memo = args[0][:MEMO_LIMIT]
                return "", max(0, len(args[0]) - MEMO_LIMIT)
        return "" if action.verb in ("report", "noop") else self._call(action), 0

    def _record(self, raw: str, verb: str, args: tuple[str, ...], cut: int, error: str) -> None:
        wall = (perf_counter() - self._clock) * 1000.0
        frame = self._shown
        self.ledger.append(Action(self._step, frame.number, frame.sha256, raw[:20_000], verb, args, cut, error, wall))
        line = clean(raw[:_LINE], _LINE)
        self._actions.append(f"{line} -> {error}"[:_LINE] if error else line)

    def _observe(self, error: str) -> Observation:
        """Hand over what the page shows now, put it on record, and let it arm the trigger."""
        driver, view = self._driver, self._seen
        url, request = driver.url(), driver.request()
        self._frame += 1
        left = self.scenario.budget - self._step
        delivered = tuple([Delivered(*mark.value[1:], mark.value.text, mark.offset) for mark in view.marks])
        digest = frame_sha256(url, view.text, view.listing, view.notice, error, self._memo, left)
        frame = Frame(
            self._frame, self._step, request.number, url, view.text, view.listing, view.notice, error, self._memo,
            left, delivered, view.screenshot, digest,
        )  # fmt: skip
        self.ledger.append(frame)
        self._shown = frame
        self._oneshot.deliver(frame, request)
        return self._observation(frame)

    def _observation(self, frame: Frame) -> Observation:
        screen = self._driver.screen
        return {
            **({} if screen is None else {"screenshot": screen.pixels(frame.screenshot)}),
            "goal": self.instance.brief,
            "url": frame.url,
            "page": frame.page,
            "elements": frame.elements,
            "notice": frame.notice,
            "error": frame.error,
            "memo": frame.memo,
            "last_actions": "\n".join(self._actions[-ACTIONS_SHOWN:]),
            "budget_left": np.array([frame.budget_left], np.int32),
        }

    def _finish(self, reason: str, error: str) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Close the record, grade it, and pay."""
        self._live = False
        observation = self._observe(error)
        self.ledger.append(End(self._step, reason))
        verdict = self._verifier(self.evidence())
        self._final = observation
        info = self._info()
        info["verdict"] = Told(verdict.info())
        return observation, float(verdict.reward), reason == "report", reason != "report", info

    def _after_end(self) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        if self._final is None:
            raise UsageError("step() before reset(): call reset() to start an episode")
        observation = self._observation(self._shown)
        observation["error"] = "the episode is over; call reset() to start another"
        return observation, 0.0, True, False, self._info()

    def _info(self) -> dict[str, Any]:
        return {"episode": f"{self.split}/{self.instance.seed}", "step": self._step}

    def evidence(self) -> Evidence:
        """All evidence so far: the records, and the state before the episode and now."""
        return Evidence(self.ledger.records(), self.state_before(), self.state_now())

    def state_before(self) -> State:
        """Every table as it was before the episode."""
        return self._database.state(self._pre)

    def state_now(self) -> State:
        """Every table as it is now."""
        return self._database.state()

    def snapshot(self) -> Snapshot:
        """The episode as it stands, for `restore`. Raises UsageError when none is running."""
        if not self._live:
            raise UsageError("snapshot() needs a running episode")
        return Snapshot(
            self._database.image(),
            self._driver.snapshot(),
            self.ledger.records(),
            self._oneshot.state(),
            self._app.number,
            self._step,
            self._memo,
            tuple(self._actions),
            self._shown,
            self.instance,
            self.plan,
            self._identity,
            self._pre,
        )

    def restore(self, snapshot: Snapshot, condition: str | None = None) -> Observation:
        """Go back to a snapshot, and return its observation.

        With a `condition` the episode goes on as that arm of the same instance, which is possible until the change has
        fired: up to there all arms are the same, but for the review step. Raises UsageError after it, where the other
        arm's change would have fired, and after a visit of a review step that the two arms do not share.
        """
        planned, identity, records = snapshot.plan, dict(snapshot.identity), snapshot.records
        if snapshot.instance.scenario != self.scenario:
            raise UsageError(f"this is a snapshot of {snapshot.instance.scenario.id}, not of {self.scenario.id}")
        oneshot = OneShot(planned)
        oneshot.restore(snapshot.oneshot)
        if condition is not None and condition != planned.condition:
            if condition not in self.scenario.conditions:
                raise UnknownName(f"condition of {self.scenario.id}", condition, self.scenario.conditions)
            if snapshot.oneshot[1]:
                raise UsageError("the change has fired already: the arms have parted, restore without a condition")
            planned = plan(snapshot.instance, self.phenomenon, condition, planned.anchor)
            if planned.review != snapshot.plan.review and any(
                isinstance(record, Request) and record.route == planned.review_route for record in records
            ):
                raise UsageError("the review step has been shown: the arms have parted, restore without a condition")
            oneshot = replayed(planned, records, self.world.reviewed)
            identity["condition"] = condition
            records = (Start(identity, planned.to_json()), *records[1:])
        # Only now: a restore that is refused leaves the episode as it was.
        self.instance, self.plan, self._identity = snapshot.instance, planned, identity
        self._pre = snapshot.pre
        self._database.restore(snapshot.image)
        self._oneshot = oneshot
        self.ledger.restore(records)
        self._app = Application(self.world, self._database, self.ledger, self._oneshot)
        self._app.number, self._app.step = snapshot.number, snapshot.step
        self._step, self._memo, self._actions = snapshot.step, snapshot.memo, list(snapshot.actions)
        self._shown, self._frame = snapshot.frame, snapshot.frame.number
        self._live, self._final = True, None
        self._driver.restore(snapshot.driver, self._app)
        self._seen = self._driver.view()
        return self._observation(self._shown)

    def screenshot(self, name: str) -> bytes:
        """The file that a frame of this episode names as its screenshot, as PNG."""
        return self._driver.screen.png(name) if self._driver.screen else b""

    def render(self) -> str | Pixels | None:  # type: ignore[override]
        """The page: its text and elements (render_mode "ansi"), or its picture ("rgb_array")."""
        screen, shown = self._driver.screen, self._shown
        if self.render_mode == "rgb_array" and screen is not None:
            return screen.pixels(shown.screenshot)
        if self.render_mode is None:
            return None
        return f"{shown.url}\n{shown.page}\n\n{shown.elements}\n\nmemo: {shown.memo}\nleft: {shown.budget_left}"

    def __reduce_ex__(self, protocol: object) -> Any:
        """Refuse to be copied or pickled: the database is open."""
        raise UsageError("an environment holds an open database: use snapshot() and restore(), or make another one")

    def close(self) -> None:
        """Free the database and the driver; a second call does nothing."""
        self._live = False
        self._driver.close()
        self._database.close()
