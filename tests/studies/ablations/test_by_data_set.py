"""Ablations of one data set: what it lists in place of the others, what it switches off; and those of the presets."""

import subprocess
import sys
from collections import Counter

import pytest
import yaml

from munkey.experiment.params.load import (
    from_command_line,
    load,
    read_params,
    select_ablations,
)
from munkey.experiment.plan.plan import Plan
from munkey.studies.ablations.plan import list_ablation_runs, list_datasets
from munkey.studies.paper import setting
from munkey.studies.selection.plan import list_selection_runs
from tests.conftest import ROOT
from tests.experiment.inputs import ABLATIONS, small_plan

PAIRS = ["p_drop/0.0_0.0", "p_drop/0.1_0.1", "p_drop/0.3_0.1"]
ARCHITECTURES = ["input-level", "deep-prompt", "cross-attention", "direct-key"]
PAPERS = {"aggregation": ["ensemble", "softmax", "rank"], "munkey.architecture": ARCHITECTURES}
ENCODERS = {
    "vit-b16": "3f49326eb077187dfe1c2a2bb15fbd74e6ab91e3",
    "dinov2": "f9e44c814b77203eaa57a6bdbbd535f21ede1415",
    "clip": "3d74acf9a28c67741b2f4f2ea7635f0aaf6f0268",
}
PAPERS_OF_TWO = PAPERS | {
    "inference.k": ["1", "2", "4", "8", "16", "32"],
    "keys": [f"{name}_{revision}" for name, revision in ENCODERS.items()],
}


def plan_of(ablations, of_cifar10):
    return small_plan(
        {
            "datasets": ["digits", "cifar10"],
            "ablations": ablations,
            "overrides": {"cifar10": {"ablations": of_cifar10}},
        }
    )


def preset(*names):
    overlays = [ROOT / "workflow/presets" / name for name in names]
    return Plan(load(read_params(overlays, ROOT / "params.yaml")))


def test_a_case_belongs_to_a_data_set_whose_ablations_contain_it():
    plan = plan_of(
        {"inference.k": [4, 8], "munkey.token_dim": [32]},
        {"inference.k": [2], "munkey.p_retrieve": [0.5]},
    )
    cases = {"digits": ["inference.k/4", "inference.k/8", "munkey.token_dim/32"]}
    cases["cifar10"] = ["inference.k/2", "munkey.token_dim/32", "munkey.p_retrieve/0.5"]
    assert plan.cases == {
        name: [name, *(f"{name}/{place}" for place in cases[name] + PAIRS)] for name in cases
    }
    for name, places in cases.items():
        assert list(dict.fromkeys(run.case for run in list_ablation_runs(plan, name))) == places
        assert list(dict.fromkeys(run.case for run in list_selection_runs(plan, name))) == PAIRS
    assert plan.params.for_case("cifar10/munkey.p_retrieve/0.5").munkey.p_retrieve == 0.5
    with pytest.raises(KeyError, match=r"munkey\.p_retrieve/0\.5"):
        plan.params.for_case("digits/munkey.p_retrieve/0.5")


def test_an_empty_list_switches_an_ablation_off_for_one_data_set_or_for_all():
    plan = plan_of(ABLATIONS | {"munkey.token_dim": []}, {"keys": []})
    knobs = {
        name: {run.case.split("/")[0] for run in list_ablation_runs(plan, name)}
        for name in plan.params.datasets
    }
    assert knobs == {"digits": {"inference.k", "keys"}, "cifar10": {"inference.k"}}


def test_a_data_set_without_any_ablation_is_not_measured():
    plan = plan_of({"inference.k": [8]}, {"inference.k": []})
    assert list_ablation_runs(plan, "cifar10") == [] and list_datasets(plan.params) == ["digits"]
    assert list_datasets(plan_of({"inference.k": []}, {"inference.k": [8]}).params) == ["cifar10"]


def test_ablations_of_one_data_set_leave_its_other_parameters_alone():
    plain, ablated = (
        small_plan().params.for_case("digits"),
        plan_of(ABLATIONS, {"inference.k": [2]}).params.for_case("cifar10"),
    )
    assert ablated.model_dump(exclude={"ablations"}) == plain.model_dump(exclude={"ablations"})


def test_the_papers_preset_does_the_papers_ablations_and_no_others():
    plan = preset("paper.yaml")
    for dataset in plan.params.datasets:
        listed = {}
        for case in plan.cases[dataset][1:]:
            _, knob, value = case.split("/")
            listed.setdefault(knob, []).append(value)
        pairs = listed.pop("p_drop")
        assert len(pairs) == 5
        assert listed == (PAPERS_OF_TWO if dataset in ("cifar10", "dermamnist") else PAPERS)


