"""One environment in process and in Chromium, played side by side; and a policy that does anything at random."""

import re
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium

from envos.certify.policies import Policy, Steps
from envos.certify.policies.reading import NotFound, elements
from envos.envs.action import click, fill, go_back, goto, memo, report, select_option
from envos.envs.env import EnvOS
from envos.envs.evidence import Action, Frame, Record
from envos.envs.streams import Stream

OPTION = re.compile(r'"([^"]*)"')
NASTY = (
    "<script>alert(1)</script>",
    '" autofocus onfocus="alert(1)',
    "&amp;&lt;b&gt;&copy=1",
    "a  b\t c",
    "שלום مرحبا",
    "e\u0301 \U0001f469\u200d\U0001f4bb \ufeff\u00ad",
    "\\ [1] | ## !",
    "~*'()-._ +%20&=?#/",
    "%zz%41%e9",
    "a" * 300,
    "\x00\x1b\u202e",
    "",
)
PATHS = (
    "/",
    "/nowhere",
    "/a/../inbox",
    "/./inbox?x=~*'()&y=%20 z&z=é",
    "/a b?c=d e#f",
    "/%2e%2E/inbox",
    "/inbox\\..\\",
    "/inbox/",
    '/x^y|z`{}"<>?^|`{}"<>\'',
    "/é/😀?ü",
    "/" + "é" * 200,
    "//other.test/",
    "https://other.test/",
    "javascript:alert(1)",
    "/inbox?",
)


class Pair:
    """One environment twice, in process and in Chromium; each step is done in both, and must give the same."""

    def __init__(self, environment: str, **kwargs: Any) -> None:
        self.envs = [
            gymnasium.make(f"envos:{environment}", driver=driver, disable_env_checker=True, **kwargs).unwrapped
            for driver in ("inprocess", "chromium")
        ]
        self.actions: list[str] = []

    def close(self) -> None:
        """Close both."""
        for env in self.envs:
            env.close()

    @property
    def direct(self) -> EnvOS:
        """The one in process."""
        env = self.envs[0]
        assert isinstance(env, EnvOS)
        return env

    @property
    def shown(self) -> EnvOS:
        """The one in Chromium."""
        env = self.envs[1]
        assert isinstance(env, EnvOS)
        return env

    def reset(self, seed: int, options: dict[str, str] | None = None) -> dict[str, Any]:
        """Start an episode in both."""
        self.actions = []
        one, other = (env.reset(seed=seed, options=options) for env in self.envs)
        assert one[1] == other[1]
        return self.same(one[0], other[0])

    def step(self, action: str) -> tuple[dict[str, Any], bool, dict[str, Any]]:
        """Do one action in both; returns the observation, whether the episode is over, and the info."""
        self.actions.append(action)
        one, other = (env.step(action) for env in self.envs)
        assert one[1:] == other[1:], self.actions
        return self.same(one[0], other[0]), bool(one[2] or one[3]), one[4]

    def same(self, one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
        """The observation in process, which must be the other but for its screenshot."""
        for name, value in one.items():
            assert value == other[name], (name, self.actions)
        assert set(other) - set(one) <= {"screenshot"}
        return dict(one)

    def compare(self) -> None:
        """Hold the evidence of both against each other: every record, the state, the digest."""
        one, other = self.direct.evidence(), self.shown.evidence()
        assert [quiet(record) for record in one.records] == [quiet(record) for record in other.records], self.actions
        assert one.pre == other.pre
        assert one.post == other.post
        assert one.digest == other.digest

    def play(self, policy: Policy, seed: int, options: dict[str, str] | None = None) -> Mapping[str, Any]:
        """Play an episode by what the policy sees in process; returns the verdict."""
        observation = self.reset(seed, options)
        steps = policy(dict(observation))
        action, over = next(steps), False
        while not over:
            observation, over, info = self.step(action)
            try:
                action = steps.send(dict(observation))
            except (StopIteration, NotFound):
                action = "noop()"
        steps.close()
        self.compare()
        verdict: Mapping[str, Any] = info["verdict"]
        return verdict


def quiet(record: Record) -> Record:
    """A record without what two equal episodes do not share."""
    if isinstance(record, Action):
        return record._replace(wall_ms=0.0)
    return record._replace(screenshot="") if isinstance(record, Frame) else record


def wander(stream: Stream, routes: tuple[str, ...], length: int) -> Callable[[dict[str, Any]], Steps]:
    """A policy that does anything at random: every verb, every kind of element, nasty texts and addresses."""

    def act(observation: dict[str, Any]) -> Steps:
        for _ in range(length):
            seen, draw = elements(observation), stream.random()
            if draw < 0.08:
                observation = yield goto(stream.pick(routes))
            elif draw < 0.16:
                observation = yield goto(stream.pick(PATHS))
            elif draw < 0.24:
                observation = yield go_back()
            elif draw < 0.26:
                observation = yield memo(stream.pick(NASTY))
            elif draw < 0.28 or not seen:
                observation = yield click(str(stream.below(90)))
            else:
                # Fields and buttons before links, or a walk seldom sends a form.
                fields = [one for one in seen if one.role != "link"]
                one = stream.pick(fields if fields and stream.chance(0.6) else seen)
                if one.role == "textbox":
                    observation = yield fill(one.at, stream.pick(NASTY))
                elif one.role == "combobox":
                    listed = next(
                        line for line in observation["elements"].split("\n") if line.startswith(f"[{one.at}] ")
                    )
                    options = OPTION.findall(listed.partition(" options=")[2])
                    observation = yield select_option(one.at, stream.pick([*options, "none"]))
                else:
                    observation = yield click(one.at)
        yield report(anything="x")

    return act
