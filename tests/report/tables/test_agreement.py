"""Which of our numbers lie within the paper's ±, and how many would by chance."""

import numpy as np
import pandas as pd
import pytest

from munkey.report.tables import agreement

# metric, ours, paper's mean and ±, whether they are comparable, and whether ours is within
CELLS = [
    ("TA", 96.22, 96.00, 0.22, True, True),
    ("RA", 96.2204, 96.00, 0.22, True, True),  # 0.220 to three digits
    ("FA", 95.779, 96.00, 0.22, True, False),
    ("MIA", 50.00, 50.00, np.nan, True, None),  # printed without ±
    ("gap", 1.00, 1.00, 0.50, False, None),
]


def both() -> pd.DataFrame:
    """As `paper.compare` makes it: two systems of one table, of which the second lacks its last two metrics."""
    lines = [
        {"table": "main", "dataset": "cifar10", "rate": 0.1, "case": "", "method": method, "metric": metric,
         "ours_mean": ours, "ours_sd": 0.5, "mean": mean, "sd": sd, "difference": ours - mean if comparable else np.nan}
        for method, cells in (("cf", CELLS), ("munkey", CELLS[:3]))
        for metric, ours, mean, sd, comparable, _ in cells
    ]  # fmt: skip
    frame = pd.DataFrame(lines)
    return frame.assign(within=agreement.within(frame))


def printed() -> pd.DataFrame:
    """All of the paper's numbers: those, another rate that we lack, and a data set that we did not run."""
    own = both()[agreement.KEYS]
    return pd.concat([own, own.assign(rate=0.02), own.assign(dataset="pathmnist")], ignore_index=True)


def test_within_is_at_most_the_papers_deviation_to_three_digits():
    wanted = [cell[-1] for cell in CELLS + CELLS[:3]]
    assert [None if pd.isna(value) else value for value in both()["within"]] == wanted


def test_every_table_of_our_data_sets_is_counted_also_where_nothing_was_run():
    frame = agreement.counts(both(), printed()).frame
    assert frame.astype(str).to_numpy().tolist() == [
        ["main", "cifar10", "10 %", "8", "6", "4", "67 %"],
        ["main", "cifar10", "2 %", "8", "0", "0", "–"],
        ["all", "", "", "16", "6", "4", "67 %"],
    ]


def test_ours_and_the_papers_stand_side_by_side_with_a_mark():
    (table,) = agreement.side_by_side(both())
    assert table.title == "main, cifar10, 10 %: ours (the paper's)"
    assert table.frame.columns.tolist() == ["System", "TA", "RA", "FA", "MIA", "gap"]
    cf, munkey = table.frame.to_numpy().tolist()
    assert cf[:4] == [
        "cf",
        "96.22 ± 0.50 (96.00 ± 0.22) ✓",
        "96.22 ± 0.50 (96.00 ± 0.22) ✓",
        "95.78 ± 0.50 (96.00 ± 0.22) ✗",
    ]
    assert cf[4:] == ["50.00 ± 0.50 (50.00) –", "1.00 ± 0.50 (1.00 ± 0.50) –"]
    assert munkey[0] == "munkey" and munkey[4:] == ["–", "–"]


def test_the_sensitivity_has_three_digits_as_in_the_paper():
    (table,) = agreement.side_by_side(both().replace({"metric": {"TA": "P_s"}}))
    assert table.frame["P_s"][0].startswith("96.220 ± 0.500 (96.000 ± 0.220)")


@pytest.mark.parametrize("seeds", [1, 3, 10])
def test_the_share_by_chance_is_what_drawing_gives(seeds):
    draws = np.random.default_rng(0).normal(size=(200_000, 3 + seeds))
    papers, ours = draws[:, :3], draws[:, 3:]
    share = (np.abs(ours.mean(axis=1) - papers.mean(axis=1)) <= papers.std(axis=1, ddof=1)).mean()
    assert agreement.expected_share(seeds) == pytest.approx(share, abs=0.005)
