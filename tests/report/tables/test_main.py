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
from tests.report.inputs import KEYED_ROWS, MEASURED, ROWS, compared, pairs, tidy


def marked(measured, markup):
    """What stands before and after each row's last cell."""
    text = render_main_table(summarize(tidy(measured), ROWS), ROWS, markup)
    lines = [one for one in text.splitlines() if any(row.title in one for row in ROWS)]
    split = [
        [cell.strip() for cell in one.rstrip("\\ ").strip("|").split("|&"[markup == "latex"])]
        for one in lines
    ]
    return {cells[0]: cells[-1] for cells in split}


@pytest.mark.parametrize(
    ("markup", "bold", "none"), [("markdown", "**{}**", "–"), ("latex", r"\boldmath{{{}}}", "--")]
)
def test_the_lowest_gap_is_bold_and_context_is_not_ranked(markup, bold, none):
    # the smallest gap of all, but not a method's
    measured = MEASURED | {"original-t": MEASURED["retrain-t"]}
    pm = {"markdown": "{} ± {}", "latex": r"${}_{{\pm \text{{\tiny {}}}}}$"}[markup]
    assert marked(measured, markup) == {
        "Original (T)": pm.format("0.00", f"{math.sqrt(2 * 12) / 4:.2f}"),
        "Retrain (T)": none,
        "KNN": none,
        "CF": pm.format("6.25", f"{math.sqrt(34) / 4:.2f}"),
        "SCRUB": bold.format(pm.format("0.58", f"{math.sqrt(12 + 16 / 3) / 4:.2f}")),
    }


def test_gaps_that_are_not_told_apart_are_not_marked():
    cells = marked(
        MEASURED | {"scrub": [(ta, ra, fa - 1, mia - 1) for ta, ra, fa, mia in MEASURED["cf"]]},
        "markdown",
    )
    assert "**" not in cells["CF"] + cells["SCRUB"] and cells["CF"] != cells["SCRUB"]


def test_a_single_seed_has_means_and_a_gap_but_no_deviation():
    summary = summarize(tidy({name: seeds[:1] for name, seeds in MEASURED.items()}), ROWS)
    cf = summary.set_index("method").loc["cf"]
    assert (cf["n"], cf["TA_mean"], cf["gap_mean"]) == (1, 78, (2 + 1 + 10 + 10) / 4)
    assert math.isnan(cf["TA_sd"])
    assert math.isnan(cf["gap_sd"])
    text = render_main_table(summary, ROWS, "markdown")
    assert text.startswith("### digits: n = 1 seed, percent; nothing is bold with one seed\n")
    assert "±" not in text and "**" not in text
    assert "pm" not in render_main_table(
        summary, ROWS, "latex"
    ) and "($n = 1$ seed)" in render_main_table(summary, ROWS, "latex")


def test_the_fewest_seeds_are_told():
    fewer = MEASURED | {"knn": MEASURED["knn"][:2]}
    summary = summarize(tidy(fewer), ROWS)
    assert "n = 2 seeds" in render_main_table(summary, ROWS, "markdown")
    assert "($n = 2$ seeds)" in render_main_table(summary, ROWS, "latex")


def test_a_rate_that_was_not_run_is_shown_as_missing():
    other = tidy({"retrain-t": MEASURED["retrain-t"]}, rate=0.02, dataset="other")
    summary = pd.concat([summarize(tidy(), ROWS), summarize(other, ROWS[1:2])])
    last = render_main_table(summary, ROWS, "markdown").split("### other")[1]
    cells = [
        cell.strip()
        for cell in next(one for one in last.splitlines() if "CF" in one).strip("|").split("|")
    ]
    assert cells == ["CF", *["–"] * 10]


def test_marks_are_per_rate_and_the_larger_rate_stands_first():
    swapped = MEASURED | {"cf": MEASURED["scrub"], "scrub": MEASURED["cf"]}
    summary = summarize(pd.concat([tidy(swapped, rate=0.02), tidy()]), ROWS)
    ((_, frame, _),) = make_main_tables(summary, ROWS, "markdown")
    metrics = ("TA", "RA", "FA", "MIA", "Avg Gap")
    assert list(frame.columns[1:]) == [f"{name} @{rate}%" for rate in (10, 2) for name in metrics]
    gaps = frame.set_index("Method")[["Avg Gap @10%", "Avg Gap @2%"]]
    assert [gap.startswith("**") for gap in gaps.loc["CF"]] == [False, True]
    assert [gap.startswith("**") for gap in gaps.loc["SCRUB"]] == [True, False]


