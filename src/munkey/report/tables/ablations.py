"""Tables of the ablations (app. D): the method with one thing changed, against an oracle with the same change.

A case is named KNOB/VALUE. In all functions, rows are the systems that were evaluated in each case.
The last row is the system after unlearning, and its oracle is one of the others.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import pandas as pd

from munkey.core.files import read_table
from munkey.report.tables.markup import (
    Markup,
    TitledTable,
    count_decimals,
    describe_bold_rule,
    describe_statistic,
    emphasize,
    find_lowest_gap,
    format_cell,
    format_percent,
)
from munkey.report.tables.summary import Row, describe_diverged, summarize

METRICS = ("TA", "RA", "FA", "MIA", "P_s")
ACCURACIES = METRICS[:-1]
# Columns of a summary without any case.
EMPTY_COLUMNS = ["dataset", "rate", "method", "n", "gap_mean", "gap_sd", "case", "knob", "value"]
# The paper's names for its strategies by case, in the paper's order (tab. 3, app. D.1). Fusions are
# trained apart.
STRATEGIES = {
    "munkey.architecture/direct-key": "Direct Key",
    "munkey.architecture/deep-prompt": "Deep Prompt",
    "munkey.architecture/cross-attention": "Cross Attention",
    "aggregation/ensemble": "Ensemble",
    "aggregation/softmax": "Softmax",
    "aggregation/rank": "Rank",
}
# The fusions of one model, at inference alone.
FUSIONS = {
    "inference.fusion/ensemble": "Ensemble",
    "inference.fusion/softmax": "Softmax",
    "inference.fusion/rank": "Rank",
}


def summarize_cases(tidy: pd.DataFrame, rows: Sequence[Row]) -> pd.DataFrame:
    """Return the concatenated summaries of all cases, with the columns case, knob and value.

    Parameters
    ----------
    tidy
        Metrics with the column case; empty where every ablation is switched off.
    """
    if tidy.empty:
        return pd.DataFrame(columns=EMPTY_COLUMNS)
    parts = []
    for case, part in tidy.groupby("case", sort=False):
        summary = summarize(part.drop(columns="case"), rows)
        parts.append(summary.assign(case=case))
    return _with_knobs(pd.concat(parts, ignore_index=True))


def read_summary(path: str | Path) -> pd.DataFrame:
    """Return a table from its CSV file.

    In a summary of cases (`summarize_cases`), the values of the knobs are text, also where they
    look like numbers.
    """
    table = read_table(path)
    if "case" not in table:
        return table
    return _with_knobs(table)


def _with_knobs(summary: pd.DataFrame) -> pd.DataFrame:
    """Return a summary with the columns knob and value, split from the case KNOB/VALUE."""
    named = summary["case"].astype(object).str.split("/", n=1)
    return summary.assign(knob=named.str[0], value=named.str[1])


def make_knob_tables(
    summary: pd.DataFrame, rows: Sequence[Row], markup: Markup
) -> Iterator[TitledTable]:
    """Yield all ablations of each data set: a line per knob and value, the best value of a knob in bold."""
    for dataset, part in _select_system(rows[-1].name, summary).groupby("dataset", sort=False):
        lines = []
        for knob, values in part.groupby("knob", sort=False):
            best = find_lowest_gap(values)
            for index, line in values.iterrows():
                cells = _format_cells(line, METRICS, markup, bold=index == best)
                lines.append([knob, line["value"], *cells])
        columns = ["Knob", "Value", *METRICS, "Avg Gap"]
        yield TitledTable(
            _make_title(str(dataset), part),
            pd.DataFrame(lines, columns=columns),
            describe_diverged(part),
        )


def _make_oracle_first_tables(
    summary: pd.DataFrame, rows: Sequence[Row], markup: Markup, names: Mapping[str, str]
) -> Iterator[TitledTable]:
    """Yield a table per data set in the paper's layout of app. D.1: the oracle's lines, then those after unlearning.

    Parameters
    ----------
    names
        Names of the cases to show, in the order to show them in.
    """
    unlearned = rows[-1]
    order = list(names)
    categories = {unlearned.oracle: "Retrained", unlearned.name: unlearned.title}
    for dataset, part in summary[summary["case"].isin(order)].groupby("dataset", sort=False):
        best = find_lowest_gap(_select_system(unlearned.name, part))
        in_order = part.sort_values("case", key=lambda case: case.map(order.index))
        lines = []
        for system, category in categories.items():
            for index, line in _select_system(system, in_order).iterrows():
                cells = _format_cells(line, METRICS, markup, bold=index == best)
                lines.append([category, names[line["case"]], *cells])
        columns = ["Category", "Model variant", *METRICS, "Avg Gap"]
        yield TitledTable(
            _make_title(str(dataset), part),
            pd.DataFrame(lines, columns=columns),
            describe_diverged(part),
        )


def make_strategy_tables(
    summary: pd.DataFrame, rows: Sequence[Row], markup: Markup
) -> Iterator[TitledTable]:
    """Yield the paper's table 3: P_s and Avg Gap of each strategy, data sets side by side.

    If no strategy was run, there is no table.
    """
    part = _select_system(rows[-1].name, summary[summary["case"].isin(STRATEGIES)])
    if part.empty:
        return
    measured = set(part["case"])
    present = [case for case in STRATEGIES if case in measured]
    columns = {"Strategy": [STRATEGIES[case] for case in present]}
    for dataset, cases in part.groupby("dataset", sort=False):
        lines = cases.set_index("case")
        best = find_lowest_gap(lines)
        sensitivities = []
        gaps = []
        # reindex: a case that only another data set has is a line without numbers
        for case, line in lines.reindex(present).iterrows():
            sensitivity, gap = _format_cells(line, ["P_s"], markup, bold=case == best)
            sensitivities.append(sensitivity)
            gaps.append(gap)
        columns[f"P_s, {dataset}"] = sensitivities
        columns[f"Avg Gap, {dataset}"] = gaps
    yield TitledTable(
        _make_title("P_s and Avg Gap (lower is better)", part),
        pd.DataFrame(columns),
        describe_diverged(part),
    )


def make_encoder_tables(
    summary: pd.DataFrame, rows: Sequence[Row], markup: Markup
) -> Iterator[TitledTable]:
    """Yield a table per data set as in the paper's app. D.2: all key encoders, oracles first."""
    unlearned = rows[-1]
    models = {unlearned.oracle: "Retrained ({})", unlearned.name: "Key encoder {}"}
    cases = summary[summary["knob"].isin(["keys", "keys.encoder"])]
    for dataset, part in cases.groupby("dataset", sort=False):
        best = find_lowest_gap(_select_system(unlearned.name, part))
        lines = []
        for system, model in models.items():
            for index, line in _select_system(system, part).iterrows():
                cells = _format_cells(line, ACCURACIES, markup, bold=index == best)
                lines.append([model.format(line["value"]), *cells])
        columns = ["Model", *ACCURACIES, "Avg Gap"]
        yield TitledTable(
            _make_title(str(dataset), part),
            pd.DataFrame(lines, columns=columns),
            describe_diverged(part),
        )


