"""The mirror in MLflow: complete, idempotent, restorable, safe with several at once, embedded or on a server."""

import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from mlflow.tracking import MlflowClient

from munkey.pipeline.tracking import Run, mirror
from tests.integration.conftest import BIN, Project


def shown(uri: str, experiment: str = "digits") -> dict[str, list]:
    """The active runs of an experiment by name."""
    client = MlflowClient(uri)
    found = client.get_experiment_by_name(experiment)
    runs: dict[str, list] = {}
    for run in client.search_runs([found.experiment_id], max_results=1000) if found else []:
        runs.setdefault(run.info.run_name, []).append(run)
    return runs


def store(project: Project) -> str:
    return f"sqlite:///{project.path}/mlflow.db"


def test_every_system_is_a_run_with_params_metrics_tags_curves_and_artifacts(finished: Project) -> None:
    runs = shown(store(finished))
    assert len(runs) == 8 and all(len(found) == 1 for found in runs.values())
    run = runs["MUNKEY @0.1 seed 0"][0]
    assert {"TA", "RA", "FA", "MIA", "gap", "P_s", "unlearn_s"} <= set(run.data.metrics)
    assert run.data.params["seed"] == "0" and run.data.params["model.width"] == "16"
    assert run.data.tags["method"] == "munkey" and run.data.tags["rate"] == "0.1"
    assert run.info.status == "FINISHED" and run.info.end_time >= run.info.start_time
    client = MlflowClient(store(finished))
    curve = client.get_metric_history(run.info.run_id, "train/loss")
    assert [point.step for point in curve] == [1, 2]
    assert {a.path for a in client.list_artifacts(run.info.run_id)} == {"record.json", "rate0.1.csv"}
    tuned = runs["CF @0.1 seed 0"][0]
    assert len(client.get_metric_history(tuned.info.run_id, "unlearn/loss")) == 1
    tables = runs["Tables"][0]
    assert "main.md" in {a.path for a in client.list_artifacts(tables.info.run_id)}


def test_filters_find_runs_by_method_rate_and_seed(finished: Project) -> None:
    client = MlflowClient(store(finished))
    experiment = client.get_experiment_by_name("digits").experiment_id
    found = client.search_runs([experiment], "tags.method = 'knn' and tags.rate = '0.1' and tags.seed = '0'")
    assert [run.info.run_name for run in found] == ["KNN @0.1 seed 0"]


def test_tracking_again_never_duplicates_and_a_deleted_store_comes_back(project: Project) -> None:
    # the copy starts without a store of its own: mlflow.db came along, so its runs are kept
    project.run("snakemake", "--cores", "1", "--forcerun", "track", "--", "results/default/tracking.json")
    first = shown(store(project))
    assert {name: len(found) for name, found in first.items()} == dict.fromkeys(first, 1) and len(first) == 8
    (project.path / "mlflow.db").unlink()
    project.run("snakemake", "--cores", "1", "--forcerun", "track", "--", "results/default/tracking.json")
    again = shown(store(project))
    assert set(again) == set(first)
    assert {n: r[0].data.metrics for n, r in again.items()} == {n: r[0].data.metrics for n, r in first.items()}


def test_changed_runs_are_replaced_vanished_ones_removed_and_others_kept(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    uri = f"sqlite:///{tmp_path}/m.db"

    def run(name: str, accuracy: float) -> Run:
        return Run("e", name, {"p": 1}, {"TA": accuracy}, {"seed": "0"}, curves={"loss": [2.0, 1.0]})

    assert mirror(uri, [run("a", 1.0), run("b", 2.0)]) == {"kept": 0, "created": 2, "replaced": 0, "removed": 0}
    kept = shown(uri, "e")["a"][0].info.run_id
    assert mirror(uri, [run("a", 1.0), run("c", 3.0)]) == {"kept": 1, "created": 1, "replaced": 0, "removed": 1}
    assert mirror(uri, [run("a", 1.0), run("c", 4.0)]) == {"kept": 1, "created": 0, "replaced": 1, "removed": 0}
    runs = shown(uri, "e")
    assert runs["a"][0].info.run_id == kept
    assert [r.data.metrics["TA"] for r in runs["c"]] == [4.0] and "b" not in runs


def test_several_mirrors_at_once_lose_nothing_and_duplicate_nothing(tmp_path: Path) -> None:
    code = (
        "from munkey.pipeline.tracking import Run, mirror;"
        "print(mirror('sqlite:///m.db', [Run('e', f'r{i}', {}, {'TA': float(i)}, {}) for i in range(10)]))"
    )
    started = [
        subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(3)
    ]
    assert [process.wait(timeout=180) for process in started] == [0, 0, 0]
    runs = shown(f"sqlite:///{tmp_path}/m.db", "e")
    assert sorted(runs) == sorted(f"r{i}" for i in range(10)) and all(len(found) == 1 for found in runs.values())


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """A real tracking server on the loopback address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [
        BIN / "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1",
        "--backend-store-uri", f"sqlite:///{tmp_path}/server.db",
        "--artifacts-destination", str(tmp_path / "artifacts"),
    ]  # fmt: skip
    with (tmp_path / "server.log").open("w") as log:
        process = subprocess.Popen(
            command,
            cwd=tmp_path,
            stdout=log,
            stderr=log,
            env={"PATH": str(BIN), "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"},
        )
    uri, deadline = f"http://127.0.0.1:{port}", time.monotonic() + 90
    while True:
        try:
            urllib.request.urlopen(f"{uri}/health", timeout=2)
            break
        except OSError:
            assert time.monotonic() < deadline and process.poll() is None, (tmp_path / "server.log").read_text()
            time.sleep(0.5)
    yield uri
    process.terminate()
    process.wait(timeout=30)


def test_a_tracking_server_instead_of_the_embedded_store(server: str, project: Project) -> None:
    project.params({"tracking": {"uri": server}})
    assert project.planned() == {"track": 1}
    project.snakemake()
    runs = shown(server)
    assert len(runs) == 8 and "MUNKEY @0.1 seed 0" in runs


def test_an_unreachable_server_is_named_and_results_stay(project: Project) -> None:
    project.params({"tracking": {"uri": "http://127.0.0.1:9"}})
    done = project.snakemake(check=False)
    assert done.returncode != 0 and "tracking.uri = http://127.0.0.1:9" in done.stderr
    assert (project.path / "results/default/tables/main.md").exists()
