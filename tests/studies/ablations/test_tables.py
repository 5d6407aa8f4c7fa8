"""Tables of the ablations: each case against the oracle of its own kind."""

import pandas as pd
import pytest

from munkey.core.files import write_text
from munkey.report.tables.markup import render, render_or_note
from munkey.report.tables.summary import Row, read_cases, read_metrics
from munkey.studies.ablations import tables as ablations
from tests.report.inputs import CASE_ROWS, CASES, cases


def summary_of(*datasets, gaps=CASES):
    return ablations.summarize_cases(pd.concat([cases(name, gaps) for name in datasets]), CASE_ROWS)


def test_each_case_is_compared_with_the_oracle_of_its_own_kind():
    summary = summary_of("digits")
    gaps = summary[summary["method"] == "after"].set_index("case")["gap_mean"]
    assert gaps.to_dict() == pytest.approx(CASES)
    # in the order of params
    assert summary["case"].unique().tolist() == list(CASES)
    assert list(CASES) != sorted(CASES)
    knobs = {"inference.fusion", "inference.k", "munkey.architecture", "aggregation"}
    assert set(summary["knob"]) == knobs
    assert set(summary["value"]) == {"ensemble", "rank", "8", "direct-key"}


def test_the_lowest_gap_of_a_knob_is_bold_if_it_differs():
    far = CASES | {"inference.fusion/rank": 2.2, "aggregation/rank": 9.0}
    summary = summary_of("digits", gaps=far)
    ((title, frame, _),) = ablations.make_knob_tables(summary, CASE_ROWS, "markdown")
    assert "n = 2 seeds" in title
    assert "10%" in title
    bold = frame[frame["Avg Gap"].str.startswith("**")]
    # nothing else, nor one alone
    assert bold[["Knob", "Value"]].to_numpy().tolist() == [["aggregation", "ensemble"]]


def test_the_layouts_of_the_paper_name_its_strategies():
    summary = summary_of("digits", "other")
    ((_, short, _),) = ablations.make_strategy_tables(summary, CASE_ROWS, "latex")
    assert short["Strategy"].tolist() == ["Direct Key", "Ensemble", "Rank"]
    assert list(short.columns) == [
        *("Strategy", "P_s, digits", "Avg Gap, digits", "P_s, other", "Avg Gap, other")
    ]
    tables = list(ablations.TABLES["aggregation"](summary, CASE_ROWS, "latex"))
    assert len(tables) == 2
    assert tables[0].frame["Category"].tolist() == ["Retrained"] * 3 + ["After"] * 3
    assert tables[0].frame["Model variant"].tolist() == ["Direct Key", "Ensemble", "Rank"] * 2
    assert tables[0].frame["Avg Gap"].tolist()[:3] == ["–"] * 3
    assert [gap[:5] for gap in tables[0].frame["Avg Gap"][3:]] == ["$8.00", r"\bold", "$5.00"]
    text = render(tables, "latex")
    assert r"\toprule" in text
    assert "%" not in text.split("toprule")[1].split("bottom")[0]


def test_the_layouts_of_the_paper_show_fusions_with_a_model_each_and_of_one_model():
    variants = {
        "aggregation": {"Direct Key": 8.0, "Ensemble": 3.0, "Rank": 5.0},
        "fusion": {"Ensemble": 2.0, "Rank": 4.0},
    }
    for name, gaps in variants.items():
        ((_, frame, _),) = ablations.TABLES[name](summary_of("digits"), CASE_ROWS, "markdown")
        after = frame[frame["Category"] == "After"].set_index("Model variant")["Avg Gap"]
        numbers = after.str.extract(r"(\d\.\d\d)", expand=False).astype(float)
        assert numbers.to_dict() == gaps


def test_the_short_table_marks_gaps_but_not_sensitivities():
    ((_, short, _),) = ablations.make_strategy_tables(summary_of("digits"), CASE_ROWS, "markdown")
    assert short["P_s, digits"].tolist() == ["0.150 ± 0.071"] * 3
    marks = short["Avg Gap, digits"].tolist()
    assert [gap[:2] for gap in marks] == ["8.", "**", "5."]


def test_a_strategy_of_one_data_set_has_a_dash_in_the_column_of_the_other():
    parts = [summary_of("digits"), summary_of("cifar10", gaps={"aggregation/rank": 5.0})]
    summary = pd.concat(parts, ignore_index=True)
    ((_, short, _),) = ablations.make_strategy_tables(summary, CASE_ROWS, "markdown")
    short = short.set_index("Strategy")
    for column in ("P_s, cifar10", "Avg Gap, cifar10"):
        assert short.loc["Direct Key", column] == "–"
        assert short.loc["Rank", column] != "–"


def test_the_table_of_encoders_has_oracles_first():
    gaps = {"keys.encoder/resnet18": 5.0, "keys/vit-b16_224": 1.0, "inference.k/8": 0.5}
    summary = summary_of("digits", gaps=gaps)
    ((_, frame, _),) = ablations.make_encoder_tables(summary, CASE_ROWS, "markdown")
    models = [
        "Retrained (resnet18)",
        "Retrained (vit-b16_224)",
        "Key encoder resnet18",
        "Key encoder vit-b16_224",
    ]
    assert frame["Model"].tolist() == models
    assert list(frame.columns) == ["Model", "TA", "RA", "FA", "MIA", "Avg Gap"]
    assert [gap[:3] for gap in frame["Avg Gap"]] == ["–", "–", "5.0", "**1"]


def test_the_tables_take_their_systems_from_the_rows():
    rows = [Row("original-x", "Original (X)", "retrain-x", context=True), Row("retrain-x", "Retrain (X)", None),
            Row("x", "X", "retrain-x")]  # fmt: skip
    other = cases(methods=("original-x", "retrain-x", "x"))
    summary = ablations.summarize_cases(other, rows)
    for name, table in ablations.TABLES.items():
        usual = render(list(table(summary_of("digits"), CASE_ROWS, "html")), "html")
        renamed = render(list(table(summary, rows, "html")), "html")
        assert renamed.replace("<td>X</td>", "<td>After</td>") == usual, name


def test_without_ablations_every_table_is_empty_and_has_a_note(tmp_path):
    summary = ablations.summarize_cases(read_metrics([]), CASE_ROWS)
    summary.to_csv(tmp_path / "ablations.csv", index=False)
    for empty in (summary, pd.read_csv(tmp_path / "ablations.csv")):
        for table in ablations.TABLES.values():
            assert list(table(empty, CASE_ROWS, "markdown")) == []
    assert "None" in render_or_note([], "markdown")


def test_values_that_are_all_numbers_keep_their_names(tmp_path):
    summary = summary_of("cifar10", gaps={"inference.k/8": 1.0, "munkey.token_dim/32": 2.0})
    write_text(tmp_path / "ablations.csv", summary.to_csv(index=False))
    restored = read_cases(tmp_path / "ablations.csv")
    (table,) = ablations.make_knob_tables(restored, CASE_ROWS, "markdown")
    assert table.frame["Value"].tolist() == ["8", "32"]
