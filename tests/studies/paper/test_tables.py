"""The paper's printed numbers beside ours, and the slips in them."""

import numpy as np
import pandas as pd
import pytest

from munkey.core.files import write_text
from munkey.report.page.chapters import read_chapters
from munkey.report.tables.summary import Row, read_cases, read_metrics, summarize
from munkey.studies.ablations import tables as ablations
from munkey.studies.paper import tables as paper
from tests.conftest import ROOT
from tests.report.inputs import CASES, cases, tidy
from tests.report.inputs import ROWS as SEVERAL_ROWS

ROWS = [
    Row("original-m", "Original (M)", "retrain-m", context=True),
    Row("retrain-m", "Retrain (M)", None),
    Row("munkey", "MUNKEY", "retrain-m"),
]


def summary_of(dataset, gaps=CASES):
    """The numbers of the ablations of a data set."""
    methods = ("original-m", "retrain-m", "munkey")
    return ablations.summarize_cases(cases(dataset, gaps, methods), ROWS)


def test_the_numbers_of_the_paper_are_beside_ours():
    summary = summary_of("cifar10")
    both = paper.compare(summary.iloc[:0], summary)
    columns = ["table", "dataset", "case", "method", "metric"]
    place = ("aggregation", "cifar10", "aggregation/rank", "munkey", "TA")
    line = both.set_index(columns).loc[place].squeeze()
    printed = pd.read_csv(paper.PRINTED).set_index(columns).loc[place, "mean"].item()
    assert line["ours_mean"] == 105.5
    assert line["mean"] == printed
    assert line["difference"] == pytest.approx(105.5 - printed)
    _, table = paper.make_comparison_tables(both)
    assert len(table.frame) == len(both)


def test_a_data_set_outside_the_paper_is_not_compared():
    both = paper.compare(summary_of("digits").iloc[:0], summary_of("digits"))
    assert both.empty
    assert paper.make_comparison_tables(both) == []
    texts = paper.render_texts(both, ["digits: not comparable"])
    assert texts["markdown"].startswith("- digits: not comparable\n\n")
    assert texts["latex"] == "% digits: not comparable\n"


def test_the_comparison_is_written_with_its_statements_and_signed_differences():
    summary = summary_of("cifar10")
    both = paper.compare(summary.iloc[:0], summary)
    texts = paper.render_texts(both, ["one", "two"])
    assert texts["csv"] == both.to_csv(index=False)
    assert texts["markdown"].startswith("- one\n- two\n\n### ")
    assert texts["latex"].startswith("% one\n% two\n% ")
    assert "\n\\begin{tabular}{lllllll}\n\\toprule\n" in texts["latex"]
    _, table = paper.make_comparison_tables(both)
    assert table.frame["Difference"].str.match(r"[+-]\d+\.\d\d$").all()
    assert set(table.frame["System"]) >= {"aggregation/rank munkey", "aggregation/rank retrain-m"}
    assert (table.frame["Slip in the paper"] == both["slip"]).all()


def test_the_printed_numbers_are_those_of_the_paper():
    facts = ROOT.parent / "shared/paper/tables.csv"
    if not facts.exists():
        pytest.skip("the paper's tables are not at hand")
    original = pd.read_csv(facts)
    printed = paper.read_printed_numbers()
    for name, column in (("dataset", "dataset"), ("mean", "mean"), ("std", "sd")):
        assert original[name].astype(str).tolist() == printed[column].astype(str).tolist()


def test_the_comparison_is_restored_from_its_file(tmp_path):
    both = paper.compare(summary_of("cifar10").iloc[:0], summary_of("cifar10"))
    write_text(tmp_path / "paper.csv", paper.render_texts(both, [])["csv"])
    restored = paper.read_comparison(tmp_path / "paper.csv")
    pd.testing.assert_frame_equal(restored, both, check_dtype=False)


