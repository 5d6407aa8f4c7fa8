"""Cells and tables in Markdown, HTML and LaTeX."""

from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd

from munkey.core.console import pluralize
from munkey.core.diverged import DIVERGED

Markup = Literal["markdown", "html", "latex"]
ABSENT = "–"
# The metrics in whose cells a table marks a diverged system.
DIVERGED_IN = ("TA", "gap", "unlearn_s")
MARKUP_BY_SUFFIX: dict[str, Markup] = {".md": "markdown", ".html": "html", ".tex": "latex"}
LATEX_ESCAPES = str.maketrans(
    {
        **{"%": r"\%", "_": r"\_", "&": r"\&", "#": r"\#", "<": "$<$", ">": "$>$"},
        **{
            ABSENT: "--",
            "±": r"$\pm$",
            "→": r"$\to$",
            "\N{SCRIPT SMALL L}": r"$\ell$",
            "₁": "$_1$",
        },
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
    """A table that is ready to print.

    Attributes
    ----------
    title
        The title; may be empty.
    frame
        The cells as text, with their markup.
    remark
        A remark below the table; may be empty.
    """

    title: str
    frame: pd.DataFrame
    remark: str = ""


def get_markup(path: str | Path) -> Markup:
    """Return the markup that a file's suffix stands for. Raises KeyError for an unknown suffix."""
    return MARKUP_BY_SUFFIX[Path(path).suffix]


def format_number(value: float | None, digits: int) -> str:
    """Format a number with this many decimals, or as – if it is missing."""
    if value is None or pd.isna(value):
        return ABSENT
    return f"{value:.{digits}f}"


def format_plus_minus(mean: float, sd: float, digits: int = 2) -> str:
    """Format `mean ± sd` as plain text; only `mean` if sd is NaN."""
    if pd.isna(sd):
        return f"{mean:.{digits}f}"
    return f"{mean:.{digits}f} ± {sd:.{digits}f}"


def count_decimals(metric: str) -> int:
    """Return the number of decimals with which the paper prints a metric."""
    if metric == "P_s":
        return 3
    return 2


def format_two_digits(seconds: float) -> str:
    """Format a number with two significant digits: 0.017, 120."""
    return f"{float(f'{seconds:.2g}'):g}"


def format_cell(row: pd.Series, metric: str, markup: Markup, digits: int = 2) -> str:
    """Format `mean ± sd` of a metric in a summary's row; – if it has none.

    If the reason is that the system diverged, the cells of the metrics in DIVERGED_IN say so.
    """
    mean = row.get(f"{metric}_mean", np.nan)
    sd = row.get(f"{metric}_sd", np.nan)
    if pd.isna(mean):
        if metric in DIVERGED_IN and pd.notna(row.get(DIVERGED)):
            return DIVERGED
        return ABSENT
    if markup != "latex":
        return format_plus_minus(mean, sd, digits)
    if pd.isna(sd):
        return f"${mean:.{digits}f}$"
    return rf"${mean:.{digits}f}_{{\pm \text{{\tiny {sd:.{digits}f}}}}}$"


def find_lowest_gap(rows: pd.DataFrame) -> Hashable | None:
    """Return the index of the lowest gap if its mean ± sd overlaps no other's, else None.

    The result is also None for a single seed, which has no sd, and for a single gap.

    Parameters
    ----------
    rows
        A summary with the columns gap_mean and gap_sd. Rows without a gap are ignored.
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


def emphasize(cell: str, markup: Markup) -> str:
    """Make a cell bold."""
    return EMPHASIS[markup].format(cell)


def format_seed_count(n: int) -> str:
    """Format a number of seeds: `n = 3 seeds`, `n = 1 seed`."""
    return f"n = {pluralize(n, 'seed')}"


def describe_statistic(n: int) -> str:
    """Describe the statistic in a table over n seeds; a single seed has no deviation."""
    if n == 1:
        return format_seed_count(n)
    return f"mean ± sd over {format_seed_count(n)}"


def describe_bold_rule(n: int) -> str:
    """Describe which cells are bold in a table over n seeds, for its title."""
    if n == 1:
        return "nothing is bold with one seed"
    return "bold where the lowest Avg Gap ± sd overlaps no other"


def format_percent(rate: float) -> str:
    """Format a share in percent, without trailing zeros: `2 %`, `0.5 %`."""
    return f"{100 * rate:g} %"


def diverged_remark(reasons: Sequence[str]) -> str:
    """Write a sentence on why systems diverged; empty without reasons."""
    if not reasons:
        return ""
    return f"Diverged: {'. '.join(reasons)}."


def render(tables: Sequence[TitledTable], markup: Markup) -> str:
    """Render tables as text, in order."""
    return RENDERERS[markup](tables)


def render_or_note(tables: Sequence[TitledTable], markup: Markup) -> str:
    """Render tables as text, in order, or a sentence that there are none."""
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
        text = f"<h3>{table.title}</h3>\n{html_table(table.frame)}"
        if table.remark:
            text = f"{text}\n<p>{table.remark}</p>"
        texts.append(text)
    return "\n".join(texts) + "\n"


def _render_latex(tables: Sequence[TitledTable]) -> str:
    texts = []
    for table in tables:
        columns = "l" * table.frame.shape[1]
        texts.append(f"% {table.title}\n{latex_table(table.frame, columns)}")
    return "\n".join(texts)


RENDERERS: dict[Markup, Callable[[Sequence[TitledTable]], str]] = {
    "markdown": _render_markdown,
    "html": _render_html,
    "latex": _render_latex,
}


def html_table(frame: pd.DataFrame) -> str:
    """Render a frame of cells as an HTML table, without escaping them."""
    return frame.to_html(index=False, escape=False, border=0)


def latex_table(frame: pd.DataFrame, columns: str) -> str:
    """Render a frame of cells as a booktabs table, in which text is escaped, but formulas are not.

    With two header rows, equal labels in the upper row are merged into one that spans them.

    Parameters
    ----------
    columns
        The alignment of the columns in LaTeX's notation, e.g. "lcc".
    """
    styler = frame.style.hide(axis="index")
    styler = styler.format(escape_latex).format_index(escape_latex, axis="columns")
    return styler.to_latex(hrules=True, column_format=columns, multicol_align="c")


def escape_latex(cell: object) -> str:
    """Escape the special characters of LaTeX in a cell.

    Text with a formula between $ is assumed to be LaTeX already.
    """
    text = str(cell)
    if "$" in text:
        return text
    # Merge adjacent formulas: $\ell$$_1$ becomes $\ell_1$.
    return text.translate(LATEX_ESCAPES).replace("$$", "")
