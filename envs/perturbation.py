"""The change that happens once: its plan (frozen data, archived) and the one-shot that carries it out.

The one-shot is armed by an observation that was handed over with the old value in it, fires inside the first eligible
request of the agent after that, before the handler reads the database (where the plan's phase is `AFTER`, once it has
written the commit), and never again: a unique row guards it. Protocol section 4.
"""

import sqlite3
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

from envos.envs.database import Database
from envos.envs.evidence import Fire, Frame, Ledger, Record, Request, Scalar, Write
from envos.errors import EvidenceError, UsageError

Reviewed = Callable[[Mapping[str, str]], Mapping[str, Scalar]]
"""A world's reading of a request for the review step: the columns of the commit that it is about."""
NOW = "$now"
"""Stands for the virtual time of the firing in an operation's columns."""
NEXT = "$next"
"""Stands for the number of the request after the one that fires."""
BEFORE, AFTER = "before", "after"
"""Phases of a firing: before the handler reads, or after it has written the commit, inside the same request."""


class Operation(NamedTuple):
    """One row operation: `columns` maps a column to (old, new); an insert has no old values and key 0."""

    op: str
    table: str
    key: int
    columns: dict[str, tuple[Scalar, Scalar]]


@dataclass(frozen=True, slots=True)
class Plan:
    """What was decided before the episode: when the perturbation fires, what it does, what is promised.

    `arm` is (table, id, column) of the fact whose text `arm_text`, delivered from one of `surfaces`, arms the trigger;
    `trigger` are the routes whose first direct GET after that fires it, `posts` those whose POST does. `announced`
    promises a modal notice, `review` is what the review step (`review_route`) shows: nothing, link or value. Operations
    that change nothing go to the table `neutral`, so that every condition does the same number of them.

    In the phase `AFTER` the operations follow the commit inside its own request, if the committed row has the columns
    `when`. What they update is then what the software made of the commit, and nothing that the organisation holds true.
    Before the commit, `when` are columns of the commit that the request, one for the review step, must be about.
    """

    world: str
    phenomenon: str
    condition: str
    anchor: str
    budget: int
    untriggered: str
    opened: str
    task: Mapping[str, Scalar]
    arm: tuple[str, int, str]
    arm_text: str
    new_text: str
    surfaces: tuple[str, ...]
    trigger: tuple[str, ...]
    operations: tuple[Operation, ...]
    announced: bool
    review: str
    review_route: str
    commit_table: str
    watched: tuple[tuple[str, int, str], ...]
    posts: tuple[str, ...] = ()
    phase: str = BEFORE
    when: Mapping[str, Scalar] = field(default_factory=dict)

    def fires(self, method: str, route: str) -> bool:
        """Whether such a request of the agent may fire."""
        return route in self.trigger if method == "GET" else method == "POST" and route in self.posts

    def awaits(self, row: Mapping[str, Scalar]) -> bool:
        """Whether a commit with these columns is the one that the operations are about."""
        return all(row.get(name) == value for name, value in self.when.items())

    def concerns(self, params: Mapping[str, str], reviewed: Reviewed) -> bool:
        """Whether a request with these parameters may fire before its handler; `reviewed` is the world's."""
        return self.phase == BEFORE and (not self.when or self.awaits(reviewed(params)))

    def to_json(self) -> dict[str, Any]:
        """The plan as JSON data; what is as in most plans (`posts`, `phase`, `when`) is left out."""
        data: dict[str, Any] = {item.name: getattr(self, item.name) for item in fields(self)}
        data["task"], data["when"] = dict(self.task), dict(self.when)
        for name, usual in (("posts", ()), ("phase", BEFORE), ("when", {})):
            if data[name] == usual:
                del data[name]
        data["operations"] = [operation._asdict() for operation in self.operations]
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Plan":
        """The plan that `to_json` wrote. Raises EvidenceError on any other shape."""
        try:
            operations = tuple(
                Operation(
                    str(item["op"]),
                    str(item["table"]),
                    int(item["key"]),
                    {str(name): (old, new) for name, (old, new) in item["columns"].items()},
                )
                for item in data["operations"]
            )
            table, key, column = data["arm"]
            if data.get("phase", BEFORE) not in (BEFORE, AFTER):
                raise ValueError(f"there is no phase {data['phase']!r}")
            return cls(
                **{
                    **data,
                    "arm": (table, key, column),
                    "operations": operations,
                    "surfaces": tuple(data["surfaces"]),
                    "trigger": tuple(data["trigger"]),
                    "posts": tuple(data.get("posts", ())),
                    "when": dict(data.get("when", {})),
                    "watched": tuple((name, at, item) for name, at, item in data["watched"]),
                }
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise EvidenceError(f"not a plan: {type(error).__name__}: {error}") from error


NEUTRAL_UPDATE = Operation("update", "neutral", 1, {})
"""Writes a row of the evaluator's table back as it was."""
NEUTRAL_INSERT = Operation("insert", "neutral", 0, {"value": (None, "-")})
"""Adds a row to the evaluator's table."""


class OneShot:
    """The trigger of the running episode: armed once, fired once, closed by the first commit."""

    __slots__ = ("armed_by", "closed", "fired", "notifies", "plan")

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.notifies = any(operation.table == "notice" for operation in plan.operations)
        self.armed_by = -1
        self.fired = False
        self.closed = False

    def deliver(self, frame: Frame, request: Request) -> None:
        """Arm if this observation shows the old value, on a page that the agent itself asked for."""
        if self.armed_by >= 0 or request.actor != "agent" or request.via != "direct":
            return
        plan = self.plan
        if request.route in plan.surfaces and any(
            item[:3] == plan.arm and item.text == plan.arm_text for item in frame.delivered
        ):
            self.armed_by = frame.number

    def due(self, actor: str, via: str, method: str, route: str, made: Write | None = None) -> bool:
        """Whether this request fires now: before its handler reads, or once it has `made` the first commit."""
        plan = self.plan
        return (
            self.armed_by >= 0
            and not self.fired
            and not self.closed
            and actor == "agent"
            and via == "direct"
            and plan.fires(method, route)
            and (plan.phase == BEFORE if made is None else plan.phase == AFTER and plan.awaits(made.new()))
        )

    def fire(self, database: Database, ledger: Ledger, request: int, now: str) -> None:
        """Carry out the plan's operations in one transaction, guarded by a unique row."""
        database.actor, database.request = "perturbation", request
        symbols: dict[Scalar, Scalar] = {NOW: now, NEXT: request + 1}
        try:
            with database.transaction():
                raw = database.raw
                raw.execute("INSERT INTO perturbation_guard (id, request) VALUES (1, ?)", (request,))
                for operation in self.plan.operations:
                    _carry_out(raw, operation, symbols)
        except sqlite3.IntegrityError:
            return
        finally:
            self.fired = True
        neutral = sum(operation.table == "neutral" for operation in self.plan.operations)
        for write in database.drain():
            ledger.append(write)
        ledger.append(Fire(request, self.armed_by, len(self.plan.operations), neutral))

    def state(self) -> tuple[int, bool, bool]:
        """What a snapshot keeps."""
        return self.armed_by, self.fired, self.closed

    def restore(self, state: tuple[int, bool, bool]) -> None:
        """Go back to a snapshot's state."""
        self.armed_by, self.fired, self.closed = state


def replayed(plan: Plan, records: Iterable[Record], reviewed: Reviewed) -> OneShot:
    """The one-shot of a plan as it stands after these records, in which nothing fired.

    Raises UsageError where this plan's change would have fired in one of their requests.
    """
    shot, asked, made = OneShot(plan), dict[int, Request](), None
    for record in records:
        if isinstance(record, Write):
            if (record.actor, record.op, record.table) == ("agent", "insert", plan.commit_table):
                made = made or record
        elif isinstance(record, Request):
            asked[record.number] = record
            where = (record.actor, record.via, record.method, record.route)
            early = shot.due(*where) and plan.concerns(record.params, reviewed)
            if early or (made is not None and shot.due(*where, made)):
                raise UsageError(f"under {plan.condition} the change would have fired in request {record.number}")
            shot.closed = made is not None
        elif isinstance(record, Frame) and record.request in asked:
            shot.deliver(record, asked[record.request])
    return shot


def _carry_out(raw: sqlite3.Connection, operation: Operation, symbols: Mapping[Scalar, Scalar]) -> None:
    # The names come from a world's own metadata, never from the agent.
    values = [symbols.get(new, new) for _, new in operation.columns.values()]
    if operation.op == "insert":
        names = ", ".join(operation.columns)
        places = ", ".join("?" * len(values))
        raw.execute(f"INSERT INTO {operation.table} ({names}) VALUES ({places})", values)  # noqa: S608
    else:
        names = ", ".join(f"{name} = ?" for name in operation.columns) or "id = id"
        raw.execute(f"UPDATE {operation.table} SET {names} WHERE id = ?", [*values, operation.key])  # noqa: S608
