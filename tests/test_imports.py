"""What importing costs and what the sources may name (check E17).

E17: nothing evaluates, unpickles or loads as YAML what an agent wrote, and nothing that an agent or a digest
sees depends on the process, the clock or shared chance. This is the static half: it reads the sources.
Who may import whom is import-linter's part (pyproject.toml).
"""

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SIBLINGS = {"envs", "rewards", "wrappers", "certify", "train"}
HEAVY = {
    "matplotlib", "peft", "playwright", "ray", "rich", "scipy", "selectolax", "sqlalchemy", "sqlite3",
    "starlette", "tensorboard", "torch", "transformers", "trl", "typer", "uvicorn",
}  # fmt: skip

BUILTINS = {"__import__", "compile", "eval", "exec", "hash"}
"""`hash` of a str differs from process to process."""
MODULES = {"dill", "cloudpickle", "marshal", "pickle", "secrets", "shelve", "uuid", "yaml"}
NAMES = {
    "datetime.date.today",
    "datetime.datetime.now",
    "datetime.datetime.today",
    "datetime.datetime.utcnow",
    "os.urandom",
    "time.ctime",
    "time.gmtime",
    "time.localtime",
    "time.strftime",
    "time.time",
    "time.time_ns",
}
SHARED_CHANCE = {"random": {"Random"}, "numpy.random": {"Generator", "PCG64", "SeedSequence"}}
"""{module: what may be used of it}: the rest draws from one state that everybody shares."""


def loaded_by(code: str) -> set[str]:
    """Return the names in `sys.modules` of a fresh process, started in the root, after it ran `code`."""
    script = f"{code}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


def aliases(tree: ast.AST) -> dict[str, str]:
    """Return {local name: dotted name} of every import in `tree`."""
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for name in node.names:
                local = name.asname or name.name.partition(".")[0]
                found[local] = name.name if name.asname else local
        elif isinstance(node, ast.ImportFrom):
            found |= {name.asname or name.name: f"{node.module}.{name.name}" for name in node.names}
    return found


def dotted(node: ast.expr, names: dict[str, str]) -> str:
    """Return the dotted name that an expression spells, imports resolved; "" for any other expression."""
    if isinstance(node, ast.Name):
        return names.get(node.id, "")
    if isinstance(node, ast.Attribute):
        owner = dotted(node.value, names)
        return f"{owner}.{node.attr}" if owner else ""
    return ""


def is_forbidden(name: str) -> bool:
    """Whether the dotted name is one that E17 rules out."""
    owner, _, last = name.rpartition(".")
    chance = owner in SHARED_CHANCE and last not in SHARED_CHANCE[owner]
    return name.partition(".")[0] in MODULES or name in NAMES or chance


def unsafe(source: str) -> Iterator[str]:
    """Yield what a source says that E17 forbids."""
    tree = ast.parse(source)
    names = aliases(tree)
    for name in names.values():
        if is_forbidden(name):
            yield f"import of {name}"
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in BUILTINS:
            yield f"line {node.lineno}: {node.func.id}()"
        elif isinstance(node, ast.Attribute) and is_forbidden(dotted(node, names)):
            yield f"line {node.lineno}: {dotted(node, names)}"


