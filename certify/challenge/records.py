"""Corruptions of records and states in the middle of an episode, each of which leaves a contradiction behind.

They add to `certify.corruptions` what only an auditor of the archive sees. Each edits a draft; it returns False, or
raises LookupError, where the episode has nothing of the kind.
"""

from collections.abc import Callable
from typing import Any

from envos.certify.forgery import Draft, bump, row_of
from envos.certify.log import GUARD, PERTURBATION
from envos.envs.evidence import (
    Action,
    End,
    Fault,
    Fire,
    Frame,
    Report,
    Request,
    Scalar,
    Served,
    State,
    TableState,
    Write,
)
from envos.envs.perturbation import AFTER, BEFORE

Edit = Callable[[Draft], "bool | None"]
EDITS: dict[str, Edit] = {}
"""By name; what each says of itself is its docstring."""


def edit(make: Edit) -> Edit:
    """Register an edit under its own name."""
    EDITS[make.__name__] = make
    return make


# Delivery.


def _notices(draft: Draft) -> list[int]:
    places = draft.find(Frame, lambda item: bool(item.notice))
    if not places or not draft.original.plan.announced:
        raise LookupError("no notice was delivered")
    return places


@edit
def notice_not_in_the_page(draft: Draft) -> None:
    """The promised notice was never delivered: it is in no field and no page."""
    for place in _notices(draft):
        frame = draft.frame_at(place)
        draft.reframe(place, notice="", page=frame.page.split("\n", 3)[-1])


@edit
def notice_of_another_value(draft: Draft) -> bool:
    """The notice names another value than the one that is stored."""
    made = False
    for place in _notices(draft):
        frame = draft.frame_at(place)
        head, _, last = frame.notice.rstrip(".").rpartition(" ")
        said = f"{head} {last[::-1] if last[::-1] != last else bump(last)}."
        draft.reframe(
            place, notice=said, page=frame.page.replace(frame.notice.partition(": ")[2], said.partition(": ")[2])
        )
        made = True
    return made


@edit
def notice_in_a_silent_arm(draft: Draft) -> bool:
    """A notice stands in an observation, and the condition announces nothing."""
    if draft.original.plan.announced:
        return False
    place = draft.middle(Frame)
    frame = draft.frame_at(place)
    moved = len("!! Notice\nIt is elsewhere now.\n\n")
    delivered = tuple(item._replace(offset=item.offset + moved) for item in frame.delivered)
    page = f"!! Notice\nIt is elsewhere now.\n\n{frame.page}"
    draft.reframe(place, notice="Notice: It is elsewhere now.", page=page, delivered=delivered)
    return True


def _reviews(draft: Draft) -> list[int]:
    """The observations of the review step after the firing in which the fact was delivered as promised."""
    plan, firing = draft.original.plan, draft.firing()
    places = []
    for place in draft.find(Frame):
        asked = draft.original.log.asked(draft.frame_at(place))
        if place > firing and asked is not None and asked.route == plan.review_route and asked.status == 200:
            places.append(place)
    made = draft.committed()
    if plan.review == "nothing" or not any(place < made for place in places):
        raise LookupError("nothing was promised, or nobody came to the review step")
    return places


@edit
def review_value_served_only(draft: Draft) -> bool:
    """The review step served the current value, and no observation holds it."""
    if draft.original.plan.review != "value":
        return False
    for place in _reviews(draft):
        frame = draft.frame_at(place)
        lines = frame.page.split("\n")
        shown = {frame.page.count("\n", 0, item.offset) for item in frame.delivered}
        kept = [line for number, line in enumerate(lines) if number not in shown]
        draft.reframe(place, page="\n".join(kept), delivered=())
    return True


@edit
def review_value_not_even_served(draft: Draft) -> bool:
    """The review step neither served nor delivered the current value."""
    review_value_served_only(draft)
    route = draft.original.plan.review_route
    for place in draft.find(Request, lambda item: item.route == route):
        draft.edit(place, served=())
    return draft.original.plan.review == "value"


