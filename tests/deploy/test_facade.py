"""A predictor is the only door to its memory."""

import ast
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src/munkey"


PRIVATE = {"_file", "_database"}  # the memory of a predictor, and the database of a memory


def memories_of_others(text: str) -> list[int]:
    """Lines that take one of PRIVATE from anything but `self`."""
    lines = []
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Attribute) or node.attr not in PRIVATE:
            continue
        if not (isinstance(node.value, ast.Name) and node.value.id == "self"):
            lines.append(node.lineno)
    return sorted(lines)


def test_no_module_uses_the_private_memory_of_a_predictor():
    assert memories_of_others("model._file.head\nself._file.head\nself.model._file") == [1, 3]
    reached = {}
    for file in SOURCE.rglob("*.py"):
        lines = memories_of_others(file.read_text())
        if lines:
            reached[file.name] = lines
    assert reached == {}
