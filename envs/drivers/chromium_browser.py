"""The browser itself: found, started once for all environments of a process, shared, and stopped without a trace.

It is started with a pipe instead of a debugging port, so nobody else can drive it, and it ends when that pipe closes,
even if this process is killed. It has no network: it resolves no name and no address, and what a page asks for is
answered by `envos.envs.drivers.chromium_tab` or not at all.
"""

import atexit
import fcntl
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing import util
from pathlib import Path
from threading import Lock, RLock
from typing import Any

from envos.envs.drivers.chromium_pipe import Message, Pipe, Session
from envos.errors import BrowserError, UsageError

VARIABLE = "ENVOS_CHROMIUM"
"""Names the browser's executable; it is looked for nowhere else then."""
ON_PATH = ("chromium-headless-shell", "chromium")
"""Executables that Debian's packages install; the first is two to three times as fast."""
_PLAYWRIGHT = {
    "chromium_headless_shell-*": ("*/headless_shell", "*/chrome-headless-shell"),
    "chromium-*": ("chrome-linux*/chrome", "chrome-mac*/Chromium.app/Contents/MacOS/Chromium"),
}
"""Where Playwright puts browsers: folders by revision, and what to run in one; the headless shell first."""
_STOPPING = 5.0
_PREFIX, _OWNED = "envos-chromium-", "owned"

_FLAGS = (
    "--headless",
    "--remote-debugging-pipe",
    # It loads nothing but our own pages, which hold no script, and the sandbox works neither for root nor in most
    # containers.
    "--no-sandbox",
    "--disable-dev-shm-usage",
    # No network at all. Pages are answered before a name is looked up.
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-domain-reliability",
    "--disable-extensions",
    "--disable-sync",
    "--dns-prefetch-disable",
    "--no-default-browser-check",
    "--no-first-run",
    "--no-pings",
    # Going back asks again, as it does in the in-process driver.
    "--disable-back-forward-cache",
    # A new frame host for each document, and holding back its first paint, cost 40 % of the time of a step.
    "--disable-features=BackForwardCache,HttpsUpgrades,MediaRouter,OptimizationHints,PaintHolding,Prerender2,"
    "RenderDocument,Translate",
    # What is clicked before the first paint of a page counts.
    "--allow-pre-commit-input",
    "--disable-background-timer-throttling",
    "--disable-backgrounding-occluded-windows",
    "--disable-breakpad",
    "--disable-hang-monitor",
    "--disable-ipc-flooding-protection",
    "--disable-renderer-backgrounding",
    "--metrics-recording-only",
    "--mute-audio",
    "--password-store=basic",
    # Pictures depend on the machine's fonts and on nothing else.
    "--disable-gpu",
    "--disable-lcd-text",
    "--font-render-hinting=none",
    "--force-color-profile=srgb",
    "--hide-scrollbars",
    "--lang=en-US",
)


_FRAMES = ("--enable-begin-frame-control", "--run-all-compositor-stages-before-draw")
"""Let us say when a page is painted; only the headless shell knows them."""


def find() -> str:
    """The browser's executable: `ENVOS_CHROMIUM`, Playwright's own, or Debian's on the PATH. Raises UsageError."""
    named = os.environ.get(VARIABLE)
    if named:
        if shutil.which(named) is None:
            raise UsageError(f"{VARIABLE} names no executable file: {named!r}")
        return named
    for path in _installed_by_playwright():
        return str(path)
    for name in ON_PATH:
        found = shutil.which(name)
        if found:
            return found
    raise UsageError(
        'driver="chromium" needs a browser and found none: run `playwright install chromium-headless-shell` '
        '(pip install "envos[browser]"), or `apt-get install chromium-headless-shell`, or name one in ' + VARIABLE
    )


def _installed_by_playwright() -> Iterator[Path]:
    """Playwright's browsers, each kind newest first."""
    named = os.environ.get("PLAYWRIGHT_BROWSERS_PATH", "")
    usual = (Path.home() / ".cache/ms-playwright", Path.home() / "Library/Caches/ms-playwright")
    for folder in (Path(named),) if named else usual:
        for kind, executables in _PLAYWRIGHT.items():
            for revision in sorted(folder.glob(kind), key=_revision, reverse=True):
                found = (path for executable in executables for path in revision.glob(executable))
                yield from (path for path in found if os.access(path, os.X_OK))


def _revision(folder: Path) -> int:
    text = folder.name.rpartition("-")[2]
    return int(text) if text.isdecimal() else 0