TABLES: dict[str, Callable[[pd.DataFrame, Sequence[Row], Markup], Iterator[TitledTable]]] = {
    "ablations": make_knob_tables,
    "aggregation": partial(_make_oracle_first_tables, names=STRATEGIES),
    "strategies": make_strategy_tables,
    # P_s retrieves nothing, so it is the same for all of them
    "fusion": partial(_make_oracle_first_tables, names=FUSIONS),
    "encoders": make_encoder_tables,
}


def _select_system(system: str | None, summary: pd.DataFrame) -> pd.DataFrame:
    return summary[summary["method"] == system]


def _format_cells(
    line: pd.Series, metrics: Sequence[str], markup: Markup, *, bold: bool
) -> list[str]:
    """Return the cells of the metrics of a line of a summary, then that of its gap, bold if it is the best."""
    cells = [format_cell(line, name, markup, count_decimals(name)) for name in metrics]
    gap = format_cell(line, "gap", markup)
    if bold:
        gap = emphasize(gap, markup)
    return [*cells, gap]


def _make_title(subject: str, part: pd.DataFrame) -> str:
    rates = ", ".join(map(format_percent, part["rate"].unique()))
    n = int(part["n"].min())
    return f"{subject}: {describe_statistic(n)}, forget rate {rates}; {describe_bold_rule(n)}"
