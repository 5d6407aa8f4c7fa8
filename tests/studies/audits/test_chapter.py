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
    "family": "vit",
    "title": "SCRUB",
    "role": "method",
    "path": "deployed",
    "pairs": 8,
    "share": 55.0,
    "share_low": 23.1,
    "share_high": 77.8,
    "flagged": "share",
    "chance": 17.0,
    "p": 0.004,
    "verdict": "residue",
    "words": "residue: 55% is left",
}


@pytest.fixture
def audit_folder(tmp_path):
    """The folder of an audit: its controls, pictures, what its files hold, and attacks on one model."""
    folder = tmp_path / "digits"
    controls = ["oracle passed, as it must", "sham was flagged, but must not"]
    write_json(folder / "controls.json", {"vit": controls})
    write_text(folder / "shares.svg", "picture")
    write_text(folder / "strata.svg", "strata")
    key = {"dataset": "digits", "rate": 0.1, "seed": 0, "method": "munkey", "title": "MUNKEY"}
    key |= {"why": np.nan, "ids_of": 3, "rows_of": 6}
    storage = [
        key | {"file": "original", "ids": 3, "rows": 6},
        key | {"file": "unlearned", "ids": 0, "rows": 0},
    ]
    write_csv(folder / "storage.csv", storage)
    attack = {"dataset": "digits", "rate": 0.1, "method": "scrub", "attack": "loss"}
    attack |= {"auroc": 61.5, "auroc_low": 58.0, "auroc_high": 65.0}
    write_csv(folder / "attacks.csv", [attack | {"seed": seed} for seed in range(3)])
    write_text(folder / "metrics.csv", tidy().to_csv(index=False))
    return folder


def make_chapter(folder, lines) -> Chapter:
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
    chapter = make_chapter(audit_folder, [LINE])
    controls, table, _strata, _storage, attacks = chapter.tables
    assert controls.title.startswith("digits: controls")
    assert controls.frame.values.tolist()[0] == ["vit", "oracle passed, as it must"]
    assert controls.remark.startswith("vit: sham was flagged")
    assert {"55.0 [23.1, 77.8]", "residue: 55% is left"} <= set(table.frame.iloc[0])
    assert attacks.title.endswith("digits, forget rate 10%: n = 3 seeds")
    assert "61.5 [58.0, 65.0]" in attacks.frame.values
    assert "docs/audits.md" in chapter.remarks[0]
    for figure, words in zip(chapter.figures, (b"picture", b"strata"), strict=True):
        assert figure.data.endswith(base64.b64encode(words).decode())
        # 3.9 inches, 374 pixels: all of it fits a phone
        assert 'width="280.8pt"' in base64.b64decode(figure.narrow.partition(",")[2]).decode()
    names = ("table", "storage", "attacks")
    assert chapter.files == [f"../audit/digits/{name}.csv" for name in names]


def test_the_report_shows_other_paths_of_methods_alone_and_the_traces_in_files(audit_folder):
    lines = [LINE, LINE | {"path": "image"}, LINE | {"path": "image", "role": "oracle"}]
    _, table, _strata, storage, _attacks = make_chapter(audit_folder, lines).tables
    assert table.frame.iloc[:, 0].tolist() == ["SCRUB", "SCRUB, image alone"]
    assert {"6 of 6", "0 of 6"} <= set(storage.frame.iloc[0])
