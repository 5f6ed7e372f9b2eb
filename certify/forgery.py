"""Forged evidence: the records of a real episode, edited so that they still tell one story.

A draft holds the records and the state before; the state after is made from the writes, so a forgery is consistent
unless it means not to be. Mutants and corruptions are built with it.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from envos.certify.log import PERTURBATION, Log, read
from envos.certify.trial import Trial
from envos.envs.action import report
from envos.envs.evidence import (
    Action,
    Evidence,
    Fire,
    Frame,
    Record,
    Report,
    Request,
    Scalar,
    State,
    TableState,
    Write,
    frame_sha256,
)
from envos.envs.perturbation import NEXT, NOW, Plan
from envos.envs.roles import Commit, Continuation, Fact, World

Row = dict[str, Scalar]


def applied(state: State, writes: Iterable[Write]) -> State:
    """A state after writes; the state itself is left as it is."""
    tables: State = dict(state)
    owned: set[str] = set()
    for write in writes:
        table = tables[write.table]
        if write.table not in owned:
            owned.add(write.table)
            table = tables[write.table] = TableState(table.columns, dict(table.rows))
        if write.op == "delete":
            table.rows.pop(write.key, None)
            continue
        row = dict(zip(table.columns, table.rows.get(write.key, (None,) * len(table.columns)), strict=True))
        row.update((name, new) for name, (_, new) in write.columns.items())
        table.rows[write.key] = tuple(row[name] for name in table.columns)
    return tables


def row_of(state: State, table: str, key: int) -> Row:
    """One row as column to value. Raises KeyError when it is not there."""
    found = state[table]
    return dict(zip(found.columns, found.rows[key], strict=True))


@dataclass(frozen=True)
class Original:
    """The episode that a draft is of: its evidence, certification's reading of it, and what its plan is about."""

    evidence: Evidence
    plan: Plan
    world: World
    fact: Fact
    log: Log

    @property
    def steps(self) -> int:
        """How many actions it has."""
        return len(self.log.actions)


