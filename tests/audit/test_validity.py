"""The validity auditor accepts every valid episode, names the class of each corruption, stands alone (E24, E31, E36).

Corruptions come in two strengths: raw (files edited, digests left) and re-sealed (every digest and the chain computed
anew, so that only the contradiction itself can give it away). The classes are those of protocol sections 6 and 9.
"""

import ast
import copy
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import gymnasium
import pytest
from sealed import NAMES, Data, Forgery, move_firing, retext, sha, text_of, unshow

from envos.certify.audit import validity
from envos.certify.policies import Observation, Policy, Steps, policy
from envos.certify.policies.clinic import POLICIES, case, finish, prepare, read_place, reread, settle, to_review
from envos.certify.policies.reading import press, select
from envos.certify.rollout import play
from envos.envs.action import Action as Parsed
from envos.envs.action import goto, noop, parse, report
from envos.envs.env import EnvOS
from envos.envs.page import clean
from envos.envs.scenario import SCENARIOS
from envos.wrappers.archive import Archive

SOURCE = Path(validity.__file__)
SEED = 7


# --- Episodes --------------------------------------------------------------------------------------------------------


def early_form(observation: Observation) -> Steps:
    """Opens the form before it reads the source, and works on properly from there."""
    known = case(observation)
    observation = yield goto(f"/new/clinic?referral={TASK['referral']}")
    observation = yield from prepare(observation, known)
    observation = yield from reread(observation, known)
    observation = yield from press(observation, "Confirm booking")
    yield from finish(observation, known)


def source_editor(observation: Observation) -> Steps:
    """Moves the session itself before the change fires, and books where it is then."""
    known = case(observation)
    observation = yield from read_place(observation, known)
    observation = yield goto(f"/sessions/{TASK['session']}/edit")
    options = next(line for line in observation["elements"].split("\n") if '"New place"' in line).split("; ")
    place = next(text for option in options[1:] if (text := option.strip('"')) not in (known.place, NEW_TEXT[0]))
    observation = yield from select(observation, "New place", place)
    observation = yield from press(observation, "Save session")
    observation = yield from prepare(observation, known)
    observation = yield from press(observation, "Confirm booking")
    yield from finish(observation, known)


def canceller(observation: Observation) -> Steps:
    """Books, cancels, books again."""
    known = case(observation)
    observation = yield from prepare(observation, known)
    observation = yield from press(observation, "Confirm booking")
    observation = yield from press(observation, "Cancel appointment")
    observation = yield from to_review(observation, known)
    observation = yield from press(observation, "Confirm booking")
    observation = yield from settle(observation, known)
    yield from finish(observation, known)


def wanderer(observation: Observation) -> Steps:
    """Error pages, odd addresses, malformed replies, a memo that is too long; then nothing to the end."""
    known = case(observation)
    observation = yield from read_place(observation, known)
    for raw in (
        'goto("/sessions?place=1&provider=")',
        "goto('/sessions/3?changed=1&x=%20a%0ab#top')",
        'goto("/nowhere/1/x/2")',
        'goto("//elsewhere")',
        "prefix(",
        'memo(text="' + "m\\u00e9" * 200 + '")',
        "click(1)",
        'fill("1", "x")',
        " go_back( ) ",
        'goto("/new/review?referral=999&slot=1")',
        f'goto("/new/review?referral={TASK["referral"]}&slot=1")',
        f'goto("/new/review?referral={TASK["referral"]}&slot=abc")',
        'goto("/notices/1/acknowledge")',
        'goto("/inbox/1")',
        'goto("/refused?code=not_found")',
        "\ud800",
    ):
        observation = yield raw
    while True:
        observation = yield noop()


def early_end(observation: Observation) -> Steps:
    """Fires the change and reports at once."""
    known = case(observation)
    observation = yield from read_place(observation, known)
    observation = yield goto(f"/new/clinic?referral={TASK['referral']}")
    yield report(location="?", start="?", reference="?")


TASK: dict[str, int] = {}
NEW_TEXT = [""]
OWN: dict[str, Policy] = {own.__name__: own for own in (early_form, source_editor, canceller, wanderer, early_end)}
EPISODES = (
    ("L0", "reference"),
    ("C", "reference"),
    ("C", "over_apply"),
    ("L2", "reference"),
    ("L2", "stale"),
    ("OFF-A", "late_reread"),
    ("OFF-A", "reference"),
    ("OFF-A", "commit_twice"),
    ("OFF-A", "report_only"),
    ("OFF-A", "random"),
    ("OFF-A", "no_op"),
    ("CUE-A", "follow_cue"),
    ("CUE-A", "late_reread"),
    ("LIVE-A", "read_review"),
    ("LIVE-A", "reference"),
    ("OFF-I", "reference"),
    ("LIVE-I", "reference"),
    ("OFF-A", "early_form"),
    ("OFF-A", "source_editor"),
    ("OFF-A", "canceller"),
    ("LIVE-A", "wanderer"),
    ("L2", "wanderer"),
    ("L2", "early_end"),
    ("LIVE-A", "early_end"),
)
Archives = dict[tuple[str, str], Path]


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Archives]:
    """One archive for each condition and policy of EPISODES."""
    env = Archive(
        gymnasium.make("envos:EnvOS/ClinicStale-v0", split="test", anchor="first"), tmp_path_factory.mktemp("run")
    )
    inner = env.unwrapped
    assert isinstance(inner, EnvOS)
    made: Archives = {}
    for condition, name in EPISODES:
        options = {"condition": condition, "policy": name, "model": "m-1"}
        env.reset(seed=SEED, options=options)
        TASK.update({key: int(value) for key, value in inner.plan.task.items() if isinstance(value, int)})
        NEW_TEXT[0] = inner.plan.new_text
        shutil.rmtree(env.folder)  # type: ignore[arg-type]
        play(env, OWN[name] if name in OWN else POLICIES[name].policy, SEED, options)
        assert env.folder is not None
        made[condition, name] = env.folder
    yield made
    env.close()


