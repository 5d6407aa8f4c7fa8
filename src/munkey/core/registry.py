"""Named entries added by a decorator: data sets, key encoders, families of models, unlearning methods."""

import importlib
import pkgutil
import re
from collections.abc import Iterator
from typing import Generic, TypeVar

T = TypeVar("T")
NAME = re.compile(r"[\w-]+|timm:NAME")  # the one that stands for all of timm's models


class Registry(Generic[T]):
    """Maps names to entries of one kind, in alphabetical order.

    package: the package whose modules hold the entries. All of them are imported when the registry is first asked, so
    one new file is enough to add an entry.

    A duplicate name, or one that cannot be part of a path, raises ValueError. An unknown one raises KeyError that lists
    the valid names.
    """

    def __init__(self, kind: str, package: str | None = None) -> None:
        self.kind = kind
        self._package = package
        self._entries: dict[str, T] = {}

    def add(self, name: str, entry: T) -> T:
        if not NAME.fullmatch(name):
            raise ValueError(
                f"{self.kind} {name!r}: a name may hold letters, digits, - and _ only, as it stands in paths"
            )
        if name in self._entries:
            raise ValueError(f"{self.kind} {name!r} is registered twice")
        self._entries[name] = entry
        return entry

    def remove(self, name: str) -> None:
        """Take an entry out again, as a test does that added one. Raises KeyError for an unknown name."""
        del self._entries[name]

    def __getitem__(self, name: str) -> T:
        entries = self._loaded()
        if name not in entries:
            raise KeyError(f"unknown {self.kind} {name!r}; there are: {', '.join(sorted(entries))}")
        return entries[name]

    def __contains__(self, name: object) -> bool:
        return name in self._loaded()

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._loaded()))

    def __len__(self) -> int:
        return len(self._loaded())

    def values(self) -> list[T]:
        """All entries, by name."""
        return [self[name] for name in self]

    def _loaded(self) -> dict[str, T]:
        """The entries, after importing the package that holds them."""
        if self._package:
            package, self._package = importlib.import_module(self._package), None
            for module in pkgutil.iter_modules(package.__path__):
                importlib.import_module(f"{package.__name__}.{module.name}")
        return self._entries