def test_the_first_of_two_revisions_of_an_encoder_is_compared():
    gaps = {"keys/dinov2_a": 1.0, "keys/dinov2_b": 2.0}
    summary = summary_of("cifar10", gaps)
    both = paper.compare(summary.iloc[:0], summary)
    lines = both.set_index(["case", "method"]).loc[("encoder/dinov2", "munkey")]
    assert lines["metric"].is_unique
    assert lines.set_index("metric").loc["TA", "ours_mean"] == 51.5


# metric, ours, paper's mean and ±, whether they are comparable, and whether ours is within
CELLS = [
    ("TA", 96.22, 96.00, 0.22, True, True),
    ("RA", 96.2204, 96.00, 0.22, True, True),  # 0.220 to three digits
    ("FA", 95.779, 96.00, 0.22, True, False),
    ("MIA", 50.00, 50.00, np.nan, True, None),  # printed without ±
    ("gap", 1.00, 1.00, 0.50, False, None),
]


def compared() -> pd.DataFrame:
    """As `paper.compare` makes it: two systems of one table, the second without its last two metrics."""
    lines = []
    for method, cells in (("cf", CELLS), ("munkey", CELLS[:3])):
        for metric, ours, mean, sd, is_comparable, _ in cells:
            line = {"table": "main", "dataset": "cifar10", "rate": 0.1, "case": ""}
            line |= {"method": method, "metric": metric, "ours_mean": ours, "ours_sd": 0.5}
            difference = ours - mean if is_comparable else np.nan
            lines.append(line | {"mean": mean, "sd": sd, "difference": difference})
    frame = pd.DataFrame(lines)
    return frame.assign(within=paper.is_within_sd(frame))


def all_printed() -> pd.DataFrame:
    """All numbers of the paper: those, another rate that we lack, and a data set that we did not run."""
    keys = compared()[paper.KEYS]
    parts = [keys, keys.assign(rate=0.02), keys.assign(dataset="pathmnist")]
    return pd.concat(parts, ignore_index=True)


def test_within_is_at_most_the_papers_deviation_to_three_digits():
    expected = [cell[-1] for cell in CELLS + CELLS[:3]]
    within = compared()["within"].astype(object)
    assert within.where(within.notna(), None).tolist() == expected


def test_every_table_of_our_data_sets_is_counted_also_without_results():
    frame = paper.make_agreement_table(compared(), all_printed()).frame
    assert frame.astype(str).to_numpy().tolist() == [
        ["main", "cifar10", "10%", "8", "6", "4", "67%"],
        ["main", "cifar10", "2%", "8", "0", "0", "–"],
        ["all", "", "", "16", "6", "4", "67%"],
    ]


def test_our_numbers_and_those_of_the_paper_are_side_by_side_with_a_mark():
    (table,) = paper.make_side_by_side_tables(compared())
    assert table.title == "main, cifar10, 10%: ours (the paper's)"
    assert table.frame.columns.tolist() == ["System", "TA", "RA", "FA", "MIA", "gap"]
    cf, munkey = table.frame.to_numpy().tolist()
    assert cf[:4] == [
        "cf",
        "96.22 ± 0.50 (96.00 ± 0.22) ✓",
        "96.22 ± 0.50 (96.00 ± 0.22) ✓",
        "95.78 ± 0.50 (96.00 ± 0.22) ✗",
    ]
    assert cf[4:] == ["50.00 ± 0.50 (50.00) –", "1.00 ± 0.50 (1.00 ± 0.50) –"]
    assert munkey[0] == "munkey"
    assert munkey[4:] == ["–", "–"]


def test_the_sensitivity_has_three_digits_as_in_the_paper():
    (table,) = paper.make_side_by_side_tables(compared().replace({"metric": {"TA": "P_s"}}))
    assert table.frame["P_s"][0].startswith("96.220 ± 0.500 (96.000 ± 0.220)")