@pytest.mark.parametrize("episode", EPISODES, ids="-".join)
def test_valid_episodes_have_the_live_class_and_no_broken_rule(archives: Archives, episode: tuple[str, str]) -> None:
    live = json.loads((archives[episode] / "verdict.json").read_text())
    result = validity.audit(archives[episode])
    assert result["class"] == live["validity"] == result["claimed"], result["reasons"]
    assert result["counted"] == live["counted"] == (not result["reasons"])
    if result["counted"]:
        assert [term for term, entry in result["terms"].items() if entry["passed"] is None] == []


@pytest.fixture(scope="module")
def claims(tmp_path_factory: pytest.TempPathFactory) -> Archives:
    """An archive of the claims office for each condition and some policies; the anchor is the drawn one for half."""
    made: Archives = {}
    for anchor, names in (
        ("first", ("late_reread", "commit_twice", "no_op")),
        ("any", ("reference", "random", "deny")),
    ):
        env = Archive(gymnasium.make("envos:EnvOS/ClaimsStale-v0", anchor=anchor), tmp_path_factory.mktemp(anchor))
        for name in names:
            for condition in SCENARIOS["EnvOS/ClaimsStale-v0"].conditions:
                play(env, policy("claims", name).policy, SEED, {"condition": condition, "policy": name})
                assert env.folder is not None
                made[condition, name] = env.folder
        env.close()
    return made


def test_valid_episodes_of_the_claims_office(claims: Archives) -> None:
    classes: Counter[tuple[str, bool]] = Counter()
    for path in claims.values():
        live, result = json.loads((path / "verdict.json").read_text()), validity.audit(path)
        assert (result["class"], result["counted"]) == (live["validity"], live["counted"]), result["reasons"]
        assert result["untriggered"] == live["untriggered"]
        classes[result["class"], result["counted"]] += 1
    # An episode that never came to the change counts there, as a failure.
    assert set(classes) == {("counted", True), ("not_triggered", True)}


def test_the_classes_that_the_episodes_are_meant_to_have(archives: Archives) -> None:
    uncounted = {episode: validity.audit(path)["class"] for episode, path in archives.items()}
    assert {episode: name for episode, name in uncounted.items() if name != "counted"} == {
        ("OFF-A", "random"): "not_triggered",
        ("OFF-A", "no_op"): "not_triggered",
        ("L2", "early_end"): "delivery_ambiguous",
    }


# --- Forging ---------------------------------------------------------------------------------------------------------


Forge = Callable[[Forgery], None]
CASES: list[tuple[str, str, str, str, str, Forge]] = []
"""Name, condition, policy, class, rule, and the corruption."""


def forging(condition: str, policy: str, expected: str, term: str) -> Callable[[Forge], Forge]:
    """Enter a corruption of an episode, with the class and the rule that must say so."""

    def enter(forge: Forge) -> Forge:
        CASES.append((forge.__name__, condition, policy, expected, term, forge))
        return forge

    return enter


# Delivery.


@forging("L2", "reference", "delivery_ambiguous", "notice")
def notice_never_delivered(forged: Forgery) -> None:
    for frame in forged.all("frame"):
        if frame["notice"]:
            frame["notice"] = ""
            frame["page"] = frame["page"].split("\n", 3)[3]


@forging("L2", "reference", "delivery_ambiguous", "notice")
def notice_with_the_old_value(forged: Forgery) -> None:
    for frame in forged.all("frame"):
        for name in ("notice", "page"):
            if frame["notice"]:
                frame[name] = frame[name].replace(forged.plan["new_text"], forged.plan["arm_text"], 1)


@forging("LIVE-A", "reference", "delivery_ambiguous", "review")
def review_value_served_and_not_delivered(forged: Forgery) -> None:
    for frame in forged.frames_of(*forged.all("request", route="/new/review", status=200)):
        unshow(frame, "! The session is held at")


@forging("LIVE-A", "reference", "delivery_ambiguous", "review")
def review_value_not_even_served(forged: Forgery) -> None:
    review_value_served_and_not_delivered(forged)
    for request in forged.all("request", route="/new/review"):
        request["served"] = []


@forging("CUE-A", "late_reread", "delivery_ambiguous", "review")
def review_link_not_delivered(forged: Forgery) -> None:
    for frame in forged.all("frame"):
        frame["page"] = frame["page"].replace("Check the session record", "Help")
        frame["elements"] = frame["elements"].replace("Check the session record", "Help")


# The change.


@forging("OFF-A", "early_form", "trigger_invalid", "exposure")
def change_before_the_exposure(forged: Forgery) -> None:
    move_firing(forged, forged.one("request", route="/new/clinic"))


@forging("OFF-A", "late_reread", "trigger_invalid", "exposure")
def old_value_never_served(forged: Forgery) -> None:
    other = next(row[1] for row in forged.pre["location"]["rows"] if row[1] != forged.plan["arm_text"])
    for request in forged.served(old=True):
        request["served"] = [[*v[:3], other] if v[:3] == forged.plan["arm"] else v for v in request["served"]]
        for frame in forged.frames_of(request):
            retext(frame, forged.plan["arm"], other)


@forging("OFF-A", "late_reread", "trigger_invalid", "exposure")
def exposure_taken_out_of_both_logs(forged: Forgery) -> None:
    for request in forged.served(old=True):
        request["served"] = []
        for frame in forged.frames_of(request):
            frame["delivered"] = []


@forging("OFF-A", "late_reread", "harness_error", "exposure_log")
def exposure_not_in_the_page_text(forged: Forgery) -> None:
    for frame in forged.frames_of(*forged.served(old=True)):
        frame["page"] = frame["page"].replace(forged.plan["arm_text"], "x" * len(forged.plan["arm_text"]))


@forging("OFF-A", "late_reread", "trigger_invalid", "exposure")
def exposure_in_another_session(forged: Forgery) -> None:
    for request in forged.served(old=True):
        request["session"] = "s2"


@forging("OFF-A", "late_reread", "trigger_invalid", "exposure")
def armed_by_a_later_frame(forged: Forgery) -> None:
    forged.one("fire")["armed_by"] += 1


