"""Checks of parameter files for what Snakemake would silently let pass."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import yaml
from yaml import MappingNode, Node, ScalarNode, SequenceNode

from munkey.experiment.params.messages import MOST_VALUES, ParamsError

LOADER: type[yaml.SafeLoader] = yaml.SafeLoader  # of lists within lists within lists the one in C crashes


def check(paths: Iterable[str | Path]) -> None:
    """Raise ParamsError that says what is wrong with the first file that cannot be used. Absent ones are skipped."""
    for path in map(Path, paths):
        if path.is_file() and (fault := _fault(path.read_bytes())):
            raise ParamsError(f"{path}: {fault}")


def _fault(content: bytes) -> str | None:
    try:
        loader = LOADER(content.decode("utf-8"))
        node = loader.get_single_node()
    except UnicodeDecodeError as error:
        return f"is not UTF-8 text (byte {error.start}); save it as UTF-8"
    except RecursionError:
        return "is nested too deeply"
    except yaml.YAMLError as error:
        return f"is not valid YAML: {' '.join(str(error).split())}"
    if not isinstance(node, MappingNode):
        return "is empty" if node is None else "must hold keys at its top level, as in `seeds: [0]`"
    if _size(node, {}) > MOST_VALUES:
        return f"its aliases (*NAME) make more than {MOST_VALUES:,} values of it, or refer to themselves"
    return next(_repeated(node, set()), None) or _value_fault(loader, node)


def _value_fault(loader: yaml.SafeLoader, node: Node) -> str | None:
    """A value that is not one: an unknown tag, the 32nd of a month, a number of 5,000 digits."""
    try:
        loader.construct_document(node)
    except (yaml.YAMLError, ValueError) as error:
        return f"holds something that is not a value: {' '.join(str(error).split())}"
    return None


def _children(node: Node) -> list[Node]:
    if isinstance(node, MappingNode):
        return [each for pair in node.value for each in pair]
    return node.value if isinstance(node, SequenceNode) else []


def _size(node: Node, known: dict[int, float]) -> float:
    """How many values a node holds with all aliases written out; infinity where an alias repeats what it is part of."""
    if id(node) not in known:
        known[id(node)] = float("inf")  # until it is known
        known[id(node)] = 1 + sum(_size(child, known) for child in _children(node))
    return known[id(node)]


def _repeated(node: Node, seen: set[int]) -> Iterator[str]:
    """The keys that stand twice in one mapping, of which YAML would silently take the last."""
    if id(node) in seen:
        return
    seen.add(id(node))
    first: dict[str, int] = {}
    for key in [key for key, _ in node.value if isinstance(key, ScalarNode)] if isinstance(node, MappingNode) else []:
        line = key.start_mark.line + 1
        if key.value in first:
            yield f"the key {key.value!r} stands on line {first[key.value]} and again on line {line}"
        first[key.value] = line
    for child in _children(node):
        yield from _repeated(child, seen)
