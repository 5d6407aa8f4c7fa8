"""What MLflow shows of the results: made from the files on disk, methods first and their seeds below them."""

from dataclasses import replace

import pandas as pd
import pytest

from munkey.core.files import write_json, write_npy, write_text
from munkey.core.paths import Layout
from munkey.evaluation.records import Evaluation
from munkey.experiment.tracking.runs import NOTE, NOTES, Results, Run, flatten, make_runs
from munkey.settings import InferenceSettings, KeySettings

LAYOUT = Layout("default")
TITLES = {"original-m": "Original (M)", "scrub": "SCRUB"}
# test accuracy of seeds 0 and 1
MEASURED = {"original-m": (97.512345, 98.0), "scrub": (90.25, 91.5)}
ENCODER = KeySettings(encoder="small", revision=None, image_size=None, batch_size=1, depth=4)
QUERY = {"keys": ENCODER, "inference": InferenceSettings(k=4, fusion="rank", temperature=0.1)}
STARTED = "2025-01-01T00:00:0{}.000+00:00"
ENDED = "2025-01-01T00:00:0{}.500+00:00"


def record(path, seed, **entries):
    history = [
        {"epoch": n, "loss": 1 / 3 / n, "accuracy": n / 10, "lr": 0.1 * n, "seconds": 1.0}
        for n in (1, 2)
    ]
    content = {
        "settings": {"train": {"lr": 0.1}},
        "history": history,
        "provenance": {"commit": "abc", "versions": {"torch": "2.0"}},
        "started": STARTED.format(seed),
        "ended": ENDED.format(seed),
    }
    write_json(path, content | entries)
    return str(path)


def tables():
    """The metrics of every seed, the main table of their means, and the other tables."""
    rows = []
    for method, accuracies in MEASURED.items():
        for seed, accuracy in enumerate(accuracies):
            rows.append(("digits", 0.1, seed, method, "TA", accuracy))
            rows.append(("digits", 0.1, seed, method, "gap", 1.0 + seed))
    columns = ["dataset", "rate", "seed", "method", "metric", "value"]
    metrics = pd.DataFrame(rows, columns=columns)
    write_text("results/default/metrics.csv", metrics.to_csv(index=False))
    means = {
        "TA_mean": [97.7561725, 90.875],
        "TA_sd": [0.34486, 0.8839],
        "gap_mean": [None, 1.25],
        "n": [3, 2],
    }
    table = {"dataset": ["digits"] * 2, "method": list(TITLES), "rate": [0.1] * 2} | means
    write_text("results/default/tables/main.csv", pd.DataFrame(table).to_csv(index=False))
    for name in ("main", "runtime"):
        write_text(f"results/default/tables/{name}.md", name)


@pytest.fixture
def results(tmp_path, monkeypatch):
    """The results of an original and of SCRUB, two seeds each; SCRUB's settings were searched for seed 0."""
    monkeypatch.chdir(tmp_path)
    tables()
    write_npy("results/default/data/digits/images.npy", pd.Series([0, 1, 2]).to_numpy())
    write_text(
        "results/default/data/digits/samples.csv",
        "id,split,label\n0,train,0\n1,train,1\n2,test,0\n",
    )
    evaluations = []
    for seed in (0, 1):
        write_text(f"forget{seed}.csv", f"id\n{seed}\n")
        original = record(f"results/default/original{seed}/record.json", seed)
        facts = {"steps": {"best": seed}}
        scrub = record(f"results/default/scrub{seed}/record.json", seed, facts=facts)
        shared = {"dataset": "digits", "case": "", "rate": "0.1", "seed": seed, "logits": "none"}
        shared |= {"training": original, "forget": f"forget{seed}.csv"}
        evaluations += [
            Evaluation(method="original-m", record=original, **shared),
            Evaluation(method="scrub", record=scrub, **shared),
        ]
    return Results(LAYOUT, evaluations, TITLES, {"digits": {"original-m": QUERY, "scrub": {}}})


def test_each_run_stands_after_the_one_that_it_is_nested_under(results):
    runs = make_runs(results)
    assert {run.experiment for run in runs} == {"digits"}
    assert [(run.name, run.parent) for run in runs] == [
        ("Original (M) @0.1", ""),
        ("Original (M) @0.1 seed 0", "Original (M) @0.1"),
        ("Original (M) @0.1 seed 1", "Original (M) @0.1"),
        ("SCRUB @0.1", ""),
        ("SCRUB @0.1 seed 0", "SCRUB @0.1"),
        ("SCRUB @0.1 seed 1", "SCRUB @0.1"),
        ("Tables", ""),
    ]
    assert [run.tags["kind"] for run in runs] == ["method", "run", "run"] * 2 + ["table"]
    for run in runs:
        assert run.tags[NOTE] == NOTES[run.tags["kind"]]


