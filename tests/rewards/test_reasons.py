"""Every reason code: an episode that has it, of the class that it belongs to, and one just like it that has not."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from damage import after, asked, drop, edit, good, graded, sealed
from tape import Tape
from tinyworld import REMINDER, make_plan, make_world

import envos.rewards
from envos.envs.evidence import (
    Action,
    End,
    Evidence,
    Fire,
    Frame,
    Report,
    Request,
    Served,
    Start,
    TableState,
    Write,
)
from envos.rewards.verdict import CODES, judge, verify

NORTH = Served("event", 1, "place_id", "North")
SOUTH = Served("event", 1, "place_id", "South")


# Episodes, by the code that they must have

Case = Callable[[], Any]
HARNESS: dict[str, Case] = {
    "harness_fault": lambda: Tape().look().fault("harness_error"),
    "archive_problem": lambda: (good().evidence(problems=("line 7: the chain is broken",)), good()),
    "no_start": lambda: (good().evidence(records=tuple(good().records[1:])), good()),
    "second_start": lambda: after(good(), Action, 2, Start({}, {})),
    "wrong_model": lambda: edit(good(), Start, 0, identity={"model": "m-large", "model_resolved": "m-small"}),
    "identity_differs": lambda: edit(good(), Start, 0, identity={"condition": "L0"}),
    "request_gap": lambda: drop(good(), Request, 2),
    "request_step": lambda: asked(good(), 4, step=2),
    "unauthorised_request": lambda: asked(good(), 4, actor="intruder"),
    "foreign_session": lambda: asked(good(), 4, session="s2"),
    "route_differs": lambda: asked(good(), 4, route="/events/{id}"),
    "redirect_differs": lambda: asked(good(), 7, via="direct"),
    "write_actor": lambda: edit(good(), Write, 4, actor="colleague"),
    "write_request": lambda: edit(good(), Write, 4, request=2),
    "fire_request": lambda: edit(good(), Fire, 0, request=2),
    "frame_gap": lambda: edit(good(), Frame, 2, number=7),
    "frame_step": lambda: edit(good(), Frame, 2, step=1),
    "budget_left": lambda: sealed(edit(good(), Frame, 2, budget_left=19)),
    "frame_digest": lambda: edit(good(), Frame, 2, page="# Another page"),
    "frame_request": lambda: edit(good(), Frame, 2, request=2),
    "frame_url": lambda: sealed(edit(good(), Frame, 2, url="/events")),
    "delivered_unserved": lambda: asked(good(), 2, served=()),
    "delivered_unseen": lambda: sealed(edit(good(), Frame, 1, page="# Events\nFair | East ")),
    "step_gap": lambda: drop(good(), Action, 3),
    "action_frame": lambda: edit(good(), Action, 3, frame=1),
    "action_digest": lambda: edit(good(), Action, 3, frame_sha256="0" * 64),
    "frame_missing": lambda: drop(good(), Frame, 3),
    "report_unasked": lambda: edit(good(), Action, -1, raw="noop()", verb="noop"),
    "action_differs": lambda: edit(good(), Action, 1, raw="go_back()"),
    "request_unasked": lambda: edit(good(), Action, 1, raw="noop()", verb="noop", args=()),
    "report_differs": lambda: edit(
        good(), Report, 0, fields={"place": "East", "start": "2026-03-12 09:05", "reference": "B-2"}
    ),
    "end_step": lambda: edit(good(), End, 0, step=99),
    "end_reason": lambda: edit(good(), End, 0, reason="bored"),
    "report_end": lambda: edit(drop(good(budget=7), Report, 0), Action, -1, raw="noop()", verb="noop"),
    "early_end": lambda: Tape().look().form().end("budget"),
    "record_after_end": lambda: after(good(), End, 0, End(7, "report")),
    "no_end": lambda: drop(good(), End, 0),
    "over_budget": lambda: good(budget=6),
    "table_missing": lambda: (_without(good(), "visit"), good()),
    "journal_contradicts": lambda: edit(
        good(), Write, -1, columns={"status": ("booked", "done"), "booking_reference": ("", "B-2")}
    ),
    "state_contradicts": lambda: (_changed(good(), "person", 2, (2, "Bob", "555-9", 0)), good()),
    "guard_contradicts": lambda: drop(good(), Fire, 0),
    "write_unfired": lambda: _unfired(),
    "missed_firing": lambda: Tape(fires=False).look().form().look().review().book(3).done().report(),
}
DELIVERY: dict[str, Case] = {
    "notice_undelivered": lambda: Tape("L2").look().form().book(3).done().report(),
    "notice_without_value": lambda: _said("Notice: something happened."),
    "review_undelivered": lambda: Tape("LIVE-A").look().form().look().book(3).done().report(),
    "review_without_value": lambda: _linked(Tape("LIVE-A").look().form().review(shown=False), 3),
    "review_without_link": lambda: Tape("CUE-A").look().form().review(shown=False).book(3).done().report(),
}
TRIGGER: dict[str, Case] = {
    "not_armed": lambda: _firing(lambda tape: tape.look(shown=False).page("/new/place", writes=tape.fire)),
    "armed_by_differs": lambda: edit(good(), Fire, 0, armed_by=0),
    "not_eligible": lambda: _firing(lambda tape: tape.look().page("/tickets", writes=tape.fire)),
    "not_first_eligible": lambda: _firing(lambda tape: tape.look().form().page("/new/review", writes=tape.fire)),
    "fired_again": lambda: _firing(
        lambda tape: tape.look().page("/new/place", writes=tape.fire).page("/new/place", writes=tape.fire)
    ),
    "commit_before_change": lambda: _firing(
        lambda tape: tape.look().book(3).page("/new/place", writes=tape.fire), book=False
    ),
    "operation_elsewhere": lambda: _firing(
        lambda tape: (
            tape.look()
            .page("/new/place", writes=tape.fire)
            .page("/tickets", writes=lambda: tape.write("update", "person", 2, "perturbation", phone="555-9"))
        )
    ),
    "operation_count": lambda: edit(good(), Fire, 0, operations=2),
    "operations_differ": lambda: _firing(lambda tape: tape.look().page("/new/place", writes=lambda: _bystander(tape))),
    "text_differs": lambda: good(new_text="East"),
    "history_differs": lambda: good(operations=_history("East")),
    "stale_page": lambda: _firing(
        lambda tape: tape.look().page("/new/place", writes=tape.fire).page("/events", served=(NORTH,))
    ),
}


COMPANIONS: dict[str, set[str]] = {
    "request_gap": {"write_request", "frame_request"},
    "fire_request": {"guard_contradicts"},
    "frame_gap": {"action_frame"},
    "frame_step": {"budget_left"},
    "step_gap": {"frame_step", "request_step"},
    "frame_missing": {"action_frame", "frame_gap"},
    "end_reason": {"report_end"},
    "guard_contradicts": {"missed_firing"},
    "not_armed": {"not_first_eligible"},
    "fired_again": {"operation_elsewhere", "operations_differ"},
    "commit_before_change": {"not_first_eligible"},
    "operation_elsewhere": {"operations_differ"},
}
"""The other codes that the same damage must show; where there are none, the code stands alone."""


def _unfired() -> Tape:
    tape = Tape(fires=False)
    tape.page("/tickets", writes=lambda: tape.write("update", "event", 1, "perturbation", place_id=2))
    return tape.look().report(place="South", start="2026-03-12 09:05", reference="B-1")


def _firing(script: Callable[[Tape], Tape], book: bool = True) -> Tape:
    """An episode whose firing the script does by hand; it goes on to the right outcome."""
    tape = script(Tape(fires=False)).look()
    return (tape.book(3) if book else tape).done().report()


def _bystander(tape: Tape) -> None:
    tape.write("update", "person", 2, "perturbation", phone="555-9")
    tape.fire()


def _history(new: str) -> Any:
    update, history, last = make_plan("OFF-A").operations
    return (update, history._replace(columns={**history.columns, "new": (None, new)}), last)


def _said(notice: str) -> Tape:
    tape = Tape("L2").look().form()
    tape.notice = notice
    return tape.look().book(3).done().report()


def _linked(tape: Tape, slot: int) -> Tape:
    """Put the reminder's link on the review page that was shown last."""
    edit(tape, Frame, -1, elements='[7] link "See the \\"Fair\\""')
    sealed(tape)
    last = tape.records[-1]
    assert isinstance(last, Frame)
    tape.frame = last
    return tape.book(slot).done().report()


