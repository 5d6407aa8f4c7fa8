"""The frontier: which design leaves how little at which accuracy, in a sentence, a table and a front."""

import math

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from munkey.report.tables.frontier import (
    Design,
    collect_points,
    describe_frontier,
    make_frontier_table,
    recommend_design,
)
from munkey.unlearn.contract import METHODS
from tests.report.inputs import compared

KINDS = {"anew": "anew", "lda": "exact", "munkey": "rows", "cf": "weights", "ssd": "weights"}
ACCURACY = {
    "anew": (99.0, 0.5),
    "lda": (96.0, 0.4),
    "munkey": (95.0, 0.8),
    "cf": (98.5, 0.3),
    "ssd": (98.3, 0.4),
}
DESIGNS = [Design(name, name.upper(), kind, f"{name}'s") for name, kind in KINDS.items()]
LINE = {
    "path": "deployed",
    "role": "method",
    "verdict": "residue",
    "flagged": "share",
    "contrast": 0.1,
}


def summary(accuracy=ACCURACY, rate=0.1, half=1.5):
    """half: of the intervals of all differences, in points."""
    numbers = pd.DataFrame(
        {"dataset": "digits", "rate": rate, "method": name, "TA_mean": mean, "TA_sd": sd, "n": 3}
        | {"gap_mean": 1.0, "gap_sd": 0.1, "unlearn_s_mean": 0.02, "train_s_mean": 20.0}
        for name, (mean, sd) in accuracy.items()
    )
    return compared(numbers, half)


def found(**shares):
    """An audit: for each system, share, low, high, and what else its row has."""
    names = ("share", "share_low", "share_high")
    return pd.DataFrame(
        LINE | {"name": name} | dict(zip(names, interval, strict=True)) | further
        for name, (*interval, further) in shares.items()
    )


AUDIT = {
    "lda": (0.0, 0.0, 0.0, {"contrast": 0.0}),
    "munkey": (1.6, 1.0, 2.2, {}),
    "cf": (27.0, 16.0, 38.0, {}),
}


def front(made):
    return set(made[made["front"]]["name"])


def test_the_sentence_names_the_best_at_each_amount_left_its_ties_and_what_is_unknown():
    said = describe_frontier(collect_points(summary(), found(**AUDIT), DESIGNS))
    assert said == (
        "Most accurate with a residual share of at most 1%: LDA (96.00 ± 0.40%). With at most 5%: LDA"
        " (96.00 ± 0.40%), not significantly different from MUNKEY. With any share:"
        " CF (98.50 ± 0.30%), not significantly different from SSD. Retraining leaves nothing by definition: ANEW"
        " (99.00 ± 0.50%, 20 s). Not audited, or audited without power: SSD."
    )
    without = [design for design in DESIGNS if design.name != "lda"]
    said = describe_frontier(collect_points(summary(), found(**AUDIT), without))
    assert (
        "a residual share of at most 1%: no design is shown to have such a small share. With at most 5%: MUNKEY"
        in said
    )


ALONE = {name: (mean, math.nan) for name, (mean, _) in ACCURACY.items()}


def uncompared(accuracy):
    """A summary of one seed, without differences."""
    return summary(accuracy).assign(n=1).drop(columns="differences")


def test_nothing_is_told_apart_whose_answers_were_not_compared():
    said = describe_frontier(collect_points(uncompared(ALONE), found(**AUDIT), DESIGNS))
    assert "CF (98.50%). Retraining" in said and "significantly" not in said
    counted = collect_points(summary(ALONE).assign(n=1, tested_mean=400.0), found(**AUDIT), DESIGNS)
    assert (
        "CF (98.50 [96.8, 99.3]%), not significantly different from SSD. Retraining"
        in describe_frontier(counted)
    )
    exact = [design for design in DESIGNS if design.kind != "weights"]
    more = collect_points(summary(ALONE).assign(n=1, tested_mean=400.0), found(**AUDIT), exact)
    assert (
        "With at most 5%: LDA (96.00 [93.6, 97.5]%), not significantly different from MUNKEY."
        in describe_frontier(more)
    )
    title, frame, _ = make_frontier_table(counted, "html")
    assert "test accuracy with its 95% interval over 400 test samples" in title
    assert frame["Test accuracy"].tolist()[1] == "96.00 [93.6, 97.5]"


