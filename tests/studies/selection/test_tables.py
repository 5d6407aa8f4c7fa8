"""The table and the chapter of the selection."""

import pandas as pd

from munkey.core.files import write_text
from munkey.report.page.chapters import read_chapters
from munkey.studies.selection.tables import make_selection_table, selection_tables


def test_the_table_of_the_selection_shows_every_pair_with_its_reason():
    pairs = {"p_image": [0.1, 0.3], "p_token": [0.2, 0.1], "P_s": [0.05, 0.25]}
    grid = pd.DataFrame(pairs | {"gap": [3.0, 1.004], "TA": [90.0, 91.0]})
    grid["reason"] = ["too far", "chosen: smallest gap"]
    title, frame, _ = make_selection_table(grid, "digits")
    assert title == "digits"
    assert list(frame) == ["p_image", "p_token", "P_s", "Validation gap", "Why"]
    assert frame.to_numpy().tolist() == [
        ["0.1", "0.2", "0.050", "3.00", "too far"],
        ["0.3", "0.1", "0.250", "1.00", "chosen: smallest gap"],
    ]


def test_the_chapter_shows_the_table_and_links_its_file(tmp_path):
    pair = {"dataset": "digits", "p_image": 0.1, "p_token": 0.1, "P_s": 0.1, "gap": 1.0}
    table = pd.DataFrame([pair | {"reason": "why", "n": 2}])
    write_text(tmp_path / "table.csv", table.to_csv(index=False))
    files = {name: tmp_path / name for name in ("markdown", "chapter")}
    selection_tables(tmp_path / "table.csv", "digits", **files)
    (chapter,) = read_chapters([tmp_path / "chapter"])
    assert chapter.tables[0].title == "digits"
    assert "why" in chapter.tables[0].frame.values
    assert chapter.files == ["../selection/digits/table.csv"]
