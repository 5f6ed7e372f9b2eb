"""The validity auditor knows every registered environment, by pages and by tools, and the verifier agrees with it.

Each rule that an environment or the tools bring along has a re-sealed archive that makes exactly that rule fail.
"""

import copy
import json
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import gymnasium
import pytest
from sealed import Data, Forgery, retext

from envos.certify.audit import validity
from envos.certify.policies import Observation, Policy, Scripted, Steps, claims, policies
from envos.certify.policies.reading import after, follow, press, select
from envos.certify.rollout import play
from envos.envs.action import go_back
from envos.envs.scenario import ANCHORS, SCENARIOS, Scenario, load_world
from envos.envs.toolbox import Toolbox
from envos.rewards.verdict import verify
from envos.wrappers.archive import Archive, read_archive
from envos.wrappers.tools import ToolActions, call

SEED = 7
PAGES, TOOLS = "pages", "tools"
Cell = tuple[str, str, str, str, str]
"""Environment without `EnvOS/` and `-v0`, condition, anchor, pages or tools, policy."""


def on_tools(line: Scenario) -> Mapping[str, Scripted]:
    """The scripted policies over tools."""
    module = f"tools_{line.world}" if line.phenomenon == "stale" else f"tools_{line.world}_{line.phenomenon}"
    found: Mapping[str, Scripted] = import_module(f"envos.certify.policies.{module}").POLICIES
    return found


def named(line: Scenario, by: str, name: str) -> Policy:
    """A scripted policy by name, or one of this file."""
    if name in OWN:
        return OWN[name]
    return (policies(line.world, line.phenomenon) if by == PAGES else on_tools(line))[name].policy


def blind(observation: Observation) -> Steps:
    """Reads the place, asks for the form, and confirms without a look at the review."""
    yield call("list_sessions")
    result = json.loads((yield call("list_referrals"))["result"])
    wanted = observation["goal"].partition("Referral: ")[2].split("\n")[0]
    key = next(row[0]["referral_id"] for part in result["body"] for row in part["rows"] if row[0]["text"] == wanted)
    yield call("start_booking", referral_id=key)
    yield call("confirm_booking", referral_id=key, slot_id=1, form_key=f"{key}-1-0")
    yield call("report", location="?", start="?", reference="?")


def clumsy(observation: Observation) -> Steps:
    """Calls that are wrong, empty texts, a memo that is too long, a notice that is passed by."""
    for raw in (
        "noop()",
        "{}",
        '{"name": "noop"}',
        '{"name": "noop", "name": "noop"}',
        '{"name": "noop", "arguments": {"x": 1}}',
        '{"name": "get_session", "arguments": {"session_id": true}}',
        '{"name": "get_session", "arguments": {"session_id": 1.0}}',
        '{"name": "list_patients", "arguments": {"query": "\\ud800"}}',
        '{"name": "acknowledge_notice", "arguments": {"notice_id": 1}}',
        call("memo", text="m\u00e9\n" * 200),
        call("list_patients", query=" \t "),
        call("list_patients", query="A  b\u00a0c"),
        call("change_phone", patient_id=1, phone=""),
        call("change_phone", patient_id=1, phone="\x00 \x01"),
        call("change_phone", patient_id=1, phone="5" * 300),
        call("get_session", session_id=999_999_999),
        call("confirm_booking", referral_id=1, slot_id=1, form_key="1-1-x"),
        call("confirm_booking", referral_id=1, slot_id=1, form_key="1-1-x"),
    ):
        observation = yield raw
    while observation:
        observation = yield call("noop")


def turns_down(observation: Observation) -> Steps:
    """Begins the approval, which is when the limit changes, and denies the claim by the other form."""
    known = claims.Case(after(observation["goal"], "Claim"))
    observation = yield from claims.read_claim(observation, known)
    observation = yield from claims.read_limit(observation, known)
    observation = yield from claims.open_claim(observation, known)
    yield from follow(observation, "Approve claim")
    observation = yield go_back()
    observation = yield from follow(observation, "Deny claim")
    observation = yield from select(observation, "Reason", "Not covered")
    observation = yield from press(observation, "Deny claim")
    yield from claims.finish(observation, known)


