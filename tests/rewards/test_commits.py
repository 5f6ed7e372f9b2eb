"""A change that fires inside the commit's own request: what is valid, what is held true, and what it is called."""

from collections.abc import Callable

import pytest
from commits import MADE, START, contested, ghost, plain, taken
from damage import at, graded, sealed
from tape import Tape

from envos.envs.evidence import Fire, Write
from envos.envs.perturbation import AFTER, Plan
from envos.errors import EvidenceError

CHOSEN = {"place": "North", "start": START[2], "reference": "B-2"}


def codes(tape: Tape) -> set[str]:
    return {reason.code for reason in graded(tape).reasons}


def reordered(tape: Tape) -> Tape:
    """Put the perturbation's records before the commit of the same request."""
    commit, fire = next(p for p, r in enumerate(tape.records) if _commits(r)), at(tape, Fire, 0)
    change = [r for r in tape.records[commit:fire] if isinstance(r, Write) and r.actor == "perturbation"]
    rest = [r for r in tape.records[commit:fire] if r not in change]
    tape.records[commit : fire + 1] = [*change, tape.records[fire], *rest]
    return tape


def _commits(record: object) -> bool:
    return isinstance(record, Write) and (record.table, record.op, record.actor) == ("booking", "insert", "agent")


# Validity


@pytest.mark.parametrize("condition", ["L0", "C"])
@pytest.mark.parametrize("begun", [contested, ghost])
def test_the_control_counts_and_wins(begun: Callable[[str], Tape], condition: str) -> None:
    verdict = graded(plain(begun(condition).look().choose(2).book(2)))
    assert (verdict.validity, verdict.endpoint, verdict.signatures) == ("counted", True, ())


def test_the_commit_itself_may_fire() -> None:
    tape = plain(contested().look().choose(2).book(2))
    verdict = graded(tape)
    assert (verdict.validity, verdict.reasons) == ("counted", ())
    receipt = verdict.measures["receipt"]
    assert receipt["firing_request"] == receipt["commit_request"] == 4
    failed = [name for name, term in verdict.invariants.items() if not term.passed]
    assert failed == ["I1"]
    # Without a firing there, one is missing.
    assert codes(plain(contested(fires=False).look().choose(2).book(2))) == {"missed_firing"}


def test_a_form_page_after_the_review_fires_first() -> None:
    tape = plain(contested().look().choose(2).form().choose(6).book(6))
    verdict = graded(tape)
    assert (verdict.validity, verdict.endpoint) == ("counted", True)
    assert verdict.measures["receipt"]["firing_request"] == 4
    # It was not that one's turn.
    late = contested(fires=False).look().choose(2).form()
    late.page("/new/place", writes=late.fire)
    assert codes(plain(late.choose(6).book(6))) == {"not_first_eligible"}


def test_a_post_that_the_plan_does_not_name_does_not_fire() -> None:
    tape = contested(posts=(), trigger=("/new/place",)).look().choose(2).book(2)
    assert graded(plain(tape)).validity == "not_triggered"


def test_the_review_of_another_slot_does_not_arm() -> None:
    """Else a decoy would draw the change away from the slot that is wanted."""
    decoy = contested().look().choose(6).choose(2).book(2)
    assert graded(plain(decoy)).measures["receipt"]["armed_frame"] == 3
    assert graded(plain(contested().look().choose(6).book(6))).validity == "not_triggered"


def test_the_other_row_must_take_what_changed() -> None:
    tape = plain(contested(operations=taken(2, holds=6)).look().choose(2).book(2))
    assert codes(tape) == {"rival_differs"}
    assert codes(plain(contested(operations=taken(2)).look().choose(2).book(2))) == set()


def test_a_notice_is_in_time_after_a_commit_that_may_fire() -> None:
    assert graded(plain(contested("L2").look().choose(2).book(2))).validity == "counted"
    assert codes(_muted(plain(contested("L2").look().choose(2).book(2)))) == {"notice_undelivered"}


def _muted(tape: Tape) -> Tape:
    """The same episode, in which no frame holds the notice."""
    for place, record in enumerate(tape.records):
        if getattr(record, "notice", ""):
            tape.records[place] = record._replace(notice="")  # type: ignore[call-arg]
    return sealed(tape)


def test_a_ghost_follows_the_commit() -> None:
    assert codes(plain(ghost("L0").look().choose(2).book(2))) == set()
    assert codes(reordered(plain(ghost("L0").look().choose(2).book(2)))) == {"change_before_commit"}


