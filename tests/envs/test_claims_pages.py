"""The claims portal's pages: where a fact shows, policy records, and no request that ends in an exception."""

from collections.abc import Iterator

import pytest
from claims_desk import Clerk, crawl, record, roles, route

from envos.envs.page import ELEMENTS_LIMIT, TEXT_LIMIT, observe
from envos.envs.streams import SPLITS
from envos.envs.worlds.claims import WORLD
from envos.envs.worlds.claims_rules import money

GARBAGE = ("", " ", "abc", "-1", "0", "1.5", "1e3", "9" * 9, "9" * 40, "' OR 1=1 --", "\x00", "\u0661", "\U0001f600")
NAMES = ("claim", "amount", "key", "reason", "status", "product", "outcome", "limit", "broker", "back")
SURFACES = {"/policies", "/policies/{id}"}
REVIEW = "/approve/review"


@pytest.fixture
def clerk() -> Iterator[Clerk]:
    clerk = Clerk()
    yield clerk
    clerk.database.close()


# --- finding


def listed(clerk: Clerk, kind: str) -> set[int]:
    """The ids of the records of a kind that the page links to."""
    links = (item.target.split("/") for item in clerk.driver.view().elements if item.role == "link")
    return {int(parts[2]) for parts in links if parts[1] == kind and len(parts) == 3}


def test_lists_can_be_filtered(clerk: Clerk) -> None:
    product = clerk.policy["product"]
    sold = {row["id"] for row in clerk.rows("policy", product=product)}
    clerk.press("link:Policies")
    assert listed(clerk, "policies") == {row["id"] for row in clerk.rows("policy")}
    clerk.select("Product", product)
    clerk.press("button:Filter")
    assert listed(clerk, "policies") == sold

    clerk.press("link:Claims")
    clerk.select("Status", "open")
    clerk.press("button:Filter")
    opened = {row["id"] for row in clerk.rows("claim", status="open")}
    assert listed(clerk, "claims") == opened
    clerk.select("Product", product)
    clerk.press("button:Filter")
    assert listed(clerk, "claims") == {
        row["id"] for row in clerk.rows("claim", status="open") if row["policy_id"] in sold
    }

    clerk.press("link:Decisions")
    for outcome in ("approved", "denied"):
        clerk.select("Outcome", outcome)
        clerk.press("button:Filter")
        assert listed(clerk, "decisions") == {row["id"] for row in clerk.rows("decision", outcome=outcome)}
    clerk.go("/claims?status=nothing")
    assert "No claim fits." in clerk.text
    clerk.go("/policies?product=nothing")
    assert "No policy fits." in clerk.text
    clerk.go("/decisions?outcome=nothing")
    assert "No decision fits." in clerk.text


def test_a_claim_shows_what_there_is_to_know_but_the_limit(clerk: Clerk) -> None:
    clerk.press("link:Claims", f"link:{clerk.claim['number']}")
    person = clerk.row("person", clerk.claim["person_id"])
    for line in (
        f"Claimant: {person['name']} ({person['number']})",
        f"Cause: {clerk.claim['cause']}",
        f"Claimed amount: {money(clerk.claim['claimed'])}",
        f"Deductible: {money(clerk.claim['deductible'])}",
        "Status: open",
        *(f"{row['text']} | {money(row['amount'])}" for row in clerk.rows("claim_line", claim_id=clerk.claim["id"])),
        *(f"{row['title']} | {row['received']}" for row in clerk.rows("document", claim_id=clerk.claim["id"])),
        "No decisions.",
    ):
        assert line in clerk.lines
    assert money(clerk.policy["reimbursement_limit"]) not in clerk.text
    clerk.press(f"link:{clerk.policy['number']}")
    assert f"Reimbursement limit: {money(clerk.policy['reimbursement_limit'])}" in clerk.lines
    for row in clerk.rows("endorsement", policy_id=clerk.policy["id"]):
        assert f"{row['title']} | {money(row['amount'])} | {row['since']}" in clerk.lines