OWN: dict[str, Policy] = {"blind": blind, "clumsy": clumsy, "turns_down": turns_down}


def cells() -> Iterator[Cell]:
    """Every condition and anchor of every environment by pages and tools; the policies take turns."""
    for environment, line in SCENARIOS.items():
        short = environment.removeprefix("EnvOS/").removesuffix("-v0")
        for by, found in ((PAGES, policies(line.world, line.phenomenon)), (TOOLS, on_tools(line))):
            names = sorted(set(found) - {"random", "no_op"})
            for number, condition in enumerate(line.conditions):
                for anchor in ANCHORS:
                    best = next(name for name in names if condition in found[name].wins)
                    other = names[(2 * number + (anchor == "any")) % len(names)]
                    yield short, condition, anchor, by, other if anchor == "any" else best
    for condition in ("L2", "OFF-A", "LIVE-A"):
        yield "ClinicStale", condition, "first", TOOLS, "clumsy"
    yield "ClinicStale", "LIVE-A", "first", TOOLS, "blind"
    yield "ClaimsStale", "ON-A", "first", PAGES, "turns_down"


CELLS = list(dict.fromkeys(cells()))
Run = dict[Cell, tuple[Path, Mapping[str, Any]]]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The archive and the live verdict of each cell."""
    made: Run = {}
    envs: dict[tuple[str, str], tuple[Archive, gymnasium.Env[Any, str]]] = {}
    for cell in dict.fromkeys([*CELLS, *(case[1] for case in CASES)]):
        short, condition, anchor, by, name = cell
        if (short, by) not in envs:
            archive = Archive(gymnasium.make(f"envos:EnvOS/{short}-v0", split="test"), tmp_path_factory.mktemp("run"))
            envs[short, by] = archive, archive if by == PAGES else ToolActions(archive)
        archive, env = envs[short, by]
        policy = named(SCENARIOS[f"EnvOS/{short}-v0"], by, name)
        options = {"condition": condition, "anchor": anchor, "policy": name, "model": "m-1"}
        episode = play(env, policy, SEED, options)
        assert archive.folder is not None
        made[cell] = archive.folder, episode.verdict
    for archive, _ in envs.values():
        archive.close()
    return made


def test_the_verifier_agrees_in_every_cell(run: Run) -> None:
    seen: Counter[tuple[str, str, bool | None]] = Counter()
    for cell, (folder, live) in run.items():
        result, stored = validity.audit(folder), verify(read_archive(folder))
        assert result["class"] == live["validity"] == stored.validity, (cell, result["reasons"], stored.reasons)
        assert (result["counted"], result["untriggered"]) == (stored.counted, stored.untriggered), cell
        assert not result["reasons"] or result["class"] != "counted", (cell, result["reasons"])
        if result["class"] == "counted":
            assert [term for term, entry in result["terms"].items() if entry["passed"] is None] == [], cell
            seen[cell[0], cell[3], stored.endpoint] += 1
    # Successes and failures that count, of every environment, by pages and by tools.
    names = {cell[0] for cell in CELLS}
    assert {f"EnvOS/{name}-v0" for name in names} == set(SCENARIOS) == set(validity.ENVIRONMENTS)
    assert seen.keys() == {(name, by, end) for name in names for by in (PAGES, TOOLS) for end in (True, False)}


def test_who_passes_the_review_by_is_counted(run: Run) -> None:
    """Else an agent could have its episode thrown out by confirming blindly, or by a form that has no review."""
    for cell in (
        ("ClinicStale", "LIVE-A", "first", TOOLS, "blind"),
        ("ClaimsStale", "ON-A", "first", PAGES, "turns_down"),
    ):
        folder, live = run[cell]
        assert (live["validity"], live["endpoint"], validity.audit(folder)["class"]) == ("counted", False, "counted")


def test_sealing_alone_changes_nothing(run: Run, tmp_path: Path) -> None:
    for number, cell in enumerate(CELLS[::9]):
        sealed = Forgery(run[cell][0]).seal(tmp_path / str(number))
        assert (sealed / "manifest.json").read_bytes() == (run[cell][0] / "manifest.json").read_bytes()


@pytest.mark.parametrize("world", ["clinic", "claims"])
def test_its_tools_are_the_world_s(world: str) -> None:
    known = {"clinic": validity.CLINIC, "claims": validity.CLAIMS}[world].tools
    tools = Toolbox(load_world(world)).tools
    assert known.keys() == tools.keys()
    for name, tool in tools.items():
        assert (known[name].method, known[name].route) == (tool.method or "-", tool.route or "-")
        given = [
            (item.name, item.param, item.type == "integer", item.required, frozenset(item.choices))
            for item in tool.arguments
        ]
        assert [tuple(item) for item in known[name].arguments] == given


@pytest.mark.parametrize("world", ["clinic", "claims"])
def test_the_format_lists_the_tools(world: str) -> None:
    """The page of the format has the very lines that the auditor reads."""
    text = Path(validity.__file__).with_name("FORMAT.md").read_text()
    lines = {line[4:] for line in text.split("\n") if line.startswith("    ")}
    tools = {"clinic": validity.CLINIC, "claims": validity.CLAIMS}[world].tools
    for name, tool in tools.items():
        line = f"{name} {tool.method} {tool.route}"
        for item in tool.arguments:
            line += f" {'#' * item.number}{item.name}{'' if item.required else '?'}"
            line += f"={item.param}" if item.param != item.name else ""
        assert line in lines


def test_its_reading_of_a_call_is_the_toolbox_s() -> None:
    box = Toolbox(load_world("claims"))
    for raw in (
        '{"name": "list_claims", "arguments": {"status": "open"}}',
        '{"name": "list_claims", "arguments": {"status": "lost"}}',
        '{"arguments": {"claim_id": 3, "amount": "1"}, "name": "review_approval"}',
        '{"name": "review_approval", "arguments": {"claim_id": 3}}',
        ' {"name":"get_claim","arguments":{"claim_id":1000000000}} ',
        '{"name":"get_claim","arguments":{"claim_id":0}}',
        '{"name":"get_claim","arguments":{"claim_id":9}}x',
        '{"name":"report","arguments":{"amount":"1","reference":"D-1"}}',
        '{"name":"report","arguments":{"amount":"1","reference":"D-1","chosen":"2"}}',
        '{"name":"report","arguments":{"amount":"1"}}',
        '{"name":"memo","arguments":{"text":"a\\u00e9\\ud83d\\ude00"}}',
        '{"name":"memo","arguments":{"text":"\\ud83d"}}',
        '{"name":"memo","arguments":{"text":NaN}}',
        '{"name":"noop","arguments":[]}',
        '{"name":["noop"]}',
        '{"name":"noop","more":1}',
        '["noop"]',
        '{"name":"memo","arguments":{"text":"' + "x" * 10_000 + '"}}',
        "[" * 9_999,
    ):
        action = box.read(raw)
        expected = (action.verb, list(action.args), dict(action.fields)) if hasattr(action, "verb") else None
        found = validity.read_call(raw, validity.CLAIMS.tools)
        assert (found and found[:2]) == (expected and expected[:2]), raw[:80]
        if found and found[0] == "report":
            assert expected is not None
            assert found[2] == expected[2]


# --- Corruptions -----------------------------------------------------------------------------------------------------

STALE_TOOLS = ("ClinicStale", "OFF-A", "first", TOOLS, "late_reread")
CUE_TOOLS = ("ClinicStale", "CUE-A", "first", TOOLS, "late_reread")
LIVE_TOOLS = ("ClinicStale", "LIVE-A", "first", TOOLS, "late_reread")
L2_TOOLS = ("ClinicStale", "L2", "first", TOOLS, "reference")
TAKEN = ("ClinicContested", "OFF-A", "first", PAGES, "recheck")
TAKEN_L2 = ("ClinicContested", "L2", "first", PAGES, "reference")
GHOST = ("ClinicGhost", "OFF-A", "first", PAGES, "verify_record")
GHOST_CLAIMS = ("ClaimsGhost", "OFF-A", "first", PAGES, "verify_record")
REVIEW = ("ClinicGhost", "REV-A", "first", PAGES, "reference")
REVIEW_CLAIMS = ("ClaimsGhost", "REV-A", "first", PAGES, "reference")
REVIEW_TOOLS = ("ClinicGhost", "REV-A", "first", TOOLS, "reference")

Forge = Callable[[Forgery], None]
CASES: list[tuple[str, Cell, str, str, str, Forge]] = []
"""Name, episode, class, rules, code of the reason, and the corruption."""


def forging(cell: Cell, expected: str, term: str, code: str) -> Callable[[Forge], Forge]:
    """Enter a corruption of an episode, with its class, the rules that it breaks, and the code that the first gives."""

    def enter(forge: Forge) -> Forge:
        CASES.append((f"{forge.__name__}-{cell[0]}", cell, expected, term, code, forge))
        return forge

    return enter


def result_of(frame: Data, change: Callable[[Data], None]) -> None:
    """Change the result of a tool; what was delivered keeps its place in the order."""
    result = json.loads(frame["page"])
    change(result)
    frame["page"] = json.dumps(result, ensure_ascii=False, separators=(",", ":"))
    begin = 0
    for item in frame["delivered"]:
        begin = item[4] = frame["page"].index(item[3], begin)
        begin += 1


def no_notice(forged: Forgery) -> list[Data]:
    """Frames of a result without a notice."""
    return [frame for frame in forged.all("frame") if not frame["notice"]]


# Identity and instance.


@forging(GHOST, "harness_error", "identity", "instance")
def brief_altered(forged: Forgery) -> None:
    forged.start["identity"]["brief"] += " Book anywhere."


@forging(GHOST, "harness_error", "identity", "instance")
def bystander_row_of_another_instance(forged: Forgery) -> None:
    for state in (forged.pre, forged.post):
        forged.row("message", 1, state)[forged.cell("message", "body")] += " Please hurry."


@forging(STALE_TOOLS, "harness_error", "identity", "actions")
def actions_of_another_kind(forged: Forgery) -> None:
    forged.start["identity"]["actions"] = "keys"


@forging(GHOST, "harness_error", "states", "state_types")
def text_for_a_number(forged: Forgery) -> None:
    for state in (forged.pre, forged.post):
        forged.row("slot", 1, state)[forged.cell("slot", "location_id")] = "1"


# The plan.


@forging(STALE_TOOLS, "harness_error", "plan", "plan_usual")
def what_is_usual_told(forged: Forgery) -> None:
    forged.plan["phase"] = "before"


@forging(GHOST, "harness_error", "plan anchor", "plan_world")
@forging(GHOST_CLAIMS, "harness_error", "plan anchor", "plan_world")
def another_commit_awaited(forged: Forgery) -> None:
    forged.plan["when"]["id"] += 1


@forging(GHOST, "harness_error", "plan", "plan_anchor")
def anchor_that_there_is_not(forged: Forgery) -> None:
    forged.plan["anchor"] = forged.start["identity"]["anchor"] = "last"


@forging(GHOST, "harness_error", "plan agreement", "plan_condition")
def condition_of_another_environment(forged: Forgery) -> None:
    forged.plan["condition"] = forged.start["identity"]["condition"] = "MAIL-A"


@forging(GHOST, "harness_error", "plan anchor scope", "plan_world")
def change_moved_before_the_commit(forged: Forgery) -> None:
    del forged.plan["phase"]


@forging(TAKEN, "harness_error", "plan", "plan_world")
def commit_that_does_not_fire(forged: Forgery) -> None:
    del forged.plan["posts"]


@forging(REVIEW, "harness_error", "plan anchor", "plan_world")
def review_of_another_slot_awaited(forged: Forgery) -> None:
    forged.plan["when"]["slot_id"] += 1


@forging(TAKEN, "harness_error", "plan exposure_log exposure freshness", "plan_task")
def other_slot_is_the_next_best(forged: Forgery) -> None:
    commit = forged.commit
    again = next(row for row in forged.post["appointment"]["rows"] if row[-2] == commit["params"]["key"])
    forged.plan["watched"][1][1] = again[forged.cell("appointment", "slot_id")]


@forging(GHOST, "harness_error", "plan exposure anchor", "plan_task")
@forging(GHOST_CLAIMS, "harness_error", "plan exposure anchor", "plan_task")
def another_fact(forged: Forgery) -> None:
    forged.plan["arm"][1] += 1


@forging(REVIEW, "harness_error", "plan anchor", "plan_trigger")
def another_page_of_the_form_fires(forged: Forgery) -> None:
    forged.plan["trigger"] = ["/new/slot"]


# The change.


@forging(GHOST, "trigger_invalid", "scope", "scope_order")
@forging(GHOST_CLAIMS, "trigger_invalid", "scope", "scope_order")
def change_reported_before_it_is_made(forged: Forgery) -> None:
    fire = forged.one("fire")
    forged.drop(fire)
    forged.put(forged.at(forged.one("write", actor="perturbation")), ("fire", fire))


@forging(TAKEN, "trigger_invalid", "scope", "scope_order")
def change_reported_first(forged: Forgery) -> None:
    change_reported_before_it_is_made(forged)


@forging(GHOST, "trigger_invalid", "scope", "scope_write")
def another_row_altered(forged: Forgery) -> None:
    write = next(write for write in forged.all("write", actor="perturbation") if write["table"] == "appointment")
    write["columns"]["purpose"] = [forged.row("appointment", write["key"])[forged.cell("appointment", "purpose")], "?"]
    forged.row("appointment", write["key"])[forged.cell("appointment", "purpose")] = "?"


def unfired(forged: Forgery) -> None:
    """Every trace of the firing taken out of a ghost's records, so that the commit is as it was made."""
    for write in forged.all("write", actor="perturbation"):
        for name, (old, _) in write["columns"].items():
            if write["op"] == "update":
                forged.row(write["table"], write["key"])[forged.cell(write["table"], name)] = old
        forged.drop(write)
    forged.drop(forged.one("fire"))
    forged.post["perturbation_guard"]["rows"] = []