@edit
def review_link_relabelled(draft: Draft) -> bool:
    """The review step's link to the source is another link."""
    label = draft.original.world.reminder
    if not label or draft.original.plan.review == "nothing":
        return False
    for place in _reviews(draft):
        frame = draft.frame_at(place)
        draft.reframe(place, page=frame.page.replace(label, "Help"), elements=frame.elements.replace(label, "Help"))
    return True


# The change.


def _exposures(draft: Draft) -> list[int]:
    """The requests before the firing that served the old value."""
    plan, firing = draft.original.plan, draft.firing()
    fact = Served(*plan.arm, plan.arm_text)
    found = draft.find(Request, lambda item: fact in item.served)
    before = [place for place in found if place < firing]
    if not before:
        raise LookupError("the old value was not served before the change")
    return before


def _frames_of(draft: Draft, places: list[int]) -> list[int]:
    numbers = {getattr(draft.records[place], "number", 0) for place in places}
    return draft.find(Frame, lambda item: item.request in numbers)


def _retext(draft: Draft, place: int, cell: tuple[str, int, str], text: str) -> None:
    """Let an observation hold another text for a cell."""
    frame = draft.frame_at(place)
    page, moved, delivered = frame.page, 0, []
    for item in sorted(frame.delivered, key=lambda item: item.offset):
        at = item.offset + moved
        if item[:3] == cell:
            page = page[:at] + text + page[at + len(item.text) :]
            moved += len(text) - len(item.text)
            delivered.append(item._replace(text=text, offset=at))
        else:
            delivered.append(item._replace(offset=at))
    order = [item[:3] for item in frame.delivered]
    draft.reframe(place, page=page, delivered=tuple(sorted(delivered, key=lambda item: order.index(item[:3]))))


@edit
def old_value_never_served(draft: Draft) -> None:
    """Before the change the source showed another value than the old one, in both logs and on every page."""
    plan = draft.original.plan
    other = next(text for _, text in draft.original.fact.alternatives if text not in (plan.arm_text, plan.new_text))
    for place in (places := _exposures(draft)):
        request = draft.records[place]
        assert isinstance(request, Request)  # noqa: S101 - the place comes from `find`
        draft.edit(
            place, served=tuple(item._replace(text=other) if item[:3] == plan.arm else item for item in request.served)
        )
    for place in _frames_of(draft, places):
        _retext(draft, place, plan.arm, other)


@edit
def exposure_taken_out(draft: Draft) -> None:
    """The pages that showed the old value before the change served and delivered nothing."""
    for place in (places := _exposures(draft)):
        draft.edit(place, served=())
    for place in _frames_of(draft, places):
        draft.edit(place, delivered=())


@edit
def exposure_served_only(draft: Draft) -> None:
    """The old value was served and never handed over."""
    for place in _frames_of(draft, _exposures(draft)):
        draft.edit(place, delivered=())


@edit
def exposure_not_in_the_text(draft: Draft) -> None:
    """The observation that exposed the fact is said to hold a value that its text does not."""
    text = draft.original.plan.arm_text
    for place in _frames_of(draft, _exposures(draft)):
        draft.reframe(place, page=draft.frame_at(place).page.replace(text, "x" * len(text)))


@edit
def exposure_in_another_session(draft: Draft) -> None:
    """The old value was served in somebody else's session."""
    for place in _exposures(draft):
        draft.edit(place, session="s2")


@edit
def armed_by_a_later_frame(draft: Draft) -> None:
    """The firing names another observation than the one that exposed the fact first."""
    place = draft.find(Fire)[0]
    draft.edit(place, armed_by=draft.records[place].armed_by + 1)  # type: ignore[union-attr]


@edit
def fired_later_than_due(draft: Draft) -> bool:
    """The change stands in a later request of the form than the first."""
    plan, number = draft.original.plan, draft.records[draft.find(Fire)[0]].request  # type: ignore[union-attr]
    later = draft.find(
        Request, lambda item: item.number > number and plan.fires(item.method, item.route) and item.via == "direct"
    )
    commits = draft.find(Write, lambda item: item.actor == "agent" and item.table == plan.commit_table)
    if plan.phase == AFTER or not later or (commits and later[0] > commits[0]):
        return False
    draft.move_change(later[0], draft.records[later[0]].number)  # type: ignore[union-attr]
    return True


