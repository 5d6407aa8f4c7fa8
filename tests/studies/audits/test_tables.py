"""The table of an audit, and its forest plot."""

import itertools
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from munkey.core.files import read_table
from munkey.report.tables.shares import collect_residue, format_decimal
from munkey.report.tables.summary import Row
from munkey.studies.audits import table_jobs as job
from munkey.studies.audits.figure import forest_plot
from munkey.studies.audits.tables import (
    make_attack_tables,
    make_audit_table,
    make_differencing_tables,
    make_storage_tables,
    make_strata_table,
    select_first_rows,
)
from tests.report.inputs import extra
from tests.studies.figures import read_texts

SHARE = {"flagged": "", "share": 4.25, "share_low": -2.0, "share_high": 10.5, "chance": 3.0}
FILES = {"original": (3, 6), "unlearned": (0, 0)}  # ids and rows of which a file holds
LINES = [
    {"title": "Original (M)", "role": "nothing", "verdict": "control", "words": "all"},
    {"title": "MUNKEY", "role": "method", "verdict": "none found", "words": "no more"},
    {"title": "MUNKEY", "role": "method", "path": "image", "verdict": None, "words": None},
    {"title": "Retrain (M)", "role": "oracle", "verdict": "control", "words": "no more"},
    {"title": "MUNKEY, p_token 0.9", "role": "control", "verdict": "residue", "words": "most"},
]


@pytest.fixture
def audit() -> pd.DataFrame:
    lines = [{"family": "munkey", "path": "deployed", "pairs": 8} | SHARE | line for line in LINES]
    lines[0] |= {"p": 0.0004, "share": 100.0, "share_low": 100.0, "share_high": 100.0}
    lines[1] |= {"u-lira_auroc": 52.66, "u-lira_auroc_low": 50.0, "u-lira_auroc_high": 56.04}
    lines[1] |= {"p": 0.0312, "js_ratio": 1.25}
    lines[3] |= {"pairs": 2, "share": 20.0, "share_low": -np.inf, "share_high": np.inf}
    lines[4] |= {"pairs": 2, "share": 86.0, "share_low": 67.0, "share_high": 140.0}
    lines[4] |= {"flagged": "share"}
    return pd.DataFrame(lines)


def test_strata_are_beside_the_average_and_the_remark_names_residues_that_it_hides(audit):
    for name, value in {"low": 2000.0, "mid": 3.0, "high": 4.0, "top": 30.0}.items():
        audit[f"share_of_{name}"] = value
        audit[f"share_of_{name}_low"] = value - 10
        audit[f"share_of_{name}_high"] = value + 10
        audit[f"put_{name}"] = value / 100
    audit["share_of_low_low"] = -1234.0
    titled = make_strata_table(audit, "digits")
    assert titled.frame.iloc[0].tolist() == [
        "MUNKEY",
        "4.2 [-2.0, 10.5]",
        "2000.0 [< -999, > 999]",
        "3.0 [-7.0, 13.0]",
        "4.0 [-6.0, 14.0]",
        "30.0 [20.0, 40.0]",
        "20.00 / 0.03 / 0.04 / 0.30",
    ]
    assert "than of all samples: MUNKEY 30.0 [20.0, 40.0]" in titled.remark
    assert "above 0 here: MUNKEY, top tenth 30.0" in titled.remark
    overlapping = audit.assign(share_high=25.0)  # the tenth's interval begins at 20
    assert "than of all samples: no method" in make_strata_table(overlapping, "digits").remark
    without_top = audit.drop(columns="share_of_top")
    assert "at least two pairs" in make_strata_table(without_top, "digits").remark


def test_rows_are_named_by_system_and_path(audit):
    assert make_audit_table(audit, "digits").frame["Model, and what was done"].tolist() == [
        "Original (M)",
        "MUNKEY",
        "MUNKEY, image alone",
        "Retrain (M)",
        "Control: MUNKEY, p_token 0.9",
    ]


def test_numbers_have_intervals_and_unknown_ones_are_dashes(audit):
    titled = make_audit_table(audit, "digits")
    assert titled.title == "digits: 2 to 8 pairs of models, percent"
    assert "3 pairs" in make_audit_table(audit.assign(pairs=3), "digits").title
    line = titled.frame.iloc[1]
    assert line["residual share [%]"] == "4.2 [-2.0, 10.5]"
    assert line["LiRA AUROC"] == "52.7 [50.0, 56.0]"
    assert (line["TPR @ 1%"], line["p"], line["distance / floor"]) == ("–", "0.031", "1.25")
    assert titled.frame["p"].tolist() == ["< 0.001", "0.031", "–", "–", "–"]
    assert titled.frame["verdict"].tolist() == ["all", "no more", "exploratory", "no more", "most"]


