"""Digests of the code that a result depends on: an edit re-runs the jobs whose results it can change.

Snakemake compares scripts, but not what they import. Each rule's params therefore hold a digest of the modules of this
package that its job imports, directly or not, inside functions too; and of those of plug-ins, with the versions of
their distributions, which stand for what is not Python there. Comments, docstrings, formatting, the annotations of
functions and variables, what only type checkers import, and where modules lie do not count. Annotations in class bodies
do: dataclasses and pydantic models read them.

The source is parsed, never imported. What a registry finds, or `importlib` imports by a name, must be passed as a root.
Parsing takes half a second: the digests are kept in Snakemake's folder, for as long as no file changes.
"""

import ast
import atexit
import hashlib
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import cache
from importlib.util import find_spec, resolve_name
from pathlib import Path
from types import MethodType
from typing import Any, NamedTuple

import munkey
from munkey.core.files import read_json, write_json
from munkey.core.plugins import announced, origin

PACKAGE = Path(munkey.__file__).parent
KNOWN = Path(".snakemake/munkey-code-digests.json")
# Modules that no result depends on: they are not followed.
NO_INFLUENCE = frozenset({
    "munkey",  # imports the predictor only for those who ask for it
    "munkey.settings", "munkey.experiment.params.load",  # check values, which each rule hands to its job
    "munkey.core.paths", "munkey.core.gpu_seats", "munkey.core.console",  # where things lie, run, and are printed
    "munkey.core.registry", "munkey.core.plugins",  # find code, which is passed as a root
    "munkey.experiment.run.job", "munkey.experiment.run.provenance", "munkey.experiment.run.fork_server",
})  # fmt: skip
DOTTED = re.compile(r"'(\w+\.[\w.]+)'")  # a registry names the package of its entries, which may be moved with it

_ROOTS: dict[str, frozenset[str]] = {}  # the modules behind each digest of this process

Root = object  # a module's name, or what is defined in it: a function, class, method or object


def digest(*roots: Root) -> str:
    """16 hex digits for the code of modules and of all that they import. Raises LookupError for what is elsewhere."""
    modules = frozenset(map(module_of, roots))
    name = _digests()(modules)
    _ROOTS[name] = modules
    return name


def newer(name: str, moment: float) -> list[str]:
    """The files behind a digest of this process that were changed after a moment, shown as below the package."""
    sources = _sources()
    files = [sources.files[module] for module in sources.closure(_ROOTS.get(name, ())) if module in sources.files]
    return sorted(
        str(file.relative_to(PACKAGE) if file.is_relative_to(PACKAGE) else file)
        for file in files
        if file.stat().st_mtime > moment
    )


def module_of(root: Root) -> str:
    """The name of the module of a root; of an object and of its method, that of the object's class."""
    if isinstance(root, str):
        return root
    owner = root.__self__ if isinstance(root, MethodType) else root
    return str(getattr(owner, "__module__", type(owner).__module__))


class Package(NamedTuple):
    """place: its folder, or the file of one module; origin: a plug-in's distribution, NAME VERSION."""

    place: Path
    origin: str = ""


@cache
def _sources() -> "Sources":
    return Sources({"munkey": Package(PACKAGE)} | plugin_packages())


@cache
def _digests() -> Callable[[frozenset[str]], str]:
    """What gives the digest of modules: read from KNOWN where it stands there, else computed, and written at exit."""
    sources, digests = _sources(), dict[str, str]()
    state = sources.state()
    with suppress(OSError, ValueError, KeyError, TypeError):  # not there yet, or damaged
        known = read_json(KNOWN)
        digests = known["digests"] if known["state"] == state else {}
    before = len(digests)

    def write() -> None:
        if len(digests) > before and KNOWN.parent.is_dir():
            with suppress(OSError):  # the next run computes them again
                write_json(KNOWN, {"state": state, "digests": digests})

    def get(modules: frozenset[str]) -> str:
        name = " ".join(sorted(modules))
        if name not in digests:
            digests[name] = sources.digest(modules)
        return str(digests[name])

    atexit.register(write)
    return get


def plugin_packages() -> dict[str, Package]:
    """The packages that hold plug-ins: of each, the outermost that is one folder or file, as a namespace is not.

    None is imported. What cannot be found is left out: its registry refuses it.
    """
    packages: dict[str, Package] = {}
    for plugin in announced("munkey"):
        parts = plugin.module.split(".")
        with suppress(ImportError, ValueError):
            specs = (find_spec(".".join(parts[: number + 1])) for number in range(len(parts)))
            if spec := next((spec for spec in specs if spec and spec.origin), None):
                place = Path(str(spec.origin))
                package = Package(place.parent if spec.submodule_search_locations else place, origin(plugin))
                packages.setdefault(spec.name, package)
    return packages


class Module(NamedTuple):
    """text: without the imports of modules that are followed; imports: these, as (module, name in it, name here)."""

    text: str
    imports: frozenset[tuple[str, str, str]]