@forging("OFF-A", "late_reread", "trigger_invalid", "anchor")
def change_later_than_the_first_form_page(forged: Forgery) -> None:
    move_firing(forged, forged.one("request", route="/new/slot"))


@forging("OFF-A", "canceller", "trigger_invalid", "commit_order")
def commit_before_the_change(forged: Forgery) -> None:
    place = forged.at(forged.commit)
    later = [d for k, d in forged.records[place:] if k == "request" and d["route"] == "/new/clinic"]
    move_firing(forged, later[0])


@forging("OFF-A", "late_reread", "trigger_invalid", "own_request")
def change_in_the_harness_request(forged: Forgery) -> None:
    forged.firing["actor"] = "harness"


@forging("OFF-A", "late_reread", "trigger_invalid", "own_request")
def change_in_a_prefetch(forged: Forgery) -> None:
    forged.firing["via"] = "prefetch"


@forging("OFF-A", "late_reread", "trigger_invalid", "own_request")
def change_in_another_session(forged: Forgery) -> None:
    forged.firing["session"] = "s2"


@forging("OFF-A", "late_reread", "trigger_invalid", "single_firing")
def fire_record_twice(forged: Forgery) -> None:
    fire = forged.one("fire")
    forged.put(forged.at(fire), ("fire", dict(fire)))


@forging("OFF-A", "late_reread", "trigger_invalid", "single_firing")
def change_fired_again_with_its_writes(forged: Forgery) -> None:
    request = forged.all("request", route="/new/clinic")[-1]
    number = request["number"]
    columns = {"id": [None, 2], "request": [None, number]}
    guard = {"request": number, "actor": "perturbation", "op": "insert", "table": "perturbation_guard", "key": 2}
    forged.put(
        forged.at(request),
        ("write", {**guard, "columns": columns}),
        ("fire", {**forged.one("fire"), "request": number}),
    )
    forged.post["perturbation_guard"]["rows"].append([2, number])


@forging("OFF-A", "late_reread", "harness_error", "firing_log")
def fire_record_missing(forged: Forgery) -> None:
    forged.drop(forged.one("fire"))


@forging("OFF-A", "late_reread", "harness_error", "firing_log")
def guard_missing(forged: Forgery) -> None:
    forged.drop(forged.one("write", table="perturbation_guard"))
    forged.post["perturbation_guard"]["rows"] = []


@forging("L0", "reference", "harness_error", "firing_log")
def every_trace_of_the_firing_missing(forged: Forgery) -> None:
    for write in forged.all("write", actor="perturbation"):
        forged.drop(write)
    forged.drop(forged.one("fire"))
    forged.post["perturbation_guard"]["rows"] = []
    del forged.post["neutral"]["rows"][1:]


@forging("OFF-A", "late_reread", "trigger_invalid", "scope")
def change_touches_another_column(forged: Forgery) -> None:
    write = forged.one("write", table="clinic_session")
    row, place = forged.row("clinic_session", write["key"]), forged.cell("clinic_session", "provider_id")
    new = next(provider[0] for provider in forged.post["provider"]["rows"] if provider[0] != row[place])
    write["columns"]["provider_id"] = [row[place], new]
    row[place] = new


@forging("OFF-A", "late_reread", "trigger_invalid", "scope")
def change_touches_a_bystander(forged: Forgery) -> None:
    fire = forged.one("fire")
    row, place = forged.post["patient"]["rows"][-1], forged.cell("patient", "phone")
    columns = {"phone": [row[place], "555-0000"]}
    write = {"request": fire["request"], "actor": "perturbation", "op": "update", "table": "patient", "key": row[0]}
    forged.put(forged.at(fire), ("write", {**write, "columns": columns}))
    row[place] = "555-0000"


@forging("OFF-A", "late_reread", "trigger_invalid", "scope")
def change_after_the_handler_wrote(forged: Forgery) -> None:
    firing = forged.firing
    row = forged.post["message"]["rows"][0]
    place = forged.cell("message", "sender")
    write = {"request": firing["number"], "actor": "agent", "op": "update", "table": "message", "key": row[0]}
    first = forged.at(forged.one("write", actor="perturbation"))
    forged.put(first, ("write", {**write, "columns": {"sender": [row[place], "Nobody"]}}))
    row[place] = "Nobody"


@forging("OFF-A", "late_reread", "trigger_invalid", "agreement")
def history_row_disagrees_with_the_fact(forged: Forgery) -> None:
    write = forged.one("write", table="history")
    operation = next(item for item in forged.plan["operations"] if item["table"] == "history")
    for columns in (write["columns"], operation["columns"]):
        columns["new"][1] = forged.plan["arm_text"]
    forged.row("history", write["key"])[forged.cell("history", "new")] = forged.plan["arm_text"]


@forging("OFF-A", "late_reread", "trigger_invalid", "agreement")
def operations_miscounted(forged: Forgery) -> None:
    forged.one("fire")["operations"] = 2


@forging("L0", "reference", "trigger_invalid", "agreement")
def control_does_not_do_its_share(forged: Forgery) -> None:
    write = [write for write in forged.all("write", actor="perturbation") if write["table"] == "neutral"][-1]
    forged.drop(write)
    forged.plan["operations"].pop()
    forged.post["neutral"]["rows"].pop()
    forged.one("fire").update(operations=2, neutral=2)


@forging("OFF-A", "late_reread", "trigger_invalid", "freshness")
def stale_page_in_every_log(forged: Forgery) -> None:
    for request in forged.served(old=False):
        request["served"] = [
            [*v[:3], forged.plan["arm_text"]] if v[:3] == forged.plan["arm"] else v for v in request["served"]
        ]
        for frame in forged.frames_of(request):
            retext(frame, forged.plan["arm"], forged.plan["arm_text"])


@forging("OFF-A", "late_reread", "harness_error", "exposure_log")
def stale_page_in_the_frames(forged: Forgery) -> None:
    for frame in forged.frames_of(*forged.served(old=False)):
        retext(frame, forged.plan["arm"], forged.plan["arm_text"])


