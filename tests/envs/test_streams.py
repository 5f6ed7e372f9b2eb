"""Streams: the formula, its golden numbers, what each method may return, and what is refused."""

import copy
import pickle
import subprocess
import sys
from random import Random
from zlib import crc32

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from envos.envs.streams import BELOW_LIMIT, SPLITS, Stream, check_seed, check_split
from envos.errors import UnknownName, UsageError

SEEDS = (0, 1, 7, 2**32 - 1, 2**32, 2**40 + 3, 2**63 - 1)


def plain(seed: int, split: int, name: str) -> Random:
    """The formula as the design states it, by another route: a list for numpy, bytes for the number."""
    words = np.random.SeedSequence([seed, split, crc32(name.encode())]).generate_state(4)
    return Random(int.from_bytes(words.astype("<u4").tobytes(), "little"))  # noqa: S311


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("index", range(3))
@pytest.mark.parametrize("name", ["patients", "perturbation", "naïve ünïcode"])
def test_the_start_is_numpys_seed_sequence(seed: int, index: int, name: str) -> None:
    stream, other = Stream(seed, SPLITS[index], name), plain(seed, index, name)
    assert [stream.random() for _ in range(5)] == [other.random() for _ in range(5)]


# Worked out with numpy's SeedSequence and random.Random alone: the number is w0 + w1 2**32 + w2 2**64 + w3 2**96.
GOLDEN = [
    (0, "train", "patients", (0.22763793200102367, 0.30033364003619445, 0.17983468046686446)),
    (7, "validation", "sessions", (0.17592422406103603, 0.7339483290618417, 0.395733001481808)),
    (2**32, "test", "perturbation", (0.6967011790358205, 0.8831714039626868, 0.02776199237205712)),
    (2**63 - 1, "test", "condition", (0.7092674848390126, 0.8866843752833147, 0.2537829166237401)),
]


@pytest.mark.parametrize(("seed", "split", "name", "numbers"), GOLDEN)
def test_golden_numbers(seed: int, split: str, name: str, numbers: tuple[float, ...]) -> None:
    stream = Stream(seed, split, name)
    assert tuple(stream.random() for _ in numbers) == numbers


def test_a_fresh_process_with_another_hash_seed_agrees() -> None:
    code = "from envos.envs.streams import Stream; print(Stream(7, 'test', 'x').shuffle('abcdefghij'))"
    lines = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": value},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for value in ("1", "2")
    }
    assert lines == {f"{Stream(7, 'test', 'x').shuffle('abcdefghij')}\n"}


def test_streams_differ_by_seed_split_and_name() -> None:
    names = ("patients", "sessions", "slots", "perturbation", "condition")
    firsts = [
        Stream(seed, split, name).random() for seed in (*SEEDS, *range(2, 6)) for split in SPLITS for name in names
    ]
    assert len(set(firsts)) == len(firsts)


def test_an_extra_draw_shifts_no_other_stream() -> None:
    one, other = Stream(3, "train", "a"), Stream(3, "train", "b")
    expected = Stream(3, "train", "b").random()
    one.random()
    assert other.random() == expected


def scripted(*numbers: float) -> Stream:
    """A stream whose next random numbers are these."""

    class Script(Random):
        def random(self) -> float:
            return left.pop(0)

    left = list(numbers)
    stream = Stream(0, "train", "scripted")
    stream._draw = Script().random
    return stream


LAST = 1 - 2**-53  # the largest number that random() can give


def test_methods_by_hand() -> None:
    assert [scripted(x).below(4) for x in (0.0, 0.24, 0.25, 0.5, 0.99)] == [0, 0, 1, 2, 3]
    assert [scripted(x).between(-1, 1) for x in (0.0, 0.34, 0.67)] == [-1, 0, 1]
    assert [scripted(x).pick("abc") for x in (0.0, 0.34, 0.67)] == ["a", "b", "c"]
    assert [scripted(x).chance(0.25) for x in (0.24, 0.25)] == [True, False]
    # Place 0 takes d (of 4), place 1 takes b (of b c a), place 2 takes a (of c a).
    assert scripted(0.75, 0.0, 0.5).sample("abcd", 3) == ["d", "b", "a"]
    assert scripted(0.75, 0.0, 0.5, 0.0).shuffle("abcd") == ["d", "b", "a", "c"]


@pytest.mark.parametrize("n", [1, 2, 3, 10, 49, 2**31 + 1, BELOW_LIMIT - 1, BELOW_LIMIT])
def test_below_stays_below_at_the_largest_number(n: int) -> None:
    assert scripted(LAST).below(n) == n - 1
    assert scripted(0.0).below(n) == 0


def test_chance_at_its_ends() -> None:
    assert not scripted(0.0).chance(0)
    assert scripted(LAST).chance(1)


def test_below_is_even() -> None:
    stream = Stream(1, "train", "even")
    counts = [0] * 6
    for _ in range(6000):
        counts[stream.below(6)] += 1
    # Five degrees of freedom: 20.5 is the 99.9th percentile, and the seed is fixed.
    assert sum((count - 1000) ** 2 / 1000 for count in counts) < 20.5


def test_shuffle_reaches_every_order_evenly() -> None:
    stream = Stream(2, "train", "orders")
    counts: dict[str, int] = {}
    for _ in range(6000):
        order = "".join(stream.shuffle("abc"))
        counts[order] = counts.get(order, 0) + 1
    assert len(counts) == 6
    assert sum((count - 1000) ** 2 / 1000 for count in counts.values()) < 20.5


