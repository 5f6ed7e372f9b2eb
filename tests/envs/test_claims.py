"""The claims office's instances: properties over many seeds."""

import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import date

import pytest
from claims_desk import Record, case_of, draft, record, records, roles, state

from envos.envs.evidence import canonical, sha256
from envos.envs.names import pool
from envos.envs.page import clean
from envos.envs.roles import Draft
from envos.envs.streams import SPLITS, Stream
from envos.envs.worlds.claims import WORLD
from envos.envs.worlds.claims_rules import money
from envos.envs.worlds.claims_words import Case, request
from envos.errors import UnknownName, UsageError

SEEDS = range(152)
split_ = pytest.mark.parametrize("split", SPLITS)


def drafts(split: str) -> Iterator[Draft]:
    return (draft(seed, split) for seed in SEEDS)


def target(found: Draft) -> tuple[Record, Record]:
    """The target claim and its policy."""
    claim = record(found, "claim", found.task["claim"])
    return claim, record(found, "policy", claim["policy_id"])


@split_
def test_rows_are_few_and_of_every_kind(split: str) -> None:
    for found in drafts(split):
        count = {table: len(rows) for table, rows in found.rows.items()}
        assert set(count) == set(WORLD.metadata.tables)
        assert 60 <= sum(count.values()) <= 200
        assert 10 <= count["person"] <= 12
        assert 13 <= count["policy"] <= 15
        assert 2 <= count["endorsement"] <= 30
        assert 12 <= count["claim"] <= 14
        assert 5 <= count["decision"] <= 7
        assert 5 <= count["message"] <= 8
        assert count["history"] == 3
        assert count["notice"] == 0
        for table, rows in found.rows.items():
            assert [row[0] for row in rows] == list(range(1, len(rows) + 1)), table


@split_
def test_the_four_cases_are_balanced(split: str) -> None:
    cases = []
    for found in drafts(split):
        claim, policy = target(found)
        fact = roles(found)[0]
        eligible = claim["claimed"] - claim["deductible"]
        kinds = {case_of(eligible, policy["reimbursement_limit"], int(str(new))) for new, _ in fact.alternatives}
        assert kinds == {found.task["case"]}
        assert len(fact.alternatives) == 3
        cases.append(found.task["case"])
    for start in range(len(cases) - 3):
        assert set(cases[start : start + 4]) == {"B_up", "B_down", "X_up", "X_down"}
    assert draft(2**62 + 1, split).task["case"] == draft(1, split).task["case"]


@split_
def test_roles_fit_the_rows(split: str) -> None:
    for found in drafts(split):
        claim, policy = target(found)
        fact, twin, detail = roles(found)
        like = record(found, "policy", twin.key)
        extra = record(found, "endorsement", detail.key)
        assert (fact.table, fact.key, fact.column) == ("policy", policy["id"], "reimbursement_limit")
        assert twin.key != fact.key
        assert extra["policy_id"] == policy["id"]
        assert sum(a != b for a, b in zip(policy["number"], like["number"], strict=True)) in (1, 2)
        assert policy["product"] == like["product"]
        eligible = claim["claimed"] - claim["deductible"]
        for role in (fact, twin, detail):
            row = record(found, role.table, role.key)
            assert (role.value, role.text) == (row[role.column], money(row[role.column]))
            values = [value for value, _ in role.alternatives]
            assert len({role.value, *values}) == 4
            for value, text in role.alternatives:
                assert text == money(int(str(value))) == WORLD.display(state(found), role.table, role.column, value)
        # What an irrelevant change names would be the amount, and a wrong one, if it were taken for the limit.
        old = roles(found)[0].value
        for value, _ in (*detail.alternatives, *twin.alternatives):
            assert isinstance(value, int)
            assert value < eligible
            assert value not in (old, *dict(fact.alternatives))
        assert found.roles.commit == WORLD.commit(found.task)
        assert found.roles.continuation is None
        assert WORLD.continuation(found.task) is None
        assert WORLD.commit(found.task).subject == {"claim_id": claim["id"]}