@forging("OFF-A", "late_reread", "trigger_invalid", "freshness")
def stale_page_in_the_text_alone(forged: Forgery) -> None:
    for request in forged.served(old=False):
        for frame in forged.frames_of(request):
            retext(frame, forged.plan["arm"], forged.plan["arm_text"])
            frame["delivered"] = []
        request["served"] = []


# The harness: evidence that contradicts itself.


@forging("OFF-A", "late_reread", "harness_error", "commit_log")
def second_commit_in_the_access_log_only(forged: Forgery) -> None:
    first = forged.at(forged.commit)
    last = next(place for place in range(first, len(forged.records)) if forged.records[place][0] == "frame")
    begin = first - len([1 for kind, _ in forged.records[first - 2 : first] if kind == "write"])
    again = [record for record in copy.deepcopy(forged.records[begin : last + 1]) if record[0] != "write"]
    forged.put(last + 1, *again)
    forged.renumber()


@forging("OFF-A", "late_reread", "harness_error", "commit_log")
def second_commit_in_the_state(forged: Forgery) -> None:
    write = forged.one("write", table="appointment")
    again = copy.deepcopy(write)
    again["key"] = again["columns"]["id"][1] = write["key"] + 1
    forged.put(forged.at(write) + 1, ("write", again))
    columns = forged.post["appointment"]["columns"]
    forged.post["appointment"]["rows"].append([again["columns"][name][1] for name in columns])


@forging("OFF-A", "late_reread", "harness_error", "commit_log")
def commit_taken_out_of_the_state(forged: Forgery) -> None:
    writes = [w for w in forged.all("write", actor="agent") if w["request"] == forged.commit["number"]]
    forged.drop(*writes)
    forged.post["appointment"]["rows"].pop()
    slot = next(write for write in writes if write["table"] == "slot")
    forged.row("slot", slot["key"])[forged.cell("slot", "status")] = "free"


@forging("OFF-A", "late_reread", "harness_error", "journal")
def bystander_row_differs(forged: Forgery) -> None:
    forged.post["patient"]["rows"][-1][forged.cell("patient", "phone")] = "555-0000"


@forging("OFF-A", "late_reread", "harness_error", "journal")
def second_row_with_the_same_label(forged: Forgery) -> None:
    row = list(forged.post["clinic_session"]["rows"][-1])
    row[0] += 1
    forged.post["clinic_session"]["rows"].append(row)


@forging("OFF-A", "late_reread", "harness_error", "journal")
def target_written_by_another_actor(forged: Forgery) -> None:
    forged.one("write", table="slot")["actor"] = "clerk"


@forging("OFF-A", "late_reread", "harness_error", "requests")
def commit_by_another_actor(forged: Forgery) -> None:
    for write in forged.all("write", request=forged.commit["number"]):
        write["actor"] = "clerk"
    forged.commit["actor"] = "clerk"


@forging("OFF-A", "late_reread", "harness_error", "journal")
def old_value_of_a_write(forged: Forgery) -> None:
    forged.one("write", table="slot")["columns"]["status"][0] = "held"


@forging("OFF-A", "late_reread", "harness_error", "states")
def integer_as_a_float(forged: Forgery) -> None:
    forged.post["slot"]["rows"][0][forged.cell("slot", "location_id")] = float(forged.post["slot"]["rows"][0][1])


@forging("OFF-A", "late_reread", "harness_error", "sequence")
def trajectory_truncated(forged: Forgery) -> None:
    del forged.records[-9:]


@forging("OFF-A", "late_reread", "harness_error", "sequence")
def trajectory_truncated_and_closed(forged: Forgery) -> None:
    last = forged.at(forged.all("frame")[-4])
    forged.records[last + 1 :] = [("end", {"step": forged.records[last][1]["step"], "reason": "budget"})]


@forging("OFF-A", "late_reread", "harness_error", "sequence")
def step_missing(forged: Forgery) -> None:
    gone = forged.one("action", step=3), forged.one("frame", step=3), *forged.all("request", step=3)
    forged.drop(*gone)


@forging("OFF-A", "late_reread", "harness_error", "sequence")
def frame_never_delivered(forged: Forgery) -> None:
    forged.drop(forged.one("frame", step=3))


@forging("OFF-A", "late_reread", "harness_error", "sequence")
def steps_reordered(forged: Forgery) -> None:
    one, two = (forged.at(forged.one("action", step=step)) for step in (3, 4))
    forged.records[one], forged.records[two] = forged.records[two], forged.records[one]


@forging("OFF-A", "late_reread", "harness_error", "requests")
def redirect_not_followed(forged: Forgery) -> None:
    forged.drop(forged.all("request", via="redirect")[0])
    forged.renumber()


@forging("OFF-A", "late_reread", "harness_error", "frames")
def frames_swapped(forged: Forgery) -> None:
    one, two = forged.one("frame", step=3), forged.one("frame", step=5)
    for name in ("page", "elements"):
        one[name], two[name] = two[name], one[name]


@forging("OFF-A", "late_reread", "harness_error", "frames")
def frame_at_another_address(forged: Forgery) -> None:
    forged.one("frame", step=3)["url"] = "/inbox"


@forging("OFF-A", "late_reread", "harness_error", "frames")
def action_answers_another_frame(forged: Forgery) -> None:
    forged.one("action", step=5)["frame"] = 3


@forging("OFF-A", "late_reread", "harness_error", "frames")
def page_changed_without_a_request(forged: Forgery) -> None:
    frame = forged.all("frame")[forged.one("action", verb="memo")["step"]]
    frame["page"] += "\nThe office is closed."


@forging("OFF-A", "late_reread", "harness_error", "requests")
def route_of_another_page(forged: Forgery) -> None:
    forged.one("request", route="/patients")["route"] = "/sessions"


@forging("OFF-A", "late_reread", "harness_error", "actions")
def report_altered(forged: Forgery) -> None:
    forged.one("report")["fields"]["location"] = forged.plan["arm_text"]


@forging("OFF-A", "late_reread", "harness_error", "sequence")
def report_missing(forged: Forgery) -> None:
    forged.drop(forged.one("report"))


