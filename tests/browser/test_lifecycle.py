"""How the browser is found, started, shared, lost and freed; from scripts, threads, event loops and other processes."""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from envos.envs.drivers import chromium_browser
from envos.envs.drivers.chromium import Chromium
from envos.envs.drivers.chromium_browser import Browser, find, lease, release
from envos.envs.env import EnvOS
from envos.errors import BrowserError, UsageError

pytestmark = pytest.mark.chromium
CLINIC = "envos:EnvOS/ClinicStale-v0"
EPISODES = int(os.environ.get("ENVOS_EPISODES", "5"))
"""Episodes of the test that nothing grows; `ENVOS_EPISODES=200` is the full run."""

needs_proc = pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="reads /proc, which only Linux has")


def make(**kwargs: Any) -> EnvOS:
    """A clinic in Chromium, without pictures."""
    options: dict[str, Any] = {"driver": "chromium", "condition": "L0", "screenshot": False, **kwargs}
    env = gymnasium.make(CLINIC, disable_env_checker=True, **options).unwrapped
    assert isinstance(env, EnvOS)
    return env


def browser_of(env: EnvOS) -> Browser:
    """The browser that an environment uses."""
    driver = env._driver
    assert isinstance(driver, Chromium)
    return driver._page().browser


def descendants(root: int) -> dict[int, str]:
    """All processes beneath one: id to command line."""
    found: dict[int, str] = {}
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if fields[0] != "Z":
            parents[int(stat.parent.name)] = int(fields[1])
    for process in parents:
        above = process
        while above > 1 and above != root:
            above = parents.get(above, 0)
        if above == root and process != root:
            try:
                found[process] = Path(f"/proc/{process}/cmdline").read_text().replace("\0", " ")
            except OSError:
                continue
    return found


def browsers(root: int) -> list[str]:
    """The browser's processes beneath one."""
    return [line for line in descendants(root).values() if "--user-data-dir" in line or "--type=" in line]


def profiles() -> set[Path]:
    """The browser's folders."""
    return set(Path(tempfile.gettempdir()).glob("envos-chromium-*"))


def eventually(true: Callable[[], bool], seconds: float = 10.0) -> bool:
    """Whether something comes true within some seconds."""
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


