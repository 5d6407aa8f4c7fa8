"""Cells and tables as Markdown, HTML and LaTeX."""

import math
import re

import pandas as pd
import pytest

from munkey.report.tables.markup import (
    TitledTable,
    describe_bold,
    describe_statistic,
    escape_latex,
    find_lowest_gap,
    format_cell,
    format_two_digits,
    get_markup,
    make_bold,
    render,
    render_latex_table,
)

MEASURED = pd.Series(
    {"TA_mean": 81.006, "TA_sd": 3.6049, "FA_mean": 7.0, "FA_sd": math.nan, "RA_mean": math.nan}
)


@pytest.mark.parametrize(
    ("metric", "markup", "expected"),
    [
        ("TA", "markdown", "81.01 ± 3.60"),
        ("TA", "html", "81.01 ± 3.60"),
        ("TA", "latex", r"$81.01_{\pm \text{\tiny 3.60}}$"),
        ("FA", "markdown", "7.00"),
        ("FA", "latex", "$7.00$"),
        ("RA", "latex", "–"),
        ("MIA", "html", "–"),
    ],
)
def test_a_cell_shows_mean_and_deviation_if_there_are_any(metric, markup, expected):
    assert format_cell(MEASURED, metric, markup) == expected


def test_a_cell_has_the_requested_digits():
    assert format_cell(MEASURED, "TA", "markdown", digits=4) == "81.0060 ± 3.6049"
    assert format_cell(MEASURED, "TA", "latex", digits=3) == r"$81.006_{\pm \text{\tiny 3.605}}$"


@pytest.mark.parametrize(
    ("markup", "bold"), [("markdown", "**1**"), ("html", "<b>1</b>"), ("latex", r"\boldmath{1}")]
)
def test_the_best_is_bold(markup, bold):
    assert make_bold("1", markup) == bold


def gaps(**lines):
    return pd.DataFrame(lines.values(), index=list(lines), columns=["gap_mean", "gap_sd"])


def test_a_gap_is_the_lowest_if_its_deviation_reaches_no_other():
    assert find_lowest_gap(gaps(a=(3.0, 0.5), b=(1.0, 0.5), c=(2.1, 0.5))) == "b"
    assert find_lowest_gap(gaps(a=(3.0, 0.5), b=(1.0, 0.5), c=(1.9, 0.5))) is None
    assert find_lowest_gap(gaps(a=(1.0, 0.1), b=(5.0, 4.5))) is None  # the other's own ± reaches it
    assert find_lowest_gap(gaps(a=(1.0, 0.1), b=(1.2, 0.1))) is None  # as printed, they touch


def test_one_seed_or_one_line_has_no_lowest_gap():
    assert find_lowest_gap(gaps(a=(1.0, math.nan), b=(9.0, math.nan))) is None
    assert find_lowest_gap(gaps(a=(1.0, 0.1))) is None
    assert find_lowest_gap(gaps(a=(1.0, 0.1), b=(math.nan, math.nan))) is None
    assert find_lowest_gap(gaps()) is None


def test_a_line_without_a_gap_does_not_count():
    assert find_lowest_gap(gaps(a=(math.nan, math.nan), b=(1.0, 0.1), c=(2.0, 0.1))) == "b"


def test_the_statistic_of_one_seed_has_no_deviation():
    assert describe_statistic(3) == "mean ± sd over n = 3 seeds"
    assert "no other" in describe_bold(3)
    assert describe_statistic(1) == "n = 1 seed"
    assert describe_bold(1) == "nothing is bold with one seed"


def test_seconds_have_two_digits():
    for value, text in ((0.01687, "0.017"), (7.28, "7.3"), (124.9, "120"), (20.0, "20")):
        assert format_two_digits(value) == text


@pytest.mark.parametrize(
    ("path", "markup"), [("a/b.md", "markdown"), ("b.tex", "latex"), ("b.html", "html")]
)
def test_a_files_ending_tells_its_markup(path, markup):
    assert get_markup(path) == markup


def test_text_is_escaped_for_latex_and_formulas_are_kept():
    assert escape_latex("P_s & 10% # 5") == r"P\_s \& 10\% \# 5"
    assert escape_latex("–") == "--"
    assert escape_latex("1 ± 2") == r"1 $\pm$ 2"
    assert escape_latex(r"$\ell_1$-sparse") == r"$\ell_1$-sparse"
    assert escape_latex(r"\underline{$7_{\pm 1}$}") == r"\underline{$7_{\pm 1}$}"
    assert escape_latex("ℓ₁-sparse, 1 → 2, < 0.001") == r"$\ell_1$-sparse, 1 $\to$ 2, $<$ 0.001"
    assert escape_latex(4) == "4"


FRAME = pd.DataFrame({"P_s": ["<b>1</b>", "a_b"], "Gap": ["$2_{3}$", "–"]})


def test_a_latex_table_is_booktabs_with_escaped_text_and_a_title_as_a_comment():
    assert render([TitledTable("50% of it", FRAME)], "latex").splitlines() == [
        "% 50% of it",
        r"\begin{tabular}{ll}",
        r"\toprule",
        r"P\_s & Gap \\",
        r"\midrule",
        r"$<$b$>$1$<$/b$>$ & $2_{3}$ \\",
        r"a\_b & -- \\",
        r"\bottomrule",
        r"\end{tabular}",
    ]


def test_equal_labels_of_an_upper_header_row_span_their_columns():
    columns = pd.MultiIndex.from_tuples(
        [("", "x"), ("10%", "a"), ("10%", "b"), ("2%", "a"), ("2%", "b")]
    )
    text = render_latex_table(pd.DataFrame([list("mabcd")], columns=columns), "l cc cc")
    assert text.splitlines()[0] == r"\begin{tabular}{l cc cc}"
    assert r" & \multicolumn{2}{c}{10\%} & \multicolumn{2}{c}{2\%} \\" in text.splitlines()
    assert r"x & a & b & a & b \\" in text.splitlines()


def test_markup_in_cells_is_not_escaped_in_html():
    text = render([TitledTable("A", FRAME), TitledTable("B", FRAME)], "html")
    assert text.count("<td><b>1</b></td>") == 2
    assert re.findall("<h3>(.)</h3>", text) == ["A", "B"]


def test_markdown_tables_stand_below_their_titles_and_numbers_stay_as_they_are():
    numbers = TitledTable("", pd.DataFrame({"x": ["1.50"]}))
    text = render([numbers, TitledTable("B", FRAME)], "markdown")
    assert text.startswith("| x    |\n")
    assert "| 1.50 |\n" in text
    assert "\n\n### B\n\n| P_s " in text
    assert text.endswith("|\n")
