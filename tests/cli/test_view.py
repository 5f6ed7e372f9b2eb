"""`envos view` and `envos play --browser` without a browser: what is served to whom, what it holds, bad archives."""

import http.client
import json
import re
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from threading import Thread
from typing import Any

import gymnasium
import pytest
from typer.testing import Result

from envos.certify.policies import policies
from envos.certify.rollout import play
from envos.cli_view import Site, page, parts
from envos.envs.evidence import Action, Fire, Frame, Request, Write, chain
from envos.envs.scenario import SCENARIOS
from envos.web_pages import make, played_again
from envos.web_play import Session
from envos.web_replay import replay_folder
from envos.web_server import Call, Response, Server, data
from envos.wrappers.archive import Archive, read_archive
from envos.wrappers.tools import ToolActions

Command = Callable[..., Result]
NASTY = "</script><script>document.title='pwned'</script><img src=x onerror=\"document.title='pwned'\">\u2028&lt;"


@pytest.fixture
def server() -> Iterator[Server]:
    """A server that tells what it was asked."""

    def answer(call: Call) -> Response:
        if call.path == "/break":
            raise ZeroDivisionError("broken")
        return data({"path": call.path, "query": dict(call.query), "body": dict(call.body)})

    made = Server(answer)
    yield made
    made.stop()


def ask(
    server: Server, method: str, path: str, headers: dict[str, str] | None = None, body: str = ""
) -> tuple[int, str, http.client.HTTPResponse]:
    """Ask a server, with its own address as the host where no other one is given."""
    host, port = server.server_address[:2]
    connection = http.client.HTTPConnection(str(host), port, timeout=10)
    connection.request(method, path, body or None, {"Host": server.hosts[0], **(headers or {})})
    reply = connection.getresponse()
    said = reply.read().decode()
    connection.close()
    return reply.status, said, reply


def test_only_this_machine_and_only_with_the_token(server: Server) -> None:
    assert server.server_address[0] == "127.0.0.1"
    assert len(server.token) >= 20
    status, said, reply = ask(server, "GET", f"/{server.token}/a?b=c")
    assert (status, json.loads(said)) == (200, {"path": "/a", "query": {"b": "c"}, "body": {}})
    assert "frame-ancestors 'none'" in str(reply.headers["Content-Security-Policy"])
    assert reply.headers["Referrer-Policy"] == "no-referrer"
    assert reply.headers["Cache-Control"] == "no-store"
    for path in ("/", "/a", f"/{server.token[:-1]}/a", f"/{server.token}x/a", f"/x/{server.token}/a", "/%C3%A9"):
        assert ask(server, "GET", path)[0] == 404
    for host in ("evil.test", f"evil.test:{server.server_address[1]}", "", "127.0.0.1", "127.0.0.1:1"):
        assert ask(server, "GET", f"/{server.token}/", {"Host": host})[0] == 403
    assert ask(server, "GET", f"/{server.token}/", {"Host": server.hosts[1]})[0] == 200
    assert ask(server, "PUT", f"/{server.token}/")[0] == 501


def test_a_post_comes_from_its_own_page(server: Server) -> None:
    path, own = f"/{server.token}/act", f"http://{server.hosts[0]}"
    right = {"Origin": own, "Content-Type": "application/json"}
    assert ask(server, "POST", path, right, '{"a": 1}')[0] == 200
    assert ask(server, "POST", path, {**right, "Sec-Fetch-Site": "same-origin"}, "{}")[0] == 200
    for wrong in ({"Origin": "http://evil.test"}, {"Origin": "null"}, {"Origin": f"{own}1"}):
        assert ask(server, "POST", path, {**right, **wrong}, "{}")[0] == 403
    assert ask(server, "POST", path, {"Content-Type": "application/json"}, "{}")[0] == 403
    assert ask(server, "POST", path, {**right, "Sec-Fetch-Site": "cross-site"}, "{}")[0] == 403
    for body in ("[]", "{", "[" * 5000, '{"a": 1'):
        assert ask(server, "POST", path, right, body)[0] == 400
    assert ask(server, "POST", path, {**right, "Content-Type": "text/plain"}, "{}")[0] == 400
    assert ask(server, "POST", path, {**right, "Content-Length": "99999999"}, "{}")[0] == 400
    status, said, _ = ask(server, "GET", f"/{server.token}/break")
    assert (status, said) == (500, "internal error: ZeroDivisionError: broken")


