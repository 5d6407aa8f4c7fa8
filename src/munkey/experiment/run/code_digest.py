"""Digests of the code that a result depends on: an edit re-runs the jobs whose results it can change.

Snakemake compares scripts, but not what they import. Each rule's params therefore hold a digest of
the modules of this package that its job imports, directly or not, inside functions too; and of
those of plug-ins, with the versions of their distributions, which stand for their files other than
Python. Comments, docstrings, formatting and what only type checkers import do not count.

Nothing is imported: grimp reads the imports of this package. What a registry finds, or `importlib`
imports by a name, must be passed as a root. Hashes of files are kept in Snakemake's folder, since
parsing all of them takes longer than the rest.
"""

import ast
import atexit
import hashlib
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from importlib.util import resolve_name
from pathlib import Path
from types import MethodType

import grimp

import munkey
from munkey.core.files import read_json, write_json
from munkey.core.plugins import Package, find_plugin_packages

PACKAGE = Path(munkey.__file__).parent
KNOWN = Path(".snakemake/munkey-code-hashes.json")
# Modules that no result depends on: they are not followed.
NO_INFLUENCE = frozenset({
    "munkey",  # imports the predictor only for those who ask for it
    # check values, which each rule hands to its job
    "munkey.settings", "munkey.experiment.params.load",
    # where things lie, run, and are printed
    "munkey.core.paths", "munkey.core.gpu_slots", "munkey.core.console",
    "munkey.core.registry", "munkey.core.plugins",  # find code, which is passed as a root
    "munkey.experiment.run.job", "munkey.experiment.run.provenance", "munkey.experiment.run.fork_server",
})  # fmt: skip
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)

_ROOTS: dict[str, list[str]] = {}  # the modules behind each digest of this process

Root = object  # a module's name, or an object defined in it, e.g. a function, class or method


def digest(*roots: Root) -> str:
    """Return a digest of 16 hex digits of the code of modules and all that they import.

    Raises LookupError for a module that is neither munkey's nor a plug-in's.
    """
    modules = sorted(set(map(find_module, roots)))
    name = _digest(tuple(modules))
    _ROOTS[name] = modules
    return name


def changed_files(name: str, moment: float) -> list[str]:
    """Return the files behind a digest of this process that were changed after a moment.

    Files of this package are shown relative to it.
    """
    code = _code()
    changed = []
    for module in code.find_closure(_ROOTS.get(name, ())):
        file = code.files[module]
        if file.stat().st_mtime <= moment:
            continue
        if file.is_relative_to(PACKAGE):
            file = file.relative_to(PACKAGE)
        changed.append(str(file))
    return sorted(changed)


def find_module(root: Root) -> str:
    """Return the name of the module that defines a root, or the class of an object."""
    if isinstance(root, str):
        return root
    owner = root
    if isinstance(root, MethodType):  # of an object of the registry, say
        owner = root.__self__
    return str(getattr(owner, "__module__", type(owner).__module__))


