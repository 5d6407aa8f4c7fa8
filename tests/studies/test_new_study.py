"""The study of docs/extending.md is added where it says, and nowhere else, and has its result."""

import re
from pathlib import Path

import pandas as pd
import pytest
import yaml

from tests.integration.conftest import Project, checkout
from tests.pages import blocks

pytestmark = pytest.mark.ci


@pytest.fixture(scope="module")
def extended(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project with the study, after its run."""
    project = checkout(tmp_path_factory.mktemp("extended") / "project")
    # Each block but the one of params.yaml is a file, which its first line names.
    for text in blocks("extending", r"(?:python)?", "A study"):
        name = re.match(r"# (\S+): ", text)
        if name:
            file = project.path / name[1]
            file.parent.mkdir(exist_ok=True)
            file.write_text(text)
    (project.path / "src/munkey/studies/rounding/__init__.py").touch()
    section = yaml.safe_load(blocks("extending", "yaml", "A study")[0])
    project.params(section | {"source": {"limit_per_class": 30}, "keys": {"image_size": 32}})
    project.snakemake("--", "rounding")
    return project


def test_a_study_is_a_folder_a_file_of_rules_and_a_section(
    extended: Project, tmp_path: Path
) -> None:
    rounded = pd.read_csv(extended.path / "results/default/rounding/digits.csv")
    assert rounded["bits"].tolist() == [8]
    assert 50 < rounded["TA"].iloc[0] <= 100
    project = extended.copy(tmp_path / "project")
    project.params({"rounding": {"bits": 20}})
    refused = project.snakemake("-n", "--", "rounding", check=False)
    assert "rounding.bits = 20: " in refused.stdout + refused.stderr


def test_an_edit_of_a_study_runs_its_own_jobs_again_and_no_others(
    extended: Project, tmp_path: Path
) -> None:
    project = extended.copy(tmp_path / "project")
    jobs = project.path / "src/munkey/studies/rounding/jobs.py"
    jobs.write_text(jobs.read_text().replace("100 * is_correct", "100.0 * is_correct"))
    assert project.planned("--", "rounding") == {"round_keys": 1, "rounding": 1}