@forging(("ClinicGhost", "C", "first", PAGES, "reference"), "harness_error", "firing_log", "missed_firing")
@forging(("ClaimsGhost", "C", "first", PAGES, "reference"), "harness_error", "firing_log", "missed_firing")
def commit_that_should_have_fired(forged: Forgery) -> None:
    unfired(forged)


@forging(REVIEW, "trigger_invalid", "anchor", "not_first_eligible")
def fired_by_the_review_of_another_choice(forged: Forgery) -> None:
    firing = forged.firing
    other = str(forged.plan["operations"][0]["columns"]["held"][1])
    for holder in (firing["params"], forged.one("action", step=firing["step"])):
        if "slot" in holder:
            holder["slot"] = other
    for frame in forged.frames_of(firing):
        frame["url"] = frame["url"].replace(f"slot={forged.plan['when']['slot_id']}", f"slot={other}")


@forging(GHOST, "trigger_invalid", "agreement freshness", "commit_operation")
@forging(GHOST_CLAIMS, "trigger_invalid", "agreement freshness", "commit_operation")
def something_else_stored_than_was_due(forged: Forgery) -> None:
    name = "start" if "start" in forged.plan["operations"][0]["columns"] else "amount"
    new = "07:00" if name == "start" else 12345
    forged.plan["operations"][0]["columns"][name][1] = new
    table = forged.plan["commit_table"]
    written = forged.all("write", table=table, key=forged.plan["operations"][0]["key"])
    for write in written[1:]:
        if name in write["columns"]:
            place = int(write["actor"] == "perturbation")
            write["columns"][name][place] = new


