"""Corruptions of an episode's evidence: each must cost the episode its validity (protocol section 9).

They are consistent where they can be: numbers, digests and states are made anew, so that only the named fault is left.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from envos.certify.forgery import Draft, applied, bump, row_of
from envos.certify.log import GUARD, PERTURBATION
from envos.envs.evidence import (
    Action,
    End,
    Evidence,
    Fault,
    Fire,
    Frame,
    Report,
    Request,
    Served,
    Start,
    TableState,
    Write,
)

HARNESS, TRIGGER, DELIVERY = "harness_error", "trigger_invalid", "delivery_ambiguous"
INFRA, REJECTED = "infra_failure", "infra_rejected"


Make = Callable[[Draft], Evidence | None]


@dataclass(frozen=True, slots=True)
class Corruption:
    """One fault: the validity classes that it may have, and what makes the evidence (None where it does not apply)."""

    name: str
    validity: frozenset[str]
    make: Make


_FOUND: list[Corruption] = []


def corruption(*validity: str) -> Callable[[Make], Make]:
    """Register what makes a corruption, under its own name, with the validity classes that it may have."""

    def keep(make: Make) -> Make:
        _FOUND.append(Corruption(make.__name__, frozenset(validity), make))
        return make

    return keep


@corruption(HARNESS)
def truncated(draft: Draft) -> Evidence:
    """The last third of the trajectory is missing."""
    del draft.records[2 * len(draft.records) // 3 :]
    return draft.evidence()


@corruption(HARNESS)
def unended(draft: Draft) -> Evidence:
    """The last line is missing."""
    draft.remove(draft.find(End))
    return draft.evidence()


@corruption(HARNESS)
def missing(draft: Draft) -> Evidence:
    """There is no trajectory at all."""
    return Evidence((), draft.pre, draft.pre)


@corruption(HARNESS)
def unstarted(draft: Draft) -> Evidence:
    """The first line is missing."""
    draft.remove(draft.find(Start))
    return draft.evidence()


@corruption(HARNESS)
def dropped_step(draft: Draft) -> Evidence:
    """One step is missing: its request, its action, the observation that it led to."""
    step = draft.original.steps // 2
    for kind in (Action, Request, Frame):
        draft.remove(draft.find(kind, lambda item: item.step == step))
    return draft.evidence()


@corruption(HARNESS)
def dropped_request(draft: Draft) -> Evidence:
    """One line of the access log is missing."""
    draft.remove([draft.middle(Request)])
    return draft.evidence()


@corruption(HARNESS)
def undelivered_frame(draft: Draft) -> Evidence:
    """One observation was never handed over."""
    draft.remove([draft.middle(Frame)])
    return draft.evidence()


@corruption(HARNESS)
def swapped_frames(draft: Draft) -> Evidence:
    """Two observations stand in each other's place."""
    draft.swap(Frame)
    return draft.evidence()


@corruption(HARNESS)
def edited_frame(draft: Draft) -> Evidence:
    """An observation holds another text than its digest covers."""
    place = draft.middle(Frame)
    frame = draft.frame_at(place)
    draft.edit(place, page=frame.page + "\nedited")
    return draft.evidence()


@corruption(HARNESS)
def unread_frame(draft: Draft) -> Evidence:
    """An observation and its digest were changed, and the action still answers the old one."""
    place = draft.middle(Frame)
    frame = draft.frame_at(place)
    answers = {at: draft.records[at] for at in draft.find(Action, lambda item: item.frame == frame.number)}
    draft.reframe(place, page=frame.page + "\nedited")
    for at, action in answers.items():
        draft.records[at] = action
    return draft.evidence()


@corruption(HARNESS)
def reordered(draft: Draft) -> Evidence:
    """Two actions stand in each other's place."""
    draft.swap(Action)
    return draft.evidence()


@corruption(HARNESS)
def surplus(draft: Draft) -> Evidence:
    """A line follows the end."""
    draft.records.append(draft.records[-1])
    return draft.evidence()


@corruption(TRIGGER)
def fired_twice(draft: Draft) -> Evidence:
    """The firing stands twice, in the same request."""
    place = draft.find(Fire)[0]
    draft.records.insert(place, draft.records[place])
    return draft.evidence()


