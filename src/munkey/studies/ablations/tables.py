"""Tables of the ablations (app. D), which change one setting of the method and of its oracle.

A case is named KNOB/VALUE. In all functions, `rows` are the systems that were evaluated in each
case. The last row is the unlearned system, and one of the others is its oracle.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import pandas as pd

from munkey.core.files import write_text
from munkey.report.page.chapters import Chapter, write_chapters
from munkey.report.tables.markup import (
    Markup,
    TitledTable,
    describe_bold,
    describe_statistic,
    find_lowest_gap,
    format_cell,
    get_decimals,
    get_markup,
    make_bold,
    percent,
    render_or_note,
)
from munkey.report.tables.summary import (
    Row,
    describe_diverged_systems,
    read_metrics,
    split_cases,
    summarize,
)

METRICS = ("TA", "RA", "FA", "MIA", "P_s")
ACCURACIES = METRICS[:-1]
# The columns of a summary without cases.
EMPTY_COLUMNS = ["dataset", "rate", "method", "n", "gap_mean", "gap_sd", "case", "knob", "value"]
TITLES = {  # of chapters, by table
    "ablations": "Ablations",
    "aggregation": "Aggregation",
    "strategies": "Strategies",
    "fusion": "Fusion at inference alone",
    "encoders": "Encoders",
}
# The paper's names for its strategies, by case, in the paper's order (tab. 3, app. D.1). Here, each
# fusion has its own trained model.
STRATEGIES = {
    "munkey.architecture/direct-key": "Direct Key",
    "munkey.architecture/deep-prompt": "Deep Prompt",
    "munkey.architecture/cross-attention": "Cross Attention",
    "aggregation/ensemble": "Ensemble",
    "aggregation/softmax": "Softmax",
    "aggregation/rank": "Rank",
}
# Fusions that are only applied at inference, all with the same trained model.
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
        Metrics with the column case; empty if every ablation is switched off.
    """
    if tidy.empty:
        return pd.DataFrame(columns=EMPTY_COLUMNS)
    parts = []
    for case, part in tidy.groupby("case", sort=False):
        summary = summarize(part.drop(columns="case"), rows)
        parts.append(summary.assign(case=case))
    return split_cases(pd.concat(parts, ignore_index=True))


def make_knob_tables(
    summary: pd.DataFrame, rows: Sequence[Row], markup: Markup
) -> Iterator[TitledTable]:
    """Yield one table per data set with all ablations, one row per knob and value.

    The best value of each knob is bold.
    """
    for dataset, part in _select_system(rows[-1].name, summary).groupby("dataset", sort=False):
        table_rows = []
        for knob, values in part.groupby("knob", sort=False):
            best = find_lowest_gap(values)
            for index, row in values.iterrows():
                cells = _format_cells(row, METRICS, markup, bold=index == best)
                table_rows.append([knob, row["value"], *cells])
        columns = ["Knob", "Value", *METRICS, "Avg Gap"]
        yield TitledTable(
            _make_title(str(dataset), part),
            pd.DataFrame(table_rows, columns=columns),
            describe_diverged_systems(part),
        )


def make_variant_tables(
    summary: pd.DataFrame, rows: Sequence[Row], markup: Markup, names: Mapping[str, str]
) -> Iterator[TitledTable]:
    """Yield one table per data set in the layout of the paper's app. D.1.

    The oracle's rows come first, followed by those of the unlearned system.

    Parameters
    ----------
    names
        The names of the cases, in the order in which they are shown.
    """
    unlearned = rows[-1]
    order = list(names)
    categories = {unlearned.oracle: "Retrained", unlearned.name: unlearned.title}
    for dataset, part in summary[summary["case"].isin(order)].groupby("dataset", sort=False):
        best = find_lowest_gap(_select_system(unlearned.name, part))
        in_order = part.sort_values("case", key=lambda case: case.map(order.index))
        table_rows = []
        for system, category in categories.items():
            for index, row in _select_system(system, in_order).iterrows():
                cells = _format_cells(row, METRICS, markup, bold=index == best)
                table_rows.append([category, names[row["case"]], *cells])
        columns = ["Category", "Model variant", *METRICS, "Avg Gap"]
        yield TitledTable(
            _make_title(str(dataset), part),
            pd.DataFrame(table_rows, columns=columns),
            describe_diverged_systems(part),
        )