@forging(GHOST, "trigger_invalid", "agreement scope", "following_operation")
def slot_left_booked(forged: Forgery) -> None:
    forged.plan["operations"][1]["columns"]["status"][1] = "booked"


@forging(REVIEW, "trigger_invalid", "agreement scope", "carried_operation")
def another_slot_carried(forged: Forgery) -> None:
    forged.plan["operations"][0]["columns"]["before"][1] = 10_000


@forging(TAKEN, "trigger_invalid", "agreement", "rival_operation")
def booking_at_another_time(forged: Forgery) -> None:
    write = next(write for write in forged.all("write", actor="perturbation") if write["table"] == "appointment")
    for columns in (write["columns"], forged.plan["operations"][1]["columns"]):
        columns["start"][1] = "07:00"
    forged.row("appointment", write["key"])[forged.cell("appointment", "start")] = "07:00"


@forging(TAKEN, "trigger_invalid", "agreement", "rival")
def taken_by_the_target_itself(forged: Forgery) -> None:
    write = next(write for write in forged.all("write", actor="perturbation") if write["table"] == "appointment")
    for columns in (write["columns"], forged.plan["operations"][1]["columns"]):
        columns["patient_id"][1] = forged.plan["task"]["patient"]
    row = forged.row("appointment", write["key"])
    row[forged.cell("appointment", "patient_id")] = forged.plan["task"]["patient"]


