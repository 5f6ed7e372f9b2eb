"""Every exception that EnvOS raises on purpose.

    EnvOSError
    |-- UsageError (also ValueError)      an argument is wrong: says what was expected and what came
    |   |-- UnknownName                   a name that does not exist: lists the valid ones and the nearest
    |   `-- RoleError                     a phenomenon needs a role that the world does not have
    |-- DatabaseError                     the database was used out of order
    |-- BrowserError                      the browser crashed, hung or did something else than it was told
    |-- EvidenceError                     an archive or a record cannot be read
    `-- CertificateError                  an instance is not admitted: no certificate, or one of other code

From the agent's side nothing is raised: a bad action is an error line in the observation.
"""

from collections.abc import Iterable
from difflib import get_close_matches

__all__ = [
    "BrowserError",
    "CertificateError",
    "DatabaseError",
    "EnvOSError",
    "EvidenceError",
    "RoleError",
    "UnknownName",
    "UsageError",
]


class EnvOSError(Exception):
    """The root of the tree: catch this to catch everything that EnvOS raises on purpose."""


class UsageError(EnvOSError, ValueError):
    """An argument is wrong; the message says what was expected and what came."""


class UnknownName(UsageError):
    """A name that does not exist; the message lists the valid names and the nearest one."""

    def __init__(self, kind: str, given: object, valid: Iterable[str]) -> None:
        names = list(valid)
        near = get_close_matches(str(given), names, n=1, cutoff=0.5)
        # A close match in another case ("off-a") would be missed by the ratio alone.
        near = near or [name for name in names if name.casefold() == str(given).casefold()]
        hint = f"; did you mean {near[0]!r}?" if near else ""
        shown = str(given)[:80]
        super().__init__(f"unknown {kind} {shown!r}; valid: {', '.join(names)}{hint}")


class RoleError(UsageError):
    """A phenomenon needs a role that the world does not have; the message names both and the role."""


class DatabaseError(EnvOSError):
    """The database was used out of order (an open transaction, a closed connection, a bad row)."""


class BrowserError(EnvOSError):
    """The browser crashed, hung or did something else than it was told; it ends an episode as `infra_failure`."""


class EvidenceError(EnvOSError):
    """An archive or one of its records cannot be read; the message names the file and the line."""


class CertificateError(EnvOSError):
    """An instance is not admitted; the message says which certificate is missing or out of date."""
