"""Named entries added by a decorator: data sets, key encoders, unlearning methods, fusions."""

import importlib
import pkgutil
from collections.abc import Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class Registry(Generic[T]):
    """Maps names to entries of one kind.

    A duplicate name raises ValueError, an unknown one KeyError that lists the valid names.
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._entries: dict[str, T] = {}

    def add(self, name: str, entry: T) -> T:
        if name in self._entries:
            raise ValueError(f"{self.kind} {name!r} is registered twice")
        self._entries[name] = entry
        return entry

    def __getitem__(self, name: str) -> T:
        if name not in self._entries:
            raise KeyError(f"unknown {self.kind} {name!r}; there are: {', '.join(self)}")
        return self._entries[name]

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._entries))

    def __len__(self) -> int:
        return len(self._entries)


def import_all(package: str, path: list[str]) -> None:
    """Import every module of a package, so that its decorators run: one new file is enough to add an entry."""
    for module in pkgutil.iter_modules(path):
        importlib.import_module(f"{package}.{module.name}")