MAIL = ("ClinicContested", "MAIL-A", "first", PAGES, "read_mail")


@forging(MAIL, "trigger_invalid", "agreement", "message_operation")
def mail_of_another_slot(forged: Forgery) -> None:
    write = next(write for write in forged.all("write", actor="perturbation") if write["table"] == "message")
    for columns in (write["columns"], forged.plan["operations"][2]["columns"]):
        columns["body"][1] = "A slot is gone."
    forged.row("message", write["key"])[forged.cell("message", "body")] = "A slot is gone."


@forging(MAIL, "trigger_invalid", "agreement", "sender")
def mail_of_a_stranger(forged: Forgery) -> None:
    write = next(write for write in forged.all("write", actor="perturbation") if write["table"] == "message")
    for columns in (write["columns"], forged.plan["operations"][2]["columns"]):
        columns["sender"][1] = "Nobody"
    forged.row("message", write["key"])[forged.cell("message", "sender")] = "Nobody"


@forging(TAKEN, "trigger_invalid", "freshness", "served_value")
def taken_slot_still_shown_as_free(forged: Forgery) -> None:
    fact = forged.plan["arm"]
    number = forged.one("fire")["request"]
    for request in forged.all("request"):
        if request["number"] >= number and [*fact, "booked"] in request["served"]:
            request["served"] = [[*fact, "free"] if item[:3] == fact else item for item in request["served"]]
            for frame in forged.frames_of(request):
                retext(frame, fact, "free")


