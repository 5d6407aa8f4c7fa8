"""Python code as text that stays the same when code is moved, renamed, documented or reformatted."""

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from importlib.util import resolve_name
from pathlib import Path
from typing import NamedTuple, TypeVar

NESTED_SCOPES = (
    ast.FunctionDef | ast.ClassDef | ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
)

RELATIVE = re.compile(r"^\s*from\s*\.", re.MULTILINE)

Node = TypeVar("Node", bound=ast.AST)
Scope = Mapping[str, str | None]  # names and what they stand for: a dotted name, or None for a variable


class Definition(NamedTuple):
    """name: of a function, class or constant of the module, or CLASS.MEMBER."""

    module: str
    name: str

    def member(self, name: str) -> "Definition":
        return self._replace(name=f"{self.name}.{name}")


class Code(NamedTuple):
    """Text that depends neither on aliases nor on the names of modules, and the definitions it refers to, in order."""

    text: str
    references: tuple[Definition, ...]


def parse(path: Path, package: str = "") -> list[ast.stmt]:
    """The statements of a file, without its docstring and without what only type checkers read.

    package: that the file belongs to, where there is one: its relative imports become absolute.
    """
    text, statements = path.read_text(), list[ast.stmt]()
    tree = ast.parse(text)
    if package and RELATIVE.search(text):
        _make_absolute(tree, package)
    for statement in tree.body:
        if isinstance(statement, ast.If) and ast.unparse(statement.test) == "TYPE_CHECKING":
            statements += statement.orelse
        elif not _is_constant(statement):
            statements.append(statement)
    return statements


def _make_absolute(tree: ast.Module, package: str) -> None:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            node.module, node.level = resolve_name("." * node.level + (node.module or ""), package), 0


def _is_constant(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def in_scope(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """These nodes and all below them, except what is in the scope of a function, a class or a comprehension."""
    pending = list(nodes)
    for node in pending:
        yield node
        if not isinstance(node, NESTED_SCOPES):
            pending.extend(ast.iter_child_nodes(node))


def bindings(nodes: Iterable[ast.AST]) -> dict[str, str | None]:
    """The names that these nodes bind, and what those that are imported stand for."""
    bound: dict[str, str | None] = {}
    imported: dict[str, str | None] = {}
    outer: set[str] = set()
    for node in in_scope(nodes):
        match node:
            case ast.Import():
                for alias in node.names:
                    first = alias.name.partition(".")[0]
                    imported[alias.asname or first] = alias.name if alias.asname else first
            case ast.ImportFrom():
                imported |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                bound[name] = None
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                bound[name] = None
            case ast.Global(names=names) | ast.Nonlocal(names=names):
                outer.update(names)
    return {name: target for name, target in (bound | imported).items() if name not in outer}


class Normalizer(ast.NodeTransformer):
    """Removes what does not count, puts bare names for references and collects them. Changes the nodes it visits.

    package, modules: names; resolve: what a dotted name stands for; scope: of the module that the code is part of.
    """

    def __init__(self, package: str, modules: Set[str], resolve: Callable[[str], Code], scope: Scope) -> None:
        self._package, self._modules, self._resolve = package, modules, resolve
        self._scopes = [scope]
        self._references: list[Definition] = []
        self._fields: set[ast.stmt] = set()  # the statements in class bodies

    def code(self, statements: list[ast.stmt], in_class: bool = False) -> Code:
        """The code of statements of the module, or of a class in it."""
        self._references = []
        if in_class:
            self._fields.update(statements)
        body = self.generic_visit(ast.Module(statements, []))
        return Code(ast.unparse(body), tuple(self._references))

    def _visit_within(self, scope: Scope, node: Node) -> Node:
        """Visit what is below a node, in a scope inside the current one."""
        self._scopes.append(scope)
        self.generic_visit(node)
        self._scopes.pop()
        return node

    def _dotted(self, node: ast.AST) -> str | None:
        """What a name, with or without attributes, stands for."""
        match node:
            case ast.Attribute():
                outer = self._dotted(node.value)
                return outer and f"{outer}.{node.attr}"
            case ast.Name(ctx=ast.Load()):
                return next((scope[node.id] for scope in reversed(self._scopes) if node.id in scope), None)
        return None

    def _only_registers(self, decorator: ast.expr) -> bool:
        """Whether a decorator of the package cannot change a result: it names an entry, describes it, cites it."""
        dotted = self._dotted(decorator.func if isinstance(decorator, ast.Call) else decorator) or ""
        return dotted.startswith(f"{self._package}.") and not self._resolve(dotted).references

    def visit_Name(self, node: ast.Name | ast.Attribute) -> ast.AST:
        dotted = self._dotted(node)
        if dotted is None:
            return self.generic_visit(node)
        found = self._resolve(dotted)
        self._references += found.references
        return ast.Name(found.text)

    visit_Attribute = visit_Name

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        is_module = "." in str(node.value) and node.value in self._modules
        return ast.Constant("<module>") if is_module else node  # a registry names the package of its entries

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        node.decorator_list = [self.visit(each) for each in node.decorator_list if not self._only_registers(each)]
        self.visit(node.args)  # defaults, like decorators, are outside of the function's scope
        node.body = self._visit_within(bindings([node.args, *node.body]), ast.Module(node.body, [])).body
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        self.visit(node.args)
        node.body = self._visit_within(bindings([node.args]), ast.Expression(node.body)).body
        return node

    def visit_ListComp(self, node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp) -> ast.AST:
        first = node.generators[0]
        iterable, first.iter = self.visit(first.iter), ast.Constant(None)  # outside of the comprehension's scope
        self._visit_within(bindings(generator.target for generator in node.generators), node)
        first.iter = iterable
        return node

    visit_SetComp = visit_DictComp = visit_GeneratorExp = visit_ListComp

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.annotation = None
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        self._fields.update(node.body)
        node.decorator_list = [each for each in node.decorator_list if not self._only_registers(each)]
        return self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST | None:
        if node in self._fields:
            return self.generic_visit(node)
        if node.value is None:
            return None
        return self.generic_visit(ast.copy_location(ast.Assign([node.target], node.value), node))

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        return None if _is_constant(node) else self.generic_visit(node)

    def visit_Pass(self, _: ast.Pass) -> None:
        return None  # as a docstring in its place would be

    def visit_Import(self, node: ast.Import) -> ast.AST | None:
        node.names = [alias for alias in node.names if alias.name.partition(".")[0] not in self._modules]
        return node if node.names else None

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST | None:
        return None if str(node.module).partition(".")[0] in self._modules else node
