"""The episodes of several policies on one instance, as a tree: what two of them have in common is played once.

An episode is a function of instance, condition, anchor and actions (E22 holds certification to it), so a policy that
acts as another one did is shown the same observations, and the environment goes on from a snapshot where it first acts
otherwise.
"""

from collections.abc import Mapping
from typing import Any

from envos.certify.log import Log, read
from envos.certify.policies import Policy
from envos.certify.policies.reading import NotFound
from envos.certify.rollout import Episode
from envos.envs.app import Redirect
from envos.envs.env import EnvOS, Snapshot
from envos.envs.evidence import Evidence
from envos.envs.instance import Instance
from envos.envs.page import Page
from envos.envs.perturbation import Plan


class Node:
    """One moment: the observation, the snapshot (None after the end), what followed each action, and how it ended."""

    __slots__ = ("children", "evidence", "log", "observation", "reward", "snapshot", "verdict")

    def __init__(self, observation: Mapping[str, Any], snapshot: Snapshot | None) -> None:
        self.observation = observation
        self.snapshot = snapshot
        self.children: dict[str, Node] = {}
        self.verdict: Mapping[str, Any] | None = None
        self.reward = 0.0
        self.evidence: Evidence | None = None
        self.log: Log | None = None


class Tree:
    """All episodes so far of one instance under one condition and anchor."""

    def __init__(self, env: EnvOS, seed: int, options: Mapping[str, str]) -> None:
        observation, _ = env.reset(seed=seed, options=dict(options))
        self.env = env
        self.instance: Instance = env.instance
        self.plan: Plan = env.plan
        self.root = Node(observation, env.snapshot())
        self.pages: Mapping[str, Page | Redirect | None] | None = None
        self._at: Node | None = self.root

    def play(self, policy: Policy) -> tuple[Episode, Evidence, Log]:
        """One policy's episode to its end, its evidence and log.

        As in `rollout.go_on`, a policy that gives up does nothing until the end.
        """
        node, actions = self.root, []
        steps = policy(dict(node.observation))
        action = next(steps)
        while True:
            actions.append(action)
            node = self.after(node, action)
            if node.verdict is not None and node.evidence is not None and node.log is not None:
                steps.close()
                episode = Episode(node.verdict, node.reward, len(actions), tuple(actions))
                return episode, node.evidence, node.log
            try:
                action = steps.send(dict(node.observation))
            except (StopIteration, NotFound):
                action = "noop()"

    def after(self, node: Node, action: str) -> Node:
        """The moment after an action: the one that is known, or else a new one, played from the node's snapshot."""
        known = node.children.get(action)
        if known is not None:
            return known
        env = self.env
        if self._at is not node and node.snapshot is not None:
            env.restore(node.snapshot)
        observation, reward, terminated, truncated, info = env.step(action)
        ended = terminated or truncated
        made = node.children[action] = self._at = Node(observation, None if ended else env.snapshot())
        if ended:
            made.verdict, made.reward, made.evidence = dict(info["verdict"]), float(reward), env.evidence()
            made.log = read(made.evidence.records, self.plan)
        return made

    def leave(self) -> None:
        """Tell the tree that its environment was used otherwise: it goes on from a snapshot the next time."""
        self._at = None

    def walk(self, actions: tuple[str, ...]) -> list[Node]:
        """The moments along known actions, the first one included."""
        nodes = [self.root]
        for action in actions:
            nodes.append(nodes[-1].children[action])
        return nodes
