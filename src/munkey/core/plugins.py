"""Plug-ins: registry entries of other packages, announced by entry points (docs/extending.md).

The group of an entry point is the package of munkey with such entries, e.g. munkey.unlearn.methods.
Its name is the name of the entry, and its value is the module that registers the entry.
"""

from contextlib import suppress
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

# Cached, since it reads a file of every installed package.
installed_entry_points = cache(entry_points)


def find_plugins(package: str) -> list[EntryPoint]:
    """Find the plug-ins of a package and its subpackages, sorted by name."""
    plugins: list[EntryPoint] = []
    for group in installed_entry_points().groups:
        if group == package or group.startswith(f"{package}."):
            plugins += installed_entry_points().select(group=group)
    return sorted(plugins, key=lambda plugin: (plugin.name, origin(plugin)))


def origin(plugin: EntryPoint) -> str:
    """Return the distribution of a plug-in: NAME VERSION."""
    if plugin.dist is None:
        return plugin.module
    return f"{plugin.dist.name} {plugin.dist.version}"


class Package(NamedTuple):
    """A package with plug-ins.

    Attributes
    ----------
    place
        The folder of the package, or its file.
    origin
        The distribution of the plug-ins, NAME VERSION.
    """

    place: Path
    origin: str = ""


def plugin_packages() -> dict[str, Package]:
    """Find the packages of all plug-ins, without importing them.

    The package of a plug-in is the outermost one that is not a namespace package. Plug-ins that
    cannot be found are omitted: their registry refuses them.
    """
    packages: dict[str, Package] = {}
    for plugin in find_plugins("munkey"):
        parts = plugin.module.split(".")
        with suppress(ImportError, ValueError):
            for length in range(1, len(parts) + 1):
                spec = find_spec(".".join(parts[:length]))
                if spec is None or spec.origin is None:  # a namespace package
                    continue
                place = Path(spec.origin)
                if spec.submodule_search_locations:
                    place = place.parent
                packages.setdefault(spec.name, Package(place, origin(plugin)))
                break
    return packages