@split_
def test_a_limit_is_told_by_its_text(split: str) -> None:
    """No amount elsewhere reads like the limit of the target or its twin, now or after the change."""
    for found in drafts(split):
        limits = [row["reimbursement_limit"] for row in records(found, "policy")]
        limits += [row["amount"] for row in records(found, "endorsement")]
        watched = [value for role in roles(found) for value in (role.value, *dict(role.alternatives))]
        assert len(set(limits)) == len(limits)
        assert len(set(watched)) == len(watched)
        assert set(limits) & set(watched) == {role.value for role in roles(found)}
        elsewhere = {row["amount"] for table in ("claim_line", "decision") for row in records(found, table)}
        for row in records(found, "claim"):
            elsewhere |= {row["claimed"], row["deductible"], row["claimed"] - row["deductible"]}
        assert elsewhere.isdisjoint(watched)
        told = str([found.rows[name] for name in ("message", "history")])
        assert not any(text in told for role in roles(found) for text in (role.text, *dict(role.alternatives).values()))
        assert "$" not in found.brief


@split_
def test_claims_add_up_and_decisions_agree_with_them(split: str) -> None:
    for found in drafts(split):
        claims = {row["id"]: row for row in records(found, "claim")}
        policies = {row["id"]: row for row in records(found, "policy")}
        for key, claim in claims.items():
            lines = [row["amount"] for row in records(found, "claim_line") if row["claim_id"] == key]
            assert sum(lines) == claim["claimed"]
            assert 2 <= len(lines) <= 3
            assert min(lines) > 0
            assert claim["claimed"] > claim["deductible"] > 0
            assert any(row["claim_id"] == key for row in records(found, "document"))
            policy = policies[claim["policy_id"]]
            assert policy["person_id"] == claim["person_id"]
            assert policy["starts"] <= claim["lost_on"] < claim["received"] < found.opened[:10] <= policy["ends"]
            decisions = [row for row in records(found, "decision") if row["claim_id"] == key]
            live = [row["outcome"] for row in decisions if row["status"] == "in force"]
            assert live == ([] if claim["status"] == "open" else [claim["status"]])
            for row in decisions:
                eligible = claim["claimed"] - claim["deductible"]
                paid = min(eligible, policy["reimbursement_limit"]) if row["outcome"] == "approved" else 0
                assert row["amount"] == paid
                assert bool(row["reason"]) == (row["outcome"] == "denied")
                assert claim["received"] < row["decided_at"] < found.opened
        assert Counter(row["status"] for row in records(found, "decision"))["withdrawn"] == 1
        for table, column in (("claim", "number"), ("policy", "number"), ("decision", "reference")):
            texts = [row[column] for row in records(found, table)]
            assert len(set(texts)) == len(texts)


@split_
def test_there_are_claims_that_one_could_take_for_the_target(split: str) -> None:
    for found in drafts(split):
        claim, policy = target(found)
        _, twin, _ = roles(found)
        assert claim["status"] == "open"
        others = [row for row in records(found, "claim") if row["id"] != claim["id"]]
        assert all(row["policy_id"] != policy["id"] for row in others)
        assert sum(row["person_id"] == claim["person_id"] for row in others) == 1
        (like,) = (row for row in others if row["policy_id"] == twin.key)
        assert like["status"] == "open"
        assert sum(a != b for a, b in zip(claim["number"], like["number"], strict=True)) in (1, 2)
        names = {row["id"]: row["name"].split(" ") for row in records(found, "person")}
        assert set(names[claim["person_id"]]) & set(names[like["person_id"]])
        assert names[claim["person_id"]] != names[like["person_id"]]
        assert len({" ".join(name) for name in names.values()}) == len(names)