def wrong_imports(source: str) -> Iterator[str]:
    """Yield relative imports, bare siblings (a second copy of every class) and uses of the front door."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.level:
            yield f"line {node.lineno}: relative import"
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [n.name for n in node.names]
            for name in names:
                if name.partition(".")[0] in SIBLINGS:
                    yield f"line {node.lineno}: {name} without envos"
                elif name in {"envos", "envos.cli", "envos.registry"}:
                    yield f"line {node.lineno}: front door {name}"


def outside(source: str, allowed: set[str]) -> set[str]:
    """Return the top-level names that a source imports and that are not in `allowed`."""
    tops = {name.partition(".")[0] for name in aliases(ast.parse(source)).values()}
    return tops - allowed


def test_import_loads_gymnasium_and_nothing_heavier() -> None:
    loaded = loaded_by("import envos")
    assert "gymnasium" in loaded
    plain = loaded_by("import gymnasium")
    assert not (loaded - plain) & HEAVY


def test_one_copy_of_every_module(module_names: list[str]) -> None:
    """From the root of a checkout `import envs` would succeed: nothing may do it."""
    lines = ["import contextlib, importlib", f"for name in {module_names!r}:"]
    lines += ["    with contextlib.suppress(ImportError):", "        importlib.import_module(name)"]
    loaded = loaded_by("\n".join(lines))
    assert {"envos.envs.page", "envos.certify"} <= loaded
    assert not loaded & SIBLINGS


def test_imports_are_absolute(module_name: str, source: Path) -> None:
    found = list(wrong_imports(source.read_text(encoding="utf-8")))
    if source.is_relative_to(ROOT / "src"):
        found = [line for line in found if "front door" not in line]
    assert not found


@pytest.mark.parametrize(
    "line",
    [
        "from . import page",
        "from .page import View",
        "import envs",
        "import envs.page as page",
        "from rewards.verdict import verify",
        "import envos",
        "from envos import verify",
        "from envos.registry import make",
    ],
)
def test_a_wrong_import_is_seen(line: str) -> None:
    assert list(wrong_imports(line))


@pytest.mark.parametrize("line", ["import envos.envs.page", "from envos.errors import UsageError", "import json"])
def test_a_right_import_passes(line: str) -> None:
    assert not list(wrong_imports(line))


def test_e17_nothing_evaluates_or_depends_on_the_process(module_name: str, source: Path) -> None:
    if module_name.startswith(("envos.envs", "envos.rewards")):
        assert not list(unsafe(source.read_text(encoding="utf-8")))


@pytest.mark.parametrize(
    "line",
    [
        "eval(text)",
        "exec(text)",
        "compile(text, '', 'eval')",
        "__import__(text)",
        "hash(text)",
        "import pickle",
        "from pickle import loads",
        "import yaml\nyaml.load(text)",
        "import random\nrandom.random()",
        "import random as r\nr.shuffle(rows)",
        "from random import choice",
        "import numpy as np\nnp.random.rand()",
        "import numpy\nnumpy.random.default_rng()",
        "import uuid",
        "from uuid import uuid4",
        "import time\ntime.time()",
        "from time import time",
        "import datetime\ndatetime.datetime.now()",
        "from datetime import datetime as d\nd.now()",
        "from datetime import date\ndate.today()",
    ],
)
def test_e17_a_breach_is_seen(line: str) -> None:
    assert list(unsafe(line))


@pytest.mark.parametrize(
    "line",
    [
        "import re\nre.compile('a')",
        "import random\nrandom.Random(7).random()",
        "from random import Random",
        "import numpy as np\nnp.random.SeedSequence([1])",
        "from datetime import datetime\ndatetime.fromisoformat('2026-03-12')",
        "import hashlib\nhashlib.sha256(b'').hexdigest()",
        "import time\ntime.perf_counter()",
        "import ast\nast.literal_eval('1')",
        "tree.hash()",
    ],
)
def test_e17_an_innocent_line_passes(line: str) -> None:
    assert not list(unsafe(line))


@pytest.mark.parametrize("path", sorted((ROOT / "certify" / "audit").glob("*.py")), ids=lambda path: path.name)
def test_audit_files_stand_alone(path: Path) -> None:
    """An auditor can copy one file out: validity needs Python alone, neither needs this package."""
    found = outside(path.read_text(encoding="utf-8"), set(sys.stdlib_module_names))
    assert "envos" not in found
    assert path.stem != "validity" or not found


def test_an_audit_that_leans_on_the_package_is_seen() -> None:
    assert outside("import json\nfrom envos.envs import evidence\nimport numpy as np", {"json"}) == {
        "envos",
        "numpy",
    }