def test_latex_shows_all_data_sets_in_one_table_with_the_rates_over_their_metrics():
    rows = [*ROWS[:-1], Row("scrub", "ℓ₁-sparse", "retrain-t")]
    metrics = pd.concat(
        [tidy(), tidy(rate=0.02), tidy(dataset="my_own"), tidy(rate=0.02, dataset="my_own")]
    )
    lines = render_main_table(summarize(metrics, rows), rows, "latex").splitlines()
    assert lines[:2] == ["% needs booktabs, amsmath", r"\begin{tabular}{l cccc c cccc c}"]
    assert lines[3:6] == [
        r" & \multicolumn{5}{c}{Random forget (10\%)} & \multicolumn{5}{c}{Random forget (2\%)} \\",
        r"\cmidrule(lr){2-6} \cmidrule(lr){7-11}",
        " & ".join(["Method", *["TA", "RA", "FA", "MIA", r"Avg Gap $\downarrow$"] * 2]) + r" \\",
    ]
    caption = r"\multicolumn{11}{c}{digits ($n = 3$ seeds)} \\"
    assert lines[6:9] == [r"\midrule", caption, r"\midrule"]
    assert lines[9].startswith("Original (T) & $80.00_{")
    assert lines[13].startswith(r"$\ell_1$-sparse & ")
    assert lines[14:17] == [r"\midrule", caption.replace("digits", r"my\_own"), r"\midrule"]
    assert lines[-2:] == [r"\bottomrule", r"\end{tabular}"] and len(lines) == 24
    assert all(line.count(" & ") == 10 for line in lines[9:14] + lines[17:22])


def test_what_audits_found_to_be_left_stands_beside_the_methods():
    # not by the alphabet
    summary = pd.concat([summarize(tidy(dataset=name), ROWS) for name in ("digits", "cells")])
    left = {"digits": {"cf": "72.8 [54.8, 87.6]", "scrub": "no power"}}
    tables = make_main_tables(summary, ROWS, "html", left)
    audited, other = (titled.frame for titled in tables)
    assert tables[0].title.endswith(f"; {ABOUT_SHARE}")
    assert list(audited.columns[:3]) == ["Method", "residual share [%]", "TA @10%"]
    assert audited["residual share [%]"].tolist() == [
        "–",
        "–",
        "–",
        "72.8 [54.8, 87.6]",
        "no power",
    ]
    assert set(other["residual share [%]"]) == {"–"}
    without = make_main_tables(summary, ROWS, "html")[0].frame
    pd.testing.assert_frame_equal(audited.drop(columns="residual share [%]"), without)


def trained_and_untrained(trained, untrained, lda=70, rate=0.1):
    measured = {"original-m": 85, "munkey": trained, "knn": untrained, "lda": lda}
    spread = (-0.5, 0, 0.5)
    seeds = {
        name: [(accuracy + more, 90, 90, 50) for more in spread]
        for name, accuracy in measured.items()
    }
    return tidy(MEASURED | seeds, rate=rate)


def test_a_model_that_is_no_better_than_the_best_of_its_own_keys_is_told_below_its_table():
    measured = [trained_and_untrained(64, 80), trained_and_untrained(64, 81.5, rate=0.02)]
    both = compared(summarize(pd.concat(measured), KEYED_ROWS), half=1.1)
    below = "KNN is more accurate than MUNKEY by 17.5 points [16.4, 18.6] (3 seeds, 450 test samples). It may be"
    assert below in render_main_table(both, KEYED_ROWS, "markdown").splitlines()[-1]
    assert below in render_main_table(both, KEYED_ROWS, "html").splitlines()[-1]
    assert below in next(
        line
        for line in render_main_table(both, KEYED_ROWS, "latex").splitlines()
        if line.startswith("% digits")
    )
    assert below in " ".join(render_plain(render_main_table(both, KEYED_ROWS, "markdown")).split())