@pytest.mark.parametrize(
    ("role", "review", "routes"),
    [
        (0, "nothing", SURFACES),
        (0, "link", SURFACES),
        (0, "value", SURFACES | {REVIEW}),
        (1, "nothing", SURFACES),
        (1, "value", SURFACES | {REVIEW}),
        (2, "value", {"/policies/{id}"}),
    ],
)
@pytest.mark.parametrize("split", SPLITS)
def test_a_fact_shows_on_its_surfaces_and_nowhere_else(split: str, role: int, review: str, routes: set[str]) -> None:
    """A change of fact, twin or detail changes the pages of its surfaces; the review step shows its own policy's."""
    clerk = Clerk(5, split, review)
    crawl(clerk)  # reads the mail
    before = crawl(clerk)
    fact = roles(clerk.found)[role]
    clerk.database.raw.execute(
        f"UPDATE {fact.table} SET {fact.column} = ? WHERE id = ?",  # noqa: S608
        (fact.alternatives[0][0], fact.key),
    )
    after = crawl(clerk)
    assert set(before) == set(after)
    assert {route(url) for url in before if before[url].text != after[url].text} == routes
    assert set(fact.surfaces) == routes - {REVIEW}
    for url, view in before.items():
        assert bool(view.marks) <= (route(url) in SURFACES | {REVIEW})
        assert all(view.text[mark.offset :].startswith(mark.value.text) for mark in view.marks)


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("seed", range(4))
def test_no_other_page_has_the_text_of_a_limit(seed: int, split: str) -> None:
    clerk = Clerk(seed, split)
    watched = roles(clerk.found)
    for url, view in crawl(clerk).items():
        for fact in watched:
            assert (fact.text in view.text) <= (route(url) in fact.surfaces), url
            assert not any(text in view.text for _, text in fact.alternatives), url


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("seed", range(3))
def test_every_page_fits_and_its_links_are_told_apart(seed: int, split: str) -> None:
    clerk = Clerk(seed, split, "value")
    pages = crawl(clerk)
    assert {route(url) for url in pages} == {
        pattern for method, pattern in WORLD.routes.handlers if method == "GET"
    } - {"/refused"}
    for url, view in pages.items():
        assert len(view.text) < TEXT_LIMIT, url
        assert len(view.listing) < ELEMENTS_LIMIT, url
        assert "canary" not in view.text
        labels = [item.label for item in view.elements if item.role == "link"]
        assert len(set(labels)) == len(labels), url
        for line in view.text.split("\n"):
            assert line == " ".join(line.split()) or line.endswith(" "), (url, line)
        assert "None" not in view.text, url


# --- policy records


def test_a_policy_record_can_be_edited_and_says_so(clerk: Clerk) -> None:
    policy = clerk.policy
    clerk.go(f"/policies/{policy['id']}")
    clerk.press("link:Edit policy")
    assert money(policy["reimbursement_limit"]) not in clerk.text
    clerk.fill("New reimbursement limit", "9,999.99")
    clerk.press("button:Save policy")
    assert "! The policy record has been changed." in clerk.lines
    assert "Reimbursement limit: $9,999.99" in clerk.lines
    assert clerk.row("policy", policy["id"]) == {**policy, "reimbursement_limit": 999_999}
    note = clerk.rows("history")[-1]
    assert {**note, "id": 0, "at": ""} == {
        "id": 0,
        "record": "policy",
        "record_id": policy["id"],
        "field": "reimbursement_limit",
        "old": money(policy["reimbursement_limit"]),
        "new": "$9,999.99",
        "at": "",
        "by": "Claims desk",
    }
    assert f"{note['at']} | Reimbursement limit | {note['old']} | $9,999.99 | Claims desk" in clerk.lines

    broker = next(row["broker"] for row in clerk.rows("policy") if row["broker"] != policy["broker"])
    clerk.press("link:Edit policy")
    clerk.select("New broker", broker)
    clerk.press("button:Save policy")
    assert clerk.row("policy", policy["id"]) == {**policy, "reimbursement_limit": 999_999, "broker": broker}
    assert clerk.rows("history")[-1]["field"] == "broker"


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        ({}, "no_change"),
        ({"limit": "", "broker": ""}, "no_change"),
        ({"limit": "0"}, "bad_amount"),
        ({"limit": "much"}, "bad_amount"),
        ({"broker": "Nobody"}, "bad_request"),
    ],
)
def test_an_edit_that_says_nothing_is_refused(clerk: Clerk, sent: dict[str, str], code: str) -> None:
    before = clerk.state
    clerk.app.ask("POST", f"/policies/{clerk.policy['id']}/edit", sent)
    assert clerk.last_post().location == f"/refused?code={code}"
    clerk.app.ask(
        "POST", f"/policies/{clerk.policy['id']}/edit", {"limit": f"{clerk.policy['reimbursement_limit'] // 100}"}
    )
    assert clerk.last_post().location == "/refused?code=no_change"
    assert clerk.state == before


