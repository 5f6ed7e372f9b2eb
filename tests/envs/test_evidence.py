"""Ledger lines: what is read back is what was written, and nothing else is read."""

import pytest

from envos.envs.evidence import Action, chain, from_line
from envos.errors import EvidenceError

ACTION = Action(1, 0, "0" * 64, 'memo("seen")', "memo", ("seen",), 0, "", 1.5)


def test_a_line_is_read_back() -> None:
    (line,) = chain((ACTION,))
    assert from_line(line) == (0, "", ACTION)


@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity"])
def test_what_is_no_json_is_no_number(word: str) -> None:
    """Python's parser takes these; a reader in another language does not."""
    (line,) = chain((ACTION,))
    assert '"wall_ms":1.5' in line
    with pytest.raises(EvidenceError, match="not a ledger line"):
        from_line(line.replace('"wall_ms":1.5', f'"wall_ms":{word}'))
