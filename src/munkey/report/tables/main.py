"""The tables of a whole experiment: the main table, and the grid of the selection."""

from collections.abc import Sequence

import pandas as pd

from munkey.report.tables.audits import ABOUT_SHARE, RESIDUE, Residue
from munkey.report.tables.markup import (
    ABSENT,
    Markup,
    TitledTable,
    describe_bold_rule,
    describe_statistic,
    emphasize,
    escape_latex,
    find_lowest_gap,
    format_cell,
    format_number,
    format_percent,
    format_seed_count,
    latex_table,
    render,
)
from munkey.report.tables.runtime import make_runtime_table
from munkey.report.tables.summary import (
    GAP_METRICS,
    Row,
    add_differences,
    add_seed_gaps,
    describe_certificates,
    describe_damage,
    describe_diverged,
    describe_underfit,
    summarize,
)

COLUMNS = (*GAP_METRICS, "Avg Gap")  # of each forget rate
CSS = (
    "body{font:14px system-ui,sans-serif;margin:1.5em}table{border-collapse:collapse}"
    "th,td{padding:.35em .8em;text-align:right;border-bottom:1px solid #ccc;white-space:nowrap}"
    "th:first-child,td:first-child{text-align:left}"
)


def render_texts(
    tidy: pd.DataFrame, differences: pd.DataFrame, rows: Sequence[Row]
) -> dict[str, str]:
    """Return all tables of an experiment as text, by the name of the rule's output that each is written to.

    `datasets` shows each data set at its largest rate only.

    Parameters
    ----------
    tidy
        Metrics of all data sets, and of systems that are not rows: METHOD-off, after a request for
        a class.
    differences
        Between systems, as `munkey.evaluation.paired.compare_systems` makes them.
    """
    tidy = add_seed_gaps(tidy, rows)
    numbers = summarize(tidy[tidy["method"].isin([row.name for row in rows])], rows)
    summary = add_differences(numbers, differences)
    largest = summary[summary["rate"] == summary.groupby("dataset")["rate"].transform("max")]
    return {
        "tidy": tidy.to_csv(index=False),
        "csv": numbers.to_csv(index=False),
        "differences": differences.to_csv(index=False),
        "markdown": render_main_table(summary, rows, "markdown"),
        "html": render_main_table(summary, rows, "html"),
        "latex": render_main_table(summary, rows, "latex"),
        "runtime": render([make_runtime_table(summary, rows, "markdown")], "markdown"),
        "runtime_latex": render([make_runtime_table(summary, rows, "latex")], "latex"),
        "datasets": render_main_table(largest, rows, "markdown"),
    }


def render_main_table(
    summary: pd.DataFrame, rows: Sequence[Row], markup: Markup, residue: Residue | None = None
) -> str:
    """Return the paper's main table as text, forget rates side by side.

    The lowest gap is bold if its mean ± sd overlaps no other's.

    Parameters
    ----------
    residue
        The column of residual shares, where audits were run; LaTeX has no such column.
    """
    if markup == "latex":
        return _render_latex(summary, rows)
    text = render(make_main_tables(summary, rows, markup, residue), markup)
    if markup == "html":
        return f"<!doctype html><meta charset='utf-8'><style>{CSS}</style>\n{text}"
    return text


def make_main_tables(
    summary: pd.DataFrame, rows: Sequence[Row], markup: Markup, residue: Residue | None = None
) -> list[TitledTable]:
    """Return the main table as one table per data set, whose columns name both metric and rate."""
    rates = sorted(summary["rate"].unique(), reverse=True)
    columns = ["Method"]
    about_share = ""
    if residue:
        columns.append(RESIDUE)
        about_share = f"; {ABOUT_SHARE}"
    for rate in rates:
        columns += [f"{name} @{format_percent(rate)}" for name in COLUMNS]
    titled = []
    for dataset, part in summary.groupby("dataset", sort=False):
        n = int(part["n"].min())
        lines = _make_lines(part, rates, rows, markup, residue or {})
        title = f"{dataset}: {describe_statistic(n)}, percent; {describe_bold_rule(n)}{about_share}"
        titled.append(
            TitledTable(title, pd.DataFrame(lines, columns=columns), _make_remark(part, rows))
        )
    return titled


