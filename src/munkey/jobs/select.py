"""The choice of p_image and p_token from the metrics of a grid (app. E)."""

from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from munkey.core.files import read_table, write_csv, write_json, write_text
from munkey.evaluation import selection
from munkey.report.tables.main import selection_table
from munkey.report.tables.markup import render, seeds
from munkey.settings import SelectionSettings


def select(
    metrics: Path,
    chosen: Path,
    table: Path,
    markdown: Path,
    latex: Path,
    dataset: str,
    settings: SelectionSettings,
    pairs: Mapping[str, Mapping[str, float]],
    systems: selection.Systems,
    required: bool,
) -> None:
    """Choose p_image and p_token for a data set, and say why each pair was chosen or not.

    pairs: the grid by case; required: whether a training waits for the choice, so that there must be one.
    """
    tidy = read_table(metrics)
    verdicts = selection.select(selection.pairs_of(tidy, pairs, systems), settings, required)
    best = selection.chosen(verdicts)
    print(f"chosen: {best or 'none, no pair passes'}")
    lines = selection.table(dataset, verdicts, selection.means_after(tidy, pairs, systems))
    write_csv(table, lines)
    write_json(chosen, {"chosen": best and {"p_image": best.p_image, "p_token": best.p_token}})
    titled = [selection_table(pd.DataFrame(lines), f"{dataset}: means over {seeds(int(str(lines[0]['n'])))}")]
    write_text(markdown, render(titled, "markdown"))
    write_text(latex, render(titled, "latex"))