@pytest.mark.parametrize("seeds", [1, 3, 10])
def test_the_share_by_chance_is_that_of_random_draws(seeds):
    draws = np.random.default_rng(0).normal(size=(200_000, 3 + seeds))
    papers = draws[:, :3]
    ours = draws[:, 3:]
    share = (np.abs(ours.mean(axis=1) - papers.mean(axis=1)) <= papers.std(axis=1, ddof=1)).mean()
    assert paper.compute_expected_share(seeds) == pytest.approx(share, abs=0.005)


# The slips. Each is found again from the numbers alone, and every mark is one of them.

ACCURACIES = ["TA", "RA", "FA", "MIA"]
POST_HOC = ["cf", "cf-k", "eu-k", "l1-sparse", "neggrad-plus", "amnesiac", "scrub", "ssd", "amun"]


def slipped(text):
    """The places of the numbers whose slip has this text."""
    lines = paper.read_printed_numbers()
    return set(lines[lines["slip"].str.contains(text, regex=False)].index)


def places(**values):
    """The places of the numbers with these values, or one of these, in their columns."""
    lines = paper.read_printed_numbers()
    for name, value in values.items():
        lines = lines[lines[name].isin(value if isinstance(value, list) else [value])]
    return set(lines.index)


def row(lines, **values):
    """mean and sd of a row of the paper, by metric."""
    for name, value in values.items():
        lines = lines[lines[name] == value]
    return {line["metric"]: (line["mean"], line["sd"]) for _, line in lines.iterrows()}


def main_row(dataset, method):
    lines = paper.read_printed_numbers()
    return row(lines[lines["rate"] == 0.1], table="main", dataset=dataset, method=method)


def ablated_row(dataset, method):
    return row(
        paper.read_printed_numbers(),
        table="aggregation",
        dataset=dataset,
        method=method,
        case="aggregation/ensemble",
    )


def test_post_hoc_rows_of_pathmnist_are_those_of_bloodmnist_and_do_not_give_their_gaps():
    main = {"table": "main", "dataset": "pathmnist"}
    assert slipped("this is BloodMNIST's row") == places(**main, method=POST_HOC, metric=ACCURACIES)
    assert slipped("does not follow") == places(**main, method=POST_HOC, metric="gap")
    for method in POST_HOC:
        ours = main_row("pathmnist", method)
        theirs = main_row("bloodmnist", method)
        for metric in ACCURACIES:
            assert ours[metric] == theirs[metric]


def test_oracles_of_pathmnist_are_those_of_bloodmnist_and_of_munkey():
    main = {"table": "main", "dataset": "pathmnist"}
    assert slipped("BloodMNIST's Retrained Ensembling") == places(**main, method="retrain-m")
    assert slipped("this is MUNKEY's oracle") == places(**main, method="retrain-t")
    assert main_row("pathmnist", "retrain-m") == ablated_row("bloodmnist", "retrain-m")
    assert main_row("pathmnist", "retrain-t") == ablated_row("pathmnist", "retrain-m")


def test_every_mark_is_one_of_the_known_slips():
    counts = {"BloodMNIST": 49, "MUNKEY's oracle": 4, "its ±": 4, "9.31": 1, "P_s": 24}
    counts |= {"in the ablation tables": 44, "in the main table": 63}
    for text, count in counts.items():
        assert len(slipped(text) - places(slip="")) == count, text
    assert len(slipped("") - places(slip="")) == sum(counts.values())


def test_deviations_that_three_seeds_cannot_have_are_marked():
    lines = paper.read_printed_numbers()
    mean = lines["mean"]
    share = lines["metric"].isin(ACCURACIES)
    most = np.sqrt(3) * (100 - mean)  # two seeds at 100, for means above two thirds
    impossible = share & (mean > 67) & (lines["sd"] > most + 0.01)  # as they are rounded
    assert slipped("its ± is impossible") == set(lines[impossible].index)
    slips = lines.loc[sorted(slipped("its ± is impossible")), "slip"]
    assert slips.str[-4:].tolist() == ["18.1", "21.6"]
    assert slipped("its ± looks wrong") == places(
        table="main", dataset="pathmnist", method="knn", metric=["TA", "RA"]
    )


