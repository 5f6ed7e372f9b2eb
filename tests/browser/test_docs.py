"""The snippets of docs/browser.md run as they stand."""

import re
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.chromium
PAGE = Path(__file__).resolve().parents[2] / "docs" / "browser.md"


def test_the_snippets_run() -> None:
    found = re.findall(r"^```py\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    space: dict[str, Any] = {"__name__": "snippet"}
    for text in found:
        exec(compile(text, str(PAGE), "exec"), space)  # noqa: S102 - our own documentation
    assert len(found) == 2
    assert space["observation"]["screenshot"].shape == (800, 1280, 3)
    assert space["observations"]["screenshot"].shape == (2, 800, 1280, 3)