@forging("OFF-A", "late_reread", "harness_error", "actions")
def memo_altered(forged: Forgery) -> None:
    for frame in forged.all("frame"):
        frame["memo"] = frame["memo"].upper()


@forging("OFF-A", "late_reread", "harness_error", "actions")
def memo_cut_hidden(forged: Forgery) -> None:
    forged.one("action", verb="memo")["memo_cut"] = 7


@forging("OFF-A", "late_reread", "harness_error", "actions")
def action_not_what_was_said(forged: Forgery) -> None:
    forged.one("action", step=3)["args"] = ["1"]


@forging("OFF-A", "late_reread", "harness_error", "actions")
def action_on_an_element_that_was_not_shown(forged: Forgery) -> None:
    forged.one("action", step=3).update(args=["999"], raw='click("999")')


@forging("OFF-A", "late_reread", "harness_error", "budget")
def budget_overdrawn(forged: Forgery) -> None:
    forged.plan["budget"] = len(forged.all("action")) - 1


@forging("OFF-A", "late_reread", "harness_error", "plan")
def promise_taken_out_of_the_plan(forged: Forgery) -> None:
    forged.plan["announced"] = True


@forging("LIVE-A", "reference", "harness_error", "plan")
def review_promise_lowered(forged: Forgery) -> None:
    forged.plan["review"] = "nothing"


@forging("OFF-A", "late_reread", "harness_error", "plan")
def trigger_narrowed(forged: Forgery) -> None:
    forged.plan["trigger"] = ["/new/review"]


@forging("OFF-A", "late_reread", "harness_error", "plan")
def condition_renamed(forged: Forgery) -> None:
    forged.start["identity"]["condition"] = "L0"


@forging("OFF-A", "late_reread", "harness_error", "plan")
def target_exchanged(forged: Forgery) -> None:
    forged.plan["task"]["referral"] = next(
        row[0] for row in forged.pre["referral"]["rows"] if row[0] != forged.plan["task"]["referral"]
    )


@forging("OFF-A", "late_reread", "harness_error", "plan")
def environment_unknown(forged: Forgery) -> None:
    forged.start["identity"]["environment"] = "EnvOS/ClinicStale-v9"


@forging("OFF-A", "late_reread", "harness_error", "model")
def wrong_resolved_model(forged: Forgery) -> None:
    forged.start["identity"]["model_resolved"] = "m-1-mini"


@forging("OFF-A", "late_reread", "harness_error", "identity")
def code_digest_missing(forged: Forgery) -> None:
    forged.start["identity"]["code"] = ""


@forging("OFF-A", "late_reread", "harness_error", "identity")
def certificate_malformed(forged: Forgery) -> None:
    forged.start["identity"]["certificate"] = "yes"


@forging("OFF-A", "late_reread", "harness_error", "identity")
def another_instance(forged: Forgery) -> None:
    forged.start["identity"]["instance"] = "0" * 64


@forging("OFF-A", "late_reread", "harness_error", "identity")
def another_format(forged: Forgery) -> None:
    forged.start["identity"]["format"] = "2"


@forging("OFF-A", "late_reread", "harness_error", "isolation")
def evaluator_data_seen(forged: Forgery) -> None:
    forged.one("frame", step=3)["page"] += "\n" + forged.pre["canary"]["rows"][0][1]


@forging("OFF-A", "late_reread", "harness_error", "unannounced")
def notice_in_a_silent_arm(forged: Forgery) -> None:
    frame = forged.frames_of(forged.firing)[-1]
    frame["notice"] = "Notice: the place is now elsewhere."
    frame["page"] = "!! Notice\nthe place is now elsewhere.\n" + frame["page"]


@forging("OFF-A", "late_reread", "harness_error", "unannounced")
def review_discloses_in_a_silent_arm(forged: Forgery) -> None:
    for frame in forged.frames_of(*forged.all("request", route="/new/review", status=200)):
        frame["page"] += "\n! Before you confirm, make sure of the place. Check the session record"


@forging("OFF-A", "no_op", "harness_error", "exposure_log")
def exposure_invented_without_a_firing(forged: Forgery) -> None:
    fact = [*forged.plan["arm"], forged.plan["arm_text"]]
    forged.one("request")["served"] = [fact]
    for frame in forged.all("frame"):
        frame["delivered"] = [[*fact, 2]]


@forging("OFF-A", "late_reread", "harness_error", "schema")
def boolean_for_an_integer(forged: Forgery) -> None:
    forged.one("action", step=3)["memo_cut"] = False


@forging("OFF-A", "late_reread", "harness_error", "schema")
def field_missing(forged: Forgery) -> None:
    del forged.one("frame", step=3)["screenshot"]


@forging("OFF-A", "late_reread", "harness_error", "schema")
def field_added(forged: Forgery) -> None:
    forged.one("end")["verdict"] = "success"


@forging("OFF-A", "late_reread", "harness_error", "schema")
def kind_unknown(forged: Forgery) -> None:
    forged.put(3, ("note", {}))


@forging("OFF-A", "late_reread", "harness_error", "sequence")
def start_missing(forged: Forgery) -> None:
    del forged.records[0]


@forging("OFF-A", "late_reread", "harness_error", "states")
def table_missing(forged: Forgery) -> None:
    del forged.pre["notice"], forged.post["notice"]


@forging("OFF-A", "late_reread", "harness_error", "states")
def row_twice(forged: Forgery) -> None:
    rows = forged.post["patient"]["rows"]
    rows.append(rows[-1])


# Stops and faults.


def stopped(forged: Forgery, kind: str, reason: str = "fault") -> None:
    """End the episode in the middle, by a fault."""
    frame = forged.one("frame", step=9)
    step = frame["step"]
    del forged.records[forged.at(frame) + 1 :]
    if kind:
        forged.records.append(("fault", {"step": step, "kind": kind, "detail": "recorded by the harness"}))
    forged.records.append(("end", {"step": step, "reason": reason}))


@forging("OFF-A", "late_reread", "infra_failure", "infrastructure")
def infrastructure_error(forged: Forgery) -> None:
    stopped(forged, "infra_failure")


