"""Without any study, the main run makes the same numbers."""

from pathlib import Path

import pandas as pd
import pytest
import yaml

from munkey.experiment.params.studies import load_studies
from tests.integration.conftest import Project
from tests.studies.test_removal import remove

pytestmark = pytest.mark.ci


def untimed(file: Path) -> pd.DataFrame:
    """A table without seconds, the only numbers that two runs do not share."""
    table = pd.read_csv(file)
    if "metric" in table:
        table = table[~table["metric"].str.endswith("_s")].reset_index(drop=True)
    return table.loc[:, ~table.columns.str.contains(r"_s_(?:mean|sd)$|^seconds$")]


def test_without_studies_the_tables_of_a_run_are_the_same_bytes(
    fresh: Project, finished: Project, tmp_path: Path
) -> None:
    project = fresh.copy(tmp_path / "project")
    params = yaml.safe_load((project.path / "params.yaml").read_text())
    for name in load_studies():
        remove(name, project.path, params)
    (project.path / "params.yaml").write_text(yaml.safe_dump(params, sort_keys=False))
    project.snakemake()
    files = sorted((finished.path / "results").rglob("*.csv"))
    assert len(files) >= 5
    for file in files:
        remade = project.path / file.relative_to(finished.path)
        assert remade.read_bytes() == file.read_bytes() or untimed(remade).equals(untimed(file)), (
            file
        )