def _firing_as(**fields: Any) -> Edit:
    def make(draft: Draft) -> None:
        draft.edit(draft.firing(), **fields)

    return make


def _named(name: str, about: str, make: Edit) -> None:
    make.__name__, make.__doc__ = name, about
    edit(make)


_named("fired_in_a_prefetch", "The request that fired was a prefetch.", _firing_as(via="prefetch"))
_named("fired_in_another_session", "The request that fired was of another session.", _firing_as(session="s2"))
_named("fired_for_an_asset", "The request that fired was the browser's own.", _firing_as(actor="browser"))


@edit
def fired_again_with_its_guard(draft: Draft) -> bool:
    """The change fired a second time, in a later request, with a guard row of its own."""
    fire = draft.records[draft.find(Fire)[0]]
    assert isinstance(fire, Fire)  # noqa: S101 - the place comes from `find`
    later = draft.find(Request, lambda item: item.number > fire.request + 1 and item.actor == "agent")
    number = draft.records[later[-1]].number  # type: ignore[union-attr]
    start = min([later[-1], *draft.find(Write, lambda item: item.request == number)])
    row: dict[str, tuple[Scalar, Scalar]] = {"id": (None, 2), "request": (None, number)}
    draft.records[start:start] = [Write(number, PERTURBATION, "insert", GUARD, 2, row), fire._replace(request=number)]
    return True


@edit
def fire_record_missing(draft: Draft) -> None:
    """The firing's own line is missing; its writes are there."""
    draft.remove([draft.find(Fire)[0]])


@edit
def firing_without_a_trace(draft: Draft) -> bool:
    """Nothing shows that the change happened, and a request was there in which it was due."""
    if any(operation.table != "neutral" for operation in draft.original.plan.operations):
        return False
    draft.remove([*draft.change()] if draft.find(Fire)[0] else [])
    return True


@edit
def fired_unannounced_to_the_guard(draft: Draft) -> None:
    """The guard's row names another request."""
    place = draft.find(Write, lambda item: item.table == GUARD)[0]
    write = draft.write_at(place)
    draft.edit(place, columns={**write.columns, "request": (None, write.request + 1)})


def _perturbing(draft: Draft, holds: Callable[[Write], bool]) -> int:
    return draft.find(Write, lambda item: item.actor == PERTURBATION and holds(item))[0]


@edit
def change_of_another_column(draft: Draft) -> None:
    """The perturbation changed one more column of the row."""
    place = _perturbing(draft, lambda item: item.op == "update" and bool(item.columns) and item.table != "neutral")
    write = draft.write_at(place)
    before = row_of(draft.pre, write.table, write.key)
    name = next(name for name, value in before.items() if isinstance(value, str) and name not in write.columns)
    draft.edit(place, columns={**write.columns, name: (before[name], bump(before[name]))})


@edit
def change_to_another_value(draft: Draft) -> None:
    """The perturbation wrote another value than the plan's."""
    place = _perturbing(draft, lambda item: item.op == "update" and bool(item.columns) and item.table != "neutral")
    write = draft.write_at(place)
    name, (old, new) = next(iter(write.columns.items()))
    draft.edit(place, columns={**write.columns, name: (old, bump(new))})


@edit
def history_disagrees(draft: Draft) -> None:
    """The history row says that something else changed."""
    place = _perturbing(draft, lambda item: item.table == "history")
    write = draft.write_at(place)
    draft.edit(place, columns={**write.columns, "new": write.columns["old"]})


@edit
def operations_miscounted(draft: Draft) -> None:
    """The firing counts another number of operations than were carried out."""
    place = draft.find(Fire)[0]
    draft.edit(place, operations=draft.records[place].operations + 1)  # type: ignore[union-attr]


@edit
def neutral_share_missing(draft: Draft) -> None:
    """One of the neutral operations was not done."""
    draft.remove([_perturbing(draft, lambda item: item.table == "neutral")])
    place = draft.find(Fire)[0]
    fire = draft.records[place]
    draft.edit(place, operations=fire.operations - 1, neutral=fire.neutral - 1)  # type: ignore[union-attr]


