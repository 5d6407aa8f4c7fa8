"""Tables of scenarios: ToW by hand, and the columns of classes that are forgotten whole."""

import pandas as pd
import pytest

from munkey.report.tables.summary import Row
from munkey.studies.scenarios.figure import scenarios_plot
from munkey.studies.scenarios.tables import make_scenario_tables, summarize_scenarios
from tests.report.inputs import extra

ROWS = [
    Row("original-m", "Original (M)", "retrain-m", context=True),
    Row("retrain-m", "Retrain (M)", None),
    Row("munkey", "MUNKEY", "retrain-m"),
    Row("munkey-off", "MUNKEY, output off", "retrain-m"),
]
ORACLE = {"FM": 40.0, "TA": 80.0, "RA": 90.0, "FA": 0.0, "MIA": 50.0, "train_s": 6.0}


MUNKEY = ("scenario/class", "munkey")


def tidy() -> pd.DataFrame:
    """Metrics after a class and after hard samples, two seeds each."""
    systems = {
        "original-m": ORACLE | {"TA": 90.0, "FA": 100.0, "FM": 60.0},
        "retrain-m": ORACLE,
        "munkey": ORACLE | {"TA": 90.0, "RA": 95.0, "FA": 20.0, "FM": 45.0, "unlearn_s": 0.007},
    }
    whole_class = {"FTA": 5.0, "RTA": 95.0, "forgotten": 99.0}
    parts = []
    for seed in (0, 1):
        for method, metrics in (systems | {"munkey-off": ORACLE}).items():
            lines = [(seed, method, *metric) for metric in (metrics | whole_class).items()]
            parts.append(extra(lines, rate=0.0).assign(case="scenario/class"))
        for method, metrics in systems.items():
            lines = [(seed, method, *metric) for metric in (metrics | {"forgotten": 108.0}).items()]
            parts.append(extra(lines).assign(case="scenario/hard"))
    return pd.concat(parts, ignore_index=True)


def test_tow_is_the_product_of_the_similarities_to_the_oracle():
    summary = summarize_scenarios(tidy(), ROWS).set_index(["case", "method"])
    assert summary.loc[MUNKEY, "ToW"] == pytest.approx(0.9 * 0.95 * 0.8)
    assert summary.loc[("scenario/class", "munkey-off"), "ToW"] == 1
    assert pd.isna(summary.loc[("scenario/class", "retrain-m"), "ToW"])
    assert summary.loc[MUNKEY, "ToW_sd"] == pytest.approx(0)


def test_each_scenario_has_a_table_with_its_request_and_its_columns():
    requests = {"scenario/class": "class 3", "scenario/hard": "hard"}
    summary = summarize_scenarios(tidy(), ROWS)
    of_class, hard = make_scenario_tables(summary, ROWS, requests, "markdown")
    assert of_class.title.startswith("digits, class: class 3, 99 samples;")
    assert hard.title.startswith("digits, hard: hard, 10%, 108 samples")
    assert of_class.frame.columns.tolist() == [
        *("Method", "TA", "RTA", "FTA", "RA", "FA", "MIA"),
        *("Avg Gap", "Mark [%]", "ToW", "Unlearn [s]"),
    ]
    assert "FTA" not in hard.frame
    lines = of_class.frame.set_index("Method")
    munkey = lines.loc["MUNKEY", ["FTA", "Mark [%]", "ToW"]].tolist()
    assert munkey == ["5.00 ± 0.00", "25", "0.684 ± 0.000"]
    assert lines.loc["MUNKEY", "Unlearn [s]"] == "0.007"
    assert lines.loc["Retrain (M)", ["ToW", "Unlearn [s]"]].tolist() == ["–", "6"]
    assert "MUNKEY, output off" in lines.index
    assert "MUNKEY, output off" not in hard.frame["Method"].tolist()


