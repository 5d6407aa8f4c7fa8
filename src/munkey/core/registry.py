"""Registries of data sets, encoders, families, methods, and audits, filled by decorators."""

import difflib
import importlib
import os
import pkgutil
import re
import traceback
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Generic, TypeVar

from munkey.core.plugins import find_plugins, format_origin

T = TypeVar("T")
NAME = re.compile(r"[\w-]+|timm:NAME")  # timm:NAME stands for all timm models


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return the end of a sentence about an unknown name: a similar valid name, or just "."."""
    similar_names = difflib.get_close_matches(name.lower(), list(names), n=1)
    if not similar_names:
        return "."
    return f"; did you mean {similar_names[0]!r}?"


class Registry(Generic[T]):
    """A mapping from names to entries of one kind, in alphabetical order.

    The first lookup imports all modules of `package`, so a new file is enough to add an entry.
    Plug-ins are imported for names that are not found there. A module that cannot be imported is
    refused.

    Parameters
    ----------
    kind
        The noun for an entry in messages, such as "encoder".
    package
        The package whose modules add the entries. None if entries are added by hand.

    Attributes
    ----------
    origins
        The names and versions of plug-ins' distributions, by entry name.

    Raises
    ------
    ValueError
        If an entry's name is already registered or cannot be part of a path.
    KeyError
        For an unknown name. The message lists valid names and refused modules.
    """

    def __init__(self, kind: str, package: str | None = None) -> None:
        self.kind = kind
        self.origins: dict[str, str] = {}
        self._entries: dict[str, T] = {}
        self._refusals: dict[str, str] = {}
        self._package = package or ""
        self._pending_imports: list[Callable[[], None]] = []
        if package:
            self._pending_imports = [self._import_package, self._import_plugins]

    def add(self, name: str, entry: T) -> T:
        """Add an entry and return it. Raises ValueError for an invalid or registered name."""
        if not (isinstance(name, str) and NAME.fullmatch(name)):
            raise ValueError(
                f"{self.kind} {name!r}: a name may contain only letters, digits, - and _, because"
                " it is part of paths"
            )
        if name in self._entries:
            raise ValueError(f"{self.kind} {name!r} is registered twice")
        self._entries[name] = entry
        return entry

    def remove(self, name: str) -> None:
        """Remove an entry, for tests that added one. Raises KeyError for an unknown name."""
        del self._entries[name]

    def __getitem__(self, name: str) -> T:
        entries = self._load(name)
        if name not in entries:
            raise KeyError(self.unknown_message(name))
        return entries[name]

    def unknown_message(self, name: str) -> str:
        """Return the message about a name that is not registered."""
        message = (
            f"unknown {self.kind} {name!r}{did_you_mean(name, self)} Valid names: {', '.join(self)}"
        )
        file = self._find_expected_file(name)
        if file:
            message = (
                f"{file} registers no {self.kind} {name!r}: its decorator is missing or has"
                f" another name; {message}"
            )
        for reason in self._refusals.values():
            message += f"; refused: {reason}"
        return message

    def _find_expected_file(self, name: str) -> str:
        """Return the path of the file that should have registered an entry, or "" if there is none."""
        if not self._package or name in self._refusals or not NAME.fullmatch(name):
            return ""
        folder = importlib.import_module(self._package).__path__[0]
        file = Path(folder) / f"{name.replace('-', '_')}.py"
        if not file.exists():
            return ""
        return os.path.relpath(file)

    def __contains__(self, name: object) -> bool:
        return name in self._load(name)

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._load()))

    def __len__(self) -> int:
        return len(self._load())

    def values(self) -> list[T]:
        """Return all entries, sorted by name."""
        return [self[name] for name in self]

    def list_loaded_entries(self) -> list[T]:
        """Return the entries that are loaded. Safe while the package's modules are being imported."""
        return list(self._entries.values())

    @property
    def refusals(self) -> dict[str, str]:
        """Where and why each refused module failed, by the name of its plug-in or file."""
        self._load()
        return self._refusals

    def _load(self, name: object = None) -> dict[str, T]:
        """Import modules until one adds the entry `name`; by default, all. Returns the entries."""
        pending_imports = self._pending_imports
        # A module may use its registry while it is being imported. With an empty list, this does not
        # import the module again.
        self._pending_imports = []
        while pending_imports and name not in self._entries:
            do_import = pending_imports.pop(0)
            do_import()
        self._pending_imports = pending_imports
        return self._entries

    def _import_package(self) -> None:
        package = importlib.import_module(self._package)
        folder = Path(package.__path__[0])
        for module in pkgutil.iter_modules(package.__path__):
            self._import(f"{package.__name__}.{module.name}", folder / f"{module.name}.py")

    def _import(self, module: str, file: Path) -> None:
        """Import a module. If this fails, remove its entry and record the reason in `refusals`."""
        try:
            importlib.import_module(module)
        except (Exception, SystemExit) as error:  # a user's file may raise anything
            name = file.stem.replace("_", "-")
            self._entries.pop(name, None)
            place = os.path.relpath(file)
            for frame in traceback.extract_tb(error.__traceback__):
                if frame.filename == str(file):  # the last such frame is closest to the error
                    place = f"{os.path.relpath(file)}, line {frame.lineno}"
            self._refusals[name] = f"{place}: {_describe_error(error)}"

    def _import_plugins(self) -> None:
        """Import the plug-ins. If one fails, remove its entries and record why in `refusals`."""
        for plugin in find_plugins(self._package):
            entries_before = dict(self._entries)
            refusal = self._import_plugin(plugin)
            if not refusal:
                new_names = self._entries.keys() - entries_before.keys()
                self.origins |= dict.fromkeys(new_names, format_origin(plugin))
                continue
            self._entries = entries_before
            # If the name was already registered, its entry is fine, and only this plug-in is not.
            is_taken = plugin.name in entries_before
            refused_name = _name_with_origin(plugin) if is_taken else plugin.name
            self._refusals[refused_name] = refusal

    def _import_plugin(self, plugin: EntryPoint) -> str:
        """Import a plug-in. Returns where and why it failed, or "" if it registered its entry."""
        place = _name_with_origin(plugin)
        try:
            plugin.load()
        except (Exception, SystemExit) as error:  # a plug-in may raise anything
            failing_line = _find_failing_line(error)
            if failing_line:
                place += f", {failing_line}"
            return f"{place}: {_describe_error(error)}"
        if plugin.name not in self._entries:
            return f"{place}: {plugin.module} registers no {self.kind} of this name"
        return ""


def _name_with_origin(plugin: EntryPoint) -> str:
    return f"{plugin.name} of {format_origin(plugin)}"


def _describe_error(error: BaseException) -> str:
    """Return the type and the message of an error on one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def _find_failing_line(error: BaseException) -> str:
    """Return the file and line where importing a plug-in failed, or "" if none of it ran."""
    for frame in traceback.extract_tb(error.__traceback__):
        # The first frames are this file's and those of the import system.
        if frame.filename != __file__ and "importlib" not in frame.filename:
            return f"{os.path.relpath(frame.filename)}, line {frame.lineno}"
    return ""
