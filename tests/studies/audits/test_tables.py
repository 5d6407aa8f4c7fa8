"""The table of an audit, and its forest plot."""

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

SHARE = {"flagged": "", "share": 4.25, "share_low": -2.0, "share_high": 10.5, "chance": 3.0}
FILES = {"original": (3, 6), "unlearned": (0, 0)}  # ids and rows of which a file holds
LINES = [
    {
        "title": "Original (M)",
        "role": "nothing",
        "path": "deployed",
        "verdict": "control",
        "words": "all",
        "pairs": 8,
    },
    {
        "title": "MUNKEY",
        "role": "method",
        "path": "deployed",
        "verdict": "none found",
        "words": "no more",
        "pairs": 8,
    },
    {
        "title": "MUNKEY",
        "role": "method",
        "path": "image",
        "verdict": None,
        "words": None,
        "pairs": 8,
    },
    {
        "title": "Retrain (M)",
        "role": "oracle",
        "path": "deployed",
        "verdict": "control",
        "words": "no more",
        "pairs": 2,
    },
    {
        "title": "MUNKEY, p_token 0.9",
        "role": "control",
        "path": "deployed",
        "verdict": "residue",
        "flagged": "share",
        "words": "most",
        "pairs": 2,
    },
]


@pytest.fixture
def audit() -> pd.DataFrame:
    lines = [{"family": "munkey", **SHARE, **line} for line in LINES]
    lines[0] |= {"p": 0.0004, "share": 100.0, "share_low": 100.0, "share_high": 100.0}
    lines[1] |= {
        "u-lira_auroc": 52.66,
        "u-lira_auroc_low": 50.0,
        "u-lira_auroc_high": 56.04,
        "p": 0.0312,
        "js_ratio": 1.25,
    }
    lines[3] |= {"share": 20.0, "share_low": -np.inf, "share_high": np.inf}
    lines[4] |= {"share": 86.0, "share_low": 67.0, "share_high": 140.0}
    return pd.DataFrame(lines)


def test_strata_stand_beside_the_average_and_name_what_it_hides(audit):
    for name, value in {"low": 2000.0, "mid": 3.0, "high": 4.0, "top": 30.0}.items():
        audit[[f"share_of_{name}", f"share_of_{name}_low", f"share_of_{name}_high"]] = (
            value,
            value - 10,
            value + 10,
        )
        audit[f"put_{name}"] = value / 100
    audit["share_of_low_low"] = -1234.0
    titled = make_strata_table(audit, "digits")
    assert titled.frame.iloc[0].tolist() == [
        *[
            "MUNKEY",
            "4.2 [-2.0, 10.5]",
            "2000.0 [< -999, > 999]",
            "3.0 [-7.0, 13.0]",
            "4.0 [-6.0, 14.0]",
        ],
        *["30.0 [20.0, 40.0]", "20.00 / 0.03 / 0.04 / 0.30"],
    ]
    assert (
        "Shown to retain more of the most memorized tenth than of all samples: MUNKEY 30.0 [20.0, 40.0]"
        in titled.remark
    )
    overlapping = audit.assign(share_high=25.0)  # the tenth's interval begins at 20
    assert "than of all samples: no method" in make_strata_table(overlapping, "digits").remark
    assert "No residue found on average, but above 0 here: MUNKEY, top tenth 30.0" in titled.remark
    assert (
        "need at least two pairs"
        in make_strata_table(audit.drop(columns="share_of_top"), "digits").remark
    )


def test_rows_are_named_by_what_was_done_and_how_they_were_asked(audit):
    assert make_audit_table(audit, "digits").frame["Model, and what was done"].tolist() == [
        "Original (M)",
        "MUNKEY",
        "MUNKEY, image alone",
        "Retrain (M)",
        "Control: MUNKEY, p_token 0.9",
    ]


def test_numbers_stand_with_their_intervals_and_what_is_not_known_is_a_dash(audit):
    titled = make_audit_table(audit, "digits")
    assert titled.title == "digits: 2 to 8 pairs of models, percent"
    assert (
        make_audit_table(audit.assign(pairs=3), "digits").title
        == "digits: 3 pairs of models, percent"
    )
    line = titled.frame.iloc[1]
    assert line["residual share [%]"] == "4.2 [-2.0, 10.5]"
    assert line["LiRA AUROC"] == "52.7 [50.0, 56.0]"
    assert (line["TPR @ 1%"], line["p"], line["distance / floor"]) == ("–", "0.031", "1.25")
    assert titled.frame["p"].tolist() == ["< 0.001", "0.031", "–", "–", "–"]
    assert titled.frame["verdict"].tolist() == ["all", "no more", "exploratory", "no more", "most"]


