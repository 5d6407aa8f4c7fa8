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
NO_INFLUENCE = frozenset({"params", "runtime", "fingerprint", "registry"})


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
    typing_only = {id(node) for block in ast.walk(_tree(path)) if _is_typing_block(block) for node in ast.walk(block)}
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


def _is_typing_block(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def _essence(path: Path) -> str:
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        first = body[0] if isinstance(body, list) and body else None
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
            first.value.value = ""
    return ast.unparse(tree)
