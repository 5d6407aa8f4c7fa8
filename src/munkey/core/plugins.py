"""Plug-ins: entries of registries in other people's packages, which announce them by entry points (docs/extending.md).

The group of an entry point is the package of munkey whose files register the same, e.g. munkey.unlearn.methods; its
name is that of the entry, its value the module that registers it.
"""

from functools import cache
from importlib.metadata import EntryPoint, entry_points

installed = cache(entry_points)  # once in a process: it reads a file of everything that is installed


def announced(package: str) -> list[EntryPoint]:
    """The plug-ins of a package and of all below it, by name."""
    groups = [group for group in installed().groups if f"{group}.".startswith(f"{package}.")]
    found = [plugin for group in groups for plugin in installed().select(group=group)]
    return sorted(found, key=lambda plugin: (plugin.name, origin(plugin)))


def origin(plugin: EntryPoint) -> str:
    """The distribution that a plug-in came with: NAME VERSION."""
    return f"{plugin.dist.name} {plugin.dist.version}" if plugin.dist else plugin.module
