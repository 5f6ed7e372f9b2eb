"""What reviewers broke, once each: the kind of fault stands in the test's docstring."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import pytest

from envos.certify.policies import Observation, Steps, policies
from envos.certify.policies.clinic import case, confirm, finish, read_appointments, read_place, settle
from envos.certify.policies.reading import choose, elements, follow, press, rows
from envos.certify.rollout import play
from envos.envs.action import click
from envos.envs.env import EnvOS
from envos.envs.evidence import Action, End, Evidence, Frame, Record, Report, Request, Start, Write, frame_sha256
from envos.errors import UnknownName, UsageError
from envos.rewards.verdict import verify
from envos.wrappers.archive import LEDGER, MANIFEST, PRE, Archive, LedgerFile, manifest, read_archive, write_json

CLINIC = "envos:EnvOS/ClinicStale-v0"


def made(condition: str, anchor: str = "first") -> tuple[gymnasium.Env[Any, str], EnvOS]:
    env = gymnasium.make(CLINIC, condition=condition, anchor=anchor, split="test")
    inner = env.unwrapped
    assert isinstance(inner, EnvOS)
    return env, inner


def recorded(condition: str = "OFF-A", policy: str = "late_reread") -> Evidence:
    env, inner = made(condition)
    play(env, policies("clinic")[policy].policy, 1)
    evidence = inner.evidence()
    env.close()
    return evidence


def somebody_else(observation: Observation) -> Steps:
    """Books the referral of another patient and never opens the form of the right one."""
    known = case(observation)
    observation = yield from read_place(observation, known)
    observation = yield from read_appointments(observation, known)
    observation = yield from follow(observation, "Referrals")
    others = [cells[0] for cells in rows(observation) if cells[0].startswith("R-") and cells[-1] == "open"]
    known.referral = next(other for other in others if other != known.referral)
    observation = yield from follow(observation, known.referral)
    observation = yield from follow(observation, "Book appointment")
    observation = yield from settle(observation, known)
    observation = yield from choose(observation, known.place)
    observation = yield from press(observation, "Continue")
    observation = yield from settle(observation, known)
    times = [seen.at for seen in elements(observation) if seen.role == "link" and ":" in seen.label]
    observation = yield click(times[0])
    observation = yield from settle(observation, known)
    observation = yield from confirm(observation, known)
    yield from finish(observation, known)


@pytest.mark.parametrize("condition", ["OFF-A", "CUE-A", "LIVE-A", "LIVE-I", "L2"])
def test_a_commit_for_somebody_else_is_a_failure_that_counts(condition: str) -> None:
    """No arm lets an agent turn a failure into an uncounted episode by committing for another subject."""
    env, _ = made(condition)
    verdict = play(env, somebody_else, 1).verdict
    assert (verdict["validity"], verdict["endpoint"]) == ("counted", False)
    env.close()


def test_a_second_commit_that_only_the_access_log_has() -> None:
    """A form sent again is one commit only where its answer leads to the row of the first."""
    evidence = recorded()
    records = list(evidence.records)
    posts = [(at, item) for at, item in enumerate(records) if isinstance(item, Request) and item.method == "POST"]
    at, first = posts[0]
    assert first.location.startswith("/appointments/")
    path = first.location.partition("?")[0]
    row = int(path.rpartition("/")[2])

    def again(location: str) -> Evidence:
        """The same form sent again in a step of its own, and everything after it numbered anew."""
        where = location.partition("?")[0]
        end = next(place for place in range(at, len(records)) if isinstance(records[place], Frame)) + 1
        step = [item for item in records[at:end] if not isinstance(item, Write)]
        done = [*records[:end], *map(later, [*step, *records[end:]])]
        last = ""
        for place, item in enumerate(done):
            if place >= end and isinstance(item, Request) and item.number == first.number + 2:
                item = item._replace(location=location)
            elif place >= end and isinstance(item, Request) and item.number == first.number + 3:
                item = item._replace(path=where)
            elif isinstance(item, Frame) and place >= end:
                url = where if item.request == first.number + 3 else item.url
                digest = frame_sha256(
                    url, item.page, item.elements, item.notice, item.error, item.memo, item.budget_left
                )
                item = item._replace(url=url, sha256=digest)
            elif isinstance(item, Action):
                item = item._replace(frame_sha256=last)
            last = item.sha256 if isinstance(item, Frame) else last
            done[place] = item
        return replace(evidence, records=tuple(done))

    assert verify(again(f"{path}?again=1")).endpoint is True
    for location in (f"{path}?created=1", f"/appointments/{row + 1}?created=1"):
        verdict = verify(again(location))
        assert verdict.counted, verdict.reasons
        assert not verdict.invariants["I2"].passed, location


def later(item: Record) -> Record:
    """A record as it is after one more step of two requests."""
    if isinstance(item, Request):
        return item._replace(number=item.number + 2, step=item.step + 1)
    if isinstance(item, Write):
        return item._replace(request=item.request + 2)
    if isinstance(item, Action):
        return item._replace(step=item.step + 1, frame=item.frame + 1)
    if isinstance(item, Frame):
        left = item.budget_left - 1
        return item._replace(number=item.number + 1, step=item.step + 1, request=item.request + 2, budget_left=left)
    assert isinstance(item, Report | End)
    return item._replace(step=item.step + 1)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"raw": "noop()", "verb": "noop", "args": ()}, "request_unasked"),
        ({"raw": "?", "verb": "", "args": (), "error": "?"}, "request_unasked"),
        ({"raw": 'click("1")'}, "action_differs"),
        ({"verb": "go_back", "args": ()}, "action_differs"),
    ],
)
def test_the_commit_is_of_an_action_that_asks(change: dict[str, Any], code: str) -> None:
    """What is done in the agent's name was asked for by the agent's own reply."""
    evidence = recorded()
    records = list(evidence.records)
    commit = next(at for at, item in enumerate(records) if isinstance(item, Write) and item.table == "appointment")
    at = next(place for place in range(commit, len(records)) if isinstance(records[place], Action))
    records[at] = records[at]._replace(**change)  # type: ignore[call-arg]
    verdict = verify(replace(evidence, records=tuple(records)))
    assert (verdict.validity, verdict.reasons[0].code) == ("harness_error", code)


def test_a_refused_reset_leaves_the_episode_as_it_was() -> None:
    """A reset or a restore that raises changes nothing: no goal of one instance over the rows of another."""
    env, inner = made("OFF-A")
    observation, info = env.reset(seed=1)
    goal, snapshot = observation["goal"], inner.snapshot()

    def refuse(*_: object) -> str:
        raise UsageError("not admitted")

    inner.admit = refuse
    with pytest.raises(UsageError, match="not admitted"):
        env.reset(seed=2)
    observation, _, _, _, info = env.step("noop()")
    assert (observation["goal"], info["episode"]) == (goal, "test/1")
    inner.admit = None
    env.reset(seed=3)
    for name in ("mixed", "L9"):
        with pytest.raises(UnknownName):
            inner.restore(snapshot, name)
    assert (inner.instance.seed, inner.plan.condition) == (3, "OFF-A")
    with pytest.raises(UsageError, match="a dict"):
        env.reset(seed=1, options=["condition"])  # type: ignore[arg-type]
    env.close()


def test_a_snapshot_does_not_cross_arms_that_have_shown_different_pages() -> None:
    """One episode's frames are all of one arm: after the review step was seen, its disclosure cannot change."""
    env, inner = made("LIVE-A")
    env.reset(seed=1)
    at = inner.instance.task["referral"]
    slot = next(row[0] for row in inner.instance.rows["slot"] if row[-1] == "free")
    observation, *_ = env.step(f'goto("/new/review?referral={at}&slot={slot}")')
    assert "The session is held at" in observation["page"]
    snapshot = inner.snapshot()
    inner.restore(snapshot, "LIVE-I")
    with pytest.raises(UsageError, match="review step"):
        inner.restore(snapshot, "OFF-A")
    env.close()


