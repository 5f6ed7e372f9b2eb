"""Named tools: one for each route, calls that say what pages do, evidence and verdicts as on pages."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import gymnasium
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envos.certify.policies import policies
from envos.certify.policies.clinic import CUE
from envos.certify.probes import crawl
from envos.certify.rollout import play
from envos.envs.action import ActionError
from envos.envs.env import EnvOS
from envos.envs.evidence import Action, Evidence, Frame, Report, Request, frame_sha256
from envos.envs.page import Facts, Form, Heading, Link, Modal, Page, Paragraph, Table, Value
from envos.envs.result import result
from envos.envs.scenario import SCENARIOS, WORLDS, load_world
from envos.envs.toolbox import Toolbox
from envos.errors import UsageError
from envos.rewards.verdict import verify
from envos.wrappers.archive import Archive, read_archive
from envos.wrappers.tools import ToolActions, call

IDS = tuple(SCENARIOS)
CLINIC = "EnvOS/ClinicStale-v0"
BOX = Toolbox(load_world("clinic"))
ANCHORS = ("first", "any")
REPORT = {"location": "x", "start": "y", "reference": "z"}


def make(environment: str = CLINIC, **keywords: Any) -> ToolActions:
    return ToolActions(gymnasium.make(f"envos:{environment}", disable_env_checker=True, **keywords))


def core(env: gymnasium.Env[Any, Any]) -> EnvOS:
    inner = env.unwrapped
    assert isinstance(inner, EnvOS)
    return inner


@pytest.fixture
def env() -> Iterator[ToolActions]:
    """A clinic in which the place changes, announced, at the first form request after it was read."""
    made = make(condition="L2", anchor="first")
    made.reset(seed=3)
    yield made
    made.close()


def ask(env: ToolActions, name: str, **arguments: Any) -> dict[str, Any]:
    """The result of a call that must be in order."""
    observation, *_ = env.step(call(name, **arguments))
    assert observation["error"] == ""
    found: dict[str, Any] = json.loads(observation["result"])
    return found


# The tools and the routes


@pytest.mark.parametrize("name", WORLDS)
def test_every_route_has_one_tool(name: str) -> None:
    """No operation is missing and none is made up; a refusal is shown, never asked for."""
    world = load_world(name)
    routes = set(world.routes.handlers) - {("GET", "/refused")}
    assert sorted((tool.method, tool.route) for tool in world.tools) == sorted(routes)
    assert len(Toolbox(world).tools) == len(world.tools) + 3


@pytest.mark.parametrize("name", WORLDS)
def test_schemas_are_openai_functions(name: str) -> None:
    schemas = Toolbox(load_world(name)).schemas()
    assert json.loads(json.dumps(schemas)) == schemas
    for schema in schemas:
        assert set(schema) == {"type", "function"}
        assert schema["type"] == "function"
        function = schema["function"]
        assert set(function) == {"name", "description", "parameters"}
        assert re.fullmatch(r"[a-z][a-z_]{2,63}", function["name"])
        assert 10 < len(function["description"]) <= 120
        parameters = function["parameters"]
        assert (parameters["type"], parameters["additionalProperties"]) == ("object", False)
        assert set(parameters["required"]) <= set(parameters["properties"])
        for argument, typed in parameters["properties"].items():
            assert re.fullmatch(r"[a-z][a-z_]{1,40}", argument)
            assert typed["type"] in ("integer", "string")
            assert typed["description"].endswith(".")
            assert (typed["type"] == "integer") == argument.endswith("_id")


def test_one_schema_word_for_word() -> None:
    (schema,) = [item for item in BOX.schemas() if item["function"]["name"] == "list_slots"]
    whole = {"minimum": 1, "maximum": 999_999_999}
    assert schema["function"] == {
        "name": "list_slots",
        "description": "List a place's slots, free and booked, for the appointment of a referral.",
        "parameters": {
            "type": "object",
            "properties": {
                "referral_id": {
                    "type": "integer",
                    "description": "Id of a referral, as list_referrals gives it.",
                    **whole,
                },
                "place_id": {"type": "integer", "description": "Id of a place, as start_booking gives it.", **whole},
            },
            "required": ["referral_id", "place_id"],
            "additionalProperties": False,
        },
    }


def links(page: Page) -> Iterator[Link]:
    """Every link in the body of a page."""
    for node in page.body:
        if isinstance(node, Table):
            cells = [cell for row in node.rows for cell in row]
        elif isinstance(node, Facts):
            cells = [cell for _, cell in node.items]
        else:
            cells = list(getattr(node, "parts", ()))
        yield from (cell for cell in cells if isinstance(cell, Link))


@pytest.mark.parametrize("environment", IDS)
def test_whatever_a_page_offers_is_a_call(environment: str) -> None:
    """Each link and each form of each page is a call, and the call makes the request that the page would make."""
    inner = core(gymnasium.make(f"envos:{environment}", condition="L0", disable_env_checker=True))
    box = Toolbox(inner.world)
    inner.reset(seed=1)
    pages = crawl(inner, inner.snapshot())
    counts = {"links": 0, "forms": 0}
    for page in pages.values():
        if not isinstance(page, Page):
            continue
        for link in links(page):
            offer = box.link(link.href)
            assert offer is not None, link
            action = box.read(call(offer.tool.name, **offer.arguments))
            assert not isinstance(action, ActionError), action
            method, url, form = box.request(action)
            assert (method, form, url.partition("?")[0]) == ("GET", {}, link.href.partition("?")[0])
            assert sorted(parse_qsl(url.partition("?")[2])) == sorted(parse_qsl(link.href.partition("?")[2]))
            counts["links"] += 1
        for node in page.body:
            if isinstance(node, Form):
                counts["forms"] += 1
                check_form(box, node)
    assert min(counts.values()) > 20
    inner.close()


def check_form(box: Toolbox, node: Form) -> None:
    """With every field filled in, the call of a form sends what the form sends."""
    offer = box.form(node)
    assert offer is not None, node
    arguments = dict(offer.arguments)
    for name, pairs in offer.choices.items():
        arguments[name] = pairs[0][0] if pairs else "12.50"
    action = box.read(call(offer.tool.name, **arguments))
    assert not isinstance(action, ActionError), action
    method, url, form = box.request(action)
    sent = form if method == "POST" else dict(parse_qsl(url.partition("?")[2]))
    assert (method, url.partition("?")[0]) == (node.method.upper(), node.action)
    assert set(sent) == {field.name for field in node.fields if field.name}


# Results


def test_the_first_result_is_the_home_page_and_navigation_is_left_out(env: ToolActions) -> None:
    observation, _ = env.reset(seed=3)
    assert set(observation) == {"goal", "result", "memo", "error", "budget_left"}
    assert json.loads(observation["result"])["title"] == "Clinic portal"
    assert "/sessions" not in observation["result"]
    assert "Inbox" not in observation["result"]


def test_a_page_as_a_result() -> None:
    """Every kind of node, word for word."""
    place = Value("Elm Court", "clinic_session", 7, "location_id")
    page = Page(
        "Referral R-1",
        (
            Heading("Who"),
            Facts((("Patient", Link("Ann", "/patients/4")), ("Place", place))),
            Paragraph((Link("Book appointment", "/new/clinic?referral=2"),)),
            Paragraph(("Session:", Link("Flu", "/sessions/7"))),
            Table(("Referral", "Status"), ((Link("R-2", "/referrals/9"), "open"),)),
            Table(("Referral",), (), "No referrals."),
            Form("post", "/referrals/2/decline", (), "Mark as declined"),
        ),
        navigation=(Link("Home", "/"),),
    )  # fmt: skip
    view = result(page, BOX)
    assert json.loads(view.text) == {
        "title": "Referral R-1",
        "body": [
            {"heading": "Who"},
            {"facts": {"Patient": {"text": "Ann", "tool": "get_patient", "patient_id": 4}, "Place": "Elm Court"}},
            {"text": "Book appointment", "tool": "start_booking", "referral_id": 2},
            {"text": "Session: Flu", "links": [{"text": "Flu", "tool": "get_session", "session_id": 7}]},
            {
                "columns": ["Referral", "Status"],
                "rows": [[{"text": "R-2", "tool": "get_referral", "referral_id": 9}, "open"]],
            },
            {"columns": ["Referral"], "rows": [], "empty": "No referrals."},
            {"form": "Mark as declined", "tool": "mark_referral_declined", "arguments": {"referral_id": 2}},
        ],
    }
    (mark,) = view.marks
    assert view.text[mark.offset :].startswith('Elm Court"}')


def test_under_a_notice_nothing_else_can_be_used() -> None:
    form = Form("post", "/notices/5/acknowledge", (), "Acknowledge")
    body = (Paragraph((Link("Flu", "/sessions/7"),)), Form("post", "/referrals/2/decline", (), "Decline"))
    view = result(Page("Here", body, modal=Modal("Notice", "Flu has moved.", form)), BOX)
    assert view.notice == "Notice: Flu has moved."
    assert json.loads(view.text) == {
        "notice": {"text": "Notice: Flu has moved.", "tool": "acknowledge_notice", "notice_id": 5},
        "title": "Here",
        "body": [{"text": "Flu"}],
    }


def watched(number: int) -> Page:
    rows = tuple((Value(f"Place {row:03}", "clinic_session", row, "location_id"), "x" * 10) for row in range(number))
    return Page("Many", (Table(("Place", "Rest"), rows), Paragraph(("At the end.",))))


def test_a_long_result_leaves_rows_out_and_stays_json() -> None:
    """Each row that is left out is counted, and no watched value of one is claimed to be delivered."""
    view = result(watched(300), BOX)
    assert len(view.text) <= 4000
    table, last = json.loads(view.text)["body"]
    assert len(table["rows"]) + table["left_out"] == 300
    assert len(table["rows"]) > 80
    assert last == {"text": "At the end."}
    assert [mark.value.key for mark in view.marks] == list(range(len(table["rows"])))
    whole = result(watched(20), BOX)
    assert "left_out" not in whole.text
    assert len(whole.marks) == 20


def test_a_value_that_is_cut_off_is_not_marked() -> None:
    """Without a row to leave out the text is cut; a value counts only with its last code point."""
    value = Value("Elm Court", "clinic_session", 7, "location_id")
    page = Page("Held at", (Facts((("Place", value),)),))
    end = result(page, BOX).marks[0].offset + len(value.text)
    assert result(page, BOX, end).marks
    assert not result(page, BOX, end - 1).marks
    assert len(result(page, BOX, end - 1).text) == end - 1


def test_a_result_can_be_measured_otherwise() -> None:
    """By the tokens of a model, say; here by its words, of which each row of a table has four."""
    words = re.compile(r"\w+")

    def size(text: str) -> int:
        return len(words.findall(text))

    view = result(watched(300), BOX, 60, size)
    table, last = json.loads(view.text)["body"]
    assert size(view.text) <= 60 < size(view.text) + 3 * max(1, (len(table["rows"]) + 1) // 8)
    assert len(table["rows"]) + table["left_out"] == 300
    assert [mark.value.key for mark in view.marks] == list(range(len(table["rows"])))
    assert last == {"text": "At the end."}
    cut = result(Page("One two", (Paragraph(("three four five",)),)), BOX, 4, size)
    assert cut.text == '{"title":"One two","body":[{"'


@pytest.mark.parametrize(("text", "marks"), [("St. Mary's", 1), ("Élan Ωmega", 1), ('The "Elm"', 0), ("A\\B", 0)])
def test_a_value_is_marked_where_it_stands_as_it_is(text: str, marks: int) -> None:
    """What JSON has to escape is delivered in another spelling, so that nothing may be claimed of it."""
    view = result(Page("P", (Facts((("Place", Value(text, "t", 1, "c")),)),)), BOX)
    assert len(view.marks) == marks
    assert json.loads(view.text)["body"][0]["facts"]["Place"] == text
    for mark in view.marks:
        assert view.text[mark.offset : mark.offset + len(text)] == text


def test_two_facts_of_one_label_are_both_there() -> None:
    view = result(Page("P", (Facts((("Note", "a"), ("Note", "b"))),)), BOX)
    assert json.loads(view.text)["body"][0]["facts"] == {"Note": "a", "Note 2": "b"}


# Calls


WRONG = [
    ('{"name": "get_sesion", "arguments": {"session_id": 1}}', "unknown tool 'get_sesion'; did you mean 'get_session'"),
    ('{"name": "fly"}', "unknown tool 'fly'; valid: overview, list_sessions"),
    ('{"name": "get_session", "arguments": {}}', "session_id is missing; expected get_session(session_id: integer)"),
    ('{"name": "get_session", "arguments": {"sesion_id": 1}}', "unknown argument 'sesion_id'; did you mean"),
    ('{"name": "get_session", "arguments": {"session_id": "1"}}', "session_id is an integer from 1; got '\"1\"'"),
    ('{"name": "get_session", "arguments": {"session_id": true}}', "session_id is an integer from 1; got 'true'"),
    ('{"name": "get_session", "arguments": {"session_id": 0}}', "session_id is an integer from 1; got '0'"),
    ('{"name": "get_session", "arguments": {"session_id": 1.0}}', "session_id is an integer from 1; got '1.0'"),
    ('{"name": "get_session", "arguments": {"session_id": 1000000000}}', "session_id is an integer from 1"),
    ('{"name": "change_phone", "arguments": {"patient_id": 1, "phone": 5}}', "phone is a string; got '5'"),
    ('{"name": "get_session", "arguments": [1]}', "the arguments of a tool call are an object; got '[1]'"),
    ('{"name": "noop", "arguments": {"x": 1}}', "unknown argument 'x'; valid: none; expected noop()"),
    ('{"name": "noop", "id": 7}', "a name and arguments, and nothing else; got 'id'"),
    ('{"name": "noop", "name": "noop"}', "names everything once; got 'name' twice"),
    ('{"name": 7}', "a tool call is a JSON object"),
    ('{"arguments": {}}', "a tool call is a JSON object"),
    ("[]", "a tool call is a JSON object"),
    ("noop()", "a tool call is a JSON object"),
    ("", "a tool call is a JSON object"),
    ('I call {"name": "noop"}', "a tool call is a JSON object"),
    ('{"name": "memo", "arguments": {"text": NaN}}', "NaN is no JSON value"),
    ('{"name": "memo", "arguments": {"text": "\\ud800"}}', "a tool call is a JSON object"),
    ("[" * 9000, "a tool call is a JSON object"),
    ('{"name": "noop"}' + " " * 10_000, "at most 10000 characters"),
    ('{"name": "memo", "arguments": {}}', "text is missing"),
    ('{"name": "report", "arguments": {"location": "x"}}', "start is missing; expected report(location: string"),
    (None, "got an object of another type"),
    (7, "got an object of another type"),
    ({"name": {1}}, "got an object of another type"),
    ({"name": "get_session", "arguments": {"session_id": float("nan")}}, "got an object of another type"),
]  # fmt: skip


@pytest.mark.parametrize(("reply", "message"), WRONG, ids=[str(number) for number in range(len(WRONG))])
def test_a_wrong_call_costs_a_step_and_changes_nothing(env: ToolActions, reply: Any, message: str) -> None:
    """E07: the error line says what was expected; there is no request, and the last result is shown again."""
    inner = core(env)
    before, shown = inner.state_now(), json.loads(inner.ledger.records()[-1].page)  # type: ignore[union-attr]
    observation, reward, terminated, truncated, info = env.step(reply)
    assert message in observation["error"]
    assert len(observation["error"]) <= 1000
    assert observation["error"].isprintable()
    assert (reward, terminated, truncated, info["step"]) == (0.0, False, False, 1)
    assert json.loads(observation["result"]) == shown
    assert inner.state_now() == before
    assert sum(isinstance(record, Request) for record in inner.ledger.records()) == 1


def test_a_wrong_choice_is_answered_with_the_choices() -> None:
    if "claims" not in WORLDS:
        pytest.skip("only the claims world has choices that never change")
    read = Toolbox(load_world("claims")).read(call("list_claims", status="lost"))
    assert read == ActionError("list_claims: status is one of open, approved, denied; got '\"lost\"'")


def test_no_depth_of_nesting_raises(env: ToolActions) -> None:
    """Between what the JSON decoder can read and what the encoder can write again there are depths of their own."""
    step = core(env)._read
    for depth in range(850, 1000):
        for reply in ('{"name": "memo", "arguments": {"text": %s%s}}', '{"name": "memo", "arguments": %s%s}'):
            assert isinstance(step(reply % ("[" * depth, "]" * depth)), ActionError)


def test_a_call_may_be_a_dict(env: ToolActions) -> None:
    observation, *_ = env.step({"name": "get_session", "arguments": {"session_id": 1}})
    assert observation["error"] == ""
    action = next(record for record in core(env).ledger.records() if isinstance(record, Action))
    assert (action.verb, action.args) == ("get_session", ('{"session_id":1}',))
    assert json.loads(action.raw) == {"name": "get_session", "arguments": {"session_id": 1}}


def test_memo_and_noop_ask_for_nothing(env: ToolActions) -> None:
    observation, *_ = env.step(call("memo", text="m" * 400))
    assert observation["memo"] == "m" * 300
    observation, *_ = env.step(call("noop"))
    assert (observation["memo"], observation["error"]) == ("m" * 300, "")
    records = core(env).ledger.records()
    assert sum(isinstance(record, Request) for record in records) == 1
    assert [r.memo_cut for r in records if isinstance(r, Action)] == [100, 0]


def test_an_empty_optional_text_is_as_if_it_were_left_out(env: ToolActions) -> None:
    assert ask(env, "list_patients", query="")["body"][1:] == ask(env, "list_patients")["body"][1:]


@settings(max_examples=200)
@given(
    st.one_of(
        st.text(max_size=200),
        st.dictionaries(st.sampled_from(["name", "arguments", "x"]), st.one_of(st.text(), st.integers(), st.none())),
        st.builds(
            lambda name, keys, values: json.dumps({"name": name, "arguments": dict(zip(keys, values, strict=False))}),
            st.sampled_from(sorted(BOX.tools)),
            st.lists(st.sampled_from(["session_id", "query", "referral_id", "place_id", "text"]), max_size=4),
            st.lists(st.one_of(st.integers(), st.text(max_size=300), st.booleans(), st.none()), max_size=4),
        ),
    )
)
def test_no_reply_raises(reply: Any) -> None:
    """E07, E17: whatever is said, the answer is an observation; a fault of ours would end the episode."""
    env = FUZZED[0] if FUZZED else make(condition="L0")
    FUZZED[:] = [env]
    env.reset(seed=2)
    observation, reward, _, truncated, _ = env.step(reply)
    assert (reward, truncated) == (0.0, False)
    assert env.observation_space.contains(observation)
    json.loads(observation["result"])


FUZZED: list[ToolActions] = []


def test_sampled_calls_are_well_formed(env: ToolActions) -> None:
    env.action_space.seed(5)
    for _ in range(45):
        reply = env.action_space.sample()
        assert env.action_space.contains(reply)
        observation, *_ = env.step(reply)
        error = observation["error"]
        assert error == "" or "notice" in error
        assert env.observation_space.contains(observation)


# Notices


def to_notice(env: ToolActions) -> dict[str, Any]:
    """Read the source, and begin a booking; the change is announced on the result after that."""
    ask(env, "list_sessions")
    ask(env, "start_booking", referral_id=1)
    return ask(env, "list_referrals")


def test_a_notice_is_acknowledged_before_anything_else(env: ToolActions) -> None:
    shown = to_notice(env)
    assert shown["notice"]["text"].startswith("Notice: ")
    assert (shown["notice"]["tool"], shown["notice"]["notice_id"]) == ("acknowledge_notice", 1)
    assert all(isinstance(cell, str) for row in shown["body"][0]["rows"] for cell in row)
    for reply in (call("list_sessions"), call("acknowledge_notice", notice_id=2)):
        observation, *_ = env.step(reply)
        assert "the notice comes first: call acknowledge_notice with {'notice_id': 1}" in observation["error"]
    assert env.step(call("memo", text="x"))[0]["error"] == ""
    shown = ask(env, "acknowledge_notice", notice_id=1)
    assert "notice" not in shown
    assert shown["title"] == "Referrals"
    assert isinstance(shown["body"][0]["rows"][0][0], dict)
    ask(env, "list_sessions")


def test_there_is_nothing_to_acknowledge_without_a_notice(env: ToolActions) -> None:
    """Else a notice could be put away before it was ever shown."""
    ask(env, "list_sessions")
    ask(env, "start_booking", referral_id=1)
    observation, *_ = env.step(call("acknowledge_notice", notice_id=1))
    assert observation["error"] == "acknowledge_notice: there is no notice to acknowledge"
    assert "notice" in ask(env, "list_referrals")


# Evidence and verdicts


@pytest.mark.slow
@pytest.mark.parametrize("anchor", ANCHORS)
@pytest.mark.parametrize("condition", SCENARIOS[CLINIC].conditions)
def test_policies_earn_what_they_earn_on_pages(condition: str, anchor: str) -> None:
    """Ten seeds, every scripted policy: the same validity, endpoint, fraction and signatures, in fewer steps."""
    pages = gymnasium.make(f"envos:{CLINIC}", condition=condition, anchor=anchor, disable_env_checker=True)
    tools = make(condition=condition, anchor=anchor)
    names = ("validity", "counted", "endpoint", "fraction", "signatures")
    assert set(policies("tools_clinic")) == {"reference", "late_reread", "stale", "follow_cue", "read_review"}
    for seed in range(10):
        for name, scripted in policies("tools_clinic").items():
            page = play(pages, policies("clinic")[name].policy, seed)
            tool = play(tools, scripted.policy, seed)
            assert {key: tool.verdict[key] for key in names} == {key: page.verdict[key] for key in names}, (seed, name)
            assert tool.verdict["endpoint"] is (condition in scripted.wins)
            assert tool.steps < page.steps
    pages.close()
    tools.close()


def test_every_delivered_value_stands_where_the_evidence_says() -> None:
    """The offsets of all frames, and the exposure rules: what arms is a result that holds the value."""
    env = make(condition="LIVE-A", anchor="first")
    play(env, policies("tools_clinic")["read_review"].policy, 4)
    frames = [record for record in core(env).ledger.records() if isinstance(record, Frame)]
    assert sum(bool(frame.delivered) for frame in frames) >= 4
    for frame in frames:
        for item in frame.delivered:
            assert frame.page[item.offset : item.offset + len(item.text)] == item.text
        assert frame.elements == ""
        json.loads(frame.page)
    env.close()


def test_an_archive_of_a_tool_episode_gives_its_verdict(tmp_path: Path) -> None:
    """Inside and around Archive; the identity says that the actions were calls."""
    inside = ToolActions(Archive(gymnasium.make(f"envos:{CLINIC}", condition="CUE-A"), tmp_path / "inside"))
    around = Archive(make(condition="CUE-A"), tmp_path / "around")
    archive = inside.env
    digests = set()
    for env, holder in ((inside, archive), (around, around)):
        episode = play(env, policies("tools_clinic")["follow_cue"].policy, 6)
        assert isinstance(holder, Archive)
        assert holder.folder is not None
        evidence = read_archive(holder.folder)
        assert evidence.problems == ()
        assert evidence.digest == core(env).evidence().digest
        assert evidence.start.identity["actions"] == "tools"
        assert verify(evidence).info() == episode.verdict
        assert episode.reward == 1.0
        digests.add(evidence.digest)
        env.close()
    assert len(digests) == 1


def changed(evidence: Evidence, **by_kind: Any) -> Evidence:
    records = tuple(by_kind.get(type(record).__name__, lambda same: same)(record) for record in evidence.records)
    return replace(evidence, records=records)


def test_a_report_that_was_altered_is_seen() -> None:
    env = make(condition="L0")
    assert play(env, policies("tools_clinic")["reference"].policy, 6).reward == 1.0
    evidence = core(env).evidence()
    altered = changed(evidence, Report=lambda one: Report(one.step, {**one.fields, "location": "Elsewhere"}))
    assert [reason.code for reason in verify(altered).reasons] == ["report_differs"]
    said = changed(evidence, Action=lambda one: one._replace(raw=call("noop")) if one.verb == "report" else one)
    assert [reason.code for reason in verify(said).reasons] == ["report_differs"]
    env.close()


def test_a_review_without_the_link_is_not_delivered() -> None:
    """The reminder's call is taken out of every result: what the condition promises was not handed over."""
    env = make(condition="CUE-A")
    assert play(env, policies("tools_clinic")["reference"].policy, 6).verdict["validity"] == "counted"

    def without(frame: Frame) -> Frame:
        page = frame.page.replace(f'{{"text":"{CUE}","tool":"get_session",', '{"text":"Some other link",')
        digest = frame_sha256(frame.url, page, frame.elements, frame.notice, frame.error, frame.memo, frame.budget_left)
        return frame._replace(page=page, sha256=digest)

    evidence = changed(core(env).evidence(), Frame=without)
    renamed = {old.sha256: new.sha256 for old, new in zip(core(env).ledger.records(), evidence.records, strict=True)
               if isinstance(old, Frame) and isinstance(new, Frame)}  # fmt: skip
    evidence = changed(evidence, Action=lambda one: one._replace(frame_sha256=renamed[one.frame_sha256]))
    verdict = verify(evidence)
    assert (verdict.validity, [reason.code for reason in verdict.reasons]) == (
        "delivery_ambiguous",
        ["review_without_link"],
    )
    env.close()


