"""What all tests share: the modules by name, Hypothesis without chance, the expected Gymnasium."""

import os
from configparser import ConfigParser
from pathlib import Path

import gymnasium
import hypothesis
import pytest

ROOT = Path(__file__).resolve().parent.parent

# The same examples on every run and machine, and no failure for being slow on a busy one.
hypothesis.settings.register_profile("repeatable", derandomize=True, deadline=None, database=None)
hypothesis.settings.load_profile("repeatable")


def pytest_configure() -> None:
    """Refuse to run on another Gymnasium than the one that `make` asked for."""
    expected = os.environ.get("ENVOS_EXPECT_GYMNASIUM")
    if expected and gymnasium.__version__ != expected:
        raise pytest.UsageError(f"expected Gymnasium {expected}, found {gymnasium.__version__}")


def modules() -> dict[str, Path]:
    """Return {dotted name: file} of every module of the packages that setup.cfg names."""
    config = ConfigParser()
    config.read(ROOT / "setup.cfg", encoding="utf-8")
    options = config["options"]
    folders = dict(line.split(" = ") for line in options["package_dir"].strip().splitlines())
    found = {}
    for package in options["packages"].split():
        top, _, rest = package.removeprefix("envos.").partition(".")
        mapped = "envos" if package == "envos" else f"envos.{top}"
        for path in sorted((ROOT / folders[mapped] / rest.replace(".", "/")).glob("*.py")):
            found[package if path.stem == "__init__" else f"{package}.{path.stem}"] = path
    return found


@pytest.fixture(scope="session")
def module_names() -> list[str]:
    """Return the dotted names of all modules; importing `__main__` would run the command line."""
    return [name for name in modules() if not name.endswith(".__main__")]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that takes `module_name`, or `module_name` and `source`, once for every module."""
    if "module_name" in metafunc.fixturenames:
        names = [name for name in metafunc.fixturenames if name in ("module_name", "source")]
        rows = [tuple({"module_name": m, "source": s}[n] for n in names) for m, s in modules().items()]
        metafunc.parametrize(names, rows, ids=[str(m) for m in modules()])
