"""The claims office's seeded rows: a pure function of (seed, split).

Policies and claims are made in the order target, like, second, others, and then shuffled. The like policy's number is
almost the target's, and there is a claim on it, with a like number, by a person with a like name; the second claim is
of the target's own claimant, on another policy. All limits differ, the values that they may change to included, and no
other amount equals one of them but an approval that was cut to it, so that a limit is told by its text.
"""

from collections.abc import Iterator, Mapping
from datetime import date, timedelta
from operator import attrgetter
from typing import NamedTuple

from envos.envs.evidence import Scalar
from envos.envs.names import like_name, pool
from envos.envs.roles import Draft, Fact, Later, Roles, Row
from envos.envs.streams import Stream
from envos.envs.worlds import claims_amounts, claims_words
from envos.envs.worlds.claims_amounts import DEDUCTIBLES, Amounts, case_of
from envos.envs.worlds.claims_choices import coercion
from envos.envs.worlds.claims_rules import commit, money

CALENDAR = tuple((date(2024, 12, 2) + timedelta(day)).isoformat() for day in range(1480))
"""Dates by their number; number 0 is a Monday, and episodes begin from 2026-01-12 on."""
_DAY = {day: number for number, day in enumerate(CALENDAR)}
_FIRST, _DAYS = 406, 690
_STEPS = len(DEDUCTIBLES)
_TARGET, _LIKE, _, _OTHER = range(4)


class People(NamedTuple):
    """Names of the staff, rows of the persons, and who of them is the target and who has a name like it (ids)."""

    staff: list[str]
    persons: tuple[tuple[int, str, str], ...]
    target: int
    like: int


class Policy(NamedTuple):
    """A row of `policy`."""

    id: int
    number: str
    product: str
    person_id: int
    broker: str
    starts: str
    ends: str
    reimbursement_limit: int


class Claim(NamedTuple):
    """A row of `claim`."""

    id: int
    number: str
    person_id: int
    policy_id: int
    cause: str
    claimed: int
    deductible: int
    lost_on: str
    received: str
    status: str


def generate(seed: int, split: str) -> Draft:
    """The instance of a seed: rows, target keys, brief, opening time and roles."""
    words, records, queue = (Stream(seed, split, name) for name in ("words", "policies", "claims"))
    amounts = claims_amounts.target(Stream(seed, split, "amounts"), case_of(seed))
    people = _people(Stream(seed, split, "people"), split)
    today = _FIRST + words.below(_DAYS)
    today -= max(0, today % 7 - 4)  # a weekday
    spare = claims_amounts.limits(records, amounts.used())
    policies = _policies(records, split, people, amounts.limit, spare, today)
    endorsements, extra = _endorsements(records, policies, amounts.extra, spare)
    claims = _claims(queue, split, policies, amounts, today)
    target = claims[_TARGET]
    task: dict[str, Scalar] = {"claim": target.id, "case": case_of(seed)}
    who = people.persons[people.target - 1]
    case = claims_words.Case(target.number, who[1], who[2])
    rows: dict[str, tuple[Row, ...]] = {
        "person": people.persons,
        "policy": tuple(sorted(policies)),
        "endorsement": endorsements,
        "claim": tuple(sorted(claims)),
        "claim_line": _lines(queue, claims),
        "document": _documents(queue, claims),
        "decision": _decisions(queue, claims, policies, people.staff),
        "message": _messages(words, case, people.staff, today),
        "history": _changes(records, split, policies, spare, today),
        "notice": (),
        "carried": (),
    }
    roles = _roles(policies, amounts, extra, task, rows)
    return Draft(rows, task, claims_words.brief(words, case), f"{CALENDAR[today]} 08:00", roles)


