"""The DAG on the tiny grid: it completes, reruns exactly the jobs that a change affects, and survives being killed."""

import json
import re
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
import yaml
from safetensors.numpy import load_file

from munkey.models.family import FAMILIES, System
from munkey.models.system import save_for_timm
from munkey.report.tables.terminal import render_plain
from tests.conftest import VIT, generator
from tests.integration.conftest import ROOT, Project

SYSTEMS = [
    *(f"{run}-{letter}" for run in ("original", "retrain") for letter in "tml"),
    "lda",
    "cf",
    "munkey",
]
DOWNSTREAM = {"metrics": 1, "tables": 1, "track": 1}
in_ci = partial(pytest.param, marks=pytest.mark.ci)  # a case whose kind others show in `make test`


def test_a_run_ends_with_the_main_table_and_the_paths_of_its_results(finished: Project) -> None:
    log = (finished.path / "run.log").read_text()
    table = render_plain((finished.path / "results/default/tables/main.md").read_text())
    assert table in log
    assert max(map(len, table.splitlines())) <= 100
    assert "results/default/metrics.csv" in log
    assert "make ui" in log


def test_a_run_prints_a_line_for_each_job_with_the_remaining_time(finished: Project) -> None:
    log = (finished.path / "run.log").read_text()
    lines = re.findall(r"^ *(\d+)%  (about .* left)? +([\d.]+) s  (.+)$", log, re.MULTILINE)
    assert [int(line[0]) for line in lines] == sorted(int(line[0]) for line in lines)
    assert lines[-1][0] == "100"
    assert f"{len(lines)} jobs" in log
    assert sum("train " in line[3] for line in lines) == 6
    assert sum(bool(line[1]) for line in lines) > len(lines) / 3
    assert "Finished jobid" not in log
    assert "Select jobs to execute" not in log
    (complete,) = re.findall(r"^Complete log\(s\): (.*)$", log, re.MULTILINE)
    assert Path(complete).read_text().count("Finished jobid") == len(lines)


def test_a_single_file_can_be_made_in_a_fresh_project(fresh: Project, tmp_path: Path) -> None:
    project = fresh.copy(tmp_path / "project")
    done = project.make("results/default/data/digits/images.npy")
    # and no table of anything else
    assert done.stdout == "\nmade      results/default/data/digits: images.npy\n"


def test_every_system_has_every_metric(finished: Project) -> None:
    tidy = pd.read_csv(finished.path / "results/default/metrics.csv")
    assert sorted(tidy["method"].unique()) == sorted(SYSTEMS)
    for name, part in tidy.groupby("method"):
        metrics = set(part["metric"])
        assert {"TA", "RA", "FA", "MIA"} <= metrics
        assert ("gap" in metrics) == (not name.startswith("retrain"))
        assert ("P_s" in metrics) == (name in ("original-m", "retrain-m", "munkey"))
        assert ("unlearn_s" in metrics) == (name in ("lda", "cf", "munkey"))


def test_logits_are_stored_with_ids_labels_and_splits(finished: Project) -> None:
    samples = pd.read_csv(finished.path / "results/default/data/digits/samples.csv")
    paths = list((finished.path / "results/default/logits/digits/seed0").rglob("*.npz"))
    assert len(paths) == len(SYSTEMS)
    for path in paths:
        with np.load(path) as stored:
            assert stored["logits"].dtype == np.float32
            assert stored["logits"].shape == (len(samples), 10)
            for name in ("ids", "labels", "splits"):
                assert len(stored[name]) == len(samples)


def test_deletion_changes_no_bit_of_a_weight_and_leaves_no_row_of_the_forget_set(
    finished: Project,
) -> None:
    models = finished.path / "results/default/models/digits/seed0"
    before = load_file(models / "full/original-m/system.safetensors")
    after = load_file(models / "rate0.1/munkey/system.safetensors")
    weights = [name for name in before if name.startswith("model.")]
    assert len(weights) > 10
    for name in weights:
        assert before[name].tobytes() == after[name].tobytes()
    forgotten = pd.read_csv(finished.path / "results/default/forget/digits/seed0/rate0.1.csv")["id"]
    remaining = ~np.isin(before["memory.ids"], forgotten)
    assert len(forgotten) == 30  # a tenth of 30 a class
    for name in ("memory.ids", "memory.keys", "memory.tokens"):
        np.testing.assert_array_equal(before[name][remaining], after[name])


