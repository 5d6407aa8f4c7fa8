"""A registry refuses what is twice and what is unknown; the projects' own ones are complete."""

import pytest
import yaml

from munkey.data import DATASETS
from munkey.encoders import ENCODERS
from munkey.registry import Registry, import_all
from munkey.unlearn import METHODS, Settings, method
from tests.conftest import ROOT


@pytest.fixture
def colours():
    registry = Registry("colour")
    registry.add("red", 1)
    registry.add("blue", 2)
    return registry


def test_an_entry_is_found_by_its_name(colours):
    assert colours["red"] == 1
    assert "red" in colours
    assert "green" not in colours
    assert list(colours) == ["blue", "red"]
    assert len(colours) == 2


def test_a_name_can_be_registered_once_only(colours):
    with pytest.raises(ValueError, match="colour 'red' is registered twice"):
        colours.add("red", 3)
    assert colours["red"] == 1


def test_an_unknown_name_is_answered_with_the_known_ones(colours):
    with pytest.raises(KeyError, match="unknown colour 'green'; there are: blue, red"):
        colours["green"]


def test_one_new_file_in_a_package_is_enough_to_add_an_entry(tmp_path, monkeypatch):
    package = tmp_path / "palette"
    package.mkdir()
    (package / "__init__.py").write_text(
        "from munkey.registry import Registry, import_all\n"
        "COLOURS = Registry('colour')\n"
        "import_all(__name__, __path__)\n"
    )
    (package / "green.py").write_text("from palette import COLOURS\nCOLOURS.add('green', 3)\n")
    monkeypatch.syspath_prepend(tmp_path)
    import palette

    assert palette.COLOURS["green"] == 3
    import_all("palette", palette.__path__)  # a second time changes nothing


@pytest.mark.parametrize("registry", [DATASETS, ENCODERS, METHODS], ids=lambda registry: registry.kind)
def test_every_entry_knows_its_own_name_and_describes_itself_in_a_line(registry):
    assert len(registry) > 0
    for name in registry:
        assert registry[name].name == name
        assert registry[name].description
        assert "\n" not in registry[name].description


@pytest.mark.parametrize("name", METHODS)
def test_every_method_has_settings_without_defaults_and_a_section_in_the_parameters(name):
    fields = METHODS[name].settings.model_fields
    assert all(field.is_required() for field in fields.values())
    section = yaml.safe_load((ROOT / "params.yaml").read_text())["unlearn"][name]
    assert set(section) == set(fields)


@pytest.mark.parametrize("name", METHODS)
def test_a_method_is_compared_with_the_oracle_of_its_own_architecture(name):
    expected = {"vit": {"retrain-t"}, "munkey": {"retrain-m"}, "keys": {None}, "sisa": {"retrain-s"}}
    assert METHODS[name].oracle in expected[METHODS[name].base]


def test_a_method_cannot_take_the_name_of_another():
    with pytest.raises(ValueError, match="'cf' is registered twice"):
        method("cf", title="", description="", citation="", base="vit", oracle=None, settings=Settings)(lambda *_: None)
