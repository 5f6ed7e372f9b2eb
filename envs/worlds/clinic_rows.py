"""The clinic's seeded rows: a pure function of (seed, split).

A slot lasts 30 minutes, and each place begins its slots at its own minute, so that no time at one place is a time at
another. Every place has at least two compatible slots on the target session's date, by construction: of eight, the
patient's two other appointments overlap at most two each, and other patients hold at most two.
"""

from datetime import date, timedelta
from typing import NamedTuple

from envos.envs.names import like_name, pool
from envos.envs.roles import Draft, Fact, Later, Roles, Row
from envos.envs.streams import Stream
from envos.envs.worlds import clinic_words
from envos.envs.worlds.clinic_choices import coercion, resource
from envos.envs.worlds.clinic_diary import CLOCK, LENGTH, Diary, diary, slots
from envos.envs.worlds.clinic_rules import commit, continuation

CALENDAR = tuple((date(2025, 11, 3) + timedelta(day)).isoformat() for day in range(790))
"""Dates by their number; number 0 is a Monday, and sessions are held from 2026-01-12 on."""
_FIRST, _DAYS = 70, 690
_BIRTHDAYS = tuple(day[5:] for day in CALENDAR[59 : 59 + 365])
_ROLES = ("Practice nurse", "General practitioner", "Health visitor", "Physiotherapist", "Pharmacist")
_GROUPS = (("group A", "group B"), ("group 1", "group 2"), ("first group", "second group"))


class Days(NamedTuple):
    """The dates of an instance, weekdays by number in CALENDAR; the target session is held on `held`."""

    today: int
    before: int
    held: int
    after: int


class Session(NamedTuple):
    """A row of `clinic_session`."""

    id: int
    title: str
    provider_id: int
    date: str
    start: str
    end: str
    location_id: int
    parking_id: int


class People(NamedTuple):
    """Rows of staff and patients, and who of the patients is the target and who has a name like it (ids)."""

    providers: tuple[tuple[int, str, str], ...]
    patients: tuple[tuple[int, str, str, str, str], ...]
    target: int
    like: int


class Wish(NamedTuple):
    """A referral in the making; `booking` is its appointment's number, 0 where there is none."""

    patient: int
    session: int
    status: str
    booking: int
    purpose: str


def generate(seed: int, split: str) -> Draft:
    """The instance of a seed: rows, target keys, brief, opening time and roles."""
    schedule, bookings = Stream(seed, split, "schedule"), Stream(seed, split, "bookings")
    words = Stream(seed, split, "words")
    people = _people(Stream(seed, split, "people"), split)
    places = _places(schedule, split)
    days = _days(schedule)
    sessions, target, twin = _sessions(schedule, split, len(places), len(people.providers), days)
    held = sessions[target - 1]
    dates = (CALENDAR[days.before], CALENDAR[days.held], CALENDAR[days.after])
    book = diary(bookings, held.start, dates, len(places), len(people.patients), people.target, people.like)
    wishes = _wishes(bookings, split, book, people, (target, twin), len(sessions))
    first, number = 1000 + bookings.below(8000), 1000 + bookings.below(8000)
    referral = next(key for key, wish in enumerate(wishes, 1) if wish.patient == people.target)
    task = {"patient": people.target, "session": target, "referral": referral}
    who = people.patients[people.target - 1]
    case = clinic_words.Case(who[1], who[3], held.title, held.date, f"R-{first + referral}")
    rows: dict[str, tuple[Row, ...]] = {
        "location": places,
        "provider": people.providers,
        "patient": people.patients,
        "clinic_session": sessions,
        "slot": slots(book),
        "referral": _referrals(bookings, wishes, first, number, days),
        "appointment": _appointments(bookings, split, book, wishes, number),
        "message": _messages(words, case, people, days),
        "history": _changes(words, people, sessions, days),
        "notice": (),
        "carried": (),
    }
    names = {row[0]: row[1] for row in places}
    return Draft(
        rows,
        task,
        clinic_words.brief(words, case),
        f"{CALENDAR[days.today]} 08:00",
        _roles(schedule, names, held, sessions[twin - 1], task, rows),
    )


def _weekday(day: int, step: int) -> int:
    """The day, or the next weekday in that direction."""
    while day % 7 > 4:
        day += step
    return day