def test_each_system_records_commit_versions_parameters_and_device(finished: Project) -> None:
    commit = finished.run("git", "rev-parse", "HEAD").stdout.strip()
    records = list((finished.path / "results/default/models").rglob("record.json"))
    assert len(records) == len(SYSTEMS)
    for record in records:
        provenance = json.loads(record.read_text())["provenance"]
        assert provenance["commit"].startswith(commit)
        assert provenance["versions"]["torch"]
        assert provenance["params_digest"]
        assert provenance["device"]


def test_after_a_run_nothing_is_to_be_done_and_the_default_profile_is_loaded(
    finished: Project,
) -> None:
    done = finished.run("snakemake", "-n", "--cores", "2")
    output = done.stdout + done.stderr
    assert "Nothing to be done" in output
    assert "Using workflow specific profile profiles/default" in output
    assert "results/default" not in output
    # no dry run, and nothing to do either: the same end as that of the run before
    again = finished.snakemake().stdout
    log = (finished.path / "run.log").read_text()
    assert again in log
    assert "results/default/metrics.csv" in again


# For each changed parameter: the jobs that must run again.
# In all: 6 trainings, 3 methods, 9 evaluations, 2 neighbor searches.
CHANGES = [
    ({"munkey": {"p_retrieve": 0.4}}, {"train": 2, "unlearn": 1, "evaluate": 3, "settings": 1}),
    ({"inference": {"k": 3}}, {"evaluate": 3, "settings": 1}),
    ({"unlearn": {"cf": {"lr_factor": 0.3}}}, {"unlearn": 1, "evaluate": 1}),
    in_ci({"finetune": {"epochs": 2}}, {"unlearn": 1, "evaluate": 1}),
    ({"train": {"lr": 2e-3}}, {"train": 4, "unlearn": 2, "evaluate": 6, "settings": 1}),
    (
        {"keys": {"image_size": 48}},
        {"keys": 1, "neighbors": 2, "train": 4, "unlearn": 2, "evaluate": 6, "settings": 1},
    ),
    (
        {"seeds": [0, 1]},
        {"forget": 1, "neighbors": 1, "train": 6, "unlearn": 3, "evaluate": 9},
    ),
]


@pytest.mark.parametrize(("change", "jobs"), CHANGES, ids=lambda value: str(value)[:50])
def test_a_changed_parameter_reruns_exactly_what_depends_on_it(
    change: dict, jobs: dict, project: Project
) -> None:
    project.params(change)
    assert project.planned() == jobs | DOWNSTREAM


def test_ablations_and_the_selection_add_only_what_is_new(finished: Project) -> None:
    # Direct Key and aggregation by rank: an original and an oracle each; two pairs and the corner less the base's own
    # pair: an original each. Evaluations: fusion, k, aggregation, architecture; the selection.
    planned = finished.planned("--", "ablations", "selection")
    jobs = {rule: planned[rule] for rule in ("train", "unlearn", "evaluate")}
    assert jobs == {"train": 6, "unlearn": 4, "evaluate": 3 + 3 + 3 + 3 + 4}
    assert not {"unlearn_audited", "keys"} & set(planned)


def test_a_deeper_search_retrains_only_what_reads_more_neighbors(project: Project) -> None:
    project.params({"keys": {"depth": 36}})
    assert project.planned() == {"settings": 1, "track": 1}
    project.params({"munkey": {"neighbors": [2, 34]}})  # of MUNKEY's trainings, which now do
    assert project.planned("--", "results/default/metrics.csv") == {
        "neighbors": 2,
        "train": 2,
        "unlearn": 1,
        "evaluate": 3,
        "metrics": 1,
        "tables": 1,
    }


