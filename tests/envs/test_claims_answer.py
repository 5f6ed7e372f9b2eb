"""The one right amount, found in two ways; the protocol's own rows; money, exact in both directions."""

from bisect import bisect_left

import pytest
from claims_desk import Record, case_of, changed, draft, roles, state

from envos.envs.evidence import Scalar, State, TableState
from envos.envs.streams import SPLITS
from envos.envs.worlds.claims import WORLD
from envos.envs.worlds.claims_rules import cents, money

split_ = pytest.mark.parametrize("split", SPLITS)


def most(now: State, task: Record) -> int:
    """The right amount found another way: the largest that the claim has room for and that is within the limit."""

    def row(table: str, key: object) -> Record:
        rows = (dict(zip(now[table].columns, row, strict=True)) for row in now[table].rows.values())
        return next(row for row in rows if row["id"] == key)

    claim = row("claim", task["claim"])
    limit = row("policy", claim["policy_id"])["reimbursement_limit"]
    # False for every amount that may be paid, then True: the first True follows the largest one.
    too_much = range(10**9)
    return (
        bisect_left(too_much, 1, key=lambda cents: cents + claim["deductible"] > claim["claimed"] or cents > limit) - 1
    )


@split_
def test_the_answer_is_the_largest_amount_that_may_be_paid(split: str) -> None:
    for seed in range(152):
        found = draft(seed, split)
        now, task = state(found), dict(found.task)
        fact = roles(found)[0]
        old = WORLD.answer(now, task)
        assert old == {"claim_id": task["claim"], "amount": most(now, task)}
        for value, _ in fact.alternatives:
            then = changed(now, "policy", fact.key, "reimbursement_limit", value)
            new = WORLD.answer(then, task)
            assert new == {"claim_id": task["claim"], "amount": most(then, task)}
            assert new != old


ROWS = [
    # claimed, deductible, eligible, old limit, new limit, correct, stale, case: protocol section 3
    ("4006.22", "75", "3931.22", "1400", "3575", "3575", "1400", "B_up"),
    ("2769.51", "75", "2694.51", "1550", "3050", "2694.51", "1550", "X_up"),
    ("1732.65", "125", "1607.65", "1325", "1175", "1175", "1325", "B_down"),
    ("4206.18", "350", "3856.18", "6725", "1700", "1700", "3856.18", "X_down"),
]


def by_hand(claimed: Scalar, deductible: Scalar, limit: Scalar) -> State:
    """Claim 3 on policy 2, and claim 4 on policy 1 with a limit of 1.00."""
    return {
        "claim": TableState(
            ("id", "policy_id", "claimed", "deductible"), {3: (3, 2, claimed, deductible), 4: (4, 1, 900, 100)}
        ),
        "policy": TableState(("id", "reimbursement_limit"), {1: (1, 100), 2: (2, limit)}),
    }


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[-1])
def test_the_worked_rows_of_the_protocol(row: tuple[str, ...]) -> None:
    claimed, deductible, eligible, old, new, correct, stale = (cents(text) or 0 for text in row[:7])
    assert claimed - deductible == eligible
    assert case_of(eligible, old, new) == row[7]
    assert WORLD.answer(by_hand(claimed, deductible, old), {"claim": 3}) == {"claim_id": 3, "amount": stale}
    assert WORLD.answer(by_hand(claimed, deductible, new), {"claim": 3}) == {"claim_id": 3, "amount": correct}


def test_the_limit_is_that_of_the_claims_own_policy() -> None:
    now = by_hand(90_000, 10_000, 50_000)
    assert WORLD.answer(now, {"claim": 3})["amount"] == 50_000
    assert WORLD.answer(now, {"claim": 4})["amount"] == 100
    assert WORLD.answer(by_hand(60_000, 10_000, 50_000), {"claim": 3})["amount"] == 50_000
    assert WORLD.answer(by_hand(59_999, 10_000, 50_000), {"claim": 3})["amount"] == 49_999
    assert WORLD.answer(by_hand(60_001, 10_000, 50_000), {"claim": 3})["amount"] == 50_000


def test_odd_states_have_no_answer_and_raise_nothing() -> None:
    assert WORLD.answer(by_hand(10_000, 10_000, 50_000), {"claim": 3}) == {}
    assert WORLD.answer(by_hand(9_999, 10_000, 50_000), {"claim": 3}) == {}
    assert WORLD.answer(by_hand(20_000, 10_000, 0), {"claim": 3}) == {}
    assert WORLD.answer(by_hand("20,000", 10_000, 1), {"claim": 3}) == {}
    assert WORLD.answer(by_hand(20_000, None, 1), {"claim": 3}) == {}
    assert WORLD.answer(by_hand(20_000, 1, None), {"claim": 3}) == {}
    assert WORLD.answer(by_hand(20_000, 1, 5), {"claim": 77}) == {}
    assert WORLD.answer({}, {"claim": 3}) == {}
    assert WORLD.answer({**by_hand(2, 1, 5), "policy": TableState((), {})}, {"claim": 3}) == {}


# --- money


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("3575", 357_500),
        ("3,575.00", 357_500),
        ("3575.0", 357_500),
        ("3575.00", 357_500),
        ("$3,575.00", 357_500),
        ("$ 3575", 357_500),
        ("2694.51", 269_451),
        ("0.07", 7),
        ("0.7", 70),
        ("0", 0),
        ("007", 700),
        ("1,234,567.89", 123_456_789),
        ("999999999.99", 99_999_999_999),
        ("3575.001", None),
        ("3575.000", None),
        ("3.575,00", None),
        ("3,575,00", None),
        ("35,75", None),
        ("3575.", None),
        (".50", None),
        ("-5", None),
        ("+5", None),
        ("1e3", None),
        ("1 000", None),
        ("1_000", None),
        ("\u0663\u0665", None),
        ("", None),
        ("$", None),
        ("3575 USD", None),
        ("1000000000", None),
        ("1400 3575", None),
    ],
)
def test_typed_amounts_are_exact(text: str, amount: int | None) -> None:
    assert cents(text) == amount


def test_amounts_are_shown_and_read_back_exactly() -> None:
    for amount in (*range(0, 1000), 99_999, 100_000, 100_001, 123_456_789, 99_999_999):
        assert cents(money(amount)) == amount
        assert cents(f"{amount // 100}.{amount % 100:02}") == amount
    assert money(357_500) == "$3,575.00"
    assert money(123_456_789) == "$1,234,567.89"
    assert money(-5) == "-$0.05"


def test_stored_values_are_worded_as_pages_show_them() -> None:
    now = state(draft(2, "validation"))
    assert WORLD.display(now, "policy", "reimbursement_limit", 140_000) == "$1,400.00"
    assert WORLD.display(now, "endorsement", "amount", 5) == "$0.05"
    assert WORLD.display(now, "policy", "reimbursement_limit", None) == ""
    assert WORLD.display(now, "policy", "broker", "Ashgrove Mutual") == "Ashgrove Mutual"
    assert WORLD.display(now, "policy", "person_id", 3) == "3"
    row: Record = {"claim_id": 1, "amount": 269_451, "reference": "D-7"}
    assert WORLD.describe(now, row) == {"amount": "$2,694.51", "reference": "D-7"}
    assert set(WORLD.describe(now, row)) == set(WORLD.report)
