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
from tests.integration.conftest import LOGGED_RUNS, Project


def active_runs(uri: str, experiment: str = "digits") -> dict[str, list]:
    """The active runs of an experiment by name."""
    client = MlflowClient(uri)
    found_experiment = client.get_experiment_by_name(experiment)
    runs: dict[str, list] = {}
    if found_experiment is None:
        return runs
    for run in client.search_runs([found_experiment.experiment_id], max_results=1000):
        runs.setdefault(run.info.run_name, []).append(run)
    return runs


def store(project: Project) -> str:
    return f"sqlite:///{project.path}/mlflow.db"


def test_every_system_is_logged_with_params_metrics_tags_curves_and_artifacts(
    finished: Project,
) -> None:
    runs = active_runs(store(finished))
    client = MlflowClient(store(finished))
    assert len(runs) == LOGGED_RUNS
    for runs_with_name in runs.values():
        assert len(runs_with_name) == 1
    run = runs["MUNKEY @0.1 seed 0"][0]
    method = runs["MUNKEY @0.1"][0]
    assert {"TA", "RA", "FA", "MIA", "seed_gap", "P_s", "unlearn_s"} <= set(run.data.metrics)
    for name in ("TA", "RA", "FA", "MIA"):
        assert run.data.metrics[name] == method.data.metrics[name]
    assert method.data.metrics["gap"] == run.data.metrics["seed_gap"]
    assert run.data.tags["mlflow.parentRunId"] == method.info.run_id
    assert run.data.params["data_digest"]
    assert run.data.params["forget_digest"]
    assert run.data.params["seed"] == "0"
    assert run.data.params["model.width"] == "16"
    assert run.data.params["inference.k"] == "4"
    assert run.data.params["keys.image_size"] == "32"
    assert run.data.tags["method"] == "munkey"
    assert run.data.tags["rate"] == "0.1"
    commit = finished.run("git", "rev-parse", "HEAD").stdout.strip()
    assert run.data.tags["mlflow.source.git.commit"].startswith(commit)
    assert run.info.status == "FINISHED"
    assert run.info.end_time >= run.info.start_time
    curve = client.get_metric_history(run.info.run_id, "train/loss")
    assert [point.step for point in curve] == [1, 2]
    artifacts = {artifact.path for artifact in client.list_artifacts(run.info.run_id)}
    assert artifacts == {"record.json", "rate0.1.csv"}
    tuned = runs["CF @0.1 seed 0"][0]
    assert len(client.get_metric_history(tuned.info.run_id, "unlearn/loss")) == 1
    tables = client.list_artifacts(runs["Tables"][0].info.run_id)
    assert "main.md" in {artifact.path for artifact in tables}
    assert client.search_registered_models() == []


def test_the_address_of_the_comparison_lists_methods_by_rising_gap(
    finished: Project,
) -> None:
    client = MlflowClient(store(finished))
    (address,) = list_comparisons(client, "http://host").values()
    query = parse_qs(urlsplit(address.replace("/#/", "/")).query)
    compared = [client.get_run(run_id) for run_id in json.loads(query["runs"][0])]
    gaps = [run.data.metrics["gap"] for run in compared if "gap" in run.data.metrics]
    assert len(compared) == 9
    assert gaps == sorted(gaps)
    assert len(gaps) == 6
    assert {run.data.tags["kind"] for run in compared} == {"method"}


def test_no_byte_of_a_key_or_token_is_in_mlflow(finished: Project) -> None:
    models = finished.path / "results/default/models/digits/seed0"
    memory = system.load(models / "full/original-m/system.safetensors").memory
    rows = [*memory.keys.numpy(), *memory.tokens.numpy()]
    traces = {extract_traces(row)[0] for row in rows}
    files = list_files((finished.path / "mlflow.db", finished.path / "mlartifacts"))
    assert len(files) > 9
    assert not any(search_file(file, traces) for file in files)


@pytest.mark.soak
def test_processes_that_log_at_once_lose_and_duplicate_no_run(
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
    processes = []
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        for name in ("default", "small") * 2:
            command = [sys.executable, "-c", code, name]
            process = subprocess.Popen(
                command,
                cwd=tmp_path / folder,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            processes.append(process)
    printed = [process.communicate(timeout=300)[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * 8, printed
    runs = active_runs(f"sqlite:///{tmp_path}/m.db", "e")
    assert sorted(runs) == [f"{name} {i}" for name in ("default", "small") for i in range(4)]
    for twins in runs.values():
        assert len(twins) == 2
        first, second = twins
        assert first.data.tags["munkey.results"] != second.data.tags["munkey.results"]


@pytest.mark.soak
def test_an_overlay_leaves_the_results_of_the_default_alone(project: Project) -> None:
    def files() -> dict[Path, tuple[bytes, int]]:
        contents = {}
        for path in (project.path / "results/default").rglob("*"):
            if path.is_file():
                contents[path] = (path.read_bytes(), path.stat().st_mtime_ns)
        return contents

    before = files()
    project.run("munkey", "mlflow", "sync")
    (project.path / "small.yaml").write_text(
        "{methods: [knn, munkey], train: {epochs: 1}, inference: {k: 1}}"
    )
    project.run("make", "-o", ".venv/ready", "run", "CONFIG=small.yaml")
    assert files() == before
    assert (project.path / "results/small/tables/main.md").exists()
    assert project.planned() == {}
    assert project.planned("--configfile", "small.yaml") == {}
    client = MlflowClient(store(project))
    experiments = [experiment.experiment_id for experiment in client.search_experiments()]
    runs = client.search_runs(experiments, max_results=1000)
    assert Counter(run.data.tags["munkey.results"] for run in runs) == {
        "results/default": LOGGED_RUNS,
        "results/small": 17,
    }


@pytest.mark.ci
def test_a_store_that_fails_is_reported_last_and_tried_again_in_the_next_run(
    project: Project,
) -> None:
    dead = "http://127.0.0.1:9"
    project.params({"tracking": {"uri": dead}})
    done = project.make("all")
    table = (project.path / "results/default/tables/main.md").read_text()
    assert render_plain(table) in done.stdout
    last = done.stdout.splitlines()[-1]
    assert last.startswith("MLflow ")
    assert f"tracking.uri = {dead} cannot be used" in last
    assert "`munkey mlflow sync`" in last
    assert project.planned() == {"track": 1}
    project.params({"tracking": {"uri": "sqlite:///mlflow.db"}})
    project.make("all")
    runs = active_runs(store(project))
    assert len(runs) == LOGGED_RUNS
    for runs_with_name in runs.values():
        assert len(runs_with_name) == 1
