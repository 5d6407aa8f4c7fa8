"""The figure at the top of the README shows what the kept audit found."""

import pytest

from tests.conftest import ROOT
from tools.headline import AUDIT, ROWS, headline, left


def test_the_headline_shows_the_kept_audit_in_words():
    found = left((ROOT / AUDIT).read_text())
    assert found["MUNKEY: delete its row"] == [1.6, 1.0, 2.2] and found["Amnesiac: train wrong labels for it"][0] < 0
    axes = headline(found).axes[0]
    dots = [line.get_xdata()[0] for line in axes.lines if line.get_marker() == "o"]
    assert dots == [share for share, *_ in found.values()]
    assert [label.get_text() for label in axes.get_yticklabels()] == list(ROWS.values())
    printed = {text.get_text() for text in axes.texts}
    assert {f"{share:.1f} %" for share, *_ in found.values()} | {"as if\nnever seen", "nothing\nforgotten"} <= printed


def test_an_audit_that_lacks_a_method_is_refused():
    with pytest.raises(KeyError, match="ViT, nothing done"):
        left("| Model, and what was done | left [%] |\n|---|---|\n| MUNKEY | 1.6 [1.0, 2.2] |\n")
