"""A registry refuses a name that is taken and one that is unknown; those of the project are complete."""

import importlib

import pytest

from munkey.core.registry import Registry
from munkey.data.registry import DATASETS
from munkey.encoders.registry import ENCODERS
from munkey.models.family import FAMILIES
from munkey.unlearn.contract import METHODS
from tests.plugins import ADD, PALETTE, forget, written


@pytest.fixture
def colors():
    registry = Registry("color")
    registry.add("red", 1)
    registry.add("blue", 2)
    return registry


def test_an_entry_is_found_by_its_name(colors):
    assert colors["red"] == 1
    assert "red" in colors
    assert "green" not in colors
    assert list(colors) == ["blue", "red"]
    assert colors.values() == [2, 1]
    assert len(colors) == 2


def test_a_name_can_be_registered_only_once(colors):
    with pytest.raises(ValueError, match="'red' is registered twice"):
        colors.add("red", 3)
    assert colors["red"] == 1


def test_an_unknown_name_raises_and_lists_the_known_ones(colors):
    with pytest.raises(KeyError, match=r"'green'.* blue, red"):
        colors["green"]


@pytest.fixture
def palette(tmp_path, monkeypatch):
    """A registry whose package has two entries."""
    entries = {
        "palette/colors/green.py": ADD.format("green", 3),
        "palette/colors/amber.py": ADD.format("amber", 4),
    }
    monkeypatch.syspath_prepend(written(tmp_path, PALETTE | entries))
    yield importlib.import_module("palette.registry")
    forget("palette")


@pytest.mark.parametrize(
    ("ask", "answer"),
    [
        (lambda registry: registry["green"], 3),
        (list, ["amber", "green"]),
        (len, 2),
        (lambda registry: "amber" in registry, True),
        (lambda registry: registry.values(), [4, 3]),
    ],
    ids=["entry", "names", "number", "membership", "values"],
)
def test_one_new_file_in_its_package_is_enough_to_add_an_entry(palette, ask, answer):
    assert ask(palette.COLORS) == answer
    assert ask(palette.COLORS) == answer  # a second time, nothing is imported again


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("def broken(:", "SyntaxError: invalid syntax (dark_red.py, line 1)"),
        ("\nimport nosuch", ", line 2: ModuleNotFoundError: No module named 'nosuch'"),
        ("from palette.registry import COLORS\nCOLORS.add('dark-red')", ", line 2: TypeError: "),
        (
            "from palette.registry import COLORS\nCOLORS.add(COLORS, 1)",
            ", line 2: ValueError: color",
        ),
        (
            "from palette.registry import COLORS\nCOLORS.add('amber', 1)",
            "ValueError: color 'amber' is registered twice",
        ),
        (
            "from palette.registry import COLORS\nCOLORS.add('dark-red', 1)\n1 / 0",
            ", line 3: ZeroDivisionError",
        ),
        ("import sys\n\nsys.exit(0)", ", line 3: SystemExit: 0"),
    ],
    ids=[
        "syntax",
        "import",
        "arguments",
        "type of the name",
        "duplicate",
        "after it was registered",
        "sys.exit",
    ],
)
def test_a_broken_file_is_refused_by_name_and_the_others_work(palette, tmp_path, text, why):
    (tmp_path / "palette/colors/dark_red.py").write_text(text)
    assert palette.COLORS.values() == [4, 3]
    (refusal,) = palette.COLORS.refusals.values()
    assert list(palette.COLORS.refusals) == ["dark-red"]
    assert "palette/colors/dark_red.py" in refusal
    assert why in refusal
    with pytest.raises(KeyError, match=r"'dark-red'.* amber, green; refused: .*dark_red\.py"):
        palette.COLORS["dark-red"]


def test_a_file_without_a_decorator_is_named(palette, tmp_path):
    (tmp_path / "palette/colors/dark_red.py").write_text("def dark_red():\n    return 5\n")
    with pytest.raises(KeyError, match=r"colors/dark_red\.py .*decorator is missing"):
        palette.COLORS["dark-red"]


@pytest.mark.parametrize(
    "registry", [DATASETS, ENCODERS, FAMILIES, METHODS], ids=lambda registry: registry.kind
)
def test_no_file_of_the_project_is_refused(registry):
    assert registry.refusals == {}


def test_a_module_of_the_package_can_be_imported_before_the_registry_is_used(palette):
    importlib.import_module("palette.colors.green")
    assert palette.COLORS["amber"] == 4


@pytest.mark.parametrize(
    "registry", [DATASETS, ENCODERS, FAMILIES, METHODS], ids=lambda registry: registry.kind
)
def test_every_entry_knows_its_own_name(registry):
    assert len(registry) > 0
    assert [entry.name for entry in registry.values()] == list(registry)


@pytest.mark.parametrize(
    "registry", [DATASETS, ENCODERS, METHODS], ids=lambda registry: registry.kind
)
def test_every_entry_has_a_description_of_one_line(registry):
    for entry in registry.values():
        assert entry.description
        assert "\n" not in entry.description


@pytest.mark.parametrize("name", ["cifar10.1", "cf+", "two words", "a/b", ""])
def test_a_name_that_cannot_be_part_of_a_path_is_refused(colors, name):
    with pytest.raises(ValueError, match="letters, digits, - and _"):
        colors.add(name, 1)


@pytest.mark.parametrize(
    ("registry", "name", "close"),
    [
        (METHODS, "scurb", "scrub"),
        (METHODS, "SCRUB", "scrub"),
        (DATASETS, "cifar-10", "cifar10"),
        (ENCODERS, "dino2", "dinov2"),
    ],
)
def test_the_message_for_an_unknown_name_suggests_the_most_similar_one(registry, name, close):
    message = registry.unknown_message(name)
    assert f"unknown {registry.kind} {name!r}" in message
    assert f"did you mean {close!r}" in message