@pytest.mark.parametrize(
    ("trained", "untrained", "named"), [(80, 80, "KNN"), (80, 75, "LDA"), (80, math.nan, "LDA")]
)
def test_the_best_of_those_that_train_nothing_is_named(trained, untrained, named):
    measured = trained_and_untrained(trained, untrained, lda=80 - (named == "KNN")).dropna()
    (told,) = {
        table.remark
        for table in make_main_tables(
            compared(summarize(measured, KEYED_ROWS), half=1.1), KEYED_ROWS, "markdown"
        )
    }
    assert (
        f"keys, {named} and MUNKEY do not differ significantly in test accuracy: 0.0 points [-1.1, 1.1]"
        in told
    )
    assert told.startswith(
        "Training MUNKEY is not shown to pay off here. After deletion, on the same keys"
    )


def test_all_that_train_nothing_and_are_equally_accurate_are_named():
    measured = trained_and_untrained(64, 80, lda=80)
    (told,) = {
        table.remark
        for table in make_main_tables(
            compared(summarize(measured, KEYED_ROWS)), KEYED_ROWS, "markdown"
        )
    }
    assert "KNN or LDA is more accurate than MUNKEY by 16.0 points" in told


def test_munkey_is_compared_with_what_has_lost_the_same_rows():
    """Before deletion MUNKEY has 85%, more than LDA; but LDA's 80% are after deletion, as MUNKEY's 64."""
    summary = compared(summarize(trained_and_untrained(64, 70, lda=80), KEYED_ROWS))
    (told,) = {table.remark for table in make_main_tables(summary, KEYED_ROWS, "markdown")}
    assert "LDA is more accurate than MUNKEY by 16.0 points" in told


def told_below(measured, seeds=3):
    few = tidy({name: values[:seeds] for name, values in (MEASURED | measured).items()})
    summary = compared(summarize(few, ROWS), half=2.5).assign(tested_mean=450)
    (told,) = {table.remark for table in make_main_tables(summary, ROWS, "markdown")}
    return told


def test_a_method_that_lost_much_test_accuracy_is_named_with_what_its_oracle_lost():
    told = told_below({"cf": [(60, 99, 80, 60), (61, 97, 84, 62), (62, 98, 82, 64)]})
    assert told == (
        "Lost more than 5 points of test accuracy: CF @10% 19.0 [16.5, 21.5] (its oracle -2.0 [-4.5, 0.5])."
    )
    assert told_below({"cf": [(75, 99, 80, 60)] * 3}) == ""  # five points are not more than five


def test_a_loss_whose_interval_contains_the_limit_is_only_called_possible():
    told = told_below({"cf": [(73, 99, 80, 60)] * 3})
    assert told == (
        "May have lost more than 5 points: CF @10% 7.0 [4.5, 9.5] (its oracle -2.0 [-4.5, 0.5])."
    )


def test_an_attack_below_chance_is_named_where_its_interval_is():
    stands_out = (
        "MIA below 50%, so forgotten samples look less like training samples than test samples do: "
    )
    told = told_below({"cf": [(78, 99, 80, 40), (80, 97, 84, 41), (85, 98, 82, 42)]})
    assert told == f"{stands_out}CF @10% 41.0 [37.4, 44.6]% (its oracle 50.0 [44.4, 55.6]%)."
    # Three seeds alone would exclude 50, but not beside 450 test samples.
    assert told_below({"cf": [(80, 99, 80, mia) for mia in (47, 47.5, 48)]}) == ""
    assert told_below({"cf": [(78, 99, 80, 45), (80, 97, 84, 49), (85, 98, 82, 53)]}) == ""
    assert told_below({"cf": [(80, 99, 80, 40)]}, seeds=1) == ""


def test_beside_an_oracle_that_diverged_the_loss_of_a_method_is_still_told():
    summary = summarize(tidy(MEASURED | {"cf": [(60, 99, 80, 60)] * 3}), ROWS)
    summary.loc[summary["method"] == "retrain-t", ["TA_mean", "MIA_mean"]] = math.nan
    sentences = describe_damage(compared(summary, half=1.5), ROWS)
    assert "CF @10% 20.0 [18.5, 21.5] (its oracle diverged)" in sentences


