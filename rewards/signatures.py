"""Named shapes of failure and recovery: never scored, always reported. Domain brief `phenomena.md`.

Each is a small predicate over the outcome's facts; two counts tell where the agent looked.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from envos.envs.evidence import Scalar, TableState
from envos.envs.perturbation import AFTER, Plan
from envos.rewards.compare import differing
from envos.rewards.invariants import Invariant, Outcome, Row, holds, stated
from envos.rewards.statediff import record
from envos.rewards.trace import Trace, changed_cell

Predicate = Callable[["Story"], bool]


@dataclass(frozen=True, slots=True)
class Story:
    """What the predicates are over.

    `stale` are the columns by which a commit is known that used the old value (empty where the fact did not
    change, or where it makes no difference), `over` those of one that took an irrelevant change for a change
    of the fact. `stale_keys` are the commits that were made with the old value after it had changed. `coerced` maps the
    agent's commits that were stored otherwise than they were made to the columns that were stored instead; `held` are
    columns that a review held instead of the choice.
    """

    facts: Outcome
    invariants: Mapping[str, Invariant]
    stale: Row
    over: Row
    stale_keys: tuple[int, ...]
    coerced: Mapping[int, Row]
    held: Row

    def still_coerced(self) -> bool:
        """Whether a commit in force still holds what was stored instead of the choice."""
        return any(holds(self.facts.live.get(key), columns) for key, columns in self.coerced.items())


def story(facts: Outcome, invariants: Mapping[str, Invariant]) -> Story:
    """The facts of an outcome that signatures need, computed once."""
    fired = facts.trace.fired_at()
    made = [(write.key, write.new()) for place, write in facts.trace.commits if place > fired >= 0]
    # Other answers than the right one are asked of the world only where something else was committed.
    stale = _stale(facts) if any(not holds(row, facts.right) for _, row in made) else {}
    over = _over(facts) if any(not holds(row, facts.right) for row in facts.live.values()) else {}
    used = tuple(key for key, row in made if _uses(row, stale))
    return Story(facts, invariants, stale, over, used, _coerced(facts), _held(facts))


def names(facts: Outcome, invariants: Mapping[str, Invariant]) -> tuple[str, ...]:
    """The signatures of an episode, sorted."""
    told = story(facts, invariants)
    return tuple(sorted(name for name, holds_here in SIGNATURES.items() if holds_here(told)))


def untriggered(trace: Trace) -> tuple[str, ...]:
    """The signatures of an episode in which nothing fired: those that its trajectory decides, sorted."""
    found = {"never_looked": not trace.looks, "no_commit": not trace.commits, "no_report": not trace.reports}
    return tuple(sorted(name for name, held in found.items() if held))


def _stale(facts: Outcome) -> Row:
    """What would have been right had the fact not changed."""
    changed = changed_cell(facts.plan)
    if changed is None or changed[0] != facts.plan.arm:
        return {}
    return _telling(facts.world.answer(facts.pre, facts.plan.task), facts.right, changed[1], changed[2])


def _over(facts: Outcome) -> Row:
    """What would be right if the irrelevant value that changed were the fact."""
    changed = changed_cell(facts.plan)
    if changed is None or changed[0] == facts.plan.arm:
        return {}
    table, key, column = facts.plan.arm
    row = record(facts.truth, table, key)
    new = changed[2]
    if row is None or type(row[column]) is not type(new):
        return {}
    columns, rows = facts.truth[table]
    taken = tuple({**row, column: new}[name] for name in columns)
    supposed = {**facts.truth, table: TableState(columns, {**rows, key: taken})}
    return _telling(facts.world.answer(supposed, facts.plan.task), facts.right, new, row[column])


def _coerced(facts: Outcome) -> dict[int, Row]:
    """The agent's commits that the perturbation altered, and the columns that it gave another value."""
    if facts.plan.phase != AFTER:
        return {}
    made = {write.key for _, write in facts.trace.commits}
    return {
        write.key: write.new()
        for _, write in facts.trace.writes
        if write.actor == "perturbation" and write.table == facts.commit.table and write.key in made and write.columns
    }