def make_selection_table(grid: pd.DataFrame, title: str) -> TitledTable:
    """Return the grid of (p_image, p_token) of a data set, with the reason why each pair was chosen or not.

    Parameters
    ----------
    grid
        The result of `munkey.evaluation.selection.table`.
    """
    lines = []
    for line in grid.to_dict("records"):
        lines.append(
            {
                "p_image": f"{line['p_image']:g}",
                "p_token": f"{line['p_token']:g}",
                "P_s": format_number(line["P_s"], 3),
                "Validation gap": format_number(line["gap"], 2),
                "Why": line["reason"],
            }
        )
    return TitledTable(title, pd.DataFrame(lines))


def _make_lines(
    part: pd.DataFrame,
    rates: Sequence[float],
    rows: Sequence[Row],
    markup: Markup,
    residue: Residue,
) -> list[list[str]]:
    """Return the cells of every row for one data set; the lowest gap at each rate is bold as in `lowest`.

    Parameters
    ----------
    part
        The lines of a summary for that data set.
    """
    absent = [ABSENT] * len(COLUMNS)
    ranked = [row.name for row in rows if row.is_ranked]
    lines = {row.name: [row.title] for row in rows}
    if residue:
        shares = residue.get(str(part["dataset"].iloc[0]), {})
        for name, cells in lines.items():
            cells.append(shares.get(name, ABSENT))
    for rate in rates:
        at_rate = part[part["rate"] == rate].set_index("method")
        best = find_lowest_gap(at_rate[at_rate.index.isin(ranked)])
        summary_lines = dict(at_rate.iterrows())
        for name, cells in lines.items():
            if name not in summary_lines:
                cells.extend(absent)
                continue
            numbers = summary_lines[name]
            for metric in GAP_METRICS:
                cells.append(format_cell(numbers, metric, markup))
            gap = format_cell(numbers, "gap", markup)
            if name == best:
                gap = emphasize(gap, markup)
            cells.append(gap)
    return list(lines.values())


def _make_remark(part: pd.DataFrame, rows: Sequence[Row]) -> str:
    """Return all sentences that stand below the table of one data set; empty if there are none."""
    sentences = [
        describe_underfit(part),
        describe_damage(part, rows),
        describe_certificates(part),
        describe_diverged(part),
    ]
    return " ".join(filter(None, sentences))


def _render_latex(summary: pd.DataFrame, rows: Sequence[Row]) -> str:
    """Return all data sets in one LaTeX table, each under a row with its name.

    pandas writes no rows that span all columns, so that row, and the rules around it, are LaTeX in
    the first cell of the first line of a data set. The table needs booktabs and amsmath.
    """
    rates = sorted(summary["rate"].unique(), reverse=True)
    width = 1 + len(COLUMNS) * len(rates)
    lines: list[list[str]] = []
    remarks = ""
    for dataset, part in summary.groupby("dataset", sort=False):
        remark = _make_remark(part, rows)
        if remark:
            remarks += f"% {dataset}: {remark}\n"
        dataset_lines = _make_lines(part, rates, rows, "latex", {})
        n = format_seed_count(int(part["n"].min())).replace(" seed", "$ seed")
        name = rf"\multicolumn{{{width}}}{{c}}{{{escape_latex(dataset)} (${n})}} \\"
        first_cell = "\n".join([name, r"\midrule", escape_latex(dataset_lines[0][0])])
        if lines:
            first_cell = "\\midrule\n" + first_cell
        dataset_lines[0][0] = first_cell
        lines += dataset_lines
    columns = " ".join(["l", *["cccc c"] * len(rates)])
    frame = pd.DataFrame(lines, columns=_make_header(rates))
    return "% needs booktabs, amsmath\n" + remarks + latex_table(frame, columns)


def _make_header(rates: Sequence[float]) -> pd.MultiIndex:
    """Return the table's head of two rows: the rates, and below each its metrics.

    The rules between the two rows are LaTeX in the first cell of the second row.
    """
    width = len(COLUMNS)
    rules = []
    for number in range(len(rates)):
        first = 2 + number * width
        rules.append(rf"\cmidrule(lr){{{first}-{first + width - 1}}}")
    labels = [("", f"{' '.join(rules)}\nMethod")]
    for rate in rates:
        upper = rf"Random forget ({100 * rate:g}\,%)"
        for name in (*GAP_METRICS, r"Avg Gap $\downarrow$"):
            labels.append((upper, name))
    return pd.MultiIndex.from_tuples(labels)