def test_a_page_agent_cannot_report_by_a_call() -> None:
    """What an agent on pages says in JSON is no action."""
    env = gymnasium.make(f"envos:{CLINIC}", condition="L0")
    env.reset(seed=1)
    observation, _, terminated, _, _ = env.step(call("report", **REPORT))
    assert not terminated
    assert observation["error"]
    env.close()


def test_a_snapshot_goes_on_as_the_episode_did() -> None:
    env = make(condition="OFF-A", anchor="first")
    inner = core(env)
    env.reset(seed=5)
    calls = [call("list_sessions"), call("list_referrals"), call("start_booking", referral_id=1), call("noop")]
    for reply in calls[:2]:
        env.step(reply)
    snapshot = inner.snapshot()
    ends = []
    for _ in range(2):
        for reply in calls[2:]:
            env.step(reply)
        ends.append(inner.evidence().digest)
        inner.restore(snapshot)
    assert ends[0] == ends[1]
    env.close()


@pytest.mark.parametrize("environment", IDS)
def test_nothing_of_the_evaluator_is_in_a_result(environment: str) -> None:
    """E16: 100 calls of all tools hold neither the canary nor a table, condition or plan of the evaluator's."""
    line = SCENARIOS[environment]
    env = make(environment, condition=line.conditions[-1], anchor="first")
    inner = core(env)
    handed = []
    env.action_space.seed(11)
    for seed in range(3):
        observation, info = env.reset(seed=seed)
        words = (inner.instance.canary, "canary", "perturbation", "neutral", line.conditions[-1])
        for _ in range(line.budget - 1):
            handed.append(str(observation) + str(info))
            observation, *_, info = env.step(env.action_space.sample())
        assert not [word for word in words for text in handed if word in text]
    env.close()


