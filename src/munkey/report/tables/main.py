"""The main table of an experiment, and the table of the selection."""

from collections.abc import Sequence

import pandas as pd

from munkey.report.tables.markup import (
    ABSENT,
    Markup,
    TitledTable,
    describe_bold,
    describe_statistic,
    escape_latex,
    find_lowest_gap,
    format_cell,
    format_seed_count,
    make_bold,
    percent,
    render,
    render_latex_table,
)
from munkey.report.tables.runtime import runtime_table
from munkey.report.tables.summary import (
    ABOUT_SHARE,
    GAP_METRICS,
    RESIDUE,
    Residue,
    Row,
    add_differences,
    add_seed_gaps,
    describe_certificates,
    describe_damage,
    describe_diverged_systems,
    describe_underfitting,
    summarize,
)

COLUMNS = (*GAP_METRICS, "Avg Gap")  # for each forget rate
CSS = (
    "body{font:14px system-ui,sans-serif;margin:1.5em}table{border-collapse:collapse}"
    "th,td{padding:.35em .8em;text-align:right;border-bottom:1px solid #ccc;white-space:nowrap}"
    "th:first-child,td:first-child{text-align:left}"
)


def render_all_tables(
    tidy: pd.DataFrame, differences: pd.DataFrame, rows: Sequence[Row]
) -> dict[str, str]:
    """Return all tables of an experiment as text, by the name of the rule's output file.

    The table `datasets` shows each data set only at its largest forget rate.

    Parameters
    ----------
    tidy
        The metrics of all data sets. They may include systems that are not in `rows`, such as
        METHOD-off after a class was forgotten.
    differences
        The result of `munkey.evaluation.paired.compare_systems`.
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
        "runtime": render([runtime_table(summary, rows, "markdown")], "markdown"),
        "runtime_latex": render([runtime_table(summary, rows, "latex")], "latex"),
        "datasets": render_main_table(largest, rows, "markdown"),
    }


def render_main_table(
    summary: pd.DataFrame, rows: Sequence[Row], markup: Markup, residue: Residue | None = None
) -> str:
    """Return the paper's main table as text, with forget rates side by side.

    At each rate, the lowest gap is bold if its mean ± sd overlaps no other method's.

    Parameters
    ----------
    residue
        The column of residual shares, if audits were run. The LaTeX table omits it.
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
    """Return the main table as one table per data set, with one column per metric and rate."""
    rates = sorted(summary["rate"].unique(), reverse=True)
    columns = ["Method"]
    about_share = ""
    if residue:
        columns.append(RESIDUE)
        about_share = f"; {ABOUT_SHARE}"
    for rate in rates:
        columns += [f"{name} @{percent(rate)}" for name in COLUMNS]
    tables = []
    for dataset, part in summary.groupby("dataset", sort=False):
        n = int(part["n"].min())
        cells = _make_cells(part, rates, rows, markup, residue or {})
        title = f"{dataset}: {describe_statistic(n)}, percent; {describe_bold(n)}{about_share}"
        tables.append(
            TitledTable(title, pd.DataFrame(cells, columns=columns), _make_remarks(part, rows))
        )
    return tables


def _make_cells(
    part: pd.DataFrame,
    rates: Sequence[float],
    rows: Sequence[Row],
    markup: Markup,
    residue: Residue,
) -> list[list[str]]:
    """Return the cells of one data set, one list per row. The lowest gap of a rate may be bold."""
    ranked = [row.name for row in rows if row.is_ranked]
    cells_by_name = {row.name: [row.title] for row in rows}
    if residue:
        shares = residue.get(str(part["dataset"].iloc[0]), {})
        for name, cells in cells_by_name.items():
            cells.append(shares.get(name, ABSENT))
    for rate in rates:
        at_rate = part[part["rate"] == rate].set_index("method")
        best = find_lowest_gap(at_rate[at_rate.index.isin(ranked)])
        summary_rows = dict(at_rate.iterrows())
        for name, cells in cells_by_name.items():
            if name not in summary_rows:
                cells.extend([ABSENT] * len(COLUMNS))
                continue
            summary_row = summary_rows[name]
            for metric in GAP_METRICS:
                cells.append(format_cell(summary_row, metric, markup))
            gap = format_cell(summary_row, "gap", markup)
            if name == best:
                gap = make_bold(gap, markup)
            cells.append(gap)
    return list(cells_by_name.values())


def _make_remarks(results: pd.DataFrame, table_rows: Sequence[Row]) -> str:
    """Return the sentences below a data set's table; may be empty."""
    sentences = [
        describe_underfitting(results),
        describe_damage(results, table_rows),
        describe_certificates(results),
        describe_diverged_systems(results),
    ]
    return " ".join(filter(None, sentences))


def _render_latex(summary: pd.DataFrame, rows: Sequence[Row]) -> str:
    """Return all data sets in one LaTeX table, each below a row with its name.

    It needs booktabs and amsmath.
    """
    rates = sorted(summary["rate"].unique(), reverse=True)
    width = 1 + len(COLUMNS) * len(rates)
    table_rows: list[list[str]] = []
    comments = ""
    for dataset, part in summary.groupby("dataset", sort=False):
        remarks = _make_remarks(part, rows)
        if remarks:
            comments += f"% {dataset}: {remarks}\n"
        dataset_rows = _make_cells(part, rates, rows, "latex", {})
        n = format_seed_count(int(part["n"].min())).replace(" seed", "$ seed")
        name = rf"\multicolumn{{{width}}}{{c}}{{{escape_latex(dataset)} (${n})}} \\"
        # pandas cannot write rows that span all columns, so the first cell contains such a row.
        first_cell = "\n".join([name, r"\midrule", escape_latex(dataset_rows[0][0])])
        if table_rows:
            first_cell = "\\midrule\n" + first_cell
        dataset_rows[0][0] = first_cell
        table_rows += dataset_rows
    columns = " ".join(["l", *["cccc c"] * len(rates)])
    frame = pd.DataFrame(table_rows, columns=_make_header(rates))
    return "% needs booktabs, amsmath\n" + comments + render_latex_table(frame, columns)


def _make_header(rates: Sequence[float]) -> pd.MultiIndex:
    """Return a header of two rows: the rates, and the metrics below each rate.

    The first cell of the second row also contains the LaTeX code of the rules between the rows.
    """
    width = len(COLUMNS)
    rules = []
    for number in range(len(rates)):
        first = 2 + number * width
        rules.append(rf"\cmidrule(lr){{{first}-{first + width - 1}}}")
    labels = [("", f"{' '.join(rules)}\nMethod")]
    for rate in rates:
        upper = rf"Forget rate {100 * rate:g}%"
        for name in (*GAP_METRICS, r"Avg Gap $\downarrow$"):
            labels.append((upper, name))
    return pd.MultiIndex.from_tuples(labels)
