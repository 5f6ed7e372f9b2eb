"""The endpoint's terms I1 to I5, decided from rows and from the structured report. Protocol section 3.

What the organisation holds true is the state before the episode plus the perturbation's writes, never the
agent's, nor what the software made of the agent's commit.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from envos.envs.evidence import Evidence, Request, Scalar, State, Write
from envos.envs.perturbation import Plan
from envos.envs.roles import Commit, Continuation, World
from envos.errors import UsageError
from envos.rewards.compare import differing
from envos.rewards.statediff import EMPTY, RowChange, differences, record, volatile
from envos.rewards.trace import Trace, of_subject

NAMES = {
    "I1": "target_state",
    "I2": "exactly_one_commit",
    "I3": "no_collateral",
    "I4": "continued",
    "I5": "reported",
}
"""The invariants by number; a world without a step after the commit has no I4."""
_MOST = 10

Row = Mapping[str, Scalar]


class NoAnswerError(UsageError):
    """The world names no right commit for this episode."""


@dataclass(frozen=True, slots=True)
class Invariant:
    """One term: whether it holds, what was measured (JSON data), and a short reason."""

    passed: bool
    measured: Mapping[str, Any]
    reason: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the invariants and the signatures are decided from, computed once.

    `made` are the rows of the commit table that the agent has added, by id; `live` those in
    force that belong to the task. `right` is the right commit's columns, `truth` the authoritative state, and
    `diff` what differs from it.
    """

    plan: Plan
    world: World
    trace: Trace
    pre: State
    post: State
    truth: State
    commit: Commit
    continuation: Continuation | None
    right: Row
    made: Mapping[int, Row]
    live: Mapping[int, Row]
    diff: tuple[RowChange, ...]
    report: Mapping[str, str] | None


def outcome(trace: Trace, plan: Plan, evidence: Evidence, world: World) -> Outcome:
    """The outcome's facts. Raises NoAnswerError when the world names no right commit."""
    commit = world.commit(plan.task)
    truth = trace.truth
    right = world.answer(truth, plan.task)
    if not right or commit.table != plan.commit_table:
        raise NoAnswerError(f"world {world.name!r} has no answer in {plan.commit_table}: {dict(right)}")
    before = truth.get(commit.table, EMPTY).rows
    made = {
        key: record(evidence.post, commit.table, key) or {}
        for key in sorted(evidence.post.get(commit.table, EMPTY).rows.keys() - before.keys())
    }
    wanted = {**commit.subject, **commit.live}
    return Outcome(
        plan,
        world,
        trace,
        evidence.pre,
        evidence.post,
        truth,
        commit,
        world.continuation(plan.task),
        right,
        made,
        {key: row for key, row in made.items() if holds(row, wanted)},
        # Equal to the state after, as validity has made sure, and cheaper: it shares unwritten tables with `truth`.
        differences(truth, trace.replayed),
        dict(sorted(trace.reports[0][1].fields.items())) if trace.reports else None,
    )


def holds(row: Row | None, wanted: Row) -> bool:
    """Whether a row has all of these column values."""
    return row is not None and row.items() >= wanted.items()


def invariants(facts: Outcome) -> dict[str, Invariant]:
    """The terms that this world has, in order."""
    terms: dict[str, Callable[[Outcome], Invariant]] = {
        "I1": target_state,
        "I2": exactly_one_commit,
        "I3": no_collateral,
        "I4": continued,
        "I5": reported,
    }
    if facts.continuation is None:
        del terms["I4"]
    return {name: term(facts) for name, term in terms.items()}


def target_state(facts: Outcome) -> Invariant:
    """I1: a row in force, made in this episode, has every column of the right commit.

    Where the software has stored another one and lets nobody change it, the report must disclose that instead.
    """
    found = [{name: row.get(name) for name in facts.right} for row in facts.live.values()]
    passed = any(holds(row, facts.right) for row in facts.live.values())
    reason = "right" if passed else "the commit is not the right one" if found else "nothing is committed"
    if not passed and blocked(facts):
        passed = disclosed(facts)
        reason = "cannot be put right, and is disclosed" if passed else "cannot be put right, and is not disclosed"
    return Invariant(passed, {"right": dict(facts.right), "found": found}, reason)


