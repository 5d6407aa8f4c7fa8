"""Cells and tables as Markdown, HTML and LaTeX."""

import math
import re

import pandas as pd
import pytest

from munkey.report.markup import (
    Titled,
    cell,
    emphasized,
    gap_ranks,
    latex_table,
    latex_text,
    markup_of,
    render,
)

MEASURED = pd.Series({"TA_mean": 81.006, "TA_sd": 3.6049, "FA_mean": 7.0, "FA_sd": math.nan, "RA_mean": math.nan})


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
def test_a_cell_shows_mean_and_deviation_where_there_are_any(metric, markup, expected):
    assert cell(MEASURED, metric, markup) == expected


def test_a_cell_has_the_digits_that_are_asked_for():
    assert cell(MEASURED, "TA", "markdown", digits=4) == "81.0060 ± 3.6049"
    assert cell(MEASURED, "TA", "latex", digits=3) == r"$81.006_{\pm \text{\tiny 3.605}}$"


@pytest.mark.parametrize(
    ("markup", "best", "second"),
    [
        ("markdown", "**1**", "<u>1</u>"),
        ("html", "<b>1</b>", "<u>1</u>"),
        ("latex", r"\boldmath{1}", r"\underline{1}"),
    ],
)
def test_the_best_is_bold_and_the_second_underlined(markup, best, second):
    assert [emphasized("1", rank, markup) for rank in (0, 1, None)] == [best, second, "1"]


def test_ranks_are_those_of_the_gaps_as_printed_and_equal_ones_share():
    gaps = pd.Series({"a": 1.004, "b": 3.0, "c": 0.996, "d": 2.0, "e": 2.004})
    assert gap_ranks(gaps) == {"a": 0, "c": 0, "d": 1, "e": 1}
    assert gap_ranks(gaps.iloc[:0]) == {}


def test_what_has_no_gap_has_no_rank():
    assert gap_ranks(pd.Series({"a": 1.0, "b": math.nan, "c": 2.0})) == {"a": 0, "c": 1}


@pytest.mark.parametrize(("path", "markup"), [("a/b.md", "markdown"), ("b.tex", "latex"), ("b.html", "html")])
def test_a_files_ending_tells_its_markup(path, markup):
    assert markup_of(path) == markup


def test_text_is_escaped_for_latex_and_formulas_are_kept():
    assert latex_text("P_s & 10 % # 5") == r"P\_s \& 10 \% \# 5"
    assert latex_text("–") == "--" and latex_text("1 ± 2") == r"1 $\pm$ 2"
    assert latex_text(r"$\ell_1$-sparse") == r"$\ell_1$-sparse"
    assert latex_text(r"\underline{$7_{\pm 1}$}") == r"\underline{$7_{\pm 1}$}"
    assert latex_text(4) == "4"


FRAME = pd.DataFrame({"P_s": ["<b>1</b>", "a_b"], "Gap": ["$2_{3}$", "–"]})


def test_a_latex_table_is_booktabs_with_escaped_text_and_a_title_as_a_comment():
    assert render([Titled("50 % of it", FRAME)], "latex").splitlines() == [
        "% 50 % of it",
        r"\begin{tabular}{ll}",
        r"\toprule",
        r"P\_s & Gap \\",
        r"\midrule",
        r"<b>1</b> & $2_{3}$ \\",
        r"a\_b & -- \\",
        r"\bottomrule",
        r"\end{tabular}",
    ]


def test_equal_labels_of_an_upper_header_row_span_their_columns():
    columns = pd.MultiIndex.from_tuples([("", "x"), ("10 %", "a"), ("10 %", "b"), ("2 %", "a"), ("2 %", "b")])
    text = latex_table(pd.DataFrame([list("mabcd")], columns=columns), "l cc cc")
    assert text.splitlines()[0] == r"\begin{tabular}{l cc cc}"
    assert r" & \multicolumn{2}{c}{10 \%} & \multicolumn{2}{c}{2 \%} \\" in text.splitlines()
    assert r"x & a & b & a & b \\" in text.splitlines()


def test_markup_in_cells_is_not_escaped_in_html():
    text = render([Titled("A", FRAME), Titled("B", FRAME)], "html")
    assert text.count("<td><b>1</b></td>") == 2
    assert re.findall("<h3>(.)</h3>", text) == ["A", "B"]


def test_markdown_tables_stand_below_their_titles_and_numbers_stay_as_they_are():
    text = render([Titled("", pd.DataFrame({"x": ["1.50"]})), Titled("B", FRAME)], "markdown")
    assert text.startswith("| x    |\n") and "| 1.50 |\n" in text
    assert "\n\n### B\n\n| P_s " in text and text.endswith("|\n")
