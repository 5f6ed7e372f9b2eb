"""What the agent had been shown when it acted: each measure with a case that has it and one that has not.

OFF-A: the Fair moves from North (slot 2) to South (slot 3) inside the first form request after the source was read.
"""

from collections.abc import Callable
from typing import Any

import pytest
from tape import Tape
from tinyworld import WORLD

from envos.envs.evidence import Write
from envos.rewards.exposure import _overtaken
from envos.rewards.verdict import Verdict, judge

Case = Callable[[], Tape]
ARM = ["event", 1, "place_id"]


def graded(tape: Tape) -> Verdict:
    verdict = judge(tape.evidence(), tape.plan, WORLD)
    assert verdict.validity in ("counted", "not_triggered"), verdict.reasons
    return verdict


def begun(condition: str = "OFF-A", **options: Any) -> Tape:
    """Up to the review step without a look back."""
    return Tape(condition, **options).look().form().review()


def plain(tape: Tape) -> Tape:
    """Close the ticket with the newest booking, and report it."""
    key = max(tape.running.state["booking"].rows)
    return tape.done(f"B-{key}").report()


def lost(tape: Tape, slot: int) -> Tape:
    """Confirm a booking that is stored, with an answer that says nothing of it."""
    tape.step += 1
    key = max(tape.running.state["booking"].rows) + 1
    row = {**tape.now("slot", slot), "reference": f"B-{key}", "person_id": 1, "slot_id": slot, "status": "booked"}

    def writes() -> None:
        tape.write("insert", "booking", key, **{name: value for name, value in row.items() if name != "id"})
        tape.write("update", "slot", slot, status="booked")

    tape._asked("POST", "/new/review", (), writes, params={"slot": str(slot), "key": f"k{key}"}, status=500)
    tape._acted('click("3")')
    tape._shown("/new/review", "# Something went wrong")
    return tape


def listed(tape: Tape, text: str) -> Tape:
    """Open the list of bookings."""
    tape.step += 1
    tape._asked("GET", "/bookings")
    tape._acted('goto("/bookings")')
    tape._shown("/bookings", f"# Bookings\n{text}")
    return tape


def edited(tape: Tape) -> Tape:
    """Write the row of the Fair: its parking moves."""
    return tape.send("/x", ("update", "event", 1, {"parking_id": 1}))


LAGS: dict[str, tuple[Case, tuple[int | None, int, int | None]]] = {
    "stale": (lambda: begun().book(2), (0, 1, 1)),
    "read again": (lambda: begun().look().book(3), (1, 1, 0)),
    "read again, and not shown": (lambda: begun().look(shown=False).book(3), (0, 1, 1)),
    "the review shows it": (lambda: begun("LIVE-A").book(3), (1, 1, 0)),
    "the review only links to it": (lambda: begun("CUE-A").book(2), (0, 1, 1)),
    "the notice says it": (lambda: begun("L2").book(2), (1, 1, 0)),
    "the notice is about something else": (lambda: begun("C").book(2), (0, 0, 0)),
    "another record changed": (lambda: begun("OFF-I").book(2), (0, 0, 0)),
    "nothing changed": (lambda: begun("L0").book(2), (0, 0, 0)),
    "never shown": (lambda: Tape().form().book(2), (None, 0, None)),
    "changed twice, by the agent too": (
        lambda: begun().send("/x", ("update", "event", 1, {"place_id": 3})).book(2),
        (0, 2, 2),
    ),
}


@pytest.mark.parametrize("name", LAGS)
def test_the_version_lag_of_a_commit(name: str) -> None:
    """(served, current, lag): writes of the cell before the page that delivered it, before the commit, in between."""
    case, wanted = LAGS[name]
    (commit,) = graded(plain(case())).measures["commits"]
    (fact,) = commit["facts"]
    assert fact["cell"] == ARM
    assert (fact["served"], fact["current"], fact["lag"]) == wanted


def test_each_commit_has_its_own_measures() -> None:
    """Steps: look 1, form 2 (fires), review 3, book 4, look 5, book 6; the redirects count as requests."""
    first, second = graded(plain(begun().book(2).look().book(3))).measures["commits"]
    assert (first["step"], first["request"], first["row"]) == (4, 5, 2)
    assert (second["step"], second["request"], second["row"]) == (6, 8, 3)
    assert (first["reread_before_commit"], second["reread_before_commit"]) == (False, True)
    assert [commit["facts"][0]["lag"] for commit in (first, second)] == [1, 0]


def test_a_commit_depends_on_the_watched_row_that_it_takes() -> None:
    """A watched slot is a fact of the commit that takes it, and of no other."""
    watched = (("event", 1, "place_id"), ("slot", 3, "status"))
    (commit,) = graded(plain(begun(watched=watched).book(3))).measures["commits"]
    assert [fact["cell"] for fact in commit["facts"]] == [ARM, ["slot", 3, "status"]]
    assert commit["facts"][1]["lag"] is None
    (commit,) = graded(plain(begun(watched=watched).book(2))).measures["commits"]
    assert [fact["cell"] for fact in commit["facts"]] == [ARM]


