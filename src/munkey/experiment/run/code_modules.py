"""The modules of packages as text: what each of them defines, and which definition a name stands for."""

import ast
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from munkey.experiment.run.code_packages import Package, prefixes
from munkey.experiment.run.code_text import Code, Definition, Normalizer, bindings, in_scope, parse

STATEMENTS = "<statements>"  # stands for the statements of a module that do more than define names
DOING = ast.Expr | ast.For | ast.While | ast.With
IMPORTS = ast.Import | ast.ImportFrom


class Module(NamedTuple):
    """imports: what each imported name stands for; statements: those that define each of the other names."""

    imports: dict[str, str]
    statements: dict[str, list[ast.stmt]]


class Statement(NamedTuple):
    """A normalized statement. parts: its code; of a class, its head and then the statements of its body.

    members: those statements of a class body by the names that they define.
    """

    parts: list[Code]
    members: dict[str, list[Code]]


class Modules:
    """The modules of packages, the first of which registers. Each file is parsed, and each statement normalized, once.

    counts: whether a definition can change a result, by its dotted name.
    """

    def __init__(self, packages: Sequence[Package], counts: Callable[[str], bool]) -> None:
        self.package, self._counts = packages[0].name, counts
        self._files = {name: file for package in packages for name, file in package.files().items()}
        names = [*self._files, *(package.name for package in packages)]
        self._names = {name for each in names for name in prefixes(each)}
        self._normalized: dict[ast.stmt, Statement] = {}
        self.module, self.script, self.code = cache(self._module), cache(self._script), cache(self._code)
        self.resolve, self.members = cache(self._resolve), cache(self._members)

    def has(self, module: str) -> bool:
        """Whether there is a file of this module to read."""
        return module in self._files

    def find(self, module: str, name: str) -> Definition:
        """A definition by its place. Raises LookupError if there is none."""
        if name not in self.module(module).statements:
            raise LookupError(f"{module}:{name} is defined neither in {self.package} nor in the package of a plug-in")
        return Definition(module, name)

    def _module(self, name: str) -> Module:
        module, file = Module({}, {}), self._files.get(name)
        package = name if file and file.name == "__init__.py" else name.rpartition(".")[0]
        for statement in parse(file, package) if file else ():
            names = bindings([statement])
            module.imports.update({bound: target for bound, target in names.items() if target})
            for bound in names if not isinstance(statement, IMPORTS) else ():
                module.statements.setdefault(bound, []).append(statement)
            if not names or any(isinstance(node, DOING) for node in in_scope([statement])):
                module.statements.setdefault(STATEMENTS, []).append(statement)
        return module

    def _script(self, path: Path) -> Code:
        """The code of a whole file outside of the package."""
        body = parse(path)
        imports = {name: target for name, target in bindings(body).items() if target}
        normalizer = Normalizer(self.package, self._names, self.resolve, imports)
        return normalizer.code([statement for statement in body if not isinstance(statement, IMPORTS)])

    def _code(self, definition: Definition) -> Code:
        """The code of a definition. Importing its module runs the module's other statements, so they count as well."""
        name, _, member = definition.name.partition(".")
        module, whole = self.module(definition.module), definition._replace(name=name)
        parts = self.members(whole)[member] if member else self._parts(whole)
        references = [reference for part in parts for reference in part.references]
        if name in module.imports:  # defined only where this import fails
            references += self.resolve(module.imports[name]).references
        if STATEMENTS in module.statements:
            references.append(Definition(definition.module, STATEMENTS))
        return Code("\n".join(part.text for part in parts), tuple(references))

    def _parts(self, definition: Definition) -> list[Code]:
        statements = self.module(definition.module).statements[definition.name]
        return [part for statement in statements for part in self._statement(definition.module, statement).parts]

    def _members(self, definition: Definition) -> dict[str, list[Code]]:
        """What a class and its bases in this package define, by name; empty for what is not a class."""
        statements = self.module(definition.module).statements[definition.name]
        classes = [self._statement(definition.module, each) for each in statements if isinstance(each, ast.ClassDef)]
        bases = [self.members(base) for each in classes for base in each.parts[0].references]
        members: dict[str, list[Code]] = {}
        for defined in [*(each.members for each in classes), *bases]:
            for name, parts in defined.items():
                members.setdefault(name, []).extend(parts)
        return members

    def _statement(self, module: str, statement: ast.stmt) -> Statement:
        """A statement of a module, normalized once: that changes it, and it can define several names."""
        if statement not in self._normalized:
            defined = {name: f"{module}.{name}" for name in self.module(module).statements}
            normalizer = Normalizer(self.package, self._names, self.resolve, self.module(module).imports | defined)
            self._normalized[statement] = _split(statement, normalizer)
        return self._normalized[statement]

    def _resolve(self, dotted: str) -> Code:
        """What a dotted name stands for, such as munkey.core.files.atomic, munkey.core.files or numpy.mean.

        A module that is not followed by the name of a definition stands for all of its definitions.
        """
        name, attributes = dotted, ""
        while name and name not in self._names:
            name, _, last = name.rpartition(".")
            attributes = f"{last}.{attributes}".rstrip(".")
        if not name:  # another library's
            return Code(dotted, ())
        module, (first, _, rest) = self.module(name), attributes.partition(".")
        if first in module.imports and first not in module.statements:
            return self.resolve(f"{module.imports[first]}.{rest}".rstrip("."))
        is_known = first in module.statements
        names = [first] if is_known else sorted(module.statements)
        found = [Definition(name, each) for each in names if self._counts(f"{name}.{each}")]
        return Code(attributes if is_known else f"<module>.{attributes}", tuple(found))


def _split(statement: ast.stmt, normalizer: Normalizer) -> Statement:
    """A statement as one part; a class as its head and the statements in its body."""
    if not isinstance(statement, ast.ClassDef):
        return Statement([normalizer.code([statement])], {})
    body, statement.body = statement.body, []
    split = Statement([normalizer.code([statement])], {})
    for part in body:
        code = normalizer.code([part], in_class=True)
        split.parts.extend([code] if code.text else [])
        for name in bindings([part]):
            split.members.setdefault(name, []).append(code)
    return split
