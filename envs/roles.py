"""What a world offers and what a phenomenon asks for: the two units of extension, and the roles between them.

A world names its own tables once, here, as roles; a phenomenon names roles only. A pair whose roles do not fit is
refused with the role that is missing.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Generic, TypeVar

from sqlalchemy import MetaData

from envos.envs.app import Routes
from envos.envs.evidence import Scalar, State
from envos.envs.page import Link
from envos.envs.perturbation import Plan
from envos.envs.statements import Statements
from envos.envs.streams import Stream
from envos.envs.tools import Tool
from envos.errors import RoleError

Row = tuple[Scalar, ...]
Role = TypeVar("Role")


@dataclass(frozen=True, slots=True)
class Fact:
    """A value of one column of one row, the routes that serve it, and plausible other values.

    `alternatives` are (stored value, text shown) pairs. A change of the fact also adds a row to the world's `history`
    table (columns id, record, record_id, field, old, new, at, by).
    """

    table: str
    key: int
    column: str
    value: Scalar
    text: str
    alternatives: tuple[tuple[Scalar, str], ...]
    surfaces: tuple[str, ...]
    label: str


@dataclass(frozen=True, slots=True)
class Consequence:
    """A row elsewhere that a commit changes: table, the commit's column that holds its id, the columns it sets."""

    table: str
    key_from: str
    columns: Mapping[str, Scalar]


@dataclass(frozen=True, slots=True)
class Commit:
    """The irreversible write that the task asks for.

    `pages` are the form's pages in order, (name, route); `review` names the last one, where disclosures stand. A row of
    `table` belongs to the task when its columns equal `subject`; it is in force when they equal `live`, and nobody can
    change it any more when they equal `closed`.
    """

    table: str
    route: str
    pages: tuple[tuple[str, str], ...]
    review: str
    subject: Mapping[str, Scalar]
    live: Mapping[str, Scalar]
    consequences: tuple[Consequence, ...]
    closed: Mapping[str, Scalar] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Continuation:
    """The step after the commit: one row whose `columns` must hold, and whose `reference` names the committed row."""

    table: str
    key: int
    columns: Mapping[str, Scalar]
    reference: str
    commit_reference: str


@dataclass(frozen=True, slots=True)
class Resource:
    """Something that the task selects and that somebody else can take: a row of `table`.

    `column` says `free` until it says `taken`. `wanted` is the row that the task selects, served as a selection from
    `surfaces` with `text` for a free one; `others` are rows that decide nothing. `rival(key, draw)` are the columns of
    the commit table's row by which somebody else takes a row (draw: 0 to 1, chooses who), `letter(key, draw)` those of
    the message that tells of it, without the time.
    """

    table: str
    column: str
    free: Scalar
    taken: Scalar
    text: str
    wanted: int
    others: tuple[int, ...]
    surfaces: tuple[str, ...]
    rival: Callable[[int, float], Mapping[str, Scalar]]
    letter: Callable[[int, float], Mapping[str, Scalar]]


@dataclass(frozen=True, slots=True)
class Coercion:
    """How the software can store something else than was chosen, in the commit's own request.

    `arm` (table, id, column), served from `surfaces` as `text`, shows that the right choice is being reviewed; served
    from `offered`, that it can be made. The row
    that the commit then makes has the columns `made`, its id among them; `columns` maps its columns to what was chosen
    and what is stored instead, `following` are (table, id, column, as the commit left it, as the other value has it).
    `reviewed` are the columns of the right choice as its review asks for them; `carried` are subject, what was chosen
    and what the form may hold instead, as its table has them. `closing` closes the row that the commit makes.
    """

    arm: tuple[str, int, str]
    text: str
    surfaces: tuple[str, ...]
    offered: tuple[str, ...]
    made: Mapping[str, Scalar]
    columns: Mapping[str, tuple[Scalar, Scalar]]
    following: tuple[tuple[str, int, str, Scalar, Scalar], ...]
    reviewed: Mapping[str, Scalar]
    carried: tuple[int, int, int]
    closing: Mapping[str, tuple[Scalar, Scalar]]