def test_a_dry_run_names_the_parameters_and_code_that_changed(project: Project) -> None:
    changes = {"unlearn": {"cf": {"lr_factor": 0.3}}, "lda": {"alpha": 0.3}}
    project.params(changes | {"keys": {"depth": 32}, "knn": {"k": 16}})
    predict = project.path / "src/munkey/evaluation/predict.py"
    before = predict.read_text()
    after = before.replace('"ids": queries.ids,', '"ids": 1 * queries.ids,')
    assert after != before
    predict.write_text(after)
    why = project.snakemake("-n").stdout.partition("\nWhy:\n")[2].splitlines()
    assert "  unlearn with cf: digits, seed 0, rate 0.1: unlearn.cf.lr_factor 0.1 → 0.3" in why
    assert "  find nearest neighbors in the memory of digits (full): keys.depth 33 → 32" in why
    assert "  train lda, original: digits, seed 0, full: lda.alpha auto → 0.3" in why
    code = "the code of evaluate.evaluate: evaluation/predict.py"
    assert f"  evaluate original-t: digits, seed 0, full: {code}" in why
    [last] = [line for line in why if line.startswith("  inputs are computed again: ")]
    # of LDA and MUNKEY, whose originals are made anew
    assert "unlearn (2)" in last
    assert "metrics (1)" in last


def test_sections_and_lists_can_be_set_on_the_command_line(
    project: Project,
) -> None:
    """The failure: `--config inference='{"k": 2}'` was refused, as the number in it was text."""
    evaluated = {"evaluate", "metrics", "tables", "track", "settings"}
    assert set(project.planned("--config", 'inference={"k": 2}')) == evaluated
    assert project.planned("--config", "seeds=[0]") == {}
    other = project.planned("--config", "name=other", "seeds=[0, 1]")
    assert other["forget"] == 2
    assert other["train"] == 12


def test_a_parameter_that_changes_no_result_computes_none(project: Project) -> None:
    project.params({"device": "cpu", "methods": ["munkey", "lda", "cf"]})
    assert set(project.planned()) <= {"metrics", "tables", "track"}


DRAWN = {"forget": 1, "neighbors": 1, "train": 3, "unlearn": 3, "evaluate": 6}
# An edit: the module, what is replaced, by what, and the jobs that must run again but for those at the end.
EDITS = [
    (
        "unlearn/methods/cf.py",
        "request.retain)",
        'request.retain, only="")',
        {"unlearn": 1, "evaluate": 1},
    ),
    in_ci(
        "unlearn/methods/cf.py",
        '{"retain images", "retain labels"}',
        '{"retain images"}',
        {"unlearn": 1, "evaluate": 1},
    ),
    ("evaluation/predict.py", '"ids": queries.ids,', '"ids": 1 * queries.ids,', {"evaluate": 9}),
    (
        "models/families/munkey.py",
        "image_dropped = mask < settings.p_image",
        "image_dropped = mask <= settings.p_image",
        {"train": 2, "unlearn": 1, "evaluate": 3},
    ),
    ("training/loop.py", "lr=0.0,", "lr=1e-9,", {"train": 4, "unlearn": 2, "evaluate": 6}),
    ("evaluation/metrics.py", "EPSILON = 1e-8", "EPSILON = 1e-9", {}),
    in_ci("report/tables/summary.py", "ddof=1", "ddof=0", {"metrics": 0}),
    ("data/forget_draws.py", "return np.sort(forget_ids)", "return np.sort(forget_ids)[:]", DRAWN),
]


@pytest.mark.parametrize(
    ("module", "before", "after", "jobs"), EDITS, ids=lambda value: str(value)[:40]
)
def test_an_edited_module_reruns_exactly_what_imports_it(
    module: str, before: str, after: str, jobs: dict, project: Project
) -> None:
    path = project.path / "src/munkey" / module
    assert path.read_text().count(before) == 1
    path.write_text(path.read_text().replace(before, after))
    expected = DOWNSTREAM | jobs
    if not expected["metrics"]:
        del expected["metrics"]
    assert project.planned() == expected