def test_of_designs_that_are_equal_sentence_and_front_name_all():
    """Of LDA and KNN, nothing is left; MUNKEY is as accurate, and 1.6% are left."""
    accuracy = dict.fromkeys(("lda", "knn", "munkey"), (96.0, 0.4))
    designs = [Design(name, name.upper(), "exact", "") for name in ("lda", "knn")]
    designs.append(Design("munkey", "MUNKEY", "rows", ""))
    made = collect_points(summary(accuracy), found(**AUDIT), designs)
    said = describe_frontier(made)
    assert "Most accurate with a residual share of at most 1%: LDA and KNN (96.00 ± 0.40%)." in said
    assert "With at most 5%: LDA and KNN and MUNKEY (96.00 ± 0.40%)." in said
    assert front(made) == {"lda", "knn", "munkey"}
    assert [
        name for name in make_frontier_table(made, "markdown").frame["Method"] if "**" in name
    ] == [*("**LDA**", "**KNN**", "**MUNKEY**")]


def test_the_advice_is_the_most_accurate_that_leaves_little_beside_what_is_shown_to_be_more_accurate():
    said = recommend_design(collect_points(summary(), found(**AUDIT), DESIGNS))
    assert said == (
        "Deploy LDA (96.00 ± 0.40%): the only design that deletes exactly; CF is more accurate by 2.5 points"
        " (95% interval of the difference: [1.0, 4.0]), but its residual share is 27.0 [16.0, 38.0]%."
    )


def test_the_advice_names_all_that_are_not_told_apart_and_says_so():
    equal = {
        "lda": (96.0, 0.4),
        "knn": (96.0, 0.4),
        "ncm": (95.9, 0.4),
        "ssd": (90.0, 0.4),
        "cf": (96.1, 0.4),
    }
    designs = [Design(name, name.upper(), "exact", "") for name in ("lda", "knn", "ncm")]
    designs += [Design(name, name.upper(), "weights", "") for name in ("ssd", "cf")]
    few = {"ssd": (0.2, -0.5, 0.9, {}), "cf": (27.0, 16.0, 38.0, {})}
    assert recommend_design(collect_points(summary(equal), found(**few), designs)) == (
        "Deploy LDA (96.00 ± 0.40%) or KNN (96.00 ± 0.40%) or NCM (95.90 ± 0.40%), which do not differ"
        " significantly in test accuracy: the most accurate of the 4 designs that are shown"
        " to have a residual share of at most 1%."
    )


def test_designs_that_were_not_compared_are_all_advised():
    equal = {"lda": (96.0, math.nan), "knn": (50.0, math.nan)}
    designs = [Design(name, name.upper(), "exact", "") for name in equal]
    said = recommend_design(collect_points(uncompared(equal), None, designs))
    assert said.startswith(
        "Deploy LDA (96.00%) or KNN (50.00%), which do not differ significantly in test accuracy: the most"
    )


def test_without_an_audit_what_deletes_exactly_is_advised_and_the_rest_is_said_to_be_not_audited():
    said = recommend_design(collect_points(summary(), None, DESIGNS))
    assert said.startswith(
        "Deploy LDA (96.00 ± 0.40%): the only design that deletes exactly; CF is more accurate by 2.5 points"
    )
    assert said.endswith("but it has not been audited (run `make audits`).")


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (
            (0.1, -0.2, 0.3, {"verdict": "no power", "flagged": ""}),
            "none is shown to have a residual share of at most 5%. To be sure, retrain",
        ),
        (
            (0.1, -0.2, 0.3, {"flagged": "few"}),
            "none is shown to have a residual share of at most 5%. To be sure, retrain (ANEW).",
        ),
        (
            None,
            "none deletes exactly, and none was audited (run `make audits`). To be sure, retrain (ANEW).",
        ),
    ],
)
def test_no_design_is_advised_that_is_not_shown_to_leave_little(row, words):
    designs = [design for design in DESIGNS if design.name in ("anew", "munkey")]
    audit = None if row is None else found(munkey=row)
    said = recommend_design(collect_points(summary(), audit, designs))
    assert said.startswith("No design can be recommended, because ") and words in said
    within = recommend_design(collect_points(summary(), found(munkey=(1.6, 1.0, 2.2, {})), designs))
    assert (
        within
        == "Deploy MUNKEY (95.00 ± 0.80%): the only design shown to have a residual share of at most 5%."
    )


