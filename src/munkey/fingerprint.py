"""Digests of the code that a rule's result depends on, so that editing a module re-runs what uses it and nothing else.

A script's code is its own and that of every module of this package that it imports, directly or not. Comments,
formatting and docstrings do not count. Read as text: nothing is imported.
"""

import ast
import hashlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parent
# Only check values (each rule hands them over), run jobs, or name the entries of a registry: none changes a result.
NO_INFLUENCE = frozenset({"params", "runtime", "fingerprint", "registry", "warm"})


def digest(*roots: Path) -> str:
    """Hex digest of the code of these files and of all they import from the package."""
    files = {path for root in roots for path in closure(root)} | set(roots)
    total = hashlib.sha256()
    for path in sorted(files, key=lambda p: (p.name, p.parent.name)):
        total.update(f"{path.name}\n{_essence(path)}\n".encode())
    return total.hexdigest()[:16]


@cache
def closure(root: Path) -> frozenset[Path]:
    """The package's files that `root` imports, directly or not."""
    found: set[Path] = set()
    todo = [root]
    while todo:
        for path in _imports(todo.pop()):
            if path not in found:
                found.add(path)
                todo.append(path)
    return frozenset(found)


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def _imports(path: Path) -> Iterator[Path]:
    typing_only = {
        id(node)
        for block in ast.walk(_tree(path))
        if isinstance(block, ast.If) and isinstance(block.test, ast.Name) and block.test.id == "TYPE_CHECKING"
        for child in block.body
        for node in ast.walk(child)
    }
    for node in ast.walk(_tree(path)):
        if id(node) in typing_only:
            continue
        names = []
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        for name in names:
            module = name.split(".")
            if module[0] == "munkey" and len(module) > 1 and module[1] not in NO_INFLUENCE:
                stem = PACKAGE.joinpath(*module[1:])
                yield from (file for file in (stem.with_suffix(".py"), stem / "__init__.py") if file.exists())


def _essence(path: Path) -> str:
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and ast.get_docstring(
            node
        ):
            del node.body[0]
    return ast.unparse(tree)