def test_a_taken_port_is_said_in_one_line(bad: Callable[..., str], recorded: Path, server: Server) -> None:
    said = bad("view", one(recorded, "reference", "L0"), "--port", server.server_address[1])
    assert f"port {server.server_address[1]} of 127.0.0.1 cannot be used" in said


def one(recorded: Path, policy: str, condition: str) -> Path:
    """The archive of a policy under a condition."""
    for folder in sorted(recorded.iterdir()):
        who = read_archive(folder).start.identity
        if (who["policy"], who["condition"]) == (policy, condition):
            return folder
    raise AssertionError((policy, condition))


def test_the_marks_stand_where_the_records_are(recorded: Path) -> None:
    """Exposure, firing, commit and report, against a reading of the ledger by hand."""
    folder = one(recorded, "reference", "OFF-A")
    records = read_archive(folder).records
    found = replay_folder(folder)
    by_kind = {mark["kind"]: mark for step in found["steps"] for mark in step["marks"]}
    steps = {record.number: record.step for record in records if isinstance(record, Request)}
    (fire,) = [record for record in records if isinstance(record, Fire)]
    armed = next(record for record in records if isinstance(record, Frame) and record.number == fire.armed_by)
    commit = next(r for r in records if isinstance(r, Write) and r.actor == "agent" and r.table == "appointment")
    assert by_kind["trigger"]["step"] == steps[fire.request]
    assert by_kind["exposure"]["step"] == armed.step
    assert by_kind["commit"]["step"] == steps[commit.request]
    assert by_kind["report"]["step"] == max(record.step for record in records if isinstance(record, Action))
    assert {step["frame"]["number"] for step in found["steps"]} == {r.number for r in records if isinstance(r, Frame)}
    assert (found["problems"], found["moved"], found["unread"]) == ([], [], "")
    assert {row["state"] for row in found["files"]["rows"]} == {"same"}
    assert all(step["frame"]["holds"] for step in found["steps"])


def test_the_fact_and_the_difference_follow_the_writes(recorded: Path) -> None:
    """Before the firing the fact is what was shown; after it the page last shown is stale."""
    found = replay_folder(one(recorded, "reference", "OFF-A"))
    fact = found["fact"]
    fired = next(step["step"] for step in found["steps"] if any(mark["kind"] == "trigger" for mark in step["marks"]))
    for step in found["steps"]:
        changed = step["step"] >= fired
        assert step["fact"]["now"] == (fact["new"] if changed else fact["old"])
        keys = {(row["table"], row["key"], row["op"]) for row in step["diff"]}
        assert ((fact["cell"][0], fact["cell"][1], "update") in keys) is changed
    last = found["steps"][-1]["fact"]
    assert (last["seen"], last["now"]) == (fact["old"], fact["new"])
    assert fact["before"] == fact["old"] != fact["after"] == fact["new"]


def test_pages_are_shown_only_where_they_are_what_was_delivered(archived: Path) -> None:
    """Played again, every page has the digest of its frame; from an action that was altered on there is none."""
    folder = one(archived, "reference", "OFF-A")
    evidence = read_archive(folder)
    brief, pages = played_again(evidence)
    assert sorted(pages) == [record.number for record in evidence.records if isinstance(record, Frame)]
    assert "Clinic session:" in brief
    records = list(evidence.records)
    at = [place for place, record in enumerate(records) if isinstance(record, Action)][4]
    records[at] = records[at]._replace(raw='goto("/inbox")')  # type: ignore[union-attr, call-arg]
    (folder / "ledger.jsonl").write_text("".join(f"{line}\n" for line in chain(tuple(records))), encoding="ascii")
    _, fewer = played_again(read_archive(folder))
    assert sorted(fewer) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("environment", SCENARIOS)
def test_every_environment_is_replayed_whole(environment: str, tmp_path: Path) -> None:
    """In each condition every observation has its page, and exposure, trigger, commit and report stand in order."""
    line = SCENARIOS[environment]
    scripted = next(
        one for one in policies(line.world, line.phenomenon).values() if one.wins.issuperset(line.conditions)
    )
    env = Archive(gymnasium.make(environment, anchor="first", disable_env_checker=True), tmp_path)
    for condition in line.conditions:
        steps = play(env, scripted.policy, 5, {"condition": condition}).steps
        assert env.folder is not None
        found = replay_folder(env.folder)
        assert (found["problems"], found["unread"], len(found["steps"])) == ([], "", steps + 1)
        assert all(step["frame"]["html"] >= 0 for step in found["steps"])
        kinds = [mark["kind"] for step in found["steps"] for mark in step["marks"]]
        told = [kinds.index(kind) for kind in ("exposure", "trigger", "report")]
        assert told == sorted(told)
        assert "commit" in kinds
        assert [ground["holds"] for ground in found["verdict"]["grounds"]].count(False) == 0
    env.close()


