"""The clinic's pages: where a fact shows, how records are found, and that no request is answered by an exception."""

from collections.abc import Iterator

import pytest
from clinic_desk import Clerk, crawl, route

from envos.envs.page import ELEMENTS_LIMIT, TEXT_LIMIT, observe
from envos.envs.roles import Draft
from envos.envs.streams import SPLITS
from envos.envs.worlds.clinic import WORLD

GARBAGE = ("", " ", "abc", "-1", "0", "1.5", "1e3", "9" * 9, "9" * 40, "' OR 1=1 --", "\x00", "\u0661", "\U0001f600")
NAMES = (
    *("referral", "slot", "place", "key", "q", "date"),
    *("patient", "provider", "parking", "reference", "phone", "back"),
)


@pytest.fixture
def clerk() -> Iterator[Clerk]:
    clerk = Clerk()
    yield clerk
    clerk.database.close()


# --- finding


def test_lists_can_be_searched_and_filtered(clerk: Clerk) -> None:
    person = clerk.row("patient", clerk.task["patient"])
    clerk.press("link:Patients")
    clerk.fill("Name or number", person["number"].lower())
    clerk.press("button:Search")
    assert clerk.has("link", person["name"])
    assert sum(item.target.startswith("/patients/") for item in clerk.driver.view().elements) == 1
    clerk.fill("Name or number", "%")
    clerk.press("button:Search")
    assert "No patient fits." in clerk.text

    session = clerk.row("clinic_session", clerk.task["session"])
    place = clerk.row("location", session["location_id"])["name"]
    clerk.press("link:Sessions")
    clerk.select("Place", place)
    clerk.press("button:Filter")
    shown = {int(item.target.split("/")[2]) for item in clerk.driver.view().elements if "/sessions/" in item.target}
    assert shown == {row["id"] for row in clerk.rows("clinic_session", location_id=session["location_id"])}
    by = clerk.row("provider", session["provider_id"])["name"]
    clerk.select("Place", "Any")
    clerk.select("Provider", by)
    clerk.press("button:Filter")
    shown = {int(item.target.split("/")[2]) for item in clerk.driver.view().elements if "/sessions/" in item.target}
    assert shown == {row["id"] for row in clerk.rows("clinic_session", provider_id=session["provider_id"])}

    clerk.press("link:Appointments")
    clerk.select("Date", session["date"])
    clerk.select("Patient", person["name"])
    clerk.press("button:Filter")
    shown = {int(item.target.split("/")[2]) for item in clerk.driver.view().elements if "/appointments/" in item.target}
    assert shown == {row["id"] for row in clerk.rows("appointment", patient_id=person["id"], date=session["date"])}


def other(found: Draft, role: str) -> tuple[str, int]:
    """A column of the target session and another value for it."""
    fact = getattr(found.roles, role)
    return fact.column, fact.alternatives[0][0]


@pytest.mark.parametrize(
    ("role", "review", "surfaces"),
    [
        ("fact", "nothing", {"/sessions", "/sessions/{id}"}),
        ("fact", "link", {"/sessions", "/sessions/{id}"}),
        ("fact", "value", {"/sessions", "/sessions/{id}", "/new/review"}),
        ("detail", "value", {"/sessions/{id}"}),
    ],
)
@pytest.mark.parametrize("split", SPLITS)
def test_a_fact_shows_on_its_surfaces_and_nowhere_else(split: str, role: str, review: str, surfaces: set[str]) -> None:
    clerk = Clerk(5, split, review)
    crawl(clerk.app)  # reads the mail
    before = crawl(clerk.app)
    column, value = other(clerk.found, role)
    key = clerk.task["session"]
    clerk.database.raw.execute(f"UPDATE clinic_session SET {column} = ? WHERE id = ?", (value, key))  # noqa: S608
    after = crawl(clerk.app)
    assert set(before) == set(after)
    assert {route(url) for url in before if before[url].text != after[url].text} == surfaces
    for url, view in before.items():
        assert bool(view.marks) <= (route(url) in {"/sessions", "/sessions/{id}", "/new/review"})
        assert all(view.text[mark.offset :].startswith(mark.value.text) for mark in view.marks)
    declared = getattr(clerk.found.roles, role).surfaces
    assert surfaces - {"/new/review"} == set(declared)


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("seed", range(3))
def test_every_page_fits_and_its_links_are_told_apart(seed: int, split: str) -> None:
    clerk = Clerk(seed, split, "value")
    pages = crawl(clerk.app)
    assert {route(url) for url in pages} == {
        pattern for method, pattern in WORLD.routes.handlers if method == "GET"
    } - {"/refused"}
    for url, view in pages.items():
        assert len(view.text) < TEXT_LIMIT, url
        assert len(view.listing) < ELEMENTS_LIMIT, url
        assert "canary" not in view.text
        labels = [(item.label, item.target) for item in view.elements if item.role == "link"]
        assert len({label for label, _ in labels}) == len(labels), url
        for line in view.text.split("\n"):
            assert line == " ".join(line.split()) or line.endswith(" "), (url, line)
        assert view.text.count("None") == 0, url


@pytest.mark.parametrize("pair", sorted(WORLD.routes.handlers), ids=lambda pair: " ".join(pair))
def test_no_request_raises(pair: tuple[str, str]) -> None:
    method, pattern = pair
    clerk = Clerk(2)
    image = clerk.database.image()
    for key in ("1", "0", "999999999"):
        path = pattern.replace("{id}", key)
        for text in GARBAGE:
            for sent in ({}, dict.fromkeys(NAMES, text), {**dict.fromkeys(NAMES, "1"), "slot": text}):
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
        ("/sessions/x", 404),
        ("/sessions/1/edit/2", 404),
        ("/sessions/1/", 404),
        ("/sessions/999", 404),
        ("//", 404),
        ("/new", 404),
        ("/canary", 404),
        ("/perturbation_guard", 404),
        ("/new/review", 400),
        ("/new/clinic?referral=999", 400),
        ("/new/slot?referral=1&place=999", 400),
        ("/new/review?referral=1&slot=999", 400),
        ("/appointments/1/cancel", 405),
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