@pytest.mark.parametrize(
    ("case", "wanted"),
    [
        (lambda: Tape().look().form().look().book(3), True),
        (lambda: Tape().look().look().form().book(3), False),
        (lambda: Tape().look().form().book(3).look(), False),
        (lambda: begun("LIVE-A").book(3), False),
    ],
)
def test_reread_before_commit(case: Case, wanted: bool) -> None:
    assert [item["reread_before_commit"] for item in graded(plain(case())).measures["commits"]] == [wanted]


def test_steps_from_the_trigger() -> None:
    """Steps: look 1, form 2 (fires), page 3, look 4, book 5."""
    measured = graded(plain(Tape().look().form().page("/tickets").look().book(3))).measures
    assert (measured["steps_to_reread"], measured["steps_to_commit"]) == (2, 3)
    measured = graded(begun().exhaust()).measures
    assert (measured["commits"], measured["steps_to_commit"]) == ([], None)
    assert graded(plain(Tape().form().book(2))).measures["steps_to_commit"] is None


@pytest.mark.parametrize(
    ("case", "wanted"),
    [
        (lambda: lost(begun(), 2).book(4), True),
        # Another page does not show it; the list does, and so does the row's own page.
        (lambda: lost(begun(), 2).look().book(4), True),
        (lambda: listed(lost(begun(), 2), "B-1 | North").book(4), True),
        (lambda: listed(lost(begun(), 2), "B-1 | North\nB-2 | North").book(4), False),
        # The answer itself shows it: done, refused.
        (lambda: begun().book(2).book(4), False),
        (lambda: begun().send("/new/review", location="/refused?code=x").book(2), False),
        (lambda: lost(begun(), 2), False),
        (lambda: begun().book(2), False),
    ],
)
def test_blind_retry(case: Case, wanted: bool) -> None:
    assert graded(plain(case())).measures["blind_retry"] is wanted


@pytest.mark.parametrize(
    ("case", "wanted"),
    [
        (lambda: edited(begun()).book(3), True),
        (lambda: edited(begun().look(shown=False)).book(3), True),
        (lambda: edited(begun().look()).book(3), False),
        (lambda: edited(begun("LIVE-A")).book(3), False),
        # Before the change, without one, another row's change, or no write of it at all.
        (lambda: edited(Tape().look()).form().book(3), False),
        (lambda: edited(begun("L0")).book(2), False),
        (lambda: edited(begun("OFF-I")).book(2), False),
        (lambda: begun().book(2), False),
        # The very value is written back, blindly or not.
        (lambda: begun().send("/x", ("update", "event", 1, {"place_id": 1})).book(2), True),
        (lambda: begun().look().send("/x", ("update", "event", 1, {"place_id": 1})).book(2), False),
        # A row that nothing watches: nobody can tell when it was delivered.
        (lambda: begun().send("/x", ("update", "history", 1, {"by": "me"})).book(3), False),
    ],
)
def test_lost_update(case: Case, wanted: bool) -> None:
    assert graded(plain(case())).measures["lost_update"] is wanted


@pytest.mark.parametrize(
    ("writes", "wanted"),
    [
        ([("perturbation", 1, 2)], True),
        ([("agent", 1, 2)], False),
        ([("agent", 1, 2), ("perturbation", 2, 3)], True),
        # The agent took it, somebody freed it: it is as free as the agent was given it.
        ([("agent", 1, 2), ("perturbation", 2, 1)], False),
        ([], False),
    ],
)
def test_a_value_that_is_again_what_it_was_is_no_loss(writes: list[tuple[str, int, int]], wanted: bool) -> None:
    made = [
        (place, Write(place, actor, "update", "slot", 7, {"status": (old, new)}))
        for place, (actor, old, new) in enumerate(writes, 10)
    ]
    assert _overtaken(made, "status", 5, 20) is wanted
    assert not _overtaken(made, "status", 15, 20)
    assert not _overtaken(made, "status", 5, 10)


def test_the_measures_of_an_uncounted_episode_are_told_where_it_can_be_read() -> None:
    """A broken trigger rule leaves them; a broken ledger does not."""
    tape = plain(begun().book(2))
    verdict = judge(tape.evidence(), Tape(trigger=("/elsewhere",)).plan, WORLD)
    assert verdict.validity == "trigger_invalid"
    assert len(verdict.measures["commits"]) == 1
    broken = tape.evidence(records=tape.evidence().records[:-1])
    assert judge(broken, tape.plan, WORLD).measures == {"steps": 6}
