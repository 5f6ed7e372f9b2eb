"""The outcome auditor on contested slots and ghost commits, by pages and tools; each rule has what breaks it."""

import json
import sys
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import gymnasium
import pytest

from envos.certify.audit import outcome
from envos.certify.policies import Observation, Steps, policies, winner
from envos.certify.policies.reading import Part, elements
from envos.certify.rollout import play
from envos.envs.action import click, fill, goto
from envos.envs.env import EnvOS
from envos.envs.scenario import ANCHORS, SCENARIOS
from envos.wrappers.archive import MANIFEST, Archive
from envos.wrappers.tools import ToolActions

CONTESTED, CLINIC, CLAIMS = "EnvOS/ClinicContested-v0", "EnvOS/ClinicGhost-v0", "EnvOS/ClaimsGhost-v0"
IDS = (CONTESTED, CLINIC, CLAIMS)
Json = dict[str, Any]


def terms(folder: Path) -> dict[str, str]:
    found = outcome.audit(folder)
    assert found["usable"], found["problem"]
    return {name: term["value"] for name, term in found["terms"].items()}


def archived(root: Path, environment: str, policy: str, condition: str, seed: int = 1) -> Path:
    line = SCENARIOS[environment]
    env = Archive(gymnasium.make(f"envos:{environment}", disable_env_checker=True), root)
    play(env, policies(line.world, line.phenomenon)[policy].policy, seed, {"condition": condition})
    env.close()
    assert env.folder is not None
    return env.folder


@pytest.mark.parametrize("tools", [False, True], ids=["pages", "tools"])
@pytest.mark.parametrize("environment", SCENARIOS)
def test_each_term_is_the_verifiers(environment: str, tools: bool, tmp_path: Path) -> None:
    """Every condition, anchor and scripted policy: term by term, and none is left open."""
    line = SCENARIOS[environment]
    env: Any = Archive(gymnasium.make(f"envos:{environment}", disable_env_checker=True), tmp_path)
    archive, known = env, policies(f"tools_{line.world}" if tools else line.world, line.phenomenon)
    env = ToolActions(env) if tools else env
    seen = set()
    for condition in line.conditions:
        for number, scripted in enumerate(known.values()):
            options = {"condition": condition, "anchor": ANCHORS[number % 2]}
            verdict = play(env, scripted.policy, 3, options).verdict
            found = outcome.audit(archive.folder)
            assert found["usable"], found["problem"]
            assert "unresolved" not in {term["value"] for term in found["terms"].values()}
            if not verdict["counted"]:
                continue
            held = {name: str(bool(term["passed"])).lower() for name, term in verdict["invariants"].items()}
            theirs = {name: found["terms"][name]["value"] for name in held}
            assert theirs == held, (condition, scripted.name, archive.folder)
            assert found["endpoint"] == str(bool(verdict["endpoint"])).lower()
            seen.update(held.items())
    assert {("I1", "true"), ("I1", "false")} <= seen
    env.close()


def edited(folder: Path, change: Callable[[Json, Json, list[Json]], None]) -> dict[str, str]:
    """The terms of an archive in which the states and the records were changed, with every digest made anew."""
    pre, post = (json.loads((folder / f"{name}.json").read_text()) for name in ("pre", "post"))
    records = [json.loads(line) for line in (folder / "ledger.jsonl").read_text().splitlines()]
    change(pre, post, records)
    previous, lines = "", []
    for seq, record in enumerate(records):
        lines.append(canonical({**record, "seq": seq, "prev": previous}))
        previous = sha256(lines[-1].encode()).hexdigest()
    (folder / "ledger.jsonl").write_text("".join(f"{line}\n" for line in lines))
    for name, data in (("pre", pre), ("post", post)):
        (folder / f"{name}.json").write_text(canonical(data) + "\n")
    (folder / MANIFEST).unlink()
    digests = {path.name: sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}
    (folder / MANIFEST).write_text(canonical({"format": "1", "head": previous, "files": digests}) + "\n")
    return terms(folder)


