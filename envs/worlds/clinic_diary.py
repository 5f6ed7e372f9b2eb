"""Slots and who holds them: the part of the clinic's rows that decides which booking is right."""

from typing import NamedTuple

from envos.envs.roles import Row
from envos.envs.streams import Stream

LENGTH = 30
"""Minutes that a slot lasts."""
DAY = 8
"""Slots that each place has on the session's date."""
NEAREST = 3
"""Of these, the one nearest to the session's start, the earlier of two (counted from 0)."""
BY_DISTANCE = ((3, 4, 2, 5, 1, 6, 0, 7), (3, 2, 4, 1, 5, 0, 6, 7))
"""These slots from the nearest to the farthest: where the nearest one begins before the session, and where not."""
NEAR = 3
"""Slots that each place has on another date, around the time of the nearest one."""
EACH = DAY + NEAR
CLOCK = tuple(f"{minute // 60:02}:{minute % 60:02}" for minute in range(24 * 60))
"""Times of day by their minute."""


class Booking(NamedTuple):
    """An appointment in the making: patient and slot by id, and whether it is in force."""

    patient: int
    slot: int
    live: bool


class Diary(NamedTuple):
    """Every slot as (place id, date, minute that it begins), in the order of the ids, and the appointments."""

    grid: list[tuple[int, str, int]]
    bookings: list[Booking]


def diary(
    stream: Stream,
    start: str,
    dates: tuple[str, str, str],
    places: int,
    patients: int,
    target: int,
    like: int,
) -> Diary:
    """The slots of all places around a session's start, and the appointments in them.

    `dates` are the one before, the session's and the one after. The target patient has one or two appointments on the
    session's date, mostly one over the session's start; the patient with the like name has the first of the others.
    """
    at = 60 * int(start[:2]) + int(start[3:])
    offsets = stream.shuffle(range(0, LENGTH, 5))
    firsts = [at - 105 + (offsets[place] - at + 105) % LENGTH for place in range(places)]
    grid = _grid(stream, firsts, dates)
    bookings = _own(stream, grid, places, target)
    busy = [grid[booking.slot - 1][2] for booking in bookings]
    held = {booking.slot for booking in bookings}
    others = stream.shuffle([key for key in range(1, patients + 1) if key not in (target, like)])
    others.insert(0, like)
    left = iter(others)
    free: list[int] = []
    draw = stream.random
    for place, first in enumerate(firsts):
        # An appointment overlaps the last slot that begins before it and the first that begins after it.
        lost = {slot for begins in busy for slot in ((begins - first) // LENGTH, -((first - begins) // LENGTH))}
        order = BY_DISTANCE[first + LENGTH * NEAREST >= at]
        fitting = [slot for slot in order if slot not in lost]
        taken = fitting[:1] if draw() < 0.6 else []
        if draw() < 0.7:
            taken.append(int(draw() * DAY))
        base = place * EACH + 1
        for slot in taken:
            if base + slot not in held:
                held.add(base + slot)
                bookings.append(Booking(next(left), base + slot, True))
        free += [base + slot for slot in fitting if base + slot not in held]
    bookings += _more(stream, free, others, places, target, len(bookings))
    return Diary(grid, stream.shuffle(bookings))


def _grid(stream: Stream, firsts: list[int], dates: tuple[str, str, str]) -> list[tuple[int, str, int]]:
    before, held, after = dates
    grid: list[tuple[int, str, int]] = []
    for place, first in enumerate(firsts, 1):
        other, near = before if stream.chance(0.5) else after, first + LENGTH * (NEAREST - 1)
        grid += [(place, held, begins) for begins in range(first, first + LENGTH * DAY, LENGTH)]
        grid += [(place, other, begins) for begins in range(near, near + LENGTH * NEAR, LENGTH)]
    return grid


def _own(stream: Stream, grid: list[tuple[int, str, int]], places: int, target: int) -> list[Booking]:
    """The patient's other appointments: mostly one over the session's start, and sometimes a second one."""
    place = stream.below(places)
    slot = NEAREST if stream.chance(0.85) else stream.pick((0, 1, 6, 7))
    own = [Booking(target, place * EACH + slot + 1, True)]
    if stream.chance(0.5):
        begins = grid[place * EACH + slot][2]
        second = (place + 1 + stream.below(places - 1)) % places * EACH
        apart = [key for key in range(second + 1, second + DAY) if abs(grid[key - 1][2] - begins) >= LENGTH]
        own.append(Booking(target, stream.pick(apart), True))
    return own


def _more(stream: Stream, free: list[int], others: list[int], places: int, target: int, so_far: int) -> list[Booking]:
    """Cancelled appointments, whose slots are free, and appointments on the other dates: 13 to 18 in all."""
    more = [
        Booking(target if stream.chance(0.3) else stream.pick(others), slot, False)
        for slot in stream.sample(free, 1 + stream.below(2))
    ]
    near = [place * EACH + slot + 1 for place in range(places) for slot in range(DAY, EACH)]
    count = max(2, 13 + stream.below(5) - so_far - len(more))
    # From the end of the line: those with an appointment on the session's date come last.
    waiting = others[::-1]
    for number, slot in enumerate(stream.sample(near, min(count, len(near)))):
        more.append(Booking(waiting[number % len(waiting)], slot, True))
    return more


def slots(book: Diary) -> tuple[Row, ...]:
    """The rows of `slot`: booked are those that an appointment in force holds."""
    held = {booking.slot for booking in book.bookings if booking.live}
    return tuple(
        (
            key,
            place,
            date,
            CLOCK[begins],
            CLOCK[begins + LENGTH],
            "booked" if key in held else "free",
        )
        for key, (place, date, begins) in enumerate(book.grid, 1)
    )