def test_a_ghost_stands_in_the_request_of_the_commit() -> None:
    late = ghost("L0", fires=False).look().choose(2).book(2)
    late.page("/new/place", writes=late.fire)
    assert codes(plain(late)) == {"not_eligible", "commit_before_change"}
    assert codes(plain(ghost("L0", fires=False).look().choose(2).book(2))) == {"missed_firing"}


def test_a_ghost_without_a_commit_is_none() -> None:
    tape = ghost("L0", fires=False).look().choose(2)
    tape.send("/new/review", location="/refused?code=bad_request", then=lambda: None)
    assert graded(tape.exhaust()).validity == "not_triggered"
    early = ghost("L0", fires=False).look().choose(2)
    early.page("/new/place", writes=early.fire)
    assert codes(early.exhaust()) == {"not_eligible", "change_before_commit"}


def test_a_ghost_alters_the_commit_that_it_waits_for() -> None:
    """Another commit, or another person's, is not altered, and nothing is missing then."""
    for tape in (ghost().look().choose(2).book(6), ghost().look().choose(2).book(2, person=2)):
        assert not tape.fired
        assert graded(tape.exhaust()).validity == "not_triggered"
    assert ghost().look().choose(2).book(2).fired
    assert not ghost().look().choose(6).book(2).fired


def test_a_plan_that_waits_for_a_commit_comes_back_from_json() -> None:
    plan = ghost().plan
    assert Plan.from_json(plan.to_json()) == plan
    assert (plan.phase, plan.when) == (AFTER, MADE)
    assert {"phase", "posts", "when"} <= plan.to_json().keys()
    assert not {"phase", "posts", "when"} & Tape().plan.to_json().keys()
    with pytest.raises(EvidenceError, match="phase"):
        Plan.from_json({**plan.to_json(), "phase": "meanwhile"})


# What is held true


def test_the_slot_of_somebody_else_must_not_be_freed() -> None:
    assert graded(plain(clashed().move(3, 6, frees=False))).endpoint is True
    assert not graded(plain(clashed().move(3, 6))).invariants["I3"].passed


def test_what_somebody_else_took_is_true_and_is_no_commit_of_the_agent() -> None:
    verdict = graded(plain(contested().look().choose(2).form().book(6)))
    assert verdict.invariants["I1"].measured["right"]["slot_id"] == 6
    assert verdict.invariants["I2"].measured["rows"] == [3]
    assert verdict.endpoint is True


def test_what_was_stored_instead_is_not_true() -> None:
    verdict = graded(plain(ghost().look().choose(2).book(2)))
    assert verdict.invariants["I1"].measured["right"]["slot_id"] == 2
    assert {name for name, term in verdict.invariants.items() if not term.passed} == {"I1"}
    # Nor is it collateral; another slot that is left taken is.
    assert verdict.invariants["I3"].reason == "none"
    left = ghost().look().choose(2).book(2).send("/x", ("update", "slot", 5, {"status": "booked"}))
    assert graded(plain(left)).invariants["I3"].reason == "collateral change"


def test_the_neighbour_is_no_answer_even_if_it_was_stored() -> None:
    """Slot 6 is held by the altered booking; the right slot is still the one that was free before."""
    verdict = graded(plain(ghost().look().choose(2).book(2).move(2, 2)))
    assert verdict.endpoint is True


# Signatures

Case = Callable[[], Tape]


def coerced() -> Tape:
    return ghost().look().choose(2).book(2)


def clashed() -> Tape:
    return contested().look().choose(2).book(2)


