"""The chapter of audits."""

import base64

import numpy as np
import pandas as pd
import pytest

from munkey.core.files import write_csv, write_json, write_text
from munkey.report.page.chapters import Chapter, read_chapters
from munkey.studies.audits.table_jobs import audit_chapter
from tests.report.inputs import ROWS, tidy

LINE = {
    "flagged": "share",
    "title": "SCRUB",
    "role": "method",
    "path": "deployed",
    "pairs": 8,
    "share": 55.0,
    "share_low": 23.1,
}
LINE |= {
    "family": "vit",
    "share_high": 77.8,
    "chance": 17.0,
    "p": 0.004,
    "verdict": "residue",
    "words": "residue: 55% is left",
}


@pytest.fixture
def audit_folder(tmp_path):
    """The folder of an audit: its controls, pictures, what its files hold, and attacks on one model."""
    folder = tmp_path / "digits"
    write_json(
        folder / "controls.json",
        {"vit": ["oracle passed, as it must", "sham was flagged, but must not"]},
    )
    write_text(folder / "shares.svg", "picture")
    write_text(folder / "strata.svg", "strata")
    key = {
        "dataset": "digits",
        "rate": 0.1,
        "seed": 0,
        "method": "munkey",
        "title": "MUNKEY",
        "why": np.nan,
    }
    stored = [
        key | {"file": file, "ids": n, "ids_of": 3, "rows": 2 * n, "rows_of": 6}
        for file, n in (("original", 3), ("unlearned", 0))
    ]
    write_csv(folder / "storage.csv", stored)
    key = {"dataset": "digits", "rate": 0.1, "method": "scrub", "attack": "loss"}
    attacks = [
        key | {"seed": seed, "auroc": 61.5, "auroc_low": 58.0, "auroc_high": 65.0}
        for seed in range(3)
    ]
    write_csv(folder / "attacks.csv", attacks)
    write_text(folder / "metrics.csv", tidy().to_csv(index=False))
    return folder


def chapter_of(folder, lines) -> Chapter:
    write_text(folder / "table.csv", pd.DataFrame(lines).to_csv(index=False))
    files = {name: folder / f"{name}.csv" for name in ("table", "storage", "attacks", "metrics")}
    pictures = {"svg": folder / "shares.svg", "strata_svg": folder / "strata.svg"}
    audit_chapter(
        **files,
        **pictures,
        controls=folder / "controls.json",
        rows=ROWS,
        dataset="digits",
        chapter=folder / "chapter.json",
    )
    (chapter,) = read_chapters([folder / "chapter.json"])
    return chapter


def test_an_audit_is_a_chapter_with_controls_pictures_storage_and_attacks(audit_folder):
    chapter = chapter_of(audit_folder, [LINE])
    controls, table, _strata, _storage, attacks = chapter.tables
    assert controls.title == "digits: controls, whose results are known beforehand"
    assert controls.frame.values.tolist()[0] == ["vit", "oracle passed, as it must"]
    assert controls.remark == "vit: sham was flagged, but must not"
    assert {"55.0 [23.1, 77.8]", "residue: 55% is left"} <= set(table.frame.iloc[0])
    assert attacks.title == "Attacks on one model: digits, forget rate 10%: n = 3 seeds"
    assert "61.5 [58.0, 65.0]" in attacks.frame.values
    assert "docs/audits.md" in chapter.remarks[0]
    for figure, words in zip(chapter.figures, (b"picture", b"strata"), strict=True):
        assert figure.data.endswith(base64.b64encode(words).decode())
        # 3.9 inches, 374 pixels: all of it fits a phone
        assert 'width="280.8pt"' in base64.b64decode(figure.narrow.partition(",")[2]).decode()
    names = ("table", "storage", "attacks")
    assert chapter.files == [f"../audit/digits/{name}.csv" for name in names]


def test_the_report_shows_other_paths_of_methods_alone_and_what_files_hold(audit_folder):
    lines = [LINE, LINE | {"path": "image"}, LINE | {"path": "image", "role": "oracle"}]
    _, table, _strata, storage, _attacks = chapter_of(audit_folder, lines).tables
    assert table.frame.iloc[:, 0].tolist() == ["SCRUB", "SCRUB, image alone"]
    assert {"6 of 6", "0 of 6"} <= set(storage.frame.iloc[0])
