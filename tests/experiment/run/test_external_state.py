"""The state of what lies outside of the project is written for DVC, without loading what only a run needs."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from munkey.experiment.run.external_state import write_state
from tests.conftest import ROOT
from tests.experiment.inputs import small_config, small_plan


def written(tmp_path: Path, **changes: object) -> dict[str, object]:
    """The state for the small experiment with these changes."""
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(small_config(changes)))
    write_state(str(tmp_path / "state.json"), tmp_path / "params.yaml")
    return json.loads((tmp_path / "state.json").read_text())


def test_the_state_is_that_of_the_plan_and_the_same_again(tmp_path: Path):
    assert written(tmp_path) == small_plan().outside == written(tmp_path)


def test_parameters_that_are_not_valid_end_it_with_their_message(tmp_path: Path):
    with pytest.raises(SystemExit, match="unknown data set 'digit'"):
        written(tmp_path, datasets=["digit"])


def test_nothing_is_loaded_that_only_a_run_needs(tmp_path: Path):
    code = (
        "import sys\n"
        "from munkey.experiment.run.external_state import write_state\n"
        f"write_state({str(tmp_path / 'state.json')!r})\n"
        "print(*{'torch', 'timm', 'transformers', 'snakemake', 'pandas', 'dvc'} & set(sys.modules))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.split() == []