def make_strategy_tables(
    summary: pd.DataFrame, rows: Sequence[Row], markup: Markup
) -> Iterator[TitledTable]:
    """Yield the paper's table 3: P_s and Avg Gap of each strategy, with data sets side by side.

    If no strategy was run, no table is yielded.
    """
    part = _select_system(rows[-1].name, summary[summary["case"].isin(STRATEGIES)])
    if part.empty:
        return
    measured = set(part["case"])
    present = [case for case in STRATEGIES if case in measured]
    columns = {"Strategy": [STRATEGIES[case] for case in present]}
    for dataset, cases in part.groupby("dataset", sort=False):
        by_case = cases.set_index("case")
        best = find_lowest_gap(by_case)
        sensitivities = []
        gaps = []
        # `reindex` adds empty rows for cases that were run only on other data sets.
        for case, row in by_case.reindex(present).iterrows():
            sensitivity, gap = _format_cells(row, ["P_s"], markup, bold=case == best)
            sensitivities.append(sensitivity)
            gaps.append(gap)
        columns[f"P_s, {dataset}"] = sensitivities
        columns[f"Avg Gap, {dataset}"] = gaps
    yield TitledTable(
        _make_title("P_s and Avg Gap (lower is better)", part),
        pd.DataFrame(columns),
        describe_diverged_systems(part),
    )


def make_encoder_tables(
    summary: pd.DataFrame, rows: Sequence[Row], markup: Markup
) -> Iterator[TitledTable]:
    """Yield one table per data set with all key encoders, oracles first (app. D.2)."""
    unlearned = rows[-1]
    models = {unlearned.oracle: "Retrained ({})", unlearned.name: "Key encoder {}"}
    cases = summary[summary["knob"].isin(["keys", "keys.encoder"])]
    for dataset, part in cases.groupby("dataset", sort=False):
        best = find_lowest_gap(_select_system(unlearned.name, part))
        table_rows = []
        for system, model in models.items():
            for index, row in _select_system(system, part).iterrows():
                cells = _format_cells(row, ACCURACIES, markup, bold=index == best)
                table_rows.append([model.format(row["value"]), *cells])
        columns = ["Model", *ACCURACIES, "Avg Gap"]
        yield TitledTable(
            _make_title(str(dataset), part),
            pd.DataFrame(table_rows, columns=columns),
            describe_diverged_systems(part),
        )


TABLES: dict[str, Callable[[pd.DataFrame, Sequence[Row], Markup], Iterator[TitledTable]]] = {
    "ablations": make_knob_tables,
    "aggregation": partial(make_variant_tables, names=STRATEGIES),
    "strategies": make_strategy_tables,
    # P_s is measured without retrieval, so it is the same for all fusions.
    "fusion": partial(make_variant_tables, names=FUSIONS),
    "encoders": make_encoder_tables,
}


def _select_system(system: str | None, summary: pd.DataFrame) -> pd.DataFrame:
    return summary[summary["method"] == system]


def _format_cells(
    row: pd.Series, metrics: Sequence[str], markup: Markup, *, bold: bool
) -> list[str]:
    """Return the cells of a summary row: the metrics, followed by the gap, which may be bold."""
    cells = [format_cell(row, name, markup, get_decimals(name)) for name in metrics]
    gap = format_cell(row, "gap", markup)
    if bold:
        gap = make_bold(gap, markup)
    return [*cells, gap]


def _make_title(subject: str, part: pd.DataFrame) -> str:
    rates = ", ".join(map(percent, part["rate"].unique()))
    n = int(part["n"].min())
    return f"{subject}: {describe_statistic(n)}, forget rate {rates}; {describe_bold(n)}"


def ablation_tables(
    metrics: list[Path], summary: Path, tables: list[Path], rows: list[Row], chapter: Path
) -> None:
    """Write the tables and chapters of the ablations, and one CSV file with their numbers.

    Parameters
    ----------
    tables
        The files of the tables, named as in TABLES.
    """
    cases = summarize_cases(read_metrics(metrics), rows)
    write_text(summary, cases.to_csv(index=False))
    for path in tables:
        markup = get_markup(path)
        titled = list(TABLES[path.stem](cases, rows, markup))
        write_text(path, render_or_note(titled, markup))
    write_chapters(chapter, make_chapters(cases, rows))


def make_chapters(cases: pd.DataFrame, rows: Sequence[Row]) -> list[Chapter]:
    """Return one chapter for each kind of table."""
    chapters = []
    for name, title in TITLES.items():
        titled = list(TABLES[name](cases, rows, "html"))
        chapters.append(Chapter(name, title, titled, files=["../tables/ablations.csv"]))
    return chapters
