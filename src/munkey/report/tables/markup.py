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
# metrics in whose place a table says that a system diverged
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
    """A table that is ready to print: a title (may be empty), cells that carry their markup, and a remark below."""

    title: str
    frame: pd.DataFrame
    remark: str = ""


def get_markup(path: str | Path) -> Markup:
    """Return the markup of a file, by its suffix. Raises KeyError for an unknown suffix."""
    return MARKUP_BY_SUFFIX[Path(path).suffix]


def format_number(value: float | None, digits: int) -> str:
    """Format a number with this many decimals, or as – if it is missing."""
    if value is None or pd.isna(value):
        return ABSENT
    return f"{value:.{digits}f}"


def format_plus_minus(mean: float, sd: float, digits: int = 2) -> str:
    """Return `mean ± sd` in plain text; `mean` alone without a standard deviation."""
    if pd.isna(sd):
        return f"{mean:.{digits}f}"
    return f"{mean:.{digits}f} ± {sd:.{digits}f}"


def count_decimals(metric: str) -> int:
    """Return how many decimals the paper prints of a metric."""
    if metric == "P_s":
        return 3
    return 2


def format_two_digits(seconds: float) -> str:
    """Return a number with two digits that count: 0.017, 120."""
    return f"{float(f'{seconds:.2g}'):g}"


def format_cell(line: pd.Series, metric: str, markup: Markup, digits: int = 2) -> str:
    """Return `mean ± sd` of a metric; – where a summary has none.

    If that is since the system diverged, the metrics in DIVERGED_IN say so.
    """
    mean = line.get(f"{metric}_mean", np.nan)
    sd = line.get(f"{metric}_sd", np.nan)
    if pd.isna(mean):
        if metric in DIVERGED_IN and pd.notna(line.get(DIVERGED)):
            return DIVERGED
        return ABSENT
    if markup != "latex":
        return format_plus_minus(mean, sd, digits)
    if pd.isna(sd):
        return f"${mean:.{digits}f}$"
    return rf"${mean:.{digits}f}_{{\pm \text{{\tiny {sd:.{digits}f}}}}}$"


def find_lowest_gap(lines: pd.DataFrame) -> Hashable | None:
    """Return the index of the lowest gap if its mean ± sd overlaps no other's, else None.

    The result is None for one seed, which has no sd, and for a single line, which has no rival.

    Parameters
    ----------
    lines
        A summary with the columns gap_mean and gap_sd; lines without a gap do not count.
    """
    gaps = lines.dropna(subset="gap_mean").sort_values("gap_mean", kind="stable")
    if len(gaps) < 2 or gaps["gap_sd"].isna().any():
        return None
    mean = gaps["gap_mean"].round(2)  # as printed
    sd = gaps["gap_sd"].round(2)
    overlaps = mean.iloc[0] + sd.iloc[0] >= (mean - sd).iloc[1:].min()
    if overlaps:
        return None
    return gaps.index[0]


def emphasize(cell: str, markup: Markup) -> str:
    """Return a cell in bold."""
    return EMPHASIS[markup].format(cell)


def format_seed_count(n: int) -> str:
    """Return the number of seeds in words: `n = 3 seeds`, `n = 1 seed`."""
    return f"n = {pluralize(n, 'seed')}"


def describe_statistic(n: int) -> str:
    """Return in words which statistic a table over n seeds shows; one seed has no deviation."""
    if n == 1:
        return format_seed_count(n)
    return f"mean ± sd over {format_seed_count(n)}"


def describe_bold_rule(n: int) -> str:
    """Return the rule for bold cells in a table over n seeds, for its title."""
    if n == 1:
        return "nothing is bold with one seed"
    return "bold where the lowest Avg Gap ± sd overlaps no other"


def format_percent(rate: float) -> str:
    """Return a share in percent, without digits that say nothing: `2 %`, `0.5 %`."""
    return f"{100 * rate:g} %"


def diverged_remark(reasons: Sequence[str]) -> str:
    """Return a sentence that lists what diverged and why; empty for no reasons."""
    if not reasons:
        return ""
    return f"Diverged: {'. '.join(reasons)}."


def render(tables: Sequence[TitledTable], markup: Markup) -> str:
    """Return tables as text, in order."""
    return RENDERERS[markup](tables)


def render_or_note(tables: Sequence[TitledTable], markup: Markup) -> str:
    """Return tables as text, in order, or a sentence that there are none."""
    if not tables:
        return NOTHING[markup]
    return render(tables, markup)


def _markdown(tables: Sequence[TitledTable]) -> str:
    texts = []
    for table in tables:
        text = table.frame.to_markdown(index=False, disable_numparse=True)
        if table.title:
            text = f"### {table.title}\n\n{text}"
        if table.remark:
            text = f"{text}\n\n{table.remark}"
        texts.append(text)
    return "\n\n".join(texts) + "\n"


def _html(tables: Sequence[TitledTable]) -> str:
    texts = []
    for table in tables:
        text = f"<h3>{table.title}</h3>\n{html_table(table.frame)}"
        if table.remark:
            text = f"{text}\n<p>{table.remark}</p>"
        texts.append(text)
    return "\n".join(texts) + "\n"


def _latex(tables: Sequence[TitledTable]) -> str:
    texts = []
    for table in tables:
        columns = "l" * table.frame.shape[1]
        texts.append(f"% {table.title}\n{latex_table(table.frame, columns)}")
    return "\n".join(texts)


RENDERERS: dict[Markup, Callable[[Sequence[TitledTable]], str]] = {
    "markdown": _markdown,
    "html": _html,
    "latex": _latex,
}


def html_table(frame: pd.DataFrame) -> str:
    """Return a frame of cells as an HTML table; nothing is escaped."""
    return frame.to_html(index=False, escape=False, border=0)


def latex_table(frame: pd.DataFrame, columns: str) -> str:
    """Return a frame of cells as a booktabs table; text is escaped, formulas are left alone.

    Equal labels in the upper row of two header rows become one that spans them.

    Parameters
    ----------
    columns
        The alignment of the columns, as LaTeX wants it.
    """
    styler = frame.style.hide(axis="index")
    styler = styler.format(escape_latex).format_index(escape_latex, axis="columns")
    return styler.to_latex(hrules=True, column_format=columns, multicol_align="c")


def escape_latex(cell: object) -> str:
    """Return a cell as LaTeX, with its special characters escaped.

    Text with a formula between $ is assumed to be LaTeX already.
    """
    text = str(cell)
    if "$" in text:
        return text
    # Escapes may put two formulas side by side, which become one: $\ell$$_1$ is $\ell_1$.
    return text.translate(LATEX_ESCAPES).replace("$$", "")
