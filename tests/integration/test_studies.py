"""Without any study, and on one core instead of two, the main run makes the same numbers."""

from pathlib import Path

import pandas as pd
import pytest
import yaml

from munkey.experiment.params.studies import load_studies
from tests.integration.conftest import Project
from tests.integration.test_snakemake import SYSTEMS
from tests.studies.test_removal import remove

pytestmark = pytest.mark.ci


def untimed(file: Path) -> pd.DataFrame:
    """A table without seconds, the only numbers that two runs do not share."""
    table = pd.read_csv(file)
    if "metric" in table:
        table = table[~table["metric"].str.endswith("_s")].reset_index(drop=True)
    return table.loc[:, ~table.columns.str.contains(r"_s_(?:mean|sd)$|^seconds$")]


@pytest.fixture(scope="module")
def remade(fresh: Project, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The tiny grid without studies, made on one core."""
    project = fresh.copy(tmp_path_factory.mktemp("remade") / "project")
    params = yaml.safe_load((project.path / "params.yaml").read_text())
    for name in load_studies():
        remove(name, project.path, params)
    (project.path / "params.yaml").write_text(yaml.safe_dump(params, sort_keys=False))
    project.snakemake(cores=1)
    return project


def test_without_studies_the_tables_of_a_run_are_the_same(
    finished: Project, remade: Project
) -> None:
    files = sorted((finished.path / "results").rglob("*.csv"))
    assert len(files) >= 5
    for file in files:
        other = remade.path / file.relative_to(finished.path)
        assert other.read_bytes() == file.read_bytes() or untimed(other).equals(untimed(file)), file


def test_the_logits_do_not_depend_on_studies_or_the_number_of_cores(
    finished: Project, remade: Project
) -> None:
    files = list((finished.path / "results/default/logits").rglob("*.npz"))
    assert len(files) == len(SYSTEMS)
    for file in files:
        assert file.read_bytes() == (remade.path / file.relative_to(finished.path)).read_bytes()