@forging(TAKEN_L2, "delivery_ambiguous", "notice", "notice_undelivered")
def notice_of_the_taken_slot_kept_back(forged: Forgery) -> None:
    for frame in forged.all("frame"):
        if frame["notice"]:
            frame["notice"] = ""
            frame["page"] = frame["page"].split("\n", 3)[3]


@forging(GHOST, "trigger_invalid", "freshness", "fact_unshown")
@forging(GHOST_CLAIMS, "trigger_invalid", "freshness", "fact_unshown")
def record_that_shows_what_was_chosen(forged: Forgery) -> None:
    """The truth could not be found: the record repeats the confirmation."""
    sent = next(frame for frame in forged.all("frame") if "created=1" in frame["url"])
    label = "Time: " if "\nTime: " in sent["page"] else "Amount: "
    chosen = next(line for line in sent["page"].split("\n") if line.startswith(label))
    place = forged.at(sent)
    frame = next(data for kind, data in forged.records[place + 1 :] if kind == "frame" and "?" not in data["url"])
    stored = next(line for line in frame["page"].split("\n") if line.startswith(label))
    assert stored != chosen
    frame["page"] = frame["page"].replace(stored, chosen)


@forging(REVIEW, "harness_error", "exposure_log freshness", "served_unshown")
def review_of_what_was_chosen(forged: Forgery) -> None:
    """What the form holds is not what its review shows: nobody could have seen it."""
    firing = forged.firing
    firing["served"] = [[*forged.plan["arm"], "free"]]


@forging(REVIEW_CLAIMS, "trigger_invalid", "freshness", "fact_unshown")
def review_that_hides_the_change(forged: Forgery) -> None:
    for frame in forged.frames_of(forged.firing):
        shown = next(line for line in frame["page"].split("\n") if line.startswith("Amount to approve: "))
        frame["page"] = frame["page"].replace(shown, "Amount to approve: $1.00")


# Tools.


@forging(STALE_TOOLS, "harness_error", "actions", "action_parsed")
def call_not_what_was_said(forged: Forgery) -> None:
    forged.one("action", verb="get_patient")["raw"] = call("get_patient", patient_id=1_000)


