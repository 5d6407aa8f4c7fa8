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
from tests.report.inputs import ROWS as SEVERAL_ROWS
from tests.report.inputs import cases, tidy

ROWS = [
    Row("original-m", "Original (M)", "retrain-m", context=True),
    Row("retrain-m", "Retrain (M)", None),
    Row("munkey", "MUNKEY", "retrain-m"),
]


def summary_of(dataset):
    return ablations.summarize_cases(
        cases(dataset, methods=("original-m", "retrain-m", "munkey")), ROWS
    )


def test_the_papers_own_numbers_stand_beside_ours():
    summary = summary_of("cifar10")
    both = paper.compare(summary.iloc[:0], summary)
    line = both[
        (both["table"] == "aggregation")
        & (both["case"] == "aggregation/rank")
        & (both["method"] == "munkey")
    ]
    line = line.set_index("metric").loc["TA"]
    printed = pd.read_csv(paper.PRINTED)
    wanted = printed[
        (printed["table"] == "aggregation")
        & (printed["dataset"] == "cifar10")
        & (printed["metric"] == "TA")
        & (printed["case"] == "aggregation/rank")
        & (printed["method"] == "munkey")
    ]["mean"].item()
    assert (
        line["ours_mean"] == 105.5
        and line["mean"] == wanted
        and line["difference"] == pytest.approx(105.5 - wanted)
    )
    _, table = paper.make_comparison_tables(both)
    assert len(table.frame) == len(both)


def test_a_data_set_that_is_not_in_the_paper_has_nothing_to_compare():
    both = paper.compare(summary_of("digits").iloc[:0], summary_of("digits"))
    assert both.empty and paper.make_comparison_tables(both) == []
    texts = paper.render_texts(both, ["digits: not comparable"])
    assert (
        texts["markdown"].startswith("- digits: not comparable\n\n")
        and texts["latex"] == "% digits: not comparable\n"
    )


def test_the_comparison_is_written_with_its_statements_and_signed_differences():
    summary = summary_of("cifar10")
    both = paper.compare(summary.iloc[:0], summary)
    texts = paper.render_texts(both, ["one", "two"])
    assert texts["csv"] == both.to_csv(index=False)
    heading = "How many of our numbers lie within the paper's ±"
    assert texts["markdown"].startswith(f"- one\n- two\n\n### {heading}\n\n| Table ")
    assert texts["latex"].startswith(
        f"% one\n% two\n% {heading}\n\\begin{{tabular}}{{lllllll}}\n\\toprule\n"
    )
    _, table = paper.make_comparison_tables(both)
    assert table.frame["Difference"].str.match(r"[+-]\d+\.\d\d$").all()
    assert set(table.frame["System"]) >= {"aggregation/rank munkey", "aggregation/rank retrain-m"}
    assert (table.frame["Slip in the paper"] == both["slip"]).all()


def test_the_printed_numbers_are_the_papers():
    facts = ROOT.parent / "shared/paper/tables.csv"
    if not facts.exists():
        pytest.skip("the paper's tables are not at hand")
    original, ours = pd.read_csv(facts), paper.read_printed_numbers()
    assert len(original) == len(ours)
    for name in ("dataset", "mean", "std"):
        assert (
            original[name].astype(str).tolist()
            == ours["sd" if name == "std" else name].astype(str).tolist()
        )


def test_the_comparison_is_read_back_as_it_was(tmp_path):
    both = paper.compare(summary_of("cifar10").iloc[:0], summary_of("cifar10"))
    write_text(tmp_path / "paper.csv", paper.render_texts(both, [])["csv"])
    pd.testing.assert_frame_equal(
        paper.read_comparison(tmp_path / "paper.csv"), both, check_dtype=False
    )


def test_of_an_encoder_in_two_revisions_the_first_is_compared():
    gaps = {"keys/dinov2_a": 1.0, "keys/dinov2_b": 2.0}
    summary = ablations.summarize_cases(
        cases("cifar10", gaps, methods=("original-m", "retrain-m", "munkey")), ROWS
    )
    both = paper.compare(summary.iloc[:0], summary)
    lines = both[(both["case"] == "encoder/dinov2") & (both["method"] == "munkey")].set_index(
        "metric"
    )
    assert lines.index.is_unique and lines.loc["TA", "ours_mean"] == 51.5


# metric, ours, paper's mean and ±, whether they are comparable, and whether ours is within
CELLS = [
    ("TA", 96.22, 96.00, 0.22, True, True),
    ("RA", 96.2204, 96.00, 0.22, True, True),  # 0.220 to three digits
    ("FA", 95.779, 96.00, 0.22, True, False),
    ("MIA", 50.00, 50.00, np.nan, True, None),  # printed without ±
    ("gap", 1.00, 1.00, 0.50, False, None),
]


