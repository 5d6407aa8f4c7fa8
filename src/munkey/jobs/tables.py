"""Tables of the main run."""

from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from munkey.core.files import read_table, write_text
from munkey.report.figures import theme
from munkey.report.figures.charts import PAPERS_METHOD
from munkey.report.figures.ranks import rank_diagram
from munkey.report.tables import main
from munkey.report.tables.markup import render
from munkey.report.tables.ranks import make_rank_table, rank_by_title
from munkey.report.tables.summary import Row, read_metrics


def tables(
    metrics: list[Path],
    dataset_differences: list[Path],
    rows: list[Row],
    outputs: Mapping[str, Path],
) -> None:
    """Write the CSV files of all metrics and differences, and the tables that show them.

    Parameters
    ----------
    dataset_differences
        The differences between systems, in one file for each data set.
    outputs
        The files of the tables, by their names in `main.render_all_tables`.
    """
    differences = pd.concat(map(read_table, dataset_differences), ignore_index=True)
    texts = main.render_all_tables(read_metrics(metrics), differences, rows)
    for output, text in texts.items():
        write_text(outputs[output], text)


def ranks(metrics: Path, rows: list[Row], csv: Path, markdown: Path, svg: Path) -> None:
    """Rank the methods by the gaps of all seeds, in a table and a critical-difference diagram."""
    method_ranks = rank_by_title(read_table(metrics), rows)
    write_text(csv, method_ranks.to_csv())
    write_text(markdown, render([make_rank_table(method_ranks, rows)], "markdown"))
    theme.save(rank_diagram(method_ranks, PAPERS_METHOD), svg.with_suffix(""))