def test_a_certificate_stands_below_the_table_beside_what_was_left():
    parts = [tidy(), tidy(rate=0.02)]
    for part, epsilon in zip(parts[:2], (0.25, 0.004), strict=True):
        named = {"budget": 1.0, "delta": 1e-5, "epsilon": epsilon, "certified": 1.0}
        for name, value in named.items():
            own = part[(part["method"] == "cf") & (part["metric"] == "TA")]
            parts.append(own.assign(metric=name, value=value))
    both = summarize(pd.concat(parts), ROWS)
    assert render_main_table(both, ROWS, "markdown").splitlines()[-1] == (
        "CF @10% is certified with epsilon 1 and delta 1e-05 for each model separately; its weights"
        " are so close to their optimum that epsilon 0.25 would suffice (mean over 3 seeds)."
        " CF @2% is certified with epsilon 1 and delta 1e-05 for each model separately; its weights"
        " are so close to their optimum that epsilon 0.004 would suffice (mean over 3 seeds)."
    )
    both.loc[both["rate"] == 0.1, "certified_mean"] = 0.0
    told = render_main_table(both, ROWS, "markdown").splitlines()[-1]
    assert told.startswith("CF @10% is not certified: its noise follows from params.yaml")
    assert "CF @2% is certified" in told


def test_one_that_knows_its_training_set_by_heart_is_not_called_underfitted():
    values = {name: [(64, 99.5, 100, 50)] * 3 for name in ("original-m", "munkey")} | {
        "knn": [(80, 90, 90, 50)] * 3
    }
    (told,) = {
        t.remark
        for t in make_main_tables(
            compared(summarize(tidy(MEASURED | values), KEYED_ROWS)), KEYED_ROWS, "markdown"
        )
    }
    assert told.endswith(
        "MUNKEY has learned its training set, so KNN, which deletes exactly, is the better choice."
    )


@pytest.mark.parametrize(("trained", "untrained"), [(81, 80), (80, math.nan), (math.nan, 80)])
def test_nothing_is_told_of_a_model_that_is_better_or_of_a_system_that_was_not_run(
    trained, untrained
):
    summary = summarize(trained_and_untrained(trained, untrained).dropna(), KEYED_ROWS)
    assert not any(table.remark for table in make_main_tables(summary, KEYED_ROWS, "markdown"))


def test_every_output_gets_its_text_and_datasets_show_the_largest_rate_alone():
    metrics = pd.concat([tidy(), tidy(rate=0.02), tidy(dataset="other", rate=0.02)])
    summary = summarize(metrics, ROWS)
    differences = pairs(summary)
    texts = render_all_tables(metrics, differences, ROWS)
    assert texts["differences"] == differences.to_csv(index=False)
    assert texts["tidy"] == add_seed_gaps(metrics, ROWS).to_csv(index=False)
    assert texts["csv"] == summary.to_csv(index=False)
    summary = compared(summary)
    assert texts["markdown"] == render_main_table(summary, ROWS, "markdown") and texts[
        "html"
    ].startswith("<!doctype html><meta charset='utf-8'><style>")
    assert texts["latex"] == render_main_table(summary, ROWS, "latex")
    assert texts["runtime"].startswith("| Method") and texts["runtime_latex"].startswith(
        "% \n\\begin{tabular}{lllllllll}"
    )
    largest = summary[(summary["dataset"] == "other") | (summary["rate"] == 0.1)]
    assert texts["datasets"] == render_main_table(largest, ROWS, "markdown") != texts["markdown"]
    assert "datasets_latex" not in texts


def test_systems_with_an_output_off_stand_in_the_metrics_alone():
    """A main run that forgets a class has metrics of METHOD-off too, which are no rows of its tables."""
    metrics = tidy()
    off = metrics.assign(method=metrics["method"] + "-off")
    differences = pairs(summarize(metrics, ROWS))
    texts = render_all_tables(pd.concat([metrics, off]), differences, ROWS)
    assert "-off" in texts.pop("tidy")
    expected = render_all_tables(metrics, differences, ROWS)
    assert texts == {name: expected[name] for name in texts}