class Odd(str):
    """Text that does not slice as text does."""

    __slots__ = ()

    def __getitem__(self, _: object) -> Any:
        return 5


@pytest.mark.parametrize("raw", [Odd("noop()"), "\ud800", "\x1b[2J\x00", "a\u2028b"])
def test_every_observation_is_printable_text(raw: str) -> None:
    """Whatever the reply is, the list of past actions can be printed, encoded and stored."""
    env, inner = made("OFF-A")
    env.reset(seed=1)
    observation, *_ = inner.step(raw)
    assert observation["last_actions"].isprintable()
    observation["last_actions"].encode()
    env.close()


def archive(root: Path) -> Path:
    env = Archive(gymnasium.make(CLINIC, condition="OFF-A", anchor="first", split="test"), root)
    play(env, policies("clinic")["late_reread"].policy, 1)
    env.close()
    assert env.folder is not None
    return env.folder


FORGED: dict[str, Callable[[Start], Start]] = {
    "instance": lambda start: start._replace(identity={**start.identity, "seed": 5}),
    "plan": lambda start: start._replace(plan={**start.plan, "announced": True}),
    "plan ": lambda start: start._replace(
        identity={**start.identity, "condition": "L2"}, plan={**start.plan, "condition": "L2"}
    ),
    "identity": lambda start: start._replace(identity={}),
    "identity ": lambda start: start._replace(identity={**start.identity, "split": ["test"]}),
}


