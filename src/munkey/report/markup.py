"""Cells and tables in Markdown, HTML and LaTeX."""

from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd

Markup = Literal["markdown", "html", "latex"]
ABSENT = "–"
MARKUP_BY_SUFFIX: dict[str, Markup] = {".md": "markdown", ".html": "html", ".tex": "latex"}
LATEX_ESCAPES = str.maketrans({ABSENT: "--", "±": r"$\pm$", "%": r"\%", "_": r"\_", "&": r"\&", "#": r"\#"})
# How the lowest and the second lowest value are marked.
EMPHASIS: dict[Markup, tuple[str, str]] = {
    "markdown": ("**{}**", "<u>{}</u>"),
    "html": ("<b>{}</b>", "<u>{}</u>"),
    "latex": (r"\boldmath{{{}}}", r"\underline{{{}}}"),
}


NOTHING: dict[Markup, str] = {
    "markdown": "None of this was run.\n",
    "html": "<p>None of this was run.</p>\n",
    "latex": "% None of this was run.\n",
}


class Titled(NamedTuple):
    """A table that is ready to print: a title, empty for none, and cells that carry their markup."""

    title: str
    frame: pd.DataFrame


def markup_of(path: str | Path) -> Markup:
    """The markup of a file, by its suffix. Raises KeyError for an unknown suffix."""
    return MARKUP_BY_SUFFIX[Path(path).suffix]


def plus_minus(mean: float, sd: float, digits: int = 2) -> str:
    """`mean ± sd` in plain text, or `mean` alone where there is no standard deviation."""
    return f"{mean:.{digits}f}" + ("" if pd.isna(sd) else f" ± {sd:.{digits}f}")


def cell(line: pd.Series, metric: str, markup: Markup, digits: int = 2) -> str:
    """`mean ± sd` of a metric, – where the line of a summary has none."""
    mean, sd = line.get(f"{metric}_mean", np.nan), line.get(f"{metric}_sd", np.nan)
    if pd.isna(mean):
        return ABSENT
    if markup != "latex":
        return plus_minus(mean, sd, digits)
    return f"${mean:.{digits}f}" + ("$" if pd.isna(sd) else rf"_{{\pm \text{{\tiny {sd:.{digits}f}}}}}$")


def gap_ranks(gaps: "pd.Series[float]") -> dict[Hashable, int]:
    """Ranks of the two lowest gaps, by index: 0 for the lowest as printed, 1 for the next. Equal gaps share a rank."""
    printed = gaps.dropna().round(2)
    order = sorted(printed.unique())[:2]
    return {name: order.index(gap) for name, gap in printed.items() if gap in order}


def emphasized(cell: str, rank: int | None, markup: Markup) -> str:
    """A cell in bold for rank 0, underlined for rank 1."""
    return cell if rank is None else EMPHASIS[markup][rank].format(cell)


def render(tables: Sequence[Titled], markup: Markup) -> str:
    """Tables one after the other."""
    return RENDERERS[markup](tables)


def render_or_say(tables: Sequence[Titled], markup: Markup) -> str:
    """Tables one after the other, or that there are none."""
    return render(tables, markup) if tables else NOTHING[markup]


def _markdown(tables: Sequence[Titled]) -> str:
    texts = [table.frame.to_markdown(index=False, disable_numparse=True) for table in tables]
    headings = [f"### {table.title}\n\n" if table.title else "" for table in tables]
    return "\n\n".join(heading + text for heading, text in zip(headings, texts, strict=True)) + "\n"


def _html(tables: Sequence[Titled]) -> str:
    return "\n".join(f"<h3>{table.title}</h3>\n{html_table(table.frame)}" for table in tables) + "\n"


def _latex(tables: Sequence[Titled]) -> str:
    return "\n".join(f"% {table.title}\n{latex_table(table.frame, 'l' * table.frame.shape[1])}" for table in tables)


RENDERERS: dict[Markup, Callable[[Sequence[Titled]], str]] = {"markdown": _markdown, "html": _html, "latex": _latex}


def html_table(frame: pd.DataFrame) -> str:
    """Cells as an HTML table. Nothing is escaped."""
    return frame.to_html(index=False, escape=False, border=0)


def latex_table(frame: pd.DataFrame, columns: str) -> str:
    """Cells as a booktabs table. Text is escaped, formulas are left alone.

    columns: the alignment of the columns. Equal labels in the upper row of two header rows become one that spans them.
    """
    styler = frame.style.hide(axis="index").format(latex_text).format_index(latex_text, axis="columns")
    return styler.to_latex(hrules=True, column_format=columns, multicol_align="c")


def latex_text(cell: object) -> str:
    """Text with its special characters escaped. Text with a formula between $ is assumed to be LaTeX already."""
    text = str(cell)
    return text if "$" in text else text.translate(LATEX_ESCAPES)