def test_the_run_over_a_single_seed_does_not_name_the_seed(results):
    runs = make_runs(replace(results, evaluations=results.evaluations[:2]))
    assert [run.name for run in runs] == [
        "Original (M) @0.1",
        "Original (M) @0.1 seed 0",
        "SCRUB @0.1",
        "SCRUB @0.1 seed 0",
        "Tables",
    ]
    assert runs[0].params["seeds"] == "0"
    assert "seed" not in runs[0].params
    assert "seed" not in runs[0].tags


def test_a_seed_is_shown_with_its_metrics_settings_provenance_inputs_curves_and_files(results):
    original, _, _, scrub = make_runs(results)[1:5]
    names = {"dataset": "digits", "rate": "0.1", "seed": "0", "method": "scrub"}
    curves = {"loss": [0.3333, 0.1667], "accuracy": [0.1, 0.2], "lr": [0.1, 0.2]}
    train = {f"train/{name}": values for name, values in curves.items()}
    unlearn = {f"unlearn/{name}": values for name, values in curves.items()}
    digests = {name: scrub.params[name] for name in ("data_digest", "forget_digest")}
    assert scrub == Run(
        experiment="digits",
        name="SCRUB @0.1 seed 0",
        params=names | {"train.lr": 0.1, "facts.steps.best": 0} | digests,
        metrics={"TA": 90.25, "seed_gap": 1.0},
        tags=names
        | {"kind": "run", NOTE: NOTES["run"], "commit": "abc", "versions.torch": "2.0"}
        | {"mlflow.source.git.commit": "abc"},
        curves=train | unlearn,
        artifacts=(results.evaluations[1].record, "forget0.csv"),
        started=STARTED.format(0),
        ended=ENDED.format(0),
        parent="SCRUB @0.1",
    )
    assert original.curves == train
    assert original.metrics == {"TA": 97.51, "seed_gap": 1.0}


def test_the_parameters_of_a_system_with_a_memory_hold_its_query_settings(results):
    original, scrub = (run for run in make_runs(results) if run.tags["kind"] == "method")
    assert original.params["inference.k"] == 4
    assert original.params["keys.encoder"] == "small"
    for name in scrub.params:
        assert not name.startswith(("inference.", "keys."))


def test_a_method_has_the_means_of_the_table_and_the_settings_that_its_seeds_share(results):
    original, scrub = (run for run in make_runs(results) if run.tags["kind"] == "method")
    assert scrub.metrics == {"TA": 90.88, "TA_sd": 0.8839, "gap": 1.25}
    assert original.metrics == {"TA": 97.76, "TA_sd": 0.3449}
    names = {"dataset": "digits", "rate": "0.1", "method": "scrub"}
    assert scrub.params.items() >= (names | {"train.lr": 0.1, "seeds": "0, 1"}).items()
    assert "data_digest" in scrub.params
    assert "forget_digest" not in scrub.params
    assert scrub.tags["commit"] == scrub.tags["mlflow.source.git.commit"] == "abc"
    assert "seed" not in scrub.tags
    assert (scrub.started, scrub.ended) == (STARTED.format(0), ENDED.format(1))


def test_other_samples_have_another_digest(results):
    seeds = make_runs(results)[1:3]
    first, second = (run.params for run in seeds)
    assert first["data_digest"] == second["data_digest"]
    assert first["forget_digest"] != second["forget_digest"]
    write_npy("results/default/data/digits/images.npy", pd.Series([0, 1, 3]).to_numpy())
    changed = make_runs(results)[1].params
    assert changed["data_digest"] != first["data_digest"]
    assert changed["forget_digest"] == first["forget_digest"]


def test_tables_are_files_whose_numbers_the_methods_have(results):
    tables = make_runs(results)[-1]
    assert tables.metrics == {}
    assert tables.params == {"n_seeds": 2}
    files = ("tables/main.csv", "metrics.csv", "tables/main.md", "tables/runtime.md")
    assert tables.table == "results/default/tables/main.csv"
    assert tables.artifacts == tuple(f"results/default/{file}" for file in files)


def test_the_digest_of_a_run_changes_with_its_files(results):
    before = [run.digest() for run in make_runs(results)]
    assert [run.digest() for run in make_runs(results)] == before
    write_text("forget0.csv", "id\n2\n")
    changed = []
    for run, digest in zip(make_runs(results), before, strict=True):
        if run.digest() != digest:
            changed.append(run.name)
    assert changed == ["Original (M) @0.1 seed 0", "SCRUB @0.1 seed 0"]


def test_nested_settings_are_named_with_dots():
    assert flatten({"train": {"lr": 1, "crop": {"low": 2}}, "k": [3]}) == {
        "train.lr": 1,
        "train.crop.low": 2,
        "k": [3],
    }
