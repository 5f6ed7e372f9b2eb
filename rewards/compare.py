"""Equality of report fields under their type: exact in value, indifferent to case, white space and notation.

No substring, no prefix, no "contains": a field that lists all candidates equals none of them.
"""

import re
import unicodedata
from collections.abc import Callable, Mapping
from datetime import datetime
from decimal import Decimal

from envos.errors import UsageError

_LONGEST = 200
_MONEY = re.compile(r"\$? ?(-?(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]{1,15})(?:\.[0-9]{1,15})?)")
_DATETIME = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})(?:t| )([0-9]{2}):([0-9]{2})(?::00)?")


def text(value: str) -> str:
    """The value with case, white space and composition of characters levelled."""
    return " ".join(unicodedata.normalize("NFC", value).split()).casefold()


def money(value: str) -> Decimal | None:
    """The exact amount, or None: `25`, `25.0`, `25.00`, `1,400.00`, with or without the `$` that pages show."""
    found = _MONEY.fullmatch(text(value))
    return Decimal(found[1].replace(",", "")) if found else None


def moment(value: str) -> datetime | None:
    """The minute, or None: `2026-03-12 09:40`, with a `T`, with seconds that are zero."""
    found = _DATETIME.fullmatch(text(value))
    if not found:
        return None
    try:
        year, month, day, hour, minute = map(int, found.groups())
        return datetime(year, month, day, hour, minute)  # noqa: DTZ001 - virtual time has no zone
    except ValueError:
        return None


READERS: Mapping[str, Callable[[str], object]] = {
    "text": text,
    "id": text,
    "money": money,
    "datetime": moment,
}
"""Report types and what reads a value of each; None or "" stands for "not a value of this type"."""


def equal(kind: str, given: str, wanted: str) -> bool:
    """Whether `given` has the value `wanted` under the type `kind`.

    Raises UsageError when there is no such type or `wanted` is no value of it: then nothing can be decided.
    """
    read = READERS.get(kind)
    if read is None:
        raise UsageError(f"a report type is one of {', '.join(READERS)}; got {kind!r}")
    right = read(wanted)
    if right is None or right == "":
        raise UsageError(f"{wanted!r} is no {kind}")
    return len(given) <= _LONGEST and read(given) == right


def differing(types: Mapping[str, str], given: Mapping[str, str], wanted: Mapping[str, str]) -> tuple[str, ...]:
    """The names of the fields that are missing, surplus or unequal, sorted.

    Raises UsageError when `wanted` does not have exactly the fields of `types`.
    """
    if set(types) != set(wanted) or not types:
        raise UsageError(f"a report has the fields {sorted(types)}; the world describes {sorted(wanted)}")
    wrong = set(given) ^ set(types)
    wrong.update(name for name, kind in types.items() if name in given and not equal(kind, given[name], wanted[name]))
    return tuple(sorted(wrong))
