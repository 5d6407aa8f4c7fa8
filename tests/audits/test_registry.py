"""Every audit says what it is, what it needs and where it comes from."""

import inspect

import pytest

from munkey.audits.registry import AUDITS, audit


def test_all_audits_are_found():
    assert {audit: AUDITS[audit].needs for audit in AUDITS} == {
        "distance": "oracles",
        "logistic": "logits",
        "loss": "logits",
        "margin": "logits",
        "relearning": "curves",
        "residual-share": "pairs",
        "rmia": "pairs",
        "storage": "models",
        "strata": "pairs",
        "tail": "pairs",
        "u-lira": "pairs",
    }


@pytest.mark.parametrize("name", sorted(AUDITS))
def test_an_audit_has_a_title_a_definition_in_one_line_and_a_source(name):
    entry = AUDITS[name]
    assert entry.title and entry.source and entry.definition and "\n" not in entry.definition
    assert not entry.definition.endswith(".")
    assert len(inspect.signature(entry.run).parameters) >= 2


def test_evidence_that_there_is_none_of_is_refused():
    with pytest.raises(
        ValueError, match="needs must be one of pairs, oracles, logits, models, curves, got"
    ):
        audit("x", title="", needs="tea leaves", definition="", source="")