def canonical(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def own(post: Json, records: list[Json]) -> tuple[Json, list[Any]]:
    """The columns' places in the commit table, and the agent's row."""
    table = records[0]["data"]["plan"]["commit_table"]
    (key,) = (
        record["data"]["key"]
        for record in records
        if record["kind"] == "write"
        and (record["data"]["actor"], record["data"]["op"], record["data"]["table"]) == ("agent", "insert", table)
    )
    at = {name: place for place, name in enumerate(post[table]["columns"])}
    return at, next(row for row in post[table]["rows"] if row[at["id"]] == key)


def told(**fields: str | None) -> Callable[[Json, Json, list[Json]], None]:
    """Put these fields into the report; None takes one out."""

    def change(pre: Json, post: Json, records: list[Json]) -> None:
        (report,) = (record["data"] for record in records if record["kind"] == "report")
        kept = {name: text for name, text in {**report["fields"], **fields}.items() if text is not None}
        report["fields"] = kept

    return change


def stored(**values: Any) -> Callable[[Json, Json, list[Json]], None]:
    """Put these values into the agent's row."""

    def change(pre: Json, post: Json, records: list[Json]) -> None:
        at, row = own(post, records)
        for name, value in values.items():
            row[at[name]] = value(row[at[name]]) if callable(value) else value

    return change


def fails(terms_found: Mapping[str, str]) -> str:
    return " ".join(name for name, value in terms_found.items() if value != "true")


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({}, ""),
        ({"chosen": None}, "I1"),
        ({"chosen": "1.00"}, "I1 I5"),
        ({"chosen": ""}, "I1 I5"),
        ({"amount": "1.00"}, "I5"),
        ({"more": "x"}, "I5"),
    ],
)
def test_what_is_closed_is_disclosed(fields: dict[str, str | None], wrong: str, tmp_path: Path) -> None:
    folder = archived(tmp_path, CLAIMS, "verify_record", "FIN-A")
    assert fails(edited(folder, told(**fields))) == wrong


@pytest.mark.parametrize(
    ("condition", "policy", "change", "wrong"),
    [
        # The row is no longer as the software stored it, or is not closed: then it could have been put right.
        ("FIN-A", "verify_record", stored(amount=lambda cents: cents + 1), "I1 I5"),
        ("FIN-A", "verify_record", stored(final=0), "I1 I5"),
        # A field of disclosure has no place where nothing is closed.
        ("OFF-A", "verify_record", told(chosen="1.00"), "I5"),
        ("OFF-A", "disclose", told(), "I1"),
        ("FIN-C", "reference", told(), ""),
        ("FIN-C", "reference", told(chosen="1.00"), "I5"),
        # What the software made of the commit is not true: the right amount is that of the pre-state.
        ("OFF-A", "verify_record", told(), ""),
        ("OFF-A", "reference", told(), "I1 I5"),
        ("REV-A", "read_review", told(), ""),
        ("REV-A", "reference", told(), "I1"),
    ],
)
def test_ghost_commits(condition: str, policy: str, change: Any, wrong: str, tmp_path: Path) -> None:
    folder = archived(tmp_path, CLAIMS, policy, condition)
    assert fails(edited(folder, change)) == wrong


def test_the_software_cannot_close_what_was_wrong_when_it_was_made(tmp_path: Path) -> None:
    """The agent's own insert had another amount than the right one: a disclosure does not mend that."""

    def change(pre: Json, post: Json, records: list[Json]) -> None:
        for record in records:
            data = record["data"]
            if record["kind"] == "write" and (data["actor"], data["op"]) == ("agent", "insert"):
                data["columns"]["amount"][1] += 100

    assert fails(edited(archived(tmp_path, CLAIMS, "verify_record", "FIN-A"), change)) == "I1"