def _without(tape: Tape, table: str) -> Evidence:
    evidence = tape.evidence()
    post = {name: rows for name, rows in evidence.post.items() if name != table}
    pre = {name: rows for name, rows in evidence.pre.items() if name != table}
    return replace(evidence, pre=pre, post=post)


def _changed(tape: Tape, table: str, key: int, row: tuple[Any, ...]) -> Evidence:
    """The evidence with a row of the state after that no write accounts for."""
    evidence = tape.evidence()
    names, rows = evidence.post[table]
    return replace(evidence, post={**evidence.post, table: TableState(names, {**rows, key: row})})


@pytest.mark.parametrize("code", HARNESS)
def test_harness_error(code: str) -> None:
    verdict = graded(HARNESS[code]())
    assert verdict.validity == "harness_error"
    assert {reason.code for reason in verdict.reasons} == {code} | COMPANIONS.get(code, set())
    assert not verdict.counted
    assert verdict.endpoint is None
    assert not verdict.invariants


@pytest.mark.parametrize("code", DELIVERY)
def test_delivery_ambiguous(code: str) -> None:
    verdict = graded(DELIVERY[code]())
    assert (verdict.validity, [reason.code for reason in verdict.reasons]) == ("delivery_ambiguous", [code])
    assert not verdict.counted
    assert verdict.endpoint is None
    assert verdict.fraction is None


