"""Equal samples of two classes or two persons are counted, with two examples."""

from munkey.data.intake.copies import format_conflicting_copies_warning


def test_copies_within_a_group_or_without_one_give_no_warning():
    groups = ["x", "x", "y", None, None]
    assert format_conflicting_copies_warning("aabbc", groups, "unit", "01234") == ""


def test_copies_in_two_groups_are_counted_once_each_with_two_examples():
    words = format_conflicting_copies_warning(
        "aaabbccd", ["x", "x", "y", "x", "y", "y", "x", "x"], "class", "01234567"
    )
    assert words.startswith("3 samples are in two or more")
    assert "0 (x) and 2 (y); 3 (x) and 4 (y)." in words
    assert format_conflicting_copies_warning("ab", ["x", "y"], "unit", "01") == ""
    words = format_conflicting_copies_warning("aa", ["x", "y"], "unit", "01")
    assert words.startswith("1 sample is in two or more")
