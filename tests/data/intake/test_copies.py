"""Equal samples of two classes or two persons are counted, with two examples."""

from munkey.data.intake.copies import format_conflicting_copies_warning


def test_equal_samples_in_one_group_or_in_none_are_not_mentioned():
    assert (
        format_conflicting_copies_warning("aabbc", ["x", "x", "y", None, None], "unit", "01234")
        == ""
    )


def test_equal_samples_in_two_groups_are_counted_once_each_with_two_examples():
    words = format_conflicting_copies_warning(
        "aaabbccd", ["x", "x", "y", "x", "y", "y", "x", "x"], "class", "01234567"
    )
    assert words.startswith(
        "3 samples are in two or more classes, as exact copies: 0 (x) and 2 (y); 3 (x) and 4 (y). "
    )
    words = format_conflicting_copies_warning(
        "ab", ["x", "y"], "unit", "01"
    ) + format_conflicting_copies_warning("aa", ["x", "y"], "unit", "01")
    assert words.startswith("1 sample is in two or more units, as exact copies: 0 (x) and 1 (y).")