def test_the_file_of_an_audit_has_the_columns_of_its_rows(audit, tmp_path, monkeypatch):
    lines = audit.to_dict("records")
    of_family = SimpleNamespace(family="munkey", controls=[], make_rows=lambda: lines)
    monkeypatch.setattr(job, "read_audits", lambda *_: [of_family])
    monkeypatch.setattr(job.theme, "save", lambda *_: None)
    names = ("controls.json", "table.md", "shares.svg", "strata.md", "strata.svg")
    table = tmp_path / "table.csv"
    job.audit([], [], table, *(tmp_path / name for name in names), "digits")
    assert read_table(table).columns.equals(audit.columns)


def test_the_forest_shows_each_share_its_interval_and_its_band_of_chance(audit):
    axes = forest_plot(audit).axes[0]
    names = [label.get_text() for label in axes.get_yticklabels()]
    methods = make_audit_table(audit, "").frame.iloc[:-1, 0]
    assert names == [*methods, "Control: trained to remember"]
    points = {}
    intervals = {}
    for line in axes.lines:
        row = line.get_ydata()[0]
        ends = [round(float(end), 2) for end in line.get_xdata()]
        if len(ends) == 1:
            points[row, ends[0]] = line.get_marker()
        elif len(ends) == 2:
            intervals.setdefault(row, []).append(ends)
    # control, none found, exploratory
    assert (points[0, 100.0], points[1, 4.25], points[2, 4.25]) == ("^", "s", "|")
    # wide enough for the interval of the last row
    low, high = (round(end, 2) for end in axes.get_xlim())
    assert points[3, low] == "<"
    assert points[3, high] == ">"
    assert not points.keys() & {(4, low), (4, high)}
    assert low < -25
    assert 140 < high < 160
    assert [-2.0, 10.5] in intervals[1]
    (start, _), (end, _) = axes.collections[1].get_paths()[0].get_extents().get_points()
    assert (start, end) == pytest.approx((-5.88, 5.88))


def test_the_forest_marks_a_system_that_an_attack_alone_has_flagged(audit):
    assert "†" not in read_texts(forest_plot(audit))
    audit.loc[1, ["verdict", "flagged"]] = ["residue", "u-lira_auroc"]
    marks = {text for text in read_texts(forest_plot(audit)).splitlines() if "†" in text}
    assert marks == {"MUNKEY †", "† flagged by an attack alone"}


def test_attacks_on_one_model_are_beside_the_mia_of_the_paper():
    attacks = []
    for seed, method in itertools.product((0, 2), ("cf", "ssd")):
        key = {"dataset": "digits", "rate": "0.1", "seed": seed, "method": method}
        auroc = {"auroc": 50.0 + seed, "auroc_low": 45.0 - seed, "auroc_high": 58.0 + seed}
        rate = {"tpr_1": 2.0, "tpr_1_low": 0.0, "tpr_1_high": 4.0}
        attacks.append(key | {"attack": "loss"} | auroc | rate)
        attacks.append(key | {"attack": "margin"} | auroc)
        attacks.append(key | {"attack": "logistic"} | auroc)
    metrics = [
        (0, "cf", "MIA", 49.0),
        (2, "cf", "MIA", 50.0),
        (0, "ssd", "MIA", 60.0),
        (2, "ssd", "MIA", 61.0),
        (0, "cf", "TA", 0.0),
    ]
    tidy = pd.concat([extra(metrics), extra([(0, "cf", "MIA", 0.0)], rate=0.02)])
    rows = [Row("cf", "CF", "retrain-t"), Row("ssd", "SSD", "retrain-t")]
    (titled,) = make_attack_tables(pd.DataFrame(attacks), tidy, rows)
    assert titled.title == "digits, forget rate 10%: n = 2 seeds"
    assert titled.frame["MIA"].tolist() == ["49.5", "60.5"]
    # Over seeds, 12.7 · 1.41 / √2; over samples, 7 below and 8 above in the mean of both seeds.
    assert titled.frame["Loss: AUROC"].tolist() == ["51.0 [36.5, 66.0]"] * 2
    assert titled.frame["Loss: TPR @ 1%"].tolist() == ["2.0 [0.0, 4.0]"] * 2
    assert titled.frame["Margin: TPR @ 1%"].tolist() == ["too few test samples"] * 2


def test_other_paths_than_the_deployed_one_are_shown_for_methods_alone(audit):
    more_paths = pd.concat([audit, audit.iloc[[0, 3]].assign(path="image")])
    selected = select_first_rows(more_paths)[["role", "path"]]
    assert selected.values.tolist() == audit[["role", "path"]].values.tolist()


