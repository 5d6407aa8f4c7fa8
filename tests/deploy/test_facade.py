"""A predictor is the only door to its memory."""

import ast
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src/munkey"


def stores_of_others(text: str) -> list[int]:
    """Lines that take `_store` from anything but `self`."""
    nodes = [
        node
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Attribute) and node.attr == "_store"
    ]
    return sorted(
        node.lineno
        for node in nodes
        if not (isinstance(node.value, ast.Name) and node.value.id == "self")
    )


def test_nobody_reaches_past_a_predictor_to_its_memory():
    assert stores_of_others("model._store.view\nself._store.view\nself.model._store") == [1, 3]
    assert {
        file.name: lines
        for file in SOURCE.rglob("*.py")
        if (lines := stores_of_others(file.read_text()))
    } == {}