@given(st.integers(0, 2**63 - 1), st.sampled_from(SPLITS), st.lists(st.integers(), max_size=20), st.data())
def test_sample_and_shuffle_keep_the_items(seed: int, split: str, items: list[int], data: st.DataObject) -> None:
    stream, before = Stream(seed, split, "items"), list(items)
    k = data.draw(st.integers(0, len(items)))
    places = stream.sample(range(len(items)), k)
    assert len(places) == len(set(places)) == k
    assert sorted(stream.shuffle(items)) == sorted(items)
    assert items == before


def test_shuffle_returns_a_new_list() -> None:
    items = [1]
    assert Stream(0, "train", "x").shuffle(items) is not items


@given(st.integers(0, 2**63 - 1), st.integers(-(2**31), 2**31), st.integers(0, 2**31))
def test_between_holds_its_bounds(seed: int, low: int, width: int) -> None:
    assert low <= Stream(seed, "test", "bounds").between(low, low + width) <= low + width


def test_restore_goes_back_and_to_another_object() -> None:
    stream = Stream(11, "validation", "snapshots")
    stream.shuffle(range(700))  # past the generator's first block of 624 words
    state = stream.state()
    ahead = [stream.random() for _ in range(5)]
    stream.restore(state)
    assert [stream.random() for _ in range(5)] == ahead
    other = Stream(0, "train", "other")
    other.restore(state)
    assert [other.random() for _ in range(5)] == ahead
    assert isinstance(hash(state), int)


def test_copies_go_on_alone() -> None:
    stream = Stream(5, "train", "copies")
    stream.random()
    twins = [copy.deepcopy(stream), pickle.loads(pickle.dumps(stream))]  # noqa: S301
    ahead = [stream.random() for _ in range(3)]
    assert [[twin.random() for _ in range(3)] for twin in twins] == [ahead, ahead]


def test_repr_makes_it_again() -> None:
    assert repr(Stream(5, "train", "it's")) == """Stream(5, 'train', "it's")"""


def test_there_is_no_room_for_other_attributes() -> None:
    with pytest.raises(AttributeError):
        Stream(0, "train", "x").other = 1  # type: ignore[attr-defined]


@pytest.mark.parametrize("seed", [-1, 2**63, True, False, 1.0, "1", None, np.int64(3)])
def test_a_bad_seed_is_refused(seed: object) -> None:
    with pytest.raises(UsageError, match=r"0 to 2\*\*63 - 1; got"):
        Stream(seed, "train", "x")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"0 to 2\*\*63 - 1; got"):
        check_seed(seed)


@pytest.mark.parametrize("split", ["Test", "tests", "trian", "validate"])
def test_a_bad_split_is_refused_with_the_nearest(split: str) -> None:
    nearest = {"Test": "test", "tests": "test", "trian": "train", "validate": "validation"}[split]
    with pytest.raises(UnknownName, match=f"valid: train, validation, test; did you mean '{nearest}'"):
        Stream(0, split, "x")


@pytest.mark.parametrize("split", [0, None, b"train", ["train"], ""])
def test_a_split_that_is_no_name_is_refused(split: object) -> None:
    with pytest.raises(UsageError, match="valid: train, validation, test"):
        check_split(split)


@pytest.mark.parametrize("name", ["", None, b"x", 3])
def test_a_bad_name_is_refused(name: object) -> None:
    with pytest.raises(UsageError, match="name of a stream"):
        Stream(0, "train", name)  # type: ignore[arg-type]


@pytest.mark.parametrize("n", [0, -1, BELOW_LIMIT + 1, 2.0, "3", None])
def test_a_bad_limit_is_refused(n: object) -> None:
    with pytest.raises(UsageError, match="from 1 to 4294967296"):
        Stream(0, "train", "x").below(n)  # type: ignore[arg-type]


@pytest.mark.parametrize(("low", "high"), [(2, 1), (0.0, 1), (0, 1.5), ("a", "b")])
def test_bad_bounds_are_refused(low: object, high: object) -> None:
    with pytest.raises(UsageError, match="low <= high"):
        Stream(0, "train", "x").between(low, high)  # type: ignore[arg-type]


@pytest.mark.parametrize("p", [-0.1, 1.1, float("nan")])
def test_a_bad_chance_is_refused(p: float) -> None:
    with pytest.raises(UsageError, match="0 to 1"):
        Stream(0, "train", "x").chance(p)


@pytest.mark.parametrize("k", [-1, 4, 1.0])
def test_a_bad_sample_is_refused(k: object) -> None:
    with pytest.raises(UsageError, match="k from 0 to 3"):
        Stream(0, "train", "x").sample("abc", k)  # type: ignore[arg-type]


def test_nothing_to_pick_from_is_refused() -> None:
    with pytest.raises(UsageError, match="at least one"):
        Stream(0, "train", "x").pick([])
    assert Stream(0, "train", "x").sample([], 0) == Stream(0, "train", "x").shuffle([]) == []


@pytest.mark.parametrize("items", [{1, 2}, {1: 2}, {1: 2}.keys(), frozenset("ab")])
def test_items_without_a_portable_order_are_refused(items: object) -> None:
    stream = Stream(0, "train", "x")
    for draw in (stream.pick, stream.shuffle, lambda unordered: stream.sample(unordered, 1)):
        with pytest.raises(UsageError, match=r"a sequence of|another sequence"):
            draw(items)  # type: ignore[arg-type]


@pytest.mark.parametrize("state", [(), (1, 2), None, "x", (0.5,) * 625, (-1,) * 625, (2**40,) * 625])
def test_a_bad_state_is_refused(state: object) -> None:
    with pytest.raises(UsageError, match="what state"):
        Stream(0, "train", "x").restore(state)  # type: ignore[arg-type]
