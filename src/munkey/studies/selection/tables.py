"""The table of the selection: why each (p_image, p_token) was chosen or not."""

from pathlib import Path

import pandas as pd

from munkey.core.files import read_table, write_text
from munkey.report.page.chapters import Chapter, write_chapters
from munkey.report.tables.markup import TitledTable, format_number, format_seed_count, render


def make_selection_table(grid: pd.DataFrame, title: str) -> TitledTable:
    """Return a data set's grid of (p_image, p_token), with the reason for each decision.

    Parameters
    ----------
    grid
        The result of `munkey.studies.selection.pairs.make_table`.
    """
    table_rows = []
    for pair in grid.to_dict("records"):
        table_rows.append(
            {
                "p_image": f"{pair['p_image']:g}",
                "p_token": f"{pair['p_token']:g}",
                "P_s": format_number(pair["P_s"], 3),
                "Validation gap": format_number(pair["gap"], 2),
                "Why": pair["reason"],
            }
        )
    return TitledTable(title, pd.DataFrame(table_rows))


def selection_tables(table: Path, dataset: str, markdown: Path, chapter: Path) -> None:
    """Write the table and the chapter on why each (p_image, p_token) was chosen or not.

    Parameters
    ----------
    table
        The table of decisions that `select` wrote.
    """
    grid = read_table(table)
    title = f"{dataset}: means over {format_seed_count(int(grid['n'].iloc[0]))}"
    write_text(markdown, render([make_selection_table(grid, title)], "markdown"))
    heading = "Selection of p_image and p_token"
    tables = [make_selection_table(grid, dataset)]
    files = [f"../selection/{dataset}/table.csv"]
    write_chapters(chapter, [Chapter("selection", heading, tables, files=files)])
