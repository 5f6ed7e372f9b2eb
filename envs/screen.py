"""Pictures of a page: taken by a browser's driver, kept for the episode, handed out as pixels."""

import hashlib
import io
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

import numpy as np
from gymnasium.spaces import Box
from numpy.typing import NDArray

from envos.errors import UsageError

WIDTH, HEIGHT = 1280, 800
"""The browser's window, in pixels."""

Pixels = NDArray[np.uint8]
"""HEIGHT x WIDTH x 3, red, green, blue."""


class Screen:
    """The pictures of the running episode; `capture` takes one, as PNG. Raises UsageError when Pillow is missing.

    A picture is named as an archive names its file: the SHA-256 of its bytes, and ".png".
    """

    def __init__(self, capture: Callable[[], bytes]) -> None:
        try:
            self._image: Any = import_module("PIL.Image")
        except ImportError as error:
            raise UsageError('screenshots need Pillow: pip install "envos[browser]"') from error
        self._capture = capture
        self._files: dict[str, bytes] = {}
        self._last: tuple[str, Pixels] = ("", np.zeros((HEIGHT, WIDTH, 3), np.uint8))
        self.space = Box(0, 255, (HEIGHT, WIDTH, 3), np.uint8)

    def take(self) -> str:
        """Take a picture and return its name."""
        data = self._capture()
        name = f"{hashlib.sha256(data).hexdigest()}.png"
        self._files[name] = data
        return name

    def png(self, name: str) -> bytes:
        """A picture of this episode."""
        return self._files[name]

    def pixels(self, name: str) -> Pixels:
        """A picture of this episode as an array of its own."""
        if self._last[0] != name:
            with self._image.open(io.BytesIO(self._files[name])) as image:
                opaque = image if image.mode == "RGB" else image.convert("RGB")
                self._last = (name, np.asarray(opaque, np.uint8))
        return self._last[1].copy()

    def kept(self) -> Mapping[str, bytes]:
        """All pictures so far, for `keep`."""
        return dict(self._files)

    def keep(self, files: Mapping[str, bytes]) -> None:
        """Start over with these pictures."""
        self._files = dict(files)
