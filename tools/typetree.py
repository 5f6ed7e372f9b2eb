"""Mirror the installed package for static tools: `.typetree/envos` looks like the `envos` that pip installs.

mypy, pyright and import-linter cannot follow the import hook of an editable install. This reads `package_dir`
from setup.cfg and links each entry: a package that holds others file by file, every other folder as a whole.
Run it again when `package_dir` changes or a file is added beside the front door (`make` does).
"""

import shutil
from configparser import ConfigParser
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TREE = ROOT / ".typetree"


def package_dir() -> dict[str, str]:
    """Return {dotted package: folder, relative to the root} as setup.cfg has it."""
    config = ConfigParser()
    config.read(ROOT / "setup.cfg", encoding="utf-8")
    lines = config["options"]["package_dir"].strip().splitlines()
    return {name.strip(): folder.strip() for name, folder in (line.split("=") for line in lines)}


def main() -> None:
    """Make the mirror anew."""
    shutil.rmtree(TREE, ignore_errors=True)
    mapping = package_dir()
    for name, folder in mapping.items():
        source, target = ROOT / folder, TREE.joinpath(*name.split("."))
        if any(other.startswith(f"{name}.") for other in mapping):
            target.mkdir(parents=True)
            for entry in sorted(source.iterdir()):
                (target / entry.name).symlink_to(entry)
        else:
            target.symlink_to(source, target_is_directory=True)


if __name__ == "__main__":
    main()