@dataclass(frozen=True, slots=True)
class Later(Generic[Role]):
    """A role that needs the right answer, and is worked out from rows and task only when a phenomenon asks for it."""

    make: Callable[[Mapping[str, Sequence[Row]], Mapping[str, Scalar]], Role]
    rows: Mapping[str, Sequence[Row]]
    task: Mapping[str, Scalar]

    def __call__(self) -> Role:
        """The role."""
        return self.make(self.rows, self.task)


@dataclass(frozen=True, slots=True)
class Roles:
    """One instance's roles; a role that a world does not have is None."""

    fact: Fact | None = None
    twin: Fact | None = None
    detail: Fact | None = None
    commit: Commit | None = None
    continuation: Continuation | None = None
    resource: Later[Resource] | None = None
    coercion: Later[Coercion] | None = None

    def require(self, world: str, phenomenon: str, names: tuple[str, ...]) -> None:
        """Raise RoleError, naming the missing role, unless every named role is there."""
        known = [item.name for item in fields(self)]
        for name in names:
            if name not in known or getattr(self, name) is None:
                raise RoleError(
                    f"phenomenon {phenomenon!r} needs the role {name!r}, which world {world!r} does not have"
                )


@dataclass(frozen=True, slots=True)
class Draft:
    """What a world generates for (split, seed).

    `rows` by table in column order, `task` the keys of the target records (evaluator data), `opened` the virtual time
    of the first step ("2026-03-12 08:00").
    """

    rows: Mapping[str, tuple[Row, ...]]
    task: Mapping[str, Scalar]
    brief: str
    opened: str
    roles: Roles


@dataclass(frozen=True, slots=True)
class World:
    """One organisation's software.

    `generate(seed, split)` is pure. `commit(task)` and `continuation(task)` are the roles that grading needs, from the
    target keys alone, so that an archive can be graded without generating anything. `announce(db, record, record_id,
    field)` words a notice from the rows as they are now. `answer(state, task)` gives the columns that the right commit
    has, from the authoritative state. `describe(state, row)` gives the report fields of a committed row, `report` their
    types (text, datetime, money or id). `display(state, table, column, value)` is a stored value as pages show it.
    `refusals` maps a code to (status, text). `reminder` is the label of the link to the source that a review step shows
    when the condition discloses one ("" for a world without such a link). `tools` names every route for agents that
    call functions. `labels` are the facts of a commit's page that hold a report field, joined by a space.
    `reviewed(params)` gives the columns of the commit that a request for the review step is about. `disclosures` are
    report fields that may be added to say that what is stored cannot be put right: to the field whose right value each
    of them tells.
    """

    name: str
    title: str
    metadata: MetaData
    routes: Routes
    navigation: tuple[Link, ...]
    home: str
    report: Mapping[str, str]
    refusals: Mapping[str, tuple[int, str]]
    generate: Callable[[int, str], Draft]
    commit: Callable[[Mapping[str, Scalar]], Commit]
    continuation: Callable[[Mapping[str, Scalar]], Continuation | None]
    announce: Callable[[Statements, str, int, str], str]
    answer: Callable[[State, Mapping[str, Scalar]], Mapping[str, Scalar]]
    describe: Callable[[State, Mapping[str, Scalar]], Mapping[str, str]]
    display: Callable[[State, str, str, Scalar], str]
    reminder: str = ""
    tools: tuple[Tool, ...] = ()
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    reviewed: Callable[[Mapping[str, str]], Mapping[str, Scalar]] = dict
    disclosures: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Condition:
    """An arm: what changes ("" for nothing), by which channel that is told, what the review step shows.

    `channel` is none, mail (a message in the inbox, which nothing makes the agent read) or modal (a notice that must be
    acknowledged, and is promised to be delivered); `review` is nothing, link or value.
    """

    code: str
    changes: str
    channel: str
    review: str
    about: str

    @property
    def announced(self) -> bool:
        """Whether a notice is promised."""
        return self.channel == "modal"


@dataclass(frozen=True, slots=True)
class Phenomenon:
    """A causal situation over roles.

    `needs` are role names; `plan(roles, condition, anchor, stream, base)` makes the perturbation's plan;
    `base` holds what every plan has (world, budget, task, ...).
    """

    name: str
    family: str
    needs: tuple[str, ...]
    conditions: Mapping[str, Condition]
    plan: Callable[[Roles, Condition, str, Stream, Mapping[str, Any]], Plan]