def test_notices_are_worded_from_the_row_as_it_is(clerk: Clerk) -> None:
    db = clerk.app._statements
    fact, _, detail = roles(clerk.found)
    number, product = clerk.policy["number"], clerk.policy["product"]
    title = record(clerk.found, "endorsement", detail.key)["title"]

    def said(table: str, key: int, column: str) -> str:
        return WORLD.announce(db, table, key, column)

    assert said("policy", fact.key, "reimbursement_limit") == (
        f"Policy {number} ({product}): the reimbursement limit is now {fact.text}."
    )
    assert said("endorsement", detail.key, "amount") == (
        f"Policy {number} ({product}), endorsement {title}: the limit is now {detail.text}."
    )
    clerk.database.raw.execute("UPDATE policy SET reimbursement_limit = 5 WHERE id = ?", (fact.key,))
    assert "is now $0.05." in said("policy", fact.key, "reimbursement_limit")
    for odd in (("policy", 999, "reimbursement_limit"), ("policy", fact.key, "broker"), ("claim", 1, "amount")):
        assert said(*odd) == "A record has changed."


# --- whatever is asked


@pytest.mark.parametrize("pair", sorted(WORLD.routes.handlers), ids=lambda pair: " ".join(pair))
def test_no_request_raises(pair: tuple[str, str]) -> None:
    method, pattern = pair
    clerk = Clerk(2)
    image = clerk.database.image()
    for key in ("1", "0", "999999999"):
        path = pattern.replace("{id}", key)
        for text in GARBAGE:
            for sent in ({}, dict.fromkeys(NAMES, text), {**dict.fromkeys(NAMES, "1"), "amount": text, "limit": text}):
                clerk.database.restore(image)
                query = "&".join(f"{name}={value}" for name, value in sent.items())
                reply = (
                    clerk.app.ask("POST", path, sent) if method == "POST" else clerk.app.ask("GET", f"{path}?{query}")
                )
                assert reply.request.status in (200, 400, 404, 405, 409, 422)
                assert observe(reply.page, {}).text
                if key != "1" and "{id}" in pattern:
                    assert reply.request.status == 404
                    assert clerk.database.drain() == []


@pytest.mark.parametrize(
    ("url", "status"),
    [
        ("/nowhere", 404),
        ("/claims/x", 404),
        ("/claims/999", 404),
        ("/policies/1/edit/2", 404),
        ("/policies/999/edit", 404),
        ("/decisions/999/amend", 404),
        ("/approve", 404),
        ("/canary", 404),
        ("/perturbation_guard", 404),
        ("/approve/form", 400),
        ("/approve/form?claim=999", 400),
        ("/approve/review?claim=1", 422),
        ("/approve/review?claim=999&amount=5", 400),
        ("/deny/form?claim=", 400),
        ("/decisions/1/withdraw", 405),
        ("/notices/1/acknowledge", 405),
    ],
)
def test_other_addresses_are_refused(clerk: Clerk, url: str, status: int) -> None:
    before = clerk.state
    reply = clerk.app.ask("GET", url)
    assert reply.request.status == status
    assert "Not possible" in observe(reply.page, {}).text
    assert clerk.state == before


def test_every_refusal_has_a_page(clerk: Clerk) -> None:
    for code, (status, text) in WORLD.refusals.items():
        reply = clerk.app.ask("GET", f"/refused?code={code}")
        assert reply.request.status == status
        assert text in observe(reply.page, {}).text
