"""Seeds, names, files and folders as they are given on the command line."""

from pathlib import Path

import pytest

from envos.cli_arguments import new_file, new_folder, seed_range, several, worker_count
from envos.errors import UnknownName, UsageError


@pytest.mark.parametrize(
    ("text", "seeds"),
    [
        ("0:10", range(10)),
        ("5:6", range(5, 6)),
        ("7", range(7, 8)),
        (" 3:4 ", range(3, 4)),
        ("9223372036854775806:9223372036854775808", range(2**63 - 2, 2**63)),
    ],
)
def test_seeds_are_a_half_open_range(text: str, seeds: range) -> None:
    assert seed_range(text) == seeds


@pytest.mark.parametrize(
    "text",
    [
        "",
        ":",
        "a:b",
        "5:1",
        "5:5",
        "-3:5",
        "1:-5",
        "1:2:3",
        "1.5:3",
        "1e3",
        "0x10",
        "\u0663:\u0665",
        "1 :2",
        "0:99999999999",
    ],
)
def test_other_seeds_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--seeds"):
        seed_range(text)


def test_a_seed_is_below_2_to_63() -> None:
    with pytest.raises(UsageError, match="seed is a whole number"):
        seed_range("9223372036854775808")


def test_names_come_once_and_in_the_order_of_the_valid_ones() -> None:
    assert several("condition", ["C", "L0", "C"], ("L0", "C", "L2")) == ("L0", "C")
    assert several("condition", ["C", "all"], ("L0", "C", "L2")) == ("L0", "C", "L2")


def test_an_unknown_name_shows_the_nearest() -> None:
    with pytest.raises(UnknownName, match="did you mean 'OFF-A'"):
        several("condition", ["off-a"], ("L0", "OFF-A"))


def test_a_folder_is_made_and_a_file_is_not_taken_for_one(tmp_path: Path) -> None:
    assert new_folder(tmp_path / "a" / "b").is_dir()
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(UsageError, match="is a file"):
            new_folder(path)


def test_a_file_gets_its_folder_and_a_folder_is_not_taken_for_one(tmp_path: Path) -> None:
    assert new_file(tmp_path / "a" / "file").parent.is_dir()
    with pytest.raises(UsageError, match="is a folder"):
        new_file(tmp_path / "a")


def test_workers() -> None:
    assert worker_count(3) == 3
    assert worker_count(0) >= 1
    with pytest.raises(UsageError, match="--workers"):
        worker_count(-1)
