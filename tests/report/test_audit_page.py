"""The page of the audits shows figure, controls and tables of each data set, in one file."""

import re

import pandas as pd
import pytest

from munkey.core.files import sealed, write_json, write_text
from munkey.report.audit_page import Audited, audited, render
from munkey.report.markup import Titled
from tests.conftest import ROOT

TEMPLATE = ROOT / "workflow/report/audit.html.j2"
LINE = {"title": "SCRUB", "role": "method", "path": "deployed", "pairs": 8, "share": 55.0, "share_low": 23.1}
LINE |= {"share_high": 77.8, "chance": 17.0, "p": 0.004, "verdict": "residue", "words": "residue: 55 % is left"}


@pytest.fixture
def shown(tmp_path) -> Audited:
    write_text(tmp_path / "table.csv", pd.DataFrame([LINE]).to_csv(index=False))
    write_json(tmp_path / "controls.json", {"vit": ["oracle passed, as it must", "sham was flagged, but must not"]})
    with sealed(tmp_path / "shares.png") as temporary:
        temporary.write_bytes(b"picture")
    files = [str(tmp_path / name) for name in ("table.csv", "controls.json", "shares.png")]
    return audited("digits", *files, [Titled("Attacks", pd.DataFrame({"Method": ["CF"], "MIA": ["51.7"]}))])


def test_it_shows_the_table_the_attacks_and_the_controls(shown):
    text = render("mine", [shown], TEMPLATE)
    assert "<h2>digits</h2>" in text and "<b>mine</b>" in text
    assert "55.0 [23.1, 77.8]" in text and "residue: 55 % is left" in text and "51.7" in text
    assert re.search(r"<li>vit: oracle passed", text)
    assert 'src="data:image/png;base64,cGljdHVyZQ=="' in text


def test_a_control_that_came_out_wrong_stands_out(shown):
    assert re.search(r'<li class="wrong">vit: sham was flagged, but must not', render("mine", [shown], TEMPLATE))


def test_it_loads_nothing_from_elsewhere(shown):
    assert not re.search(r"(src|href)=.http", render("mine", [shown, shown], TEMPLATE))


def test_names_are_escaped(shown):
    assert "<b>a&lt;b</b>" in render("a<b", [shown], TEMPLATE)
