"""What the agent had been shown when it acted: version lags, lost updates, blind retries. Reported, never scored.

A version of a cell is the number of writes to it so far in the episode, whoever made them. The lag of a commit is how
many came between the page that last delivered the cell to the agent and the commit.
"""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

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
    return {
        "commits": [_commit(trace, plan, commit, place, write) for place, write in trace.commits],
        "steps_to_commit": None if first is None else _step(trace, first) - _step(trace, fired),
        "blind_retry": blind_retry(trace, plan, world, commit),
        "lost_update": lost_update(trace, plan, world),
    }


def _step(trace: Trace, request: int | None) -> int:
    found = trace.asked.get(-1 if request is None else request)
    return found.step if found else 0


def _commit(trace: Trace, plan: Plan, commit: Commit, place: int, write: Write) -> dict[str, Any]:
    return {
        "request": write.request,
        "step": _step(trace, write.request),
        "row": write.key,
        "reread_before_commit": reread(trace, plan, place) is not None,
        "facts": [_lag(trace, plan, cell, place) for cell in depends(plan, commit, write)],
    }


def depends(plan: Plan, commit: Commit, write: Write) -> list[Cell]:
    """The facts that a commit depends on: the plan's, and the watched values of the rows that it takes."""
    taken = {(item.table, write.columns.get(item.key_from, (None, None))[1]) for item in commit.consequences}
    return [plan.arm, *(cell for cell in plan.watched if cell[:2] in taken and cell != plan.arm)]


def _lag(trace: Trace, plan: Plan, cell: Cell, committed: int) -> dict[str, Any]:
    """The version of a cell that the agent had been given last, and the one that it had at the commit."""
    written = [place for place, write in trace.writes if place < committed and _touches(write, cell)]
    places = {request.number: place for place, request in trace.requests}
    told = changed_cell(plan)
    seen = -1
    for place, frame in trace.frames:
        # A frame may show the page of an earlier request once more: what counts is what that request read.
        if place < committed and _delivers(trace, plan, frame, place, cell, told is not None and told[0] == cell):
            seen = max(seen, places.get(frame.request, -1))
    current = len(written)
    served = sum(place < seen for place in written) if seen >= 0 else None
    return {
        "cell": list(cell),
        "served": served,
        "current": current,
        "lag": None if served is None else current - served,
    }


def _touches(write: Write, cell: Cell) -> bool:
    return write.table == cell[0] and write.key == cell[1] and cell[2] in write.columns


def _delivers(trace: Trace, plan: Plan, frame: Frame, place: int, cell: Cell, changes: bool) -> bool:
    """Whether an observation holds the cell's value: marked in the page, or in the notice that says how it changed."""
    if any(item[:3] == cell for item in frame.delivered):
        return True
    return changes and plan.announced and bool(frame.notice) and place > trace.fired_at() >= 0


def blind_retry(trace: Trace, plan: Plan, world: World, commit: Commit) -> bool:
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


def lost_update(trace: Trace, plan: Plan, world: World) -> bool:
    """Whether the agent wrote a row that somebody else had changed since it was last delivered to the agent.

    Only rows with a watched value are looked at: of the others nothing tells when they were delivered. Volatile columns
    do not count.
    """
    free = volatile(world.metadata)
    places = {request.number: place for place, request in trace.requests}
    for row in sorted({cell[:2] for cell in plan.watched}):
        written = [(place, write) for place, write in trace.writes if (write.table, write.key) == row]
        changed = -1
        for place, write in written:
            if write.op == "update" and write.columns and all((row[0], name) in free for name in write.columns):
                continue
            if write.actor != "agent":
                changed = place
            elif changed >= 0 and not _delivered(trace, row, changed, place, places):
                return True
    return False


def _delivered(trace: Trace, row: tuple[str, int], since: int, until: int, places: Mapping[int, int]) -> bool:
    """Whether a page that was read after one place in the ledger delivered the row before another one."""
    return any(
        since < places.get(frame.request, -1) and place < until
        for place, frame in trace.frames
        if any(item[:2] == row for item in frame.delivered)
    )
