"""Deciding claims in the portal, through the in-process driver: approve, deny, amend, withdraw."""

from collections.abc import Iterator

import pytest
from claims_desk import Clerk, roles

from envos.envs.evidence import Write
from envos.envs.page import observe
from envos.envs.streams import SPLITS
from envos.envs.worlds.claims import WORLD
from envos.envs.worlds.claims_rules import money

REVIEW = "/approve/review"


@pytest.fixture
def clerk() -> Iterator[Clerk]:
    clerk = Clerk()
    yield clerk
    clerk.database.close()


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("seed", range(8))
def test_an_approval_stores_what_the_review_shows(seed: int, split: str) -> None:
    clerk = Clerk(seed, split)
    numbers = [int(row["reference"][2:]) for row in clerk.rows("decision")]
    clerk.to_review()
    assert f"Amount to approve: {money(clerk.amount)}" in clerk.lines
    clerk.press("button:Approve claim")
    (made,) = clerk.made()
    assert made == {
        "id": len(numbers) + 1,
        "reference": f"D-{max(numbers) + 1}",
        "claim_id": clerk.claim["id"],
        "outcome": "approved",
        "amount": clerk.amount,
        "reason": "",
        "decided_at": clerk.app.now(),
        "by": "Claims desk",
        "status": "in force",
        "form_key": f"{clerk.claim['id']}-{clerk.amount}-0",
        "final": 0,
    }
    assert clerk.row("claim", clerk.claim["id"]) == {**clerk.claim, "status": "approved"}
    assert f"! Entered in the register. Reference {made['reference']}." in clerk.lines
    assert f"Amount: {money(clerk.amount)}" in clerk.lines
    assert f"Reference: {made['reference']}" in clerk.lines
    described = WORLD.describe(clerk.state, made)
    assert described == {"amount": money(clerk.amount), "reference": made["reference"]}
    writes = {(row.op, row.table, row.key) for row in clerk.ledger.records() if isinstance(row, Write)}
    assert writes == {("insert", "decision", made["id"]), ("update", "claim", clerk.claim["id"])}


@pytest.mark.parametrize("text", ["3575", "3,575.00", "3575.0", "$3,575.00", " 3575 "])
def test_an_amount_can_be_typed_in_several_ways(clerk: Clerk, text: str) -> None:
    made = clerk.approve(text)
    assert made["amount"] == 357_500
    assert made["form_key"] == f"{clerk.claim['id']}-357500-0"


@pytest.mark.parametrize("text", ["", "0", "0.00", "3575.001", "3.575,00", "-5", "1e3", "all of it", "1000000000"])
def test_what_is_no_amount_is_refused(clerk: Clerk, text: str) -> None:
    before = clerk.state
    clerk.to_review("1.23")
    form = clerk.driver.view().forms[0]
    clerk.press("link:Change the amount")
    clerk.fill("Amount to approve", text)
    clerk.press("button:Continue")
    assert clerk.status == 422
    assert "at most two decimals" in clerk.text
    sent = {item.name: item.value for item in form.fields}
    clerk.app.ask("POST", REVIEW, {**sent, "amount": text})
    assert clerk.last_post().location == "/refused?code=bad_amount"
    assert clerk.state == before


def test_an_amount_that_is_not_the_reviewed_one_is_refused(clerk: Clerk) -> None:
    clerk.to_review("1.23")
    sent = {item.name: item.value for item in clerk.driver.view().forms[0].fields}
    for change in ({"amount": "1.24"}, {"claim": str(clerk.claim["id"] % 12 + 1)}, {"key": ""}):
        clerk.app.ask("POST", REVIEW, {**sent, **change})
        assert clerk.last_post().location == "/refused?code=bad_request"
    assert clerk.made() == []


def test_the_review_shows_the_record_where_it_is_disclosed() -> None:
    for seed in range(4):
        clerk = Clerk(seed, "test", "value")
        limit, policy = money(clerk.policy["reimbursement_limit"]), clerk.policy
        clerk.to_review("1.23")
        for line in (
            f"Number: {policy['number']}",
            f"Valid from: {policy['starts']}",
            f"Valid to: {policy['ends']}",
            f"Reimbursement limit: {limit}",
        ):
            assert line in clerk.lines
        # The amount that follows from it is left to the agent, unless it is the limit itself.
        assert (money(clerk.amount) in clerk.text) == (clerk.amount == policy["reimbursement_limit"])
        assert money(clerk.claim["claimed"] - clerk.claim["deductible"]) not in clerk.text
        other, text = roles(clerk.found)[0].alternatives[0]
        clerk.database.raw.execute("UPDATE policy SET reimbursement_limit = ? WHERE id = ?", (other, policy["id"]))
        clerk.go(clerk.driver.url())
        assert f"Reimbursement limit: {text}" in clerk.lines
        quiet = Clerk(seed, "test")
        quiet.to_review("1.23")
        assert "Policy record" not in quiet.text
        assert limit not in quiet.text