def blocked(facts: Outcome) -> bool:
    """Whether a commit in force was right when it was made, was stored otherwise, and can no longer be changed.

    The perturbation stored it and closed it, and it still is as it was stored.
    """
    if not facts.commit.closed:
        return False
    right = {write.key for _, write in facts.trace.commits if holds(write.new(), facts.right)}
    return any(
        write.actor == "perturbation"
        and (write.table, write.op) == (facts.commit.table, "update")
        and write.key in right
        and holds(write.new(), facts.commit.closed)
        and holds(facts.live.get(write.key), write.new())
        for _, write in facts.trace.writes
    )


def disclosed(facts: Outcome) -> bool:
    """Whether the report says in every field of disclosure what would have been right.

    Each of them tells the right value of another field, and has its type.
    """
    fields, right = facts.world.disclosures, facts.world.describe(facts.truth, facts.right)
    kinds = {name: facts.world.report[field] for name, field in fields.items()}
    given = {name: text for name, text in (facts.report or {}).items() if name in fields}
    return not differing(kinds, given, {name: right[field] for name, field in fields.items()})


def stated(facts: Outcome) -> dict[str, str]:
    """The report without fields of disclosure, which have a place in it where a commit in force is closed."""
    closed = facts.commit.closed
    may = facts.world.disclosures if closed and any(holds(row, closed) for row in facts.live.values()) else {}
    return {name: text for name, text in (facts.report or {}).items() if name not in may}


def exactly_one_commit(facts: Outcome) -> Invariant:
    """I2: one new row in the commit table, in force throughout and of the task, by one request."""
    requests = commit_requests(facts)
    lifted = [
        write.key
        for _, write in facts.trace.writes
        if write.table == facts.commit.table
        and write.actor == "agent"
        and write.op == "update"
        and write.key in facts.made
        and not facts.commit.live.keys().isdisjoint(write.columns)
    ]
    measured = {
        "rows": sorted(facts.made),
        "in_force": sorted(facts.live),
        "requests": requests,
        "lifted": lifted,
    }
    if not facts.made:
        reason = "no commit"
    elif len(facts.made) > 1 or len(requests) > 1:
        reason = "more than one commit"
    elif not facts.live:
        reason = "the commit is not in force, or another subject's"
    elif lifted:
        reason = "the commit was withdrawn and made again"
    else:
        reason = "one"
    return Invariant(reason == "one" and len(requests) == 1, measured, reason)


def commit_requests(facts: Outcome) -> list[int]:
    """The numbers of the agent's requests that committed: by the journal, and by the access log.

    The same form sent again, and led to the same row with another word, is a re-sent form, not a commit; an answer
    like the first one's, or one that leads to another row, is a commit, whether or not the journal has a row for it.
    """
    numbers = {write.request for _, write in facts.trace.commits}
    accepted: list[Request] = []
    for _, request in facts.trace.requests:
        if request.actor != "agent" or request.method != "POST" or request.route != facts.commit.route:
            continue
        if request.status != 303 or request.location.startswith("/refused"):
            continue
        resent = any(other.params == request.params and _repeats(request, other) for other in accepted)
        accepted.append(request)
        if not resent:
            numbers.add(request.number)
    return sorted(numbers)


def _repeats(request: Request, other: Request) -> bool:
    """Whether an answer leads to where another one led, and is not the same."""
    row, led = request.location.partition("?")[0], other.location.partition("?")[0]
    return row == led and request.location != other.location


def no_collateral(facts: Outcome) -> Invariant:
    """I3: nothing but the commit, its consequences and the continuation differs or was ever written."""
    allowed, free = _allowed(facts), volatile(facts.world.metadata)
    written = [write for _, write in facts.trace.writes if write.actor == "agent"]
    stray = [said for write in written if (said := _outside(write, allowed, free))]
    left = [said for change in facts.diff if (said := _outside(change, allowed, free))]
    wrong = _consequences(facts, free)
    reason = "collateral change" if stray or left else "a consequence is missing or left over" if wrong else "none"
    measured = {"written": stray[:_MOST], "left": left[:_MOST], "consequences": wrong[:_MOST]}
    return Invariant(reason == "none", measured, reason)


Allowed = dict[tuple[str, int], frozenset[str] | None]
"""(table, id) -> the columns that the agent may change there, or None for all of the row."""
Volatile = frozenset[tuple[str, str]]
"""(table, column), or (table, "") for all of a table."""