@pytest.fixture(autouse=True)
def nothing_is_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every test has a temporary folder of its own, closes what it made and leaves the folder empty."""
    # Its name is short: a socket of the browser lies in it, whose path may have a hundred characters.
    with tempfile.TemporaryDirectory(prefix="t") as folder:
        monkeypatch.setenv("TMPDIR", folder)
        monkeypatch.setattr(tempfile, "tempdir", None)
        yield
        left = list(chromium_browser._running)
        chromium_browser.stop_all()
        assert left == []
        assert list(Path(folder).glob("envos-*")) == []
    monkeypatch.undo()
    tempfile.tempdir = None


@pytest.fixture
def empty(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine without any browser, in a folder of its own."""
    monkeypatch.delenv(chromium_browser.VARIABLE, raising=False)
    monkeypatch.setenv("PLAYWRIGHT_BROWSERS_PATH", str(tmp_path / "playwright"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return tmp_path


def put(path: Path) -> str:
    """Put an executable file there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\nexit 3\n")
    path.chmod(0o755)
    return str(path)


def test_the_browser_is_found_in_this_order(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="playwright install chromium-headless-shell"):
        find()
    full = put(empty / "bin/chromium")
    assert find() == full
    shell = put(empty / "bin/chromium-headless-shell")
    assert find() == shell
    full = put(empty / "playwright/chromium-1200/chrome-linux/chrome")
    assert find() == full
    shell = put(empty / "playwright/chromium_headless_shell-999/chrome-linux/headless_shell")
    assert find() == shell
    newer = put(empty / "playwright/chromium_headless_shell-1200/chrome-headless-shell-linux64/chrome-headless-shell")
    assert find() == newer
    monkeypatch.setenv(chromium_browser.VARIABLE, shell)
    assert find() == shell


def test_without_a_browser_one_line_says_how_to_get_it(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError) as caught:
        make()
    assert "\n" not in str(caught.value)
    for word in ('driver="chromium"', 'pip install "envos[browser]"', "apt-get install", "ENVOS_CHROMIUM"):
        assert word in str(caught.value)
    monkeypatch.setenv(chromium_browser.VARIABLE, "/nowhere/chrome")
    with pytest.raises(UsageError, match="ENVOS_CHROMIUM names no executable file: '/nowhere/chrome'"):
        make()


def test_a_browser_that_does_not_start(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the executable and what it said, and nothing is left."""
    path = put(empty / "bin/chromium")
    Path(path).write_text("#!/bin/sh\necho no display >&2\nexit 3\n")
    before = profiles()
    env = make()
    with pytest.raises(BrowserError, match="bin/chromium did not start: no display"):
        env.reset(seed=1)
    env.close()
    assert profiles() == before


@needs_proc
def test_environments_share_one_browser_and_the_last_one_ends_it() -> None:
    before = profiles()
    envs = [make() for _ in range(3)]
    assert browsers(os.getpid()) == []  # making one starts nothing
    for seed, env in enumerate(envs):
        env.reset(seed=seed)
    shared = {id(browser_of(env)) for env in envs}
    assert len(shared) == 1
    browser = browser_of(envs[0])
    assert len(profiles() - before) == 1
    envs[0].close()
    envs[0].close()
    assert not browser.gone
    assert envs[1].step('goto("/inbox")')[0]["url"] == "/inbox"
    for env in envs[1:]:
        env.close()
    assert browser.gone
    assert eventually(lambda: browsers(os.getpid()) == [])
    assert profiles() == before
    assert not [thread for thread in threading.enumerate() if thread.name == "envos-chromium"]


@pytest.mark.parametrize("victim", ["browser", "page"])
def test_a_crash_ends_the_episode_and_the_next_reset_works(victim: str) -> None:
    """In both environments that share the browser; a crash of a page is that page's alone."""
    env, other = make(), make()
    env.reset(seed=1)
    other.reset(seed=2)
    env.step('goto("/sessions")')
    browser = browser_of(env)
    if victim == "browser":
        os.killpg(browser.process.pid, signal.SIGKILL)
        assert eventually(lambda: browser.gone)
    else:
        env._driver._page()._session.cast("Page.crash")  # type: ignore[attr-defined]
    observation, reward, terminated, truncated, info = env.step('goto("/inbox")')
    assert (reward, terminated, truncated) == (0.0, False, True)
    assert info["verdict"]["validity"] == "infra_failure"
    assert info["verdict"]["counted"] is False
    assert observation["url"] == "/sessions"  # what was shown last
    *_, truncated, info = other.step('goto("/inbox")')
    assert truncated is (victim == "browser")
    for one in (env, other):
        one.reset(seed=3)
        assert one.step('goto("/inbox")')[0]["url"] == "/inbox"
        one.close()


def test_a_crash_between_episodes_costs_nothing() -> None:
    """The next reset starts another browser, and its evidence is that of an episode without a crash."""
    env = make()
    digests = []
    for crash in (False, True):
        env.reset(seed=4)
        if crash:
            os.killpg(browser_of(env).process.pid, signal.SIGKILL)
            env.reset(seed=4)
        env.step('goto("/sessions")')
        digests.append(env.evidence().digest)
    assert digests[0] == digests[1]
    env.close()


def test_a_crash_while_the_first_page_loads(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page is shown again by another browser, and the request that it has made is on record once."""
    env = make()
    env.reset(seed=5)
    digest = env.evidence().digest
    answer, crashes = Chromium._answer, [True]

    def crashing(self: Chromium, asked: Any) -> Any:
        answered = answer(self, asked)
        if crashes:
            crashes.pop()
            os.killpg(self._page().browser.process.pid, signal.SIGKILL)
        return answered

    monkeypatch.setattr(Chromium, "_answer", crashing)
    env.close()
    env = make()
    env.reset(seed=5)
    assert crashes == []
    assert env.evidence().digest == digest
    assert env.step("go_back()")[0]["error"] == "there is no page to go back to"
    env.close()


def test_from_an_event_loop_and_from_threads() -> None:
    """An asyncio program, a notebook's loop and threads of all kinds may use environments; each call just blocks."""

    def episode(seed: int) -> str:
        env = make()
        env.reset(seed=seed)
        url = str(env.step('goto("/inbox")')[0]["url"])
        env.close()
        return url

    async def program() -> list[str]:
        here = episode(1)
        return [here, *await asyncio.gather(*(asyncio.to_thread(episode, seed) for seed in range(3)))]

    assert asyncio.run(program()) == ["/inbox"] * 4


def test_threads_step_at_the_same_time() -> None:
    """Environments of several threads in one browser do not get into each other's way."""
    wrong: list[Any] = []

    def episode(seed: int) -> None:
        env, twin = make(), make(driver="inprocess")
        try:
            env.reset(seed=seed)
            twin.reset(seed=seed)
            for path in ("/sessions", "/inbox", "/patients", "/sessions", "/nowhere") * 2:
                env.step(f'goto("{path}")')
                twin.step(f'goto("{path}")')
            if env.evidence().digest != twin.evidence().digest:
                wrong.append(seed)
        except Exception as problem:
            wrong.append(problem)
            raise
        finally:
            env.close()

    threads = [threading.Thread(target=episode, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@needs_proc
@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_vector_environments_in_processes_of_their_own(context: str) -> None:
    """AsyncVectorEnv: each process has its browser, also where the parent had one before the fork."""
    parent = make()
    parent.reset(seed=1)
    envs = gymnasium.make_vec(
        CLINIC,
        num_envs=2,
        vectorization_mode="async",
        vector_kwargs={"shared_memory": False, "context": context},
        driver="chromium",
        condition="L0",
    )
    observation, _ = envs.reset(seed=[1, 2])
    observation, *_ = envs.step(('click("2")', 'goto("/inbox")'))
    assert observation["url"] == ("/sessions", "/inbox")
    assert observation["screenshot"].shape[1:] == (800, 1280, 3)
    assert observation["screenshot"].dtype == np.uint8
    # The parent's own is not touched.
    assert parent.step('goto("/inbox")')[0]["url"] == "/inbox"
    envs.close()
    parent.close()
    assert eventually(lambda: browsers(os.getpid()) == [])


@needs_proc
def test_an_environment_that_was_forked_starts_over() -> None:
    """In the child an episode of the parent is lost, and a reset makes it whole with a browser of its own."""
    env = make()
    env.reset(seed=1)
    before = profiles()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            *_, info = env.step('goto("/inbox")')
            lost = info["verdict"]["validity"] == "infra_failure"
            env.reset(seed=2)
            whole = env.step('goto("/inbox")')[0]["url"] == "/inbox"
            env.close()
            status = 0 if lost and whole else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert env.step('goto("/inbox")')[0]["url"] == "/inbox"
    assert profiles() == before
    env.close()


LEFT_OPEN = """
import sys, gymnasium, multiprocessing
def run(wait):
    env = gymnasium.make("envos:EnvOS/ClinicStale-v0", driver="chromium", screenshot=False)
    env.reset(seed=1)
    print(env.unwrapped._driver._browser.process.pid, env.unwrapped._driver._browser.profile, flush=True)
    if wait:
        sys.stdin.read()
if __name__ == "__main__":
    if sys.argv[1] == "child":
        process = multiprocessing.get_context("fork").Process(target=run, args=(False,))
        process.start()
        process.join()
    else:
        run(sys.argv[1] == "killed")
"""


@needs_proc
@pytest.mark.parametrize("way", ["ends", "child", "killed"])
def test_what_is_never_closed_ends_with_its_process(way: str) -> None:
    """At exit nothing is left; a process that is killed leaves a folder, which the next start removes."""
    command = [sys.executable, "-c", LEFT_OPEN, way]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        number, folder = process.stdout.readline().split()
        assert Path(folder).is_dir() or way != "killed"
        if way == "killed":
            process.kill()
        process.communicate(timeout=30)
    assert eventually(lambda: not Path(f"/proc/{number}").exists())
    if way == "killed":
        assert eventually(lambda: not any(folder in line for line in descendants(1).values()))
        release(lease(find()))
    assert not Path(folder).exists()


def memory(process: int) -> int:
    """The kilobytes that a process alone keeps in memory."""
    text = Path(f"/proc/{process}/smaps_rollup").read_text()
    return sum(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:"))


def held() -> dict[str, int]:
    """What this process and its browser hold: files, threads, processes, kilobytes, files of the profile."""
    tree = descendants(os.getpid())
    return {
        "files": len(os.listdir("/proc/self/fd")),
        "threads": threading.active_count(),
        "processes": len(tree),
        "python": memory(os.getpid()),
        "browser": sum(memory(process) for process in tree),
        "profile": sum(len(list(folder.rglob("*"))) for folder in profiles()),
    }


@needs_proc
def test_episodes_leave_nothing_behind() -> None:
    """The same number of files, threads and processes after many episodes as after a few, and no more memory."""
    env = make(screenshot=True, condition="mixed")
    paths = ("/sessions", "/inbox", "/patients", "/appointments", "/referrals", "/nowhere")

    def episode(seed: int) -> None:
        env.reset(seed=seed)
        for path in paths:
            env.step(f'goto("{path}")')
        env.step("go_back()")
        env.step('report(location="x", start="x", reference="x")')

    for seed in range(6):
        episode(seed)
    before = held()
    for seed in range(EPISODES):
        episode(seed)
    after = held()
    print(f"after {EPISODES} episodes: {before} -> {after}")
    env.close()
    for what in ("files", "threads"):
        assert after[what] == before[what], (before, after)
    assert after["processes"] <= before["processes"] + 1
    assert after["profile"] <= before["profile"] + 5
    # Caches settle. Pages that are not freed keep a megabyte each, some 9 MB an episode.
    assert after["python"] < before["python"] + 30_000, (before, after)
    assert after["browser"] < before["browser"] + 40_000, (before, after)
    assert browsers(os.getpid()) == []


def test_pages_are_made_and_freed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Environments that come and go beside one that stays leave no page in the browser."""
    stays = make()
    stays.reset(seed=1)
    browser = browser_of(stays)

    def pages() -> int:
        return len(browser.call("Target.getTargets")["targetInfos"])

    before = pages()
    for seed in range(5):
        env = make()
        env.reset(seed=seed)
        assert pages() == before + 1
        env.close()
    assert pages() == before
    assert browser.users == 1
    stays.close()