def test_the_file_of_an_audit_has_its_columns_and_no_other(audit, tmp_path, monkeypatch):
    made = SimpleNamespace(family="munkey", controls=[], make_rows=lambda: audit.to_dict("records"))
    monkeypatch.setattr(job, "read_audits", lambda *_: [made])
    monkeypatch.setattr(job.theme, "save", lambda *_: None)
    table, *others = (
        tmp_path / name
        for name in (
            "table.csv",
            "controls.json",
            "table.md",
            "shares.svg",
            "strata.md",
            "strata.svg",
        )
    )
    job.audit([], [], table, *others, "digits")
    assert read_table(table).columns.equals(audit.columns)


def test_the_forest_shows_each_share_its_interval_and_its_band_of_chance(audit):
    axes = forest_plot(audit).axes[0]
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert names == [
        *make_audit_table(audit, "").frame.iloc[:-1, 0],
        "Control: trained to remember",
    ]
    points = {
        (line.get_ydata()[0], round(float(line.get_xdata()[0]), 2)): line.get_marker()
        for line in axes.lines
        if len(line.get_xdata()) == 1
    }
    # control, none found, exploratory
    assert (points[0, 100.0], points[1, 4.25], points[2, 4.25]) == ("^", "s", "|")
    # wide enough for the interval of the last row
    low, high = (round(end, 2) for end in axes.get_xlim())
    assert (
        points[3, low] == "<"
        and points[3, high] == ">"
        and not points.keys() & {(4, low), (4, high)}
    )
    assert low < -25 and 140 < high < 160
    intervals = [
        line.get_xdata()
        for line in axes.lines
        if len(line.get_xdata()) == 2 and line.get_ydata()[0] == 1
    ]
    assert [-2.0, 10.5] in [list(map(float, interval)) for interval in intervals]
    (left, _), (right, _) = axes.collections[1].get_paths()[0].get_extents().get_points()
    assert (left, right) == pytest.approx((-5.88, 5.88))


def test_the_forest_marks_what_an_attack_alone_has_flagged(audit):
    assert "†" not in str([text.get_text() for text in forest_plot(audit).legends[0].get_texts()])
    audit.loc[1, ["verdict", "flagged"]] = ["residue", "u-lira_auroc"]
    figure = forest_plot(audit)
    names = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert [name for name in names if "†" in name] == ["MUNKEY †"]
    assert "† flagged by an attack alone" in [
        text.get_text() for text in figure.legends[0].get_texts()
    ]


def test_attacks_on_one_model_stand_beside_the_papers_mia():
    lines = [
        {"dataset": "digits", "rate": "0.1", "seed": seed, "method": method, "attack": attack}
        | {"auroc": 50.0 + seed, "auroc_low": 45.0 - seed, "auroc_high": 58.0 + seed}
        | ({"tpr_1": 2.0, "tpr_1_low": 0.0, "tpr_1_high": 4.0} if attack == "loss" else {})
        for seed in (0, 2)
        for method in ("cf", "ssd")
        for attack in ("loss", "margin", "logistic")
    ]
    keys = [("cf", 0, 49.0), ("cf", 2, 50.0), ("ssd", 0, 60.0), ("ssd", 2, 61.0)]
    tidy = pd.DataFrame(
        [
            {"dataset": "digits", "rate": 0.1, "seed": s, "method": m, "metric": "MIA", "value": v}
            for m, s, v in keys
        ]
        + [
            {
                "dataset": "digits",
                "rate": 0.02,
                "seed": 0,
                "method": "cf",
                "metric": "MIA",
                "value": 0.0,
            }
        ]
        + [
            {
                "dataset": "digits",
                "rate": 0.1,
                "seed": 0,
                "method": "cf",
                "metric": "TA",
                "value": 0.0,
            }
        ]
    )
    rows = [Row("cf", "CF", "retrain-t"), Row("ssd", "SSD", "retrain-t")]
    (titled,) = make_attack_tables(pd.DataFrame(lines), tidy, rows)
    assert titled.title == "digits, forget rate 10%: n = 2 seeds"
    assert titled.frame["MIA"].tolist() == ["49.5", "60.5"]
    # Over seeds, 12.7 · 1.41 / √2; over samples, 7 below and 8 above in the mean of both seeds.
    assert titled.frame["Loss: AUROC"].tolist() == ["51.0 [36.5, 66.0]"] * 2
    assert titled.frame["Loss: TPR @ 1%"].tolist() == ["2.0 [0.0, 4.0]"] * 2
    assert titled.frame["Margin: TPR @ 1%"].tolist() == ["too few test samples"] * 2


def test_other_paths_than_the_deployed_one_are_shown_of_methods_alone(audit):
    asked = pd.concat([audit, audit.iloc[[0, 3]].assign(path="image")])
    assert (
        select_first_rows(asked)[["role", "path"]].values.tolist()
        == audit[["role", "path"]].values.tolist()
    )


