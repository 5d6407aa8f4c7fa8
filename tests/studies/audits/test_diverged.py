"""Audits of families in which a model diverged: what tables and figures show of them."""

import pandas as pd
import pytest

from munkey.studies.audits.figure import forest_plot
from munkey.studies.audits.tables import make_audit_table
from tests.audits.test_family_audit import family, gone, lines_of


def test_a_method_that_diverged_has_no_share_and_the_others_are_drawn():
    frame = pd.DataFrame(lines_of(gone(family(), "method")))
    table = make_audit_table(frame, "digits").frame
    assert list(table["residual share [%]"])[1] == "–"
    assert forest_plot(frame).axes


@pytest.mark.parametrize("role", ["nothing", "oracle"])
def test_a_family_that_is_not_audited_has_no_p(role):
    frame = pd.DataFrame(lines_of(gone(family(), role)))
    assert list(make_audit_table(frame, "digits").frame["p"].unique()) == ["–"]
