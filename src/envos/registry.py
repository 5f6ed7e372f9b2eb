"""The composition root: puts world, phenomenon, driver, verifier and wrappers together into an environment.

Nothing imports this module but the front door; Gymnasium finds `make` by its string.
"""

import hashlib
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import gymnasium

from envos import __version__
from envos.envs.drivers.inprocess import Driver, InProcess
from envos.envs.env import EnvOS
from envos.envs.evidence import FORMAT
from envos.envs.scenario import load_phenomenon, load_world, scenario
from envos.errors import UnknownName
from envos.rewards.verdict import GRADER, verify
from envos.wrappers.certified import CertifiedEnv

CODE_PACKAGES = ("envos.envs", "envos.rewards")
"""What the behaviour and the verdict of an episode depend on."""


def _inprocess(screenshot: bool) -> Driver:
    return InProcess()


def _html(screenshot: bool) -> Driver:
    driver: Driver = import_module("envos.envs.drivers.html").Html()
    return driver


def _chromium(screenshot: bool) -> Driver:
    driver: Driver = import_module("envos.envs.drivers.chromium").Chromium(pictures=screenshot)
    return driver


DRIVERS: Mapping[str, Callable[[bool], Driver]] = {"inprocess": _inprocess, "html": _html, "chromium": _chromium}
"""Driver names, and what makes one; a browser's takes screenshots if it is told so."""

KEYWORDS = ("condition", "split", "anchor", "driver", "screenshot", "certify", "certificate")
"""What `gymnasium.make` takes beside Gymnasium's own keywords."""
CERTIFY = ("off", "require", "auto")
"""Whether instances must hold a certificate: no; one from a file; one made at reset."""


def make(
    *,
    environment: str,
    condition: str = "mixed",
    split: str = "train",
    anchor: str = "any",
    driver: str = "inprocess",
    screenshot: bool = True,
    certify: str = "off",
    certificate: str | None = None,
    render_mode: str | None = None,
    **unknown: Any,
) -> gymnasium.Env[Any, str]:
    """The environment of an id; what `gymnasium.make` calls.

    `screenshot=False` leaves the pictures out of what `driver="chromium"` observes, which doubles its speed.
    `certify="require"` admits only instances that the certificate file admits, `certify="auto"` certifies each instance
    at reset. Raises UnknownName for a name that does not exist and UsageError for a value that is wrong.
    """
    for name in unknown:
        raise UnknownName("keyword", name, KEYWORDS)
    if driver not in DRIVERS:
        raise UnknownName("driver", driver, DRIVERS)
    if certify not in CERTIFY:
        raise UnknownName("certify mode", certify, CERTIFY)
    env = build(environment, DRIVERS[driver](screenshot), condition, split, anchor, render_mode)
    if certify == "off":
        return env
    # Certification stands above the wrappers in the order of imports, so it is reached by name.
    certifier = import_module("envos.certify.certificate").certifier(env.scenario.id, certify, certificate)
    return CertifiedEnv(env, certifier)


def build(
    environment: str, driver: Driver, condition: str, split: str, anchor: str, render_mode: str | None = None
) -> EnvOS:
    """The environment of an id on a driver, without wrappers. Raises UnknownName and UsageError."""
    line = scenario(environment)
    return EnvOS(
        line,
        load_world(line.world),
        load_phenomenon(line.phenomenon),
        verify,
        condition=condition,
        split=split,
        anchor=anchor,
        driver=driver,
        code=code_identity(),
        render_mode=render_mode,
    )


@cache
def code_identity() -> Mapping[str, str]:
    """Version, digest of the code that decides episodes, grader version and record format."""
    digest = hashlib.sha256()
    for package in CODE_PACKAGES:
        root = Path(str(import_module(package).__file__)).parent
        code = [path for path in root.rglob("*") if path.suffix in (".py", ".js")]
        for path in sorted(code, key=lambda path: path.relative_to(root).as_posix()):
            name = f"{package}/{path.relative_to(root).as_posix()}"
            digest.update(name.encode() + b"\0" + path.read_bytes().replace(b"\r\n", b"\n") + b"\0")
    return {"version": __version__, "code": digest.hexdigest(), "grader": GRADER, "format": FORMAT}
