"""What the agent had been shown when it acted: version lags, lost updates, blind retries. Reported, never scored.

A version of a cell is the number of writes to it so far in the episode, whoever made them. The lag of a commit is how
many came between the page that last delivered the cell to the agent and the commit.
"""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, NamedTuple

from envos.envs.evidence import Frame, Request, Write
from envos.envs.perturbation import Plan
from envos.envs.roles import Commit, World
from envos.rewards.signatures import reread
from envos.rewards.statediff import volatile
from envos.rewards.trace import Trace, changed_cell

Cell = tuple[str, int, str]


def exposure(trace: Trace, plan: Plan, world: World) -> dict[str, Any]:
    """The measures of an episode, as JSON data.

    commits: for each, its request, step and row, whether the source was read again between the change and it, and for
    every fact that it depends on the version that was last delivered (None: none ever was), the version at the commit,
    and the lag between them. steps_to_commit: from the firing to the first commit that is not before it.
    """
    commit = world.commit(plan.task)
    fired = trace.fires[0][1].request if trace.fires else None
    after = (write.request for _, write in trace.commits if fired is not None and write.request >= fired)
    first = next(after, None)
    shown = _shown(trace)
    return {
        "commits": [_commit(trace, plan, commit, shown, place, write) for place, write in trace.commits],
        "steps_to_commit": None if first is None else _step(trace, first) - _step(trace, fired),
        "blind_retry": blind_retry(trace, world, commit),
        "lost_update": _lost_update(trace, plan, world, shown),
    }


class Shown(NamedTuple):
    """An observation that holds a watched value or a notice.

    `place` is where it stands in the ledger, `read` where the request stands whose page it shows: a frame may show the
    page of an earlier request once more, and what counts is what that request read.
    """

    place: int
    read: int
    frame: Frame


def _shown(trace: Trace) -> list[Shown]:
    places = {request.number: place for place, request in trace.requests}
    return [
        Shown(place, places.get(frame.request, -1), frame)
        for place, frame in trace.frames
        if frame.delivered or frame.notice
    ]


def _step(trace: Trace, request: int | None) -> int:
    found = trace.asked.get(-1 if request is None else request)
    return found.step if found else 0


def _commit(trace: Trace, plan: Plan, commit: Commit, shown: list[Shown], place: int, write: Write) -> dict[str, Any]:
    return {
        "request": write.request,
        "step": _step(trace, write.request),
        "row": write.key,
        "reread_before_commit": reread(trace, plan, place) is not None,
        "facts": [_lag(trace, plan, cell, shown, place) for cell in depends(plan, commit, write)],
    }


def depends(plan: Plan, commit: Commit, write: Write) -> list[Cell]:
    """The facts that a commit depends on: the plan's, and the watched values of the rows that it takes."""
    taken = {(item.table, write.columns.get(item.key_from, (None, None))[1]) for item in commit.consequences}
    return [plan.arm, *(cell for cell in plan.watched if cell[:2] in taken and cell != plan.arm)]


def _lag(trace: Trace, plan: Plan, cell: Cell, shown: list[Shown], committed: int) -> dict[str, Any]:
    """The version of a cell that the agent had been given last, and the one that it had at the commit."""
    written = [place for place, _ in _written(trace, cell) if place < committed]
    read = _read(trace, plan, cell, shown, committed)
    current = len(written)
    served = sum(place < read for place in written) if read >= 0 else None
    return {
        "cell": list(cell),
        "served": served,
        "current": current,
        "lag": None if served is None else current - served,
    }


def _written(trace: Trace, cell: Cell) -> list[tuple[int, Write]]:
    table, key, column = cell
    return [
        (place, write)
        for place, write in trace.writes
        if write.key == key and write.table == table and column in write.columns
    ]


def _read(trace: Trace, plan: Plan, cell: Cell, shown: list[Shown], before: int) -> int:
    """Where the request stands that read the cell as the agent was last given it before a place; -1 for none.

    A page gives it, and so does the notice that says how it changed, which is worded from the row.
    """
    told = changed_cell(plan) if plan.announced else None
    notice = trace.fired_at() if told is not None and told[0] == cell and trace.fires else before
    return max(
        (
            read
            for place, read, frame in shown
            if place < before
            and (any(item[:3] == cell for item in frame.delivered) or (frame.notice and place > notice))
        ),
        default=-1,
    )


def blind_retry(trace: Trace, world: World, commit: Commit) -> bool:
    """Whether the agent tried to commit again without having been shown what came of the try before.

    That is shown by the page to which that try led, whether it says that it is done or that it is refused, and by any
    page that names the row that it made.
    """
    tries = [
        (place, request)
        for place, request in trace.requests
        if request.actor == "agent" and request.method == "POST" and request.route == commit.route
    ]
    return any(
        not any(place < at < then and _shows(trace, world, request, frame) for at, frame in trace.frames)
        for (place, request), (then, _) in pairwise(tries)
    )


def _shows(trace: Trace, world: World, tried: Request, frame: Frame) -> bool:
    """Whether an observation shows what came of a try."""
    page = trace.asked.get(frame.request)
    if page and tried.location and page.path == tried.location.partition("?")[0] and page.status < 500:
        return True
    return any(
        name and name in frame.page
        for _, write in trace.commits
        if write.request == tried.number
        for name in references(trace, world, write)
    )


def references(trace: Trace, world: World, write: Write) -> list[str]:
    """The names by which a committed row is reported."""
    row = {name: new for name, (_, new) in write.columns.items()}
    said: Mapping[str, str] = world.describe(trace.replayed, row)
    return [said.get(name, "") for name, kind in world.report.items() if kind == "id"]


def _lost_update(trace: Trace, plan: Plan, world: World, shown: list[Shown]) -> bool:
    """Whether the agent wrote a row in which somebody else had changed a value since the agent was given it.

    Only watched values are looked at: of the others nothing tells when they were delivered. A value that is by then
    what it was is no loss. What the agent writes of volatile columns alone does not count.
    """
    free = volatile(world.metadata)
    for cell in plan.watched:
        written = _written(trace, cell)
        if all(write.actor == "agent" for _, write in written):
            continue
        for place, write in trace.writes:
            if write.actor != "agent" or (write.table, write.key) != cell[:2]:
                continue
            if write.columns and all((write.table, name) in free for name in write.columns):
                continue
            if _overtaken(written, cell[2], _read(trace, plan, cell, shown, place), place):
                return True
    return False


def _overtaken(written: list[tuple[int, Write]], column: str, read: int, until: int) -> bool:
    """Whether somebody else changed a value after it was read, and it is another one by then."""
    since = [write for place, write in written if read < place < until]
    if all(write.actor == "agent" for write in since):
        return False
    return since[0].columns[column][0] != since[-1].columns[column][1]