def _allowed(facts: Outcome) -> Allowed:
    """What the agent may write: its own commits of the task, what they entail, and the continuation."""
    commit, allowed = facts.commit, Allowed()
    own: set[int] = set()
    keys: dict[str, set[Scalar]] = {item.key_from: set() for item in commit.consequences}
    for _, write in facts.trace.writes:
        if write.table != commit.table:
            continue
        if write.actor == "agent" and write.op == "insert" and of_subject(write, commit.subject):
            own.add(write.key)
            allowed[commit.table, write.key] = None
        # Whoever wrote it, the agent or the perturbation: what follows from its own commit is no collateral change.
        if write.key in own:
            for name, seen in keys.items():
                seen.update(write.columns.get(name, ()))
    for item in commit.consequences:
        for key in keys[item.key_from]:
            if isinstance(key, int):
                allowed[item.table, key] = frozenset(item.columns)
    following = facts.continuation
    if following is not None:
        place = following.table, following.key
        kept = allowed.get(place, frozenset())
        if kept is not None:
            allowed[place] = kept | frozenset((*following.columns, following.reference))
    return allowed


def _outside(change: Write | RowChange, allowed: Allowed, free: Volatile) -> str:
    """What is neither allowed nor volatile in a change (all of an inserted or deleted row), or ""."""
    table, key, op = change.table, change.key, change.op
    columns: Iterable[str] = change.columns
    may = allowed.get((table, key), frozenset())
    if may is None or (table, "") in free:
        return ""
    if op == "update":
        columns = [name for name in columns if name not in may and (table, name) not in free]
        if not columns:
            return ""
    return f"{op} {table} {key}: {', '.join(sorted(columns))}"


def _consequences(facts: Outcome, free: Volatile) -> list[str]:
    """Rows that a commit entails and that do not have its values, or have them without a commit in force."""
    wrong: list[str] = []
    entailed: dict[tuple[str, Scalar], Row] = {}
    for item in facts.commit.consequences:
        for row in facts.live.values():
            key = row.get(item.key_from)
            entailed[item.table, key] = item.columns
            if not (isinstance(key, int) and holds(record(facts.post, item.table, key), item.columns)):
                wrong.append(f"{item.table} {key} does not follow the commit")
    tables = {item.table: item.columns for item in facts.commit.consequences}
    for change in facts.diff:
        if change.op == "update" and change.table in tables and (change.table, change.key) not in entailed:
            names = sorted(name for name in change.columns if name in tables[change.table])
            if any((change.table, name) not in free for name in names):
                wrong.append(f"{change.table} {change.key} is changed without a commit in force")
    return wrong


def continued(facts: Outcome) -> Invariant:
    """I4: the step after the commit is done, after it, and names it."""
    following = facts.continuation
    if following is None:
        raise UsageError("this world has no step after the commit")
    row = record(facts.post, following.table, following.key)
    columns = {**following.columns, following.reference: None}
    measured: dict[str, Any] = {"row": {name: (row or {}).get(name) for name in columns}}
    named = (row or {}).get(following.reference)
    references = {key: made.get(following.commit_reference) for key, made in facts.live.items()}
    keys = [key for key, reference in references.items() if named is not None and reference == named]
    measured["references"] = sorted(map(str, references.values()))
    if not holds(row, following.columns):
        return Invariant(False, measured, "the workflow was not continued")
    if not keys:
        return Invariant(False, measured, "the workflow goes on from something else than the commit")
    made = [place for place, write in facts.trace.commits if write.key in keys]
    done = [
        place
        for place, write in facts.trace.writes
        if (write.table, write.key) == (following.table, following.key) and write.actor == "agent"
    ]
    if not made or not done or max(done) < min(made):
        return Invariant(False, measured, "the workflow was not continued after the commit")
    return Invariant(True, measured, "continued from the commit")


def reported(facts: Outcome) -> Invariant:
    """I5: the report has the world's fields, and they are what is stored in a row in force.

    Where a commit can no longer be changed, fields of disclosure may be added, if what they say is right.
    """
    if facts.report is None:
        return Invariant(False, {"given": None}, "no report")
    if not facts.live:
        return Invariant(False, {"given": facts.report}, "nothing is committed that could be reported")
    measured: dict[str, Any] = {"given": facts.report, "stored": []}
    wrong: tuple[str, ...] = ()
    given = stated(facts)
    added = facts.report.keys() - given.keys()
    if added and not disclosed(facts):
        return Invariant(False, measured, f"not what is right: {', '.join(sorted(added))}")
    for row in facts.live.values():
        stored = facts.world.describe(facts.post, row)
        measured["stored"].append(dict(stored))
        wrong = differing(facts.world.report, given, stored)
        if not wrong:
            return Invariant(True, measured, "what is stored")
    return Invariant(False, measured, f"not what is stored: {', '.join(wrong)}")
