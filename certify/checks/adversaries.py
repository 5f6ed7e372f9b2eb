"""The adversarial panel, played in the application: nobody earns reward without doing the task. Deep."""

from envos.certify.checks import Finding, faults, rule
from envos.certify.checks.discrimination import FAMILY
from envos.certify.policies.panel import DESKS, panel
from envos.certify.trial import Trial


@rule(
    FAMILY,
    "E12",
    "no policy of the adversarial panel reaches the endpoint",
    "the endpoint can be had without the task: see what the named policy did, and which invariant should have seen it",
    deep=True,
)
def adversaries(trial: Trial) -> Finding | None:
    """E12: each policy of the panel, with its validity and the invariants that it lost."""
    if trial.world.name not in DESKS:
        return None
    found: dict[str, list[str]] = {}
    said: dict[str, str] = {}
    for name, one in panel(trial.env.scenario).items():
        episode, *_ = trial.tree.play(one.policy)
        verdict = episode.verdict
        lost = [term for term, item in verdict["invariants"].items() if not item["passed"]]
        said[name] = ", ".join(lost) or str(verdict["validity"])
        if verdict["endpoint"] or episode.reward:
            found[name] = [f"{verdict['validity']}, reward {episode.reward}"]
    return faults(found, said)