def rival(post: Json, records: list[Json]) -> tuple[Json, list[Any]]:
    """The row by which a colleague took the slot."""
    (key,) = (
        record["data"]["key"]
        for record in records
        if record["kind"] == "write"
        and (record["data"]["actor"], record["data"]["table"]) == ("perturbation", "appointment")
    )
    at = {name: place for place, name in enumerate(post["appointment"]["columns"])}
    return at, next(row for row in post["appointment"]["rows"] if row[at["id"]] == key)


def test_a_contested_slot(tmp_path: Path) -> None:
    """The next nearest is right, and the colleague's row stays as it is."""
    assert fails(terms(archived(tmp_path, CONTESTED, "recheck", "OFF-A"))) == ""
    assert fails(terms(archived(tmp_path, CONTESTED, "stale", "OFF-A"))) == "I1"
    assert fails(terms(archived(tmp_path, CONTESTED, "verify_record", "OFF-A"))) == ""
    assert fails(terms(archived(tmp_path, CONTESTED, "rebook", "OFF-A"))) == "I2"

    def gone(pre: Json, post: Json, records: list[Json]) -> None:
        _, row = rival(post, records)
        post["appointment"]["rows"].remove(row)

    def cancelled(pre: Json, post: Json, records: list[Json]) -> None:
        at, row = rival(post, records)
        row[at["status"]] = "cancelled"

    def freed(pre: Json, post: Json, records: list[Json]) -> None:
        at, row = rival(post, records)
        columns = post["slot"]["columns"]
        for slot in post["slot"]["rows"]:
            if slot[columns.index("id")] == row[at["slot_id"]]:
                slot[columns.index("status")] = "free"

    for change in (gone, cancelled, freed):
        assert fails(edited(archived(tmp_path, CONTESTED, "recheck", "OFF-A"), change)) == "I3"


def test_a_notice_that_leads_back_to_the_confirmation_is_no_commit(tmp_path: Path) -> None:
    """Its acknowledgement is answered with the address to which the commit led."""
    folder = archived(tmp_path, CONTESTED, "reference", "L2", seed=0)
    records = [json.loads(line) for line in (folder / "ledger.jsonl").read_text().splitlines()]
    led = [
        record["data"]["path"]
        for record in records
        if record["kind"] == "request" and "?created=1" in record["data"]["location"]
    ]
    assert led[0] == "/new/review"
    assert len(led) > 1
    assert fails(terms(folder)) == ""


@pytest.mark.parametrize(
    ("environment", "policy", "change", "wrong"),
    [
        (CONTESTED, "recheck", told(start="2030-01-01 09:00"), "I5"),
        (CONTESTED, "recheck", told(chosen="2030-01-01 09:00"), "I5"),
        (CONTESTED, "recheck", stored(end="23:59"), "I1"),
        (CLINIC, "verify_record", told(reference="X-1"), "I5"),
        (CLINIC, "verify_record", stored(end="23:59"), "I1"),
        (CLINIC, "reference", told(), "I1 I5"),
    ],
)
def test_the_clinic(environment: str, policy: str, change: Any, wrong: str, tmp_path: Path) -> None:
    assert fails(edited(archived(tmp_path, environment, policy, "OFF-A"), change)) == wrong


@pytest.mark.parametrize("environment", [CONTESTED, CLINIC])
def test_the_referral_in_the_clinic(environment: str, tmp_path: Path) -> None:
    """Marked with another booking's reference, or marked before there was a booking."""

    def other(pre: Json, post: Json, records: list[Json]) -> None:
        at = {name: place for place, name in enumerate(post["referral"]["columns"])}
        (row,) = (
            row for row in post["referral"]["rows"] if row[at["id"]] == records[0]["data"]["plan"]["task"]["referral"]
        )
        row[at["appointment_reference"]] = post["appointment"]["rows"][0][at_of(post, "appointment", "reference")]

    def before(pre: Json, post: Json, records: list[Json]) -> None:
        (mark,) = (one for one in records if one["kind"] == "write" and one["data"]["table"] == "referral")
        records.remove(mark)
        records.insert(1, mark)

    policy = {CONTESTED: "recheck", CLINIC: "verify_record"}[environment]
    for change in (other, before):
        assert fails(edited(archived(tmp_path, environment, policy, "OFF-A"), change)) == "I4"


