"""What a mirror leaves behind: when it is attempted again, and what a run says of it at its end."""

import pytest

from munkey.core.files import write_json, write_text
from munkey.experiment.tracking.tracking import attempt, flat, outcome


def test_nested_settings_are_named_with_dots():
    assert flat({"train": {"lr": 1, "crop": {"low": 2}}, "k": [3]}) == {"train.lr": 1, "train.crop.low": 2, "k": [3]}


@pytest.mark.parametrize(
    ("left", "number"),
    [
        (None, 0),
        ('{"attempt": 0, "failure": null}', 0),
        ('{"attempt": 0, "failure": "refused"}', 1),
        ('{"attempt": 1, "failure": null}', 1),
        ('{"attempt": 1, "failure": "refused"}', 2),
        ('{"att', -1),
    ],
    ids=["first", "succeeded", "failed", "succeeded then", "failed again", "damaged"],
)
def test_only_a_mirror_that_failed_is_attempted_again(left, number, tmp_path):
    path = tmp_path / "tracking.json"
    if left:
        write_text(path, "{}" if number < 0 else left)
    if number < 0:
        path.write_text(left)
    assert attempt(str(path)) == number


def test_a_run_ends_by_saying_where_to_look_or_why_there_is_nothing(tmp_path):
    path = tmp_path / "tracking.json"
    assert outcome(str(path)) == "make ui"
    for content, said in (
        ({"uri": "sqlite:///mlflow.db", "failure": None}, "make ui"),
        ({"uri": "http://user:secret@host", "failure": None}, "http://host"),
        (
            {"uri": "http://host", "failure": None, "views": {"a": "http://host/#/a"}},
            "http://host\n          http://host/#/a",
        ),
        ({"uri": "http://host", "failure": "It is down."}, "It is down."),
    ):
        write_json(path, content)
        assert outcome(str(path)) == said