def test_the_leak_scan_can_fail(env: ToolActions) -> None:
    inner = core(env)
    inner._database.raw.execute("UPDATE location SET name = ?", (inner.instance.canary,))
    assert inner.instance.canary in env.step(call("list_sessions"))[0]["result"]


NASTY = ["<script>alert(1)</script>5", '5","tool":"noop', "5\\\\\n\t\x00", "5\u202eabc", "5" * 500, "5\U0001f600"]


@pytest.mark.parametrize("text", NASTY)
def test_nasty_text_stays_text(env: ToolActions, text: str) -> None:
    """E08: what is typed comes back as one clean JSON string, or is refused; it never becomes part of the JSON."""
    shown = ask(env, "list_patients", query=text)
    assert shown["body"][1]["rows"] == []
    shown = ask(env, "change_phone", patient_id=1, phone=text)
    assert shown["title"] == "Not possible" or shown["body"][1]["facts"]["Phone"].isprintable()
    observation, *_ = env.step(call("memo", text=text))
    assert observation["memo"] == text[:300]


# The wrapper


def test_after_the_end_nothing_is_paid(env: ToolActions) -> None:
    *_, terminated, truncated, info = env.step(call("report", **REPORT))
    assert (terminated, truncated, "verdict" in info) == (True, False, True)
    observation, reward, terminated, _, info = env.step(call("noop"))
    assert (reward, terminated, "verdict" in info) == (0.0, True, False)
    assert "over" in observation["error"]


def test_what_cannot_be_wrapped_is_refused() -> None:
    with pytest.raises(UsageError, match="wraps an EnvOS environment; got CartPoleEnv"):
        ToolActions(gymnasium.make("CartPole-v1"))
    env = gymnasium.make(f"envos:{CLINIC}")
    inner = core(env)
    inner.world = replace(inner.world, tools=())
    with pytest.raises(UsageError, match="world 'clinic' has no tools"):
        ToolActions(env)


def test_a_wrapped_environment_is_reset_first() -> None:
    inside = gymnasium.make(f"envos:{CLINIC}", condition="L0")
    inside.reset(seed=1)
    env = ToolActions(inside)
    with pytest.raises(UsageError, match="step\\(\\) before reset"):
        env.step(call("noop"))
    env.reset(seed=1)
    assert env.step(call("noop"))[0]["error"] == ""
    env.close()


def test_the_schemas_are_at_hand(env: ToolActions) -> None:
    assert env.tools == BOX.schemas()
    assert repr(env.action_space) == "CallText(10000)"
