"""Named entries added by a decorator: data sets, key encoders, families of models, unlearning methods, audits."""

import difflib
import importlib
import os
import pkgutil
import re
import traceback
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Generic, TypeVar

from munkey.core.plugins import announced, origin

T = TypeVar("T")
NAME = re.compile(r"[\w-]+|timm:NAME")  # the one that stands for all of timm's models


def meant(name: str, names: Iterable[str]) -> str:
    """What to add to the statement that there is no such name: the most similar one that there is."""
    close = difflib.get_close_matches(name.lower(), list(names), n=1)
    return f"; did you mean {close[0]!r}?" if close else "."


class Registry(Generic[T]):
    """Maps names to entries of one kind, in alphabetical order.

    package: the package whose modules hold the entries. All of them are imported when the registry is first asked, so
    one new file is enough to add an entry. So are the plug-ins that other packages announce for it, unless what is
    asked for is among the package's own. What cannot be imported is refused, and the others go on: `refused` says what
    and why, by the name that the entry should have: a plug-in's, or the file's with - for _.

    origins: the distributions that plug-ins came with, NAME VERSION, by the names of their entries.

    A duplicate name, or one that cannot be part of a path, raises ValueError. An unknown one raises KeyError that lists
    the valid names and what was refused.
    """

    def __init__(self, kind: str, package: str | None = None) -> None:
        self.kind = kind
        self.origins: dict[str, str] = {}
        self._entries: dict[str, T] = {}
        self._refused: dict[str, str] = {}
        self._package = package or ""
        self._pending: list[Callable[[], None]] = [self._import_package, self._import_plugins] if package else []

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
        entries = self._loaded(name)
        if name not in entries:
            raise KeyError(self.unknown(name))
        return entries[name]

    def unknown(self, name: str) -> str:
        """What to say of a name that is not registered."""
        known = f"unknown {self.kind} {name!r}{meant(name, self)} There are: {', '.join(self)}"
        file = self._file_of(name)
        if file:
            known = (
                f"{file} registers no {self.kind} {name!r}: its decorator is missing, or gives another name; {known}"
            )
        return "; ".join([known, *(f"refused: {why}" for why in self._refused.values())])

    def _file_of(self, name: str) -> str:
        """The file of the package that is called like an entry and registers none; empty where there is none."""
        if not self._package or name in self._refused or not NAME.fullmatch(name):
            return ""
        folder = importlib.import_module(self._package).__path__[0]
        file = Path(folder) / f"{name.replace('-', '_')}.py"
        return os.path.relpath(file) if file.exists() else ""

    def __contains__(self, name: object) -> bool:
        return name in self._loaded(name)

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._loaded()))

    def __len__(self) -> int:
        return len(self._loaded())

    def values(self) -> list[T]:
        """All entries, by name."""
        return [self[name] for name in self]

    def so_far(self) -> list[T]:
        """The entries of what has been imported; for a module of the package, which must not import the others."""
        return [*self._entries.values()]

    @property
    def refused(self) -> dict[str, str]:
        """Where the fault is and why, for all that cannot be imported, by the name that its entry should have."""
        self._loaded()
        return self._refused

    def _loaded(self, wanted: object = None) -> dict[str, T]:
        """The entries, after importing all that holds them, or as much as it takes to have the one that is wanted."""
        pending, self._pending = self._pending, []  # a module may ask its registry while it is being imported
        while pending and wanted not in self._entries:
            pending.pop(0)()
        self._pending = pending
        return self._entries

    def _import_package(self) -> None:
        package = importlib.import_module(self._package)
        for module in pkgutil.iter_modules(package.__path__):
            self._import(f"{package.__name__}.{module.name}", Path(package.__path__[0]) / f"{module.name}.py")

    def _import(self, module: str, file: Path) -> None:
        """Import a module; if that fails for any reason, note why, and trust nothing that it registered."""
        try:
            importlib.import_module(module)
        except Exception as error:  # whatever a user's file may raise
            name = file.stem.replace("_", "-")
            self._entries.pop(name, None)
            frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(file)]
            self._refused[name] = f"{os.path.relpath(file)}{_line(frames[-1:])}: {_why(error)}"

    def _import_plugins(self) -> None:
        """Load the plug-ins; where that fails, note why. Where one has the name of another entry, that one stays."""
        for plugin in announced(self._package):
            known = dict(self._entries)
            try:
                plugin.load()
                if plugin.name not in self._entries:
                    raise LookupError(f"{plugin.module} registers no {self.kind} of this name")
            except Exception as error:  # whatever it may raise
                self._entries = known
                name = f"{plugin.name} of {origin(plugin)}" if plugin.name in known else plugin.name
                self._refused[name] = f"{plugin.name} of {origin(plugin)}{_place(error)}: {_why(error)}"
            else:
                self.origins |= dict.fromkeys(self._entries.keys() - known.keys(), origin(plugin))


def _why(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def _line(frames: list[traceback.FrameSummary]) -> str:
    return f", line {frames[0].lineno}" if frames else ""


def _place(error: Exception) -> str:
    """The file and the line of a plug-in where an import began to fail; nothing where it did not get as far."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename != __file__ and "importlib" not in frame.filename]
    return f", {os.path.relpath(own[0].filename)}{_line(own)}" if own else ""
