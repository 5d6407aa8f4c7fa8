"""After the paper's experiment: ours and the paper's side by side, how many agree, and whether it is a reproduction."""

import pandas as pd

from munkey.cli import compare_paper
from munkey.core.files import write_text
from munkey.report.tables import paper
from tests.conftest import ROOT

PAPER = [str(ROOT / "workflow/presets/paper.yaml")]


def compared() -> pd.DataFrame:
    """The paper's own numbers of one table as if they were ours, one of them far off."""
    printed = paper.printed()
    ours = printed[(printed["table"] == "main") & (printed["dataset"] == "cifar10") & (printed["rate"] == 0.1)]
    wide = ours.pivot(index="method", columns="metric", values="mean").add_suffix("_mean")
    wide.loc["munkey", "TA_mean"] += 50
    wide = wide.assign(**{name.replace("_mean", "_sd"): 0.1 for name in wide})
    return paper.compare(wide.reset_index().assign(dataset="cifar10", rate=0.1))


def test_both_stand_side_by_side_and_are_counted(tmp_path, monkeypatch, capsys):
    (tmp_path / "params.yaml").write_text((ROOT / "params.yaml").read_text())
    monkeypatch.chdir(tmp_path)
    write_text("results/paper/tables/paper.csv", compared().to_csv(index=False))
    assert compare_paper.main(PAPER) is None
    said = capsys.readouterr().out
    assert said.startswith("### main, cifar10, 10 %: ours (the paper's)\n")
    (munkey,) = [line for line in said.splitlines() if line.startswith("| munkey ")]
    assert "✗" in munkey and munkey.count("✓") == 4
    (line,) = [line for line in said.splitlines() if line.startswith("| main ") and "| 10 % " in line]
    assert line.replace(" ", "").endswith("|62|62|61|98%|")
    assert "about 65 % of our numbers would lie within the paper's ± (ours: n = 3, the paper's: n = 3)" in said
    assert "cifar10: the paper's setting, as far as the paper states it" in said


def test_before_the_run_it_says_what_makes_the_table(tmp_path, monkeypatch):
    (tmp_path / "params.yaml").write_text((ROOT / "params.yaml").read_text())
    monkeypatch.chdir(tmp_path)
    missing = compare_paper.main(PAPER)
    assert missing is not None and missing.startswith("results/paper/tables/paper.csv is missing: `make paper`")
