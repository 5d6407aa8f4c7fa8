"""The job of ranks writes its table and figure."""

import numpy as np
import pandas as pd

from munkey.core.files import write_text
from munkey.jobs.tables import ranks
from munkey.report.tables.summary import Row, add_seed_gaps
from tests.report.inputs import tidy

TITLES = ["CF", "SCRUB", "SSD"]
ROWS = [
    Row("retrain-t", "Retrain (T)", None),
    *(Row(title.lower(), title, "retrain-t") for title in TITLES),
]


def test_ranks_are_a_csv_a_table_and_a_figure(tmp_path):
    values = np.random.default_rng(0).integers(50, 100, (4, 6, 4)).tolist()
    metrics = tidy(dict(zip([row.name for row in ROWS], values, strict=True)))
    write_text(tmp_path / "metrics.csv", add_seed_gaps(metrics, ROWS).to_csv(index=False))
    csv = tmp_path / "ranks.csv"
    markdown = tmp_path / "ranks.md"
    svg = tmp_path / "ranks.svg"
    ranks(tmp_path / "metrics.csv", ROWS, csv, markdown, svg)
    table = pd.read_csv(csv)
    assert table["seed"].tolist() == [*range(6)]
    assert (table[TITLES].sum(axis=1) == 6).all()
    for text in (markdown.read_text(), svg.read_text()):
        for title in TITLES:
            assert title in text
