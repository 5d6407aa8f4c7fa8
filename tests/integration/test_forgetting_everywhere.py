"""The commands of docs/forgetting-everywhere.md remove a deleted row from DVC and MLflow, as they stand on the page."""

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from munkey.audits.attacks.storage import extract_traces, list_files, search_file
from munkey.memory.memory_file import MemoryFile
from tests.memory.inputs import create, raw
from tests.pages import blocks

pytestmark = pytest.mark.ci
IDS, KEYS, TOKENS = raw(12)
GONE = {extract_traces(KEYS[3])[0], extract_traces(TOKENS[3])[0]}
KEPT = {extract_traces(KEYS[4])[0], extract_traces(TOKENS[4])[0]}
DVC = """\
[core]
    remote = store
[cache]
    type = "reflink,copy"
['remote "store"']
    url = {remote}
"""
WORD = b"a name that only this row has"


def page(section: str, block: int = 0) -> str:
    """The commands, or the Python, of a section."""
    return blocks("forgetting-everywhere", "(?:sh|python)", section)[block]


def run(folder: Path, commands: str, **variables: str) -> str:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    names = {
        "GIT_AUTHOR_NAME": "a",
        "GIT_COMMITTER_NAME": "a",
        "GIT_AUTHOR_EMAIL": "a@b",
        "GIT_COMMITTER_EMAIL": "a@b",
    }
    settings = {"MLFLOW_DISABLE_TELEMETRY": "true", "DVC_NO_ANALYTICS": "true", "PATH": path}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", commands],
        cwd=folder,
        env=os.environ | names | settings | variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def places(folder: Path, traces: set[bytes]) -> set[str]:
    """The top folders in which any of the traces is found."""
    files = [path for path in list_files((folder,)) if search_file(path, traces)]
    return {"/".join(path.relative_to(folder).parts[:3]) for path in files}


def test_the_code_of_the_page_finds_the_files_with_a_sample(project):
    """An export that forgot the sample does not hold it; the experiment does, except in systems made without it."""
    project.run("munkey", "export", "default/digits/seed0", "shipped")
    [listed] = (project.path / "results/default/forget/digits/seed0").glob("rate*.csv")
    forgotten = int(listed.read_text().split()[1])
    rate = listed.stem
    code = page("The experiment behind an export").replace("[5]", f"[{forgotten}]")
    before = set(project.run("python", "-c", code).stdout.split())
    project.run("munkey", "forget", "shipped", "--ids", str(forgotten))
    project.run("munkey", "purge", "shipped")
    after = set(project.run("python", "-c", code).stdout.split())
    assert {path.partition("/")[0] for path in before - after} == {"shipped"}
    assert after < before
    models = "results/default/models/digits/seed0"
    holds = {path for path in after if path.startswith(models)}
    assert f"{models}/full/original-m/system.safetensors" in holds
    for path in holds:
        assert f"{rate}/munkey/" not in path
        assert f"{rate}/retrain-m/" not in path
    assert any(path.endswith("keys.npz") for path in after)


def test_the_commands_for_dvc_leave_no_earlier_version(tmp_path):
    project = tmp_path / "project"
    project.mkdir()
    run(project, "git init -q -b main; dvc init -q")
    (project / ".dvc/config").write_text(DVC.format(remote=tmp_path / "remote"))
    create(project / "results/memory/memory.db").close()
    (project / "dvc.yaml").write_text(
        "stages:\n  grid:\n    cmd: 'true'\n    outs:\n      - results:\n          persist: true\n"
    )
    run(project, "dvc commit -q --force; git add .; git commit -qm first; dvc push -q")
    with MemoryFile.open(project / "results/memory/memory.db") as file:
        file.delete(IDS[[3]])
        file.purge()
    assert places(tmp_path, GONE) == {"project/.dvc/cache", "remote/files/md5"}
    run(project, page("Earlier versions in DVC"))
    assert places(tmp_path, GONE) == set()
    assert places(tmp_path, KEPT) == {
        "project/results/memory",
        "project/.dvc/cache",
        "remote/files/md5",
    }
    status = "git status --porcelain; dvc status --quiet; dvc status --cloud --quiet"
    assert run(project, status) == ""


LOG_MODEL = """
import mlflow
class Model(mlflow.pyfunc.PythonModel):
    def predict(self, context, model_input: list[str]) -> list[str]:
        return model_input
mlflow.set_tracking_uri("sqlite:///mlflow.db")
experiment = mlflow.create_experiment("digits", artifact_location="file:mlartifacts")
with mlflow.start_run(experiment_id=experiment) as run:
    mlflow.set_tag("file", "a name that only this row has")
    mlflow.log_artifacts("memory", "memory")
    kwargs = {"artifacts": {"memory": "memory"}, "pip_requirements": [], "registered_model_name": "digits"}
    model = mlflow.pyfunc.log_model(name="munkey", python_model=Model(), **kwargs)
print(run.info.run_id, model.model_id)
# What others have deleted, and may restore:
client = mlflow.MlflowClient()
kept, gone = client.create_experiment("theirs"), client.create_experiment("theirs, deleted")
runs = [client.create_run(kept).info.run_id, client.create_run(gone).info.run_id]
model = client.create_logged_model(kept).model_id
client.delete_run(runs[0])
client.delete_logged_model(model)
client.delete_experiment(gone)
print(gone, *runs, model)
"""


def ids_in(database: Path) -> set[str]:
    """The experiments, runs and models that MLflow's store has, deleted or not."""
    columns = {"experiments": "experiment_id", "runs": "run_uuid", "logged_models": "model_id"}
    with closing(sqlite3.connect(database)) as connection:
        ids = set()
        for table, column in columns.items():
            rows = connection.execute(f"SELECT {column} FROM {table}").fetchall()
            ids |= {str(value) for (value,) in rows}
    return ids


def test_the_commands_for_mlflow_leave_no_earlier_version_and_delete_nothing_else(tmp_path):
    create(tmp_path / "memory/memory.db").close()
    code = LOG_MODEL.replace("file:", f"{tmp_path.as_uri()}/")
    logged = run(tmp_path, 'python -c "$CODE"', CODE=code)
    run_id, model, *theirs = logged.split()[-6:]
    with MemoryFile.open(tmp_path / "memory/memory.db") as file:
        file.delete(IDS[[3]])
        file.purge()
    assert places(tmp_path, GONE) == {
        f"mlartifacts/{run_id}/artifacts",
        f"mlartifacts/models/{model}",
    }
    assert WORD in (tmp_path / "mlflow.db").read_bytes()
    before = ids_in(tmp_path / "mlflow.db")
    listed = run(tmp_path, page("Earlier versions in MLflow"))
    assert listed.split() == [run_id, model, "munkey"]
    names = {"RUN": run_id, "MODEL": model, "NAME": "digits", "VERSION": "1"}
    run(tmp_path, page("Earlier versions in MLflow", 1), **names)
    assert places(tmp_path, GONE) == set()
    assert places(tmp_path, KEPT) == {"memory/memory.db"}
    assert WORD not in (tmp_path / "mlflow.db").read_bytes()
    assert before - ids_in(tmp_path / "mlflow.db") == {run_id, model}
    assert set(theirs) <= ids_in(tmp_path / "mlflow.db") <= before
