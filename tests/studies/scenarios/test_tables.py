"""Tables of scenarios: ToW by hand, and the columns of classes that are forgotten whole."""

import pandas as pd
import pytest

from munkey.report.tables.summary import Row
from munkey.studies.scenarios.figure import scenarios_plot
from munkey.studies.scenarios.tables import make_scenario_tables, summarize_scenarios

ROWS = [
    Row("original-m", "Original (M)", "retrain-m", context=True),
    Row("retrain-m", "Retrain (M)", None),
    Row("munkey", "MUNKEY", "retrain-m"),
    Row("munkey-off", "MUNKEY, output off", "retrain-m"),
]
ORACLE = {"FM": 40.0, "TA": 80.0, "RA": 90.0, "FA": 0.0, "MIA": 50.0, "train_s": 6.0}


def tidy() -> pd.DataFrame:
    systems = {
        "original-m": ORACLE | {"TA": 90.0, "FA": 100.0, "FM": 60.0},
        "retrain-m": ORACLE,
        "munkey": ORACLE | {"TA": 90.0, "RA": 95.0, "FA": 20.0, "FM": 45.0, "unlearn_s": 0.007},
    }
    whole = {"FTA": 5.0, "RTA": 95.0, "forgotten": 99.0}
    cases = {
        "scenario/class": {name: each | whole for name, each in systems.items()}
        | {"munkey-off": ORACLE | whole},
        "scenario/hard": {name: each | {"forgotten": 108.0} for name, each in systems.items()},
    }
    return pd.DataFrame(
        {
            "dataset": "digits",
            "case": case,
            "rate": rate,
            "seed": seed,
            "method": method,
            "metric": name,
            "value": value,
        }
        for (case, measured), rate in zip(cases.items(), (0.0, 0.1), strict=True)
        for seed in (0, 1)
        for method, found in measured.items()
        for name, value in found.items()
    )


def test_tow_is_the_product_of_what_is_not_lost_against_the_oracle():
    found = summarize_scenarios(tidy(), ROWS).set_index(["case", "method"])
    assert found.loc[("scenario/class", "munkey"), "ToW"] == pytest.approx(0.9 * 0.95 * 0.8)
    assert found.loc[("scenario/class", "munkey-off"), "ToW"] == 1
    assert pd.isna(found.loc[("scenario/class", "retrain-m"), "ToW"])
    assert found.loc[("scenario/class", "munkey"), "ToW_sd"] == pytest.approx(0)


def test_each_scenario_has_a_table_with_its_request_and_its_columns():
    requests = {"scenario/class": "class 3", "scenario/hard": "hard"}
    of_class, hard = make_scenario_tables(
        summarize_scenarios(tidy(), ROWS), ROWS, requests, "markdown"
    )
    assert of_class.title.startswith(
        "digits, class: class 3, 99 samples; mean ± sd over n = 2 seeds"
    )
    assert hard.title.startswith("digits, hard: hard, 10%, 108 samples")
    columns = [
        "Method",
        "TA",
        "RTA",
        "FTA",
        "RA",
        "FA",
        "MIA",
        "Avg Gap",
        "Mark [%]",
        "ToW",
        "Unlearn [s]",
    ]
    assert of_class.frame.columns.tolist() == columns and "FTA" not in hard.frame
    lines = of_class.frame.set_index("Method")
    assert lines.loc["MUNKEY", ["FTA", "Mark [%]", "ToW"]].tolist() == [
        "5.00 ± 0.00",
        "25",
        "0.684 ± 0.000",
    ]
    assert lines.loc["MUNKEY", "Unlearn [s]"] == "0.007"
    assert lines.loc["Retrain (M)", ["ToW", "Unlearn [s]"]].tolist() == ["–", "6"]
    assert (
        "MUNKEY, output off" in lines.index
        and "MUNKEY, output off" not in hard.frame["Method"].tolist()
    )


def test_the_spread_of_tow_is_that_of_seeds_each_against_its_own_oracle():
    lines = tidy()
    chosen = (
        (lines["case"] == "scenario/class")
        & (lines["method"] == "munkey")
        & (lines["metric"] == "RA")
    )
    seeds = sorted(lines["seed"].unique())
    lines.loc[chosen, "value"] -= lines.loc[chosen, "seed"].map(
        {seed: 2.0 * place for place, seed in enumerate(seeds)}
    )
    found = summarize_scenarios(lines, ROWS).set_index(["case", "method"])
    wide = lines[lines["case"] == "scenario/class"].pivot_table(
        index=["method", "seed"], columns="metric", values="value", aggfunc="first"
    )[["FA", "RA", "TA"]]
    apart = (wide.loc["munkey"] - wide.loc["retrain-m"]).abs() / 100
    assert found.loc[("scenario/class", "munkey"), "ToW_sd"] == pytest.approx(
        (1 - apart).prod(axis=1).std()
    )
    assert found.loc[("scenario/class", "munkey"), "ToW_sd"] > 0.005
    alone = summarize_scenarios(tidy().query("seed == @seeds[0]"), ROWS)
    assert alone["ToW_sd"].isna().all()


def test_a_request_that_changes_nothing_of_the_original_leaves_no_mark_to_be_measured():
    alike = tidy().assign(value=lambda lines: lines["value"].where(lines["metric"] != "FM", 50.0))
    assert summarize_scenarios(alike, ROWS)["mark"].isna().all()


def test_the_figure_has_a_line_for_each_method_and_a_mark_for_each_request():
    (axes,) = scenarios_plot(summarize_scenarios(tidy(), ROWS), ROWS).axes
    assert [label.get_text() for label in axes.get_yticklabels()] == [
        "MUNKEY",
        "MUNKEY, output off",
    ]
    of_class, hard = (container.lines[0] for container in axes.containers)
    assert [container.get_label() for container in axes.containers] == ["class", "hard"]
    assert (
        of_class.get_xdata() == pytest.approx([0.9 * 0.95 * 0.8, 1]) and len(hard.get_xdata()) == 1
    )


def test_a_request_at_random_has_no_mark():
    lines = tidy()
    lines = lines[(lines["case"] == "scenario/hard") & ~lines["metric"].isin(["FM", "forgotten"])]
    found = summarize_scenarios(lines, ROWS)
    (table,) = make_scenario_tables(found, ROWS, {"scenario/hard": "stratified"}, "markdown")
    assert table.title.startswith("digits, hard: stratified, 10%; mean") and set(
        table.frame["Mark [%]"]
    ) == {"–"}
