"""Text spaces that test length only, and an action space that samples the grammar.

Gymnasium's own `Text` refuses spaces, line breaks and anything that is not a letter or a digit unless it is given a
character set, and one for all of Unicode takes seconds to build.
"""

from typing import Any

from gymnasium.spaces import Text

_SAMPLED = "abcdefghijklmnopqrstuvwxyz 0123456789"
_VERBS = ("click", "click", "click", "fill", "select_option", "goto", "go_back", "memo", "noop")
_PATHS = ("/", "/inbox")


class AnyText(Text):
    """Any text of at most `max_length` code points."""

    def __init__(self, max_length: int, seed: Any = None) -> None:
        super().__init__(max_length, min_length=0, charset=_SAMPLED, seed=seed)

    def contains(self, x: Any) -> bool:
        """Whether x is a str that is short enough; no character is refused."""
        return isinstance(x, str) and len(x) <= self.max_length

    def __repr__(self) -> str:
        return f"AnyText({self.max_length})"


class ActionText(AnyText):
    """An action in the call syntax; `sample` draws well-formed calls on the first elements of a page."""

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        """A well-formed action, such as `click("7")`; a mask is not used."""
        rng = self.np_random
        verb = _VERBS[int(rng.integers(len(_VERBS)))]
        index = int(rng.integers(1, 41))
        if verb == "click":
            return f'click("{index}")'
        if verb in ("fill", "select_option"):
            return f'{verb}("{index}", "{int(rng.integers(100))}")'
        if verb == "goto":
            return f'goto("{_PATHS[int(rng.integers(len(_PATHS)))]}")'
        return 'memo("seen")' if verb == "memo" else f"{verb}()"

    def __repr__(self) -> str:
        return f"ActionText({self.max_length})"