def test_an_overlay_or_the_command_line_names_all_ablations_that_run(tmp_path):
    """The failure: an overlay with two lists ran the other six of params.yaml as well, 86 jobs in place of 23."""
    of_params = yaml.safe_load((ROOT / "params.yaml").read_text())["ablations"]
    overlays = []
    for name, content in (
        ("none", {"seeds": [0]}),
        ("two", {"ablations": {"inference.k": [2], "munkey.token_dim": [8]}}),
        ("one", {"ablations": {"keys": []}}),
        ("empty", {"ablations": {}}),
    ):
        path = tmp_path / f"{name}.yaml"
        path.write_text(yaml.safe_dump(content))
        overlays.append(path)

    def read(*chosen):
        return read_params(list(chosen), ROOT / "params.yaml")["ablations"]

    none, two, one, empty = overlays
    assert read() == read(none) == of_params
    assert read(two) == {"inference.k": [2], "munkey.token_dim": [8]}
    assert read(two, one) == read(one, two, empty) == read(two) | {"keys": []}
    assert read(empty) == {} and not list_datasets(load(read_params([empty], ROOT / "params.yaml")))
    config = yaml.safe_load((ROOT / "params.yaml").read_text())
    argument = "ablations={inference.k: [2]}"
    merged = from_command_line(config, [argument])
    assert select_ablations(merged, [], [argument, "seeds=[0]"])["ablations"] == {
        "inference.k": [2]
    }
    assert select_ablations(config, [], ["seeds=[0]"]) == config


def trained(plan):
    """Trainings of MUNKEY by what they are for."""
    runs = [
        run
        for name in plan.params.datasets
        for run in plan.list_main_runs(name) + list_ablation_runs(plan, name)
    ]
    runs += [run for name in plan.params.datasets for run in list_selection_runs(plan, name)]
    models = {run.record for run in runs if run.method in ("original-m", "retrain-m")}
    return Counter(
        path.split("/")[4] if "seed" not in path.split("/")[4] else "main" for path in models
    )


def test_the_papers_preset_trains_munkey_as_often_as_the_paper_needs():
    """Seeds: 3. Main: an original, an oracle a rate (8). Ablations: an original and an oracle for each new model."""
    paper = {
        "main": 3 * (6 + 8),
        "munkey.architecture": 3 * 2 * 3 * 6,
        "aggregation": 3 * 2 * 2 * 6,
    }
    paper |= {"keys": 3 * 2 * 2 * 2, "p_drop": 3 * 4 * 6}
    assert trained(preset("paper.yaml")) == paper
    sweeps = {"keys": 3 * 2 * 2 * 6, "munkey.p_retrieve": 3 * 2 * 6, "munkey.token_dim": 3 * 2 * 6}
    both = trained(preset("paper.yaml", "sweeps.yaml"))
    assert both == paper | sweeps and both.total() - Counter(paper).total() == 120


def test_the_papers_preset_searches_settings():
    plan = preset("paper.yaml")
    assert set(plan.searched) == {*setting.TUNED, "ssd"}
    assert [settings.lr_factor for settings in plan.params.candidates("cifar10", "cf")] == [
        0.1,
        0.25,
        0.5,
        1.0,
    ]


def test_snakemake_plans_what_a_data_set_lists(tmp_path):
    """As an overlay says, also to Snakemake, which merges files. Tables wait for data sets that have ablations."""
    overlay = {
        "datasets": ["digits", "cifar10"],
        "seeds": [0],
        "methods": ["munkey"],
        "ablations": {},
        "overrides": {"cifar10": {"ablations": {"munkey.token_dim": [32]}}},
    }
    (tmp_path / "overlay.yaml").write_text(yaml.safe_dump(overlay))
    for name in ("Snakefile", "params.yaml", "workflow", "src"):
        (tmp_path / name).symlink_to(ROOT / name)
    command = [
        sys.executable,
        "-m",
        "snakemake",
        "-n",
        "--configfile",
        "overlay.yaml",
        "--",
        "ablations",
    ]
    planned = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert planned.returncode == 0, planned.stderr
    assert "measure the ablations of cifar10" in planned.stdout and "digits" not in planned.stdout
    assert "train munkey, original: cifar10/munkey.token_dim/32" in planned.stdout