def test_every_other_gap_follows_from_its_row():
    """To 0.02, as rows are rounded. PathMNIST's `retrain-t` is the oracle that MUNKEY's gap follows from."""
    lines = paper.read_printed_numbers()
    odd = set()
    gaps = lines[(lines["metric"] == "gap") & (lines["table"] != "strategies")]
    assert len(gaps) == 120
    for index, line in gaps.iterrows():
        where = {name: line[name] for name in ("table", "dataset", "rate", "case")}
        mislabeled = line["table"] == "main" and line["dataset"] == "pathmnist"
        oracle = "retrain-m" if line["method"] == "munkey" and not mislabeled else "retrain-t"
        ours = row(lines, **where, method=line["method"])
        theirs = row(lines, **where, method=oracle)
        gap = np.mean([abs(ours[metric][0] - theirs[metric][0]) for metric in ACCURACIES])
        if abs(gap - line["mean"]) > 0.02:
            odd.add(index)
    assert odd == slipped("does not follow") | slipped("9.31 follows")


def test_a_number_that_belongs_to_another_row_is_not_compared():
    """A wrong ± does not make a mean incomparable, nor does another table that has another number."""
    lines = paper.read_printed_numbers()
    void = slipped("BloodMNIST") | slipped("MUNKEY's oracle") | slipped("9.31")
    assert set(lines[~lines["comparable"]].index) == void
    ours = pd.DataFrame({"method": ["retrain-t", "retrain-m", "cf", "knn", "munkey"]})
    ours = ours.assign(dataset="pathmnist", rate=0.1, TA_mean=96.0, TA_sd=0.1)
    both = paper.compare(ours).set_index("method")
    assert both["difference"].isna().to_dict() == {
        "retrain-t": True,
        "retrain-m": True,
        "cf": True,
        "knn": False,
        "munkey": False,
    }
    _, table = paper.make_comparison_tables(both.reset_index())
    lines = table.frame.set_index("System")
    assert lines.loc["retrain-t", "Difference"] == "not comparable"
    assert lines.loc["munkey", "Difference"] == "-2.75"
    assert lines.loc["retrain-t", "Paper"] == "98.96 ± 0.07"
    assert "was never printed" in lines.loc["retrain-t", "Slip in the paper"]


def test_the_comparison_with_the_paper_has_a_chapter_with_the_settings(tmp_path):
    both = summarize(tidy(dataset="cifar10"), SEVERAL_ROWS)
    write_text(tmp_path / "main.csv", both.to_csv(index=False))
    write_text(tmp_path / "ablations.csv", summary_of("cifar10").to_csv(index=False))
    paper.paper_tables(
        main_table=tmp_path / "main.csv",
        ablations=tmp_path / "ablations.csv",
        settings={"digits": {}},
        seeds=3,
        chapter=tmp_path / "chapter.json",
        outputs={name: tmp_path / name for name in ("csv", "markdown", "latex")},
    )
    (chapter,) = read_chapters([tmp_path / "chapter.json"])
    assert chapter.title == "The paper's numbers"
    assert len(chapter.tables) == 2
    assert chapter.remarks == paper.describe_settings({"digits": {}}, 3)
    assert chapter.files == ["../tables/paper.csv"]


def test_ablations_without_results_or_with_numbers_as_values_can_be_compared(tmp_path):
    main = summarize(tidy(dataset="cifar10"), SEVERAL_ROWS)
    empty = ablations.summarize_cases(read_metrics([]), ROWS)
    assert paper.compare(main, empty).equals(paper.compare(main))
    summary = summary_of("cifar10")
    of_k = summary[summary["knob"] == "inference.k"]
    write_text(tmp_path / "ablations.csv", of_k.to_csv(index=False))
    restored = read_cases(tmp_path / "ablations.csv")
    assert paper.compare(restored.iloc[:0], restored).empty
