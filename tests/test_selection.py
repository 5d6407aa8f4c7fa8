"""The choice of (p_image, p_token): health check, gap, and among comparable gaps the smallest P_s (app. E)."""

import pytest

from munkey.selection import NothingPassesError, Pair, select, table


def reasons(pairs, threshold=0.3, comparable=0.5):
    chosen, rows = select(pairs, threshold, comparable)
    assert [row["chosen"] for row in rows] == [pair is chosen for pair in pairs]
    return chosen, [row["reason"] for row in rows]


def test_the_smallest_gap_wins_where_none_is_comparable():
    pairs = [Pair(0.1, 0.1, P_s=0.05, gap=3.0), Pair(0.3, 0.1, P_s=0.25, gap=1.0)]
    chosen, why = reasons(pairs)
    assert chosen is pairs[1]
    assert why == ["its gap is 2.00 points above the smallest", "chosen: smallest gap"]


def test_among_comparable_gaps_the_smallest_sensitivity_wins():
    pairs = [Pair(0.1, 0.1, 0.20, 1.0), Pair(0.1, 0.3, 0.10, 1.5), Pair(0.3, 0.1, 0.05, 1.51)]
    chosen, why = reasons(pairs)
    assert chosen is pairs[1]
    assert why[0] == "its gap is comparable to the smallest (1.00), but its P_s is larger than the chosen one's"
    assert why[1].startswith("chosen: smallest P_s among the 2")
    assert why[2] == "its gap is 0.51 points above the smallest"


def test_the_health_check_comes_first_and_the_corner_takes_no_part():
    pairs = [Pair(0, 0, 0.0, 0.0, reference=True), Pair(0.1, 0.1, 0.3, 0.0), Pair(0.3, 0.3, 0.29, 9.0)]
    chosen, why = reasons(pairs)
    assert chosen is pairs[2]
    assert why[0].startswith("for reference") and why[1] == "dropped: P_s is not below 0.3"


def test_where_nothing_passes_the_grid_is_listed():
    with pytest.raises(NothingPassesError, match=r"(?s)P_s < 0\.3.*p_image 0\.1, p_token 0\.3: P_s 0\.400, gap 1\.00"):
        select([Pair(0, 0, 0.1, 0.0, reference=True), Pair(0.1, 0.3, 0.4, 1.0)], 0.3, 0.5)


def test_the_table_tells_every_pair_with_its_reason():
    _, rows = select([Pair(0.1, 0.1, 0.05, 3.0), Pair(0.3, 0.1, 0.25, 1.0)], 0.3, 0.5)
    shown = table(rows)
    assert shown["P_s"].tolist() == ["0.050", "0.250"] and shown["Why"][1] == "chosen: smallest gap"
