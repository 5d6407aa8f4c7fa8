"""Plug-ins: registry entries that other packages declare as entry points (docs/extending.md).

The group of such an entry point is the munkey package that the entry would belong to, e.g.
munkey.unlearn.methods. Its name is the entry's name, and its value is the module that registers
the entry.
"""

from contextlib import suppress
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

# Cached because each call reads a file of every installed package.
installed_entry_points = cache(entry_points)


def find_plugins(package: str) -> list[EntryPoint]:
    """Find the plug-ins of a package and its subpackages, sorted by name."""
    plugins: list[EntryPoint] = []
    for group in installed_entry_points().groups:
        if group == package or group.startswith(f"{package}."):
            plugins += installed_entry_points().select(group=group)
    return sorted(plugins, key=lambda plugin: (plugin.name, format_origin(plugin)))


def format_origin(plugin: EntryPoint) -> str:
    """Return a plug-in's distribution and version, or its module if the distribution is unknown."""
    if plugin.dist is None:
        return plugin.module
    return f"{plugin.dist.name} {plugin.dist.version}"


class Package(NamedTuple):
    """A package with plug-ins.

    Attributes
    ----------
    place
        The package's folder, or its file if it is a single module.
    origin
        The name and version of its distribution.
    """

    place: Path
    origin: str = ""


def find_plugin_packages() -> dict[str, Package]:
    """Return the packages of all plug-ins by name, without importing them.

    The package of a plug-in is the outermost one that is not a namespace package. Plug-ins whose
    modules cannot be found are omitted here; their registry refuses them.
    """
    packages: dict[str, Package] = {}
    for plugin in find_plugins("munkey"):
        parts = plugin.module.split(".")
        with suppress(ImportError, ValueError):
            for length in range(1, len(parts) + 1):
                spec = find_spec(".".join(parts[:length]))
                if spec is None or spec.origin is None:  # namespace packages have no origin
                    continue
                place = Path(spec.origin)
                if spec.submodule_search_locations:
                    place = place.parent
                packages.setdefault(spec.name, Package(place, format_origin(plugin)))
                break
    return packages
