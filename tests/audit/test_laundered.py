"""A commit that was written over with the right one contradicts the form that was sent."""

from pathlib import Path

import pytest

from envos.certify.challenge.run import SEALED, Kind, base, corrupted
from envos.certify.challenge.tools import REJECTED, SUCCESS, judged
from envos.envs.streams import Stream

LAUNDERED = Kind("commit_laundered", "edit", REJECTED)


@pytest.mark.parametrize("environment", ["EnvOS/ClinicStale-v0", "EnvOS/ClaimsStale-v0"])
def test_a_laundered_commit_is_no_success(environment: str, tmp_path: Path) -> None:
    """Re-sealed, journal, states, report and verdict agree on the right commit; what the agent posted does not."""
    found = []
    for number in range(60):
        stream = Stream(number, "test", "laundered")
        one = base(environment, stream)
        files = corrupted(one, LAUNDERED, SEALED, stream)
        if files is not None:
            found.append(judged(tmp_path, files, regrade=True))
        if len(found) == 6:
            break
    assert len(found) == 6
    assert {answers.pipeline for answers in found} == {REJECTED}
    # The verifier reads no form; that is the auditor's to see.
    assert SUCCESS in {answers.verifier for answers in found}
    assert {answers.validity for answers in found} == {REJECTED}
