"""How knobs are named and written in tables, figures and titles."""

import pytest

from munkey.core.knobs import format_knob_value, shorten_knobs


def test_knobs_with_the_same_last_part_keep_their_sections():
    knobs = ["munkey.p_image", "munkey.temperature", "inference.temperature"]
    assert shorten_knobs(knobs) == {
        "munkey.p_image": "p_image",
        "munkey.temperature": "munkey.temperature",
        "inference.temperature": "inference.temperature",
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
def test_format_knob_value_writes_numbers_words_and_ranges(value, text):
    assert format_knob_value(value) == text
