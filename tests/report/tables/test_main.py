"""The main table, run times, and the table of the selection."""

import math

import pandas as pd
import pytest

from munkey.report.tables.main import (
    make_main_tables,
    render_all_tables,
    render_main_table,
)
from munkey.report.tables.summary import ABOUT_SHARE, Row, add_seed_gaps, describe_damage, summarize
from munkey.report.tables.terminal import render_plain
from tests.report.inputs import KEYED_ROWS, MEASURED, ROWS, compared, extra, pairs, tidy


def read_last_cells(measured, markup):
    """The last cell of each row of the main table, by the title of the row."""
    text = render_main_table(summarize(tidy(measured), ROWS), ROWS, markup)
    separator = {"markdown": "|", "latex": "&"}[markup]
    titles = [row.title for row in ROWS]
    cells = {}
    for line in text.splitlines():
        row = [cell.strip() for cell in line.rstrip("\\ ").strip("|").split(separator)]
        if row[0] in titles:
            cells[row[0]] = row[-1]
    return cells


@pytest.mark.parametrize(
    ("markup", "bold", "none"), [("markdown", "**{}**", "–"), ("latex", r"\boldmath{{{}}}", "--")]
)
def test_the_lowest_gap_is_bold_and_context_is_not_ranked(markup, bold, none):
    # the smallest gap of all, but not a method's
    measured = MEASURED | {"original-t": MEASURED["retrain-t"]}
    pm = {"markdown": "{} ± {}", "latex": r"${}_{{\pm \text{{\tiny {}}}}}$"}[markup]
    assert read_last_cells(measured, markup) == {
        "Original (T)": pm.format("0.00", f"{math.sqrt(2 * 12) / 4:.2f}"),
        "Retrain (T)": none,
        "KNN": none,
        "CF": pm.format("6.25", f"{math.sqrt(34) / 4:.2f}"),
        "SCRUB": bold.format(pm.format("0.58", f"{math.sqrt(12 + 16 / 3) / 4:.2f}")),
    }


def test_gaps_that_do_not_differ_are_not_bold():
    scrub = [(ta, ra, fa - 1, mia - 1) for ta, ra, fa, mia in MEASURED["cf"]]
    cells = read_last_cells(MEASURED | {"scrub": scrub}, "markdown")
    assert "**" not in cells["CF"] + cells["SCRUB"]
    assert cells["CF"] != cells["SCRUB"]


def test_a_single_seed_has_means_and_a_gap_but_no_deviation():
    summary = summarize(tidy({name: seeds[:1] for name, seeds in MEASURED.items()}), ROWS)
    cf = summary.set_index("method").loc["cf"]
    assert (cf["n"], cf["TA_mean"], cf["gap_mean"]) == (1, 78, (2 + 1 + 10 + 10) / 4)
    assert math.isnan(cf["TA_sd"])
    assert math.isnan(cf["gap_sd"])
    text = render_main_table(summary, ROWS, "markdown")
    assert text.startswith("### digits: n = 1 seed, percent")
    assert "±" not in text
    assert "**" not in text
    assert "pm" not in render_main_table(summary, ROWS, "latex")
    assert "($n = 1$ seed)" in render_main_table(summary, ROWS, "latex")


def test_the_number_of_seeds_is_that_of_the_system_with_the_fewest():
    fewer = MEASURED | {"knn": MEASURED["knn"][:2]}
    summary = summarize(tidy(fewer), ROWS)
    assert "n = 2 seeds" in render_main_table(summary, ROWS, "markdown")
    assert "($n = 2$ seeds)" in render_main_table(summary, ROWS, "latex")


def test_a_rate_that_was_not_run_is_shown_as_missing():
    other = tidy({"retrain-t": MEASURED["retrain-t"]}, rate=0.02, dataset="other")
    summary = pd.concat([summarize(tidy(), ROWS), summarize(other, ROWS[1:2])])
    _, table = make_main_tables(summary, ROWS, "markdown")
    (cf,) = table.frame[table.frame["Method"] == "CF"].to_numpy().tolist()
    assert cf == ["CF", *["–"] * 10]


