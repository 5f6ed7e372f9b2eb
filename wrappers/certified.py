"""CertifiedEnv: admits only instances that hold a certificate of the code that runs."""

from collections.abc import Callable
from typing import Any

import gymnasium

from envos.envs.env import EnvOS
from envos.envs.instance import Instance
from envos.envs.perturbation import Plan

Certifier = Callable[[Instance, Plan], str]
"""Gives the digest of the certificate that admits an instance under a plan, or raises CertificateError."""


class CertifiedEnv(gymnasium.Wrapper[Any, str, Any, str]):
    """Refuses, at reset, an instance without a certificate that matches the running code.

    The digest of the certificate is put into the episode's identity, and so into its archive.
    """

    def __init__(self, env: gymnasium.Env[Any, str], certifier: Certifier) -> None:
        super().__init__(env)
        inner = env.unwrapped
        assert isinstance(inner, EnvOS)  # noqa: S101 - the registry wraps nothing else
        inner.admit = certifier