def test_what_is_left_is_that_of_the_deployed_path_and_of_no_control(audit):
    names = ["original-m", "munkey", "munkey", "retrain-m", "munkey"]
    (column,) = collect_residue({Path("digits"): audit.assign(name=names)}).values()
    assert column == {
        "original-m": "100.0 [100.0, 100.0]",
        "munkey": "4.2 [-2.0, 10.5]",
        "retrain-m": "20.0 [unbounded]",
    }


def test_where_an_audit_has_no_power_no_share_is_given(audit):
    powerless = audit.assign(name="munkey", verdict="no power").iloc[[1]]
    assert collect_residue({Path("digits"): powerless}) == {"digits": {"munkey": "no power"}}


def stored(
    rate: float, seed: int, file: str, ids: float, rows: float, why: str | None = None
) -> dict[str, object]:
    key = {
        "dataset": "digits",
        "rate": rate,
        "seed": seed,
        "method": "munkey",
        "title": "MUNKEY",
        "file": file,
    }
    return key | {"ids": ids, "ids_of": 3, "rows": rows, "rows_of": 6, "why": why}


def test_what_files_hold_is_summed_over_seeds():
    lines = [stored(0.1, seed, file, *found) for seed in (0, 2) for file, found in FILES.items()]
    (titled,) = make_storage_tables(
        pd.DataFrame(
            [*lines, stored(0.02, 0, "original", 3, 6), stored(0.02, 0, "unlearned", 1, 2)]
        )
    )
    assert titled.title == "digits: traces of deleted samples in the system's file, n = 2 seeds"
    assert (
        titled.remark.startswith("Searched for: deleted ids, keys and tokens")
        and "xz" in titled.remark
    )
    assert titled.frame.values.tolist() == [
        ["MUNKEY", "10%", "12 of 12", "0 of 12", "6 of 6", "0 of 6"],
        ["MUNKEY", "2%", "6 of 6", "2 of 6", "3 of 3", "1 of 3"],
    ]


def test_a_table_of_what_files_hold_says_how_exact_each_deletion_is():
    lines = []
    for title, deletion in (("MUNKEY", None), ("LDA", "exact"), ("KRR", "exact given lam")):
        for file, found in FILES.items():
            lines.append(stored(0.1, 0, file, *found) | {"title": title, "deletion": deletion})
    (titled,) = make_storage_tables(pd.DataFrame(lines))
    assert titled.frame["deletion is"].tolist() == ["–", "exact", "exact given lam"]
    assert "but the constants were chosen with the samples" in titled.remark


def test_a_search_that_proves_nothing_gives_no_number():
    lines = [
        stored(0.1, 0, "original", 3, 6),
        stored(0.1, 0, "unlearned", np.nan, np.nan, "not found either"),
    ]
    ((_, frame, _),) = make_storage_tables(pd.DataFrame(lines))
    assert frame.iloc[0].tolist() == [
        "MUNKEY",
        "10%",
        "6 of 6",
        "not found either",
        "3 of 3",
        "not found either",
    ]


def test_who_is_named_by_two_versions_has_a_line_for_each_number_deleted_at_once():
    asked = [("LDA", 1, "answers", 80.0), ("LDA", 1, "margins", 60.4), ("LDA", 1, "weights", 100.0)]
    asked += [("KNN", 10, "answers", 30.0), ("KNN", 10, "margins", 40.0)]
    found = pd.DataFrame(asked, columns=["title", "batch", "attacker", "precision"]).assign(
        deletions=40, chance=0.0928
    )
    ((title, frame, remark),) = make_differencing_tables(found, "digits")
    assert title.startswith("digits: ") and remark.startswith("–: ")
    assert frame.values.tolist() == [
        ["LDA", "1", "40", "80", "60", "100", "0.093"],
        ["KNN", "10", "40", "30", "40", "–", "0.093"],
    ]
    assert make_differencing_tables(pd.DataFrame(), "digits") == []


def test_a_row_that_an_attack_alone_flags_is_marked(audit):
    alone = audit.assign(name="munkey", verdict="residue", flagged="u-lira_auroc few").iloc[[1]]
    (column,) = collect_residue({Path("digits"): alone}).values()
    assert column == {"munkey": "4.2 [-2.0, 10.5] †"}
    assert make_audit_table(alone, "digits").frame["residual share [%]"].tolist() == [
        "4.2 [-2.0, 10.5] †"
    ]
    (column,) = collect_residue({Path("digits"): alone.assign(flagged="share few")}).values()
    assert column == {"munkey": "4.2 [-2.0, 10.5]"}


@pytest.mark.parametrize(
    ("value", "text"), [(-0.04, "0.0"), (0.04, "0.0"), (-0.06, "-0.1"), (99.95, "100.0")]
)
def test_no_zero_has_a_sign(value, text):
    assert format_decimal(value) == text
