"""What the browser's tests share: a Chromium, or one clear reason why there is none; pairs of environments."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from envos.envs.drivers.chromium_browser import find
from envos.errors import UsageError

sys.path.insert(0, str(Path(__file__).parent))

from side_by_side import Pair


@pytest.fixture(scope="session", autouse=True)
def browser() -> str:
    """The browser's executable; without one every test here is skipped, and says how to get it."""
    pytest.importorskip("PIL", reason='screenshots need Pillow: pip install "envos[browser]"')
    try:
        return find()
    except UsageError as error:
        pytest.skip(str(error))


@pytest.fixture
def pair() -> Iterator[Callable[..., Pair]]:
    """Makes pairs of environments and closes them after the test."""
    made: list[Pair] = []

    def make(environment: str, **kwargs: Any) -> Pair:
        made.append(Pair(environment, **kwargs))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture(scope="module")
def window(browser: str) -> Iterator[Any]:
    """A window of 1280 x 800 for pages of our own servers and files, as a person has it; no script of it may fail."""
    playwright = pytest.importorskip("playwright.sync_api", reason="pages are clicked through by Playwright")
    with playwright.sync_playwright() as started:
        running = started.chromium.launch(executable_path=browser)
        page = running.new_page(viewport={"width": 1280, "height": 800})
        page.set_default_timeout(10_000)
        page.said = said = []
        # A page in a sandbox runs no script; Playwright's own, which looks into it, is told so in the console.
        ours = "Blocked script execution in 'about:srcdoc'"
        page.on("console", lambda message: None if message.text.startswith(ours) else said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("dialog", lambda dialog: (said.append(dialog.message), dialog.dismiss()))
        yield page
        running.close()
    assert said == []
