"""Every audit says what it is, what it needs and where it comes from."""

import inspect

import pytest

from munkey.audits.registry import AUDITS, audit


def test_all_audits_are_registered_with_their_evidence():
    assert {name: AUDITS[name].needs for name in AUDITS} == {
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
    assert entry.title
    assert entry.source
    assert entry.definition
    assert "\n" not in entry.definition
    assert not entry.definition.endswith(".")
    assert len(inspect.signature(entry.run).parameters) >= 2


def test_an_unknown_kind_of_evidence_is_refused():
    with pytest.raises(ValueError, match="needs must be one of"):
        audit("x", title="", needs="tea leaves", definition="", source="")
