"""A whole episode of the tiny world, and ways to tamper with its records."""

from typing import Any

from tape import Tape
from tinyworld import WORLD

from envos.envs.evidence import Action, Frame, Record, Request, frame_sha256
from envos.rewards.verdict import Verdict, judge


def good(condition: str = "OFF-A", **options: Any) -> Tape:
    """A whole episode with the right outcome: look, form, look again, review, book, close the ticket, report."""
    slot = 3 if condition in ("L2", "OFF-A", "CUE-A", "LIVE-A") else 2
    return Tape(condition, **options).look().form().look().review().book(slot).done().report()


def graded(case: Any) -> Verdict:
    """The verdict on a tape, or on (evidence, tape)."""
    tape = case if isinstance(case, Tape) else case[1]
    return judge(case.evidence() if isinstance(case, Tape) else case[0], tape.plan, WORLD)


def at(tape: Tape, kind: type[Record], number: int) -> int:
    """The place of the nth record of a kind (from the end for a negative number)."""
    return [place for place, record in enumerate(tape.records) if type(record) is kind][number]


def edit(tape: Tape, kind: type[Record], number: int, /, **fields: Any) -> Tape:
    """Replace fields of the nth record of a kind."""
    place = at(tape, kind, number)
    tape.records[place] = tape.records[place]._replace(**fields)  # type: ignore[call-arg]
    return tape


def drop(tape: Tape, kind: type[Record], number: int) -> Tape:
    """Leave out the nth record of a kind."""
    del tape.records[at(tape, kind, number)]
    return tape


def sealed(tape: Tape) -> Tape:
    """Make every frame's digest, and every action's copy of it, right again."""
    digests: dict[int, str] = {}
    for place, item in enumerate(tape.records):
        if isinstance(item, Frame):
            digest = frame_sha256(
                item.url, item.page, item.elements, item.notice, item.error, item.memo, item.budget_left
            )
            digests[item.number] = digest
            tape.records[place] = item._replace(sha256=digest)
        elif isinstance(item, Action):
            tape.records[place] = item._replace(frame_sha256=digests.get(item.frame, item.frame_sha256))
    return tape


def after(tape: Tape, kind: type[Record], number: int, record: Record) -> Tape:
    """Put a record behind the nth of a kind."""
    tape.records.insert(at(tape, kind, number) + 1, record)
    return tape


def asked(tape: Tape, number: int, /, **fields: Any) -> Tape:
    """Replace fields of the request of that number."""
    return edit(tape, Request, number - 1, **fields)
