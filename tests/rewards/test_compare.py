"""Equality of report fields under their type (check E08)."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envos.errors import UsageError
from envos.rewards.compare import differing, equal


@pytest.mark.parametrize(
    ("kind", "given", "wanted"),
    [
        ("money", "25", "25.00"),
        ("money", "25.0", "25.00"),
        ("money", "25.00", "25"),
        ("money", " $1,400.00 ", "1400.00"),
        ("money", "1400", "1,400.0"),
        ("money", "-3.50", "-3.5"),
        ("datetime", "2026-03-12T09:40", "2026-03-12 09:40"),
        ("datetime", "2026-03-12 09:40:00", "2026-03-12 09:40"),
        ("datetime", "2026-03-12t09:40", "2026-03-12 09:40"),
        ("datetime", "\u00a02026-03-12  09:40\n", "2026-03-12 09:40"),
        ("text", " riverside   CLINIC ", "Riverside Clinic"),
        ("text", "Cafe\u0301", "Caf\u00e9"),
        ("text", "STRASSE", "Straße"),
        ("id", "ap-1047", "AP-1047"),
    ],
)
def test_equal(kind: str, given: str, wanted: str) -> None:
    assert equal(kind, given, wanted)


@pytest.mark.parametrize(
    ("kind", "given", "wanted"),
    [
        ("money", "25.01", "25.00"),
        ("money", "25.001", "25.00"),
        ("money", "2500", "25.00"),
        ("money", "25,00", "25.00"),
        ("money", "1,40", "140"),
        ("money", "25 or 30", "25"),
        ("money", "25 30", "25"),
        ("money", "2.5e1", "25"),
        ("money", "NaN", "25"),
        ("money", "٢٥", "25"),
        ("money", "", "25"),
        ("money", "9" * 300, "25"),
        ("datetime", "2026-03-12", "2026-03-12 00:00"),
        ("datetime", "2026-03-12 09:40:30", "2026-03-12 09:40"),
        ("datetime", "2026-03-12 09:40Z", "2026-03-12 09:40"),
        ("datetime", "2026-12-03 09:40", "2026-03-12 09:40"),
        ("datetime", "2026-02-30 09:40", "2026-03-12 09:40"),
        ("datetime", "2026-03-12 21:40", "2026-03-12 09:40"),
        ("datetime", "on 2026-03-12 09:40", "2026-03-12 09:40"),
        ("text", "Riverside", "Riverside Clinic"),
        ("text", "Riverside Clinic, Hillside", "Riverside Clinic"),
        ("text", "River side", "Riverside"),
        ("id", "AP-104", "AP-1047"),
        ("id", "AP-10470", "AP-1047"),
        ("id", "AP 1047", "AP-1047"),
        ("id", "1047", "AP-1047"),
    ],
)
def test_unequal(kind: str, given: str, wanted: str) -> None:
    assert not equal(kind, given, wanted)


@pytest.mark.parametrize(
    ("kind", "wanted"), [("colour", "red"), ("money", "lots"), ("datetime", "soon"), ("text", " "), ("id", "")]
)
def test_what_cannot_be_decided_is_an_error(kind: str, wanted: str) -> None:
    with pytest.raises(UsageError):
        equal(kind, wanted, wanted)


def test_differing_names_missing_surplus_and_unequal_fields() -> None:
    types = {"limit": "money", "by": "text"}
    wanted = {"limit": "25.00", "by": "Ada"}
    assert differing(types, {"by": "ADA", "limit": "25"}, wanted) == ()
    assert differing(types, {"limit": "26", "note": "x"}, wanted) == ("by", "limit", "note")
    assert differing(types, {}, wanted) == ("by", "limit")
    for wrong in ({}, {"limit": "25.00"}, {**wanted, "more": "x"}):
        with pytest.raises(UsageError):
            differing(types, wanted, wrong)
    with pytest.raises(UsageError):
        differing({}, {}, {})


CENTS = st.integers(-(10**9), 10**9)
WORDS = st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1, max_size=8)
MOMENTS = st.datetimes().filter(lambda moment: moment.year >= 1000)


@given(CENTS, CENTS)
def test_money_is_equal_by_amount_to_the_cent(left: int, right: int) -> None:
    given, wanted = (str(Decimal(cents).scaleb(-2)) for cents in (left, right))
    assert equal("money", given, wanted) == (left == right)


@given(MOMENTS, MOMENTS)
def test_moments_are_equal_by_the_minute(left: object, right: object) -> None:
    given, wanted = (str(moment)[:16] for moment in (left, right))
    assert equal("datetime", given.replace(" ", "T"), wanted) == (given == wanted)


@given(st.lists(WORDS, min_size=1, max_size=4), st.sampled_from([" ", "  ", "\t", "\n", "\u00a0"]))
def test_case_and_white_space_never_cost(words: list[str], gap: str) -> None:
    assert equal("text", gap + gap.join(words).swapcase() + gap, " ".join(words))


@given(st.lists(WORDS, min_size=2, max_size=6, unique_by=str.casefold), st.sampled_from([", ", " ", "; ", " or ", "/"]))
def test_a_list_of_all_candidates_equals_none_of_them(names: list[str], gap: str) -> None:
    for kind in ("text", "id"):
        assert not any(equal(kind, gap.join(names), name) for name in names)


@given(CENTS, st.lists(CENTS, min_size=1, max_size=4), st.sampled_from([" ", ", ", " or ", "/"]))
def test_a_list_of_amounts_is_no_amount(first: int, others: list[int], gap: str) -> None:
    amounts = [str(Decimal(cents).scaleb(-2)) for cents in (first, *others)]
    assert not equal("money", gap.join(amounts), amounts[0])


@given(st.text(), st.sampled_from(["money", "datetime", "text", "id"]))
def test_no_input_raises(given: str, kind: str) -> None:
    wanted = {"money": "25.00", "datetime": "2026-03-12 09:40"}.get(kind, "AP-1047")
    assert equal(kind, given, wanted) in (True, False)
