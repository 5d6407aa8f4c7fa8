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

COLUMNS = (*GAP_METRICS, "Avg Gap")  # for each forget rate
CSS = (
    "body{font:14px system-ui,sans-serif;margin:1.5em}table{border-collapse:collapse}"
    "th,td{padding:.35em .8em;text-align:right;border-bottom:1px solid #ccc;white-space:nowrap}"
    "th:first-child,td:first-child{text-align:left}"
)


def render_texts(
    tidy: pd.DataFrame, differences: pd.DataFrame, rows: Sequence[Row]
) -> dict[str, str]:
    """Render all tables of an experiment as text, by the name of the output that each is written to.

    The table `datasets` has only the largest rate of each data set.

    Parameters
    ----------
    tidy
        The metrics of all data sets, also of systems without a row, such as METHOD-off after a
        request for a class.
    differences
        The differences between systems, from `munkey.evaluation.paired.compare_systems`.
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
    summary: pd.DataFrame, systems: Sequence[Row], markup: Markup, residue: Residue | None = None
) -> str:
    """Render the paper's main table as text, with the forget rates side by side.

    The lowest gap is bold if its mean ± sd overlaps no other's.

    Parameters
    ----------
    residue
        The column of residual shares, if audits were run. It is omitted in LaTeX.
    """
    if markup == "latex":
        return _render_latex(summary, systems)
    text = render(make_main_tables(summary, systems, markup, residue), markup)
    if markup == "html":
        return f"<!doctype html><meta charset='utf-8'><style>{CSS}</style>\n{text}"
    return text


def make_main_tables(
    summary: pd.DataFrame, systems: Sequence[Row], markup: Markup, residue: Residue | None = None
) -> list[TitledTable]:
    """Make the main table: one table per data set, with a column for each metric at each rate."""
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
        rows = _make_rows(part, rates, systems, markup, residue or {})
        title = f"{dataset}: {describe_statistic(n)}, percent; {describe_bold_rule(n)}{about_share}"
        titled.append(
            TitledTable(title, pd.DataFrame(rows, columns=columns), _make_remark(part, systems))
        )
    return titled


def make_selection_table(grid: pd.DataFrame, title: str) -> TitledTable:
    """Make a table of a data set's grid of (p_image, p_token), and why each pair was chosen or not.

    Parameters
    ----------
    grid
        The result of `munkey.evaluation.selection.make_table`.
    """
    rows = []
    for row in grid.to_dict("records"):
        rows.append(
            {
                "p_image": f"{row['p_image']:g}",
                "p_token": f"{row['p_token']:g}",
                "P_s": format_number(row["P_s"], 3),
                "Validation gap": format_number(row["gap"], 2),
                "Why": row["reason"],
            }
        )
    return TitledTable(title, pd.DataFrame(rows))


def _make_rows(
    part: pd.DataFrame,
    rates: Sequence[float],
    systems: Sequence[Row],
    markup: Markup,
    residue: Residue,
) -> list[list[str]]:
    """Make the rows of one data set's table. A bold gap at each rate is that of `find_lowest_gap`.

    Parameters
    ----------
    part
        The rows of a summary for that data set.
    """
    absent = [ABSENT] * len(COLUMNS)
    ranked = [system.name for system in systems if system.is_ranked]
    rows = {system.name: [system.title] for system in systems}
    if residue:
        shares = residue.get(str(part["dataset"].iloc[0]), {})
        for name, cells in rows.items():
            cells.append(shares.get(name, ABSENT))
    for rate in rates:
        at_rate = part[part["rate"] == rate].set_index("method")
        best = find_lowest_gap(at_rate[at_rate.index.isin(ranked)])
        summary_rows = dict(at_rate.iterrows())
        for name, cells in rows.items():
            if name not in summary_rows:
                cells.extend(absent)
                continue
            numbers = summary_rows[name]
            for metric in GAP_METRICS:
                cells.append(format_cell(numbers, metric, markup))
            gap = format_cell(numbers, "gap", markup)
            if name == best:
                gap = emphasize(gap, markup)
            cells.append(gap)
    return list(rows.values())


def _make_remark(part: pd.DataFrame, systems: Sequence[Row]) -> str:
    """Write the remark below the table of one data set; empty if there is nothing to remark."""
    sentences = [
        describe_underfit(part),
        describe_damage(part, systems),
        describe_certificates(part),
        describe_diverged(part),
    ]
    return " ".join(filter(None, sentences))


def _render_latex(summary: pd.DataFrame, systems: Sequence[Row]) -> str:
    """Render all data sets in one LaTeX table, each below a row with its name.

    pandas cannot write rows that span all columns. Therefore, that row and the rules around it are
    LaTeX code in the first cell of a data set's first row. The table needs booktabs and amsmath.
    """
    rates = sorted(summary["rate"].unique(), reverse=True)
    width = 1 + len(COLUMNS) * len(rates)
    rows: list[list[str]] = []
    remarks = ""
    for dataset, part in summary.groupby("dataset", sort=False):
        remark = _make_remark(part, systems)
        if remark:
            remarks += f"% {dataset}: {remark}\n"
        dataset_rows = _make_rows(part, rates, systems, "latex", {})
        n = format_seed_count(int(part["n"].min())).replace(" seed", "$ seed")
        name = rf"\multicolumn{{{width}}}{{c}}{{{escape_latex(dataset)} (${n})}} \\"
        first_cell = "\n".join([name, r"\midrule", escape_latex(dataset_rows[0][0])])
        if rows:
            first_cell = "\\midrule\n" + first_cell
        dataset_rows[0][0] = first_cell
        rows += dataset_rows
    columns = " ".join(["l", *["cccc c"] * len(rates)])
    frame = pd.DataFrame(rows, columns=_make_header(rates))
    return "% needs booktabs, amsmath\n" + remarks + latex_table(frame, columns)


def _make_header(rates: Sequence[float]) -> pd.MultiIndex:
    """Make the two rows of the table's header: the rates, and below each its metrics.

    The rules between the two rows are LaTeX code in the first cell of the second row.
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