def test_a_form_that_is_sent_twice_approves_once(clerk: Clerk) -> None:
    made = clerk.approve()
    first = clerk.last_post()
    reply = clerk.app.ask("POST", REVIEW, first.params)
    again = clerk.last_post()
    assert again.params == first.params
    assert (first.location, again.location) == (
        f"/decisions/{made['id']}?created=1",
        f"/decisions/{made['id']}?again=1",
    )
    assert "submitted already" in observe(reply.page, {}).text
    assert clerk.made() == [made]


def test_a_second_approval_is_possible_and_is_a_second_row(clerk: Clerk) -> None:
    first = clerk.approve()
    clerk.to_review()
    assert "! This claim is approved already." in clerk.lines
    clerk.press("button:Approve claim")
    second = clerk.made()[1]
    assert second["form_key"] == first["form_key"][:-1] + "1"
    assert int(second["reference"][2:]) == int(first["reference"][2:]) + 1


def test_the_form_can_be_left_and_entered_again(clerk: Clerk) -> None:
    clerk.to_review()
    url, before = clerk.driver.url(), clerk.state
    clerk.press("link:Change the amount", f"link:{clerk.claim['number']}", "link:Home", "link:Decisions")
    assert clerk.state == before
    clerk.go(url)
    clerk.driver.back()
    clerk.go(url)
    clerk.press("button:Approve claim")
    assert [row["amount"] for row in clerk.made()] == [clerk.amount]


def test_another_claim_can_be_approved_by_mistake(clerk: Clerk) -> None:
    other = next(row for row in clerk.rows("claim", status="open") if row["id"] != clerk.claim["id"])
    made = clerk.approve("100.00", other["number"])
    assert made["claim_id"] == other["id"]
    assert clerk.row("claim", other["id"])["status"] == "approved"


# --- what can be done with a decision


def test_an_approval_can_be_amended(clerk: Clerk) -> None:
    made = clerk.approve("100.00")
    clerk.press("link:Amend")
    assert "100.00" not in clerk.text
    clerk.fill("New amount", "2,694.51")
    clerk.press("button:Amend decision")
    assert "! Amended." in clerk.text
    assert clerk.row("decision", made["id"]) == {**made, "amount": 269_451}
    for text, status in (("2694.51", 422), ("0", 422), ("x", 422)):
        clerk.press("link:Decisions", f"link:{made['reference']}", "link:Amend")
        clerk.fill("New amount", text)
        clerk.press("button:Amend decision")
        assert clerk.status == status
    assert clerk.row("decision", made["id"])["amount"] == 269_451
    last = [row for row in clerk.ledger.records() if isinstance(row, Write)][-1]
    assert last.columns == {"amount": (10_000, 269_451)}


def test_a_decision_can_be_withdrawn_and_the_claim_is_open_again(clerk: Clerk) -> None:
    made = clerk.approve()
    clerk.press("button:Withdraw decision")
    assert "! Withdrawn." in clerk.text
    assert clerk.row("decision", made["id"]) == {**made, "status": "withdrawn"}
    assert clerk.row("claim", clerk.claim["id"]) == clerk.claim
    assert not clerk.has("button", "Withdraw decision")
    for path in (f"/decisions/{made['id']}/withdraw", f"/decisions/{made['id']}/amend"):
        clerk.app.ask("POST", path, {"amount": "5"})
        assert clerk.last_post().location == "/refused?code=withdrawn"
    clerk.go(f"/decisions/{made['id']}/amend")
    assert clerk.status == 409
    again = clerk.approve()
    assert again["form_key"] == made["form_key"][:-1] + "1"


def test_a_claim_has_the_status_of_its_latest_decision_in_force(clerk: Clerk) -> None:
    def status() -> str:
        return str(clerk.row("claim", clerk.claim["id"])["status"])

    clerk.deny()
    assert status() == "denied"
    clerk.approve()
    assert status() == "approved"
    clerk.press("button:Withdraw decision")
    assert status() == "denied"
    denied = clerk.made()[0]
    clerk.go(f"/decisions/{denied['id']}")
    clerk.press("button:Withdraw decision")
    assert status() == "open"


def test_a_denial_can_be_amended(clerk: Clerk) -> None:
    made = clerk.deny("Documents missing")
    assert (made["outcome"], made["amount"], made["reason"]) == ("denied", 0, "Documents missing")
    assert "Amount: $0.00" in clerk.lines
    clerk.press("link:Amend", "button:Amend decision")
    assert clerk.status == 422
    clerk.go(f"/decisions/{made['id']}/amend")
    clerk.select("Reason", "Reported too late")
    clerk.press("button:Amend decision")
    assert clerk.row("decision", made["id"]) == {**made, "reason": "Reported too late"}


def test_a_denial_needs_a_reason_and_is_entered_once(clerk: Clerk) -> None:
    clerk.press("link:Claims", f"link:{clerk.claim['number']}", "link:Deny claim", "button:Deny claim")
    assert clerk.status == 422
    assert clerk.made() == []
    made = clerk.deny()
    first = clerk.last_post()
    clerk.app.ask("POST", "/deny/form", first.params)
    assert clerk.last_post().location == f"/decisions/{made['id']}?again=1"
    clerk.app.ask("POST", "/deny/form", {**first.params, "key": "x"})
    assert clerk.last_post().location == "/refused?code=bad_request"
    assert clerk.made() == [made]
