"""Whether journal, state and pages tell one story: the writes are replayed over the state before."""

from collections.abc import Mapping

from envos.envs.evidence import Evidence, Request, Scalar, State, Write
from envos.envs.roles import World
from envos.rewards.statediff import EMPTY, Replay, differences, record
from envos.rewards.trace import GUARD, Reason, Trace

_MOST = 5
"""Differing rows that a reason list names."""

Shown = Mapping[tuple[str, int, str], str]


def journal(trace: Trace, evidence: Evidence, world: World) -> tuple[list[Reason], list[Reason]]:
    """What contradicts itself, and which pages were stale (served another value than the row had then)."""
    found = _tables(evidence, world)
    stale: list[Reason] = []
    running = Replay(evidence.pre)
    texts: dict[tuple[str, int, str], str | None] = {}
    for place, item in enumerate(evidence.records):
        if type(item) is Write:
            said = running.apply(item)
            texts.clear()
            if said:
                found.append(Reason("journal_contradicts", place, said))
        elif type(item) is Request and item.served:
            for table, key, column, text in item.served:
                cell = (table, key, column)
                if cell not in texts:
                    texts[cell] = shown(running.state, world, cell)
                if texts[cell] != text:
                    detail = f"request {item.number} served {text!r} for {table} {key} {column}"
                    stale.append(Reason("stale_page", place, detail))
    trace.replayed = running.state
    if running.state != evidence.post:
        for row in differences(running.state, evidence.post)[:_MOST]:
            found.append(
                Reason(
                    "state_contradicts",
                    -1,
                    f"{row.table} {row.key} is not as written: {', '.join(row.columns)}",
                )
            )
    found += _guard(trace, evidence)
    return found, stale


def shown(state: State, world: World, cell: tuple[str, int, str]) -> str | None:
    """A cell as pages show it, or None where there is no such cell."""
    table, key, column = cell
    row = record(state, table, key)
    if row is None or column not in row:
        return None
    value: Scalar = row[column]
    return world.display(state, table, column, value)


def _tables(evidence: Evidence, world: World) -> list[Reason]:
    found = []
    for name in world.metadata.tables:
        for moment, state in (("before", evidence.pre), ("after", evidence.post)):
            if name not in state:
                found.append(Reason("table_missing", -1, f"the state {moment} has no table {name}"))
    return found


def _guard(trace: Trace, evidence: Evidence) -> list[Reason]:
    """The guard's rows against the firings: a row names the request of a firing, and some row must."""
    fired = {fire.request for _, fire in trace.fires}
    before, after = evidence.pre.get(GUARD, EMPTY), evidence.post.get(GUARD, EMPTY)
    guarded = [record(evidence.post, GUARD, key) or {} for key in after.rows]
    requests = {row.get("request") for row in guarded}
    if before.rows or requests - fired or (fired and not requests) or len(guarded) > len(trace.fires):
        said = f"{len(guarded)} guard rows for {len(trace.fires)} firings"
        return [Reason("guard_contradicts", -1, said)]
    if not fired:
        for place, write in trace.writes:
            if write.actor == "perturbation":
                return [Reason("write_unfired", place, "the perturbation wrote and there is no firing")]
    return []
