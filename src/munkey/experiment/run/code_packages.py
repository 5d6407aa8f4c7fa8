"""Where the code lies that is followed: this package, and those of plug-ins."""

from collections.abc import Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from munkey.core.plugins import announced, origin


class Package(NamedTuple):
    """name: dotted; place: its folder, or the file of one module; origin: a plug-in's distribution, NAME VERSION."""

    name: str
    place: Path
    origin: str = ""

    def holds(self, module: str) -> bool:
        return f"{module}.".startswith(f"{self.name}.")

    def files(self) -> dict[str, Path]:
        """Its modules in Python, by their dotted names."""
        if self.place.is_file():
            return {self.name: self.place} if self.place.suffix == ".py" else {}
        paths = {path: path.relative_to(self.place).with_suffix("").parts for path in self.place.rglob("*.py")}
        return {".".join([self.name, *parts]).removesuffix(".__init__"): path for path, parts in paths.items()}


def of_plugins(of: str) -> list[Package]:
    """The packages that hold the plug-ins of one. What cannot be found is left out: its registry refuses it."""
    packages: dict[str, Package] = {}
    for plugin in announced(of):
        with suppress(ImportError, ValueError):
            package = _package(plugin.module, origin(plugin))
            packages.setdefault(package.name, package)
    return list(packages.values())


def _package(module: str, origin: str) -> Package:
    """The outermost package of a module that is one folder or one file, as a namespace is not. It is not imported."""
    for name in prefixes(module):
        spec = find_spec(name)
        if spec and spec.origin:
            place = Path(spec.origin)
            return Package(name, place.parent if spec.submodule_search_locations else place, origin)
    raise ImportError(f"there is no module {module}")


def prefixes(module: str) -> Iterator[str]:
    """a, a.b and a.b.c of a.b.c."""
    parts = module.split(".")
    return (".".join(parts[:length]) for length in range(1, len(parts) + 1))