def test_calls_of_tools_have_no_pages(tmp_path: Path) -> None:
    """They are shown as text, as they were delivered."""
    env = Archive(ToolActions(gymnasium.make("EnvOS/ClinicStale-v0", disable_env_checker=True)), tmp_path)
    env.reset(seed=3)
    over = False
    while not over:
        *_, terminated, truncated, _ = env.step('{"name": "list_sessions", "arguments": {}}')
        over = terminated or truncated
    env.close()
    assert env.folder is not None
    found = replay_folder(env.folder)
    assert (found["unread"], found["pages"]) == ("", [])
    assert {step["frame"]["html"] for step in found["steps"]} == {-1}


def test_where_two_part(recorded: Path) -> None:
    """The same policy without and with the silent change: the first page that shows another value, by hand."""
    episodes = [replay_folder(one(recorded, "reference", condition)) for condition in ("L0", "OFF-A")]
    shas = [[step["frame"]["sha256"] for step in episode["steps"]] for episode in episodes]
    raws = [[step["action"] and step["action"]["raw"] for step in episode["steps"]] for episode in episodes]
    differs = [n for n in range(min(map(len, shas))) if (shas[0][n], raws[0][n]) != (shas[1][n], raws[1][n])]
    expected = differs[0] if differs else None if len(shas[0]) == len(shas[1]) else min(map(len, shas))
    assert parts(episodes) == expected
    assert parts(episodes[:1]) is None
    assert parts([episodes[0], episodes[0]]) is None


class Outline(HTMLParser):
    """The elements of a document that run or load something, and the data."""

    def __init__(self, body: str) -> None:
        super().__init__()
        self.scripts: list[dict[str, str | None]] = []
        self.others: list[str] = []
        self.held = ""
        self._in = False
        self.feed(body)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "script":
            self.scripts.append(dict(attrs))
            self._in = dict(attrs).get("id") == "data"
        elif tag in ("img", "iframe", "object", "embed", "base", "form"):
            self.others.append(tag)

    def handle_endtag(self, tag: str) -> None:
        self._in = False

    def handle_data(self, data: str) -> None:
        self.held += data if self._in else ""


def test_the_file_is_self_contained(envos: Command, recorded: Path, tmp_path: Path) -> None:
    """No address but those of data; two scripts, one of them data; all of it in one file."""
    out = tmp_path / "new" / "replay.html"
    done = envos("view", one(recorded, "reference", "OFF-A"), "--export", out)
    assert (done.exit_code, done.stdout.startswith(f"wrote {out} (")) == (0, True)
    body = out.read_text(encoding="utf-8")
    outline = Outline(body)
    assert outline.scripts == [{"type": "application/json", "id": "data"}, {}]
    assert outline.others == []
    assert "http" not in re.sub(r'<meta http-equiv="[^>]*>', "", body)
    assert len(json.loads(outline.held)["episodes"]) == 1
    assert "default-src &#39;none&#39;" in body
    two = [one(recorded, "reference", condition) for condition in ("L0", "OFF-A")]
    assert envos("view", *two, "--export", out).exit_code == 0
    assert len(json.loads(Outline(out.read_text(encoding="utf-8")).held)["episodes"]) == 2


def test_what_an_archive_says_is_never_markup(archived: Path) -> None:
    """Nasty texts in every kind of place come out of the data as they are, and add no element."""
    folder = spoilt(archived)
    body, _ = page([folder])
    outline = Outline(body)
    assert len(outline.scripts) == 2
    assert outline.others == []
    held = json.loads(outline.held)["episodes"][0]
    assert any(step["action"] and step["action"]["raw"] == NASTY for step in held["steps"])
    assert held["identity"]["policy"] == NASTY
    shown = Site.of(archived).answer(Call("GET", "/", {}, {})).body
    assert "<img" not in shown
    assert "&lt;/script&gt;" in shown