@forging(STALE_TOOLS, "harness_error", "actions", "request_differs")
def call_of_another_record(forged: Forgery) -> None:
    action = forged.one("action", verb="review_booking")
    arguments = {**json.loads(action["args"][0]), "slot_id": 60}
    action["raw"], action["args"] = call("review_booking", **arguments), [json.dumps(arguments, separators=(",", ":"))]


@forging(STALE_TOOLS, "harness_error", "actions single_firing scope", "request_count")
def request_twice_for_a_call(forged: Forgery) -> None:
    request = forged.one("request", path="/patients")
    forged.put(forged.at(request), ("request", copy.deepcopy(request)))
    forged.renumber()


@forging(STALE_TOOLS, "harness_error", "actions single_firing scope frames exposure_log", "request_unasked")
def request_of_a_memo(forged: Forgery) -> None:
    place = forged.at(forged.one("action", verb="memo"))
    request = copy.deepcopy(forged.one("request", number=1))
    forged.put(place, ("request", {**request, "actor": "agent", "step": forged.records[place][1]["step"]}))
    forged.renumber()


@forging(L2_TOOLS, "harness_error", "actions notice", "notice_first")
def notice_passed_by(forged: Forgery) -> None:
    for frame in forged.all("frame"):
        if frame["notice"]:
            frame["notice"] = ""
            result_of(frame, lambda result: result.pop("notice"))


@forging(STALE_TOOLS, "harness_error", "actions", "report_altered")
def report_of_a_tool_altered(forged: Forgery) -> None:
    forged.one("report")["fields"]["location"] = "Elsewhere"


@forging(STALE_TOOLS, "harness_error", "frames", "frame_heading")
def result_of_another_title(forged: Forgery) -> None:
    result_of(forged.one("frame", step=3), lambda result: result.update(title="Inbox"))


@forging(STALE_TOOLS, "harness_error", "frames", "notice_lines")
def notice_in_the_result_alone(forged: Forgery) -> None:
    frame = no_notice(forged)[3]
    frame["page"] = '{"notice":{"text":"Stop."},' + frame["page"][1:]
    for item in frame["delivered"]:
        item[4] += 27


@forging(STALE_TOOLS, "harness_error", "frames", "frame_length")
def elements_of_a_result(forged: Forgery) -> None:
    forged.one("frame", step=3)["elements"] = '[1] link "Pay"'


@forging(STALE_TOOLS, "harness_error", "exposure_log exposure anchor", "delivered_text")
def part_of_a_text_delivered(forged: Forgery) -> None:
    """The value stands in a longer text, and not by itself."""
    for frame in forged.frames_of(*forged.served(old=True)):
        place = next(item[4] for item in frame["delivered"] if item[:3] == forged.plan["arm"])
        frame["page"] = f"{frame['page'][:place]}x{frame['page'][place:]}"
        for item in frame["delivered"]:
            item[4] += item[4] >= place


@forging(STALE_TOOLS, "trigger_invalid", "exposure anchor", "served_undelivered")
def value_not_delivered_by_a_tool(forged: Forgery) -> None:
    for frame in forged.frames_of(*forged.served(old=True)):
        frame["delivered"] = []


@forging(STALE_TOOLS, "trigger_invalid", "freshness", "stale_page")
def stale_row_in_a_result(forged: Forgery) -> None:
    """The row as it was stands once more in a later result of the same call."""
    old = forged.frames_of(*forged.served(old=True))[0]
    offset = next(item[4] for item in old["delivered"] if item[:3] == forged.plan["arm"])
    begin, end = old["page"].rindex("[", 0, offset), old["page"].index("]", offset) + 1
    row = old["page"][begin:end]
    for later in forged.frames_of(*forged.served(old=False)):
        if later["url"] == old["url"]:
            place = later["page"].rindex("]]") + 1
            later["page"] = f"{later['page'][:place]},{row}{later['page'][place:]}"


@forging(LIVE_TOOLS, "delivery_ambiguous", "review freshness", "review_value")
def review_value_not_in_the_result(forged: Forgery) -> None:
    def drop(result: Data) -> None:
        result["body"] = [part for part in result["body"] if "held at" not in part.get("banner", "")]

    for request in forged.all("request", route="/new/review", method="GET"):
        for frame in forged.frames_of(request):
            frame["delivered"] = []
            result_of(frame, drop)


