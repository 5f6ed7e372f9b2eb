"""Archives that are packed as one zip, unpacked for the reader without trusting the zip."""

import re
import stat
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

from envos.errors import EvidenceError
from envos.wrappers.archive import SIZE_LIMIT, read_bytes

MEMBERS = 1000
"""Members of a zip that are taken."""
TOTAL = 4 * SIZE_LIMIT
"""Bytes of all files together that are unpacked."""
_NAME = re.compile(r"(?:([A-Za-z0-9._-]{1,128})/)?([A-Za-z0-9._-]{1,128})?", re.ASCII)
_ENTRY = b"PK\x01\x02"
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_ENCRYPTED = 1


@contextmanager
def opened(path: Path) -> Iterator[Path]:
    """The folder of an archive: itself, or what a zip of it unpacks to, for as long as the context lasts.

    Raises EvidenceError for a zip that is not as the format has it: names that lead elsewhere or come twice, links,
    several folders, other packing, over 1000 members or 256 MiB.
    """
    if path.is_dir():
        yield path
        return
    with TemporaryDirectory(prefix="envos-zip-") as folder:
        unpack(path, Path(folder))
        yield Path(folder)


def unpack(path: Path, into: Path) -> None:
    """Write the files of a zip into an empty folder. Raises EvidenceError as `opened` does."""
    data = read_bytes(path)
    # Counted before the directory is parsed, which makes an object of every entry.
    if data.count(_ENTRY) > MEMBERS:
        raise EvidenceError(f"the zip has more than {MEMBERS} members")
    try:
        with zipfile.ZipFile(BytesIO(data)) as packed:
            left = TOTAL
            for name, member in _members(packed).items():
                with packed.open(member) as file:
                    content = file.read(SIZE_LIMIT + 1)
                left -= len(content)
                if len(content) > SIZE_LIMIT or left < 0:
                    raise EvidenceError(f"the zip holds more than {SIZE_LIMIT} bytes in a file, or {TOTAL} in all")
                (into / name).write_bytes(content)
    except (OSError, ValueError, RuntimeError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise EvidenceError(f"no zip that can be read: {type(error).__name__}") from error


def _members(packed: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """The files by name. Raises EvidenceError for a member that cannot be ours."""
    found: dict[str, zipfile.ZipInfo] = {}
    folders, taken = set[str](), set[str]()
    for member in packed.infolist():
        # What `filename` makes of a name with a zero byte is another name.
        match = _NAME.fullmatch(member.orig_filename)
        kind = stat.S_IFMT(member.external_attr >> 16)
        if match is None or not match[0] or {".", ".."} & set(match.groups()):
            raise EvidenceError("the zip has a member whose name leads elsewhere")
        if kind not in (0, stat.S_IFDIR if match[2] is None else stat.S_IFREG):
            raise EvidenceError("the zip has a link, or something else that is no file")
        if member.flag_bits & _ENCRYPTED or member.compress_type not in _METHODS:
            raise EvidenceError("the zip has a member that is encrypted, or neither stored nor deflated")
        folders.add(match[1] or "")
        if match[2] is not None:
            if match[2].casefold() in taken:
                raise EvidenceError("the zip has a name twice")
            taken.add(match[2].casefold())
            found[match[2]] = member
    if len(folders) > 1:
        raise EvidenceError("the zip has more than one folder")
    return found
