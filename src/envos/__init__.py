"""EnvOS: Gymnasium environments of enterprise software that changes while an agent works in it.

Importing registers the environment ids and loads nothing heavier than Gymnasium:

>>> import gymnasium, envos
>>> "EnvOS/ClinicStale-v0" in gymnasium.registry
True
"""

from importlib import import_module
from typing import Any

import gymnasium

from envos.envs.scenario import SCENARIOS

__version__ = "0.1.0"

_LAZY = {
    "Evidence": "envos.envs.evidence",
    "ToolActions": "envos.wrappers.tools",
    "Verdict": "envos.rewards.verdict",
    "gap": "envos.certify.twin",
    "read_archive": "envos.wrappers.archive",
    "twin": "envos.certify.twin",
    "verify": "envos.rewards.verdict",
}

__all__ = [
    "Evidence",
    "ToolActions",
    "Verdict",
    "__version__",
    "gap",
    "read_archive",
    "register_envs",
    "twin",
    "verify",
]


def register_envs() -> None:
    """Register every environment with Gymnasium; ids that are registered already are left as they are."""
    for name in SCENARIOS:
        if name not in gymnasium.registry:
            gymnasium.register(name, entry_point="envos.registry:make", kwargs={"environment": name})


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'envos' has no attribute {name!r}")
    return getattr(import_module(_LAZY[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)


register_envs()
