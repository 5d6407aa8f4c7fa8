"""The same experiment through DVC: versioned, pushed and pulled, never silently stale."""

import json
import re
from pathlib import Path

import pytest
import timm
import torch
import yaml

from tests.data.inputs import class_folders
from tests.integration.conftest import Project


@pytest.fixture(scope="module")
def reproduced(finished: Project, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A finished run after `dvc repro`, which finds all made; committed, its results pushed to a local remote."""
    folder = tmp_path_factory.mktemp("dvc")
    project = finished.copy(folder / "project")
    project.run("dvc", "remote", "add", "--local", "--default", "store", str(folder / "store"))
    project.run("dvc", "repro")
    project.commit("reproduced")
    project.run("dvc", "push")
    return project


@pytest.fixture(scope="module")
def pulled(reproduced: Project) -> Project:
    """A fresh clone that pulled the results and ran nothing. Not to be changed: take a copy."""
    clone = reproduced.clone(reproduced.path.parent / "clone")
    store = reproduced.path.parent / "store"
    clone.run("dvc", "remote", "add", "--local", "--default", "store", str(store))
    clone.run("dvc", "pull")
    return clone


def jobs(project: Project) -> set[str]:
    """Rules of the jobs that Snakemake finished in its last run, from its log."""
    logs = sorted((project.path / ".snakemake/log").iterdir(), key=lambda log: log.stat().st_mtime)
    return set(re.findall(r"Finished jobid.*Rule: (\w+)", logs[-1].read_text()))


def test_after_a_pull_all_is_there_and_nothing_is_to_be_done(pulled: Project) -> None:
    for name in ("keys/digits/efficientnet-lite0_32px/keys.npz", "tables/main.md", "metrics.csv"):
        assert (pulled.path / "results/default" / name).exists()
    assert len(list(pulled.path.glob("results/default/models/**/system.safetensors"))) == 9
    assert len(list(pulled.path.glob("results/default/logits/**/*.npz"))) == 9
    assert pulled.planned() == {}
    assert json.loads(pulled.run("dvc", "status", "--json").stdout) == {
        "outside": ["always changed"]
    }
    assert "'grid' didn't change, skipping" in pulled.run("dvc", "repro").stdout
    assert pulled.run("git", "status", "--porcelain").stdout == ""


@pytest.mark.ci
def test_pulled_results_are_logged_and_an_experiment_reruns_exactly_what_depends_on_its_parameter(
    pulled: Project, tmp_path: Path
) -> None:
    pulled = pulled.copy(tmp_path / "project")
    assert not (pulled.path / "mlflow.db").exists()
    output = pulled.run("munkey", "mlflow", "sync").stdout
    assert " 19 added" in output
    assert (pulled.path / "mlflow.db").exists()
    assert pulled.run("git", "status", "--porcelain").stdout == ""
    pulled.run("dvc", "exp", "run", "-S", "munkey.p_retrieve=0.4", "--name", "more")
    assert yaml.safe_load((pulled.path / "params.yaml").read_text())["munkey"]["p_retrieve"] == 0.4
    after = {"metrics", "tables", "track", "settings", "all"}
    assert jobs(pulled) == {"train", "unlearn", "evaluate"} | after
    assert pulled.planned() == {}
    assert "more" in pulled.run("dvc", "exp", "show", "--csv").stdout
    assert "munkey.p_retrieve" in pulled.run("dvc", "params", "diff").stdout
    # As docs/tracking.md gets the table of another revision.
    main = "results/default/tables/main.csv"
    pulled.run("dvc", "get", ".", main, "--rev", "HEAD", "--out", "earlier.csv")
    before = (pulled.path / "earlier.csv").read_text()
    assert before.startswith("dataset,")
    assert before != (pulled.path / main).read_text()


@pytest.mark.soak
def test_back_to_the_committed_state_is_clean(pulled: Project, tmp_path: Path) -> None:
    pulled = pulled.copy(tmp_path / "project")
    pulled.params({"inference": {"k": 2}})
    pulled.run("dvc", "repro")
    pulled.commit("K = 2")
    pulled.run("git", "checkout", "-q", "HEAD~1")
    pulled.run("dvc", "checkout")
    assert pulled.planned() == {}
    assert "'grid' didn't change, skipping" in pulled.run("dvc", "repro").stdout


def save_encoder(folder: Path, seed: int) -> None:
    """Save a tiny model with random weights of this seed."""
    torch.manual_seed(seed)
    model = timm.create_model("test_vit", num_classes=0)
    timm.models.save_for_hf(model, folder, model_config={"num_classes": 0})


@pytest.mark.soak
def test_changed_pictures_and_changed_weights_rerun_what_reads_them(
    fresh: Project, tmp_path: Path
) -> None:
    pets = tmp_path / "pets"
    encoder = tmp_path / "encoder"
    class_folders(pets, {"cat": 40, "dog": 40})
    save_encoder(encoder, seed=0)
    project = fresh.clone(tmp_path / "project")
    # Of 80 pictures 48 are trained on, of which 43 are left: more than keys.depth neighbors.
    source = {"source": {"reader": "imagefolder", "path": str(pets), "limit_per_class": 40}}
    keys = {"encoder": str(encoder), "image_size": None}
    project.params(
        {"datasets": ["pets"], "methods": ["knn"], "keys": keys, "overrides": {"pets": source}}
    )
    project.run("dvc", "repro")
    assert "'grid' didn't change, skipping" in project.run("dvc", "repro").stdout
    (pets / "cat/000.png").rename(pets / "dog/040.png")
    project.run("dvc", "repro")
    assert {"data", "keys", "train"} <= jobs(project)
    save_encoder(encoder, seed=1)
    project.run("dvc", "repro")
    assert {"keys", "neighbors", "train"} <= jobs(project)
    assert "data" not in jobs(project)
    assert "'grid' didn't change, skipping" in project.run("dvc", "repro").stdout


def test_the_stage_depends_on_code_workflow_and_locked_packages(fresh: Project) -> None:
    deps = yaml.safe_load((fresh.path / "dvc.yaml").read_text())["stages"]["grid"]["deps"]
    code = {"src/munkey", "Snakefile", "workflow", "profiles"}
    assert code | {"requirements.lock", "cache/outside.json"} <= set(deps)
