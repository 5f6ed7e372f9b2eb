"""Booking and amending in the clinic, through the in-process driver."""

from collections.abc import Iterator

import pytest
from clinic_desk import Clerk

from envos.envs.evidence import Write
from envos.envs.page import observe
from envos.envs.statements import Statements
from envos.envs.streams import SPLITS
from envos.envs.worlds.clinic import WORLD


@pytest.fixture
def clerk() -> Iterator[Clerk]:
    clerk = Clerk()
    yield clerk
    clerk.database.close()


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
        "final": 0,
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
    writes = {(row.op, row.table, row.key) for row in clerk.ledger.records() if isinstance(row, Write)}
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
    assert next(line for line in clerk.text.split("\n") if unread["subject"] in line).endswith("unread")
    clerk.press(f"link:{unread['subject']}")
    assert unread["body"] in clerk.text.split("\n")
    assert clerk.row("message", unread["id"])["read"] == 1
    assert WORLD.metadata.tables["message"].c.read.info["volatile"]