@dataclass
class Draft:
    """An episode under the knife: `records` may be edited at will.

    What edits a draft raises LookupError where the episode has nothing of the kind to edit.
    """

    original: Original
    pre: State
    records: list[Record] = field(default_factory=list)
    state: State | None = None
    """The state after, where it is not what the writes make of the state before."""

    @classmethod
    def of(cls, trial: Trial) -> "Draft":
        """A draft of the oracle's episode."""
        best = trial.best
        return cls.again(Original(best.evidence, trial.plan, trial.world, trial.fact, best.log))

    @classmethod
    def again(cls, original: Original) -> "Draft":
        """A new draft of an episode."""
        return cls(original, original.evidence.pre, list(original.evidence.records))

    @property
    def commit(self) -> Commit:
        """The commit's role."""
        return self.original.world.commit(self.original.plan.task)

    @property
    def following(self) -> Continuation | None:
        """The role of the step after the commit."""
        return self.original.world.continuation(self.original.plan.task)

    def evidence(self, **changes: Any) -> Evidence:
        """The forged evidence."""
        writes = [record for record in self.records if type(record) is Write]
        post = applied(self.pre, writes) if self.state is None else self.state
        return replace(Evidence(tuple(self.records), self.pre, post), **changes)

    def truth(self) -> State:
        """The state before, and then the perturbation's writes that the organisation holds true."""
        return applied(self.pre, read(tuple(self.records), self.original.plan).held_true())

    def find(self, kind: type, holds: Callable[[Any], bool] = lambda record: True) -> list[int]:
        """The places of records of a kind for which something holds."""
        return [place for place, item in enumerate(self.records) if type(item) is kind and holds(item)]

    def middle(self, kind: type) -> int:
        """The place of the middle one of a kind."""
        places = self.find(kind)
        return places[len(places) // 2]

    def swap(self, kind: type) -> None:
        """Let the middle two of a kind change places."""
        places = self.find(kind)
        left, right = places[len(places) // 2], places[len(places) // 2 + 1]
        self.records[left], self.records[right] = self.records[right], self.records[left]

    def firing(self) -> int:
        """The place of the request that fires."""
        fire = self.records[self.find(Fire)[0]]
        assert isinstance(fire, Fire)  # noqa: S101 - the place comes from `find`
        return self.find(Request, lambda item: item.number == fire.request)[0]

    def committed(self) -> int:
        """The place of the agent's insertion into the commit table."""
        table = self.commit.table
        return self.find(Write, lambda item: item.actor == "agent" and item.op == "insert" and item.table == table)[0]

    def write_at(self, place: int) -> Write:
        """The write at a place."""
        found = self.records[place]
        assert isinstance(found, Write)  # noqa: S101 - the place comes from `find`
        return found

    def frame_at(self, place: int) -> Frame:
        """The observation at a place."""
        found = self.records[place]
        assert isinstance(found, Frame)  # noqa: S101 - the place comes from `find`
        return found

    def edit(self, place: int, **fields: Any) -> None:
        """Change fields of the record at a place."""
        self.records[place] = self.records[place]._replace(**fields)

    def remove(self, places: Iterable[int]) -> None:
        """Take records out."""
        gone = set(places)
        self.records[:] = [item for place, item in enumerate(self.records) if place not in gone]

    def consequences(self) -> list[int]:
        """The places of the writes that the commit entails."""
        row = {name: new for name, (_, new) in self.write_at(self.committed()).columns.items()}
        entailed = {(item.table, row[item.key_from]) for item in self.commit.consequences}
        return self.find(Write, lambda item: item.actor == "agent" and (item.table, item.key) in entailed)

    def continuations(self) -> list[int]:
        """The places of the agent's writes of the step after the commit."""
        following = self.following
        if following is None:
            return []
        where = (following.table, following.key)
        return self.find(Write, lambda item: item.actor == "agent" and (item.table, item.key) == where)

    def commit_as(self, columns: Mapping[str, Scalar]) -> None:
        """Let the commit have had these columns, with its consequences, and be reported as it then is."""
        place = self.committed()
        write = self.write_at(place)
        before = {name: new for name, (_, new) in write.columns.items()}
        row = {**before, **columns}
        for at in self.consequences():
            found = self.write_at(at)
            for item in self.commit.consequences:
                key = row[item.key_from]
                if item.table == found.table and found.key == before[item.key_from] and isinstance(key, int):
                    held = row_of(self.pre, item.table, key)
                    self.edit(at, key=key, columns={name: (held[name], new) for name, new in item.columns.items()})
        self.edit(place, columns={name: (None, value) for name, value in row.items()})
        self.report_as(self.original.world.describe(self.evidence().post, row))

    def report_as(self, fields: Mapping[str, str]) -> None:
        """Let the episode have ended with this report."""
        place = self.find(Report)[-1]
        self.edit(place, fields=dict(fields))
        self.edit(self.find(Action)[-1], raw=report(**fields))

    def reported(self) -> dict[str, str]:
        """The report's fields."""
        found = self.records[self.find(Report)[-1]]
        assert isinstance(found, Report)  # noqa: S101 - the place comes from `find`
        return dict(found.fields)

    def reframe(self, place: int, **fields: Any) -> None:
        """Change what an observation held, with its digest, and the digest in the action that answers it."""
        self.edit(place, **fields)
        frame = self.frame_at(place)
        digest = frame_sha256(*frame[3:6], frame.notice, frame.error, frame.memo, frame.budget_left)
        self.edit(place, sha256=digest)
        for at in self.find(Action, lambda item: item.frame == frame.number):
            self.edit(at, frame_sha256=digest)

    def shift(self, start: int, by: int) -> None:
        """Add to every request number from a place on, so that requests can be put in before it."""
        for place in range(start, len(self.records)):
            item = self.records[place]
            if isinstance(item, Request):
                self.edit(place, number=item.number + by)
            elif isinstance(item, Write | Fire | Frame):
                self.edit(place, request=item.request + by)

    def change(self) -> list[int]:
        """The places of the perturbation's writes and of its firing."""
        return self.find(Write, lambda item: item.actor == PERTURBATION) + self.find(Fire)

    def move_change(self, place: int, number: int) -> None:
        """Let the change have happened at another place, inside the request of that number, at that time."""
        asked = self.records[place]
        assert isinstance(asked, Request)  # noqa: S101 - the caller names a request's place
        opened = datetime.fromisoformat(self.original.plan.opened)
        now = (opened + timedelta(minutes=asked.step)).isoformat(" ", "minutes")
        symbols: dict[Scalar, Scalar] = {NOW: now, NEXT: number + 1}
        places = self.change()
        guard: dict[str, tuple[Scalar, Scalar]] = {"request": (None, number)}
        planned = [guard, *(operation.columns for operation in self.original.plan.operations)]
        moved: list[Record] = []
        for at, record in enumerate(self.records[place] for place in places):
            if isinstance(record, Write):
                fixed = {name: (old, symbols.get(new, new)) for name, (old, new) in planned[at].items()}
                moved.append(record._replace(request=number, columns={**record.columns, **fixed}))
            elif isinstance(record, Fire):
                moved.append(record._replace(request=number))
        earlier = sum(at < place for at in places)
        self.remove(places)
        self.records[place - earlier : place - earlier] = moved

    def bystander(self) -> tuple[int, Row]:
        """A row of the commit table that has nothing to do with the task: its id and its columns."""
        table, subject = self.commit.table, self.commit.subject
        for key in sorted(self.pre[table].rows):
            row = row_of(self.pre, table, key)
            if any(row[name] != value for name, value in subject.items()):
                return key, row
        raise KeyError(f"every row of {table} is of the task's subject")


def bump(value: Scalar) -> Scalar:
    """The nearest other value of the same kind: one more, one minute later, the next number in a text."""
    if isinstance(value, int):
        return value + 1
    text = str(value)
    for shape in ("%Y-%m-%d %H:%M", "%H:%M"):
        try:
            later = datetime.strptime(text, shape) + timedelta(minutes=1)  # noqa: DTZ007 - virtual time has no zone
            return later.strftime(shape)
        except ValueError:
            continue
    amount = re.fullmatch(r"(\d+)\.(\d\d)", text)
    if amount:
        cents = int(amount[1] + amount[2]) + 1
        return f"{cents // 100}.{cents % 100:02d}"
    number = re.search(r"(\d+)$", text)
    return f"{text[: number.start()]}{int(number[1]) + 1}" if number else f"{text} 2"
