"""Packages with plug-ins, installed as anybody's would be."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.conftest import ROOT

PALETTE = {  # a package with a registry of colors, each in a file of its own
    "palette/__init__.py": "",
    "palette/colors/__init__.py": "",
    "palette/registry.py": (
        "from munkey.core.registry import Registry\nCOLORS = Registry('color', 'palette.colors')\n"
    ),
}
ADD = "from palette.registry import COLORS\nCOLORS.add('{}', {})\n"  # a color's name and value


def project(name: str, version: str, announces: Mapping[str, Mapping[str, str]]) -> str:
    """The pyproject.toml of a package. announces: modules by group and name of the entry."""
    lines = ["[project]", f'name = "{name}"', f'version = "{version}"']
    for group, entries in announces.items():
        lines += [
            "",
            f'[project.entry-points."{group}"]',
            *(f'{key} = "{value}"' for key, value in entries.items()),
        ]
    return "\n".join(lines)


def install(source: Path, site: Path) -> None:
    """Install a package from its source into a folder, which PYTHONPATH may name."""
    command = [
        "uv",
        "pip",
        "install",
        "--quiet",
        "--offline",
        "--no-deps",
        "--no-build-isolation",
        "--target",
    ]
    done = subprocess.run(
        [*command, site, source], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def written(folder: Path, files: Mapping[str, str]) -> Path:
    """A folder with these files."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def forget(*packages: str) -> None:
    """Packages that a test has made: the next import of these names finds the next test's."""
    for module in [name for name in sys.modules if name.partition(".")[0] in packages]:
        del sys.modules[module]
