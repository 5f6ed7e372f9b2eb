"""Zips of archives: what is unpacked, and what is refused before anything is written outside."""

import stat
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

import envos.certify.packed as module
from envos.certify.packed import opened, unpack
from envos.errors import EvidenceError

FILES = {"ledger.jsonl": b"{}\n", "pre.json": b"1\n"}


def packed(path: Path, files: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", method) as made:
        for name, data in files.items():
            made.writestr(name, data)
    return path


@pytest.mark.parametrize("folder", ["", "0000-x/"])
@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_the_files_at_the_top_or_in_one_folder_are_unpacked(tmp_path: Path, folder: str, method: int) -> None:
    entries = {folder: b""} if folder else {}
    path = packed(tmp_path / "a.zip", entries | {f"{folder}{name}": data for name, data in FILES.items()}, method)
    with opened(path) as there:
        assert {item.name: item.read_bytes() for item in there.iterdir()} == FILES
    assert not there.exists()
    with opened(tmp_path) as there:
        assert there == tmp_path


def linked(made: zipfile.ZipFile) -> None:
    info = zipfile.ZipInfo("pre.json")
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    made.writestr(info, "/etc/hostname")


def twice(made: zipfile.ZipFile) -> None:
    made.writestr("pre.json", b"1")
    made.writestr("PRE.json", b"2")


def spread(made: zipfile.ZipFile) -> None:
    made.writestr("a/pre.json", b"1")
    made.writestr("b/post.json", b"2")


def names(name: str) -> Callable[[zipfile.ZipFile], None]:
    return lambda made: made.writestr(name, b"1")


@pytest.mark.parametrize(
    ("fill", "message"),
    [
        (names("../evil"), "leads elsewhere"),
        (names("/evil"), "leads elsewhere"),
        (names(".."), "leads elsewhere"),
        (names("../"), "leads elsewhere"),
        (names("a/b/evil"), "leads elsewhere"),
        (names("a\\..\\evil"), "leads elsewhere"),
        (names("C:evil"), "leads elsewhere"),
        (linked, "a link"),
        (twice, "twice"),
        (spread, "more than one folder"),
        (lambda made: made.writestr("pre.json", b"1", zipfile.ZIP_BZIP2), "neither stored nor deflated"),
    ],
)
def test_a_zip_that_is_not_as_the_format_has_it_is_refused(
    tmp_path: Path, fill: Callable[[zipfile.ZipFile], None], message: str
) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as made:
        fill(made)
    into = tmp_path / "into"
    into.mkdir()
    with pytest.raises(EvidenceError, match=message):
        unpack(tmp_path / "a.zip", into)
    assert list(into.iterdir()) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.zip", "into"]


def test_sizes_are_bounded_by_what_comes_out_not_by_what_is_declared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = packed(tmp_path / "a.zip", {"pre.json": bytes(2000), "post.json": bytes(2000)})
    into = tmp_path / "into"
    into.mkdir()
    for name, value in (("SIZE_LIMIT", 1999), ("TOTAL", 3999), ("MEMBERS", 1)):
        with monkeypatch.context() as patch:
            patch.setattr(module, name, value)
            with pytest.raises(EvidenceError, match="the zip h"):
                unpack(path, into)
    unpack(path, into)
    assert [len((into / name).read_bytes()) for name in ("pre.json", "post.json")] == [2000, 2000]


def test_what_is_no_zip_is_refused(tmp_path: Path) -> None:
    good = packed(tmp_path / "a.zip", FILES, zipfile.ZIP_STORED)
    link = tmp_path / "link.zip"
    link.symlink_to(good)
    (tmp_path / "text.zip").write_bytes(b"no zip")
    (tmp_path / "cut.zip").write_bytes(good.read_bytes()[:-30])
    (tmp_path / "bent.zip").write_bytes(good.read_bytes().replace(b"{}\n", b"{]\n", 1))
    for name in ("link", "text", "cut", "bent", "none"):
        with pytest.raises(EvidenceError), opened(tmp_path / f"{name}.zip"):
            pass
