"""Get a browser for the tests of `driver="chromium"`, or say in one line why there is none; never fails.

Tried in this order: one that is here already (`ENVOS_CHROMIUM`, Playwright's, Debian's), Playwright's own download, and
Debian's package where this process may install packages. Without any the browser's tests are skipped.
"""

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec

from envos.envs.drivers.chromium_browser import find
from envos.errors import UsageError

PACKAGE = "chromium-headless-shell"
PATIENCE = 600
"""Seconds for one way of getting it."""


def found() -> str:
    """The browser's executable, or ""."""
    try:
        return find()
    except UsageError:
        return ""


def ran(*command: str) -> str:
    """Run a command; "" if it did its work, else why not."""
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    try:
        done = subprocess.run(  # noqa: S603 - commands of this file
            command, capture_output=True, text=True, timeout=PATIENCE, check=False, env=environment
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{command[0]}: {error}"
    said = [line.strip() for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    if done.returncode == 0:
        return ""
    telling = [line for line in said if "rror" in line or line.startswith("E:")] or said[-1:] or [str(done.returncode)]
    return f"{' '.join(command[:4])}: {telling[0]}"


def by_playwright() -> str:
    """Let Playwright download its own."""
    if find_spec("playwright") is None:
        return "Playwright is not installed"
    return ran(sys.executable, "-m", "playwright", "install", PACKAGE)


def by_debian() -> str:
    """Install Debian's package, where there is one and this process may."""
    if shutil.which("apt-get") is None:
        return "there is no apt-get"
    if os.geteuid() != 0:
        return "only root may install packages"
    return ran("apt-get", "update", "-qq") or ran(
        "apt-get", "install", "-qq", "-y", "--no-install-recommends", PACKAGE, "fonts-liberation"
    )


def main() -> None:
    """Print where the browser is, or why there is none."""
    reasons = []
    for way in (lambda: "", by_playwright, by_debian):
        reason = way()
        path = found()
        if path:
            print(f"browser: {path}")
            return
        if reason:
            reasons.append(reason)
    print(f"browser: none, its tests are skipped ({'; '.join(reasons)})")


if __name__ == "__main__":
    main()