def _days(stream: Stream) -> Days:
    held = _weekday(_FIRST + stream.below(_DAYS), 1)
    before = _weekday(held - 1 - stream.below(2), -1)
    after = _weekday(held + 1 + stream.below(2), 1)
    return Days(_weekday(before - 1 - stream.below(4), -1), before, held, after)


def _phones(stream: Stream, count: int) -> list[str]:
    """Different phone numbers, of one draw."""
    first = stream.below(9000)
    return [f"555-{1000 + (first + 2477 * step) % 9000}" for step in range(count)]


def _places(stream: Stream, split: str) -> tuple[tuple[int, str, str, str], ...]:
    count = 5 + stream.below(2)
    names, streets = stream.sample(pool("place", split), count), stream.sample(pool("street", split), count)
    lines = zip(names, streets, _phones(stream, count), strict=True)
    return tuple(
        (number, name, f"{1 + stream.below(180)} {street}", phone)
        for number, (name, street, phone) in enumerate(lines, 1)
    )


def _people(stream: Stream, split: str) -> People:
    staff, count = 6 + stream.below(3), 13 + stream.below(4)
    given = stream.sample(pool("given", split), staff + count - 1)
    family = stream.sample(pool("family", split), staff + count - 1)
    names = [f"{first} {last}" for first, last in zip(given, family, strict=True)]
    providers = tuple(
        (number, name, "Coordinator" if number == 1 else stream.pick(_ROLES))
        for number, name in enumerate(names[:staff], 1)
    )
    like = " ".join(like_name(stream, given[staff], family[staff], split))
    order = stream.shuffle((names[staff], like, *names[staff + 1 :]))
    last = 2000 + stream.below(400)
    draw = stream.random
    patients = []
    for number, (name, phone) in enumerate(zip(order, _phones(stream, count), strict=True), 1):
        last += 1 + int(draw() * 400)
        years, day = divmod(int(draw() * 84 * 365), 365)
        born = f"{1941 + years}-{_BIRTHDAYS[day]}"
        patients.append((number, name, born, f"P-{last}", phone))
    return People(providers, tuple(patients), order.index(names[staff]) + 1, order.index(like) + 1)


def _sessions(
    stream: Stream, split: str, places: int, providers: int, days: Days
) -> tuple[tuple[Session, ...], int, int]:
    """Sessions, and the ids of the target and of its twin, the one with the like title."""
    count = 5 + stream.below(3)
    titles = stream.sample(pool("session", split), count - 1)
    groups = stream.shuffle(stream.pick(_GROUPS))
    named = [f"{titles[0]}, {groups[0]}", f"{titles[0]}, {groups[1]}", *titles[1:]]
    order = stream.shuffle(range(count))
    home = stream.below(places)
    draw = stream.random
    rows = []
    for number, which in enumerate(order, 1):
        # The twin is held elsewhere; parking is not always where the session is.
        place = home if which == 0 else int(draw() * places)
        if which == 1 and place == home:
            place = (place + 1 + int(draw() * (places - 1))) % places
        parking = place if draw() < 0.5 else int(draw() * places)
        day = days.held if which == 0 else days[1 + int(draw() * 3)]
        start = 600 + 15 * int(draw() * 19)
        end = CLOCK[start + 120 + 30 * int(draw() * 3)]
        by = 2 + int(draw() * (providers - 1))
        rows.append(Session(number, named[which], by, CALENDAR[day], CLOCK[start], end, place + 1, parking + 1))
    return tuple(rows), order.index(0) + 1, order.index(1) + 1


def _wishes(
    stream: Stream, split: str, book: Diary, people: People, wanted: tuple[int, int], sessions: int
) -> list[Wish]:
    """The target referral, one of the patient with the like name for the twin session, and others."""
    purposes = pool("purpose", split)
    first, second = (stream.pick(purposes) for _ in wanted)
    wishes = [Wish(people.target, wanted[0], "open", 0, first), Wish(people.like, wanted[1], "open", 0, second)]
    seen = {people.target, people.like}
    count = 5 + stream.below(3)
    for number, booking in enumerate(book.bookings, 1):
        if booking.patient in seen or len(wishes) == count:
            continue
        seen.add(booking.patient)
        if booking.live and len(wishes) < 4:
            status = "booked"
        else:
            status, number = ("declined" if stream.chance(0.3) else "open"), 0
        session = 1 + stream.below(sessions)
        wishes.append(Wish(booking.patient, session, status, number, stream.pick(purposes)))
    return stream.shuffle(wishes)


