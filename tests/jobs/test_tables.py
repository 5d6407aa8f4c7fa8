"""A job writes what it is named for, where it is told to."""

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
    drawn = np.random.default_rng(0).integers(50, 100, (4, 6, 4)).tolist()
    measured = tidy(dict(zip([row.name for row in ROWS], drawn, strict=True)))
    write_text(tmp_path / "metrics.csv", add_seed_gaps(measured, ROWS).to_csv(index=False))
    csv, markdown, svg = (tmp_path / f"ranks.{end}" for end in ("csv", "md", "svg"))
    ranks(tmp_path / "metrics.csv", ROWS, csv, markdown, svg)
    ranked = pd.read_csv(csv)
    assert ranked["seed"].tolist() == [*range(6)] and (ranked[TITLES].sum(axis=1) == 6).all()
    assert all(
        title in text for text in (markdown.read_text(), svg.read_text()) for title in TITLES
    )
