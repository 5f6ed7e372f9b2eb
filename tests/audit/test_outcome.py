"""The outcome auditor agrees with the live verdict, tells each corruption by its term, and stands alone (E24, E36)."""

import ast
import json
import os
import random
import resource
import shutil
import stat
import subprocess
import sys
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import gymnasium
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envos.certify.audit import outcome
from envos.certify.policies import Observation, Policy, Steps, policies, winner
from envos.certify.policies.reading import NotFound, Part, elements
from envos.certify.rollout import Episode, go_on, play
from envos.envs.action import Action, click, fill, goto, noop, parse, report, select_option
from envos.envs.env import EnvOS
from envos.envs.scenario import SCENARIOS
from envos.wrappers.archive import Archive

CLINIC, CLAIMS = "EnvOS/ClinicStale-v0", "EnvOS/ClaimsStale-v0"
IDS, STALE = tuple(SCENARIOS), (CLINIC, CLAIMS)
SOURCE = Path(outcome.__file__)
ALL = {
    name: {"I1", "I2", "I3", "I5"} | ({"I4"} if line.world == "clinic" else set()) for name, line in SCENARIOS.items()
}
Json = dict[str, Any]
Change = Callable[["Copy"], object]


class Copy:
    """An archive in memory: changed at will, then written with every digest computed anew."""

    def __init__(self, folder: Path) -> None:
        self.pre: Json = json.loads((folder / "pre.json").read_text())
        self.post: Json = json.loads((folder / "post.json").read_text())
        lines = (folder / "ledger.jsonl").read_text().splitlines()
        self.records: list[tuple[str, Json]] = [(line["kind"], line["data"]) for line in map(json.loads, lines)]
        self.plan: Json = self.records[0][1]["plan"]
        self.task: Mapping[str, int] = self.plan["task"]

    def of(self, kind: str, **fields: Any) -> list[Json]:
        """The records of a kind with these fields."""
        return [data for name, data in self.records if name == kind and fields.items() <= data.items()]

    def row(self, table: str, key: int, *states: Json) -> list["Cells"]:
        """A row of the post-state, or of these states."""
        return [cells for state in states or (self.post,) for cells in rows(state, table) if cells["id"] == key]

    def commit_write(self) -> Json:
        """The agent's insert into the commit table."""
        (data,) = self.of("write", op="insert", table=self.plan["commit_table"], actor="agent")
        return data

    def commit_request(self) -> Json:
        """The request that it came of."""
        (data,) = (data for data in self.of("request", method="POST") if "created=1" in data["location"])
        return data

    def own(self) -> "Cells":
        """The row that was committed."""
        return self.row(self.plan["commit_table"], self.commit_write()["key"])[0]

    def write(self, folder: Path) -> Path:
        """Write the archive, sealed."""
        folder.mkdir()
        previous = ""
        lines = []
        for seq, (kind, data) in enumerate(self.records):
            lines.append(canonical({"seq": seq, "prev": previous, "kind": kind, "data": data}))
            previous = sha256(lines[-1].encode()).hexdigest()
        (folder / "ledger.jsonl").write_text("".join(f"{line}\n" for line in lines))
        for name, data in (("pre", self.pre), ("post", self.post), ("verdict", {})):
            (folder / f"{name}.json").write_text(canonical(data) + "\n")
        seal(folder, previous)
        return folder


class Cells:
    """One row of a state, by column."""

    def __init__(self, table: Json, values: list[Any]) -> None:
        self.table, self.values = table, values

    def __getitem__(self, column: str) -> Any:
        return self.values[self.table["columns"].index(column)]

    def __setitem__(self, column: str, value: Any) -> None:
        self.values[self.table["columns"].index(column)] = value

    def again(self, **changes: Any) -> "Cells":
        """One more row like this."""
        new = Cells(self.table, [*self.values])
        self.table["rows"].append(new.values)
        for column, value in {"id": max(row[0] for row in self.table["rows"]) + 1, **changes}.items():
            new[column] = value
        return new


def rows(state: Json, table: str) -> list[Cells]:
    return [Cells(state[table], values) for values in state[table]["rows"]]