def _picks(items: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """Picks of three different items each, from which one draw chooses; the number of items is no multiple of three."""
    count = len(items)
    return tuple((items[at], items[(at + 3) % count], items[(at + 6) % count]) for at in range(count))


_ENDORSEMENTS = _picks(claims_words.ENDORSEMENTS)
_LINES = _picks(claims_words.LINES)
_DOCUMENTS = _picks(claims_words.DOCUMENTS)


def _people(stream: Stream, split: str) -> People:
    staff, count = 3, 10 + stream.below(3)
    given = stream.sample(pool("given", split), staff + count - 1)
    family = stream.sample(pool("family", split), staff + count - 1)
    names = [f"{first} {last}" for first, last in zip(given, family, strict=True)]
    like = " ".join(like_name(stream, given[staff], family[staff], split))
    order = stream.shuffle((names[staff], like, *names[staff + 1 :]))
    last, draw, persons = 2000 + stream.below(400), stream.random, []
    for number, name in enumerate(order, 1):
        last += 1 + int(draw() * 400)
        persons.append((number, name, f"K-{last}"))
    return People(names[:staff], tuple(persons), order.index(names[staff]) + 1, order.index(like) + 1)


def _numbers(stream: Stream, count: int, prefix: str) -> list[str]:
    """Different numbers of five digits; the second and the third are almost the first."""
    first = str(10_000 + stream.below(90_000))
    near = [first[:at] + first[at + 1] + first[at] + first[at + 2 :] for at in range(1, 4)]
    near += [first[:at] + str((int(first[at]) + 1) % 10) + first[at + 1 :] for at in (2, 3, 4)]
    found = [first, *stream.sample([text for text in dict.fromkeys(near) if text != first], 2)]
    draw = stream.random
    while len(found) < count:
        text = str(10_000 + int(draw() * 90_000))
        if text not in found:
            found.append(text)
    return [prefix + text for text in found]


def _policies(stream: Stream, split: str, people: People, limit: int, spare: Iterator[int], today: int) -> list[Policy]:
    """Policies in the order in which they are made; everybody holds one, the target two. `limit` is the target's."""
    others = [person[0] for person in people.persons if person[0] not in (people.target, people.like)]
    owners = [people.target, people.like, people.target, *stream.shuffle(others)]
    owners += owners[_OTHER : _OTHER + 2]
    products, brokers = stream.sample(pool("product", split), 6), stream.sample(pool("company", split), 4)
    ids = stream.shuffle(range(1, len(owners) + 1))
    draw = stream.random
    policies = []
    for which, (number, owner) in enumerate(zip(_numbers(stream, len(owners), "PL-"), owners, strict=True)):
        # The target's and the like policy are of one product.
        product = products[0 if which in (_TARGET, _LIKE) else int(draw() * 6)]
        starts, broker = today - 60 - int(draw() * 280), brokers[int(draw() * 4)]
        cents = limit if which == _TARGET else next(spare)
        dates = CALENDAR[starts], CALENDAR[starts + 364]
        policies.append(Policy(ids[which], number, product, owner, broker, *dates, cents))
    return policies


def _endorsements(
    stream: Stream, policies: list[Policy], limit: int, spare: Iterator[int]
) -> tuple[tuple[Row, ...], int]:
    """Endorsements of most policies; the id of the one on the target policy that may change, which has this limit."""
    found: list[Row] = []
    extra = 0
    for item in sorted(policies):
        least = item in (policies[_TARGET], policies[_LIKE])
        for title in stream.pick(_ENDORSEMENTS)[: max(stream.below(3), least)]:
            amount = next(spare)
            if item is policies[_TARGET] and not extra:
                extra, amount = len(found) + 1, limit
            found.append((len(found) + 1, item.id, title, amount, item.starts))
    return tuple(found), extra


def _claims(stream: Stream, split: str, policies: list[Policy], amounts: Amounts, today: int) -> list[Claim]:
    """Claims in the order in which they are made; of the others, four to six are decided."""
    count, decided = 12 + stream.below(3), 4 + stream.below(3)
    causes, draw = pool("cause", split), stream.random
    ids = stream.shuffle(range(1, count + 1))
    claims = []
    for which, number in enumerate(_numbers(stream, count, "CL-")):
        held = policies[which if which < _OTHER else _OTHER + int(draw() * (len(policies) - _OTHER))]
        # More than any deductible, and never a round amount.
        asked, deductible = 40_001 + 100 * int(draw() * 5200) + int(draw() * 99), DEDUCTIBLES[int(draw() * _STEPS)]
        if which == _TARGET:
            asked, deductible = amounts.claimed, amounts.deductible
        lost = today - 12 - int(draw() * 40)
        dates = CALENDAR[lost], CALENDAR[lost + 1 + int(draw() * 9)]
        status = "open"
        if _OTHER <= which < _OTHER + decided:
            status = "denied" if draw() < 0.3 else "approved"
        cause = causes[int(draw() * len(causes))]
        claims.append(Claim(ids[which], number, held.person_id, held.id, cause, asked, deductible, *dates, status))
    return claims


def _lines(stream: Stream, claims: list[Claim]) -> tuple[Row, ...]:
    found: list[Row] = []
    for item in sorted(claims):
        parts = claims_amounts.lines(stream, item.claimed)
        for text, amount in zip(stream.pick(_LINES), parts, strict=False):
            found.append((len(found) + 1, item.id, text, amount))
    return tuple(found)


def _documents(stream: Stream, claims: list[Claim]) -> tuple[Row, ...]:
    found: list[Row] = []
    for item in sorted(claims):
        for title in stream.pick(_DOCUMENTS)[: 1 + stream.below(2)]:
            found.append((len(found) + 1, item.id, title, item.received))
    return tuple(found)


def _decisions(stream: Stream, claims: list[Claim], policies: list[Policy], staff: list[str]) -> tuple[Row, ...]:
    """One decision for each claim that is decided, and one that was withdrawn from a claim that is open again."""
    limits = {item.id: item.reimbursement_limit for item in policies}
    number = 1000 + stream.below(8000)
    chosen = [item for item in claims if item.status != "open"]
    chosen.append(stream.pick([item for item in claims[_OTHER:] if item.status == "open"]))
    rows: list[Row] = []
    for key, item in enumerate(sorted(chosen, key=attrgetter("received", "id")), 1):
        outcome = "denied" if item.status == "denied" else "approved"
        amount = min(item.claimed - item.deductible, limits[item.policy_id]) if outcome == "approved" else 0
        reason = stream.pick(claims_words.REASONS) if outcome == "denied" else ""
        at = f"{CALENDAR[_DAY[item.received] + 1]} {_clock(stream, 60)}"
        status = "withdrawn" if item.status == "open" else "in force"
        rows.append((key, f"D-{number + key}", item.id, outcome, amount, reason, at, stream.pick(staff), status, "", 0))
    return tuple(rows)


def _clock(stream: Stream, since: int) -> str:
    """A time of the working day: so many minutes after eight, and up to seven hours more."""
    minute = since + stream.below(420)
    return f"{8 + minute // 60:02}:{minute % 60:02}"


def _messages(stream: Stream, case: claims_words.Case, staff: list[str], today: int) -> tuple[Row, ...]:
    """Mail of the days before, three on a day; the team leader's request is among it, unread."""
    mail = claims_words.other(stream, 4 + stream.below(4))
    place, count = stream.below(len(mail) + 1), len(mail) + 1
    rows: list[Row] = []
    for number in range(count):
        minute = 500 * number // count + stream.below(60)
        at = f"{CALENDAR[today - (count - number + 2) // 3]} {8 + minute // 60:02}:{minute % 60:02}"
        if number == place:
            subject, body = claims_words.request(stream, case)
            rows.append((number + 1, staff[0], subject, body, at, 0))
        else:
            subject, body = mail.pop()
            rows.append((number + 1, stream.pick(staff), subject, body, at, int(stream.chance(0.6))))
    return tuple(rows)


def _changes(stream: Stream, split: str, policies: list[Policy], spare: Iterator[int], today: int) -> tuple[Row, ...]:
    """What changed before the episode: the limits of two other policies, and the broker of another one."""
    *limited, moved = stream.sample(policies[_OTHER:], 3)
    old = stream.pick([name for name in pool("company", split) if name != moved.broker])
    told = [(item.id, "reimbursement_limit", money(next(spare)), money(item.reimbursement_limit)) for item in limited]
    told.insert(stream.below(3), (moved.id, "broker", old, moved.broker))
    return tuple(
        (number, "policy", *change, f"{CALENDAR[today - 40 + 9 * number]} {_clock(stream, 60)}", "Administration")
        for number, change in enumerate(told, 1)
    )


def _roles(
    policies: list[Policy],
    amounts: Amounts,
    extra: int,
    task: Mapping[str, Scalar],
    rows: dict[str, tuple[Row, ...]],
) -> Roles:
    """The fact is the limit of the target policy, the twin the like policy's, the detail an endorsement's limit."""
    target, like = policies[_TARGET], policies[_LIKE]
    listed = ("/policies", "/policies/{id}")

    def fact(
        table: str, key: int, column: str, value: int, others: tuple[int, ...], surfaces: tuple[str, ...], label: str
    ) -> Fact:
        alternatives = tuple((other, money(other)) for other in others)
        return Fact(table, key, column, value, money(value), alternatives, surfaces, label)

    column, label = "reimbursement_limit", "reimbursement limit"
    return Roles(
        fact=fact("policy", target.id, column, target.reimbursement_limit, amounts.others, listed, label),
        twin=fact("policy", like.id, column, like.reimbursement_limit, amounts.likes, listed, label),
        detail=fact("endorsement", extra, "amount", amounts.extra, amounts.extras, listed[1:], "endorsement limit"),
        commit=commit(task),
        coercion=Later(coercion, rows, task),
    )
