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
from tests.conftest import ROOT, read_config
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
OF_PARAMS = read_config()["ablations"]
TWO_LISTS = {"ablations": {"inference.k": [2], "munkey.token_dim": [8]}}
NO_KEYS = {"ablations": {"keys": []}}


def plan_two(ablations, of_cifar10):
    """The plan of digits and CIFAR-10, which has ablations of its own."""
    return small_plan(
        {
            "datasets": ["digits", "cifar10"],
            "ablations": ablations,
            "overrides": {"cifar10": {"ablations": of_cifar10}},
        }
    )


def plan_preset(*names):
    overlays = [ROOT / "workflow/presets" / name for name in names]
    return Plan(load(read_params(overlays, ROOT / "params.yaml")))


def list_places(runs):
    """The cases of runs, each once, in their order."""
    return list(dict.fromkeys(run.case for run in runs))


def test_each_data_set_has_the_cases_of_its_own_ablations():
    plan = plan_two(
        {"inference.k": [4, 8], "munkey.token_dim": [32]},
        {"inference.k": [2], "munkey.p_retrieve": [0.5]},
    )
    ablations = {
        "digits": ["inference.k/4", "inference.k/8", "munkey.token_dim/32"],
        "cifar10": ["inference.k/2", "munkey.token_dim/32", "munkey.p_retrieve/0.5"],
    }
    assert list(plan.cases) == list(ablations)
    for name, places in ablations.items():
        assert plan.cases[name] == [name, *(f"{name}/{place}" for place in places + PAIRS)]
        assert list_places(list_ablation_runs(plan, name)) == places
        assert list_places(list_selection_runs(plan, name)) == PAIRS
    assert plan.params.for_case("cifar10/munkey.p_retrieve/0.5").munkey.p_retrieve == 0.5
    with pytest.raises(KeyError, match=r"munkey\.p_retrieve/0\.5"):
        plan.params.for_case("digits/munkey.p_retrieve/0.5")


def test_an_empty_list_switches_an_ablation_off_for_one_data_set_or_for_all():
    plan = plan_two(ABLATIONS | {"munkey.token_dim": []}, {"keys": []})
    knobs = {}
    for name in plan.params.datasets:
        places = list_places(list_ablation_runs(plan, name))
        knobs[name] = {place.split("/")[0] for place in places}
    assert knobs == {"digits": {"inference.k", "keys"}, "cifar10": {"inference.k"}}


def test_a_data_set_without_any_ablation_is_not_measured():
    plan = plan_two({"inference.k": [8]}, {"inference.k": []})
    assert list_ablation_runs(plan, "cifar10") == []
    assert list_datasets(plan.params) == ["digits"]
    assert list_datasets(plan_two({"inference.k": []}, {"inference.k": [8]}).params) == ["cifar10"]


def test_ablations_of_one_data_set_leave_its_other_parameters_alone():
    plain = small_plan().params.for_case("digits")
    ablated = plan_two(ABLATIONS, {"inference.k": [2]}).params.for_case("cifar10")
    assert ablated.model_dump(exclude={"ablations"}) == plain.model_dump(exclude={"ablations"})


def test_the_preset_of_the_paper_has_the_ablations_of_the_paper():
    plan = plan_preset("paper.yaml")
    for dataset in plan.params.datasets:
        values = {}
        for case in plan.cases[dataset][1:]:
            _, knob, value = case.split("/")
            values.setdefault(knob, []).append(value)
        pairs = values.pop("p_drop")
        assert len(pairs) == 5
        assert values == (PAPERS_OF_TWO if dataset in ("cifar10", "dermamnist") else PAPERS)


@pytest.mark.parametrize(
    ("overlays", "ablations"),
    [
        ([], OF_PARAMS),
        ([{"seeds": [0]}], OF_PARAMS),
        ([TWO_LISTS], TWO_LISTS["ablations"]),
        ([TWO_LISTS, NO_KEYS], TWO_LISTS["ablations"] | {"keys": []}),
        ([NO_KEYS, TWO_LISTS, {"ablations": {}}], TWO_LISTS["ablations"] | {"keys": []}),
        ([{"ablations": {}}], {}),
    ],
)
def test_an_overlay_names_all_ablations_that_run(tmp_path, overlays, ablations):
    """The failure: an overlay with two lists ran the other six of params.yaml as well, 86 jobs in place of 23."""
    paths = []
    for number, overlay in enumerate(overlays):
        paths.append(tmp_path / f"{number}.yaml")
        paths[-1].write_text(yaml.safe_dump(overlay))
    config = read_params(paths, ROOT / "params.yaml")
    assert config["ablations"] == ablations
    assert bool(list_datasets(load(config))) == bool(ablations)


def test_the_command_line_names_all_ablations_that_run():
    config = read_config()
    argument = "ablations={inference.k: [2]}"
    merged = from_command_line(config, [argument])
    selected = select_ablations(merged, [], [argument, "seeds=[0]"])
    assert selected["ablations"] == {"inference.k": [2]}
    assert select_ablations(config, [], ["seeds=[0]"]) == config


def count_trainings(plan):
    """Trainings of MUNKEY, by what they are for."""
    models = set()
    for name in plan.params.datasets:
        runs = plan.list_main_runs(name) + list_ablation_runs(plan, name)
        for run in runs + list_selection_runs(plan, name):
            if run.method in ("original-m", "retrain-m"):
                models.add(run.record)
    purposes = Counter()
    for path in models:
        purpose = path.split("/")[4]
        purposes["main" if purpose.startswith("seed") else purpose] += 1
    return purposes


def test_the_preset_of_the_paper_trains_munkey_as_often_as_the_paper_needs():
    """Seeds: 3. Main: an original, an oracle a rate (8). Ablations: an original and an oracle for each new model."""
    paper = {
        "main": 3 * (6 + 8),
        "munkey.architecture": 3 * 2 * 3 * 6,
        "aggregation": 3 * 2 * 2 * 6,
        "keys": 3 * 2 * 2 * 2,
        "p_drop": 3 * 4 * 6,
    }
    assert count_trainings(plan_preset("paper.yaml")) == paper
    sweeps = {"keys": 3 * 2 * 2 * 6, "munkey.p_retrieve": 3 * 2 * 6, "munkey.token_dim": 3 * 2 * 6}
    both = count_trainings(plan_preset("paper.yaml", "sweeps.yaml"))
    assert both == paper | sweeps
    assert both.total() - Counter(paper).total() == 120


def test_the_preset_of_the_paper_searches_settings():
    plan = plan_preset("paper.yaml")
    assert set(plan.searched) == {*setting.TUNED, "ssd"}
    candidates = plan.params.candidates("cifar10", "cf")
    assert [settings.lr_factor for settings in candidates] == [0.1, 0.25, 0.5, 1.0]


def test_snakemake_plans_the_ablations_of_a_data_set(tmp_path):
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
    snakemake = [sys.executable, "-m", "snakemake", "-n", "--configfile", "overlay.yaml"]
    command = [*snakemake, "--", "ablations"]
    dry_run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert dry_run.returncode == 0, dry_run.stderr
    assert "measure the ablations of cifar10" in dry_run.stdout
    assert "digits" not in dry_run.stdout
    assert "train munkey, original: cifar10/munkey.token_dim/32" in dry_run.stdout
