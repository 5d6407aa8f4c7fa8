"""Tables of the ablations: each case against the oracle of its own kind."""

import re

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
    assert summary["case"].unique().tolist() == list(CASES) != sorted(CASES)
    assert set(summary["knob"]) == {
        "inference.fusion",
        "inference.k",
        "munkey.architecture",
        "aggregation",
    }
    assert set(summary["value"]) == {"ensemble", "rank", "8", "direct-key"}


def test_of_each_knob_the_lowest_gap_is_bold_where_it_is_told_apart():
    far = CASES | {"inference.fusion/rank": 2.2, "aggregation/rank": 9.0}
    ((title, frame, _),) = ablations.make_knob_tables(
        summary_of("digits", gaps=far), CASE_ROWS, "markdown"
    )
    assert "n = 2 seeds" in title and "10%" in title
    bold = frame[frame["Avg Gap"].str.startswith("**")]
    # nothing else, nor one alone
    assert bold[["Knob", "Value"]].to_numpy().tolist() == [["aggregation", "ensemble"]]


def test_the_papers_layouts_name_its_strategies():
    summary = summary_of("digits", "other")
    ((_, short, _),) = ablations.make_strategy_tables(summary, CASE_ROWS, "latex")
    assert short["Strategy"].tolist() == ["Direct Key", "Ensemble", "Rank"]
    assert list(short.columns) == [
        "Strategy",
        "P_s, digits",
        "Avg Gap, digits",
        "P_s, other",
        "Avg Gap, other",
    ]
    tables = list(ablations.TABLES["aggregation"](summary, CASE_ROWS, "latex"))
    assert len(tables) == 2
    assert tables[0].frame["Category"].tolist() == ["Retrained"] * 3 + ["After"] * 3
    assert tables[0].frame["Model variant"].tolist() == ["Direct Key", "Ensemble", "Rank"] * 2
    assert tables[0].frame["Avg Gap"].tolist()[:3] == ["–"] * 3
    assert [gap[:5] for gap in tables[0].frame["Avg Gap"][3:]] == ["$8.00", r"\bold", "$5.00"]
    text = render(tables, "latex")
    assert r"\toprule" in text and "%" not in text.split("toprule")[1].split("bottom")[0]


def test_the_papers_layouts_show_fusions_that_were_trained_apart_and_those_of_one_model_stand_beside_them():
    shown = {}
    for name in ("aggregation", "fusion"):
        ((_, frame, _),) = ablations.TABLES[name](summary_of("digits"), CASE_ROWS, "markdown")
        after = frame[frame["Category"] == "After"].set_index("Model variant")["Avg Gap"]
        shown[name] = {
            variant: float(re.search(r"\d\.\d\d", gap)[0]) for variant, gap in after.items()
        }
    assert shown["aggregation"] == {"Direct Key": 8.0, "Ensemble": 3.0, "Rank": 5.0}
    assert shown["fusion"] == {"Ensemble": 2.0, "Rank": 4.0}


def test_the_short_table_marks_gaps_but_not_sensitivities():
    ((_, short, _),) = ablations.make_strategy_tables(summary_of("digits"), CASE_ROWS, "markdown")
    assert short["P_s, digits"].tolist() == ["0.150 ± 0.071"] * 3
    marks = short["Avg Gap, digits"].tolist()
    assert [gap[:2] for gap in marks] == ["8.", "**", "5."]


def test_a_strategy_that_only_one_data_set_has_leaves_a_gap_in_the_others_column():
    parts = [summary_of("digits"), summary_of("cifar10", gaps={"aggregation/rank": 5.0})]
    ((_, short, _),) = ablations.make_strategy_tables(
        pd.concat(parts, ignore_index=True), CASE_ROWS, "markdown"
    )
    short = short.set_index("Strategy")
    for column in ("P_s, cifar10", "Avg Gap, cifar10"):
        assert short.loc["Direct Key", column] == "–" != short.loc["Rank", column]


def test_encoders_stand_with_their_oracles_first():
    gaps = {"keys.encoder/resnet18": 5.0, "keys/vit-b16_224": 1.0, "inference.k/8": 0.5}
    ((_, frame, _),) = ablations.make_encoder_tables(
        summary_of("digits", gaps=gaps), CASE_ROWS, "markdown"
    )
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
        ours = list(table(summary_of("digits"), CASE_ROWS, "html"))
        theirs = list(table(summary, rows, "html"))
        assert render(theirs, "html").replace("<td>X</td>", "<td>After</td>") == render(
            ours, "html"
        ), name


def test_where_all_are_switched_off_every_table_says_so(tmp_path):
    summary = ablations.summarize_cases(read_metrics([]), CASE_ROWS)
    summary.to_csv(tmp_path / "ablations.csv", index=False)
    for empty in (summary, pd.read_csv(tmp_path / "ablations.csv")):
        assert [
            list(table(empty, CASE_ROWS, "markdown")) for table in ablations.TABLES.values()
        ] == [[]] * 5
    assert render_or_note([], "markdown") == "None of this was run.\n"


def test_values_that_are_all_numbers_are_read_back_as_they_are_named(tmp_path):
    summary = summary_of("cifar10", gaps={"inference.k/8": 1.0, "munkey.token_dim/32": 2.0})
    write_text(tmp_path / "ablations.csv", summary.to_csv(index=False))
    read = read_cases(tmp_path / "ablations.csv")
    (table,) = ablations.make_knob_tables(read, CASE_ROWS, "markdown")
    assert table.frame["Value"].tolist() == ["8", "32"]