def test_gaps_are_bold_at_each_rate_and_the_larger_rate_is_first():
    swapped = MEASURED | {"cf": MEASURED["scrub"], "scrub": MEASURED["cf"]}
    summary = summarize(pd.concat([tidy(swapped, rate=0.02), tidy()]), ROWS)
    ((_, frame, _),) = make_main_tables(summary, ROWS, "markdown")
    metrics = ("TA", "RA", "FA", "MIA", "Avg Gap")
    assert list(frame.columns[1:]) == [f"{name} @{rate}%" for rate in (10, 2) for name in metrics]
    gaps = frame.set_index("Method")[["Avg Gap @10%", "Avg Gap @2%"]]
    assert gaps.loc["CF"].str.startswith("**").tolist() == [False, True]
    assert gaps.loc["SCRUB"].str.startswith("**").tolist() == [True, False]


def test_latex_shows_all_data_sets_in_one_table_with_the_rates_over_their_metrics():
    rows = [*ROWS[:-1], Row("scrub", "ℓ₁-sparse", "retrain-t")]
    metrics = pd.concat(
        [tidy(), tidy(rate=0.02), tidy(dataset="my_own"), tidy(rate=0.02, dataset="my_own")]
    )
    lines = render_main_table(summarize(metrics, rows), rows, "latex").splitlines()
    assert lines[:2] == ["% needs booktabs, amsmath", r"\begin{tabular}{l cccc c cccc c}"]
    assert lines[3:6] == [
        r" & \multicolumn{5}{c}{Forget rate 10\%} & \multicolumn{5}{c}{Forget rate 2\%} \\",
        r"\cmidrule(lr){2-6} \cmidrule(lr){7-11}",
        " & ".join(["Method", *["TA", "RA", "FA", "MIA", r"Avg Gap $\downarrow$"] * 2]) + r" \\",
    ]
    caption = r"\multicolumn{11}{c}{digits ($n = 3$ seeds)} \\"
    assert lines[6:9] == [r"\midrule", caption, r"\midrule"]
    assert lines[9].startswith("Original (T) & $80.00_{")
    assert lines[13].startswith(r"$\ell_1$-sparse & ")
    assert lines[14:17] == [r"\midrule", caption.replace("digits", r"my\_own"), r"\midrule"]
    assert lines[-2:] == [r"\bottomrule", r"\end{tabular}"]
    assert len(lines) == 24
    for line in lines[9:14] + lines[17:22]:
        assert line.count(" & ") == 10


def test_residual_shares_of_audits_are_beside_the_methods():
    # not by the alphabet
    summary = pd.concat([summarize(tidy(dataset=name), ROWS) for name in ("digits", "cells")])
    shares = {"digits": {"cf": "72.8 [54.8, 87.6]", "scrub": "no power"}}
    tables = make_main_tables(summary, ROWS, "html", shares)
    audited, other = (titled.frame for titled in tables)
    assert tables[0].title.endswith(f"; {ABOUT_SHARE}")
    assert list(audited.columns[:3]) == ["Method", "residual share [%]", "TA @10%"]
    expected = ["–", "–", "–", "72.8 [54.8, 87.6]", "no power"]
    assert audited["residual share [%]"].tolist() == expected
    assert set(other["residual share [%]"]) == {"–"}
    without = make_main_tables(summary, ROWS, "html")[0].frame
    pd.testing.assert_frame_equal(audited.drop(columns="residual share [%]"), without)


def measure_munkey(munkey, knn, lda=70, rate=0.1):
    """Metrics in which MUNKEY and two designs that train nothing have these test accuracies."""
    measured = dict(MEASURED)
    accuracies = {"original-m": 85, "munkey": munkey, "knn": knn, "lda": lda}
    for name, accuracy in accuracies.items():
        measured[name] = [(accuracy + shift, 90, 90, 50) for shift in (-0.5, 0, 0.5)]
    return tidy(measured, rate=rate)


def read_remark(summary, rows=KEYED_ROWS):
    """The remark below the table of a single data set."""
    (table,) = make_main_tables(summary, rows, "markdown")
    return table.remark


