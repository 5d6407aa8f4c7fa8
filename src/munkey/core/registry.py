"""Named entries added by a decorator: data sets, key encoders, families of models, unlearning methods."""

import importlib
import os
import pkgutil
import re
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Generic, TypeVar

T = TypeVar("T")
NAME = re.compile(r"[\w-]+|timm:NAME")  # the one that stands for all of timm's models


class Registry(Generic[T]):
    """Maps names to entries of one kind, in alphabetical order.

    package: the package whose modules hold the entries. All of them are imported when the registry is first asked, so
    one new file is enough to add an entry. A file that cannot be imported is refused, and the others go on: `refused`
    says which file and why, by the name that its entry should have, which is the file's with - for _.

    A duplicate name, or one that cannot be part of a path, raises ValueError. An unknown one raises KeyError that lists
    the valid names and the refused files.
    """

    def __init__(self, kind: str, package: str | None = None) -> None:
        self.kind = kind
        self._package = package
        self._entries: dict[str, T] = {}
        self._refused: dict[str, str] = {}

    def add(self, name: str, entry: T) -> T:
        if not (isinstance(name, str) and NAME.fullmatch(name)):
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
            raise KeyError(self.unknown(name))
        return entries[name]

    def unknown(self, name: str) -> str:
        """What to say of a name that is not registered."""
        known = f"unknown {self.kind} {name!r}; there are: {', '.join(self)}"
        return "; ".join([known, *(f"refused: {why}" for why in self._refused.values())])

    def __contains__(self, name: object) -> bool:
        return name in self._loaded()

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._loaded()))

    def __len__(self) -> int:
        return len(self._loaded())

    def values(self) -> list[T]:
        """All entries, by name."""
        return [self[name] for name in self]

    @property
    def refused(self) -> dict[str, str]:
        """FILE, line N: WHY for each file that cannot be imported, by the name that its entry should have."""
        self._loaded()
        return self._refused

    def _loaded(self) -> dict[str, T]:
        """The entries, after importing the package that holds them."""
        if self._package:
            package, self._package = importlib.import_module(self._package), None
            for module in pkgutil.iter_modules(package.__path__):
                self._import(f"{package.__name__}.{module.name}", Path(package.__path__[0]) / f"{module.name}.py")
        return self._entries

    def _import(self, module: str, file: Path) -> None:
        """Import a module; if that fails for any reason, note why, and trust nothing that it registered."""
        try:
            importlib.import_module(module)
        except Exception as error:  # whatever a user's file may raise
            name = file.stem.replace("_", "-")
            self._entries.pop(name, None)
            frames = traceback.extract_tb(error.__traceback__)
            line = next((f", line {frame.lineno}" for frame in reversed(frames) if frame.filename == str(file)), "")
            why = f"{type(error).__name__}: {' '.join(str(error).split())}"
            self._refused[name] = f"{os.path.relpath(file)}{line}: {why}"
