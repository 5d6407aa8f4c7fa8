"""How knobs are named and written in tables, figures and titles."""

import pytest

from munkey.core.knobs import format_knob_value, shorten_knobs


def test_knobs_that_end_alike_keep_their_sections():
    alike = ["munkey.temperature", "inference.temperature"]
    assert shorten_knobs(["munkey.p_image", *alike]) == {"munkey.p_image": "p_image"} | {
        knob: knob for knob in alike
    }


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.30, "0.3"),
        (2_000_000, "2000000"),
        ("rank", "rank"),
        (True, "True"),
        ([0.6, 1.0], "0.6–1"),
        ("[1, 2]", "1–2"),
    ],
)
def test_a_knob_is_written_as_a_person_writes_it(value, text):
    assert format_knob_value(value) == text
