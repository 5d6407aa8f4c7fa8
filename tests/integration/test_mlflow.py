"""The log in MLflow: complete, nothing logged twice, safe with several at once, embedded or on a server."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from mlflow.tracking import MlflowClient

from munkey.audits.attacks.storage import extract_traces, list_files, search_file
from munkey.experiment.tracking.mlflow_log import list_comparisons
from munkey.models import system
from munkey.report.tables.terminal import render_plain
from tests.integration.conftest import Project


def active(uri: str, experiment: str = "digits") -> dict[str, list]:
    """The active runs of an experiment by name."""
    client = MlflowClient(uri)
    found = client.get_experiment_by_name(experiment)
    runs: dict[str, list] = {}
    for run in client.search_runs([found.experiment_id], max_results=1000) if found else []:
        runs.setdefault(run.info.run_name, []).append(run)
    return runs


def store(project: Project) -> str:
    return f"sqlite:///{project.path}/mlflow.db"


RUNS = 19  # 9 systems, each as a method and with its one seed; the tables


def test_every_system_is_a_run_with_params_metrics_tags_curves_and_artifacts(
    finished: Project,
) -> None:
    runs, client = active(store(finished)), MlflowClient(store(finished))
    assert len(runs) == RUNS and all(len(found) == 1 for found in runs.values())
    run, method = runs["MUNKEY @0.1 seed 0"][0], runs["MUNKEY @0.1"][0]
    assert {"TA", "RA", "FA", "MIA", "seed_gap", "P_s", "unlearn_s"} <= set(run.data.metrics)
    assert (
        run.data.metrics.items()
        >= {name: method.data.metrics[name] for name in ("TA", "RA", "FA", "MIA")}.items()
    )
    assert method.data.metrics["gap"] == run.data.metrics["seed_gap"]
    assert run.data.tags["mlflow.parentRunId"] == method.info.run_id
    assert run.data.params["data_digest"] and run.data.params["forget_digest"]
    assert run.data.params["seed"] == "0" and run.data.params["model.width"] == "16"
    assert (run.data.params["inference.k"], run.data.params["keys.image_size"]) == ("4", "32")
    assert run.data.tags["method"] == "munkey" and run.data.tags["rate"] == "0.1"
    commit = finished.run("git", "rev-parse", "HEAD").stdout.strip()
    assert run.data.tags["mlflow.source.git.commit"].startswith(commit)
    assert run.info.status == "FINISHED" and run.info.end_time >= run.info.start_time
    curve = client.get_metric_history(run.info.run_id, "train/loss")
    assert [point.step for point in curve] == [1, 2]
    assert {a.path for a in client.list_artifacts(run.info.run_id)} == {
        "record.json",
        "rate0.1.csv",
    }
    tuned = runs["CF @0.1 seed 0"][0]
    assert len(client.get_metric_history(tuned.info.run_id, "unlearn/loss")) == 1
    assert "main.md" in {a.path for a in client.list_artifacts(runs["Tables"][0].info.run_id)}
    assert client.search_registered_models() == []


def test_the_address_of_the_ui_compares_the_methods_the_smallest_gap_first(
    finished: Project,
) -> None:
    client = MlflowClient(store(finished))
    (address,) = list_comparisons(client, "http://host").values()
    query = parse_qs(urlsplit(address.replace("/#/", "/")).query)
    compared = [client.get_run(run_id) for run_id in json.loads(query["runs"][0])]
    gaps = [run.data.metrics["gap"] for run in compared if "gap" in run.data.metrics]
    assert len(compared) == 9 and gaps == sorted(gaps) and len(gaps) == 6
    assert {run.data.tags["kind"] for run in compared} == {"method"}


def test_no_byte_of_a_key_or_token_is_in_mlflow(finished: Project) -> None:
    memory = system.load(
        finished.path / "results/default/models/digits/seed0/full/original-m/system.safetensors"
    ).memory
    rows = [part.numpy() for part in (memory.keys, memory.tokens)]
    wanted = {extract_traces(row)[0] for part in rows for row in part}
    files = list_files((finished.path / "mlflow.db", finished.path / "mlartifacts"))
    assert len(files) > 9 and not any(search_file(file, wanted) for file in files)


@pytest.mark.soak
def test_several_processes_that_log_at_once_lose_nothing_and_duplicate_nothing(
    tmp_path: Path,
) -> None:
    """Two checkouts, two configurations of each and each of these twice, in a store that does not exist yet."""
    code = (
        "import sys;"
        "from munkey.experiment.tracking.runs import Run;"
        "from munkey.experiment.tracking.mlflow_log import log;"
        "runs = [Run('e', f'{sys.argv[1]} {i}', {}, {'TA': float(i)}, {}) for i in range(4)];"
        "print(log('sqlite:///../m.db', sys.argv[1], runs))"
    )
    started = []
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        for name in ("default", "small") * 2:
            command = [sys.executable, "-c", code, name]
            started.append(
                subprocess.Popen(
                    command,
                    cwd=tmp_path / folder,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                )
            )
    printed = [process.communicate(timeout=300)[0] for process in started]
    assert [process.returncode for process in started] == [0] * 8, printed
    runs = active(f"sqlite:///{tmp_path}/m.db", "e")
    assert sorted(runs) == [f"{name} {i}" for name in ("default", "small") for i in range(4)]
    for twins in runs.values():
        assert len(twins) == len({run.data.tags["munkey.results"] for run in twins}) == 2


@pytest.mark.soak
def test_an_overlay_leaves_the_results_of_the_default_alone(project: Project) -> None:
    def files() -> dict[Path, tuple[bytes, int]]:
        paths = [path for path in (project.path / "results/default").rglob("*") if path.is_file()]
        return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in paths}

    before = files()
    project.run("munkey", "mlflow", "sync")
    (project.path / "small.yaml").write_text(
        "{methods: [knn, munkey], train: {epochs: 1}, inference: {k: 1}}"
    )
    project.run("make", "-o", ".venv/ready", "run", "CONFIG=small.yaml")
    assert files() == before
    assert (project.path / "results/small/tables/main.md").exists()
    assert project.planned() == {} and project.planned("--configfile", "small.yaml") == {}
    client = MlflowClient(store(project))
    runs = client.search_runs(
        [each.experiment_id for each in client.search_experiments()], max_results=1000
    )
    assert Counter(run.data.tags["munkey.results"] for run in runs) == {
        "results/default": RUNS,
        "results/small": 17,
    }


@pytest.mark.ci
def test_a_store_that_fails_is_told_last_costs_nothing_and_is_tried_again(project: Project) -> None:
    dead = "http://127.0.0.1:9"
    project.params({"tracking": {"uri": dead}})
    done = project.make("all")
    assert (
        render_plain((project.path / "results/default/tables/main.md").read_text()) in done.stdout
    )
    last = done.stdout.splitlines()[-1]
    assert last.startswith("MLflow ") and f"tracking.uri = {dead} cannot be used" in last
    assert "`munkey mlflow sync`" in last
    assert project.planned() == {"track": 1}
    project.params({"tracking": {"uri": "sqlite:///mlflow.db"}})
    project.make("all")
    runs = active(store(project))
    assert {name: len(found) for name, found in runs.items()} == dict.fromkeys(runs, 1) and len(
        runs
    ) == RUNS


@pytest.mark.ci
def test_an_edit_adds_runs_and_the_earlier_ones_stay_told_apart_by_what_changed(
    project: Project,
) -> None:
    project.run("munkey", "mlflow", "sync")
    project.params({"inference": {"k": 1}})
    project.snakemake()
    both = active(store(project))["MUNKEY @0.1 seed 0"]
    changed = {run.data.tags["munkey.present"]: run.data.tags.get("munkey.changed") for run in both}
    assert changed == {"false": None, "true": "inference.k: 4 → 1"}
    assert len(active(store(project))["CF @0.1 seed 0"]) == 1  # which does not depend on it