def canonical(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def seal(folder: Path, head: str = "") -> None:
    digests = {path.name: sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}
    digests.pop("manifest.json", None)
    text = canonical({"format": "1", "head": head, "files": digests})
    (folder / "manifest.json").write_text(text + "\n")


def terms(result: Mapping[str, Any]) -> dict[str, str]:
    return {name: term["value"] for name, term in result["terms"].items()}


def live(verdict: Mapping[str, Any]) -> dict[str, str]:
    return {name: str(bool(one["passed"])).lower() for name, one in verdict["invariants"].items()}


# --- Agreement with the live verdict --------------------------------------------------------------


class Tally:
    """What a run of episodes came to; every disagreement is kept."""

    def __init__(self) -> None:
        self.counted = 0
        self.seen: Counter[tuple[str, str]] = Counter()
        self.wrong: list[Any] = []

    def add(self, folder: Path | None, episode: Episode) -> None:
        assert folder is not None
        result = outcome.audit(folder)
        mine, verdict = terms(result), episode.verdict
        assert result["usable"], result["problem"]
        assert "unresolved" not in mine.values(), result
        if verdict["counted"]:
            self.counted += 1
            self.seen.update(mine.items())
            if result["endpoint"] != str(bool(verdict["endpoint"])).lower():
                self.wrong.append((folder, "endpoint", result["endpoint"]))
            if verdict["invariants"] and live(verdict) != mine:
                self.wrong.append((folder, live(verdict), mine))
        shutil.rmtree(folder)


@pytest.mark.parametrize("anchor", ["first", "any"])
@pytest.mark.parametrize("environment", IDS)
def test_agrees_on_scripted_policies(environment: str, anchor: str, tmp_path: Path) -> None:
    """E24: every condition and every scripted policy: all terms of all counted episodes."""
    line, tally = SCENARIOS[environment], Tally()
    split = {"first": "validation", "any": "test"}[anchor]
    env = Archive(gymnasium.make(f"envos:{environment}", split=split, anchor=anchor), tmp_path)
    for condition in line.conditions:
        for scripted in policies(line.world, line.phenomenon).values():
            episode = play(env, scripted.policy, 11, {"condition": condition})
            tally.add(env.folder, episode)
    env.close()
    assert tally.wrong == []
    assert tally.counted >= 45
    assert {name for name, value in tally.seen if value == "true"} == ALL[environment]


FORMS = {
    "clinic": {
        "/sessions/{}/edit": "clinic_session",
        "/patients/{}": "patient",
        "/referrals/{}": "referral",
        "/appointments/{}": "appointment",
        "/appointments/{}/reschedule": "appointment",
        "/new/review?referral={}&slot=7": "referral",
        "/inbox/{}": "message",
    },
    "claims": {
        "/policies/{}/edit": "policy",
        "/claims/{}": "claim",
        "/deny/form?claim={}": "claim",
        "/approve/review?claim={}&amount=1234.56": "claim",
        "/decisions/{}": "decision",
        "/decisions/{}/amend": "decision",
        "/inbox/{}": "message",
    },
}
"""Pages where a clerk can do more than he was asked to, and whose id they take."""


def meddle(inner: EnvOS, chance: random.Random, observation: Observation) -> Part:
    """Go to such a page, fill in what it has, press one of its buttons and come back."""
    back = observation["url"]
    path, table = chance.choice(sorted(FORMS[inner.scenario.world].items()))
    ids = sorted(inner.state_now()[table].rows)
    task = inner.plan.task.get(table.removeprefix("clinic_"))
    key = chance.choice([chance.choice(ids), ids[-1], task if isinstance(task, int) else ids[0]])
    observation = yield goto(path.format(key))
    for seen in elements(observation):
        if seen.role == "textbox" and chance.random() < 0.7:
            observation = yield fill(seen.at, chance.choice(["555-1234", "1,234.56", "AP-1", "Somebody"]))
        elif seen.role == "combobox" and chance.random() < 0.7:
            (shown,) = (text for text in observation["elements"].split("\n") if text.startswith(f"[{seen.at}]"))
            options = [text.strip('"') for text in shown.partition("options=")[2].split("; ")]
            # The very value that the change will bring has a test of its own.
            observation = yield select_option(seen.at, chance.choice([o for o in options if o != inner.plan.new_text]))
    buttons = [seen.at for seen in elements(observation) if seen.role == "button"]
    if buttons:
        observation = yield click(chance.choice(buttons))
    return (yield goto(back))


def variant(chance: random.Random, fields: Mapping[str, str]) -> dict[str, str]:
    """A report like this one: often as correct, often not."""
    name = chance.choice(sorted(fields))
    value = fields[name]
    swaps = [value.upper(), f"  {value.lower()} ", value.replace(" ", "  "), value.replace(" ", "T"), value + "1", ""]
    changed = {**fields, name: chance.choice(swaps)}
    return chance.choice([dict(fields), changed, changed, {**fields, "more": ""}, {name: value}])


def meddler(inner: EnvOS, chance: random.Random, policy: Policy) -> Policy:
    """A clerk who strays from his task now and then, and is careless with his report."""

    def act(observation: Observation) -> Steps:
        steps = policy(observation)
        action = next(steps)
        while True:
            if chance.random() < 0.06:
                observation = yield from meddle(inner, chance, observation)
            if action.startswith("report("):
                said = parse(action)
                assert isinstance(said, Action)
                action = report(**variant(chance, dict(said.fields)))
            observation = yield action
            try:
                action = steps.send(observation)
            except (StopIteration, NotFound):
                action = noop()

    return act


@pytest.mark.parametrize("environment", IDS)
def test_agrees_on_meddlers(environment: str, tmp_path: Path) -> None:
    """E24: episodes that fail in many ways, and in several at once: each term is seen true and false, and agreed on."""
    line, tally = SCENARIOS[environment], Tally()
    env = Archive(gymnasium.make(f"envos:{environment}"), tmp_path)
    inner = env.unwrapped
    assert isinstance(inner, EnvOS)
    best = winner(line)
    assert best is not None
    names = [best.name, best.name, "reference", *sorted(policies(line.world, line.phenomenon))]
    for seed in range(150):
        chance = random.Random(seed)  # noqa: S311 - what an agent does, not what an instance holds
        condition, anchor = chance.choice(line.conditions), chance.choice(["first", "any"])
        observation, _ = env.reset(seed=seed, options={"condition": condition, "anchor": anchor})
        policy = policies(line.world, line.phenomenon)[chance.choice(names)].policy
        episode = go_on(env, meddler(inner, chance, policy), observation)
        tally.add(env.folder, episode)
    env.close()
    assert tally.wrong == []
    assert tally.counted >= 100
    assert set(tally.seen) == {(name, value) for name in ALL[environment] for value in ("true", "false")}


@pytest.mark.parametrize("environment", IDS)
def test_agrees_on_random_agents(environment: str, tmp_path: Path) -> None:
    """E24: agents that have no idea."""
    env, tally = Archive(gymnasium.make(f"envos:{environment}", condition="L0"), tmp_path), Tally()
    inner = env.unwrapped
    assert isinstance(inner, EnvOS)
    paths = [pattern.replace("{id}", "3") for _, pattern in inner.world.routes.handlers]

    def act(observation: Observation) -> Steps:
        chance = random.Random(observation["goal"])  # noqa: S311 - what an agent does
        while True:
            seen = elements(observation)
            if not seen or chance.random() < 0.1:
                observation = yield goto(chance.choice(paths))
            else:
                one = chance.choice(seen)
                observation = yield fill(one.at, "50") if one.role == "textbox" else click(one.at)

    for seed in range(60):
        episode = play(env, act, seed)
        tally.add(env.folder, episode)
    env.close()
    assert tally.wrong == []
    assert tally.counted >= 10


def early(observation: Observation, inner: EnvOS) -> Part:
    """Bring about the change before it happens: read the source, then write the very value that is to come."""
    table, key, _ = inner.plan.arm
    base = {"clinic_session": "/sessions", "policy": "/policies"}[table]
    yield goto(base)
    observation = yield goto(f"{base}/{key}/edit")
    for seen in elements(observation):
        if seen.label in ("New place", "New reimbursement limit"):
            verb = fill if seen.role == "textbox" else select_option
            observation = yield verb(seen.at, inner.plan.new_text)
    (button,) = (seen.at for seen in elements(observation) if seen.role == "button")
    return (yield click(button))


@pytest.mark.parametrize("environment", STALE)
def test_the_agent_writes_the_coming_value(environment: str, tmp_path: Path) -> None:
    """The truth has the changed value even where the change found it written, so that its write says nothing."""
    env = Archive(gymnasium.make(f"envos:{environment}", condition="OFF-A", anchor="first"), tmp_path)
    inner = env.unwrapped
    assert isinstance(inner, EnvOS)
    careful = policies(inner.scenario.world)["late_reread"].policy

    def act(observation: Observation) -> Steps:
        observation = yield from early(observation, inner)
        yield from careful(observation)

    episode = play(env, act, 2)
    assert env.folder is not None
    copy = Copy(env.folder)
    (write,) = copy.of("write", actor="perturbation", table=inner.plan.arm[0])
    assert write["columns"] == {}
    assert terms(outcome.audit(env.folder)) == {**dict.fromkeys(ALL[environment], "true"), "I3": "false"}
    assert episode.verdict["validity"] == "counted"
    assert episode.verdict["invariants"]["I1"]["passed"]
    env.close()


# --- Corruptions ----------------------------------------------------------------------------------


def mirrored(copy: Copy) -> str:
    """As long before the session's start as the right slot is after it."""
    start = copy.row("clinic_session", copy.task["session"])[0]["start"]
    return clock(2 * minutes(start) - minutes(copy.own()["start"]))


def fits(copy: Copy) -> bool:
    """Whether the right slot is later than the session's start, and the patient free before it and when mirrored."""
    patient, start, own_start = copy.task["patient"], mirrored(copy), copy.own()["start"]
    taken = [cells for cells in rows(copy.pre, "appointment") if cells["patient_id"] == patient]
    clashes = any(cells["start"] <= at <= cells["end"] for cells in taken for at in (start, own_start))
    return start < own_start and not clashes


def minutes(text: str) -> int:
    return 60 * int(text[:2]) + int(text[3:])


def clock(total: int) -> str:
    return f"{total // 60:02}:{total % 60:02}"


@pytest.fixture(scope="module")
def successes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One archive of a full success of each environment."""
    found = {}
    for environment in STALE:
        root = tmp_path_factory.mktemp("success")
        env = Archive(gymnasium.make(f"envos:{environment}", condition="OFF-A", anchor="first"), root)
        for seed in range(50):
            assert play(env, policies(SCENARIOS[environment].world)["late_reread"].policy, seed).reward == 1.0
            assert env.folder is not None
            found[environment] = env.folder
            if environment != CLINIC or fits(Copy(env.folder)):
                break
        env.close()
    return found


def put(table: str, key: int | str, column: str, value: Any) -> Change:
    """Set one value of the post-state; the key may be a record of the task, the value a function of the one before."""

    def change(copy: Copy) -> None:
        (cells,) = copy.row(table, copy.task[key] if isinstance(key, str) else key)
        cells[column] = value(cells[column]) if callable(value) else value

    return change


def own(**values: Any) -> Change:
    """Set values of the committed row."""

    def change(copy: Copy) -> None:
        cells = copy.own()
        for column, value in values.items():
            cells[column] = value(cells[column]) if callable(value) else value

    return change


def told(field: str, value: Any) -> Change:
    """Set a field of the report."""

    def change(copy: Copy) -> None:
        fields = copy.of("report")[0]["fields"]
        fields[field] = value(fields[field]) if callable(value) else value

    return change


def add(table: str, **values: Any) -> Change:
    """One more row like the table's first."""
    return lambda copy: rows(copy.post, table)[0].again(**values)


def second(**values: Any) -> Change:
    """One more row like the committed one, in the state alone."""
    return lambda copy: copy.own().again(**values)


def remove(table: str, key: int) -> Change:
    """Remove a row."""
    return lambda copy: copy.post[table]["rows"].pop(key - 1)


def add_slot(start: Callable[[Copy], int], **values: Any) -> Change:
    """A free slot of one minute at the right place, before and after the episode."""

    def change(copy: Copy) -> None:
        since = start(copy)
        for state in (copy.pre, copy.post):
            (like,) = copy.row("slot", copy.own()["slot_id"], state)
            like.again(**{"status": "free", "start": clock(since), "end": clock(since + 1), **values})

    return change


def nearer(copy: Copy) -> int:
    """One minute nearer to the session's start than the right slot."""
    return minutes(copy.own()["start"]) - 1


def tied(copy: Copy) -> int:
    """As near as the right slot, and earlier."""
    return minutes(mirrored(copy))


def busy(**values: Any) -> Change:
    """A bystander's appointment was the patient's own, at the time of the right slot."""

    def change(copy: Copy) -> None:
        when = {name: copy.own()[name] for name in ("patient_id", "date", "start", "end")}
        others = [cells["id"] for cells in rows(copy.pre, "appointment") if cells["patient_id"] != when["patient_id"]]
        for cells in copy.row("appointment", others[0], copy.pre, copy.post):
            for column, value in {**when, "status": "booked", **values}.items():
                cells[column] = value

    return change


def repeated(kind: str, **values: Any) -> Change:
    """The commit's write or request once more, with these fields."""

    def change(copy: Copy) -> None:
        data = copy.commit_write() if kind == "write" else copy.commit_request()
        copy.records.insert(-1, (kind, {**data, **values}))

    return change


def by_another(copy: Copy) -> None:
    """Somebody else wrote the commit."""
    copy.commit_write()["actor"] = "colleague"


def written(table: str, key: int, columns: Json, op: str = "update") -> Change:
    """One more write by the agent before the commit's, of which nothing is left in the end."""

    def change(copy: Copy) -> None:
        commit = copy.commit_write()
        data = {**commit, "op": op, "table": table, "key": key, "columns": columns}
        copy.records.insert(copy.records.index(("write", commit)), ("write", data))

    return change


def confirmed_again(copy: Copy) -> None:
    """The commit was withdrawn and put in force again, which the state does not show."""
    data = {**copy.commit_write(), "op": "update"}
    stands = copy.own()["status"]
    for pair in ([stands, "withdrawn"], ["withdrawn", stands]):
        copy.records.insert(-1, ("write", {**data, "columns": {"status": pair}}))


def amended_and_back(copy: Copy) -> None:
    """What was committed itself was changed, and changed back: that is the task's own row."""
    data = {**copy.commit_write(), "op": "update"}
    for pair in (["1", "2"], ["2", "1"]):
        copy.records.insert(-1, ("write", {**data, "columns": {"form_key": pair}}))


def marked_before(copy: Copy) -> None:
    """The referral was marked before there was a booking."""
    (mark,) = copy.of("write", table="referral", actor="agent")
    copy.records.remove(("write", mark))
    copy.records.insert(copy.records.index(("write", copy.commit_write())), ("write", mark))


def marked_by_another(copy: Copy) -> None:
    """Somebody else marked the referral."""
    (mark,) = copy.of("write", table="referral", actor="agent")
    mark["actor"] = "colleague"


def moved_and_back(copy: Copy) -> None:
    """The booking was moved to another slot and back, both of which follow it."""
    data, slot = {**copy.commit_write(), "op": "update"}, copy.own()["slot_id"]
    for old, new in ((slot, 9999), (9999, slot)):
        copy.records.insert(-1, ("write", {**data, "columns": {"slot_id": [old, new]}}))
        for key, pair in ((old, ["booked", "free"]), (new, ["free", "booked"])):
            copy.records.insert(-1, ("write", {**data, "table": "slot", "key": key, "columns": {"status": pair}}))


def sent_again(copy: Copy) -> None:
    """The form was sent once more, and nothing came of it."""
    asked = copy.commit_request()
    copy.records.insert(-1, ("request", {**asked, "location": asked["location"].replace("created", "again")}))


def unreported(copy: Copy) -> None:
    """There is no report."""
    copy.records = [record for record in copy.records if record[0] != "report"]


def reverted(copy: Copy) -> None:
    """The change was taken back in the state."""
    (update,) = copy.of("write", actor="perturbation", op="update")
    for column, (old, _) in update["columns"].items():
        copy.row(update["table"], update["key"])[0][column] = old


def cancelled(copy: Copy) -> None:
    """The booking was cancelled in the end; its slot is free again."""
    copy.row("slot", copy.own()["slot_id"])[0]["status"] = "free"
    copy.own()["status"] = "cancelled"


def slot_left_free(copy: Copy) -> None:
    """The slot that is booked is free all the same."""
    copy.row("slot", copy.own()["slot_id"])[0]["status"] = "free"


def elsewhere(copy: Copy) -> None:
    """Another place is booked, and reported."""
    copy.own()["location_id"] = copy.own()["location_id"] - 1 or 2
    copy.of("report")[0]["fields"]["location"] = copy.row("location", copy.own()["location_id"])[0]["name"]


def a_cent_more(copy: Copy) -> None:
    """Another amount is approved, and reported."""
    cents = copy.own()["amount"] + 1
    copy.own()["amount"] = cents
    copy.of("report")[0]["fields"]["amount"] = f"{cents // 100}.{cents % 100:02}"


def withdrawn(copy: Copy) -> None:
    """The approval was withdrawn in the end."""
    copy.own()["status"] = "withdrawn"
    copy.row("claim", copy.task["claim"])[0]["status"] = "open"


SHARED: tuple[tuple[str, str, Change], ...] = (
    ("nothing", "", lambda copy: None),
    ("a message was read", "", put("message", 1, "read", 1)),
    ("an evaluator table", "", put("canary", 1, "token", "canary-0")),
    ("report in capitals", "", told("reference", str.upper)),
    ("report with white space", "", told("reference", lambda text: f"\t {text}  ")),
    ("the form sent again", "", sent_again),
    ("a form refused", "", repeated("request", location="/refused?code=busy")),
    ("a second row in the state", "I2", second(reference="X-1")),
    ("a second row in the state, not in force", "I2", second(status="gone")),
    ("a second commit in the writes", "I2", repeated("write", key=900)),
    ("a second commit in the access log", "I2", repeated("request", number=900)),
    ("the commit is somebody else's", "I2", by_another),
    ("a message's subject", "I3", put("message", 1, "subject", "Other")),
    ("a message removed", "I3", remove("message", 2)),
    ("a row of history", "I3", add("history", new="Other")),
    ("history by other hands", "I3", put("history", 1, "by", "Nobody")),
    ("an integer as a float", "I3", put("history", 1, "record_id", float)),
    ("the change taken back", "I3", reverted),
    ("a message put back", "I3", written("message", 1, {"subject": ["Other", "Other"]})),
    ("a row of history put in and taken out", "I3", written("history", 900, {"new": [None, "Other"]}, "insert")),
    ("a message read and unread", "", written("message", 1, {"read": [0, 1]})),
    ("a row written as it was", "", written("message", 1, {})),
    ("an evaluator table written", "", written("neutral", 1, {"value": ["-", "-"]})),
    ("withdrawn and put in force again", "I2", confirmed_again),
    ("its own row changed and put back", "", amended_and_back),
    ("another reference reported", "I5", told("reference", "X-2")),
    ("one more field reported", "I5", told("more", "")),
    ("no report", "I5", unreported),
)
OF_THE_CLINIC: tuple[tuple[str, str, Change], ...] = (
    ("another end", "I1", own(end="23:59")),
    ("another place, reported", "I1", elsewhere),
    ("a nearer slot", "I1", add_slot(nearer)),
    ("a nearer slot, booked", "", add_slot(nearer, status="booked")),
    ("a nearer slot elsewhere", "", add_slot(nearer, location_id=9999)),
    ("a nearer slot on another day", "", add_slot(nearer, date="2030-01-01")),
    ("an earlier slot, as near", "I1", add_slot(tied)),
    ("an earlier slot, less near", "", add_slot(lambda copy: tied(copy) - 1)),
    ("the patient is busy then", "I1", busy()),
    ("the patient was, but cancelled", "", busy(status="cancelled")),
    ("the patient is busy on another day", "", busy(date="2030-01-01")),
    ("the patient is busy until then", "", lambda copy: busy(start="00:00", end=copy.own()["start"])(copy)),
    ("another patient is busy then", "", busy(patient_id=9999)),
    ("a phone number put back", "I3", written("patient", 1, {"phone": ["555-0000", "555-0001"]})),
    ("a slot of nobody's put back", "I3", written("slot", 9999, {"status": ["free", "booked"]})),
    ("the booking moved and back", "", moved_and_back),
    ("the referral marked before the booking", "I4", marked_before),
    ("the referral marked by another", "I4", marked_by_another),
    ("a phone number", "I3", put("patient", 1, "phone", "555-0000")),
    ("a bystander's appointment moved", "I3", put("appointment", 1, "date", "2030-01-01")),
    ("a bystander's appointment removed", "I3", remove("appointment", 2)),
    ("where to park", "I3", put("clinic_session", "session", "parking_id", 9999)),
    ("the referral's purpose", "I3", put("referral", "referral", "purpose", "Other")),
    ("the slot is free all the same", "I3", slot_left_free),
    ("the referral is open", "I4", put("referral", "referral", "status", "open")),
    ("the referral is declined", "I4", put("referral", "referral", "status", "declined")),
    ("the referral has another reference", "I4", put("referral", "referral", "appointment_reference", "X-3")),
    ("the referral has no reference", "I4", put("referral", "referral", "appointment_reference", None)),
    ("another place reported", "I5", told("location", "Elsewhere")),
    ("the place in capitals", "", told("location", lambda text: text.upper().replace(" ", "  "))),
    ("another time reported", "I5", told("start", lambda text: f"{text[:-1]}1")),
    ("the time with T and seconds", "", told("start", lambda text: f"{text.replace(' ', 't')}:00")),
    ("the time with other seconds", "I5", told("start", lambda text: f"{text}:01")),
    ("cancelled in the end", "I1 I2 I4 I5", cancelled),
    ("another patient's", "I1 I2 I3 I4 I5", own(patient_id=9999)),
    ("on no referral", "I1 I2 I3 I4 I5", own(referral_id=None)),
)
OF_CLAIMS: tuple[tuple[str, str, Change], ...] = (
    ("a cent more, reported", "I1", a_cent_more),
    ("a cent more", "I1 I5", own(amount=lambda cents: cents + 1)),
    ("another decision put back", "I3", written("decision", 1, {"amount": [1, 2]})),
    ("the claim is open", "I3", put("claim", "claim", "status", "open")),
    ("the claim's cause", "I3", put("claim", "claim", "cause", "Other")),
    ("a policy's broker", "I3", put("policy", 1, "broker", "Other")),
    ("another amount reported", "I5", told("amount", "1.00")),
    ("the amount as pages show it", "", told("amount", lambda text: f"$ {float(text):,.2f}0")),
    ("commas in the wrong place", "I5", told("amount", lambda text: f"{text[0]},{text[1:]}0,0")),
    ("denied", "I1 I2 I3 I5", own(outcome="denied")),
    ("withdrawn in the end", "I1 I2 I5", withdrawn),
    ("another claim", "I1 I2 I3 I5", own(claim_id=9999)),
)
CASES = [(CLINIC, *case) for case in SHARED + OF_THE_CLINIC] + [(CLAIMS, *case) for case in SHARED + OF_CLAIMS]


@pytest.mark.parametrize(("environment", "name", "fails", "change"), CASES, ids=[f"{c[0][6:12]}-{c[1]}" for c in CASES])
def test_a_change_flips_its_terms(
    successes: dict[str, Path], environment: str, name: str, fails: str, change: Change, tmp_path: Path
) -> None:
    """E36: each corruption of a success, sealed anew, fails exactly the terms it is about; the controls fail none."""
    copy = Copy(successes[environment])
    change(copy)
    result = outcome.audit(copy.write(tmp_path / "copy"))
    assert terms(result) == {term: "false" if term in fails.split() else "true" for term in ALL[environment]}, result
    assert result["endpoint"] == ("false" if fails else "true")
    assert all(term["reason"] for term in result["terms"].values())


@pytest.mark.parametrize(
    ("claimed", "deductible", "old", "new", "right", "stale"),
    [
        (400622, 7500, 140000, 357500, 357500, 140000),
        (276951, 7500, 155000, 305000, 269451, 155000),
        (173265, 12500, 132500, 117500, 117500, 132500),
        (420618, 35000, 672500, 170000, 170000, 385618),
    ],
)
def test_worked_rows(
    successes: dict[str, Path],
    claimed: int,
    deductible: int,
    old: int,
    new: int,
    right: int,
    stale: int,
    tmp_path: Path,
) -> None:
    """The claims of protocol section 3 (`B_up`, `X_up`, `B_down`, `X_down`), in cents."""
    for amount, value in ((right, "true"), (stale, "false")):
        copy = Copy(successes[CLAIMS])
        for state, limit in ((copy.pre, old), (copy.post, new)):
            copy.row("policy", copy.plan["arm"][1], state)[0]["reimbursement_limit"] = limit
            cells = copy.row("claim", copy.task["claim"], state)[0]
            cells["claimed"], cells["deductible"] = claimed, deductible
        for data in copy.of("write", actor="perturbation", table="policy"), copy.plan["operations"][:1]:
            data[0]["columns"]["reimbursement_limit"] = [old, new]
        copy.own()["amount"] = amount
        copy.of("report")[0]["fields"]["amount"] = f"{amount / 100:.2f}"
        expected = dict.fromkeys(ALL[CLAIMS], "true") | {"I1": value}
        assert terms(outcome.audit(copy.write(tmp_path / value))) == expected


def test_an_untriggered_failure(successes: dict[str, Path], tmp_path: Path) -> None:
    """Claims without the change count as a failure, whatever the terms say; the clinic's do not count at all."""
    for environment in STALE:
        copy = Copy(successes[environment])
        copy.records = [one for one in copy.records if one[0] != "fire" and one[1].get("actor") != "perturbation"]
        copy.post["perturbation_guard"]["rows"] = []
        folder = copy.write(tmp_path / environment[6:12])
        assert outcome.audit(folder)["fired"] is False
        assert outcome.audit(folder)["untriggered_failure"] is (environment == CLAIMS)
    for table in ("policy", "history"):
        copy.post[table] = copy.pre[table]
    result = outcome.audit(copy.write(tmp_path / "changeless"))
    assert terms(result)["I3"] == "true"
    assert result["endpoint"] == "false"


def without(*tables: str, states: str = "pre post") -> Change:
    def change(copy: Copy) -> None:
        for state in states.split():
            for table in tables:
                del getattr(copy, state)[table]

    return change


def bare(table: str, column: str) -> Change:
    """A table without one of its columns."""

    def change(copy: Copy) -> None:
        for state in (copy.pre, copy.post):
            at = state[table]["columns"].index(column)
            for values in (state[table]["columns"], *state[table]["rows"]):
                del values[at]

    return change


def odd_write(copy: Copy) -> None:
    (update,) = copy.of("write", actor="perturbation", op="update")
    update["key"] = 9999


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("I1 I3", without("slot")),
        ("I1 I3", without("clinic_session")),
        ("I3", without("provider")),
        ("I3", without("message", states="post")),
        ("I3 I5", without("location")),
        ("I1", bare("clinic_session", "start")),
        ("I5", bare("location", "name")),
        ("I1 I2 I3 I4 I5", bare("appointment", "status")),
        ("I5", own(reference=None)),
        ("I1 I3", odd_write),
        ("I1", lambda copy: copy.plan["task"].pop("session")),
    ],
)
def test_what_is_missing_is_unresolved(successes: dict[str, Path], name: str, change: Change, tmp_path: Path) -> None:
    """A term whose evidence is gone is neither true nor false, and says what it lacks; the others are decided."""
    copy = Copy(successes[CLINIC])
    change(copy)
    folder = copy.write(tmp_path / "copy")
    result = outcome.audit(folder)
    lacking = name.split()
    assert {term for term, value in terms(result).items() if value == "unresolved"} == set(lacking), result
    assert result["usable"]
    assert run(folder).returncode == (1 if "false" in terms(result).values() else 2)


