"""Digests of code. If an edit can change a job's results, the digest changes, and the job reruns.

Snakemake compares scripts, but not the modules that they import. Therefore, each rule's params
contain a digest of all modules of this package and of plug-ins that its job imports, directly or
indirectly, including imports inside functions. The versions of the plug-ins' distributions stand for
their other files. Comments, docstrings, formatting and imports for type checkers do not change a
digest.

Nothing is imported; grimp reads the imports of this package. Code that a registry finds, or that
`importlib` imports by name, must be passed as a root. The hashes of files are cached in Snakemake's
folder, because parsing all files is the slowest part.
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
# Modules that no result depends on. Their imports are not followed. tests/experiment/run/test_code_digest.py lists what
# may be imported from each of them, and why it cannot reach a result.
NO_INFLUENCE = frozenset({
    "munkey",  # imports the predictor lazily
    # They check values, which rules pass to their jobs.
    "munkey.settings", "munkey.experiment.params.load",
    # They define where files are and where jobs run, and print.
    "munkey.core.paths", "munkey.core.gpu_slots", "munkey.core.console",
    "munkey.core.registry", "munkey.core.plugins",  # they find code, which is passed as a root
    "munkey.experiment.run.job", "munkey.experiment.run.fork_server",
})  # fmt: skip
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)

_ROOTS: dict[str, list[str]] = {}  # the modules behind each digest of this process

Root = object  # a module's name, or an object defined in it, e.g. a function, class or method


def digest(*roots: Root) -> str:
    """Return a digest (16 hex digits) of the code of modules and of all that they import.

    Raises LookupError for a module that belongs neither to munkey nor to a plug-in.
    """
    modules = sorted(set(map(find_module, roots)))
    code_digest = _compute_digest(tuple(modules))
    _ROOTS[code_digest] = modules
    return code_digest


def list_changed_files(code_digest: str, time: float) -> list[str]:
    """List the files behind a digest of this process that were changed after a time.

    Paths of this package's files are relative to it.
    """
    code = _read_code()
    changed = []
    for module in code.find_closure(_ROOTS.get(code_digest, ())):
        file = code.files[module]
        if file.stat().st_mtime > time:
            changed.append(_shorten(file))
    return sorted(changed)


def _shorten(file: Path) -> str:
    """Return the path of a file; that of this package's files is relative to it."""
    return str(file.relative_to(PACKAGE) if file.is_relative_to(PACKAGE) else file)


def find_module(root: Root) -> str:
    """Return the name of the module that defines a root or, for an instance, its class."""
    if isinstance(root, str):
        return root
    owner = root
    if isinstance(root, MethodType):  # e.g. of a registered instance
        owner = root.__self__
    return str(getattr(owner, "__module__", type(owner).__module__))