def test_a_model_that_is_no_better_than_its_keys_is_named_below_its_table_in_each_markup():
    measured = [measure_munkey(64, 80), measure_munkey(64, 81.5, rate=0.02)]
    both = compared(summarize(pd.concat(measured), KEYED_ROWS), half=1.1)
    remark = (
        "KNN is more accurate than MUNKEY by 17.5 points [16.4, 18.6] (3 seeds, 450 test samples)"
    )
    markdown = render_main_table(both, KEYED_ROWS, "markdown")
    assert remark in markdown.splitlines()[-1]
    assert remark in " ".join(render_plain(markdown).split())
    assert remark in render_main_table(both, KEYED_ROWS, "html").splitlines()[-1]
    latex = render_main_table(both, KEYED_ROWS, "latex").splitlines()
    (comment,) = [line for line in latex if line.startswith("% digits")]
    assert remark in comment


@pytest.mark.parametrize(
    ("munkey", "knn", "best"), [(80, 80, "KNN"), (80, 75, "LDA"), (80, math.nan, "LDA")]
)
def test_the_most_accurate_design_without_training_is_named(munkey, knn, best):
    measured = measure_munkey(munkey, knn, lda=80 - (best == "KNN")).dropna()
    remark = read_remark(compared(summarize(measured, KEYED_ROWS), half=1.1))
    assert "not shown to pay off" in remark
    assert f"{best} and MUNKEY do not differ significantly" in remark
    assert "0.0 points [-1.1, 1.1]" in remark


def test_all_equally_accurate_designs_without_training_are_named():
    summary = compared(summarize(measure_munkey(64, 80, lda=80), KEYED_ROWS))
    remark = read_remark(summary)
    assert "KNN or LDA is more accurate" in remark
    assert "MUNKEY by 16.0" in remark


def test_munkey_is_compared_after_deletion():
    """Before deletion MUNKEY has 85%, more than LDA; but LDA's 80% are after deletion, as MUNKEY's 64."""
    summary = compared(summarize(measure_munkey(64, 70, lda=80), KEYED_ROWS))
    remark = read_remark(summary)
    assert "LDA is more accurate" in remark
    assert "MUNKEY by 16.0" in remark


def read_damage(measured, seeds=3):
    """The remark about methods that lost accuracy or stand out to an attack."""
    first_seeds = {name: values[:seeds] for name, values in (MEASURED | measured).items()}
    summary = compared(summarize(tidy(first_seeds), ROWS), half=2.5).assign(tested_mean=450)
    return read_remark(summary, ROWS)


def test_a_method_that_lost_over_5_points_is_named_beside_the_loss_of_its_oracle():
    remark = read_damage({"cf": [(60, 99, 80, 60), (61, 97, 84, 62), (62, 98, 82, 64)]})
    assert remark.startswith("Lost more than 5 points")
    assert remark.endswith("CF @10% 19.0 [16.5, 21.5] (its oracle -2.0 [-4.5, 0.5]).")
    assert read_damage({"cf": [(75, 99, 80, 60)] * 3}) == ""  # five points are not more than five


def test_a_loss_whose_interval_contains_the_limit_is_called_possible():
    remark = read_damage({"cf": [(73, 99, 80, 60)] * 3})
    assert remark.startswith("May have lost more than 5 points")
    assert remark.endswith("CF @10% 7.0 [4.5, 9.5] (its oracle -2.0 [-4.5, 0.5]).")


def test_an_attack_is_named_if_its_interval_is_below_chance():
    remark = read_damage({"cf": [(78, 99, 80, 40), (80, 97, 84, 41), (85, 98, 82, 42)]})
    assert remark.startswith("MIA below 50%")
    assert remark.endswith("CF @10% 41.0 [37.4, 44.6]% (its oracle 50.0 [44.4, 55.6]%).")
    # Three seeds alone would exclude 50, but not beside 450 test samples.
    assert read_damage({"cf": [(80, 99, 80, mia) for mia in (47, 47.5, 48)]}) == ""
    assert read_damage({"cf": [(78, 99, 80, 45), (80, 97, 84, 49), (85, 98, 82, 53)]}) == ""
    assert read_damage({"cf": [(80, 99, 80, 40)]}, seeds=1) == ""


