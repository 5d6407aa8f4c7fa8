"""params.yaml has the form in which DVC writes it back: `dvc exp run -S` changes what it is told to, and no more."""

import difflib
import shutil

import pytest
from dvc.utils.hydra import apply_overrides

from tests.conftest import ROOT


@pytest.mark.parametrize(
    ("override", "before", "after"),
    [
        ("inference.k=8", ["  k: 4 "], ["  k: 8 "]),
        ("train.lr=0.002", ["  lr: 1.0e-3 "], ["  lr: 0.002 "]),
        ("keys.revision=abc", ["  revision: "], ["  revision: abc "]),
        ("seeds=[0,1]", ["- 2"], []),
        ("device=auto", [], []),
    ],
)
def test_a_changed_value_is_one_changed_line(override, before, after, tmp_path):
    path = tmp_path / "params.yaml"
    shutil.copy(ROOT / "params.yaml", path)
    apply_overrides(path, [override])
    old_lines = (ROOT / "params.yaml").read_text().splitlines()
    new_lines = path.read_text().splitlines()
    changes = list(difflib.ndiff(old_lines, new_lines))
    for sign, expected in (("- ", before), ("+ ", after)):
        lines = [line.removeprefix(sign) for line in changes if line.startswith(sign)]
        assert len(lines) == len(expected)
        for line, start in zip(lines, expected, strict=True):
            assert line.startswith(start)