@corruption(HARNESS)
def fired_unguarded(draft: Draft) -> Evidence:
    """The guard's row was never written."""
    draft.remove(draft.find(Write, lambda item: item.table == GUARD))
    return draft.evidence()


@corruption(TRIGGER)
def fired_early(draft: Draft) -> Evidence:
    """The change stands before the request that served the old value."""
    armed = draft.original.log.armed
    number = armed[1].request if armed else 2
    draft.move_change(draft.find(Request, lambda item: item.number == number)[0], number)
    return draft.evidence()


@corruption(HARNESS, TRIGGER, DELIVERY)
def fired_late(draft: Draft) -> Evidence:
    """The change stands after the commit; what a condition promises comes too late as well, or contradicts itself."""
    commit = draft.write_at(draft.committed()).request
    place = draft.find(Request, lambda item: item.number == commit + 1)[0]
    draft.move_change(place, commit + 1)
    return draft.evidence()


@corruption(TRIGGER)
def fired_by_harness(draft: Draft) -> Evidence:
    """The request that fired was the harness's."""
    draft.edit(draft.firing(), actor="harness")
    return draft.evidence()


@corruption(HARNESS)
def fired_in_redirect(draft: Draft) -> Evidence:
    """The request that fired was a redirect that the agent did not ask for."""
    draft.edit(draft.firing(), via="redirect")
    return draft.evidence()


@corruption(HARNESS)
def armed_by_redirect(draft: Draft) -> Evidence:
    """The page that armed was reached by a redirect."""
    surfaces = draft.original.plan.surfaces
    number = draft.records[draft.firing()].number  # type: ignore[union-attr]
    for place in draft.find(Request, lambda item: item.route in surfaces and item.number < number):
        draft.edit(place, via="redirect")
    return draft.evidence()


@corruption(TRIGGER)
def undeclared_write(draft: Draft) -> Evidence:
    """The perturbation wrote one row more than planned."""
    fire = draft.find(Fire)[0]
    record = draft.records[fire]
    key, row = draft.bystander()
    name = next(name for name, value in row.items() if isinstance(value, str))
    columns = {name: (row[name], bump(row[name]))}
    number = record.request  # type: ignore[union-attr]
    draft.records.insert(fire, Write(number, PERTURBATION, "update", draft.commit.table, key, columns))
    return draft.evidence()


@corruption(TRIGGER)
def missing_write(draft: Draft) -> Evidence:
    """The perturbation left one of its operations out."""
    writes = draft.find(Write, lambda item: item.actor == PERTURBATION and item.table != GUARD)
    draft.remove(writes[1:2] or writes)
    return draft.evidence()


@corruption(TRIGGER)
def stale_page(draft: Draft) -> Evidence | None:
    """After the change, a page still served the old value, and the observation holds it."""
    plan = draft.original.plan
    if plan.new_text == plan.arm_text:
        return None
    firing = draft.firing()
    served = Served(*plan.arm, plan.arm_text)
    for place in draft.find(Request):
        request = draft.records[place]
        if place >= firing and isinstance(request, Request):
            cells = tuple(served if item[:3] == plan.arm else item for item in request.served)
            draft.edit(place, served=cells)
    for place in draft.find(Frame):
        frame = draft.frame_at(place)
        marks = [item for item in frame.delivered if item[:3] == plan.arm]
        if place < firing or not marks:
            continue
        at, moved = marks[0].offset, len(plan.arm_text) - len(plan.new_text)
        page = frame.page[:at] + plan.arm_text + frame.page[at + len(plan.new_text) :]
        delivered = tuple(
            item._replace(text=plan.arm_text)
            if item is marks[0]
            else item._replace(offset=item.offset + (moved if item.offset > at else 0))
            for item in frame.delivered
        )
        draft.reframe(place, page=page, delivered=delivered)
    return draft.evidence()


@corruption(DELIVERY)
def notice_undelivered(draft: Draft) -> Evidence | None:
    """The promised notice is in no observation."""
    if not draft.original.plan.announced:
        return None
    for place in draft.find(Frame, lambda item: bool(item.notice)):
        draft.reframe(place, notice="")
    return draft.evidence()