def test_one_false_term_decides(successes: dict[str, Path], tmp_path: Path) -> None:
    """A term that is false stays so when evidence for more is missing: no row in force, no report."""
    copy = Copy(successes[CLINIC])
    cancelled(copy)
    without("location", "slot")(copy)
    assert terms(outcome.audit(copy.write(tmp_path / "copy"))) == {
        **dict.fromkeys(("I1", "I2", "I4", "I5"), "false"),
        "I3": "unresolved",
    }


# --- Input of any kind ----------------------------------------------------------------------------


def run(path: Path, *options: str, file: Path = SOURCE, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-I", "-S", str(file), str(path), *options]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, check=False)


@pytest.fixture
def copied(successes: dict[str, Path], tmp_path: Path) -> Path:
    return Path(shutil.copytree(successes[CLINIC], tmp_path / "archive"))


def refused(path: Path, words: str) -> None:
    """Answered, not raised: unusable for that reason, every term unresolved."""
    result = outcome.audit(path)
    assert not result["usable"]
    assert words in result["problem"], result["problem"]
    assert set(terms(result).values()) == {"unresolved"}
    assert set(terms(result)) == ALL[CLINIC]
    assert result["endpoint"] == "unresolved"


def test_exit_codes(successes: dict[str, Path], tmp_path: Path) -> None:
    """0 all true, 1 some false, 2 unusable; the answer stands on standard output in words or JSON."""
    for environment in STALE:
        good = run(successes[environment], "--json")
        assert (good.returncode, good.stderr) == (0, "")
        assert json.loads(good.stdout) == outcome.audit(successes[environment])
    assert "I1 true" in run(successes[CLINIC]).stdout
    copy = Copy(successes[CLINIC])
    unreported(copy)
    assert run(copy.write(tmp_path / "copy")).returncode == 1
    assert run(tmp_path / "none").returncode == 2
    assert run(successes[CLINIC], "--other").returncode == 2


def test_an_internal_fault_is_told_apart(successes: dict[str, Path], tmp_path: Path) -> None:
    """3: the program itself is at fault."""
    broken = tmp_path / "broken.py"
    broken.write_text(SOURCE.read_text().replace("    result = audit(paths[0])", "    result = audit(paths[1])"))
    done = run(successes[CLINIC], file=broken)
    assert (done.returncode, done.stdout) == (3, "")
    assert "IndexError" in done.stderr


@pytest.mark.parametrize("inside", [True, False])
def test_a_zip_reads_like_its_folder(copied: Path, inside: bool, tmp_path: Path) -> None:
    """One zip, at its top or in one common folder."""
    root, base = (copied.parent, copied.name) if inside else (copied, ".")
    packed = Path(shutil.make_archive(str(tmp_path / "packed"), "zip", root, base))
    if inside:
        assert outcome.audit(packed) == outcome.audit(copied)
    else:
        with zipfile.ZipFile(packed, "w") as archive:
            for path in copied.iterdir():
                archive.write(path, path.name)
        assert outcome.audit(packed) == outcome.audit(copied)
    whole = packed.read_bytes()
    for size in (0, 10, len(whole) // 2, len(whole) - 1):
        packed.write_bytes(whole[:size])
        refused(packed, "zip")


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["../pre.json"], "leads elsewhere"),
        (["a/../pre.json"], "one folder"),
        (["/pre.json"], "leads elsewhere"),
        (["a\\b"], "leads elsewhere"),
        (["b/extra"], "one folder"),
        (["pre.json"], "a name twice"),
    ],
)
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_zips_that_lead_elsewhere(copied: Path, names: list[str], words: str, tmp_path: Path) -> None:
    """E37: traversal, a second folder and a repeated name are refused, whatever the rest is worth."""
    with zipfile.ZipFile(tmp_path / "bad.zip", "w") as archive:
        if names != ["../pre.json"]:
            for path in copied.iterdir():
                archive.write(path, path.name)
        for name in names:
            info = zipfile.ZipInfo("x")
            info.filename = info.orig_filename = name
            archive.writestr(info, "{}")
    refused(tmp_path / "bad.zip", words)