def spoilt(archived: Path) -> Path:
    """An archive with nasty texts in it: the chain is whole, so that all of it is read."""
    folder = one(archived, "reference", "OFF-A")
    records = list(read_archive(folder).records)
    identity = dict(records[0].identity, policy=NASTY)  # type: ignore[union-attr]
    records[0] = records[0]._replace(identity=identity)  # type: ignore[union-attr, call-arg]
    for place, record in enumerate(records):
        if isinstance(record, Action) and record.step == 3:
            records[place] = record._replace(raw=NASTY, error=NASTY)
        elif isinstance(record, Frame) and record.step == 3:
            records[place] = record._replace(page=NASTY, notice=NASTY, elements=NASTY, url=NASTY, memo=NASTY)
        elif isinstance(record, Request) and record.step == 3:
            records[place] = record._replace(path=NASTY, location=NASTY, params={NASTY: NASTY})
        elif isinstance(record, Write):
            records[place] = record._replace(columns={NASTY: (NASTY, NASTY), **record.columns})
    (folder / "ledger.jsonl").write_text("".join(f"{line}\n" for line in chain(tuple(records))), encoding="ascii")
    (folder / "verdict.json").write_text(json.dumps({"validity": NASTY, NASTY: [NASTY]}), encoding="utf-8")
    renamed = folder.with_name("9999-<img src=x onerror=alert(1)>")
    folder.rename(renamed)
    return renamed