def test_comments_new_file_times_and_broken_unused_files_rerun_nothing(
    project: Project,
) -> None:
    package = project.path / "src/munkey"
    loop = package / "training/loop.py"
    documented = loop.read_text().replace(
        '"""Cross-entropy and number', '"""The cross-entropy and number'
    )
    loop.write_text(documented + "# a comment\n")
    (package / "unlearn/methods/my_method.py").write_text("from munkey import nosuch\n")
    (package / "unlearn/methods/half_written.py").write_text("def")
    touched = [project.path / "params.yaml", *package.rglob("*.py")]
    touched += (project.path / "workflow").rglob("*.*")
    for path in [*touched, *sorted((project.path / "results").rglob("*.npz"))]:
        path.touch()
    planned = project.snakemake("-n")
    output = planned.stdout + planned.stderr
    assert "Nothing to be done" in output
    assert "methods/my_method.py, line 1: ImportError: " in output
    assert "half_written.py: SyntaxError: invalid syntax" in output


def test_bad_parameters_are_refused_before_any_job(fresh: Project, tmp_path: Path) -> None:
    project = fresh.copy(tmp_path / "project")
    project.params({"forget": {"rates": [1.5]}, "train": {"lrr": 1}})
    done = project.snakemake(check=False)
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    for part in ("forget.rates.0", "1.5", "less than 1", "did you mean 'lr'"):
        assert part in done.stderr
    assert not (project.path / "results").exists()


def test_a_deleted_file_is_reported_and_made_again_on_request(
    project: Project,
) -> None:
    keys = "results/default/keys/digits/efficientnet-lite0_32px/keys.npz"
    (project.path / keys).unlink()
    assert f"{keys} is missing" in project.snakemake().stdout  # which has nothing to do
    again = project.make(keys).stderr
    assert f"{keys} is missing" in again
    assert "created again" in again
    assert project.planned() == {}  # its bytes are the same


@pytest.mark.skipif(torch.cuda.is_available(), reason="shows what happens where there is no GPU")
def test_a_job_that_was_planned_for_a_gpu_is_refused_on_a_cpu(
    fresh: Project, tmp_path: Path
) -> None:
    project = fresh.copy(tmp_path / "project")
    project.params({"device": "cuda"})
    done = project.make(
        "results/default/models/digits/seed0/full/original-t/system.safetensors", check=False
    )
    assert done.returncode != 0
    assert "this job was planned for a GPU" in done.stderr
    assert "set device: cpu" in done.stderr


def test_the_reports_are_single_pages_that_load_nothing(project: Project) -> None:
    project.make("page")
    page_of_run = (project.path / "results/default/report/index.html").read_text()
    assert "MUNKEY" in page_of_run
    assert "data:image/svg+xml;base64," in page_of_run
    project.run("snakemake", "--report", "report.html", "--", "made")
    page = (project.path / "report.html").read_text()
    assert "figures/forgetting.png" in page  # `made` has what `make paper` made so far
    assert "mean and standard deviation over seeds" in page
    assert 'src="http' not in page
    assert 'href="http' not in page.replace('href="https://snakemake', "")


@pytest.mark.soak
def test_presets_are_planned(fresh: Project, tmp_path: Path) -> None:
    project = fresh.copy(tmp_path / "project")
    for preset in sorted((ROOT / "workflow/presets").glob("*.yaml")):
        settings = yaml.safe_load(preset.read_text())
        # git ignores pictures and backbones, so a checkout has none.
        if "path" in settings.get("source", {}):
            (project.path / settings["source"]["path"]).mkdir(parents=True, exist_ok=True)
        backbone = settings.get("pretrained", {}).get("model", "")
        if backbone.endswith("/"):
            system = System("vit", VIT, FAMILIES["vit"].build(VIT, generator()))
            save_for_timm(system, project.path / backbone, 0.5, 0.5)
        assert project.planned("--configfile", str(preset))["metrics"] >= 1
