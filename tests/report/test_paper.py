"""The paper's printed numbers beside ours, and whether they may be compared."""

import pandas as pd
import pytest
import yaml

from munkey.report import ablations, paper
from munkey.report.summary import Row
from tests.conftest import ROOT
from tests.report.inputs import cases

ROWS = [
    Row("original-m", "Original (M)", "retrain-m", context=True),
    Row("retrain-m", "Retrain (M)", None),
    Row("munkey", "MUNKEY", "retrain-m"),
]


def summary_of(dataset):
    return ablations.summarize_cases(cases(dataset, methods=("original-m", "retrain-m", "munkey")), ROWS)


def test_the_papers_own_numbers_stand_beside_ours():
    summary = summary_of("cifar10")
    both = paper.compare(summary.iloc[:0], summary)
    line = both[
        (both["table"] == "aggregation") & (both["case"] == "inference.fusion/rank") & (both["method"] == "munkey")
    ]
    line = line.set_index("metric").loc["TA"]
    printed = pd.read_csv(paper.PRINTED)
    wanted = printed[
        (printed["table"] == "aggregation")
        & (printed["dataset"] == "cifar10")
        & (printed["metric"] == "TA")
        & (printed["case"] == "inference.fusion/rank")
        & (printed["method"] == "munkey")
    ]["mean"].item()
    assert line["ours_mean"] == 64.5 and line["mean"] == wanted and line["difference"] == pytest.approx(64.5 - wanted)
    (table,) = paper.tables(both)
    assert len(table.frame) == len(both)


def test_a_data_set_that_is_not_in_the_paper_has_nothing_to_compare():
    both = paper.compare(summary_of("digits").iloc[:0], summary_of("digits"))
    assert both.empty and paper.tables(both) == []
    texts = paper.all_texts(both, ["digits: not comparable"])
    assert (
        texts["markdown"].startswith("- digits: not comparable\n\n") and texts["latex"] == "% digits: not comparable\n"
    )


def test_the_comparison_is_written_with_its_statements_and_signed_differences():
    summary = summary_of("cifar10")
    both = paper.compare(summary.iloc[:0], summary)
    texts = paper.all_texts(both, ["one", "two"])
    assert texts["csv"] == both.to_csv(index=False)
    assert texts["markdown"].startswith("- one\n- two\n\n| Table ")
    assert texts["latex"].startswith("% one\n% two\n% \n\\begin{tabular}{lllllllll}\n\\toprule\n")
    (table,) = paper.tables(both)
    assert table.frame["Difference"].str.match(r"[+-]\d+\.\d\d$").all()
    assert set(table.frame["System"]) >= {"inference.fusion/rank munkey", "inference.fusion/rank retrain-m"}
    assert (table.frame["Slip in the paper"] == both["slip"]).all()


def test_the_printed_numbers_are_the_papers():
    facts = ROOT.parent / "shared/paper/tables.csv"
    if not facts.exists():
        pytest.skip("the paper's tables are not at hand")
    original, ours = pd.read_csv(facts), paper.printed()
    assert len(original) == len(ours)
    for name in ("dataset", "mean", "std"):
        assert original[name].astype(str).tolist() == ours["sd" if name == "std" else name].astype(str).tolist()
    assert (ours["slip"] != "").sum() == 60


def test_a_run_in_another_setting_says_so():
    config = yaml.safe_load((ROOT / "params.yaml").read_text())
    assert paper.statement("digits", config, 3).endswith("compared with the paper's.")
    statement = paper.statement("cifar10", config, 1)
    assert "no reproduction" in statement
    assert "seeds is 1 (paper: 3)" in statement and "train.epochs is 40 (paper: 100)" in statement
    preset = yaml.safe_load((ROOT / "workflow/presets/paper.yaml").read_text())
    for name, section in preset.items():
        config[name] = {**config[name], **section} if isinstance(section, dict) else section
    assert "the paper's setting" in paper.statement("cifar10", config, 3)
    assert paper.statements({"digits": config, "cifar10": config}, 3) == [
        paper.statement("digits", config, 3),
        paper.statement("cifar10", config, 3),
    ]
