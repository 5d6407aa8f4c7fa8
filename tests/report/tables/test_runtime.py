"""What forgetting costs: the table of run times."""

import pandas as pd

from munkey.report.tables.runtime import runtime_table
from munkey.report.tables.summary import summarize
from tests.report.inputs import ROWS, extra, tidy

LINES = [
    (0, "cf", "unlearn_s", 2.0),
    (1, "cf", "unlearn_s", 4.0),
    (2, "cf", "train_epoch_s", 0.5),
    (0, "cf", "search_s", 30.0),
    (0, "cf", "cpu_s", 7.0),
    (0, "cf", "train_s", 55.0),
    (0, "scrub", "P_s", 0.25),
    (0, "scrub", "unlearn_s", 0.02),
    (0, "retrain-t", "train_s", 50.0),
    (1, "retrain-t", "train_s", 70.0),
    (0, "knn", "unlearn_s", 0.001),
    (0, "original-t", "train_s", 66.0),
]


def summarize_times():
    return summarize(pd.concat([tidy(), extra(LINES)]), ROWS)


def read_table():
    """The lines of the table, by method."""
    frame = runtime_table(summarize_times(), ROWS, "markdown").frame
    return frame.set_index("Method").to_dict("index")


def test_times_are_beside_their_method():
    table = read_table()
    assert list(table["CF"].values()) == [
        *("digits", "10%", "3.0000 ± 1.4142", "20", "7.00", "30.0000", "0.5000", "–"),
    ]
    assert table["SCRUB"]["P_s"] == "0.2500"


def test_the_oracle_unlearns_by_training_and_the_speed_up_is_relative_to_it():
    table = read_table()
    assert table["Retrain (T)"]["Unlearn [s]"] == "60.0000 ± 14.1421"
    assert table["Retrain (T)"]["Speed-up"] == "1.0"
    assert table["SCRUB"]["Speed-up"] == "3000"
    assert table["Original (T)"]["Unlearn [s]"] == "–"
    assert table["Original (T)"]["Speed-up"] == "–"
    # it has no oracle
    assert table["KNN"]["Unlearn [s]"] == "0.0010"
    assert table["KNN"]["Speed-up"] == "–"


def test_the_speed_up_is_that_of_its_own_rate():
    seconds = extra([(0, "cf", "unlearn_s", 1.0)], rate=0.02)
    other = summarize(pd.concat([tidy(rate=0.02), seconds]), ROWS)
    frame = runtime_table(pd.concat([summarize_times(), other]), ROWS, "markdown").frame
    assert frame[frame["Method"] == "CF"]["Speed-up"].tolist() == ["20", "–"]
