"""The schema that editors check params.yaml with is the typed model's, and fits the project's files."""

import json

import jsonschema
import pytest
import yaml

from tests.conftest import ROOT, changed
from tools.params_schema import FILE, schema

FILES = [ROOT / "params.yaml", *sorted((ROOT / "workflow/presets").glob("*.yaml"))]
KEPT = json.loads((ROOT / FILE).read_text())


def test_the_kept_schema_is_the_models():
    assert (ROOT / FILE).read_text() == schema(), "write it anew: python -m tools.params_schema"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_projects_files_fit_it_and_name_it_to_editors(path):
    text = path.read_text()
    first = text.splitlines()[0].removeprefix("# yaml-language-server: $schema=")
    assert (path.parent / first).resolve() == ROOT / FILE
    jsonschema.validate(yaml.safe_load(text), KEPT)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("trian", {}),
        ("train.epochs", "ten"),
        ("munkey.p_token", 1.1),
        ("unlearn.scrub.gama", 1.0),
        ("overrides.digits.train.lrr", 0.1),
        ("overrides.digits.seeds", [1]),
    ],
)
def test_what_the_model_refuses_does_not_fit(config, key, value):
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(changed(config, key, value), KEPT)
