"""Formatting of cells and tables in Markdown, HTML and LaTeX."""

from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd

from munkey.core.diverged import DIVERGED

Markup = Literal["markdown", "html", "latex"]
ABSENT = "–"
# Metrics for which a table states that a system diverged. The cells of other metrics are empty.
DIVERGED_IN = ("TA", "gap", "unlearn_s")
MARKUP_BY_SUFFIX: dict[str, Markup] = {".md": "markdown", ".html": "html", ".tex": "latex"}
LATEX_ESCAPES = str.maketrans(
    {
        "%": r"\%",
        "_": r"\_",
        "&": r"\&",
        "#": r"\#",
        "<": "$<$",
        ">": "$>$",
        ABSENT: "--",
        "±": r"$\pm$",
        "→": r"$\to$",
        "\N{SCRIPT SMALL L}": r"$\ell$",
        "₁": "$_1$",
    }
)
EMPHASIS: dict[Markup, str] = {
    "markdown": "**{}**",
    "html": "<b>{}</b>",
    "latex": r"\boldmath{{{}}}",
}

NOTHING: dict[Markup, str] = {
    "markdown": "None of this was run.\n",
    "html": "<p>None of this was run.</p>\n",
    "latex": "% None of this was run.\n",
}


class TitledTable(NamedTuple):
    """A table that is ready to render.

    Attributes
    ----------
    title
        May be empty.
    frame
        The cells as text, including markup.
    remark
        Text below the table.
    """

    title: str
    frame: pd.DataFrame
    remark: str = ""


def get_markup(path: str | Path) -> Markup:
    """Return the markup for a file's suffix. Raises KeyError if the suffix is unknown."""
    return MARKUP_BY_SUFFIX[Path(path).suffix]


def format_number(value: float | None, digits: int) -> str:
    """Return a number with this many decimals, or – if it is missing."""
    if value is None or pd.isna(value):
        return ABSENT
    rounded = round(value, digits) + 0.0  # -0.0 + 0.0 is 0.0
    return f"{rounded:.{digits}f}"


def format_mean_sd(mean: float, sd: float, digits: int = 2) -> str:
    """Return `mean ± sd` as plain text, or only the mean if `sd` is NaN."""
    if pd.isna(sd):
        return f"{mean:.{digits}f}"
    return f"{mean:.{digits}f} ± {sd:.{digits}f}"


def get_decimals(metric: str) -> int:
    """Return the number of decimals that the paper prints for a metric."""
    if metric == "P_s":
        return 3
    return 2


def format_two_digits(seconds: float) -> str:
    """Return a number with two significant digits, such as 0.017 or 120."""
    return f"{float(f'{seconds:.2g}'):g}"


def format_cell(row: pd.Series, metric: str, markup: Markup, digits: int = 2) -> str:
    """Return `mean ± sd` of a metric in a summary row, or – if the row lacks the metric.

    If the system diverged, the cells of the metrics in DIVERGED_IN contain `diverged`.
    """
    mean = row.get(f"{metric}_mean", np.nan)
    sd = row.get(f"{metric}_sd", np.nan)
    if pd.isna(mean):
        if metric in DIVERGED_IN and pd.notna(row.get(DIVERGED)):
            return DIVERGED
        return ABSENT
    if markup != "latex":
        return format_mean_sd(mean, sd, digits)
    if pd.isna(sd):
        return f"${mean:.{digits}f}$"
    return rf"${mean:.{digits}f}_{{\pm \text{{\tiny {sd:.{digits}f}}}}}$"


def find_lowest_gap(rows: pd.DataFrame) -> Hashable | None:
    """Return the index of the row with the lowest gap, or None if its ± overlaps another row's.

    Also None for a single seed (no standard deviation) or row. rows: a summary with the columns
    gap_mean and gap_sd; those without a gap are ignored.
    """
    gaps = rows.dropna(subset="gap_mean").sort_values("gap_mean", kind="stable")
    if len(gaps) < 2 or gaps["gap_sd"].isna().any():
        return None
    mean = gaps["gap_mean"].round(2)  # as printed
    sd = gaps["gap_sd"].round(2)
    overlaps = mean.iloc[0] + sd.iloc[0] >= (mean - sd).iloc[1:].min()
    if overlaps:
        return None
    return gaps.index[0]