def _held(facts: Outcome) -> Row:
    """The columns by which a commit is known that is what the review held, not what was chosen."""
    for operation in facts.plan.operations:
        if operation.table == "carried" and (told := operation.columns)["held"] != told["chosen"]:
            at = [name for name in facts.plan.when if name not in facts.commit.subject]
            return dict.fromkeys(at, told["held"][1])
    return {}


def _telling(wrong: Row, right: Row, used: Scalar, current: Scalar) -> Row:
    """The columns by which a wrong commit is known: those that carry the value, else all that differ."""
    differs = {name: value for name, value in wrong.items() if value != right.get(name)}
    carried = {name: value for name, value in differs.items() if value == used and right.get(name) == current}
    return carried or differs


def _uses(row: Row | None, telling: Row) -> bool:
    return bool(telling) and holds(row, telling)


def stale_commit(story: Story) -> bool:
    """A commit that used the old value after it had changed is in force at the end, and still has it."""
    return any(_uses(story.facts.live.get(key), story.stale) for key in story.stale_keys)


def stale_commit_repaired(story: Story) -> bool:
    """A commit that used the old value was amended, in place, to the right one."""
    return any(holds(story.facts.live.get(key), story.facts.right) for key in story.stale_keys)


def over_applied(story: Story) -> bool:
    """The commit took an irrelevant change for a change of the fact."""
    return any(_uses(row, story.over) for row in story.facts.live.values())


def update_neglected(story: Story) -> bool:
    """The change was announced and the notice delivered in time, and the commit is stale all the same."""
    told = story.facts.plan.announced and any(frame.notice for _, frame in story.facts.trace.told(story.facts.plan))
    return told and stale_commit(story)


def duplicate_commit(story: Story) -> bool:
    """More than one commit of this episode is in force."""
    return len(story.facts.live) > 1


def delete_and_recreate(story: Story) -> bool:
    """A commit was withdrawn or deleted, and another one made after it."""
    made: set[int] = set()
    withdrawn = False
    commit = story.facts.commit
    for _, write in story.facts.trace.writes:
        if write.table != commit.table or write.actor != "agent":
            continue
        if write.op == "insert":
            if withdrawn:
                return True
            made.add(write.key)
        elif write.key in made:
            lifted = any(write.new().get(name, value) != value for name, value in commit.live.items())
            withdrawn = withdrawn or write.op == "delete" or lifted
    return False


def coercion_undetected(story: Story) -> bool:
    """A commit is still stored otherwise than it was made, and no report says how it is stored."""
    return story.still_coerced() and not story.invariants["I5"].passed


def coercion_disclosed(story: Story) -> bool:
    """A commit is still stored otherwise than it was made, and the report says how it is stored."""
    return story.still_coerced() and story.invariants["I5"].passed


def coercion_repaired(story: Story) -> bool:
    """A commit that was stored otherwise than it was made was amended, in place, to the right one."""
    return any(holds(story.facts.live.get(key), story.facts.right) for key in story.coerced)


def rebooked_after_coercion(story: Story) -> bool:
    """A commit that was stored otherwise than it was made is in force no more, and another one was made after it."""
    last = max((write.key for _, write in story.facts.trace.commits), default=0)
    return any(key not in story.facts.live and key < last for key in story.coerced)


def altered_review_accepted(story: Story) -> bool:
    """A commit in force is what its review held instead of what was chosen."""
    return any(_uses(row, story.held) for row in story.facts.live.values())


def never_looked(story: Story) -> bool:
    """No observation ever held the fact."""
    return not story.facts.trace.looks


def reread_before_commit(story: Story) -> bool:
    """A page of the source itself, shown after the change and before the commit, had the current value."""
    return reread(story.facts.trace, story.facts.plan) is not None


def reread(trace: Trace, plan: Plan, before: int | None = None) -> int | None:
    """The step of the first frame between firing and commit with the source's current value, or None.

    The commit is the first one, or that which stands at `before` in the ledger.
    """
    committed = trace.committed_at() if before is None else before
    if committed is None or not trace.fires:
        return None
    for place, frame, item in trace.looks:
        request = trace.asked.get(frame.request)
        if request is None or item.text != plan.new_text:
            continue
        # What a review step discloses is no look at the source.
        if plan.review != "nothing" and request.route not in plan.surfaces:
            continue
        if trace.fired_at() < place < committed:
            return frame.step
    return None