@pytest.mark.parametrize(
    ("row", "left", "bound"),
    [
        ((0.5, -1.0, 2.0, {}), "0.5 [-1.0, 2.0]", 2.0),
        ((-33.0, -77.0, -5.0, {"verdict": "over-forgets"}), "-33.0 [-77.0, -5.0]", 77.0),
        ((0.1, -0.2, 0.3, {"flagged": "few"}), "0.1 [-0.2, 0.3] †", math.inf),
        ((0.1, -0.2, 0.3, {"verdict": "no power", "flagged": ""}), "no power", math.inf),
    ],
)
def test_the_bound_is_the_interval_end_further_from_0_and_holds_only_where_the_audit_does(
    row, left, bound
):
    made = collect_points(
        summary(ACCURACY | {"munkey": (97.0, 0.1)}), found(**AUDIT | {"munkey": row}), DESIGNS
    )
    line = made.set_index("name").loc["munkey"]
    assert (line["share_text"], line["bound"]) == (left, bound)
    assert ("munkey" in front(made)) == (bound == 2.0)
    assert math.isnan(line["share"]) == (left == "no power")


def test_an_exact_design_leaves_0_unless_the_audit_finds_something():
    assert collect_points(summary(), None, DESIGNS).set_index("name")["share_text"].to_dict() == {
        **{"anew": "0, by definition", "lda": "0, by construction"},
        **dict.fromkeys(["munkey", "cf", "ssd"], "not audited"),
    }
    audited = collect_points(summary(), found(**AUDIT), DESIGNS).set_index("name")
    assert audited.loc["lda", "share_text"] == "0, to the bit" and audited.loc["lda", "bound"] == 0
    wrong = collect_points(
        summary(), found(**AUDIT | {"lda": (3.0, 1.0, 6.0, {})}), DESIGNS
    ).set_index("name")
    assert wrong.loc["lda", "share_text"] == "3.0 [1.0, 6.0]" and wrong.loc["lda", "bound"] == 6


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=8))
def test_a_design_is_on_the_front_unless_something_more_accurate_leaves_no_more(drawn):
    names = [f"m{i}" for i in range(len(drawn))]
    audit = found(
        **{
            name: (float(bound), 0.0, float(bound), {})
            for name, (bound, _) in zip(names, drawn, strict=True)
        }
    )
    accuracy = {name: (90.0 + ta, 0.1) for name, (_, ta) in zip(names, drawn, strict=True)}
    made = collect_points(
        summary(accuracy), audit, [Design(name, name, "weights", "") for name in names]
    )
    bounds, accuracies = made["bound"].to_numpy(), made["TA_mean"].to_numpy()
    beaten = [
        ((bounds <= bound) & (accuracies > ta)).any()
        for bound, ta in zip(bounds, accuracies, strict=True)
    ]
    assert made["front"].tolist() == [not each for each in beaten]


def test_the_table_is_that_of_the_largest_rate_with_the_front_in_bold():
    both = pd.concat([summary(), summary(dict.fromkeys(ACCURACY, (1.0, 0.1)), rate=0.02)])
    title, frame, _ = make_frontier_table(collect_points(both, found(**AUDIT), DESIGNS), "markdown")
    assert title.startswith("digits, 10% forgotten: mean ± sd over n = 3 seeds")
    assert frame["Method"].tolist() == ["ANEW", "**LDA**", "MUNKEY", "**CF**", "SSD"]
    assert frame.iloc[2].tolist() == [
        "MUNKEY",
        "1.6 [1.0, 2.2]",
        "95.00 ± 0.80",
        "0.02",
        "munkey's",
        "1.00 ± 0.10",
    ]
    assert frame["Seconds"].tolist()[0] == "20"


def test_what_must_be_stored_follows_from_family_and_needs():
    assert {
        name: METHODS[name].storage
        for name in ("lda", "knn", "munkey", "cf", "sfron", "scrub", "sisa")
    } == {
        "lda": "keys, labels, weights",
        "knn": "keys, labels",
        "munkey": "weights, keys, tokens",
        "cf": "weights, retain set",
        "sfron": "weights, training set",
        "scrub": "weights, training set, val set",
        "sisa": "weights after each slice, retain set",
    }
