"""The examples in docstrings are true.

`pytest --doctest-modules` imports by path, which makes a second copy of every class; this imports by name.
"""

import doctest
import importlib

import pytest

EXTRAS = {"playwright", "selectolax", "starlette", "uvicorn", "ray", "torch", "transformers", "trl", "peft", "datasets"}


def test_docstring_examples(module_name: str) -> None:
    if module_name.endswith(".__main__"):
        pytest.skip("importing it would run the command line")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in EXTRAS:
            raise
        pytest.skip(f"needs {error.name}, of an extra that is not installed")
    assert doctest.testmod(module).failed == 0