@forging(CUE_TOOLS, "delivery_ambiguous", "review", "review_link")
def review_link_that_calls_nothing(forged: Forgery) -> None:
    def drop(result: Data) -> None:
        for part in result["body"]:
            if part.get("banner", "").startswith("Before you confirm"):
                del part["links"]

    for frame in forged.frames_of(*forged.all("request", route="/new/review", method="GET")):
        result_of(frame, drop)


@forging(STALE_TOOLS, "harness_error", "unannounced", "review_unannounced")
def review_result_that_discloses(forged: Forgery) -> None:
    for frame in forged.frames_of(*forged.all("request", route="/new/review", method="GET")):
        result_of(frame, lambda result: result["body"].append({"banner": "Before you confirm, look again."}))


@forging(REVIEW_TOOLS, "trigger_invalid", "freshness", "fact_unshown")
def result_that_hides_the_change(forged: Forgery) -> None:
    def hide(result: Data) -> None:
        next(part for part in result["body"] if "facts" in part)["facts"]["Time"] = "07:00-07:30"

    for frame in forged.frames_of(forged.firing):
        result_of(frame, hide)


# Passing the review by.


@forging(("ClinicStale", "CUE-A", "first", PAGES, "late_reread"), "delivery_ambiguous", "review", "review_missing")
def review_of_another_referral(forged: Forgery) -> None:
    """On pages there is no other way to the form than its review, so that it must have been shown."""
    target = str(forged.plan["task"]["referral"])
    other = next(str(row[0]) for row in forged.pre["referral"]["rows"] if str(row[0]) != target)
    for request in forged.all("request", route="/new/review", method="GET"):
        request["params"]["referral"] = other
        for frame in forged.frames_of(request):
            frame["url"] = frame["url"].replace(f"referral={target}", f"referral={other}")


ODD = (
    None,
    True,
    -1,
    2**70,
    1.5,
    "",
    "x",
    "\ud800",
    [],
    {},
    [1],
    {"a": [1]},
    "{",
    '{"body":[1,{"facts":2},{"links":[3]}]}',
)


def test_no_wrong_type_in_any_environment_makes_the_auditor_fail(run: Run, tmp_path: Path) -> None:
    """Nor is any of them passed over: where something differs, something is broken."""
    draw = random.Random(11)  # noqa: S311 - examples
    originals = [Forgery(run[cell][0]) for cell in (L2_TOOLS, TAKEN_L2, MAIL, GHOST, REVIEW_TOOLS, GHOST_CLAIMS)]
    for _ in range(120):
        original = draw.choice(originals)
        forged = copy.deepcopy(original)
        part: Any = draw.choice(
            [forged.plan, forged.pre, forged.post, *(data for kind, data in forged.records if kind != "start")]
        )
        while part and isinstance(part, dict | list):
            holder, name = part, draw.choice(list(part) if isinstance(part, dict) else range(len(part)))
            part = holder[name]
        new = draw.choice(ODD)
        # What nothing else says, and what sealing makes anew.
        if name in ("wall_ms", "sha256", "frame_sha256") or (type(new) is type(part) and new == part):
            continue
        holder[name] = new
        try:
            folder = forged.seal(tmp_path / "odd")
        except TypeError:  # no text to join
            folder = forged.seal(tmp_path / "odd", frames=False)
        assert validity.audit(folder)["class"] in ("harness_error", "trigger_invalid"), (name, part, new)


@pytest.mark.parametrize(
    ("cell", "expected", "term", "code", "forge"), [line[1:] for line in CASES], ids=[line[0] for line in CASES]
)
def test_a_resealed_corruption_breaks_its_rule(
    run: Run, tmp_path: Path, cell: Cell, expected: str, term: str, code: str, forge: Forge
) -> None:
    forged = Forgery(run[cell][0])
    forge(forged)
    result = validity.audit(forged.seal(tmp_path / "forged"))
    found = [(reason["class"], reason["term"], reason["code"]) for reason in result["reasons"]]
    first, *others = term.split()
    assert result["class"] == expected, result["reasons"]
    assert (expected, first, code) in found, result["reasons"]
    # This rule fails, and none but those that cannot but fail with it.
    assert {name for _, name, _ in found} == {first, *others}, result["reasons"]
