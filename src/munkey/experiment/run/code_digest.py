"""Digests of the code that a result depends on: an edit re-runs the jobs whose results it can change, and no others.

Snakemake compares scripts, but not what they import. Each rule's params therefore hold a digest of its script and of
all definitions of this package (functions, classes, module-level constants) that the script uses, directly or not; and
of those of plug-ins, with the versions of their distributions, which stand for what is not Python there.
Comments, docstrings, formatting, the names and places of modules, and the annotations of functions and variables do
not count. Annotations in class bodies do: dataclasses and pydantic models read them.

The source is parsed, never imported, so some uses are not seen: entries of a registry (pass them as roots), `getattr`,
modules imported by a string, names in string annotations, data files, other libraries. Imports must be absolute. Where
it is unclear what a name stands for, more counts rather than less.

    python -m munkey.experiment.run.code_digest workflow/scripts/train.py [MODULE:NAME ...]

prints what counts for a script: useful to whoever wonders why a job runs again.
"""

import hashlib
import re
import sys
from functools import cache
from pathlib import Path
from types import MethodType
from typing import NamedTuple

import munkey
from munkey.experiment.run.code_modules import Modules
from munkey.experiment.run.code_packages import Package, of_plugins
from munkey.experiment.run.code_text import Code, Definition

PACKAGE = Path(munkey.__file__).parent
NO_INFLUENCE = frozenset({
    "settings", "experiment.params.load",  # check values, which each rule hands to its script
    "core.paths", "core.device.gpu_visible", "core.device.device_of",  # decide where things are and run
    "experiment.run.job.job", "experiment.run.job.now", "experiment.run.job.keep_freed_memory",  # surround a job
    "experiment.run.job.usage", "experiment.run.provenance", "experiment.run.fork_server", "core.console",
    "core.registry", "unlearn.contract.method", "models.family.family",  # find code, which is passed as a root, and
    "data.registry.dataset", "encoders.registry.encoder",  # say what it is called
})  # fmt: skip
OBJECT = "<object>"
ATTRIBUTE = re.compile(r"\.(\w+)")

Root = object  # a function, class, method or other object of the package, or a string


def digest(script: Path, *roots: Root, package: Path = PACKAGE) -> str:
    """16 hex digits for the code of a script and of everything it uses.

    roots: what it uses without naming it, e.g. through a registry: functions, classes, or strings "module:name". For an
    object, a bound method or "module:class.method", those members of the class count, inherited ones included, whose
    names stand after a dot in code that counts. Raises LookupError for a root that is defined elsewhere.
    """
    return _source(package).digest(script, roots)


def explain(script: Path, *roots: Root, package: Path = PACKAGE) -> list[str]:
    """The definitions that count for a script, sorted, as "module:name"."""
    return sorted(":".join(definition) for definition in _source(package).used(script, roots))


@cache
def _source(package: Path) -> "_Source":
    return _Source(package)


class Found(NamedTuple):
    """What roots stand for. owners: the classes of objects and methods; those of their members count that are used."""

    definitions: set[Definition]
    owners: set[Definition]


class _Source:
    """What scripts use of a package, and of those of plug-ins."""

    def __init__(self, package: Path) -> None:
        excluded = tuple(f"{package.name}.{each}." for each in NO_INFLUENCE)
        self._plugins = of_plugins(package.name)
        packages = [Package(package.name, package), *self._plugins]
        self._modules = Modules(packages, counts=lambda dotted: not f"{dotted}.".startswith(excluded))
        self.digest, self.used = cache(self._digest), cache(self._used)
        self._mark = cache(lambda definition: self._hash(self._modules.code(definition)))
        self._attributes = cache(lambda definition: set(ATTRIBUTE.findall(self._modules.code(definition).text)))

    def _digest(self, script: Path, roots: tuple[Root, ...]) -> str:
        used = self.used(script, roots)
        marks = sorted({self._mark(definition) for definition in used})
        modules = {definition.module for definition in used}.union(map(_module, roots))
        origins = sorted({plugin.origin for plugin in self._plugins if any(map(plugin.holds, modules))})
        return _sha256(self._hash(self._modules.script(script)), *marks, *origins)[:16]

    def _hash(self, code: Code) -> str:
        """A hash that also tells references of the same name apart, so that a.load and b.load cannot swap unnoticed."""
        return _sha256(code.text, *(self._modules.code(reference).text for reference in code.references))

    def _used(self, script: Path, roots: tuple[Root, ...]) -> frozenset[Definition]:
        """All definitions that a script and further roots refer to, directly or not."""
        code, found = self._modules.script(script), self._find(roots)
        attributes = set(ATTRIBUTE.findall(code.text))
        pending = found.definitions.union(code.references, self._members(found.owners, attributes))
        used: set[Definition] = set()
        while pending:
            used |= pending
            attributes.update(*map(self._attributes, pending))
            references = {reference for each in pending for reference in self._modules.code(each).references}
            pending = (references | self._members(found.owners, attributes)) - used
        return frozenset(used)

    def _find(self, roots: tuple[Root, ...]) -> Found:
        found = Found(set(), set())
        for module, _, qualname in (_name(root).partition(":") for root in roots if not self._is_compiled(root)):
            first, *inner = qualname.split(".")
            definition = self._modules.find(module, first)
            if inner:
                found.owners.add(definition)
            if inner != [OBJECT]:
                is_member = inner and inner[0] in self._modules.members(definition)
                found.definitions.add(definition.member(inner[0]) if is_member else definition)
        return found

    def _is_compiled(self, root: Root) -> bool:
        """Whether this is a plug-in's, but not in Python: the version of its distribution must do."""
        module = _module(root)
        return not self._modules.has(module) and any(plugin.holds(module) for plugin in self._plugins)

    def _members(self, owners: set[Definition], attributes: set[str]) -> set[Definition]:
        members = [(owner, name) for owner in owners for name in self._modules.members(owner)]
        return {owner.member(name) for owner, name in members if name in attributes or name.startswith("__")}


def _name(root: Root) -> str:
    """A root as "module:name" or "module:class.member", where OBJECT stands for no member in particular."""
    if isinstance(root, str):
        return root
    if hasattr(root, "__qualname__") and not isinstance(root, MethodType):
        return f"{root.__module__}:{root.__qualname__}"
    owner, member = (root.__self__, root.__name__) if isinstance(root, MethodType) else (root, OBJECT)
    kind = owner if isinstance(owner, type) else type(owner)
    return f"{kind.__module__}:{kind.__qualname__}.{member}"


def _module(root: Root) -> str:
    return _name(root).partition(":")[0]


def _sha256(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()


if __name__ == "__main__":
    print("\n".join(explain(Path(sys.argv[1]), *sys.argv[2:])))