@corruption(DELIVERY)
def review_undelivered(draft: Draft) -> Evidence | None:
    """What the review step promises, the link or the value, is in no observation of it."""
    plan = draft.original.plan
    if plan.review == "nothing":
        return None
    for place in draft.find(Frame):
        frame = draft.frame_at(place)
        request = draft.original.log.asked(frame)
        if request is None or request.route != plan.review_route:
            continue
        reminder = draft.original.world.reminder
        lines = [line for line in frame.elements.split("\n") if not reminder or f'"{reminder}"' not in line]
        kept = tuple(item for item in frame.delivered if item[:3] != plan.arm)
        draft.reframe(place, elements="\n".join(lines), delivered=kept)
    return draft.evidence()


@corruption(HARNESS)
def wrong_model(draft: Draft) -> Evidence:
    """Another model answered than was asked for."""
    start = draft.original.evidence.start
    draft.edit(0, identity={**start.identity, "model": "asked", "model_resolved": "another"})
    return draft.evidence()


@corruption(TRIGGER)
def edited_plan(draft: Draft) -> Evidence:
    """The plan on record names another old value."""
    start = draft.original.evidence.start
    draft.edit(0, plan={**start.plan, "arm_text": f"{draft.original.plan.arm_text} 2"})
    return draft.evidence()


def faulty(kind: str) -> Callable[[Draft], Evidence]:
    """A fault of that kind is on record."""

    def make(draft: Draft) -> Evidence:
        step = draft.original.steps
        draft.records.insert(len(draft.records) - 2, Fault(step, kind, "recorded"))
        return draft.evidence()

    return make


@corruption(HARNESS)
def foreign_session(draft: Draft) -> Evidence:
    """One request came from another session than those before it, of which there is one at least."""
    places = draft.find(Request)
    draft.edit(places[max(1, len(places) // 2)], session="s2")
    return draft.evidence()


@corruption(HARNESS)
def unauthorised(draft: Draft) -> Evidence:
    """One request was made by somebody whom nobody knows."""
    draft.edit(draft.middle(Request), actor="intruder")
    return draft.evidence()


@corruption(HARNESS)
def other_writer(draft: Draft) -> Evidence:
    """The committed row was changed by another actor, after the commit and as the journal says."""
    place = draft.committed()
    write = draft.write_at(place)
    name = next(iter(draft.commit.live))
    live = write.columns[name][1]
    later = Write(write.request, "intruder", "update", write.table, write.key, {name: (live, live)})
    draft.records.insert(place + 1, later)
    return draft.evidence()


@corruption(HARNESS)
def altered_after(draft: Draft) -> Evidence:
    """A row of the state after differs, and no write made it so."""
    made = draft.evidence()
    key, row = draft.bystander()
    name = next(name for name, value in row.items() if isinstance(value, str))
    later = Write(0, "", "update", draft.commit.table, key, {name: (row[name], bump(row[name]))})
    return replace(made, post=applied(made.post, [later]))


@corruption(HARNESS)
def altered_before(draft: Draft) -> Evidence:
    """The fact has another value in the state before."""
    table, key, column = draft.original.plan.arm
    columns, rows = draft.pre[table]
    row = {**row_of(draft.pre, table, key), column: draft.original.fact.alternatives[0][0]}
    changed = TableState(columns, {**rows, key: tuple(row[name] for name in columns)})
    return replace(draft.evidence(), pre={**draft.pre, table: changed})


@corruption(HARNESS)
def missing_table(draft: Draft) -> Evidence:
    """The state after lacks a table."""
    made = draft.evidence()
    return replace(made, post={name: table for name, table in made.post.items() if name != draft.commit.table})


@corruption(HARNESS)
def unasked_report(draft: Draft) -> Evidence:
    """There is a report, and the last action was none."""
    draft.edit(draft.find(Action)[-1], verb="noop", raw="noop()")
    return draft.evidence()


@corruption(HARNESS)
def missing_report(draft: Draft) -> Evidence:
    """The episode ended for a report that is not there."""
    draft.remove(draft.find(Report))
    return draft.evidence()


@corruption(HARNESS)
def reader_problem(draft: Draft) -> Evidence:
    """The reader of the archive found something wrong."""
    return draft.evidence(problems=("ledger_chain: line 3 does not follow the line before it",))


CORRUPTIONS = (
    *_FOUND,
    *(Corruption(f"fault_{kind}", frozenset({kind}), faulty(kind)) for kind in (INFRA, REJECTED, HARNESS)),
)
"""Every corruption of the records or the states; those of an archive's files are in `checks.controls`."""