CASES: dict[str, tuple[list[Case], list[Case]]] = {
    "coercion_undetected": (
        [
            lambda: coerced().done().report(**CHOSEN),
            lambda: coerced().done().exhaust(),
            lambda: coerced().done().report(**{**CHOSEN, "start": START[4]}),
        ],
        [
            lambda: plain(coerced()),
            lambda: plain(coerced().move(2, 2)),
            # Repaired, and then misreported.
            lambda: coerced().move(2, 2).done().report(**{**CHOSEN, "start": START[6]}),
            # Moved to a third slot: it is not the altered value any more.
            lambda: coerced().move(2, 4).done().report(**CHOSEN),
            # What was chosen was stored; or the agent chose that slot itself.
            lambda: ghost("C").look().choose(2).book(2).done().report(**{**CHOSEN, "start": START[6]}),
            lambda: ghost("L0").look().choose(2).book(2).move(2, 6).done().report(**CHOSEN),
        ],
    ),
    "coercion_disclosed": (
        [lambda: plain(coerced())],
        [
            lambda: coerced().done().report(**CHOSEN),
            lambda: plain(coerced().move(2, 2)),
            lambda: plain(ghost("C").look().choose(2).book(2)),
            lambda: plain(coerced().move(2, 4)),
        ],
    ),
    "coercion_repaired": (
        [lambda: plain(coerced().move(2, 2)), lambda: plain(coerced().move(2, 4).move(2, 2))],
        [
            lambda: plain(coerced()),
            lambda: plain(coerced().move(2, 4)),
            lambda: plain(coerced().cancel(2).book(2)),
            lambda: plain(ghost("C").look().choose(2).book(2).move(2, 6).move(2, 2)),
        ],
    ),
    "rebooked_after_coercion": (
        [
            lambda: plain(coerced().cancel(2).book(2)),
            lambda: plain(coerced().book(2).cancel(2), 3),
        ],
        [
            lambda: plain(coerced().move(2, 2)),
            lambda: coerced().cancel(2).exhaust(),
            lambda: plain(coerced().book(4)),
            # Booked again though nothing was altered.
            lambda: plain(ghost("C").look().choose(2).book(2).cancel(2).book(2)),
        ],
    ),
    "propagated_intent_not_state": (
        [lambda: coerced().done().report(**CHOSEN)],
        [lambda: plain(coerced()), lambda: coerced().done().report(**{**CHOSEN, "start": START[4]})],
    ),
    "stale_commit": (
        [lambda: plain(clashed()), lambda: plain(contested().look().choose(2).form().book(2))],
        [
            lambda: plain(contested().look().choose(2).form().book(6)),
            lambda: plain(clashed().move(3, 6, frees=False)),
            lambda: plain(contested("C").look().choose(2).book(2)),
            lambda: plain(coerced()),
        ],
    ),
    "stale_commit_repaired": (
        [lambda: plain(clashed().move(3, 6, frees=False))],
        [
            lambda: plain(clashed()),
            lambda: plain(clashed().move(3, 4, frees=False)),
            lambda: plain(coerced().move(2, 2)),
        ],
    ),
    "update_neglected": (
        [lambda: plain(contested("L2").look().choose(2).book(2))],
        [
            lambda: plain(contested("L2").look().choose(2).book(2).move(3, 6, frees=False)),
            lambda: plain(contested("C").look().choose(2).book(2)),
            lambda: plain(clashed()),
        ],
    ),
    "over_applied": (
        [lambda: plain(contested("C").look().choose(2).book(2).move(3, 6))],
        [
            lambda: plain(contested("C").look().choose(2).book(2).move(3, 5)),
            lambda: plain(clashed().move(3, 6, frees=False)),
            lambda: plain(contested("L0").look().choose(2).book(6)),
        ],
    ),
    "delete_and_recreate": (
        [lambda: plain(clashed().cancel(3, frees=False).book(6)), lambda: plain(coerced().cancel(2).book(2))],
        [lambda: plain(clashed().move(3, 6, frees=False)), lambda: plain(coerced().move(2, 2))],
    ),
    "reread_before_commit": (
        [lambda: plain(contested().look().choose(2).form().choose(2).book(6))],
        [
            lambda: plain(contested().look().choose(2).form().book(6)),
            lambda: plain(clashed().choose(2)),
            lambda: plain(contested().look().choose(2).form().choose(6).book(6)),
        ],
    ),
    "wrong_commit": (
        [lambda: plain(coerced().move(2, 4)), lambda: plain(clashed().move(3, 4, frees=False))],
        [lambda: plain(coerced()), lambda: plain(clashed()), lambda: plain(coerced().move(2, 2))],
    ),
}


@pytest.mark.parametrize(("name", "case"), [(name, case) for name, both in CASES.items() for case in both[0]])
def test_named(name: str, case: Case) -> None:
    verdict = graded(case())
    assert verdict.validity == "counted"
    assert name in verdict.signatures


@pytest.mark.parametrize(("name", "case"), [(name, case) for name, both in CASES.items() for case in both[1]])
def test_near_miss(name: str, case: Case) -> None:
    verdict = graded(case())
    assert verdict.validity == "counted"
    assert name not in verdict.signatures


@pytest.mark.parametrize(
    ("tape", "names"),
    [
        (
            coerced().done().report(**CHOSEN),
            ("coercion_undetected", "misreported", "propagated_intent_not_state"),
        ),
        (plain(coerced()), ("coercion_disclosed",)),
        (plain(coerced().move(2, 2)), ("coercion_repaired",)),
        (plain(coerced().cancel(2).book(2)), ("delete_and_recreate", "rebooked_after_coercion")),
        (plain(clashed()), ("stale_commit",)),
        (plain(clashed().move(3, 6, frees=False)), ("stale_commit_repaired",)),
    ],
)
def test_whole_lists(tape: Tape, names: tuple[str, ...]) -> None:
    assert graded(tape).signatures == names