def _referrals(stream: Stream, wishes: list[Wish], first: int, number: int, days: Days) -> tuple[Row, ...]:
    return tuple(
        (
            key,
            f"R-{first + key}",
            wish.patient,
            wish.session,
            wish.purpose,
            CALENDAR[days.today - 2 - stream.below(20)],
            wish.status,
            f"AP-{number + wish.booking}" if wish.booking else None,
        )
        for key, wish in enumerate(wishes, 1)
    )


def _appointments(stream: Stream, split: str, book: Diary, wishes: list[Wish], number: int) -> tuple[Row, ...]:
    purposes, draw = pool("purpose", split), stream.random
    by = {wish.booking: (key, wish.purpose) for key, wish in enumerate(wishes, 1)}
    rows = []
    for key, (patient, slot, live) in enumerate(book.bookings, 1):
        place, day, begins = book.grid[slot - 1]
        referral, purpose = by.get(key) or (None, purposes[int(draw() * len(purposes))])
        start, end = CLOCK[begins], CLOCK[begins + LENGTH]
        status = "booked" if live else "cancelled"
        rows.append(
            (key, f"AP-{number + key}", patient, place, slot, day, start, end, purpose, status, referral, "", 0)
        )
    return tuple(rows)


def _messages(stream: Stream, case: clinic_words.Case, people: People, days: Days) -> tuple[Row, ...]:
    """Mail of the days before; the coordinator's request is among it, unread."""
    mail = clinic_words.other(stream, 4 + stream.below(4))
    place, count, draw = stream.below(len(mail) + 1), len(mail) + 1, stream.random
    rows: list[Row] = []
    for number in range(count):
        at = CALENDAR[days.today - (count - number + 2) // 3]
        at = f"{at} {CLOCK[480 + 500 * number // count + int(draw() * 60)]}"
        if number == place:
            subject, body = clinic_words.request(stream, case)
            rows.append((number + 1, people.providers[0][1], subject, body, at, 0))
        else:
            subject, body = mail.pop()
            sender = stream.pick(people.providers)[1]
            rows.append((number + 1, sender, subject, body, at, int(draw() < 0.6)))
    return tuple(rows)


def _changes(stream: Stream, people: People, sessions: tuple[Session, ...], days: Days) -> tuple[Row, ...]:
    """What changed before the episode: the provider of two or three sessions."""
    rows: list[Row] = []
    for number, row in enumerate(stream.sample(sessions, 2 + stream.below(2)), 1):
        old = stream.pick(people.providers)[1]
        new = people.providers[row.provider_id - 1][1]
        if old == new:
            old = people.providers[0][1]
        at = f"{CALENDAR[days.today - 12 + 2 * number]} {CLOCK[540 + stream.below(400)]}"
        rows.append((number, "clinic_session", row.id, "provider_id", old, new, at, "Administration"))
    return tuple(rows)


def _roles(
    stream: Stream,
    names: dict[int, str],
    held: Session,
    twin: Session,
    task: dict[str, int],
    rows: dict[str, tuple[Row, ...]],
) -> Roles:
    """The fact is the place of the target session, the detail its parking, the twin the like session's place."""
    listed = ("/sessions", "/sessions/{id}")

    def fact(key: int, column: str, value: int, surfaces: tuple[str, ...], barred: set[int]) -> Fact:
        others = stream.sample([place for place in names if place not in barred], 3)
        alternatives = tuple((place, names[place]) for place in others)
        label = "place" if column == "location_id" else "parking"
        return Fact("clinic_session", key, column, value, names[value], alternatives, surfaces, label)

    place, parking = held.location_id, held.parking_id
    return Roles(
        fact=fact(held.id, "location_id", place, listed, {place}),
        twin=fact(twin.id, "location_id", twin.location_id, listed, {twin.location_id}),
        detail=fact(held.id, "parking_id", parking, listed[1:], {place, parking}),
        commit=commit(task),
        continuation=continuation(task),
        resource=Later(resource, rows, task),
        coercion=Later(coercion, rows, task),
    )
