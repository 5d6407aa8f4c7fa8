"""Plug-ins: registry entries that other packages declare as entry points (docs/extending.md).

An entry point's group is the package that the entry would be in, such as munkey.unlearn.methods;
its name is the entry's, and its value is the module that registers the entry.
"""

from functools import cache
from importlib.machinery import ModuleSpec
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
    """A package with plug-ins: its folder or file, and its distribution's name and version."""

    path: Path
    origin: str = ""


def find_plugin_packages() -> dict[str, Package]:
    """Return the packages of all plug-ins by name, without importing them.

    That is the outermost package that is not a namespace. Modules that cannot be found are left
    out.
    """
    packages: dict[str, Package] = {}
    for plugin in find_plugins("munkey"):
        spec = _find_outermost_package(plugin.module)
        if spec is None:
            continue
        assert spec.origin is not None, "_find_outermost_package skips packages without an origin"
        path = Path(spec.origin)
        if spec.submodule_search_locations:  # a package, whose origin is its __init__.py
            path = path.parent
        packages.setdefault(spec.name, Package(path, format_origin(plugin)))
    return packages


def _find_outermost_package(module: str) -> ModuleSpec | None:
    """Return the outermost package of a module that is not a namespace, or the module."""
    parts = module.split(".")
    for length in range(1, len(parts) + 1):
        try:
            spec = find_spec(".".join(parts[:length]))
        except (ImportError, ValueError):
            return None
        if spec is not None and spec.origin is not None:  # namespace packages have no origin
            return spec
    return None