@edit
def change_in_two_requests(draft: Draft) -> bool:
    """The last of the change's writes stands in the next request."""
    fire = draft.records[draft.find(Fire)[0]]
    number = fire.request + 1  # type: ignore[union-attr]
    following = draft.find(Request, lambda item: item.number == number)[0]
    place = draft.find(Write, lambda item: item.actor == PERTURBATION)[-1]
    write = draft.write_at(place)
    draft.records.insert(following, write._replace(request=number))
    draft.remove([place])
    return True


@edit
def source_unreadable(draft: Draft) -> bool:
    """After the change, the source's pages no longer show the fact."""
    plan, firing = draft.original.plan, draft.firing()
    places = [
        place
        for place in draft.find(
            Request, lambda item: item.route in plan.surfaces and any(v[:3] == plan.arm for v in item.served)
        )
        if place >= firing
    ]
    for place in places:
        request = draft.records[place]
        draft.edit(place, served=tuple(item for item in request.served if item[:3] != plan.arm))  # type: ignore[union-attr]
    for place in _frames_of(draft, places):
        frame = draft.frame_at(place)
        draft.edit(place, delivered=tuple(item for item in frame.delivered if item[:3] != plan.arm))
    return bool(places)


@edit
def stale_in_the_frames(draft: Draft) -> bool:
    """After the change the server answered with the new value, and the observation holds the old one."""
    plan, firing = draft.original.plan, draft.firing()
    if plan.new_text == plan.arm_text:
        return False
    places = draft.find(Frame, lambda item: any(v[:3] == plan.arm and v[3] == plan.new_text for v in item.delivered))
    later = [place for place in places if place > firing]
    for place in later:
        _retext(draft, place, plan.arm, plan.arm_text)
    return bool(later)


@edit
def stale_in_the_access_log(draft: Draft) -> bool:
    """After the change the access log says that the old value was served."""
    plan, firing = draft.original.plan, draft.firing()
    new, old = Served(*plan.arm, plan.new_text), Served(*plan.arm, plan.arm_text)
    places = [place for place in draft.find(Request, lambda item: new in item.served) if place >= firing and new != old]
    for place in places:
        request = draft.records[place]
        draft.edit(place, served=tuple(old if item == new else item for item in request.served))  # type: ignore[union-attr]
    return bool(places)


# The commit and the states.


@edit
def commit_in_the_access_log_only(draft: Draft) -> None:
    """The commit's request is on record, and nothing was written."""
    number = draft.write_at(draft.committed()).request
    draft.remove(draft.find(Write, lambda item: item.request == number and item.actor == "agent"))


@edit
def commit_in_the_state_only(draft: Draft) -> bool:
    """A row was committed inside a request that commits nothing."""
    place = draft.committed()
    write = draft.write_at(place)
    early = draft.find(Request, lambda item: 2 < item.number < write.request and item.method == "GET")
    target = early[-1]
    number = draft.records[target].number  # type: ignore[union-attr]
    draft.remove([place])
    draft.records.insert(target, write._replace(request=number))
    return True


@edit
def commit_laundered(draft: Draft) -> bool:
    """A wrong commit was written over with the right one, in the journal, the state and the report alike."""
    right = dict(draft.original.world.answer(draft.truth(), draft.original.plan.task))
    row = {name: new for name, (_, new) in draft.write_at(draft.committed()).columns.items()}
    if not right or all(row.get(name) == value for name, value in right.items()):
        return False
    draft.reported()
    draft.commit_as(right)
    return True


@edit
def commit_at_another_address(draft: Draft) -> None:
    """The commit's answer leads to another row than the one that was made."""
    write = draft.write_at(draft.committed())
    place = draft.find(Request, lambda item: item.number == write.request)[0]
    location = draft.records[place].location  # type: ignore[union-attr]
    draft.edit(place, location=location.replace(f"/{write.key}?", f"/{write.key + 1}?"))


@edit
def commit_by_the_harness(draft: Draft) -> None:
    """The harness made the commit."""
    number = draft.write_at(draft.committed()).request
    for place in draft.find(Write, lambda item: item.request == number and item.actor == "agent"):
        draft.edit(place, actor="harness")
    draft.edit(draft.find(Request, lambda item: item.number == number)[0], actor="harness")