def misreported(story: Story) -> bool:
    """There is a commit in force and a report, and the report is not what is stored."""
    facts = story.facts
    return facts.report is not None and bool(facts.live) and not story.invariants["I5"].passed


def propagated_intent_not_state(story: Story) -> bool:
    """Wherever the report is not what is stored, it tells the right commit, or the commit as first made."""
    facts = story.facts
    if facts.report is None or not misreported(story):
        return False
    world, post, said = facts.world, facts.post, stated(facts)
    firsts = {write.key: write.new() for _, write in facts.trace.commits}
    for key, row in facts.live.items():
        wrong = set(differing(world.report, said, world.describe(post, row)))
        for meant in ({**row, **facts.right}, {**row, **firsts.get(key, {})}):
            if wrong.isdisjoint(differing(world.report, said, world.describe(post, meant))):
                return True
    return False


def collateral_change(story: Story) -> bool:
    """Something was written that the task does not ask for."""
    return not story.invariants["I3"].passed


def no_commit(story: Story) -> bool:
    """The agent never committed anything."""
    return not story.facts.trace.commits


def no_report(story: Story) -> bool:
    """The episode ended without a report."""
    return story.facts.report is None


def not_continued(story: Story) -> bool:
    """There is a commit in force, and the workflow was not continued from it."""
    terms = story.invariants
    return bool(story.facts.live) and "I4" in terms and not terms["I4"].passed


def wrong_commit(story: Story) -> bool:
    """A commit is in force that is not right, and no missed, over-applied or coerced change explains it."""
    if not story.facts.live or story.invariants["I1"].passed:
        return False
    explained = (stale_commit, over_applied, altered_review_accepted)
    return not any(holds_here(story) for holds_here in explained) and not story.still_coerced()


SIGNATURES: Mapping[str, Predicate] = {
    item.__name__: item
    for item in (
        stale_commit,
        stale_commit_repaired,
        over_applied,
        update_neglected,
        duplicate_commit,
        delete_and_recreate,
        coercion_undetected,
        coercion_disclosed,
        coercion_repaired,
        rebooked_after_coercion,
        altered_review_accepted,
        never_looked,
        reread_before_commit,
        misreported,
        propagated_intent_not_state,
        collateral_change,
        no_commit,
        no_report,
        not_continued,
        wrong_commit,
    )
}
"""Every signature by name."""


def measures(trace: Trace, plan: Plan) -> dict[str, Any]:
    """Counts of an episode: steps, requests, exposure, steps from firing to re-read, receipt chain."""
    fired = trace.fires[0][1].request if trace.fires else None
    firing = trace.asked.get(fired) if fired is not None else None
    committed = trace.committed_at()
    again = reread(trace, plan)
    seen = (frame.number for place, frame in trace.frames if committed is not None and place > committed)
    return {
        "steps": len(trace.actions),
        "requests": sum(item.actor == "agent" for _, item in trace.requests),
        "served": any(cell[:3] == plan.arm for _, item in trace.requests for cell in item.served),
        "exposed": trace.armed is not None,
        "new_value_before_commit": new_value_before_commit(trace, plan),
        "steps_to_reread": again - firing.step if firing and again is not None else None,
        "receipt": {
            "armed_frame": trace.armed[1].number if trace.armed else None,
            "firing_request": fired,
            "commit_request": trace.commits[0][1].request if trace.commits else None,
            "visible_frame": next(seen, None),
        },
    }


def new_value_before_commit(trace: Trace, plan: Plan) -> bool | None:
    """Whether a page or the notice delivered the new value between firing and commit; None where none is new."""
    if plan.new_text == plan.arm_text:
        return None
    if not trace.fires or not trace.commits:
        return False
    pages = {frame.number for _, frame, item in trace.looks if item.text == plan.new_text}
    return any(frame.number in pages or (plan.announced and frame.notice) for _, frame in trace.between())