@forging("OFF-A", "late_reread", "infra_rejected", "provider")
def provider_limit(forged: Forgery) -> None:
    stopped(forged, "infra_rejected")


@forging("OFF-A", "late_reread", "harness_error", "harness")
def harness_stop(forged: Forgery) -> None:
    stopped(forged, "harness_error")


@forging("OFF-A", "late_reread", "harness_error", "harness")
def stop_without_a_fault(forged: Forgery) -> None:
    stopped(forged, "", "cancelled")


@forging("OFF-A", "late_reread", "harness_error", "harness")
def unauthorised_read(forged: Forgery) -> None:
    fault = {"step": 3, "kind": "harness_error", "detail": "unauthorised access: /etc/passwd"}
    forged.put(forged.at(forged.one("action", step=3)) + 1, ("fault", fault))


@forging("OFF-A", "late_reread", "harness_error", "harness")
def fault_of_an_unknown_kind(forged: Forgery) -> None:
    forged.put(-1, ("fault", {"step": 3, "kind": "success", "detail": ""}))


@pytest.mark.parametrize(
    ("condition", "policy", "expected", "term", "forge"), [line[1:] for line in CASES], ids=[line[0] for line in CASES]
)
def test_a_resealed_corruption_gets_its_class(
    archives: Archives, tmp_path: Path, condition: str, policy: str, expected: str, term: str, forge: Forge
) -> None:
    forged = Forgery(archives[condition, policy])
    forge(forged)
    result = validity.audit(forged.seal(tmp_path / "forged"))
    assert result["class"] == expected, result["reasons"]
    assert result["terms"][term]["passed"] is False, result["reasons"]
    assert result["terms"][term]["class"] == expected
    assert result["reasons"][0]["class"] == expected


def test_sealing_alone_changes_nothing(archives: Archives, tmp_path: Path) -> None:
    for number, path in enumerate(archives.values()):
        sealed = Forgery(path).seal(tmp_path / str(number))
        assert all((sealed / name).read_bytes() == (path / name).read_bytes() for name in (*NAMES, "manifest.json"))


GENERIC = {
    "notice_never_delivered": "L2",
    "notice_with_the_old_value": "L2",
    "exposure_taken_out_of_both_logs": "OFF-A",
    "exposure_in_another_session": "OFF-A",
    "armed_by_a_later_frame": "OFF-A",
    "change_in_the_harness_request": "OFF-A",
    "change_in_a_prefetch": "OFF-A",
    "fire_record_twice": "OFF-A",
    "fire_record_missing": "OFF-A",
    "guard_missing": "OFF-A",
    "history_row_disagrees_with_the_fact": "OFF-A",
    "control_does_not_do_its_share": "L0",
    "every_trace_of_the_firing_missing": "L0",
    "stale_page_in_every_log": "OFF-A",
    "stale_page_in_the_text_alone": "OFF-A",
    "trajectory_truncated": "OFF-A",
    "frames_swapped": "OFF-A",
    "report_missing": "OFF-A",
    "promise_taken_out_of_the_plan": "OFF-A",
    "trigger_narrowed": "ON-A",
    "wrong_resolved_model": "OFF-A",
    "evaluator_data_seen": "OFF-A",
}
"""Corruptions that are the same in every world, and a condition for them."""


@pytest.mark.parametrize("name", GENERIC)
def test_a_corruption_gets_the_same_class_in_the_other_world(claims: Archives, tmp_path: Path, name: str) -> None:
    expected, term, forge = next(line[3:] for line in CASES if line[0] == name)
    forged = Forgery(claims[GENERIC[name], "late_reread"])
    forge(forged)
    result = validity.audit(forged.seal(tmp_path / "forged"))
    assert result["class"] == expected, result["reasons"]
    assert result["terms"][term]["passed"] is False


def test_there_are_enough_classes_of_corruption() -> None:
    assert len({line[0] for line in CASES}) >= 60
    assert {line[3] for line in CASES} == set(validity.GROUPS) - {"not_triggered"}


def test_a_frame_that_was_altered_under_its_digest(archives: Archives, tmp_path: Path) -> None:
    forged = Forgery(archives["OFF-A", "late_reread"])
    forged.one("frame", step=3)["elements"] += '\n[99] link "Pay"'
    result = validity.audit(forged.seal(tmp_path / "forged", frames=False))
    assert (result["class"], result["reasons"][0]["code"]) == ("harness_error", "frame_digest")


# --- Raw corruptions -------------------------------------------------------------------------------------------------


def replaced(name: str, old: str, new: str) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        text = (folder / name).read_text()
        assert old in text
        (folder / name).write_text(text.replace(old, new, 1))

    return edit


def lines(change: Callable[[list[str]], list[str]]) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        text = (folder / "ledger.jsonl").read_text().splitlines(keepends=True)
        (folder / "ledger.jsonl").write_text("".join(change(text)))

    return edit


def link(folder: Path) -> None:
    (folder / "post.json").rename(folder.parent / "elsewhere.json")
    (folder / "post.json").symlink_to(folder.parent / "elsewhere.json")