DAMAGE: dict[str, Callable[[Path], object]] = {
    "no ledger": lambda folder: (folder / "ledger.jsonl").unlink(),
    "empty ledger": lambda folder: (folder / "ledger.jsonl").write_text(""),
    "no manifest": lambda folder: (folder / "manifest.json").unlink(),
    "manifest of a list": lambda folder: (folder / "manifest.json").write_text("[]"),
    "deep manifest": lambda folder: (folder / "manifest.json").write_text("[" * 100_000),
    "no state": lambda folder: (folder / "pre.json").unlink(),
    "state of a list": lambda folder: (folder / "post.json").write_text("[1]"),
    "verdict of numbers": lambda folder: (folder / "verdict.json").write_text("1e999"),
    "half a ledger": lambda folder: (folder / "ledger.jsonl").write_bytes(
        (folder / "ledger.jsonl").read_bytes()[:9999]
    ),
    "a folder for a file": lambda folder: ((folder / "pre.json").unlink(), (folder / "pre.json").mkdir()),
    "a picture that is none": lambda folder: (folder / f"{'0' * 64}.png").write_bytes(b"GIF89a"),
    "a link": lambda folder: ((folder / "pre.json").unlink(), (folder / "pre.json").symlink_to("/etc/hostname")),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_whatever_is_wrong_is_shown_and_never_raised(archived: Path, damage: str) -> None:
    folder = one(archived, "reference", "OFF-A")
    DAMAGE[damage](folder)
    found = replay_folder(folder)
    json.dumps(found, allow_nan=False)
    assert found["problems"] != []
    assert page([folder])[0]


@pytest.mark.parametrize("kind", ["start", "request", "write", "fire", "frame", "action", "report", "end"])
def test_a_ledger_of_other_values_is_shown_and_never_raised(archived: Path, kind: str) -> None:
    """Every field of one kind of record takes values of other types, one after the other."""
    folder = one(archived, "reference", "OFF-A")
    ledger = folder / "ledger.jsonl"
    lines = ledger.read_text().splitlines()
    place = next(n for n, line in enumerate(lines) if json.loads(line)["kind"] == kind)
    entry = json.loads(lines[place])
    for name in entry["data"]:
        for value in (None, -1, "x", [[1]], {"a": {"b": []}}):
            changed = json.dumps({**entry, "data": {**entry["data"], name: value}}, sort_keys=True)
            ledger.write_text("\n".join([*lines[:place], changed, *lines[place + 1 :], ""]))
            json.dumps(replay_folder(folder), allow_nan=False)


def test_several_archives_make_a_list(recorded: Path, bad: Callable[..., str], tmp_path: Path) -> None:
    """Each with its verdict derived again, a link, and its twin; a single archive is shown at once."""
    site = Site.of(recorded)
    shown = site.answer(Call("GET", "/", {}, {})).body
    assert shown.count('<a href="one?at=') == len(list(recorded.iterdir()))
    assert shown.count(">twin</a>") == 2
    both = site.answer(Call("GET", "/two", {"left": "0", "right": "1"}, {}))
    assert (both.status, '"parts":' in both.body) == (200, True)
    assert site.answer(Call("GET", "/other", {}, {})).status == 404
    assert site.answer(Call("POST", "/", {}, {})).status == 405
    for wrong in ("", "-1", "99", "x", "\u0663"):
        with pytest.raises(ValueError, match="there is no such archive"):
            site.answer(Call("GET", "/one", {"at": wrong}, {}))
    assert Site.of(one(recorded, "reference", "L0")).answer(Call("GET", "/", {}, {})).body.startswith("<!doctype html>")
    assert "name one of them" in bad("view", recorded, "--export", tmp_path / "x.html")
    assert "no archive in" in bad("view", tmp_path)
    assert "is a folder" in bad("view", one(recorded, "reference", "L0"), "--export", tmp_path)


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    """A person's episode of the clinic, archived."""
    inner, driver = make("EnvOS/ClinicStale-v0", "OFF-A", "train", "first")
    env = Archive(inner, tmp_path)

    def folder() -> Path:
        assert env.folder is not None
        return env.folder

    yield Session(env, driver, 3, lambda ended: "what changed", folder)
    env.close()


def test_an_action_answers_the_page_that_the_person_saw(session: Session) -> None:
    """A second click on a page that has gone does nothing; what is no action costs nothing either."""

    def act(**given: Any) -> Response:
        return session.answer(Call("POST", "/act", {}, given))

    first = json.loads(session.answer(Call("GET", "/state", {}, {})).body)
    assert (first["after"], first["left"], first["verdict"], first["url"]) == (0, 48, None, "/")
    moved = json.loads(act(verb="click", args=["2"], fields={}, after=0).body)
    assert (moved["url"], moved["left"], moved["after"]) == ("/sessions", 47, 1)
    again = json.loads(act(verb="click", args=["2"], fields={}, after=0).body)
    assert (again["url"], again["left"], again["after"]) == ("/sessions", 47, 1)
    wrong: list[dict[str, Any]] = [{"verb": "rm"}, {"verb": ["click"]}, {"verb": "click", "args": "2"}]
    wrong += [{"verb": "click", "args": [2]}, {"verb": "report", "fields": {"a": 1}}, {}]
    for given in wrong:
        assert act(after=1, **given).status == 400
    for path in ("/replay", "/other"):
        assert session.answer(Call("GET", path, {}, {})).status == 404
    assert session.answer(Call("POST", "/close", {}, {})).status == 404
    assert json.loads(act(verb="memo", args=['a "b"'], after=1).body)["memo"] == 'a "b"'


def test_nothing_of_the_evaluators_is_told_before_the_end(session: Session) -> None:
    """Neither the condition, nor the target, nor the canary is in what the page gets; at the end the verdict is."""
    told = session.answer(Call("GET", "/state", {}, {})).body + session.answer(Call("GET", "/", {}, {})).body
    canary = session.inner.instance.canary
    for secret in (canary, "OFF-A", session.inner.instance.digest, "what changed"):
        assert secret not in told
    session.answer(Call("POST", "/act", {}, {"verb": "report", "fields": {"location": "x"}, "after": 0}))
    assert session.over.is_set()
    last = json.loads(session.answer(Call("GET", "/state", {}, {})).body)
    assert (last["verdict"]["validity"], last["changed"]) == ("not_triggered", "what changed")
    assert session.answer(Call("GET", "/replay", {}, {})).status == 200
    session.answer(Call("POST", "/close", {}, {}))
    assert session.closed.is_set()


def test_the_session_is_served_until_it_is_closed(session: Session) -> None:
    """By a real server, from another thread: the token is in no record of the archive."""
    server = Server(session.answer)
    waiting = Thread(target=server.until, args=(session.closed,))
    waiting.start()
    headers = {"Origin": f"http://{server.hosts[0]}", "Content-Type": "application/json"}
    base = f"/{server.token}"
    for after, given in enumerate(({"verb": "goto", "args": ["/sessions"]}, {"verb": "report", "fields": {"a": "b"}})):
        assert ask(server, "POST", f"{base}/act", headers, json.dumps({**given, "after": after}))[0] == 200
    assert ask(server, "POST", f"{base}/close", headers, "{}")[0] == 200
    waiting.join(10)
    assert not waiting.is_alive()
    folder = session._folder()
    assert read_archive(folder).problems == ()
    assert all(server.token not in path.read_text() for path in folder.iterdir())
    assert read_archive(folder).start.identity["policy"] == "person"


def test_bad_words_of_play_are_said_at_once(bad: Callable[..., str]) -> None:
    assert "unknown condition" in bad("play", "EnvOS/ClinicStale-v0", "--browser", "--condition", "nope")
    assert "unknown environment" in bad("play", "EnvOS/Nope-v0", "--browser")
    assert "--port" in bad("play", "EnvOS/ClinicStale-v0", "--browser", "--port", "70000")