def test_the_lowest_gap_is_bold_if_it_overlaps_no_other():
    metrics = tidy()
    metrics["method"] = metrics["method"].replace("munkey-off", "lda")
    rows = [*ROWS[:3], Row("lda", "LDA", "retrain-m")]
    requests = {"scenario/class": "class 3", "scenario/hard": "hard"}
    summary = summarize_scenarios(metrics, rows)
    of_class, hard = make_scenario_tables(summary, rows, requests, "markdown")
    gaps = of_class.frame.set_index("Method")["Avg Gap"]
    assert gaps["LDA"] == "**0.00 ± 0.00**"
    assert not gaps.drop("LDA").str.contains("*", regex=False).any()
    assert not hard.frame["Avg Gap"].str.contains("*", regex=False).any()  # one method


def test_the_spread_of_tow_compares_each_seed_with_its_own_oracle():
    """RA differs by 5 and by 3 points, so ToW is 0.9 * 0.95 * 0.8 and 0.9 * 0.97 * 0.8."""
    lines = tidy()
    is_munkey = (lines["case"] == "scenario/class") & (lines["method"] == "munkey")
    lines.loc[is_munkey & (lines["metric"] == "RA") & (lines["seed"] == 1), "value"] -= 2
    summary = summarize_scenarios(lines, ROWS).set_index(["case", "method"])
    expected = pd.Series([0.9 * 0.95 * 0.8, 0.9 * 0.97 * 0.8]).std()
    assert summary.loc[MUNKEY, "ToW_sd"] == pytest.approx(expected)
    is_lost = is_munkey & (lines["metric"] == "FA") & (lines["seed"] == 1)
    without_accuracy = summarize_scenarios(lines[~is_lost], ROWS).set_index(["case", "method"])
    assert pd.isna(without_accuracy.loc[MUNKEY, "ToW_sd"])
    one_seed = summarize_scenarios(tidy().query("seed == 0"), ROWS)
    assert one_seed["ToW_sd"].isna().all()


def test_a_request_that_does_not_change_the_original_has_no_mark():
    unchanged = tidy().assign(
        value=lambda lines: lines["value"].where(lines["metric"] != "FM", 50.0)
    )
    assert summarize_scenarios(unchanged, ROWS)["mark"].isna().all()
    is_original = (unchanged["metric"] == "FM") & (unchanged["method"] == "original-m")
    lower = unchanged.assign(value=unchanged["value"].where(~is_original, 30.0))
    assert summarize_scenarios(lower, ROWS)["mark"].isna().all()


def test_the_figure_has_a_line_for_each_method_and_a_mark_for_each_request():
    (axes,) = scenarios_plot(summarize_scenarios(tidy(), ROWS), ROWS).axes
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert labels == ["MUNKEY", "MUNKEY, output off"]
    of_class, hard = (container.lines[0] for container in axes.containers)
    assert [container.get_label() for container in axes.containers] == ["class", "hard"]
    assert of_class.get_xdata() == pytest.approx([0.9 * 0.95 * 0.8, 1])
    assert len(hard.get_xdata()) == 1


def test_a_request_at_random_has_no_mark():
    lines = tidy()
    lines = lines[(lines["case"] == "scenario/hard") & ~lines["metric"].isin(["FM", "forgotten"])]
    summary = summarize_scenarios(lines, ROWS)
    (table,) = make_scenario_tables(summary, ROWS, {"scenario/hard": "stratified"}, "markdown")
    assert table.title.startswith("digits, hard: stratified, 10%; mean")
    assert set(table.frame["Mark [%]"]) == {"–"}


def test_a_diverged_system_is_named_and_its_variant_without_a_row_is_not():
    diverged = {"dataset": "digits", "rate": 0.0, "seed": 0, "case": "scenario/class"}
    diverged |= {"metric": "diverged", "value": 1.0, "why": "its loss is NaN"}
    rows = [diverged | {"method": name} for name in ("cf", "cf-off")]
    metrics = pd.concat([tidy(), pd.DataFrame(rows)], ignore_index=True)
    systems = [*ROWS, Row("cf", "CF", "retrain-m")]
    summary = summarize_scenarios(metrics, systems)
    requests = {"scenario/class": "class 3", "scenario/hard": "hard"}
    of_class, _ = make_scenario_tables(summary, systems, requests, "markdown")
    assert "CF @" in of_class.remark
    assert "nan" not in of_class.remark