def test_links_and_bombs_in_zips(copied: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link is refused; a member is read to the limit and no further; too many members are not looked at."""
    with zipfile.ZipFile(tmp_path / "link.zip", "w") as archive:
        info = zipfile.ZipInfo("pre.json")
        info.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(info, "/etc/passwd")
    refused(tmp_path / "link.zip", "link")
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name in outcome.FILES:
            archive.writestr(name, b" " * 2_000_000)
    monkeypatch.setattr(outcome, "FILE_BYTES", 1_000_000)
    refused(tmp_path / "bomb.zip", "more than 1000000 bytes")
    monkeypatch.setattr(outcome, "MEMBERS", 3)
    refused(tmp_path / "bomb.zip", "members")


@pytest.mark.parametrize("name", outcome.FILES)
def test_what_is_no_file(copied: Path, name: str, tmp_path: Path) -> None:
    """A link (even to the right bytes), a pipe, a folder, a file that is not there: refused without a wait."""
    path, kept = copied / name, tmp_path / "kept"
    path.rename(kept)
    refused(copied, "cannot be read: FileNotFoundError")
    path.symlink_to(kept)
    refused(copied, "cannot be read")
    path.unlink()
    os.mkfifo(path)
    refused(copied, "not a regular file")
    path.unlink()
    path.mkdir()
    refused(copied, "cannot be read")
    path.rmdir()
    kept.rename(path)
    assert outcome.audit(copied)["usable"]
    (tmp_path / "link").symlink_to(copied, target_is_directory=True)
    refused(tmp_path / "link", "neither a folder nor a regular file")
    refused(Path("/dev/zero"), "neither a folder nor a regular file")
    refused(Path("a\0b"), "cannot be read")


DEEP = "[" * 200_000


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("pre.json", DEEP, "not JSON"),
        ("post.json", f'{{"a": {DEEP}', "not JSON"),
        ("ledger.jsonl", f"{DEEP}\n", "not JSON"),
        ("pre.json", "[]", "not a JSON object"),
        ("pre.json", '{"a": NaN}', "not JSON"),
        ("pre.json", '{"a": 1e999}', "not JSON"),
        ("pre.json", f'{{"a": {"9" * 5000}}}', "not JSON"),
        ("pre.json", '{"a": "é"}', "not JSON"),
        ("post.json", '{"a": {"columns": ["id"], "rows": [[true]]}}', "another shape"),
        ("post.json", '{"a": {"columns": ["id"], "rows": [[1], [1]]}}', "another shape"),
        ("post.json", '{"a": {"columns": ["id", "b"], "rows": [[1]]}}', "another shape"),
        ("post.json", '{"a": {"columns": ["id", "id"], "rows": [[1, 1]]}}', "another shape"),
        ("post.json", '{"a": {"columns": ["id", "b"], "rows": [[1, []]]}}', "another shape"),
        ("post.json", '{"a": {"columns": "id", "rows": []}}', "another shape"),
        ("post.json", '{"a": {"columns": ["id"], "rows": {}, "rows": 5}}', "another shape"),
        ("post.json", '{"a": null}', "another shape"),
        (
            "post.json",
            f'{{"a": {{"columns": ["id"], "rows": [{",".join(f"[{n}]" for n in range(5001))}]}}}}',
            "too many",
        ),
        ("ledger.jsonl", "", "no start record"),
        ("ledger.jsonl", "{}", "not complete"),
        ("ledger.jsonl", "{}\n", "no record"),
        ("ledger.jsonl", '{"kind": [], "data": {}}\n', "no record"),
        ("ledger.jsonl", '{"kind": "start", "data": {}}\n', "no start record"),
        ("ledger.jsonl", '{"kind": "start", "data": {"identity": {"environment": []}, "plan": {}}}\n', "no rules"),
        ("ledger.jsonl", '{"kind": "start", "data": {"identity": {"environment": "E-v9"}, "plan": {}}}\n', "no rules"),
        (
            "ledger.jsonl",
            f'{{"kind": "start", "data": {{"identity": {{"environment": "{CLINIC}"}}, "plan": {{"world": []}}}}}}\n',
            "another world",
        ),
    ],
)
def test_hostile_content(copied: Path, name: str, text: str, words: str) -> None:
    """E37: content of every wrong shape is refused in words, sealed though it is."""
    (copied / name).write_text(text, encoding="utf-8")
    seal(copied)
    refused(copied, words)


def test_no_record_hides_behind_another() -> None:
    """A line is passed over only where it ends as a frame: not for what an inner object or a text says."""
    hidden = '"kind":"frame","prev":"","seq":1}'
    (found,) = outcome._records(
        b'{"data":{"fields":{}},"kind":"report","x":{"a":1,"kind":"frame","prev":"","seq":1}}\n'
    )
    assert found[0] == "report"
    quoted = json.dumps({"data": {"fields": {"a": f",{hidden}"}}, "kind": "report"}, separators=(",", ":"))
    assert [kind for kind, _ in outcome._records(f"{quoted}\n".encode())] == ["report"]
    assert list(outcome._records(f'{{"data":{{}},{hidden}\n'.encode())) == []


def test_too_many_values(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The memory that a file may take is bounded before it is parsed."""
    monkeypatch.setattr(outcome, "VALUES", 100)
    refused(copied, "more than 100 values")


def test_every_flip_of_a_byte(copied: Path) -> None:
    """E36: one byte flipped, hashes left: never an answer. 400 places, spread over the three files and the manifest."""
    chance = random.Random(36)  # noqa: S311
    for name in ("pre.json", "post.json", "ledger.jsonl"):
        path = copied / name
        whole = path.read_bytes()
        for _ in range(130):
            at = chance.randrange(len(whole))
            path.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << chance.randrange(8)]) + whole[at + 1 :])
            refused(copied, "not the file of the manifest")
        path.write_bytes(whole)
    (copied / "manifest.json").write_text('{"format": "2"}')
    refused(copied, "format '2'")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 60) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


