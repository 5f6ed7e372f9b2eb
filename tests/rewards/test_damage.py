"""Systematic damage to the ledger of a success: none of it is taken for one."""

import itertools

import pytest
from damage import good
from tape import Tape
from tinyworld import WORLD

from envos.envs.evidence import Record, Write
from envos.rewards.verdict import Verdict, judge


def graded(tape: Tape, records: tuple[Record, ...]) -> Verdict:
    return judge(tape.evidence(records=records), tape.plan, WORLD)


@pytest.fixture(params=["L0", "L2", "LIVE-A", "OFF-I"])
def tape(request: pytest.FixtureRequest) -> Tape:
    """A success under a condition."""
    return good(request.param)


def test_a_record_left_out_given_twice_or_last(tape: Tape) -> None:
    records = tape.evidence().records
    assert graded(tape, records).endpoint is True
    for place, record in enumerate(records):
        before, behind = records[:place], records[place + 1 :]
        assert not graded(tape, before + behind).counted
        # A doubled frame or action repeats its number; a doubled write is not what the row held by then.
        assert graded(tape, (*before, record, record, *behind)).endpoint is not True
        assert graded(tape, before).validity == "harness_error"


def test_two_neighbours_exchanged(tape: Tape) -> None:
    """Two writes of one request may stand in either order: nothing depends on it. Nothing else may."""
    records = tape.evidence().records
    for place, (left, right) in enumerate(itertools.pairwise(records)):
        swapped = (*records[:place], right, left, *records[place + 2 :])
        if not (isinstance(left, Write) and isinstance(right, Write)):
            assert graded(tape, swapped).endpoint is not True, (place, left, right)


def test_no_state_but_the_right_one(tape: Tape) -> None:
    """Any cell of the state after the episode that is not as written contradicts the journal."""
    evidence = tape.evidence()
    for name, (columns, rows) in evidence.post.items():
        for key, row in rows.items():
            for at in range(1, len(row)):
                other = (*row[:at], "tampered", *row[at + 1 :])
                post = {**evidence.post, name: type(evidence.post[name])(columns, {**rows, key: other})}
                assert judge(tape.evidence(post=post), tape.plan, WORLD).validity == "harness_error"