def test_the_loss_of_a_method_is_named_if_its_oracle_diverged():
    summary = summarize(tidy(MEASURED | {"cf": [(60, 99, 80, 60)] * 3}), ROWS)
    summary.loc[summary["method"] == "retrain-t", ["TA_mean", "MIA_mean"]] = math.nan
    sentences = describe_damage(compared(summary, half=1.5), ROWS)
    assert "CF @10% 20.0 [18.5, 21.5] (its oracle diverged)" in sentences


def test_a_certificate_is_named_below_the_table_with_the_epsilon_that_would_suffice():
    parts = []
    for rate, epsilon in ((0.1, 0.25), (0.02, 0.004)):
        parts.append(tidy(rate=rate))
        certificate = {"budget": 1.0, "delta": 1e-5, "epsilon": epsilon, "certified": 1.0}
        for seed in range(3):
            lines = [(seed, "cf", name, value) for name, value in certificate.items()]
            parts.append(extra(lines, rate=rate))
    both = summarize(pd.concat(parts), ROWS)
    remark = render_main_table(both, ROWS, "markdown").splitlines()[-1]
    for rate, epsilon in ((10, 0.25), (2, 0.004)):
        assert f"CF @{rate}% is certified" in remark
        assert f"epsilon {epsilon} would suffice (mean over 3 seeds)" in remark
    both.loc[both["rate"] == 0.1, "certified_mean"] = 0.0
    remark = render_main_table(both, ROWS, "markdown").splitlines()[-1]
    assert remark.startswith("CF @10% is not certified")
    assert "CF @2% is certified" in remark


def test_a_model_that_has_learned_its_training_set_is_not_called_underfitted():
    munkey = dict.fromkeys(("original-m", "munkey"), [(64, 99.5, 100, 50)] * 3)
    measured = MEASURED | munkey | {"knn": [(80, 90, 90, 50)] * 3}
    remark = read_remark(compared(summarize(tidy(measured), KEYED_ROWS)))
    assert "MUNKEY has learned its training set" in remark
    assert "KNN, which deletes exactly" in remark


@pytest.mark.parametrize(("munkey", "knn"), [(81, 80), (80, math.nan), (math.nan, 80)])
def test_there_is_no_remark_on_a_model_that_is_better_or_a_system_without_results(munkey, knn):
    summary = summarize(measure_munkey(munkey, knn).dropna(), KEYED_ROWS)
    assert not read_remark(summary)


def test_every_output_has_its_text_and_the_table_of_data_sets_the_largest_rate_alone():
    metrics = pd.concat([tidy(), tidy(rate=0.02), tidy(dataset="other", rate=0.02)])
    summary = summarize(metrics, ROWS)
    differences = pairs(summary)
    texts = render_all_tables(metrics, differences, ROWS)
    assert texts["differences"] == differences.to_csv(index=False)
    assert texts["tidy"] == add_seed_gaps(metrics, ROWS).to_csv(index=False)
    assert texts["csv"] == summary.to_csv(index=False)
    summary = compared(summary)
    assert texts["markdown"] == render_main_table(summary, ROWS, "markdown")
    assert texts["html"].startswith("<!doctype html><meta charset='utf-8'><style>")
    assert texts["latex"] == render_main_table(summary, ROWS, "latex")
    assert texts["runtime"].startswith("| Method")
    assert texts["runtime_latex"].startswith("% \n\\begin{tabular}{lllllllll}")
    largest = summary[(summary["dataset"] == "other") | (summary["rate"] == 0.1)]
    assert texts["datasets"] == render_main_table(largest, ROWS, "markdown")
    assert texts["datasets"] != texts["markdown"]
    assert "datasets_latex" not in texts


def test_systems_with_an_output_off_are_in_the_metrics_alone():
    """A main run that forgets a class has metrics of METHOD-off too, which are no rows of its tables."""
    metrics = tidy()
    off = metrics.assign(method=metrics["method"] + "-off")
    differences = pairs(summarize(metrics, ROWS))
    texts = render_all_tables(pd.concat([metrics, off]), differences, ROWS)
    assert "-off" in texts.pop("tidy")
    expected = render_all_tables(metrics, differences, ROWS)
    assert texts == {name: expected[name] for name in texts}