def make_bold(cell: str, markup: Markup) -> str:
    """Return a cell in bold."""
    return EMPHASIS[markup].format(cell)


def format_seed_count(n: int) -> str:
    """Return a phrase such as `n = 3 seeds` or `n = 1 seed`."""
    return f"n = {format_seeds(n)}"


def format_seeds(n: int) -> str:
    """Return `1 seed`, or a phrase such as `3 seeds`."""
    if n == 1:
        return "1 seed"
    return f"{n} seeds"


def describe_statistic(n: int) -> str:
    """Return a phrase that states which statistic a table over n seeds shows."""
    if n == 1:
        return format_seed_count(n)
    return f"mean ± sd over {format_seed_count(n)}"


def describe_bold(n: int) -> str:
    """Return a phrase that explains the bold cells in a table over n seeds."""
    if n == 1:
        return "nothing is bold with one seed"
    return "bold where the lowest Avg Gap ± sd overlaps no other"


def percent(rate: float) -> str:
    """Return a share in percent without trailing zeros, such as `2%` or `0.5%`."""
    return f"{100 * rate:g}%"


def describe_divergence(reasons: Sequence[str]) -> str:
    """Return a sentence that lists what diverged and why, or an empty string if nothing did."""
    if not reasons:
        return ""
    return f"Diverged: {'. '.join(reasons)}."


def render(tables: Sequence[TitledTable], markup: Markup) -> str:
    """Return the tables as text, one after another."""
    return RENDERERS[markup](tables)


def render_or_note(tables: Sequence[TitledTable], markup: Markup) -> str:
    """Return the tables as text, or a note that nothing was run if there are none."""
    if not tables:
        return NOTHING[markup]
    return render(tables, markup)


def _render_markdown(tables: Sequence[TitledTable]) -> str:
    texts = []
    for table in tables:
        text = table.frame.to_markdown(index=False, disable_numparse=True)
        if table.title:
            text = f"### {table.title}\n\n{text}"
        if table.remark:
            text = f"{text}\n\n{table.remark}"
        texts.append(text)
    return "\n\n".join(texts) + "\n"


def _render_html(tables: Sequence[TitledTable]) -> str:
    texts = []
    for table in tables:
        text = f"<h3>{table.title}</h3>\n{render_html_table(table.frame)}"
        if table.remark:
            text = f"{text}\n<p>{table.remark}</p>"
        texts.append(text)
    return "\n".join(texts) + "\n"


def _render_latex(tables: Sequence[TitledTable]) -> str:
    texts = []
    for table in tables:
        columns = "l" * table.frame.shape[1]
        texts.append(f"% {table.title}\n{render_latex_table(table.frame, columns)}")
    return "\n".join(texts)


RENDERERS: dict[Markup, Callable[[Sequence[TitledTable]], str]] = {
    "markdown": _render_markdown,
    "html": _render_html,
    "latex": _render_latex,
}


def render_html_table(frame: pd.DataFrame) -> str:
    """Return a frame of cells as an HTML table. Cells are not escaped."""
    return frame.to_html(index=False, escape=False, border=0)


def render_latex_table(frame: pd.DataFrame, columns: str) -> str:
    """Return a frame of cells as a booktabs table. Text is escaped, but formulas are not.

    If there are two header rows, adjacent equal labels in the upper one are merged.

    Parameters
    ----------
    columns
        The column specification of the LaTeX table.
    """
    styler = frame.style.hide(axis="index")
    styler = styler.format(escape_latex).format_index(escape_latex, axis="columns")
    return styler.to_latex(hrules=True, column_format=columns, multicol_align="c")


def escape_latex(cell: object) -> str:
    """Return a cell as LaTeX, with special characters escaped.

    Text that contains $ is assumed to be LaTeX already.
    """
    text = str(cell)
    if "$" in text:
        return text
    # Merge adjacent formulas that the replacements may create: $\ell$$_1$ becomes $\ell_1$.
    return text.translate(LATEX_ESCAPES).replace("$$", "")