@edit
def old_value_of_a_write(draft: Draft) -> None:
    """A write says that it found another value than the row had."""
    place = draft.find(Write, lambda item: item.op == "update" and item.actor == "agent" and bool(item.columns))[0]
    write = draft.write_at(place)
    name, (old, new) = next(iter(write.columns.items()))
    draft.edit(place, columns={**write.columns, name: (bump(old), new)})


@edit
def write_of_another_request(draft: Draft) -> None:
    """A write names another request than the one that it stands in."""
    place = draft.find(Write, lambda item: item.actor == "agent")[-1]
    draft.edit(place, request=draft.write_at(place).request - 1)


@edit
def write_by_a_colleague(draft: Draft) -> None:
    """A write inside the agent's request was somebody else's."""
    draft.edit(draft.find(Write, lambda item: item.actor == "agent")[-1], actor="colleague")


@edit
def write_dropped(draft: Draft) -> bool:
    """The journal lacks the last of the agent's writes, and the state after has it."""
    place = draft.find(Write, lambda item: item.actor == "agent" and bool(item.columns))[-1]
    draft.state = draft.evidence().post
    draft.remove([place])
    return True


def _post(draft: Draft) -> State:
    return draft.evidence().post


def _changed(state: State, table: str, key: int, row: dict[str, Scalar] | None) -> State:
    columns, rows = state[table]
    kept = {**rows}
    if row is None:
        del kept[key]
    else:
        kept[key] = tuple(row[name] for name in columns)
    return {**state, table: TableState(columns, kept)}


@edit
def second_active_row(draft: Draft) -> None:
    """The state after has a second row with everything that the target's fact row has."""
    table, key, _ = draft.original.plan.arm
    post = _post(draft)
    new = max(post[table].rows) + 1
    draft.state = _changed(post, table, new, {**row_of(post, table, key), "id": new})


@edit
def duplicate_in_the_state_only(draft: Draft) -> None:
    """The state after has the committed row twice, and the journal once."""
    write, post = draft.write_at(draft.committed()), _post(draft)
    table = draft.commit.table
    new = max(post[table].rows) + 1
    draft.state = _changed(post, table, new, {**row_of(post, table, write.key), "id": new})


@edit
def commit_withdrawn_in_the_state(draft: Draft) -> None:
    """The committed row is in force no more, and nobody withdrew it."""
    write, post = draft.write_at(draft.committed()), _post(draft)
    name = next(iter(draft.commit.live))
    row = row_of(post, draft.commit.table, write.key)
    draft.state = _changed(post, draft.commit.table, write.key, {**row, name: f"not {row[name]}"})


@edit
def row_deleted_in_the_state(draft: Draft) -> None:
    """A bystander's row is gone from the state after."""
    draft.state = _changed(_post(draft), draft.commit.table, draft.bystander()[0], None)


@edit
def fact_reverted_in_the_state(draft: Draft) -> None:
    """The state after has the fact's old value, and nobody put it back."""
    plan, post = draft.original.plan, _post(draft)
    table, key, column = plan.arm
    old = row_of(draft.pre, table, key)[column]
    row = row_of(post, table, key)
    if plan.phase != BEFORE or row[column] == old:
        raise LookupError("the fact did not change")
    draft.state = _changed(post, table, key, {**row, column: old})


@edit
def integer_as_a_float(draft: Draft) -> None:
    """A whole number in the state after is a float of the same value."""
    table, post = draft.commit.table, _post(draft)
    key, row = draft.bystander()
    name = next(name for name, value in row.items() if type(value) is int and name != "id")
    draft.state = _changed(post, table, key, {**row_of(post, table, key), name: float(row[name] or 0)})


@edit
def guard_row_before(draft: Draft) -> None:
    """The guard had fired before the episode began."""
    draft.pre = _changed(draft.pre, GUARD, 7, {"id": 7, "request": 1})


# Trajectory, observations, actions, report.