class Sources:
    """The source of packages. Each file is read once."""

    def __init__(self, packages: Mapping[str, Package]) -> None:
        self._packages = packages
        self.files: dict[str, Path] = {}
        for name, (place, _) in packages.items():
            if place.suffix == ".py":
                self.files[name] = place
            for path in place.rglob("*.py"):
                parts = path.relative_to(place).with_suffix("").parts
                if path.is_file() and all(map(str.isidentifier, parts)):  # no editor's lock or backup
                    self.files[".".join([name, *parts]).removesuffix(".__init__")] = path
        self._module, self._mark = cache(self._parse), cache(self._mark_of)

    def state(self) -> str:
        """A hash of all files as they are, and of what parses them."""
        files = [f"{name} {hashlib.sha256(path.read_bytes()).hexdigest()}" for name, path in self.files.items()]
        return _sha256(sys.version, *sorted(files), *sorted(map(str, self._packages.items())))

    def digest(self, roots: Iterable[str]) -> str:
        modules = self.closure(roots := frozenset(roots))
        return _sha256(*sorted(map(self._mark, modules)), *self._origins({*roots, *modules}))[:16]

    def closure(self, roots: Iterable[str]) -> list[str]:
        """Modules, what they import, and the packages that these lie in; without those of no influence or no code."""
        modules = list(roots)
        for module in modules:
            if module not in self.files and not self._origins([module]):
                raise LookupError(f"{module} is neither a module of munkey nor one of a plug-in")
            parent = module.rpartition(".")[0]
            imported = {name for name, *_ in self._module(module).imports} | ({parent} & self.files.keys())
            modules += sorted(imported - NO_INFLUENCE - set(modules))
        return [module for module in modules if any(self._module(module))]

    def _mark_of(self, name: str) -> str:
        """A hash in which the text of an imported module stands for its name, so that a.load and b.load differ."""
        module = self._module(name)
        imports = sorted(f"{_sha256(self._module(source).text)} {rest}" for source, *rest in module.imports)
        return _sha256(module.text, *imports)

    def _origins(self, modules: Iterable[str]) -> list[str]:
        """The distributions of the plug-ins among these modules."""
        held = {p.origin for m in modules for name, p in self._packages.items() if f"{m}.".startswith(f"{name}.")}
        return sorted(held - {""})

    def _parse(self, name: str) -> Module:
        if not (file := self.files.get(name)):
            return Module("", frozenset())  # not in Python
        package = name if file.name == "__init__.py" else name.rpartition(".")[0]
        bare = Bare(package, self.files)
        text = ast.unparse(bare.visit(ast.parse(file.read_bytes())))
        text = DOTTED.sub(lambda found: "" if found[1] in self.files else found[0], text)
        return Module(text, frozenset(each for each in bare.imports if each[0] not in NO_INFLUENCE))


class Bare(ast.NodeTransformer):
    """Removes what does not count, and takes out the imports of modules that are followed."""

    def __init__(self, package: str, files: Mapping[str, Path]) -> None:
        self.package, self.files, self.in_class = package, files, False
        self.imports: set[tuple[str, str, str]] = set()

    def visit(self, node: ast.AST) -> Any:
        """As of every transformer, but expressions stay as they are: this is most of the time."""
        return node if isinstance(node, ast.expr) else super().visit(node)

    def visit_Import(self, node: ast.Import) -> ast.AST | None:
        followed = [alias for alias in node.names if alias.name in self.files]
        self.imports |= {(alias.name, "", alias.asname or "") for alias in followed}
        node.names = [alias for alias in node.names if alias not in followed]
        return node if node.names else None

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST | None:
        source, others = resolve_name("." * node.level + (node.module or ""), self.package), []
        for alias in node.names:
            here = alias.asname or alias.name
            if (module := f"{source}.{alias.name}") in self.files:
                self.imports.add((module, "", here))
            elif source in self.files:
                self.imports.add((source, alias.name, here))
            else:
                others.append(alias)
        node.names = others
        return node if others else None

    def visit_If(self, node: ast.If) -> ast.AST | list[ast.stmt]:
        for_types = isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        return self.visit(ast.Module(node.orelse, [])).body if for_types else self.generic_visit(node)

    def visit_ClassDef(self, node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST:
        if not isinstance(node, ast.ClassDef):
            node.returns = None
        outer, self.in_class = self.in_class, isinstance(node, ast.ClassDef)
        self.generic_visit(node)
        self.in_class = outer
        return node

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef

    def visit_arg(self, node: ast.arg) -> ast.AST:
        return ast.arg(node.arg)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST | None:
        if self.in_class:
            return self.generic_visit(node)
        return self.visit(ast.copy_location(ast.Assign([node.target], node.value), node)) if node.value else None

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        return None if isinstance(node.value, ast.Constant) else self.generic_visit(node)

    def visit_Pass(self, _: ast.Pass) -> None:
        return None  # as a docstring in its place would be


def _sha256(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()