@pytest.mark.parametrize("name", FORGED)
def test_an_archive_is_not_believed_its_task(name: str, tmp_path: Path) -> None:
    """Instance and plan follow from the seed: an archive relabelled and sealed anew does not count."""
    folder = archive(tmp_path)
    evidence = read_archive(folder)
    assert (evidence.problems, verify(evidence).endpoint) == ((), True)
    ledger = LedgerFile(folder)
    for record in (FORGED[name](evidence.start), *evidence.records[1:]):
        ledger.append(record)
    ledger.close()
    (folder / MANIFEST).unlink()
    write_json(folder / MANIFEST, manifest(folder, ledger.head))
    found = read_archive(folder)
    assert any(problem.startswith(f"{name.strip()}: ") for problem in found.problems)
    assert verify(found).validity == "harness_error"


def test_an_archive_is_not_believed_its_state_before(tmp_path: Path) -> None:
    """The rows before the episode are those of the instance."""
    folder = archive(tmp_path)
    data = json.loads((folder / PRE).read_text())
    data["location"]["rows"][0][1] = "Elsewhere"
    write_json(folder / PRE, data)
    assert "state_before: table location is not as the instance has it" in read_archive(folder).problems


@pytest.mark.parametrize(
    "text",
    ["[" * 100_000, '{"files":[[1,"x"],["a","y"]],"format":"1","head":""}', '{"files":null}', "NaN", "5"],
)
@pytest.mark.parametrize("name", [MANIFEST, PRE, LEDGER])
def test_odd_files_are_problems(name: str, text: str, tmp_path: Path) -> None:
    """Whatever stands in an archive's file is listed as a problem; nothing is raised."""
    folder = archive(tmp_path)
    (folder / name).write_text(text + "\n")
    found = read_archive(folder)
    assert found.problems
    assert verify(found).validity == "harness_error"


def test_a_name_given_twice_is_a_problem(tmp_path: Path) -> None:
    """What two readers may read in two ways is read by neither."""
    folder = archive(tmp_path)
    text = (folder / PRE).read_text()
    (folder / PRE).write_text(text.replace("{", '{"slot":{"columns":["id"],"rows":[]},', 1))
    (folder / MANIFEST).unlink()
    write_json(folder / MANIFEST, manifest(folder, json.loads((archive(tmp_path) / MANIFEST).read_text())["head"]))
    assert any(problem.startswith("state_unreadable: pre.json") for problem in read_archive(folder).problems)


def test_problems_can_be_printed(tmp_path: Path) -> None:
    """A file name that is no UTF-8 is told in text that can be written."""
    folder = archive(tmp_path)
    try:
        (folder / "\udcff").write_text("")
    except (OSError, UnicodeError):
        pytest.skip("this file system takes no such name")
    problems = read_archive(folder).problems
    assert problems
    assert "".join(problems).encode()


def test_two_writers_of_one_root(tmp_path: Path) -> None:
    """Two processes that archive the same episode into one root get a folder each."""
    one, two = (Archive(gymnasium.make(CLINIC, condition="L0"), tmp_path) for _ in range(2))
    one.reset(seed=1)
    two.reset(seed=1)
    assert one.folder != two.folder
    one.close()
    two.close()