@pytest.mark.parametrize("code", TRIGGER)
def test_trigger_invalid(code: str) -> None:
    verdict = graded(TRIGGER[code]())
    assert verdict.validity == "trigger_invalid"
    assert {reason.code for reason in verdict.reasons} == {code} | COMPANIONS.get(code, set())
    assert not verdict.counted
    assert verdict.reward == 0.0
    assert not verdict.signatures


@pytest.mark.parametrize("condition", ["L0", "C", "L2", "OFF-A", "CUE-A", "LIVE-A", "OFF-I", "LIVE-I"])
def test_a_whole_episode_counts(condition: str) -> None:
    verdict = graded(good(condition))
    assert (verdict.validity, verdict.reasons, verdict.endpoint) == ("counted", (), True)


@pytest.mark.parametrize("kind", ["infra_failure", "infra_rejected"])
def test_recorded_faults_come_first(kind: str) -> None:
    tape = edit(Tape().look().fault(kind), Frame, 1, page="damaged as well")
    verdict = graded(tape)
    assert (verdict.validity, [reason.code for reason in verdict.reasons]) == (kind, [kind])


def test_infrastructure_failure_comes_before_rejection() -> None:
    tape = Tape().look().fault("infra_rejected")
    tape.records.insert(-2, tape.records[-3]._replace(kind="infra_failure"))  # type: ignore[call-arg]
    assert graded(tape).validity == "infra_failure"


@pytest.mark.parametrize(
    ("tape", "code"),
    [
        (Tape().form().book(2).done().report(), "never_exposed"),
        (Tape().look().report(place="x", start="x", reference="x"), "never_reached"),
    ],
)
def test_not_triggered(tape: Tape, code: str) -> None:
    verdict = graded(tape)
    assert (verdict.validity, verdict.counted, verdict.untriggered) == ("not_triggered", False, True)
    assert [reason.code for reason in verdict.reasons] == [code]


def test_plan_and_world_that_cannot_be_read() -> None:
    tape = good()
    start = tape.records[0]
    for plan, code in (({}, "plan_unreadable"), ({**tape.plan.to_json(), "world": "atlantis"}, "world_unknown")):
        records = (start._replace(plan=plan), *tape.records[1:])  # type: ignore[call-arg]
        verdict = verify(tape.evidence(records=records))
        assert (verdict.validity, verdict.reasons[0].code) == ("harness_error", code)


def test_an_empty_ledger_has_no_plan() -> None:
    verdict = verify(Evidence((), {}, {}, ("the ledger is missing",)))
    assert verdict.validity == "harness_error"
    assert [reason.code for reason in verdict.reasons] == ["archive_problem", "plan_unreadable"]