@edit
def truncated_and_closed(draft: Draft) -> None:
    """The trajectory stops in the middle, as if the budget had been spent."""
    last = draft.middle(Frame)
    step = draft.frame_at(last).step
    draft.records[last + 1 :] = [End(step, "budget")]


@edit
def redirect_not_followed(draft: Draft) -> None:
    """An answer that leads elsewhere was not followed."""
    place = draft.find(Request, lambda item: item.via == "redirect")[0]
    draft.remove([place])
    draft.shift(place, -1)


@edit
def redirect_elsewhere(draft: Draft) -> None:
    """A redirect leads to another page than the one that followed."""
    place = draft.find(Request, lambda item: bool(item.location))[0]
    draft.edit(place, location="/inbox?x=1")


@edit
def refusal_as_a_page(draft: Draft) -> None:
    """A redirect is said to have been a page."""
    draft.edit(draft.find(Request, lambda item: item.status == 303)[0], status=200)


@edit
def frame_elsewhere(draft: Draft) -> None:
    """An observation is said to stand at another address."""
    place = draft.middle(Frame)
    draft.reframe(place, url=f"{draft.frame_at(place).url.partition('?')[0]}/elsewhere")


@edit
def pages_exchanged(draft: Draft) -> bool:
    """Two observations hold each other's page, with digests that fit."""
    places = draft.find(Frame)
    one = draft.frame_at(places[len(places) // 2])
    for place in places:
        other = draft.frame_at(place)
        if other.url.partition("?")[0] != one.url.partition("?")[0] and other.page != one.page:
            draft.reframe(place, page=one.page, elements=one.elements)
            draft.reframe(places[len(places) // 2], page=other.page, elements=other.elements)
            return True
    return False


@edit
def answer_to_another_frame(draft: Draft) -> None:
    """An action answers an earlier observation than the one before it."""
    place = draft.find(Action)[2]
    draft.edit(place, frame=0, frame_sha256=draft.frame_at(draft.find(Frame)[0]).sha256)


@edit
def page_changed_by_itself(draft: Draft) -> bool:
    """A page changed without a request."""
    for place in draft.find(Action, lambda item: item.verb in ("memo", "noop") and not item.error):
        after = next((at for at in draft.find(Frame) if at > place), None)
        if after is not None:
            draft.reframe(after, page=draft.frame_at(after).page + "\nThe office is closed.")
            return True
    return False


@edit
def route_of_another_page(draft: Draft) -> None:
    """The access log says that a path belongs to another page."""
    surface = draft.original.plan.surfaces[0]
    draft.edit(draft.find(Request, lambda item: item.route != surface)[-1], route=surface)


@edit
def parameters_edited(draft: Draft) -> bool:
    """A request's parameters are not those of the address that its observation stands at."""
    for place in draft.find(Request, lambda item: item.via == "direct" and item.method == "GET" and bool(item.params)):
        if _frames_of(draft, [place]):
            draft.edit(place, params={})
            return True
    return False


@edit
def request_put_in(draft: Draft) -> None:
    """A request is on record that no action made."""
    place = draft.middle(Request)
    request = draft.records[place]
    assert isinstance(request, Request)  # noqa: S101 - the place comes from `find`
    if request.location or draft.records[place - 1] in draft.records[:1]:
        raise LookupError("it is a redirect")
    draft.shift(place + 1, 1)
    draft.records.insert(place + 1, request._replace(number=request.number + 1))


@edit
def memo_altered(draft: Draft) -> bool:
    """The policy was shown another memo than the one that it kept."""
    places = draft.find(Frame, lambda item: bool(item.memo))
    for place in places:
        draft.reframe(place, memo=draft.frame_at(place).memo + "!")
    return bool(places)


@edit
def memo_cut_hidden(draft: Draft) -> None:
    """It is not on record how much of a memo was cut."""
    place = draft.find(Action, lambda item: item.verb == "memo")[0]
    draft.edit(place, memo_cut=draft.records[place].memo_cut + 7)  # type: ignore[union-attr]


@edit
def action_not_what_was_said(draft: Draft) -> None:
    """What is on record as done is not what the reply says."""
    place = draft.find(Action, lambda item: item.verb == "click")[0]
    draft.edit(place, verb="noop", args=())


@edit
def action_on_nothing(draft: Draft) -> bool:
    """The policy acted on an element that it was not shown."""
    if draft.original.evidence.start.identity.get("actions"):
        return False
    draft.edit(
        draft.find(Action, lambda item: item.verb == "click" and not item.error)[0], raw='click("999")', args=("999",)
    )
    return True


@edit
def error_hidden(draft: Draft) -> None:
    """An action that failed is on record as one that did not, there and in the observation."""
    place = draft.find(Action, lambda item: bool(item.error) and bool(item.verb))[0]
    draft.edit(place, error="")


@edit
def error_invented(draft: Draft) -> None:
    """An action that made a request is on record as having failed."""
    place = draft.find(Action, lambda item: item.verb in ("click", "goto") and not item.error)[0]
    draft.edit(place, error="there is no such element")


@edit
def budget_left_altered(draft: Draft) -> None:
    """The policy was told that it had more actions left than it had."""
    place = draft.middle(Frame)
    draft.reframe(place, budget_left=draft.frame_at(place).budget_left + 5)


@edit
def report_altered(draft: Draft) -> None:
    """The report on record is not what the last action said."""
    fields = draft.reported()
    name = sorted(fields)[0]
    draft.edit(draft.find(Report)[-1], fields={**fields, name: str(bump(fields[name]))})


@edit
def report_corrected(draft: Draft) -> bool:
    """A report that was wrong was put right after the fact; the action still says what was said."""
    post, place = _post(draft), draft.committed()
    row = row_of(post, draft.commit.table, draft.write_at(place).key)
    right = dict(draft.original.world.describe(post, row))
    if draft.reported() == right:
        return False
    draft.edit(draft.find(Report)[-1], fields=right)
    return True


@edit
def report_put_in(draft: Draft) -> bool:
    """An episode that ended without a report has one."""
    if draft.find(Report):
        return False
    row = row_of(_post(draft), draft.commit.table, draft.write_at(draft.committed()).key)
    step = draft.original.steps
    draft.records.insert(-2, Report(step, dict(draft.original.world.describe(_post(draft), row))))
    draft.edit(len(draft.records) - 1, reason="report")
    return True


@edit
def stopped_without_a_fault(draft: Draft) -> None:
    """The harness stopped the episode in the middle, and no fault is recorded."""
    last = draft.middle(Frame)
    draft.records[last + 1 :] = [End(draft.frame_at(last).step, "fault")]


def _stopped(kind: str, detail: str) -> Edit:
    def make(draft: Draft) -> None:
        last = draft.middle(Frame)
        step = draft.frame_at(last).step
        draft.records[last + 1 :] = [Fault(step, kind, detail), End(step, "fault")]

    return make


_named("provider_limit", "The provider stopped the episode at a limit.", _stopped("infra_rejected", "session limit"))
_named(
    "infrastructure_error", "The infrastructure failed in the middle.", _stopped("infra_failure", "connection reset")
)
_named("harness_stop", "The harness stopped the episode.", _stopped("harness_error", "stopped by the harness"))


@edit
def unauthorised_read(draft: Draft) -> None:
    """The policy read a file that it had no business with, and it is on record."""
    place = draft.middle(Action)
    step = draft.records[place].step  # type: ignore[union-attr]
    draft.records.insert(place + 1, Fault(step, "harness_error", "unauthorised access: /etc/passwd"))


@edit
def fault_of_an_unknown_kind(draft: Draft) -> None:
    """A fault of a kind that nobody knows is on record."""
    draft.records.insert(draft.find(End)[0], Fault(draft.original.steps, "success", "nothing happened"))


@edit
def canary_delivered(draft: Draft) -> None:
    """The evaluator's own data was in an observation."""
    token = row_of(draft.pre, "canary", next(iter(draft.pre["canary"].rows)))["token"]
    place = draft.middle(Frame)
    draft.reframe(place, page=f"{draft.frame_at(place).page}\n{token}")


def edited(name: str) -> Callable[[Draft], Any]:
    """What makes the evidence of an edit."""

    def make(draft: Draft) -> Any:
        if EDITS[name](draft) is False:
            return None
        return draft.evidence()

    return make