RAW: dict[str, tuple[Callable[[Path], None], str]] = {
    "line_changed": (replaced("ledger.jsonl", '"actor":"agent"', '"actor":"agemt"'), "ledger_chain"),
    "line_dropped": (lines(lambda text: text[:5] + text[6:]), "ledger_chain"),
    "line_twice": (lines(lambda text: text[:5] + text[4:]), "ledger_seq"),
    "lines_swapped": (lines(lambda text: [*text[:5], text[6], text[5], *text[7:]]), "ledger_seq"),
    "tail_cut_in_a_line": (lines(lambda text: [*text[:-1], text[-1][:-9]]), "ledger_truncated"),
    "tail_cut": (lines(lambda text: text[:-3]), "ledger_head"),
    "blank_after_a_colon": (replaced("ledger.jsonl", '"seq":0', '"seq": 0'), "ledger_line"),
    "key_twice": (replaced("ledger.jsonl", '"seq":0', '"seq":0,"seq":0'), "ledger_line"),
    "not_a_number": (replaced("ledger.jsonl", '"memo_cut":0', '"memo_cut":NaN'), "ledger_line"),
    "deep_json": (lines(lambda text: [text[0], "[" * 200_000 + "\n", *text[1:]]), "ledger_line"),
    "long_integer": (replaced("ledger.jsonl", '"memo_cut":0', '"memo_cut":' + "9" * 5000), "ledger_line"),
    "post_changed": (replaced("post.json", "booked", "free"), "file_hash"),
    "pre_changed": (replaced("pre.json", "booked", "free"), "file_hash"),
    "verdict_changed": (replaced("verdict.json", "counted", "Counted"), "file_hash"),
    "format_of_tomorrow": (replaced("manifest.json", '"format":"1"', '"format":"2"'), "format_version"),
    "manifest_missing": (lambda folder: (folder / "manifest.json").unlink(), "manifest_missing"),
    "manifest_emptied": (lambda folder: (folder / "manifest.json").write_bytes(b""), "manifest_malformed"),
    "ledger_missing": (lambda folder: (folder / "ledger.jsonl").unlink(), "file_missing"),
    "file_added": (lambda folder: (folder / "notes.txt").write_bytes(b"x"), "file_added"),
    "file_renamed": (lambda folder: (folder / "post.json").rename(folder / "Post.json"), "file_added"),
    "folder_added": (lambda folder: (folder / "more").mkdir(), "file_unsafe"),
    "link": (link, "file_unsafe"),
}


@pytest.mark.parametrize("name", RAW)
def test_a_raw_corruption_is_a_harness_error_with_its_code(archives: Archives, tmp_path: Path, name: str) -> None:
    folder = shutil.copytree(archives["OFF-A", "late_reread"], tmp_path / "raw")
    edit, code = RAW[name]
    edit(folder)
    result = validity.audit(folder)
    assert result["class"] == "harness_error"
    assert code in {reason["code"] for reason in result["reasons"]}, result["reasons"]


def test_a_recorded_fault_wins_over_broken_digests(archives: Archives, tmp_path: Path) -> None:
    forged = Forgery(archives["OFF-A", "late_reread"])
    stopped(forged, "infra_failure")
    folder = forged.seal(tmp_path / "forged")
    (folder / "post.json").write_text("{}\n")
    assert validity.audit(folder)["class"] == "infra_failure"


@pytest.mark.parametrize("name", [*NAMES, "manifest.json"])
def test_no_flip_of_a_single_byte_passes(archives: Archives, tmp_path: Path, name: str) -> None:
    folder = shutil.copytree(archives["L2", "reference"], tmp_path / "flipped")
    data = (folder / name).read_bytes()
    draw = random.Random(name)  # noqa: S311 - examples
    for place in draw.sample(range(len(data)), min(30, len(data))):
        flipped = bytes([data[place] ^ (1 << draw.randrange(8))])
        (folder / name).write_bytes(data[:place] + flipped + data[place + 1 :])
        assert validity.audit(folder)["class"] == "harness_error", f"byte {place} of {name}"


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every value inside a value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, item in inner:
        yield (*path, name)
        yield from leaves(item, (*path, name))


def test_no_wrong_type_anywhere_makes_the_auditor_fail(archives: Archives, tmp_path: Path) -> None:
    draw = random.Random(11)  # noqa: S311 - examples
    odd = (None, True, -1, 2**70, 1.5, "", "x", "\ud800", [], {}, [1], [[None]], {"a": [1]}, "/sessions/{id}")
    original = Forgery(archives["LIVE-A", "read_review"])
    classes = set()
    for _ in range(150):
        forged = copy.deepcopy(original)
        root = [data for _, data in forged.records] if draw.random() < 0.8 else [forged.pre, forged.post]
        path = draw.choice(list(leaves(draw.choice(root))))
        for target in root:
            try:
                for name in path[:-1]:
                    target = target[name]
                target[path[-1]] = draw.choice(odd)
            except (LookupError, TypeError):
                continue
        try:
            folder = forged.seal(tmp_path / "odd")
        except (LookupError, TypeError):
            folder = forged.seal(tmp_path / "odd", frames=False)
        classes.add(validity.audit(folder)["class"])
    assert "harness_error" in classes


# --- What can be handed in -------------------------------------------------------------------------------------------


def packed(folder: Path, target: Path, prefix: str = "", extra: dict[str, bytes] | None = None) -> Path:
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder.iterdir()):
            archive.write(path, prefix + path.name)
        for name, data in (extra or {}).items():
            archive.writestr(name, data)
    return target


def test_a_zip_is_as_good_as_its_folder(archives: Archives, tmp_path: Path) -> None:
    folder = archives["OFF-A", "late_reread"]
    direct = validity.audit(folder)
    assert validity.audit(packed(folder, tmp_path / "a.zip")) == direct
    assert validity.audit(packed(folder, tmp_path / "b.zip", "0000-ClinicStale/")) == direct
    added = validity.audit(packed(folder, tmp_path / "c.zip", "", {"notes.txt": b"x"}))
    assert (added["class"], added["reasons"][0]["code"]) == ("harness_error", "file_added")


@pytest.mark.parametrize(
    ("extra", "code"),
    [
        ({"../post.json": b""}, "zip_name"),
        ({"/etc/passwd": b""}, "zip_name"),
        ({"a/b/c": b""}, "zip_name"),
        ({"..": b""}, "zip_name"),
        ({"other/x.png": b""}, "zip_name"),
        ({"POST.json": b""}, "zip_duplicate"),
        ({"zeros.png": b"\0" * (64 * 2**20 + 1)}, "zip_method"),
        ({f"{number}.png": b"" for number in range(1000)}, "too_large"),
    ],
    ids=lambda value: value if isinstance(value, str) else next(iter(value)).replace("/", "_"),
)
def test_a_zip_that_could_do_harm_is_refused(
    archives: Archives, tmp_path: Path, extra: dict[str, bytes], code: str
) -> None:
    with pytest.raises(validity.Unusable) as refusal:
        validity.audit(packed(archives["L0", "reference"], tmp_path / "a.zip", "", extra))
    assert refusal.value.code == code