@split_
def test_dates_and_history_are_before_the_episode(split: str) -> None:
    for found in drafts(split):
        assert re.fullmatch(r"202[67]-\d\d-\d\d 08:00", found.opened)
        assert date.fromisoformat(found.opened[:10]).weekday() < 5
        assert all(row["sent_at"] < found.opened for row in records(found, "message"))
        changes = records(found, "history")
        assert [row["at"] for row in changes] == sorted(row["at"] for row in changes)
        fact, twin, _ = roles(found)
        for row in changes:
            assert row["at"] < found.opened
            shown = WORLD.display(
                state(found), "policy", row["field"], record(found, "policy", row["record_id"])[row["field"]]
            )
            assert row["new"] == shown != row["old"]
            assert row["field"] == "broker" or row["record_id"] not in (fact.key, twin.key)


@split_
def test_names_come_from_the_pool_of_the_split(split: str) -> None:
    people = {f"{given} {family}" for given in pool("given", split) for family in pool("family", split)}
    for found in drafts(split):
        assert {row["name"] for row in records(found, "person")} <= people
        assert {row["sender"] for row in records(found, "message")} <= people
        assert {row["product"] for row in records(found, "policy")} <= set(pool("product", split))
        assert {row["broker"] for row in records(found, "policy")} <= set(pool("company", split))
        assert {row["cause"] for row in records(found, "claim")} <= set(pool("cause", split))


@split_
def test_texts_are_clean(split: str) -> None:
    for found in drafts(split):
        for rows in found.rows.values():
            for row in rows:
                for value in row:
                    assert type(value) in (int, str)
                    if isinstance(value, str):
                        assert clean(value, 1000) == value
        assert all(clean(line, 1000) == line for line in found.brief.split("\n"))
        assert len(found.brief) <= 2000


@split_
def test_the_brief_names_the_claim_and_every_rule(split: str) -> None:
    for found in drafts(split):
        claim, policy = target(found)
        person = record(found, "person", claim["person_id"])
        lines = found.brief.split("\n")
        assert lines.count(f"Claim: {claim['number']}") == 1
        assert lines.count(f"Claimant: {person['name']} ({person['number']})") == 1
        for said in (
            "the claimed amount less the deductible, but never more than the reimbursement limit of the claim's policy",
            "the limit that the policy record shows now",
            "Endorsements have limits of their own; those have no bearing on this claim",
            "to the cent",
            "exactly once, with the approval form",
            "amend it; do not withdraw it and approve again",
            'report(amount="...", reference="...")',
            "Change nothing else",
            "Records can change while you work; the policy records are the authority",
        ):
            assert said in found.brief
        assert policy["number"] not in found.brief
        subjects = [row["subject"] for row in records(found, "message")]
        assert subjects.count(f"Approval of {claim['number']}") == 1
        assert len(set(subjects)) == len(subjects)


def test_the_brief_varies() -> None:
    assert len({found.brief.split("\n")[0] for found in drafts("train")}) >= 6
    assert len({found.brief.split("\n")[-1] for found in drafts("train")}) >= 6


def test_the_request_repeats_the_case() -> None:
    asked = Case("CL-10203", "Ada Byron", "K-1")
    for seed in range(20):
        subject, body = request(Stream(seed, "train", "words"), asked)
        assert subject == "Approval of CL-10203"
        assert all(text in body for text in asked)


def test_an_instance_is_a_function_of_seed_and_split() -> None:
    for split in SPLITS:
        for seed in range(20):
            assert WORLD.generate(seed, split) == draft(seed, split)
    kinds = {sha256(canonical([draft(seed, split).rows])) for seed in range(20) for split in SPLITS}
    assert len(kinds) == 60


def test_an_instance_is_the_same_in_every_process() -> None:
    code = (
        "from envos.envs.worlds.claims import WORLD; from envos.envs.evidence import canonical, sha256; "
        "d = WORLD.generate(2**62 + 5, 'test'); print(sha256(canonical([d.rows, d.task, d.brief, d.opened])))"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("0", "1")
    }
    found = WORLD.generate(2**62 + 5, "test")
    assert digests == {sha256(canonical([found.rows, found.task, found.brief, found.opened])) + "\n"}


def test_bad_seeds_and_splits_are_refused() -> None:
    with pytest.raises(UsageError):
        WORLD.generate(-1, "train")
    with pytest.raises(UnknownName):
        WORLD.generate(1, "holdout")
