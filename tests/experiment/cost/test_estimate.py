"""What a configuration will cost is said before its first job, and what cannot fit is refused in words."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from munkey.core.files import CONFIGFILES, DamagedFileError
from munkey.core.randomness import Stage
from munkey.data.prepared import prepare
from munkey.data.sizes import SIZES, Size
from munkey.data.source import Source
from munkey.evaluation.records import Evaluation
from munkey.experiment.cost import estimate
from munkey.experiment.cost.flops import Measured
from munkey.experiment.cost.machines import ASSUMED, BENCHED, RESULTS, machine
from munkey.experiment.cost.workload import Work, Workload, counted, size_of
from munkey.experiment.params.load import ParamsError, load, read_params
from munkey.experiment.plan.plan import Plan
from munkey.models.family import FAMILIES
from munkey.unlearn.contract import METHODS, Images

ROOT = Path(__file__).parents[3]
EPYC = machine("amd-epyc-cpu", 16, ROOT / RESULTS)
IMAGES = Images(retain=90, forget=10, val=20, epochs=10, batch=10)
CARD = ASSUMED["h200-assumed"]


def plan_of(*overlays: str, **changes: object) -> Plan:
    return Plan(load({**read_params([ROOT / path for path in overlays], ROOT / "params.yaml"), **changes}))


def test_the_default_run_has_its_trainings_and_takes_about_as_long_as_measured():
    """18 trainings of 40 epochs; 0.108 hours were measured (benchmarks/results/grid-amd-epyc-cpu.json)."""
    costs = estimate.estimate(plan_of(), "run", EPYC)
    trained = [each for each in costs.work if each.step == "train"]
    assert sum(each.jobs for each in trained) == 18
    originals = next(each for each in trained if each.what == "original-t")
    assert (originals.jobs, originals.steps) == (3, 3 * 40 * 17)  # 1,078 digits, 64 at once
    assert originals.operations == pytest.approx(3 * 40 * 1078 * originals.network.step)
    assert costs.hours[1] == pytest.approx(0.108, rel=0.35)
    assert not costs.refusals and not costs.warnings


def test_in_an_audit_training_images_outside_its_pool_are_not_asked():
    asked = []
    for case in ("", "audit/pool"):
        run = Evaluation("digits", case, "0.25", 0, "original-t", "logits", "record", "record", "forget")
        work = Workload(plan_of(), [run], {"digits": SIZES["digits"]}).all()
        asked += [each.operations / each.network.forward for each in work if each.step == "evaluate"]
    assert asked == [1797, 1797 - 539]  # half of 1,078 training images are in the pool


def test_the_paper_has_more_with_its_search_ablations_and_selection():
    plan = plan_of("workflow/presets/paper.yaml")
    run, paper, audits, scenarios = (
        estimate.estimate(plan, target, CARD, [1, 8, 64]) for target in ("run", "paper", "audits", "scenarios")
    )
    assert run.hours[1] < scenarios.hours[1] and run.hours[1] < audits.hours[1]
    cf = {each.dataset: each.jobs for each in run.work if each.what == "cf"}
    assert cf["cifar10"] == 3 * 2 * 4 and cf["cifar100"] == 3 * 1 * 4  # seeds, rates, learning rates
    jobs = [sum(each.jobs for each in costs.work if each.step == "train") for costs in (run, paper)]
    assert jobs == [6 * 3 * 2 + 3 * 2 * 8, 360 + 6 * 3]  # originals of six data sets, oracles of eight rates; figures
    assert paper.hours[1] == pytest.approx(8 * paper.hours[8]) and paper.hours[64] < paper.hours[8]
    assert paper.disk > run.disk > 90_000 * 3 * 224**2


def test_the_paper_counts_its_audit_where_its_report_shows_one():
    with_audit, without = plan_of(), plan_of(audit=plan_of().params.audit.model_dump() | {"in_paper": False})
    trained, unlearned = (
        [
            sum(each.jobs for each in estimate.estimate(plan, "paper", EPYC).work if each.step == step)
            for plan in (with_audit, without)
        ]
        for step in ("train", "unlearn")
    )
    assert trained[0] - trained[1] == 2 * (2 * 8 + 2 * 4) + 2 * 2  # originals and oracles of two families, the control
    assert unlearned[0] - unlearned[1] == 9 * 2 * 8  # MUNKEY and KNN only delete


def test_more_gpus_do_not_shorten_the_longest_training_and_unlearning():
    costs = estimate.estimate(plan_of(), "run", EPYC, [1, 10_000])
    longest = [
        max(s / w.jobs for w, s in zip(costs.work, costs.seconds, strict=True) if w.step == step)
        for step in ("train", "unlearn", "evaluate")
    ]
    assert costs.hours[10_000] == pytest.approx(sum(longest) / 3600)


def test_a_job_that_cannot_fit_is_refused_with_what_to_do():
    on = replace(EPYC, memory=4e9)
    refused = estimate.estimate(plan_of("workflow/presets/paper.yaml"), "run", on).refusals
    assert any(line.startswith("train original-t on cifar10 needs 5.") for line in refused)
    assert all("lower train.batch_size" in line for line in refused)
    assert any("unlearn amun" in line and "pictures in float32" in line for line in refused)
    assert not estimate.estimate(plan_of("workflow/presets/paper.yaml"), "run", EPYC).refusals


@pytest.mark.parametrize(("share", "tight"), [(0.79, False), (0.81, True), (0.99, True), (1.01, False)])
def test_a_job_that_barely_fits_is_warned_of(share, tight):
    heaviest = max(each.memory for each in estimate.estimate(plan_of(), "run", EPYC).work) + estimate.PROCESS
    costs = estimate.estimate(plan_of(), "run", replace(EPYC, memory=heaviest / share))
    said = [line for line in costs.warnings if "takes more than 80% of the memory" in line]
    assert (len(said) == 1) == tight and bool(costs.refusals) == (share > 1)


def test_attention_in_float32_and_many_pictures_are_warned_of():
    """128 x 11 blocks x 3 heads x 197^2 x 4 bytes; 89,996 pictures of 224 px."""
    plan = plan_of("workflow/presets/paper.yaml")
    on_cpu = estimate.estimate(plan, "run", EPYC).warnings
    assert any("attention in float32 holds 0.7 GB at batch 128 and 224 px" in line for line in on_cpu)
    small_card = replace(CARD, memory=20e9)
    assert "13.5 GB of pictures of pathmnist exceed resident_share: they are streamed" in (
        estimate.estimate(plan, "run", small_card).warnings
    )
    assert not any("streamed" in w for w in estimate.estimate(plan, "run", CARD).warnings)


def test_pictures_that_exceed_half_a_cpus_memory_are_read_again_in_every_epoch():
    """89,996 of 3 x 224^2 bytes: 13.5 GB."""
    plan = plan_of("workflow/presets/paper.yaml")
    for memory, again in ((26.8e9, True), (27.4e9, False)):
        said = estimate.estimate(plan, "run", replace(EPYC, memory=memory)).warnings
        assert ("13.5 GB of pictures of pathmnist are read from disk again in every epoch" in said) == again


def test_many_seeds_of_a_small_model_on_a_gpu_want_several_jobs_on_it():
    costs = estimate.estimate(plan_of(seeds=list(range(50))), "run", CARD)
    said = [line for line in costs.warnings if "bound by launches" in line]
    assert said and all("jobs per GPU, each with a CPU core of its own" in line for line in said)
    assert not any(
        "launches" in line for line in estimate.estimate(plan_of("workflow/presets/paper.yaml"), "run", CARD).warnings
    )


@pytest.mark.parametrize("method", METHODS)
def test_every_method_that_needs_data_costs_something(method):
    settings = plan_of().params.unlearn[method]
    passes = METHODS[method].passes(IMAGES, settings)
    assert (passes > 0) == bool(METHODS[method].needs)


# Counted by hand from the papers' steps: forward passes, of which a backward pass counts two; graphs; models; pictures.
COUNTED = {
    "amun": (3 * (10 * (1 + 50 * 11) + 10 * 100), 1, 2, 10 + 6 * 10),
    "assd": (330, 1, 3, 0),
    "bad-teacher": (10 * (27 + 10) * 5, 1, 3, 0),
    "boundary-shrink": (700, 1, 2, 0),
    "delete": (400, 1, 2, 0),
    "fcs": (3130, 1, 1, 0),
    "jit": ((3 + 25) * 10, 1, 1, 0),
    "lfssd": (330, 1, 3, 0),
    "lotus": (20 + 10 * (4 * 37 + 10), 1, 2, 0),
    "msg": (2760, 1, 4, 0),
    "msg-linear": (2760, 1, 4, 0),
    "neggrad-plus": (5400, 2, 1, 0),
    "rum": (16_210, 2, 3, 0),
    "salun": (3030, 1, 3, 0),
    "scrub": (3980, 1, 3, 0),
    "sfron": (3540, 1, 4, 0),
    "ssd": (330, 1, 3, 0),
    "unsir": (2340, 1, 1, 10),
}


@pytest.mark.parametrize("method", [name for name in METHODS if METHODS[name].cost.passes or name in COUNTED])
def test_every_methods_cost_is_as_counted_by_hand(method):
    cost, settings = METHODS[method].cost, plan_of().params.unlearn[method]
    pictures = cost.pictures(IMAGES) if cost.pictures else 0
    assert (METHODS[method].passes(IMAGES, settings), cost.graphs, cost.models, pictures) == COUNTED[method]


def test_fine_tuning_takes_three_passes_of_each_image_and_epoch():
    settings = plan_of().params.unlearn["cf"]
    assert METHODS["cf"].passes(IMAGES, settings) == 3 * IMAGES.epochs * IMAGES.retain  # a backward pass counts two


def test_pictures_of_ones_own_are_counted_once_they_are_prepared(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plan = plan_of()
    monkeypatch.setattr("munkey.experiment.cost.workload.SIZES", {})
    monkeypatch.setenv(CONFIGFILES, "my.yaml")
    with pytest.raises(
        ParamsError,
        match=r"the size of digits is not known yet; prepare it first: `snakemake .* --configfile my\.yaml -- results/",
    ):
        size_of(plan, "digits")
    labels, splits = np.arange(18) % 3, np.repeat(["train", "train", "val", "test", "test", "test"], 3)
    source = Source(np.zeros((18, 5, 5, 3), np.uint8), labels, splits, ["a", "b", "c"])
    prepare(source, Path(plan.prepared("digits")["samples"]).parent)
    assert size_of(plan, "digits") == Size(6, 3, 9, 5, 3)


def test_what_would_have_to_be_downloaded_is_not_read_to_be_counted(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("munkey.experiment.cost.workload.SIZES", {})
    with pytest.raises(ParamsError, match=r"the size of tinyimagenet .*: it would have to be downloaded"):
        counted(plan_of(datasets=["tinyimagenet"]), "tinyimagenet")


def test_a_network_that_is_no_vit_of_ours_is_counted_as_it_is_built():
    plan, family = plan_of(network="resnet18", methods=["cf"]), FAMILIES["resnet18"]
    work = estimate.estimate(plan, "run", EPYC).work
    found = {each.what: each for each in work if each.step == "train"}["original-r"]
    made = family.architecture(family.recipe(plan.train_settings("digits", "r"), Stage("any")), 10)
    weights = family.build(made, torch.Generator()).parameters()
    assert isinstance(found.network, Measured) and found.network.image_size == 16
    assert found.network.weights == sum(each.numel() for each in weights)
    assert found.operations == 3 * 40 * 1078 * found.network.step


def test_a_limit_per_class_counts(config):
    config["source"]["limit_per_class"] = 10
    assert size_of(Plan(load(config)), "digits")[:3] == (100, 100, 100)
    assert Workload(Plan(load(config)), [], {}).all() == []


def test_all_data_sets_are_counted_before_they_are_prepared_and_the_others_named_with_the_reason(tmp_path, monkeypatch):
    """Two classes of 5 pictures of 6 px in a folder; a file that is no archive; digits, as published."""
    monkeypatch.chdir(tmp_path)
    for number in range(10):
        file = tmp_path / f"pets/{'cat' if number % 2 else 'dog'}/{number}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (6, 6)).save(file)
    (tmp_path / "broken.npz").write_bytes(b"nothing")
    config = read_params([], ROOT / "params.yaml")
    pets = {"reader": "imagefolder", "path": "pets", "storage_size": None, "split": [0.6, 0.2, 0.2]}
    overrides = {"pets": {"source": pets}, "torn": {"source": {"reader": "npz", "path": "broken.npz"}}}
    plan = Plan(load({**config, "datasets": ["pets", "torn", "digits"], "overrides": overrides}))
    assert counted(plan, "pets") == Size(6, 2, 2, 6, 2)
    costs = estimate.estimate(plan, "run", EPYC)
    assert {each.dataset for each in costs.work} == {"pets", "digits"}
    (why,) = costs.uncounted
    assert "the size of torn is not known yet" in why and "broken.npz" in why
    assert f"NOT COUNTED: {why}" in list(estimate.totals(costs, EPYC))
    with pytest.raises(ParamsError, match="the size of torn is not known yet"):
        estimate.estimate(Plan(load({**config, "datasets": ["torn"], "overrides": overrides})), "run", EPYC)


def test_jobs_that_are_alike_are_added_up_and_need_the_memory_of_the_largest():
    one = Work("train", "vit", "digits", 2, 10, 1e9, 3e6, BENCHED["small ViT"], 64, held=5.0)
    other = replace(one, jobs=3, steps=7, operations=2e9, memory=4e6, batch=128, held=1.0)
    both = replace(other, jobs=5, steps=17, operations=3e9, held=5.0)
    assert one.with_(other) == other.with_(one) == both


def test_an_unknown_machine_lists_those_there_are():
    with pytest.raises(ValueError, match=r"no benchmarks of abacus: .*amd-epyc-cpu, h200-assumed"):
        machine("abacus", folder=ROOT / RESULTS)


@pytest.mark.parametrize("error", [FileNotFoundError("samples.csv"), DamagedFileError("samples.csv", "damaged")])
def test_the_work_of_a_step_is_known_before_its_first_job(monkeypatch, error):
    """A training has far more to do than an evaluation, also where a data set's size is not known yet."""

    def refused(path: str) -> None:
        raise error

    known = estimate.work_of(plan_of())
    assert set(known) == {"train", "unlearn", "evaluate"} and known["train"] > known["unlearn"] > known["evaluate"] > 0
    monkeypatch.setattr("munkey.experiment.cost.workload.SIZES", {})
    monkeypatch.setattr("munkey.experiment.cost.workload.read_csv", refused)
    guessed = estimate.work_of(plan_of())
    assert guessed["train"] / guessed["unlearn"] == pytest.approx(known["train"] / known["unlearn"], rel=0.1)


def test_a_candidate_of_a_search_is_work_of_its_own_rule():
    work = estimate.work_of(plan_of(search=True))
    assert set(work) == {"train", "unlearn_candidate", "evaluate"}
