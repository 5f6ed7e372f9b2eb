"""Names: sizes, alphabet, disjoint splits, no name within another, and people who are easily confused."""

import re
from itertools import combinations

import pytest

from envos.envs.names import POOLS, SHARED, like_name, pool
from envos.envs.streams import SPLITS, Stream
from envos.errors import UnknownName, UsageError

LEAST = {
    "given": (40, 20, 20),
    "family": (40, 20, 20),
    "place": (24, 12, 12),
    "street": (12, 8, 8),
    "session": (24, 12, 12),
    "purpose": (12, 8, 8),
    "role": (12, 8, 8),
    "company": (12, 8, 8),
    "product": (16, 10, 10),
    "cause": (20, 10, 10),
    "department": (12, 8, 8),
}
# Words that tell nothing apart; every other word of these kinds belongs to one split alone.
GENERIC = {
    "place": "annexe building centre clinic community court gate green hall health hill house hub lane lodge medical "
    "park pavilion practice quay road rooms square street surgery wing",
    "street": "avenue close crescent drive gardens lane rise road row street terrace way yard",
    "session": "advice assessment check class clinic group in review screening session support",
    "company": "and assurance ltd mutual partners",
    "product": "complete cover policy standard",
}
KINDS = tuple(LEAST)
APART = [kind for kind in KINDS if kind not in SHARED]


def every(kind: str) -> list[str]:
    """All names of a kind, each once."""
    return list(dict.fromkeys(name for split in SPLITS for name in POOLS[kind][split]))


def words(text: str) -> set[str]:
    """The words of a text: "Lock-Keeper's Lodge" has lock, keeper's and lodge."""
    return set(re.split("[ -]", text.casefold()))


def test_the_kinds() -> None:
    assert tuple(POOLS) == KINDS
    assert set(SHARED) <= set(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_sizes(kind: str) -> None:
    for split, least in zip(SPLITS, LEAST[kind], strict=True):
        assert len(pool(kind, split)) >= least


@pytest.mark.parametrize("kind", KINDS)
def test_letters_and_lengths(kind: str) -> None:
    for name in every(kind):
        assert re.fullmatch("[A-Za-z]+(?:[ '-][A-Za-z]+)*", name), name
        assert len(name) <= 32, name
        assert name[0].isupper(), name


@pytest.mark.parametrize("kind", KINDS)
def test_no_name_is_within_another(kind: str) -> None:
    for one, other in combinations([name.casefold() for name in every(kind)], 2):
        assert one not in other, (one, other)
        assert other not in one, (one, other)


@pytest.mark.parametrize("kind", KINDS)
def test_no_name_comes_twice(kind: str) -> None:
    for split in SPLITS:
        names = [name.casefold() for name in pool(kind, split)]
        assert len(set(names)) == len(names)
    shared = [set(map(str.casefold, a)) & set(map(str.casefold, b)) for a, b in combinations(POOLS[kind].values(), 2)]
    assert all(shared) if kind in SHARED else not any(shared)


@pytest.mark.parametrize("kind", GENERIC)
def test_distinguishing_words_belong_to_one_split(kind: str) -> None:
    generic = set(GENERIC[kind].split())
    for split in SPLITS:
        for name in pool(kind, split):
            assert words(name) - generic, name
    own = [set().union(*map(words, pool(kind, split))) - generic for split in SPLITS]
    assert [a & b for a, b in combinations(own, 2)] == [set()] * 3


@pytest.mark.parametrize("kind", GENERIC)
def test_the_generic_words_are_in_use(kind: str) -> None:
    assert set(GENERIC[kind].split()) <= set().union(*map(words, every(kind)))


def test_a_given_name_is_no_family_name() -> None:
    assert not set(map(str.casefold, every("given"))) & set(map(str.casefold, every("family")))


@pytest.mark.parametrize("kind", KINDS)
def test_escaping_is_exercised(kind: str) -> None:
    assert any("'" in name for name in every(kind))
    assert any("-" in name for name in every(kind)) or kind == "street"


@pytest.mark.parametrize("split", SPLITS)
def test_escaping_is_exercised_in_every_split(split: str) -> None:
    for kind in ("given", "family", "place", "session", "product", "cause"):
        assert any("'" in name for name in pool(kind, split)), kind


def test_the_pools_are_frozen() -> None:
    with pytest.raises(TypeError):
        POOLS["given"] = {}  # type: ignore[index]
    with pytest.raises(TypeError):
        POOLS["given"]["train"] = ()  # type: ignore[index]
    assert all(isinstance(names, tuple) for splits in POOLS.values() for names in splits.values())


def test_a_bad_kind_or_split_is_refused_with_the_nearest() -> None:
    with pytest.raises(UnknownName, match=r"unknown kind of name 'places'; .*did you mean 'place'"):
        pool("places", "train")
    with pytest.raises(UnknownName, match=r"unknown split 'tests'; .*did you mean 'test'"):
        pool("place", "tests")


@pytest.mark.parametrize("kind", ["given", "family"])
@pytest.mark.parametrize("split", SPLITS)
def test_every_initial_comes_twice(kind: str, split: str) -> None:
    initials = [name[0] for name in pool(kind, split)]
    assert [name for name in initials if initials.count(name) < 2] == []


@pytest.mark.parametrize("split", SPLITS)
def test_a_person_alike(split: str) -> None:
    kept = {"given": 0, "family": 0}
    for seed, given in enumerate(pool("given", split)):
        for family in pool("family", split):
            one, other = like_name(Stream(seed, split, family), given, family, split)
            assert (one == given) != (other == family)
            assert (one[0], other[0]) == (given[0], family[0])
            assert one in pool("given", split)
            assert other in pool("family", split)
            kept["given" if one == given else "family"] += 1
    assert min(kept.values()) > 0.4 * sum(kept.values())


def test_people_alike_by_hand() -> None:
    near = {like_name(Stream(seed, "train", "x"), "Yusuf", "O'Brien", "train") for seed in range(40)}
    assert near == {("Yasmin", "O'Brien"), ("Yusuf", "O'Connell")}
    # Two letters in common win over one: Maria is nearer to Marisol than to Mehmet.
    near = {like_name(Stream(seed, "train", "x"), "Maria", "Lindberg", "train") for seed in range(40)}
    assert near == {("Marisol", "Lindberg"), ("Maria", "Lightfoot"), ("Maria", "Lindqvist")}


def test_a_person_alike_without_a_like_initial() -> None:
    for seed in range(20):
        one, other = like_name(Stream(seed, "test", "x"), "Xiomara", "Xu", "test")
        assert (one in pool("given", "test")) != (other in pool("family", "test"))


def test_a_person_alike_whatever_the_case() -> None:
    for seed in range(20):
        one, other = like_name(Stream(seed, "train", "x"), "YUSUF", "o'brien", "train")
        assert (one, other) in {("Yasmin", "o'brien"), ("YUSUF", "O'Connell")}


def test_a_person_alike_takes_two_draws() -> None:
    for seed in range(10):
        stream, other = Stream(seed, "train", "x"), Stream(seed, "train", "x")
        like_name(stream, "Yusuf", "O'Brien", "train")
        other.random(), other.random()
        assert stream.state() == other.state()


def test_a_person_without_a_name_is_refused() -> None:
    for given, family in (("", "Petrov"), ("Pavel", "")):
        with pytest.raises(UsageError, match="given and a family name"):
            like_name(Stream(0, "train", "x"), given, family, "train")
