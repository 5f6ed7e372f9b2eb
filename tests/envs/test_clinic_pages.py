"""The clinic's pages: what they show and to whom, and what can be done with them, through the in-process driver."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from envos.envs.app import Application, Reply
from envos.envs.database import Database
from envos.envs.drivers.inprocess import InProcess
from envos.envs.evidence import Ledger, Request, State
from envos.envs.page import ELEMENTS_LIMIT, TEXT_LIMIT, Radio, Select, View, observe
from envos.envs.perturbation import NEUTRAL_INSERT, NEUTRAL_UPDATE, OneShot, Plan
from envos.envs.roles import Draft
from envos.envs.streams import SPLITS
from envos.envs.worlds.clinic import WORLD

Record = dict[str, Any]


def neutral(found: Draft, review: str) -> Plan:
    """A plan that changes nothing and watches what every plan watches."""
    roles = found.roles
    assert roles.fact and roles.twin and roles.detail and roles.commit
    return Plan(
        world="clinic",
        phenomenon="none",
        condition="none",
        anchor="first",
        budget=48,
        untriggered="uncounted",
        opened=found.opened,
        task=found.task,
        arm=(roles.fact.table, roles.fact.key, roles.fact.column),
        arm_text=roles.fact.text,
        new_text=roles.fact.text,
        surfaces=roles.fact.surfaces,
        trigger=(),
        operations=(NEUTRAL_UPDATE, NEUTRAL_INSERT, NEUTRAL_INSERT),
        announced=False,
        review=review,
        review_route=roles.commit.review,
        commit_table=roles.commit.table,
        watched=tuple((role.table, role.key, role.column) for role in (roles.fact, roles.twin, roles.detail)),
    )


class Clerk:
    """Someone at the portal of one instance."""

    def __init__(self, seed: int = 1, split: str = "train", review: str = "nothing") -> None:
        self.found = WORLD.generate(seed, split)
        self.task = self.found.task
        self.database = Database(WORLD.metadata)
        self.database.load(self.found.rows, "canary")
        self.ledger = Ledger()
        self.app = Application(WORLD, self.database, self.ledger, OneShot(neutral(self.found, review)))
        self.driver = InProcess()
        self.driver.open(self.app)
        self.answer = WORLD.answer(self.state, self.task)

    @property
    def state(self) -> State:
        return self.database.state()

    @property
    def text(self) -> str:
        return self.driver.view().text

    @property
    def status(self) -> int:
        return self.driver.request().status

    def rows(self, table: str, **wanted: object) -> list[Record]:
        columns, rows = self.state[table]
        found = [dict(zip(columns, row, strict=True)) for row in rows.values()]
        return [row for row in found if all(row[name] == value for name, value in wanted.items())]

    def row(self, table: str, key: object) -> Record:
        return self.rows(table, id=key)[0]

    def index(self, role: str, label: str) -> str:
        found = [item for item in self.driver.view().elements if (item.role, item.label) == (role, label)]
        assert len(found) == 1, (role, label, self.text)
        return str(found[0].index)

    def has(self, role: str, label: str) -> bool:
        return any((item.role, item.label) == (role, label) for item in self.driver.view().elements)

    def press(self, *labels: str) -> None:
        """Click elements by role:label, one after the other."""
        for label in labels:
            role, _, name = label.partition(":")
            assert self.driver.click(self.index(role, name)) == ""

    def fill(self, label: str, text: str) -> None:
        assert self.driver.fill(self.index("textbox", label), text) == ""

    def select(self, label: str, option: str) -> None:
        assert self.driver.select(self.index("combobox", label), option) == ""

    def go(self, path: str) -> None:
        assert self.driver.goto(path) == ""

    def to_review(self, slot: int | None = None) -> None:
        """Through the form from the home page to the review of a slot (the right one)."""
        wanted = self.row("slot", slot or self.answer["slot_id"])
        reference = self.row("referral", self.task["referral"])["reference"]
        place = self.row("location", wanted["location_id"])["name"]
        self.press("link:Referrals", f"link:{reference}", "link:Book appointment", f"radio:{place}", "button:Continue")
        self.press(f"link:{wanted['start']}")

    def book(self) -> Record:
        before = {row["id"] for row in self.rows("appointment")}
        self.to_review()
        self.press("button:Confirm booking")
        (made,) = (row for row in self.rows("appointment") if row["id"] not in before)
        return made

    def last_post(self) -> Request:
        return next(
            item for item in reversed(self.ledger.records()) if isinstance(item, Request) and item.method == "POST"
        )


@pytest.fixture
def clerk() -> Iterator[Clerk]:
    clerk = Clerk()
    yield clerk
    clerk.database.close()


# --- booking


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("seed", range(8))
def test_a_booking_stores_what_the_review_shows(seed: int, split: str) -> None:
    clerk = Clerk(seed, split)
    numbers = [int(row["reference"][3:]) for row in clerk.rows("appointment")]
    clerk.to_review()
    slot = clerk.row("slot", clerk.answer["slot_id"])
    place = clerk.row("location", slot["location_id"])["name"]
    for line in (f"Place: {place}", f"Date: {slot['date']}", f"Time: {slot['start']}-{slot['end']}"):
        assert line in clerk.text.split("\n")
    clerk.press("button:Confirm booking")
    made = clerk.rows("appointment", referral_id=clerk.task["referral"])[0]
    wish = clerk.row("referral", clerk.task["referral"])
    assert made == {
        **clerk.answer,
        "id": max(row["id"] for row in clerk.rows("appointment")),
        "reference": f"AP-{max(numbers) + 1}",
        "purpose": wish["purpose"],
        "status": "booked",
        "referral_id": wish["id"],
        "form_key": f"{wish['id']}-{slot['id']}-0",
    }
    assert clerk.row("slot", slot["id"])["status"] == "booked"
    assert f"! Booked. Reference {made['reference']}." in clerk.text
    for line in (f"Place: {place}", f"Date: {slot['date']}", f"Time: {slot['start']}-{slot['end']}"):
        assert line in clerk.text.split("\n")
    assert WORLD.describe(clerk.state, made) == {
        "location": place,
        "start": f"{slot['date']} {slot['start']}",
        "reference": made["reference"],
    }
    clerk.press("link:Referrals", f"link:{wish['reference']}")
    clerk.fill("Appointment reference", f" {made['reference'].lower()} ")
    clerk.press("button:Mark as booked")
    assert "! The referral is marked as booked." in clerk.text
    assert clerk.row("referral", wish["id"]) == {
        **wish,
        "status": "booked",
        "appointment_reference": made["reference"],
    }
    writes = {(row.op, row.table, row.key) for row in clerk.ledger.records() if type(row).__name__ == "Write"}
    assert writes == {
        ("insert", "appointment", made["id"]),
        ("update", "slot", slot["id"]),
        ("update", "referral", wish["id"]),
    }


def test_a_form_that_is_sent_twice_books_once(clerk: Clerk) -> None:
    made = clerk.book()
    first = clerk.last_post()
    reply = clerk.app.ask("POST", "/new/review", first.params)
    again = clerk.last_post()
    assert again.params == first.params
    assert (first.location, again.location) == (
        f"/appointments/{made['id']}?created=1",
        f"/appointments/{made['id']}?again=1",
    )
    assert "submitted already" in observe(reply.page, {}).text
    assert len(clerk.rows("appointment", referral_id=clerk.task["referral"])) == 1


def test_going_back_after_the_booking_does_not_book_again(clerk: Clerk) -> None:
    clerk.book()
    for _ in range(3):
        clerk.driver.back()
        assert not clerk.has("button", "Confirm booking")
    clerk.go(f"/new/review?referral={clerk.task['referral']}&slot={clerk.answer['slot_id']}")
    assert "! This slot is not free." in clerk.text
    assert not clerk.has("button", "Confirm booking")
    assert len(clerk.rows("appointment", referral_id=clerk.task["referral"])) == 1


def test_a_second_booking_is_possible_and_is_a_second_row(clerk: Clerk) -> None:
    first = clerk.book()
    clerk.answer = WORLD.answer(clerk.state, clerk.task)
    second = clerk.book()
    assert second["slot_id"] != first["slot_id"]
    assert int(second["reference"][3:]) == int(first["reference"][3:]) + 1
    assert second["form_key"].endswith("-1")


def test_the_form_can_be_left_and_entered_again(clerk: Clerk) -> None:
    clerk.to_review()
    url = clerk.driver.url()
    before = clerk.state
    clerk.press("link:Choose another slot", "link:Choose another place", "link:Home", "link:Inbox")
    assert clerk.state == before
    clerk.go(url)
    clerk.press("button:Confirm booking")
    assert len(clerk.rows("appointment", referral_id=clerk.task["referral"])) == 1


def test_a_place_must_be_chosen(clerk: Clerk) -> None:
    clerk.go(f"/new/clinic?referral={clerk.task['referral']}")
    clerk.press("button:Continue")
    assert clerk.status == 400


def test_a_slot_that_is_taken_has_no_form(clerk: Clerk) -> None:
    taken = clerk.rows("slot", status="booked")[0]
    clerk.go(f"/new/slot?referral={clerk.task['referral']}&place={taken['location_id']}")
    assert not any(f"slot={taken['id']}" in item.target.split("&") for item in clerk.driver.view().elements)
    clerk.go(f"/new/review?referral={clerk.task['referral']}&slot={taken['id']}")
    assert "! This slot is not free." in clerk.text
    assert not clerk.has("button", "Confirm booking")


def test_a_slot_taken_after_the_review_is_booked_without_a_word(clerk: Clerk) -> None:
    clerk.to_review()
    other = next(row for row in clerk.rows("appointment") if row["status"] == "booked")
    slot = clerk.answer["slot_id"]
    clerk.database.raw.execute("UPDATE appointment SET slot_id = ? WHERE id = ?", (slot, other["id"]))
    clerk.database.raw.execute("UPDATE slot SET status = 'booked' WHERE id = ?", (slot,))
    clerk.press("button:Confirm booking")
    assert "! Booked." in clerk.text
    assert len(clerk.rows("appointment", slot_id=slot, status="booked")) == 2
    # The slot is free again only when both are gone.
    clerk.press("button:Cancel appointment")
    assert clerk.row("slot", slot)["status"] == "booked"
    clerk.go(f"/appointments/{other['id']}")
    clerk.press("button:Cancel appointment")
    assert clerk.row("slot", slot)["status"] == "free"


@pytest.mark.parametrize("key", ["", "x", "1-1-0", "0"])
def test_a_form_key_of_another_form_is_refused(clerk: Clerk, key: str) -> None:
    sent = {"referral": str(clerk.task["referral"]), "slot": str(clerk.answer["slot_id"]), "key": key}
    before = clerk.state
    assert clerk.app.ask("POST", "/new/review", sent).request.status == 400
    assert clerk.last_post().location == "/refused?code=bad_request"
    assert clerk.state == before


# --- what the review step discloses


@pytest.mark.parametrize(("review", "link", "value"), [("nothing", 0, 0), ("link", 1, 0), ("value", 1, 1)])
def test_the_review_discloses_what_the_condition_says(review: str, link: int, value: int) -> None:
    clerk = Clerk(review=review)
    session, fact = clerk.row("clinic_session", clerk.task["session"]), clerk.found.roles.fact
    assert fact
    clerk.to_review()
    view = clerk.driver.view()
    assert view.listing.count(f'] link "{WORLD.reminder}"') == link
    assert [mark.value.text for mark in view.marks] == [fact.text] * value
    assert [item.text for item in clerk.driver.request().served] == [fact.text] * value
    assert view.text.count("The session is held at") == value
    if link:
        # It is read from the row as it is now.
        place, name = fact.alternatives[0]
        clerk.database.raw.execute("UPDATE clinic_session SET location_id = ? WHERE id = ?", (place, session["id"]))
        clerk.go(clerk.driver.url())
        assert (f"! The session is held at {name}" in clerk.text.split("\n")) == bool(value)
        clerk.press(f"link:{WORLD.reminder}")
        assert clerk.driver.url() == f"/sessions/{session['id']}"
        assert f"Place: {name}" in clerk.text.split("\n")


def test_a_notice_is_worded_from_the_row_as_it_is_now(clerk: Clerk) -> None:
    from envos.envs.statements import Statements

    db, key = Statements(clerk.database.raw), int(str(clerk.task["session"]))
    row = clerk.row("clinic_session", key)
    for place in clerk.rows("location"):
        clerk.database.raw.execute(
            "UPDATE clinic_session SET location_id = ?, parking_id = ? WHERE id = ?", (place["id"], place["id"], key)
        )
        start = f"{row['title']}, {row['date']}: "
        assert WORLD.announce(db, "clinic_session", key, "location_id") == f"{start}the place is now {place['name']}."
        assert WORLD.announce(db, "clinic_session", key, "parking_id") == f"{start}parking is now at {place['name']}."
    for odd in (("clinic_session", 999, "location_id"), ("clinic_session", key, "title"), ("patient", 1, "phone")):
        assert WORLD.announce(db, *odd) == "A record has changed."


# --- amending


def test_rescheduling_frees_the_old_slot_and_takes_the_new_one(clerk: Clerk) -> None:
    made = clerk.book()
    old = clerk.row("slot", made["slot_id"])
    new = next(slot for slot in clerk.rows("slot", status="free") if slot["location_id"] != made["location_id"])
    clerk.press("link:Reschedule")
    clerk.select("Place", clerk.row("location", new["location_id"])["name"])
    clerk.press(
        "button:Show slots", f"radio:{new['date']} {new['start']}-{new['end']}", "button:Reschedule appointment"
    )
    assert f"! Rescheduled. Reference {made['reference']}." in clerk.text
    assert clerk.row("appointment", made["id"]) == {
        **made,
        **{name: new[name] for name in ("location_id", "date", "start", "end")},
        "slot_id": new["id"],
    }
    assert clerk.row("slot", old["id"]) == {**old, "status": "free"}
    assert clerk.row("slot", new["id"]) == {**new, "status": "booked"}
    assert old["status"] == "booked"
    # A slot that is not free is refused, its own included.
    before = clerk.state
    clerk.app.ask("POST", f"/appointments/{made['id']}/reschedule", {"slot": str(new["id"])})
    assert clerk.last_post().location == "/refused?code=slot_taken"
    assert clerk.state == before


def test_cancelling_frees_the_slot_once(clerk: Clerk) -> None:
    made = clerk.book()
    clerk.press("button:Cancel appointment")
    assert f"! Cancelled. Reference {made['reference']}." in clerk.text
    assert clerk.row("appointment", made["id"]) == {**made, "status": "cancelled"}
    assert clerk.row("slot", made["slot_id"])["status"] == "free"
    assert not clerk.has("button", "Cancel appointment")
    assert not clerk.has("link", "Reschedule")
    before = clerk.state
    for action in ("cancel", "reschedule"):
        reply = clerk.app.ask("POST", f"/appointments/{made['id']}/{action}", {"slot": "1"})
        assert reply.request.status == 409
    assert clerk.app.ask("GET", f"/appointments/{made['id']}/reschedule").request.status == 409
    assert clerk.state == before


def test_a_referral_is_marked_with_an_appointment_that_exists(clerk: Clerk) -> None:
    clerk.go(f"/referrals/{clerk.task['referral']}")
    before = clerk.state
    for text in ("", "AP-1", "nothing"):
        clerk.go(f"/referrals/{clerk.task['referral']}")
        clerk.fill("Appointment reference", text)
        clerk.press("button:Mark as booked")
        assert clerk.status == 422
    assert clerk.state == before
    clerk.go(f"/referrals/{clerk.task['referral']}")
    clerk.press("button:Mark as declined")
    assert clerk.row("referral", clerk.task["referral"])["status"] == "declined"
    assert "Status: declined" in clerk.text.split("\n")


def test_a_session_can_be_moved_and_its_history_says_so(clerk: Clerk) -> None:
    key = clerk.task["session"]
    before = clerk.row("clinic_session", key)
    place = next(row for row in clerk.rows("location") if row["id"] != before["location_id"])
    clerk.press("link:Sessions", f"link:{before['title']}", "link:Edit session")
    clerk.press("button:Save session")
    assert clerk.status == 422
    clerk.go(f"/sessions/{key}/edit")
    clerk.select("New place", place["name"])
    clerk.press("button:Save session")
    assert clerk.row("clinic_session", key) == {**before, "location_id": place["id"]}
    assert f"Place: {place['name']}" in clerk.text.split("\n")
    (change,) = clerk.rows("history", record_id=key, field="location_id")
    old = clerk.row("location", before["location_id"])["name"]
    assert (change["old"], change["new"], change["by"]) == (old, place["name"], "Front desk")
    assert f"{clerk.app.now()} | Place | {old} | {place['name']} | Front desk" in clerk.text.split("\n")


def test_a_phone_number_can_be_changed(clerk: Clerk) -> None:
    clerk.go("/patients/1")
    clerk.fill("New phone", "555-0001 ext. 2")
    clerk.press("button:Save phone")
    assert "Phone: 555-0001 ext. 2" in clerk.text.split("\n")
    for text in ("", "none", "5" * 31):
        clerk.app.ask("POST", "/patients/1/phone", {"phone": text})
        assert clerk.last_post().location == "/refused?code=bad_phone"
    assert clerk.row("patient", 1)["phone"] == "555-0001 ext. 2"


def test_reading_a_message_marks_it_read(clerk: Clerk) -> None:
    unread = clerk.rows("message", read=0)[0]
    clerk.press("link:Inbox")
    assert [line for line in clerk.text.split("\n") if unread["subject"] in line][0].endswith("unread")
    clerk.press(f"link:{unread['subject']}")
    assert unread["body"] in clerk.text.split("\n")
    assert clerk.row("message", unread["id"])["read"] == 1
    assert WORLD.metadata.tables["message"].c.read.info["volatile"]


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


# --- every page, and no other


def crawl(app: Application) -> dict[str, View]:
    """Every page that links and GET forms lead to, by address."""
    seen: dict[str, View] = {}
    routes: dict[str, str] = {}
    waiting = ["/"]
    while waiting:
        url = waiting.pop()
        if url in seen:
            continue
        reply: Reply = app.ask("GET", url)
        assert reply.request.status == 200, url
        routes[url] = reply.request.route
        view = seen[url] = observe(reply.page, {})
        waiting += [item.target for item in view.elements if item.role == "link"]
        for form in view.forms:
            fixed = [(item.name, item.value) for item in form.fields if not isinstance(item, Radio | Select)]
            for item in form.fields:
                if form.method == "get" and isinstance(item, Radio | Select):
                    sent = [*fixed, *((item.name, value) for value, _ in item.options[:1])]
                    for value, _ in item.options:
                        sent[-1] = (item.name, value)
                        waiting.append(f"{form.action}?{'&'.join(f'{name}={text}' for name, text in sent)}")
    return seen


def route(url: str) -> str:
    return WORLD.routes.resolve(url.partition("?")[0])[0]


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


GARBAGE = (
    "",
    " ",
    "abc",
    "-1",
    "0",
    "1.5",
    "1e3",
    "999999999",
    "9" * 40,
    "' OR 1=1 --",
    "\x00",
    "\u0661",
    "\U0001f600",
    "%",
)
NAMES = (
    "referral",
    "slot",
    "place",
    "key",
    "q",
    "date",
    "patient",
    "provider",
    "parking",
    "reference",
    "phone",
    "back",
)


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
    assert re.search("Not possible", observe(reply.page, {}).text)
    assert clerk.state == before


def test_every_refusal_has_a_page(clerk: Clerk) -> None:
    for code, (status, text) in WORLD.refusals.items():
        reply = clerk.app.ask("GET", f"/refused?code={code}")
        assert reply.request.status == status
        assert text in observe(reply.page, {}).text
