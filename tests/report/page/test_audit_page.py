"""The page of the audits shows figure, controls and tables of each data set, in one file."""

import re

import pandas as pd
import pytest

from munkey.core.files import sealed, write_csv, write_json
from munkey.report.page.page import AuditChapter, audit_chapter, audit_in_report, audit_page
from munkey.report.tables.markup import Titled
from tests.conftest import ROOT

TEMPLATE = ROOT / "workflow/report/audit.html.j2"
LINE = {"title": "SCRUB", "role": "method", "path": "deployed", "pairs": 8, "share": 55.0, "share_low": 23.1}
LINE |= {"share_high": 77.8, "chance": 17.0, "p": 0.004, "verdict": "residue", "words": "residue: 55 % is left"}

FOUND = {"original": 3, "unlearned": 0}  # ids that a file lists


@pytest.fixture
def shown(tmp_path) -> AuditChapter:
    write_json(tmp_path / "controls.json", {"vit": ["oracle passed, as it must", "sham was flagged, but must not"]})
    with sealed(tmp_path / "shares.svg") as temporary:
        temporary.write_bytes(b"picture")
    files = [str(tmp_path / name) for name in ("controls.json", "shares.svg")]
    return audit_chapter(
        "digits", pd.DataFrame([LINE]), *files, [Titled("Attacks", pd.DataFrame({"Method": ["CF"], "MIA": ["51.7"]}))]
    )


def test_it_shows_the_table_the_attacks_and_the_controls(shown):
    text = audit_page("mine", [shown], TEMPLATE)
    assert "<h2>digits</h2>" in text and "<b>mine</b>" in text
    assert "55.0 [23.1, 77.8]" in text and "residue: 55 % is left" in text and "51.7" in text
    assert re.search(r"<li>vit: oracle passed", text)
    assert 'src="data:image/svg+xml;base64,cGljdHVyZQ=="' in text


def test_a_control_that_came_out_wrong_stands_out(shown):
    assert re.search(r'<li class="wrong">vit: sham was flagged, but must not', audit_page("mine", [shown], TEMPLATE))


def test_it_loads_nothing_from_elsewhere(shown):
    assert not re.search(r"(src|href)=.http", audit_page("mine", [shown, shown], TEMPLATE))


def test_names_are_escaped(shown):
    assert "<b>a&lt;b</b>" in audit_page("a<b", [shown], TEMPLATE)


def test_the_report_shows_other_paths_of_methods_alone_and_what_files_hold(shown, tmp_path):
    key = {"dataset": "digits", "rate": 0.1, "seed": 0, "method": "munkey", "title": "MUNKEY", "why": ""}
    found = [key | {"file": file, "ids": n, "ids_of": 3, "rows": 2 * n, "rows_of": 6} for file, n in FOUND.items()]
    write_csv(tmp_path / "storage.csv", found)
    audit = pd.DataFrame([LINE, LINE | {"path": "image"}, LINE | {"path": "image", "role": "oracle"}])
    files = [str(tmp_path / name) for name in ("storage.csv", "controls.json", "shares.svg")]
    table, storage = audit_in_report("digits", audit, *files).chapter.tables
    assert table.html.count("SCRUB") == 2 and ", oracle" not in table.html
    assert "<td>6 of 6</td>" in storage.html and "<td>0 of 6</td>" in storage.html
