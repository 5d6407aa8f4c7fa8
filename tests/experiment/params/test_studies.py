"""Studies are found in their folder, those that others need first, and share no folder of results."""

import pytest

from munkey.experiment.params import studies
from munkey.experiment.params.load import ParamsError, load


def test_a_study_follows_those_that_it_needs():
    names = list(studies.load_studies())
    for name, study in studies.load_studies().items():
        for needed in study.needs:
            assert names.index(needed) < names.index(name)


def test_a_study_that_lacks_another_that_it_needs_is_refused(monkeypatch):
    declared = studies.load_studies()
    names = [folder for folder in declared if folder != "audits"]
    monkeypatch.setattr(
        studies.pkgutil,
        "iter_modules",
        lambda path: [type("Folder", (), {"name": name}) for name in names],
    )
    with pytest.raises(ImportError, match="needs audits, "):
        studies.load_studies.__wrapped__()


def test_two_cases_in_one_folder_are_refused(config):
    ablations = {"scenario": [{"inference.k": "hard"}]}
    scenarios = {"hard": {"sampling": "hard"}}
    with pytest.raises(ParamsError, match=r"folder scenario/hard, .* ablations"):
        load(config | {"ablations": ablations, "scenarios": scenarios})