def test_what_is_no_archive_is_refused(archives: Archives, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "text").write_text("PK\x03\x04 not really")
    (tmp_path / "link").symlink_to(archives["L0", "reference"])
    os.mkfifo(tmp_path / "pipe")
    codes = {"missing": "not_found", "empty": "no_archive", "text": "zip_damaged", "link": "not_regular"}
    for name, code in {**codes, "pipe": "not_regular", "a\0b": "not_found"}.items():
        with pytest.raises(validity.Unusable) as refusal:
            validity.audit(tmp_path / name)
        assert refusal.value.code == code
    with pytest.raises(validity.Unusable) as refusal:
        validity.audit(archives["L0", "reference"].parent)
    assert refusal.value.code == "no_archive"


def test_a_pipe_in_an_archive_is_not_waited_for(archives: Archives, tmp_path: Path) -> None:
    folder = shutil.copytree(archives["L0", "reference"], tmp_path / "raw")
    (folder / "post.json").unlink()
    os.mkfifo(folder / "post.json")
    assert validity.audit(folder)["class"] == "harness_error"


# --- Alone -----------------------------------------------------------------------------------------------------------


def test_it_imports_the_standard_library_and_nothing_else() -> None:
    names = set()
    for node in ast.walk(ast.parse(SOURCE.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            names.add(str(node.module).partition(".")[0])
        elif isinstance(node, ast.Name):
            assert node.id not in ("eval", "exec", "compile", "__import__", "open")
    assert names <= sys.stdlib_module_names
    assert not names & {"pickle", "importlib", "subprocess", "socket", "marshal", "shelve", "ctypes"}


def alone(folder: Path, *arguments: str | Path) -> "subprocess.CompletedProcess[str]":
    """Run a copy of the file in a folder that holds nothing else."""
    program = folder / "validity.py"
    if not program.exists():
        folder.mkdir(exist_ok=True)
        shutil.copy(SOURCE, program)
    command = [sys.executable, "-I", "-S", str(program), *map(str, arguments)]
    return subprocess.run(command, cwd=folder, env={}, capture_output=True, text=True, timeout=60, check=False)


def test_a_copy_in_an_empty_folder_gives_the_same_result(archives: Archives, tmp_path: Path) -> None:
    for episode, code in ((("OFF-A", "late_reread"), 0), (("OFF-A", "no_op"), 1)):
        done = alone(tmp_path / "alone", archives[episode], "--json")
        assert (done.returncode, done.stderr) == (code, "")
        assert json.loads(done.stdout) == json.loads(json.dumps(validity.audit(archives[episode])))
        told = alone(tmp_path / "alone", archives[episode])
        assert told.returncode == code
        assert told.stdout.startswith("counted" if code == 0 else "not_triggered")
    for arguments in ((tmp_path / "missing",), (), ("--help",), (tmp_path, tmp_path)):
        assert alone(tmp_path / "alone", *arguments).returncode == 2
    refused = json.loads(alone(tmp_path / "alone", tmp_path / "missing", "--json").stdout)
    assert (refused["counted"], refused["error"]) == (False, "not_found")


def test_a_fault_of_its_own_is_no_verdict(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def broken(path: str) -> Data:
        raise KeyError(path)

    monkeypatch.setattr(validity, "audit", broken)
    assert validity.main(["x"]) == 3
    assert capsys.readouterr().out == ""


def test_the_same_result_every_time(archives: Archives) -> None:
    results = [json.dumps(validity.audit(archives["LIVE-A", "read_review"]), sort_keys=True) for _ in range(20)]
    assert len(set(results)) == 1


def test_its_grammar_is_the_environment_s() -> None:
    draw = random.Random(5)  # noqa: S311 - examples
    seeds = (
        'click("12")',
        "click(12)",
        'fill(element=7, value="a\\nb")',
        'report(a="x", b="\\u00e9")',
        "goto(5)",
        'memo("\\ud83d\\ude00")',
        " go_back( ) ",
        "select_option('5', option='R')",
        'fill(value="a", element=2)',
        "noop()",
        'report("x")',
    )
    letters = "\"'\\,()=un 0a1\n\t{}é\ud800"
    for _ in range(6_000):
        raw = draw.choice(seeds)
        for _ in range(draw.randrange(4)):
            place = draw.randrange(len(raw) + 1)
            raw = raw[:place] + draw.choice(["", draw.choice(letters)]) + raw[place + draw.randrange(2) :]
        parsed = parse(raw)
        expected = (parsed.verb, list(parsed.args), dict(parsed.fields)) if isinstance(parsed, Parsed) else None
        assert validity.read_action(raw) == expected, raw


def test_it_reads_a_query_as_a_form() -> None:
    draw = random.Random(6)  # noqa: S311 - examples
    letters = ("a", "b", "=", "&", "+", "%", "%20", "%C3", "%A9", "%0", "\u00e9", "\n", "%F0%9F%98%80", "0", ";")
    for _ in range(5_000):
        query = "".join(draw.choices(letters, k=draw.randrange(12)))
        expected = {name: clean(text) for name, text in parse_qsl(query)} if query else {}
        assert validity.address(f"/x?{query}") == ("/x", expected), query


def test_the_cost_of_an_audit(archives: Archives, tmp_path: Path) -> None:
    """Under 5 ms as a library call, under 0.2 s as a process (issue 4); the best of several, on a busy machine."""
    folder = archives["OFF-A", "late_reread"]
    spent = []
    for _ in range(60):
        begin = time.process_time()
        validity.audit(folder)
        spent.append(time.process_time() - begin)
    # What parsing, encoding and hashing the same lines costs here and now: a slow machine moves both.
    text = (folder / "ledger.jsonl").read_text().splitlines()
    floor = []
    for _ in range(60):
        begin = time.process_time()
        for line in text:
            sha(text_of(json.loads(line)))
        floor.append(time.process_time() - begin)
    assert min(spent) < max(0.005, 8 * min(floor))
    # The processor time of a whole process; the time on the wall is that of whatever else runs here.
    processes = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert alone(tmp_path / "alone", folder).returncode == 0
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        processes.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert min(processes) < 0.2
