"""Plug-ins: entries of registries in other people's packages, which announce them by entry points (docs/extending.md).

The group of an entry point is the package of munkey whose files register the same, e.g. munkey.unlearn.methods; its
name is that of the entry, its value the module that registers it.
"""

from contextlib import suppress
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

installed = cache(entry_points)  # once in a process: it reads a file of everything that is installed


def announced(package: str) -> list[EntryPoint]:
    """The plug-ins of a package and of all below it, by name."""
    groups = [group for group in installed().groups if f"{group}.".startswith(f"{package}.")]
    found = [plugin for group in groups for plugin in installed().select(group=group)]
    return sorted(found, key=lambda plugin: (plugin.name, origin(plugin)))


def origin(plugin: EntryPoint) -> str:
    """The distribution that a plug-in came with: NAME VERSION."""
    return f"{plugin.dist.name} {plugin.dist.version}" if plugin.dist else plugin.module


class Package(NamedTuple):
    """place: its folder, or the file of one module; origin: a plug-in's distribution, NAME VERSION."""

    place: Path
    origin: str = ""


def plugin_packages() -> dict[str, Package]:
    """The packages that hold plug-ins: of each, the outermost that is one folder or file, as a namespace is not.

    None is imported. What cannot be found is left out: its registry refuses it.
    """
    packages: dict[str, Package] = {}
    for plugin in announced("munkey"):
        parts = plugin.module.split(".")
        with suppress(ImportError, ValueError):
            specs = (find_spec(".".join(parts[: number + 1])) for number in range(len(parts)))
            spec = next((spec for spec in specs if spec and spec.origin), None)
            if spec:
                place = Path(str(spec.origin))
                package = Package(place.parent if spec.submodule_search_locations else place, origin(plugin))
                packages.setdefault(spec.name, package)
    return packages