def compared() -> pd.DataFrame:
    """As `paper.compare` makes it: two systems of one table, of which the second lacks its last two metrics."""
    lines = [
        {"table": "main", "dataset": "cifar10", "rate": 0.1, "case": "", "method": method, "metric": metric,
         "ours_mean": ours, "ours_sd": 0.5, "mean": mean, "sd": sd, "difference": ours - mean if comparable else np.nan}
        for method, cells in (("cf", CELLS), ("munkey", CELLS[:3]))
        for metric, ours, mean, sd, comparable, _ in cells
    ]  # fmt: skip
    frame = pd.DataFrame(lines)
    return frame.assign(within=paper.is_within_sd(frame))


def all_printed() -> pd.DataFrame:
    """All of the paper's numbers: those, another rate that we lack, and a data set that we did not run."""
    own = compared()[paper.KEYS]
    return pd.concat(
        [own, own.assign(rate=0.02), own.assign(dataset="pathmnist")], ignore_index=True
    )


def test_within_is_at_most_the_papers_deviation_to_three_digits():
    wanted = [cell[-1] for cell in CELLS + CELLS[:3]]
    assert [None if pd.isna(value) else value for value in compared()["within"]] == wanted


def test_every_table_of_our_data_sets_is_counted_also_where_nothing_was_run():
    frame = paper.make_agreement_table(compared(), all_printed()).frame
    assert frame.astype(str).to_numpy().tolist() == [
        ["main", "cifar10", "10%", "8", "6", "4", "67%"],
        ["main", "cifar10", "2%", "8", "0", "0", "–"],
        ["all", "", "", "16", "6", "4", "67%"],
    ]


def test_ours_and_the_papers_stand_side_by_side_with_a_mark():
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
    assert munkey[0] == "munkey" and munkey[4:] == ["–", "–"]


def test_the_sensitivity_has_three_digits_as_in_the_paper():
    (table,) = paper.make_side_by_side_tables(compared().replace({"metric": {"TA": "P_s"}}))
    assert table.frame["P_s"][0].startswith("96.220 ± 0.500 (96.000 ± 0.220)")


@pytest.mark.parametrize("seeds", [1, 3, 10])
def test_the_share_by_chance_is_what_drawing_gives(seeds):
    draws = np.random.default_rng(0).normal(size=(200_000, 3 + seeds))
    papers, ours = draws[:, :3], draws[:, 3:]
    share = (np.abs(ours.mean(axis=1) - papers.mean(axis=1)) <= papers.std(axis=1, ddof=1)).mean()
    assert paper.compute_expected_share(seeds) == pytest.approx(share, abs=0.005)


# The slips. Each is found again from the numbers alone; whatever is marked must be one of them.

ACCURACIES = ["TA", "RA", "FA", "MIA"]
POST_HOC = ["cf", "cf-k", "eu-k", "l1-sparse", "neggrad-plus", "amnesiac", "scrub", "ssd", "amun"]


def slipped(text):
    """The places of the numbers whose slip says so."""
    lines = paper.read_printed_numbers()
    return set(lines[lines["slip"].str.contains(text, regex=False)].index)


def places(**wanted):
    lines = paper.read_printed_numbers()
    for name, values in wanted.items():
        lines = lines[lines[name].isin(values if isinstance(values, list) else [values])]
    return set(lines.index)


def row(lines, **wanted):
    """mean and sd of a row of the paper, by metric."""
    for name, value in wanted.items():
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


def test_pathmnists_post_hoc_rows_are_bloodmnists_and_their_gaps_do_not_follow_from_them():
    main = {"table": "main", "dataset": "pathmnist"}
    assert slipped("this is BloodMNIST's row") == places(**main, method=POST_HOC, metric=ACCURACIES)
    assert slipped("does not follow") == places(**main, method=POST_HOC, metric="gap")
    for method in POST_HOC:
        ours, theirs = main_row("pathmnist", method), main_row("bloodmnist", method)
        assert all(ours[metric] == theirs[metric] for metric in ACCURACIES)


def test_pathmnists_oracles_are_another_data_sets_and_munkeys_own_not_each_others():
    main = {"table": "main", "dataset": "pathmnist"}
    assert slipped("BloodMNIST's Retrained Ensembling") == places(**main, method="retrain-m")
    assert slipped("this is MUNKEY's oracle") == places(**main, method="retrain-t")
    assert main_row("pathmnist", "retrain-m") == ablated_row("bloodmnist", "retrain-m")
    assert main_row("pathmnist", "retrain-t") == ablated_row("pathmnist", "retrain-m")