class Browser:
    """A running browser. Raises BrowserError when it does not start."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.users = 0
        # By its name, since it must be known before it is started: the shell has gone by three.
        self.paints_when_told = "headless" in Path(path).name
        self.profile = Path(tempfile.mkdtemp(prefix=_PREFIX))
        # Held for as long as this process lives, so that a folder whose owner was killed can be told.
        self._owned = (self.profile / _OWNED).open("w")
        fcntl.flock(self._owned, fcntl.LOCK_EX)
        self._complaints = self.profile / "stderr"
        # The shell hands its own input and output on as the descriptors 3 and 4, where the browser expects the pipe.
        script = 'log=$1; shift; exec "$@" 3<&0 4>&1 </dev/null >/dev/null 2>"$log"'
        with_profile = [f"--user-data-dir={self.profile}/user", f"--crash-dumps-dir={self.profile}"]
        command = ["/bin/sh", "-c", script, "sh", str(self._complaints), path, *_FLAGS, *with_profile]
        command += _FRAMES if self.paints_when_told else ()
        # Whatever it writes is to lie in the one folder that is removed with it.
        here = str(self.profile)
        self.process = subprocess.Popen(  # noqa: S603 - an executable that the user named or installed
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
            env={**os.environ, "GSETTINGS_BACKEND": "memory", "TMPDIR": here, "XDG_CONFIG_HOME": f"{here}/config"},
        )
        assert self.process.stdin is not None  # noqa: S101 - both are pipes
        assert self.process.stdout is not None  # noqa: S101
        self.pipe = Pipe(self.process.stdout.fileno(), self.process.stdin.fileno())
        self._session = Session(self.pipe, "", {})
        self._lock = Lock()
        try:
            self.version = str(self.call("Browser.getVersion")["product"])
        except BrowserError as error:
            said = self._said()
            self.stop()
            raise BrowserError(f"{path} did not start: {said or error}") from error

    @property
    def gone(self) -> bool:
        """Whether it has ended."""
        return self.pipe.gone

    def call(self, method: str, **params: Any) -> Message:
        """A command to the browser as a whole; threads take turns. Raises BrowserError."""
        with self._lock:
            return self._session.call(method, **params)

    def stop(self) -> None:
        """End it and remove what it left; a second call does nothing."""
        if not self.profile.exists():
            return
        with suppress(BrowserError):
            self._session.cast("Browser.close")
        try:
            self.process.wait(_STOPPING)
        except subprocess.TimeoutExpired:
            self.kill()
            self.process.wait()
        self.pipe.join()
        self.let_go()
        shutil.rmtree(self.profile, ignore_errors=True)

    def kill(self) -> None:
        """End it at once, with all of its processes."""
        if self.process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)

    def let_go(self) -> None:
        """Close this process's ends of the pipe."""
        for end in (self.process.stdin, self.process.stdout, self._owned):
            if end is not None:
                end.close()

    def disown(self) -> None:
        """Forget a browser that belongs to the process that this one was forked from."""
        self.let_go()
        self.pipe.gone = True
        self.process.returncode = 0

    def _said(self) -> str:
        """The last line that it wrote to its error output."""
        with suppress(OSError):
            lines = [line for line in self._complaints.read_text("utf-8", "replace").splitlines() if line.strip()]
            return lines[-1][:300] if lines else ""
        return ""


_running: dict[str, Browser] = {}
_turn = RLock()
_registered = False


def lease(path: str) -> Browser:
    """This process's browser of that executable, started if need be; give it back with `release`."""
    global _registered
    with _turn:
        browser = _running.get(path)
        if browser is not None and browser.gone:
            browser.stop()
            browser = None
        if browser is None:
            _sweep()
            browser = _running[path] = Browser(path)
        if not _registered:
            # In a process that multiprocessing started, what `atexit` keeps is never called.
            _registered = True
            atexit.register(stop_all)
            util.Finalize(None, stop_all, exitpriority=0)
        browser.users += 1
        return browser


def release(browser: Browser) -> None:
    """Give a browser back; the last one to do so stops it."""
    with _turn:
        browser.users -= 1
        if browser.users <= 0 and _running.get(browser.path) is browser:
            del _running[browser.path]
            browser.stop()


def discard(browser: Browser) -> None:
    """Stop a browser that has crashed or hangs, for all that share it; the next `lease` starts another."""
    with _turn:
        if _running.get(browser.path) is browser:
            del _running[browser.path]
        browser.kill()
        browser.stop()


def stop_all() -> None:
    """Stop every browser of this process."""
    with _turn:
        while _running:
            _running.popitem()[1].stop()


def _sweep() -> None:
    """Remove the profiles of processes that were killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError), (folder / _OWNED).open("r") as owned:
            fcntl.flock(owned, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)


def _in_child() -> None:
    """After a fork: the browser belongs to the parent, whose ends of the pipe must not stay open here."""
    global _registered, _turn
    _turn, _registered = RLock(), False
    while _running:
        _running.popitem()[1].disown()


os.register_at_fork(after_in_child=_in_child)