def test_residual_shares_are_those_of_the_deployed_path_without_controls(audit):
    names = ["original-m", "munkey", "munkey", "retrain-m", "munkey"]
    (column,) = collect_residue({Path("digits"): audit.assign(name=names)}).values()
    assert column == {
        "original-m": "100.0 [100.0, 100.0]",
        "munkey": "4.2 [-2.0, 10.5]",
        "retrain-m": "20.0 [unbounded]",
    }


def test_an_audit_without_power_gives_no_share(audit):
    powerless = audit.assign(name="munkey", verdict="no power").iloc[[1]]
    assert collect_residue({Path("digits"): powerless}) == {"digits": {"munkey": "no power"}}


def trace(
    rate: float, seed: int, file: str, ids: float, rows: float, why: str | None = None
) -> dict[str, object]:
    """A search for deleted samples in a file."""
    key = {"dataset": "digits", "rate": rate, "seed": seed, "method": "munkey", "title": "MUNKEY"}
    return key | {"file": file, "ids": ids, "ids_of": 3, "rows": rows, "rows_of": 6, "why": why}


def test_traces_in_files_are_summed_over_seeds():
    lines = []
    for seed in (0, 2):
        lines += [trace(0.1, seed, file, *numbers) for file, numbers in FILES.items()]
    lines += [trace(0.02, 0, "original", 3, 6), trace(0.02, 0, "unlearned", 1, 2)]
    (titled,) = make_storage_tables(pd.DataFrame(lines))
    assert titled.title.startswith("digits")
    assert titled.title.endswith("n = 2 seeds")
    assert "xz" in titled.remark
    assert titled.frame.values.tolist() == [
        ["MUNKEY", "10%", "12 of 12", "0 of 12", "6 of 6", "0 of 6"],
        ["MUNKEY", "2%", "6 of 6", "2 of 6", "3 of 3", "1 of 3"],
    ]


def test_the_table_of_traces_says_how_exact_a_deletion_is():
    lines = []
    for title, deletion in (("MUNKEY", None), ("LDA", "exact"), ("KRR", "exact given lam")):
        for file, numbers in FILES.items():
            lines.append(trace(0.1, 0, file, *numbers) | {"title": title, "deletion": deletion})
    (titled,) = make_storage_tables(pd.DataFrame(lines))
    assert titled.frame["deletion is"].tolist() == ["–", "exact", "exact given lam"]
    assert "constants were chosen with the samples" in titled.remark


def test_a_search_that_finds_nothing_in_the_original_gives_no_number():
    lines = [
        trace(0.1, 0, "original", 3, 6),
        trace(0.1, 0, "unlearned", np.nan, np.nan, "not found either"),
    ]
    ((_, frame, _),) = make_storage_tables(pd.DataFrame(lines))
    reason = "not found either"
    assert frame.iloc[0].tolist() == ["MUNKEY", "10%", "6 of 6", reason, "3 of 3", reason]


def test_attacks_on_two_versions_have_a_line_for_each_number_of_samples_deleted_at_once():
    lines = [
        ("LDA", 1, "answers", 80.0),
        ("LDA", 1, "margins", 60.4),
        ("LDA", 1, "weights", 100.0),
        ("KNN", 10, "answers", 30.0),
        ("KNN", 10, "margins", 40.0),
    ]
    attacks = pd.DataFrame(lines, columns=["title", "batch", "attacker", "precision"])
    attacks = attacks.assign(deletions=40, chance=0.0928)
    ((title, frame, remark),) = make_differencing_tables(attacks, "digits")
    assert title.startswith("digits: ")
    assert remark.startswith("–: ")
    assert frame.values.tolist() == [
        ["LDA", "1", "40", "80", "60", "100", "0.093"],
        ["KNN", "10", "40", "30", "40", "–", "0.093"],
    ]
    assert make_differencing_tables(pd.DataFrame(), "digits") == []


def test_a_residue_that_the_interval_hides_is_marked(audit):
    flagged = audit.assign(name="munkey", verdict="residue", flagged="u-lira_auroc few").iloc[[1]]
    (column,) = collect_residue({Path("digits"): flagged}).values()
    assert column == {"munkey": "4.2 [-2.0, 10.5] †"}
    (cell,) = make_audit_table(flagged, "digits").frame["residual share [%]"]
    assert cell == "4.2 [-2.0, 10.5] †"
    (column,) = collect_residue({Path("digits"): flagged.assign(flagged="share few")}).values()
    assert column == {"munkey": "4.2 [-2.0, 10.5] ‡"}
    shown = flagged.assign(flagged="share few", share_low=0.1)
    (column,) = collect_residue({Path("digits"): shown}).values()
    assert column == {"munkey": "4.2 [0.1, 10.5]"}


@pytest.mark.parametrize(
    ("value", "text"), [(-0.04, "0.0"), (0.04, "0.0"), (-0.06, "-0.1"), (99.95, "100.0")]
)
def test_zero_has_no_sign(value, text):
    assert format_decimal(value) == text