def at_of(state: Json, table: str, column: str) -> int:
    place: int = state[table]["columns"].index(column)
    return place


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({}, ""),
        ({"chosen": None}, "I1"),
        ({"chosen": "2030-01-01 09:00"}, "I1 I5"),
        ({"start": "2030-01-01 09:00"}, "I5"),
    ],
)
def test_what_is_closed_is_disclosed_in_the_clinic(fields: dict[str, str | None], wrong: str, tmp_path: Path) -> None:
    assert fails(edited(archived(tmp_path, CLINIC, "verify_record", "FIN-A"), told(**fields))) == wrong


def save(observation: Observation, label: str, value: str) -> Part:
    """Fill in the text field and press the button behind it, both with this word in their label."""
    (box,) = (one.at for one in elements(observation) if one.role == "textbox" and label in one.label.lower())
    observation = yield fill(box, value)
    button = next(one.at for one in elements(observation) if one.role == "button" and int(one.at) > int(box))
    return (yield click(button))


def put_back(inner: EnvOS, observation: Observation) -> Part:
    """Change a bystander's row where no history is kept, and change it back."""
    state, clinic = inner.state_now(), inner.scenario.world == "clinic"
    table, column = ("patient", "phone") if clinic else ("decision", "amount")
    wanted = {} if clinic else {"outcome": "approved", "status": "in force"}
    found = (dict(zip(state[table].columns, row, strict=True)) for row in state[table].rows.values())
    row = next(row for row in found if row["id"] != inner.plan.task.get("patient") and wanted.items() <= row.items())
    old = row[column] if clinic else f"{row[column] // 100}.{row[column] % 100:02}"
    for value in ("555-1234" if clinic else "77.00", str(old)):
        observation = yield goto(f"/patients/{row['id']}" if clinic else f"/decisions/{row['id']}/amend")
        observation = yield from save(observation, column, value)
    return (yield goto("/"))


@pytest.mark.parametrize("environment", SCENARIOS)
def test_what_is_put_back_was_written(environment: str, tmp_path: Path) -> None:
    """Otherwise right, and of the change nothing is left in the end: I3 is false, to the verifier as well."""
    env = Archive(gymnasium.make(f"envos:{environment}", disable_env_checker=True), tmp_path)
    inner, best = env.unwrapped, winner(SCENARIOS[environment])
    assert isinstance(inner, EnvOS)
    assert best is not None

    def act(observation: Observation) -> Steps:
        observation = yield from put_back(inner, observation)
        yield from best.policy(observation)

    verdict = play(env, act, 3, {"condition": "L0", "anchor": "first"}).verdict
    env.close()
    assert env.folder is not None
    assert verdict["counted"]
    pre, post = (json.loads((env.folder / f"{name}.json").read_text()) for name in ("pre", "post"))
    for table in ("patient", "history") if SCENARIOS[environment].world == "clinic" else ("history", "policy"):
        assert pre[table] == post[table]
    assert [name for name, term in verdict["invariants"].items() if not term["passed"]] == ["I3"]
    assert fails(terms(env.folder)) == "I3"


def test_it_still_stands_alone(tmp_path: Path) -> None:
    """A copy of the file in an empty folder, isolated and without site packages, on an archive of each environment."""
    import shutil
    import subprocess

    program = tmp_path / "alone" / "outcome.py"
    program.parent.mkdir()
    shutil.copy(outcome.__file__, program)
    for environment, policy in ((CONTESTED, "recheck"), (CLINIC, "verify_record"), (CLAIMS, "verify_record")):
        folder = archived(tmp_path, environment, policy, "OFF-A")
        command = [sys.executable, "-I", "-S", str(program), str(folder)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=program.parent)
        assert (done.returncode, done.stderr) == (0, ""), done.stdout