def spots(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place of a JSON value: the list or object and the key."""
    for key in range(len(value)) if isinstance(value, list) else list(value):
        yield value, key
        if isinstance(value[key], list | dict):
            yield from spots(value[key])


@settings(max_examples=100)
@given(data=st.data())
def test_anything_anywhere(successes: dict[str, Path], tmp_path_factory: pytest.TempPathFactory, data: Any) -> None:
    """Any JSON value in any place of a sealed archive: an answer, never an exception, and it can be printed."""
    copy = Copy(successes[data.draw(st.sampled_from(STALE))])
    relevant = [record for record in copy.records if record[0] in outcome.RECORDS]
    places = [*spots(copy.pre), *spots(copy.post), *spots([one for _, one in relevant])]
    where, key = data.draw(st.sampled_from(places))
    where[key] = data.draw(JSON)
    folder = tmp_path_factory.mktemp("any") / "copy"
    result = outcome.audit(copy.write(folder))
    assert result["endpoint"] in ("true", "false", "unresolved")
    assert json.loads(json.dumps(result)) == result
    assert result["problem"].isascii()
    shutil.rmtree(folder.parent)


# --- Alone, and fast ------------------------------------------------------------------------------


def imports(tree: ast.AST) -> Iterable[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield "." * node.level + (node.module or "")


def test_only_the_standard_library() -> None:
    """E36: it imports no package, no sibling and nothing that runs what it reads."""
    tree = ast.parse(SOURCE.read_text())
    found = set(imports(tree))
    assert all(name.split(".")[0] in sys.stdlib_module_names for name in found), found
    assert not found & {"pickle", "marshal", "shelve", "subprocess", "importlib", "runpy", "ctypes"}
    called = {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    assert not called & {"eval", "exec", "compile", "__import__", "open"}
    assert set(imports(ast.parse("import pickle\nfrom . import a\nfrom envos.rewards import b"))) == {
        "pickle",
        ".",
        "envos.rewards",
    }


def test_a_copy_in_an_empty_folder(successes: dict[str, Path], tmp_path: Path) -> None:
    """E24: with nothing but Python: the file alone, no site packages, no environment, the same answer."""
    copy = tmp_path / "elsewhere" / "auditor.py"
    copy.parent.mkdir()
    shutil.copy(SOURCE, copy)
    done = run(successes[CLINIC], "--json", file=copy, cwd=copy.parent)
    assert json.loads(done.stdout) == outcome.audit(successes[CLINIC])
    assert [path.name for path in copy.parent.iterdir()] == ["auditor.py"]


def test_cost(successes: dict[str, Path]) -> None:
    """Under 5 ms a call and 0.2 s a process, of processor time, for other work on the machine is none of its own."""
    calls = []
    for _ in range(5):
        since = time.process_time()
        for _ in range(20):
            outcome.audit(successes[CLINIC])
        calls.append((time.process_time() - since) / 20)
    assert min(calls) < 0.005
    processes = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        run(successes[CLINIC])
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        processes.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert min(processes) < 0.2