def test_every_mark_is_one_of_the_known_slips():
    known = {"BloodMNIST": 49, "MUNKEY's oracle": 4, "its ±": 4, "9.31": 1, "P_s": 24}
    known |= {"in the ablation tables": 44, "in the main table": 63}
    assert {text: len(slipped(text) - places(slip="")) for text in known} == known
    assert len(slipped("") - places(slip="")) == sum(known.values())


def test_deviations_that_three_seeds_cannot_have_are_marked():
    lines = paper.read_printed_numbers()
    mean, share = lines["mean"], lines["metric"].isin(ACCURACIES)
    most = np.sqrt(3) * (100 - mean)  # two seeds at 100, for means above two thirds
    impossible = share & (mean > 67) & (lines["sd"] > most + 0.01)  # as they are rounded
    assert slipped("its ± is impossible") == set(lines[impossible].index)
    assert lines.loc[sorted(slipped("its ± is impossible")), "slip"].str[-4:].tolist() == [
        "18.1",
        "21.6",
    ]
    assert slipped("its ± looks wrong") == places(
        table="main", dataset="pathmnist", method="knn", metric=["TA", "RA"]
    )


def test_every_other_gap_follows_from_its_row():
    """To 0.02, as rows are rounded. PathMNIST's `retrain-t` is the oracle that MUNKEY's gap follows from."""
    lines, odd = paper.read_printed_numbers(), set()
    gaps = lines[(lines["metric"] == "gap") & (lines["table"] != "strategies")]
    assert len(gaps) == 120
    for index, line in gaps.iterrows():
        where = {name: line[name] for name in ("table", "dataset", "rate", "case")}
        mislabeled = line["table"] == "main" and line["dataset"] == "pathmnist"
        oracle = "retrain-m" if line["method"] == "munkey" and not mislabeled else "retrain-t"
        ours, theirs = (
            row(lines, **where, method=line["method"]),
            row(lines, **where, method=oracle),
        )
        gap = np.mean([abs(ours[metric][0] - theirs[metric][0]) for metric in ACCURACIES])
        odd |= {index} if abs(gap - line["mean"]) > 0.02 else set()
    assert odd == slipped("does not follow") | slipped("9.31 follows")


def test_what_is_not_the_number_of_its_row_is_not_compared():
    """A wrong ± does not make a mean incomparable, nor does another table that has another number."""
    lines = paper.read_printed_numbers()
    void = slipped("BloodMNIST") | slipped("MUNKEY's oracle") | slipped("9.31")
    assert set(lines[~lines["comparable"]].index) == void
    ours = [
        {"dataset": "pathmnist", "rate": 0.1, "method": method, "TA_mean": 96.0, "TA_sd": 0.1}
        for method in ("retrain-t", "retrain-m", "cf", "knn", "munkey")
    ]
    both = paper.compare(pd.DataFrame(ours)).set_index("method")
    assert both["difference"].isna().to_dict() == {
        "retrain-t": True,
        "retrain-m": True,
        "cf": True,
        "knn": False,
        "munkey": False,
    }
    _, table = paper.make_comparison_tables(both.reset_index())
    differences = dict(zip(table.frame["System"], table.frame["Difference"], strict=True))
    assert differences["retrain-t"] == "not comparable" and differences["munkey"] == "-2.75"
    assert table.frame.set_index("System").loc["retrain-t", "Paper"] == "98.96 ± 0.07"
    assert (
        "was never printed" in table.frame.set_index("System").loc["retrain-t", "Slip in the paper"]
    )


def test_numbers_that_the_paper_has_too_have_a_chapter_that_says_whether_they_compare(tmp_path):
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
    assert chapter.title == "The paper's numbers" and len(chapter.tables) == 2
    assert chapter.remarks == paper.describe_settings({"digits": {}}, 3)
    assert chapter.files == ["../tables/paper.csv"]


def test_ablations_of_which_none_was_run_and_numbers_as_values_compare_as_well(tmp_path):
    main = summarize(tidy(dataset="cifar10"), SEVERAL_ROWS)
    empty = ablations.summarize_cases(read_metrics([]), ROWS)
    assert paper.compare(main, empty).equals(paper.compare(main))
    summary = summary_of("cifar10")
    of_k = summary[summary["knob"] == "inference.k"]
    write_text(tmp_path / "ablations.csv", of_k.to_csv(index=False))
    read = read_cases(tmp_path / "ablations.csv")
    assert paper.compare(read.iloc[:0], read).empty
