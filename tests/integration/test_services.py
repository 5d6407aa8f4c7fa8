"""Shared stores: what docs/tracking.md says, with the real servers, from two checkouts at once."""

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from subprocess import CompletedProcess

import pandas as pd
import pytest
from mlflow.entities import Run
from mlflow.tracking import MlflowClient

from munkey.experiment.tracking.runs import SEED_GAP
from munkey.report.tables.summary import round_to_four_digits
from tests.conftest import wait
from tests.integration.conftest import LOGGED_RUNS, Project
from tests.integration.faults import results
from tests.integration.services import MISSING, Services
from tests.pages import blocks

TABLES = "results/default/tables"
SETTINGS = "results/default/settings.json"


@pytest.fixture
def services() -> Iterator[Services]:
    services = Services()
    try:
        yield services
    finally:
        services.stop()


def runs_of(project: Project, site: str) -> list[Run]:
    """The runs of a checkout that are in the store."""
    client = MlflowClient(site)
    owner = f"{socket.gethostname()}:{project.path}/results/default"
    experiment = client.get_experiment_by_name("digits")
    return list(
        client.search_runs([experiment.experiment_id], f"tags.`munkey.results` = '{owner}'")
    )


def track(services: Services, projects: list[Project]) -> list[CompletedProcess[str]]:
    """`munkey mlflow sync` in several checkouts at once."""
    [command] = blocks("tracking", "sh", "When a server is down")
    with ThreadPoolExecutor(len(projects)) as pool:
        return list(pool.map(lambda project: services.run(project, command, check=False), projects))


def check_log(project: Project, site: str, folder: Path) -> None:
    """The runs show this checkout's numbers and artifacts, each run once."""
    current = [run for run in runs_of(project, site) if run.data.tags["munkey.present"] == "true"]
    assert {run.info.status for run in current} == {"FINISHED"}
    by_name = {run.info.run_name: run for run in current}
    by_method = {}
    for run in current:
        if run.data.tags["kind"] == "run":
            by_method[run.data.tags["method"]] = run
    assert len(by_name) == len(current) == LOGGED_RUNS
    table = pd.read_csv(project.path / "results/default/metrics.csv")
    for method, part in table.groupby("method"):
        names = part["metric"].replace({"gap": SEED_GAP})
        for name, value in zip(names, part["value"], strict=True):
            assert by_method[method].data.metrics[name] == round_to_four_digits(value)
    client = MlflowClient(site)
    stored = client.download_artifacts(by_name["Tables"].info.run_id, "main.md", str(folder))
    assert Path(stored).read_text() == (project.path / TABLES / "main.md").read_text()


@pytest.mark.services
@pytest.mark.slow
@pytest.mark.skipif(
    bool(MISSING),
    reason=f"needs {', '.join(MISSING)}: apt-get install postgresql; the extra `test-services` of pyproject.toml",
)
def test_two_checkouts_share_results_and_a_server_that_is_killed_while_both_track(
    project: Project, services: Services, tmp_path: Path
) -> None:
    first = project
    first.params({"tracking": {"uri": services.site}})
    publish, take = blocks("tracking", "sh", "From one checkout to another")
    services.run(first, publish)
    second = first.clone(tmp_path / "second")
    done = services.run(second, take)
    assert "Nothing to be done" in done.stdout + done.stderr
    assert results(second) == results(first)
    assert len(runs_of(first, services.site)) == LOGGED_RUNS
    assert runs_of(second, services.site) == []

    both = [first, second]
    for checkout, k in zip(both, (3, 1), strict=True):
        checkout.params({"inference": {"k": k}})
        checkout.make(f"{TABLES}/main.md", f"{TABLES}/runtime.md", SETTINGS)
    table, other_table = ((each.path / TABLES / "main.md").read_text() for each in both)
    assert table != other_table
    with ThreadPoolExecutor(1) as pool:
        tracking = pool.submit(track, services, both)
        wait(lambda: bool(runs_of(second, services.site)), services.logs, 3600)
        services.kill_mlflow()
        _, cut_off = tracking.result()
    last_line = cut_off.stderr
    assert f"tracking.uri = {services.site} cannot be used" in last_line
    assert "`munkey mlflow sync`" in last_line
    services.start_mlflow()
    assert len(runs_of(second, services.site)) < LOGGED_RUNS

    for done in track(services, both):
        assert done.returncode == 0, done.stderr
        assert f"MLflow at {services.site}" in done.stdout
    for checkout in both:
        folder = tmp_path / f"{checkout.path.name} artifacts"
        folder.mkdir()
        check_log(checkout, services.site, folder)
    assert len(list((services.folder / "s3/munkey/mlflow").rglob("main.md"))) >= 3
