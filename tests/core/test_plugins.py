"""Plug-ins in other packages are found by their entry points; a broken one is refused by name, and the rest goes on."""

import importlib
import sys

import pytest

from munkey.core import plugins
from tests.plugins import ADD, PALETTE, forget, written


@pytest.fixture
def palette(tmp_path, monkeypatch):
    """A package with a registry and one entry, and a function that makes another package with plug-ins for it."""
    monkeypatch.syspath_prepend(tmp_path)
    written(tmp_path, PALETTE | {"palette/colors/green.py": ADD.format("green", 3)})

    def make(entries, modules, name="paint-shop"):
        lines = "\n".join(f"{entry} = {module}" for entry, module in entries.items())
        metadata = {
            "METADATA": f"Name: {name}\nVersion: 1.2\n",
            "entry_points.txt": f"[palette.colors]\n{lines}\n",
        }
        folder = f"{name.replace('-', '_')}-1.2.dist-info"
        written(tmp_path, modules | {f"{folder}/{file}": text for file, text in metadata.items()})
        importlib.invalidate_caches()
        plugins.installed_entry_points.cache_clear()
        return importlib.import_module("palette.registry").COLORS

    yield make
    plugins.installed_entry_points.cache_clear()
    forget("palette", "shop", "other")


def test_a_plug_in_is_an_entry_of_the_registry(palette):
    colors = palette({"red": "shop"}, {"shop.py": ADD.format("red", 1)})
    assert list(colors) == ["green", "red"]
    assert colors["red"] == 1
    assert len(colors) == 2
    assert "red" in colors
    assert colors.origins == {"red": "paint-shop 1.2"}
    assert colors.refusals == {}


def test_a_plug_in_is_imported_only_when_it_is_used(palette):
    colors = palette({"red": "shop"}, {"shop.py": ADD.format("red", 1)})
    assert colors["green"] == 3
    assert "green" in colors
    assert "shop" not in sys.modules
    assert "red" in colors
    assert "shop" in sys.modules


def test_one_module_may_register_several_entries(palette):
    text = ADD.format("red", 1) + ADD.format("blue", 2)
    colors = palette(
        {"red": "shop.all", "blue": "shop.all"}, {"shop/__init__.py": "", "shop/all.py": text}
    )
    assert list(colors) == ["blue", "green", "red"]
    assert colors.refusals == {}
    assert set(colors.origins) == {"red", "blue"}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("import nosuch", "shop.py, line 1: ModuleNotFoundError: No module named 'nosuch'"),
        ("def broken(:", ": SyntaxError: invalid syntax (shop.py, line 1)"),
        (f"{ADD.format('red', 1)}1 / 0", "shop.py, line 3: ZeroDivisionError: division by zero"),
        (ADD.format("pink", 1), ": shop registers no color of this name"),
        ("import json\n\njson.loads('')", "shop.py, line 3: JSONDecodeError"),
    ],
    ids=["import", "syntax", "after it was registered", "another name", "in a library"],
)
def test_a_broken_plug_in_is_refused_by_name_and_the_others_work(palette, text, why):
    palette({"amber": "other"}, {"other.py": ADD.format("amber", 4)}, name="other-shop")
    colors = palette({"red": "shop"}, {"shop.py": text})
    assert colors.values() == [4, 3]
    assert list(colors.refusals) == ["red"]
    assert colors.refusals["red"].startswith("red of paint-shop 1.2")
    assert why in colors.refusals["red"]
    with pytest.raises(KeyError, match=r"'red'.* amber, green; .*paint-shop"):
        colors["red"]


def test_a_missing_module_is_named(palette):
    colors = palette({"red": "shop"}, {})
    assert list(colors.refusals) == ["red"]
    assert "paint-shop 1.2: ModuleNotFoundError" in colors.refusals["red"]


def test_the_first_of_two_plug_ins_with_one_name_stays(palette):
    palette({"red": "other"}, {"other.py": ADD.format("red", 4)}, name="other-shop")
    colors = palette(
        {"red": "shop", "green": "shop_green"},
        {"shop.py": ADD.format("red", 1), "shop_green.py": ADD.format("green", 5)},
    )
    assert colors.values() == [3, 4]
    assert set(colors.refusals) == {"green of paint-shop 1.2", "red of paint-shop 1.2"}
    for why in colors.refusals.values():
        assert "registered twice" in why


def test_entries_of_a_broken_plug_in_are_removed(palette):
    text = ADD.format("red", 1) + ADD.format("blue", 2) + "1 / 0"
    colors = palette({"red": "shop", "blue": "shop"}, {"shop.py": text})
    assert list(colors) == ["green"]
    for name in ("red", "blue"):
        assert "ZeroDivisionError" in colors.refusals[name]
