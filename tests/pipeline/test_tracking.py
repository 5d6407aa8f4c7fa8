"""What MLflow shows of the results: made from the files on disk, one run for each evaluation, candidate and table."""

import pandas as pd
import pytest

from munkey.core.files import write_json, write_text
from munkey.evaluation.records import Evaluation
from munkey.pipeline.layout import Layout
from munkey.pipeline.tracking import Run, attempt, flat, outcome, runs_of

LAYOUT = Layout("default")
TITLES = {"original-t": "Original (T)", "scrub": "SCRUB"}


def record(path, **entries):
    history = [{"epoch": n, "loss": 1 / n, "accuracy": n / 10, "lr": 0.1 * n, "seconds": 1.0} for n in (1, 2)]
    content = {
        "settings": {"train": {"lr": 0.1}},
        "history": history,
        "provenance": {"commit": "abc", "versions": {"torch": "2.0"}},
        "started": "2025-01-01T00:00:00.000+00:00",
        "ended": "2025-01-01T00:00:01.500+00:00",
    }
    write_json(path, content | entries)
    return str(path)


@pytest.fixture
def results(tmp_path, monkeypatch):
    """The results of an original and of SCRUB, whose settings were searched."""
    monkeypatch.chdir(tmp_path)
    rows = [("digits", 0.1, 0, method, "TA", value) for method, value in (("original-t", 97.5), ("scrub", 90.25))]
    columns = ["dataset", "rate", "seed", "method", "metric", "value"]
    write_text("results/default/metrics.csv", pd.DataFrame(rows, columns=columns).to_csv(index=False))
    table = {"dataset": ["digits"] * 2, "method": list(TITLES), "rate": [0.1] * 2, "n": [3, 2], "gap_mean": [None, 1.5]}
    write_text("results/default/tables/main.csv", pd.DataFrame(table).to_csv(index=False))
    for name in ("main", "runtime"):
        write_text(f"results/default/tables/{name}.md", name)
    write_text("forget.csv", "id\n1\n")
    trained = record(tmp_path / "results/default/original/record.json", train_epoch_s=1.0)
    unlearned = record(tmp_path / "results/default/scrub/record.json", facts={"steps": {"best": 2}})
    for number in (0, 1):
        record(tmp_path / f"results/default/search/{number}/record.json")
    candidates = [{"settings": {"alpha": alpha}, "val_accuracy": 80.0 + alpha} for alpha in (1, 2)]
    write_json("results/default/search/search.json", {"candidates": candidates, "chosen": 1})
    shared = {"dataset": "digits", "case": "", "rate": "0.1", "seed": 0, "logits": "none", "forget": "forget.csv"}
    original = Evaluation(method="original-t", record=trained, training=trained, **shared)
    scrub = Evaluation(method="scrub", record=unlearned, training=trained, **shared)
    return [original, scrub], {"results/default/search/search.json": scrub}


def test_there_is_a_run_for_each_evaluation_for_each_candidate_and_for_the_tables_of_a_data_set(results):
    runs = runs_of(*results, TITLES, LAYOUT)
    assert {run.experiment for run in runs} == {"digits"}
    assert [run.name for run in runs] == [
        "Original (T) @0.1 seed 0",
        "SCRUB @0.1 seed 0",
        "SCRUB @0.1 seed 0 candidate 0",
        "SCRUB @0.1 seed 0 candidate 1",
        "Tables",
    ]


def test_an_evaluation_is_shown_with_its_metrics_settings_provenance_curves_and_files(results):
    original, scrub = runs_of(*results, TITLES, LAYOUT)[:2]
    names = {"dataset": "digits", "rate": "0.1", "seed": "0", "method": "scrub"}
    train = {"train/loss": [1.0, 0.5], "train/accuracy": [0.1, 0.2], "train/lr": [0.1, 0.2]}
    assert scrub == Run(
        experiment="digits",
        name="SCRUB @0.1 seed 0",
        params=names | {"train.lr": 0.1, "facts.steps.best": 2},
        metrics={"TA": 90.25},
        tags=names | {"kind": "run", "commit": "abc", "versions.torch": "2.0"},
        curves=train | {name.replace("train", "unlearn"): values for name, values in train.items()},
        artifacts=(results[0][1].record, "forget.csv"),
        started="2025-01-01T00:00:00.000+00:00",
        ended="2025-01-01T00:00:01.500+00:00",
    )
    assert original.curves == train
    assert original.metrics == {"TA": 97.5}


def test_a_candidate_is_shown_with_its_settings_and_whether_it_was_chosen(results):
    candidates = runs_of(*results, TITLES, LAYOUT)[2:4]
    assert [run.params["alpha"] for run in candidates] == [1, 2]
    assert [run.metrics for run in candidates] == [{"val_accuracy": 81.0}, {"val_accuracy": 82.0}]
    assert [run.tags["chosen"] for run in candidates] == ["false", "true"]
    assert candidates[1].artifacts == ("results/default/search/1/record.json",)
    assert set(candidates[1].curves) == {"unlearn/loss", "unlearn/accuracy", "unlearn/lr"}


def test_tables_are_shown_with_the_gaps_that_they_hold(results):
    tables = runs_of(*results, TITLES, LAYOUT)[-1]
    assert tables.metrics == {"gap/scrub/rate0.1": 1.5}
    assert tables.params == {"n_seeds": 2}
    files = ("tables/main.csv", "tables/main.md", "tables/runtime.md", "metrics.csv")
    assert tables.artifacts == tuple(f"results/default/{file}" for file in files)


def test_a_runs_digest_depends_on_what_it_shows_and_on_its_files(results):
    before = [run.digest() for run in runs_of(*results, TITLES, LAYOUT)]
    assert [run.digest() for run in runs_of(*results, TITLES, LAYOUT)] == before
    write_text("forget.csv", "id\n2\n")
    changed = [run.digest() != digest for run, digest in zip(runs_of(*results, TITLES, LAYOUT), before, strict=True)]
    assert changed == [True, True, False, False, False]


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
        ({"uri": "http://host", "failure": "It is down."}, "It is down."),
    ):
        write_json(path, content)
        assert outcome(str(path)) == said