class Code:
    """The modules of this package and of plug-ins, and their imports."""

    def __init__(self, plugins: Mapping[str, Package]) -> None:
        self.plugins = plugins
        self.files: dict[str, Path] = {}
        for name, package in ({"munkey": Package(PACKAGE)} | dict(plugins)).items():
            self.files |= _find_module_files(name, package.place)
        try:
            self._graph = grimp.build_graph(
                "munkey", exclude_type_checking_imports=True, cache_dir=None
            )
        # A file may be just being written, and no job may need it: all are read here instead.
        except grimp.exceptions.SourceSyntaxError:
            self._graph = grimp.ImportGraph()
        self._add_unread_modules()
        for module in self.files:
            parent = module.rpartition(".")[0]
            # Importing a module runs its package. grimp does not count that.
            if parent in self.files:
                self._graph.add_import(importer=module, imported=parent)
        for module in NO_INFLUENCE:
            for importer in self._graph.find_modules_that_directly_import(module):
                self._graph.remove_import(importer=importer, imported=module)

    def _add_unread_modules(self) -> None:
        """Add plug-ins, which grimp cannot read if they are single files or lack an __init__.py."""
        unread_modules = [module for module in self.files if module not in self._graph.modules]
        for module in unread_modules:
            self._graph.add_module(module)
        for module in unread_modules:
            for imported in _parse_imports(module, self.files[module]):
                if imported in self.files:
                    self._graph.add_import(importer=module, imported=imported)

    def find_closure(self, roots: Iterable[str]) -> list[str]:
        """Return modules and all that they import, without those of no influence.

        Raises LookupError for an unknown module.
        """
        modules: set[str] = set()
        for root in roots:
            if root in self._graph.modules:
                modules |= {root} | self._graph.find_upstream_modules(root)
            elif not self.origins([root]):
                raise LookupError(f"{root} is neither a module of munkey nor one of a plug-in")
        return sorted(modules)

    def origins(self, modules: Iterable[str]) -> list[str]:
        """Return the distributions of the plug-ins among these modules."""
        origins = set()
        for module in modules:
            for name, package in self.plugins.items():
                if f"{module}.".startswith(f"{name}."):
                    origins.add(package.origin)
        return sorted(origins)

    def digest(self, roots: Iterable[str]) -> str:
        """Return the digest of `roots` and all that they import."""
        roots = list(roots)
        modules = self.find_closure(roots)
        marks = [f"{module} {file_hash(self.files[module])}" for module in modules]
        return _sha256(*marks, *self.origins([*roots, *modules]))[:16]


@cache
def _code() -> Code:
    return Code(find_plugin_packages())


@cache
def _digest(modules: tuple[str, ...]) -> str:
    return _code().digest(modules)


def _find_module_files(name: str, place: Path) -> dict[str, Path]:
    """Return the files of a package's modules, by the modules' names."""
    if place.suffix == ".py":
        return {name: place}
    files = {}
    for path in place.rglob("*.py"):
        parts = path.relative_to(place).with_suffix("").parts
        if path.is_file() and all(map(str.isidentifier, parts)):  # no editor's lock or backup
            files[".".join([name, *parts]).removesuffix(".__init__")] = path
    return files


def _parse_imports(module: str, file: Path) -> Iterator[str]:
    """Yield the names that a file imports: modules, and objects in them, which may be modules.

    Yields nothing for a file that does not parse.
    """
    package = module
    if file.name != "__init__.py":
        package = module.rpartition(".")[0]
    with suppress(SyntaxError, ValueError, ImportError):
        nodes: list[ast.AST] = [ast.parse(file.read_bytes())]
        for node in nodes:  # to which the loop appends the nodes below
            if isinstance(node, ast.Import):
                for alias in node.names:
                    yield alias.name
            elif isinstance(node, ast.ImportFrom):
                source = resolve_name("." * node.level + (node.module or ""), package)
                yield source
                for alias in node.names:
                    yield f"{source}.{alias.name}"
            elif isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
                nodes += node.orelse
            else:
                nodes += ast.iter_child_nodes(node)


@cache
def file_hash(file: Path) -> str:
    """Return a hash of a file's code, read from KNOWN if the file is as it was then."""
    content = file.read_bytes()
    state = _sha256(sys.version, hashlib.sha256(content).hexdigest())
    hashes = _read_known_hashes()
    if hashes.get(str(file), {}).get("state") != state:
        code = ast.dump(_parse_without_docstrings(content))
        hashes[str(file)] = {"state": state, "code": _sha256(code)}
    return hashes[str(file)]["code"]


def _parse_without_docstrings(content: bytes) -> ast.Module:
    tree = ast.parse(content)
    for node in ast.walk(tree):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            del node.body[0]
    return tree


@cache
def _read_known_hashes() -> dict[str, dict[str, str]]:
    """Read the hashes of KNOWN, by file. New ones are written there when the process ends."""
    try:
        hashes = {}
        for file, known_hash in read_json(KNOWN).items():
            hashes[file] = {"state": known_hash["state"], "code": known_hash["code"]}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):  # not there yet, or damaged
        hashes = {}
    before = dict(hashes)

    def write() -> None:
        if hashes != before and KNOWN.parent.is_dir():
            with suppress(OSError):  # the next run computes them again
                write_json(KNOWN, hashes)

    atexit.register(write)
    return hashes


def _sha256(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()