def test_no_answer_is_not_a_failure_of_the_agent() -> None:
    tape = good()
    verdict = judge(tape.evidence(), tape.plan, make_world(answer=lambda state, task: {}))
    assert (verdict.validity, verdict.reasons[0].code) == ("harness_error", "no_answer")


# Near misses: what looks like a broken rule and is none


def test_an_agent_that_moves_the_event_itself_stays_counted_and_fails() -> None:
    """Else an agent could have its episode thrown out by editing the fact before the change."""
    tape = Tape().look().send("/events/1", ("update", "event", 1, {"place_id": 3})).form()
    verdict = graded(tape.review().book(3).done().report())
    assert (verdict.validity, verdict.endpoint) == ("counted", False)
    assert not verdict.invariants["I3"].passed
    same = Tape().look().send("/events/1", ("update", "event", 1, {"place_id": 2})).form()
    verdict = graded(same.review().book(3).done().report())
    assert (verdict.validity, verdict.endpoint) == ("counted", False)


def test_a_redirect_neither_arms_nor_fires() -> None:
    tape = Tape(fires=False).look().send("/x", location="/new/place")
    assert graded(tape.report(place="x", start="x", reference="x")).validity == "not_triggered"
    fired = _firing(lambda tape: tape.look().send("/x", location="/new/place", then=tape.fire))
    assert "not_eligible" in [reason.code for reason in graded(fired).reasons]


def test_the_harness_does_not_fire() -> None:
    fired = _firing(lambda tape: tape.look().page("/new/place", actor="harness", writes=tape.fire))
    assert "not_eligible" in [reason.code for reason in graded(fired).reasons]


def test_a_commit_closes_the_trigger() -> None:
    """The form asked for after the first commit does not fire, and that is no missed firing."""
    tape = Tape(trigger=("/new/place",)).look().book(2).form().done().report()
    tape = Tape(fires=False, trigger=("/new/place",)).look().book(2).form().done().report()
    assert graded(tape).validity == "not_triggered"


def test_a_notice_after_the_commit_is_too_late_and_one_before_it_is_not() -> None:
    assert graded(Tape("L2").look().form().look().book(3).done().report()).validity == "counted"
    assert graded(Tape("L2").look().form().book(3).look().done().report()).validity == "delivery_ambiguous"


def test_a_notice_is_owed_without_a_commit_too() -> None:
    assert graded(Tape("L2").look().form().exhaust()).validity == "delivery_ambiguous"
    assert graded(Tape("L2").look().form().look().exhaust()).validity == "counted"


def test_a_review_disclosure_is_owed_to_who_commits_only() -> None:
    assert graded(Tape("LIVE-A").look().form().exhaust()).validity == "counted"


def test_a_reminder_typed_by_the_agent_is_no_link() -> None:
    tape = Tape("CUE-A").look().form().review(shown=False)
    edit(tape, Frame, -1, elements=f'[1] textbox "Note" value="] link {REMINDER}"')
    sealed(tape)
    tape.frame = tape.records[-1]  # type: ignore[assignment]
    verdict = graded(tape.book(3).done().report())
    assert [reason.code for reason in verdict.reasons] == ["review_without_link"]


def test_a_page_that_serves_what_stands_is_not_stale() -> None:
    tape = _firing(lambda tape: tape.look().page("/new/place", writes=tape.fire).page("/x", served=(SOUTH,)))
    assert graded(tape).validity == "counted"
    early = _firing(lambda tape: tape.page("/x", served=(SOUTH,)).look().page("/new/place", writes=tape.fire))
    assert [reason.code for reason in graded(early).reasons] == ["stale_page"]


def test_every_reason_code_has_a_case() -> None:
    """The codes in the source, and the cases above: neither has one that the other lacks."""
    source = "\n".join(path.read_text() for path in Path(str(envos.rewards.__file__)).parent.glob("*.py"))
    written = set(re.findall(r'(?:Reason|note)\(\s*"([a-z_]+)"', source))
    written |= {*CODES.values(), "term_failed"}
    elsewhere = {"never_exposed", "never_reached", "plan_unreadable", "world_unknown", "no_answer", "term_failed"}
    elsewhere |= {"change_before_commit", "rival_differs"}  # test_commits.py
    assert written == HARNESS.keys() | DELIVERY.keys() | TRIGGER.keys() | elsewhere