class Code:
    """The modules of this package and of plug-ins, and their imports."""

    def __init__(self, plugins: Mapping[str, Package]) -> None:
        self.plugins = plugins
        packages = {"munkey": Package(PACKAGE), **plugins}
        self.files: dict[str, Path] = {}
        for name, package in packages.items():
            self.files |= _find_module_files(name, package.path)
        self._graph = self._build_graph()

    def _build_graph(self) -> grimp.ImportGraph:
        """Build the graph of the imports of all modules, except imports of those in NO_INFLUENCE."""
        try:
            graph = grimp.build_graph("munkey", exclude_type_checking_imports=True, cache_dir=None)
        except grimp.exceptions.SourceSyntaxError:
            # A file with a syntax error, e.g. during an edit, only matters to jobs that need it.
            # From an empty graph, `_add_unread_modules` reads all files one by one.
            graph = grimp.ImportGraph()
        self._add_unread_modules(graph)
        for module in self.files:
            parent = module.rpartition(".")[0]
            # Importing a module also runs its package, which grimp does not take into account.
            if parent in self.files:
                graph.add_import(importer=module, imported=parent)
        for module in NO_INFLUENCE:
            for importer in graph.find_modules_that_directly_import(module):
                graph.remove_import(importer=importer, imported=module)
        return graph

    def _add_unread_modules(self, graph: grimp.ImportGraph) -> None:
        """Add the modules that grimp did not read, with their imports.

        These are plug-ins, because grimp cannot read single files or packages without an
        __init__.py. If a file of this package has a syntax error, these are all modules.
        """
        unread_modules = [module for module in self.files if module not in graph.modules]
        for module in unread_modules:
            graph.add_module(module)
        for module in unread_modules:
            for imported in _parse_imports(module, self.files[module]):
                if imported in self.files:
                    graph.add_import(importer=module, imported=imported)

    def find_closure(self, roots: Iterable[str]) -> list[str]:
        """Find these modules and all that they import, directly or indirectly.

        Imports of modules in NO_INFLUENCE are ignored. Raises LookupError for an unknown module.
        """
        modules: set[str] = set()
        for root in roots:
            if root in self._graph.modules:
                modules |= {root} | self._graph.find_upstream_modules(root)
            elif not self.list_origins([root]):
                raise LookupError(f"{root} is neither a module of munkey nor one of a plug-in")
        return sorted(modules)

    def list_origins(self, modules: Iterable[str]) -> list[str]:
        """List the distributions of the plug-ins among these modules."""
        origins = set()
        for module in modules:
            for name, package in self.plugins.items():
                if f"{module}.".startswith(f"{name}."):
                    origins.add(package.origin)
        return sorted(origins)

    def compute_digest(self, roots: Iterable[str]) -> str:
        """Compute the digest of `roots` and of all that they import."""
        roots = list(roots)
        modules = self.find_closure(roots)
        module_hashes = [f"{module} {compute_file_hash(self.files[module])}" for module in modules]
        return _sha256(*module_hashes, *self.list_origins([*roots, *modules]))[:16]


@cache
def _read_code() -> Code:
    return Code(find_plugin_packages())


@cache
def _compute_digest(modules: tuple[str, ...]) -> str:
    return _read_code().compute_digest(modules)


def _find_module_files(name: str, path: Path) -> dict[str, Path]:
    """Find the files of a package's modules, by module name."""
    if path.suffix == ".py":
        return {name: path}
    files = {}
    for file in path.rglob("*.py"):
        parts = file.relative_to(path).with_suffix("").parts
        if file.is_file() and all(map(str.isidentifier, parts)):  # no editor locks or backups
            files[".".join([name, *parts]).removesuffix(".__init__")] = file
    return files


def _parse_imports(module: str, file: Path) -> Iterator[str]:
    """Yield the names that a file imports: modules, and objects in them, which may also be modules."""
    package = module
    if file.name != "__init__.py":
        package = module.rpartition(".")[0]
    with suppress(SyntaxError, ValueError, ImportError):
        nodes: list[ast.AST] = [ast.parse(file.read_bytes())]
        for node in nodes:  # the loop appends child nodes to the list
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
def compute_file_hash(file: Path) -> str:
    """Compute a hash of a file's code, or read it from KNOWN if the file has not changed."""
    content = file.read_bytes()
    state = _sha256(sys.version, hashlib.sha256(content).hexdigest())
    hashes = _read_known_hashes()
    name = _shorten(file)
    if hashes.get(name, {}).get("state") != state:
        code = ast.dump(_parse_without_docstrings(content))
        hashes[name] = {"state": state, "code": _sha256(code)}
    return hashes[name]["code"]


def _parse_without_docstrings(content: bytes) -> ast.Module:
    tree = ast.parse(content)
    for node in ast.walk(tree):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            del node.body[0]
    return tree


@cache
def _read_known_hashes() -> dict[str, dict[str, str]]:
    """Read the hashes in KNOWN, by file. New ones are written there when the process ends."""
    try:
        hashes = {}
        for file, known_hash in read_json(KNOWN).items():
            hashes[file] = {"state": known_hash["state"], "code": known_hash["code"]}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):  # missing or damaged
        hashes = {}
    before = dict(hashes)

    def write_new_hashes() -> None:
        if hashes != before and KNOWN.parent.is_dir():
            with suppress(OSError):  # then, the next run computes them again
                write_json(KNOWN, hashes)

    atexit.register(write_new_hashes)
    return hashes


def _sha256(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()
