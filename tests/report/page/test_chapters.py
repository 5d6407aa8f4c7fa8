"""Chapters in files: they are read as they were written, and those of several data sets become one."""

import pandas as pd

from munkey.report.page.chapters import Chapter, Figure, read_chapters, write_chapters
from munkey.report.tables.markup import TitledTable

FIGURE = Figure("tow", "ToW.", "data:image/svg+xml;base64,AAAA", "../tow.svg", "data:narrow")


def chapter(dataset: str) -> Chapter:
    frame = pd.DataFrame({"Method": ["<b>CF</b>", "MUNKEY"], "TA": ["1.00 ± 0.10", "–"]})
    table = TitledTable(dataset, frame, "Diverged: none.")
    files = [f"../scenarios/{dataset}/table.csv"]
    return Chapter("scenarios", "Scenarios", [table], ["docs/scenarios.md."], files, [FIGURE])


def test_a_chapter_is_read_as_it_was_written(tmp_path):
    write_chapters(tmp_path / "chapter.json", [chapter("digits")])
    (restored,) = read_chapters([tmp_path / "chapter.json"])
    assert restored._replace(tables=[]) == chapter("digits")._replace(tables=[])
    (table,) = restored.tables
    (original,) = chapter("digits").tables
    pd.testing.assert_frame_equal(table.frame, original.frame)
    assert (table.title, table.remark) == ("digits", "Diverged: none.")


def test_chapters_of_several_data_sets_become_one_with_each_remark_once(tmp_path):
    paths = [tmp_path / f"{dataset}.json" for dataset in ("digits", "cifar10")]
    for path in paths:
        write_chapters(path, [chapter(path.stem)])
    (joined,) = read_chapters(paths)
    assert [table.title for table in joined.tables] == ["digits", "cifar10"]
    assert joined.remarks == ["docs/scenarios.md."]
    assert len(joined.files) == 2
    assert len(joined.figures) == 2


def test_a_chapter_without_a_table_is_left_out(tmp_path):
    write_chapters(tmp_path / "chapter.json", [Chapter("a", "A", []), chapter("digits")])
    (restored,) = read_chapters([tmp_path / "chapter.json"])
    assert restored.id == "scenarios"
