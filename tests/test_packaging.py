"""What is installed is what the folders hold: the list in setup.cfg, the wheel, its metadata."""

import shutil
import subprocess
import sys
import zipfile
from configparser import ConfigParser
from email import message_from_bytes
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
NOT_INSTALLED = {"agents", "benchmarks", "docs", "examples", "tests", "tools"}


@pytest.fixture(scope="module")
def config() -> ConfigParser:
    """Return setup.cfg, read."""
    parser = ConfigParser()
    parser.read(ROOT / "setup.cfg", encoding="utf-8")
    return parser


def folders(root: Path) -> dict[str, Path]:
    """Return {dotted package: folder} as the folders with an `__init__.py` have it."""
    tops = [p for p in root.iterdir() if p.is_dir() and p.name[0] != "." and p.name not in NOT_INSTALLED]
    found = {"envos": root / "src" / "envos"}
    for top in tops:
        for init in top.rglob("__init__.py"):
            if top.name != "src":
                found[".".join(("envos", *init.parent.relative_to(root).parts))] = init.parent
    return found


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory, config: ConfigParser) -> zipfile.ZipFile:
    """Build source archive and wheel of a copy: a build in the checkout would leave old modules behind."""
    copy, out = tmp_path_factory.mktemp("checkout"), tmp_path_factory.mktemp("dist")
    for name in ("setup.cfg", "pyproject.toml", "LICENSE", "README.md"):
        if (ROOT / name).exists():
            shutil.copy(ROOT / name, copy)
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
    mapping = config["options"]["package_dir"].strip().splitlines()
    for folder in [*(line.split(" = ")[1] for line in mapping), "tests", "tools"]:
        shutil.copytree(ROOT / folder, copy / folder, ignore=ignored)
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(copy)]
    done = subprocess.run(command, cwd=out, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return zipfile.ZipFile(next(out.glob("*.whl")))


def test_setup_cfg_lists_every_package(config: ConfigParser) -> None:
    assert sorted(config["options"]["packages"].split()) == sorted(folders(ROOT))


def test_setup_cfg_maps_every_top_folder(config: ConfigParser) -> None:
    lines = config["options"]["package_dir"].strip().splitlines()
    expected = {n: str(p.relative_to(ROOT)) for n, p in folders(ROOT).items() if n.count(".") < 2}
    assert dict(line.split(" = ") for line in lines) == expected


def test_a_forgotten_package_is_seen(tmp_path: Path) -> None:
    for name in ("envs", "envs/worlds", "tests", ".venv/lib"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "__init__.py").touch()
    assert sorted(folders(tmp_path)) == ["envos", "envos.envs", "envos.envs.worlds"]


def test_no_python_file_lies_outside_a_package() -> None:
    """A folder without `__init__.py` works from a checkout and is missing from the wheel."""
    for folder in folders(ROOT).values():
        orphans = {p.parent for p in folder.rglob("*.py") if not (p.parent / "__init__.py").exists()}
        assert not orphans


def test_wheel_holds_every_module_and_no_tests(wheel: zipfile.ZipFile) -> None:
    held = {name for name in wheel.namelist() if ".dist-info/" not in name}
    expected = {
        "/".join((*package.split("."), path.name))
        for package, folder in folders(ROOT).items()
        for path in folder.glob("*.py")
    }
    assert {name for name in held if name.endswith(".py")} == expected
    assert "envos/py.typed" in held
    assert {name.split("/")[0] for name in held} == {"envos"}


def test_wheel_metadata(wheel: zipfile.ZipFile) -> None:
    info = next(name.split("/")[0] for name in wheel.namelist() if ".dist-info/" in name)
    metadata = message_from_bytes(wheel.read(f"{info}/METADATA"))
    assert metadata["License-Expression"] == "MIT"
    assert metadata["Requires-Python"] == ">=3.11"
    assert sorted(metadata.get_all("Provides-Extra", [])) == ["browser", "dev", "html", "rllib", "trl"]
    core = {r.split(">")[0] for r in metadata.get_all("Requires-Dist", []) if "extra ==" not in r}
    assert {name.lower() for name in core} == {
        "gymnasium",
        "markupsafe",
        "numpy",
        "rich",
        "sqlalchemy",
        "typer",
    }
    assert "envos = envos.cli:main" in wheel.read(f"{info}/entry_points.txt").decode()


def test_constraints_pin_the_known_good_set() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = dict(line.lower().split("==") for line in lines if line and line[0] != "#")
    assert (pins["gymnasium"], pins["torch"], pins["ray"], pins["trl"]) == (
        "1.2.2",
        "2.13.0",
        "2.60.0",
        "1.16.0",
    )
