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
