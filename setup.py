"""Adds the documentation to the wheel, as share/doc/munkey; pyproject.toml has everything else."""

from collections import defaultdict
from pathlib import Path

from setuptools import setup

ROOT_PAGES = ("README.md", "SECURITY.md", "CHANGELOG.md", "CONTRIBUTING.md", "CITATION.cff")
SUFFIXES = (".md", ".csv", ".html", ".png", ".svg", ".conf", ".service")
BUILDER = Path("docs/site")  # builds the website

# Messages point to these pages. Relative links between them work in the environment, too.
pages = [Path(name) for name in ROOT_PAGES]
for path in sorted(Path("docs").rglob("*")):
    if path.suffix in SUFFIXES and BUILDER not in path.parents:
        pages.append(path)

folders = defaultdict(list)
for page in pages:
    folders[str(Path("share/doc/munkey") / page.parent)].append(str(page))
setup(data_files=list(folders.items()))
