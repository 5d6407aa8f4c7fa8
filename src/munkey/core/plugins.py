"""Plug-ins: registry entries of other packages, announced by entry points (docs/extending.md).

The group of an entry point is the munkey package whose files register such entries, e.g.
munkey.unlearn.methods. Its name is that of the entry, its value the module that registers it.
"""

from contextlib import suppress
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

# Once per process: it reads a file of every installed package.
installed = cache(entry_points)


def announced(package: str) -> list[EntryPoint]:
    """The plug-ins of a package and its subpackages, sorted by name."""
    plugins: list[EntryPoint] = []
    for group in installed().groups:
        if group == package or group.startswith(f"{package}."):
            plugins += installed().select(group=group)
    return sorted(plugins, key=lambda plugin: (plugin.name, origin(plugin)))


def origin(plugin: EntryPoint) -> str:
    """The distribution of a plug-in: NAME VERSION."""
    if plugin.dist is None:
        return plugin.module
    return f"{plugin.dist.name} {plugin.dist.version}"


class Package(NamedTuple):
    """place: its folder, or its file; origin: distribution of a plug-in, NAME VERSION."""

    place: Path
    origin: str = ""


def plugin_packages() -> dict[str, Package]:
    """The packages of all plug-ins, without importing them.

    For nested packages it is the outermost one that is a folder or a file, which a namespace is
    not. Plug-ins that cannot be found are left out: their registry refuses them.
    """
    packages: dict[str, Package] = {}
    for plugin in announced("munkey"):
        parts = plugin.module.split(".")
        with suppress(ImportError, ValueError):
            for length in range(1, len(parts) + 1):
                spec = find_spec(".".join(parts[:length]))
                if spec and spec.origin:
                    file = Path(spec.origin)
                    place = file.parent if spec.submodule_search_locations else file
                    packages.setdefault(spec.name, Package(place, origin(plugin)))
                    break
    return packages
