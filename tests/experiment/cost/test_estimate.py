"""What a configuration will cost is said before its first job, and what cannot fit is refused in words."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from munkey.core.files import CONFIGFILES
from munkey.core.randomness import Stage
from munkey.data.prepared import prepare
from munkey.data.sizes import SIZES, Size
from munkey.data.source import Source
from munkey.encoders.embedded import PIXEL_OPERATIONS
from munkey.evaluation.records import Evaluation
from munkey.experiment.cost import estimate
from munkey.experiment.cost.estimate import CostEstimate
from munkey.experiment.cost.flops import NetworkCost, count_operations
from munkey.experiment.cost.machines import RESULTS, Machine, find_machine
from munkey.experiment.cost.workload import Work, Workload, estimate_size, look_up_size
from munkey.experiment.params.load import ParamsError, load
from munkey.experiment.plan.plan import Plan
from munkey.models.family import FAMILIES
from munkey.studies.audits.settings import AuditSettings
from munkey.unlearn.contract import METHODS, Images
from tests.conftest import ROOT
from tests.experiment.inputs import epyc, plan_of

IMAGES = Images(retain=90, forget=10, val=20, epochs=10, batch=10)
CARD = find_machine(tflops=60)


def list_work(costs: CostEstimate, step: str) -> list[Work]:
    """The work of one step: keys, train, unlearn or evaluate."""
    return [work for work in costs.work if work.step == step]


def count_jobs(costs: CostEstimate, step: str) -> int:
    return sum(work.jobs for work in list_work(costs, step))


def test_the_default_run_has_18_trainings_and_takes_about_as_long_as_measured():
    """18 trainings of 40 epochs; 0.108 hours were measured (benchmarks/results/grid-amd-epyc-cpu.json)."""
    costs = estimate.estimate(plan_of(), "run", epyc())
    assert count_jobs(costs, "train") == 18
    originals = next(work for work in list_work(costs, "train") if work.what == "original-t")
    assert (originals.jobs, originals.steps) == (3, 3 * 40 * 17)  # 1,078 digits, 64 at once
    assert originals.operations == pytest.approx(3 * 40 * 1078 * originals.network.step)
    assert costs.hours[1] == pytest.approx(0.108, rel=0.35)
    assert not costs.uncounted


@pytest.mark.parametrize(
    ("case", "images"),
    [
        ("", 1797),
        ("audit/pool", 1797 - 539),  # half of 1,078 training images are in the pool
    ],
)
def test_training_images_outside_the_pool_of_an_audit_are_not_evaluated(case, images):
    run = Evaluation(
        "digits", case, "0.25", 0, "original-t", "logits", "record", "record", "forget"
    )
    workload = Workload(plan_of(), [run], {"digits": SIZES["digits"]})
    [evaluation] = [work for work in workload.list_work() if work.step == "evaluate"]
    assert evaluation.operations / evaluation.network.forward == images


@pytest.mark.ci
def test_the_paper_costs_more_than_the_run_by_search_ablations_and_selection():
    plan = plan_of("workflow/presets/paper.yaml")
    run, paper, audits, scenarios = (
        estimate.estimate(plan, target, CARD, [1, 8, 64])
        for target in ("run", "paper", "audits", "scenarios")
    )
    assert run.hours[1] < scenarios.hours[1]
    assert run.hours[1] < audits.hours[1]
    cf = {work.dataset: work.jobs for work in run.work if work.what == "cf"}
    # seeds, rates, learning rates
    assert cf["cifar10"] == 3 * 2 * 4
    assert cf["cifar100"] == 3 * 1 * 4
    # originals of six data sets, oracles of eight rates; figures
    assert count_jobs(run, "train") == 6 * 3 * 2 + 3 * 2 * 8
    assert count_jobs(paper, "train") == 360 + 6 * 3
    assert paper.hours[1] == pytest.approx(8 * paper.hours[8])
    assert paper.hours[64] < paper.hours[8]
    assert paper.disk > run.disk > 90_000 * 3 * 224**2


def test_the_paper_counts_the_audit_if_its_report_shows_one():
    audit = plan_of().params.section(AuditSettings).model_dump()
    with_audit = estimate.estimate(plan_of(), "paper", epyc())
    plain = estimate.estimate(plan_of(audit=audit | {"in_paper": False}), "paper", epyc())
    # originals and oracles of two families, the control
    added_trainings = count_jobs(with_audit, "train") - count_jobs(plain, "train")
    assert added_trainings == 2 * (2 * 8 + 2 * 4) + 2 * 2
    # MUNKEY and KNN only delete
    added_unlearning = count_jobs(with_audit, "unlearn") - count_jobs(plain, "unlearn")
    assert added_unlearning == 9 * 2 * 8


def test_more_gpus_do_not_shorten_the_longest_job_of_a_step():
    costs = estimate.estimate(plan_of(), "run", epyc(), [1, 10_000])
    longest = dict.fromkeys(("keys", "train", "unlearn", "evaluate"), 0.0)
    for work, seconds in zip(costs.work, costs.seconds, strict=True):
        longest[work.step] = max(longest[work.step], seconds / work.jobs)
    assert costs.hours[10_000] == pytest.approx(sum(longest.values()) / 3600)


def keys_work(**keys: object) -> dict[str, Work]:
    """The extractions of the default run, by encoder."""
    settings = plan_of().params.keys.model_dump() | keys
    costs = estimate.estimate(plan_of(keys=settings), "run", epyc())
    assert not costs.uncounted_keys
    return {work.what: work for work in list_work(costs, "keys")}


def test_keys_are_counted_by_part_of_the_encoder_and_mirror_images_as_pictures():
    parts = {"encoder": "efficientnet-lite0@160+efficientnet-lite2@224", "image_size": None}
    single = keys_work(encoder="efficientnet-lite0", image_size=96)
    both = keys_work(**parts)
    mirrored = keys_work(**parts, mirror=True)
    assert list(single) == ["efficientnet-lite0_96px"]
    assert list(both) == ["efficientnet-lite0_160px", "efficientnet-lite2_224px"]
    assert single["efficientnet-lite0_96px"].operations == pytest.approx(1797 * 0.141e9, rel=0.01)
    assert both["efficientnet-lite2_224px"].operations == pytest.approx(1797 * 1.150e9, rel=0.01)
    for plain, doubled in zip(both.values(), mirrored.values(), strict=True):
        assert doubled.operations == 2 * plain.operations


@pytest.mark.parametrize(
    ("name", "side", "milliseconds"),
    [
        ("efficientnet-lite0", 96, 2.22),
        ("efficientnet-lite0", 160, 6.30),
        ("efficientnet-lite1", 192, 11.51),
        ("efficientnet-lite2", 224, 16.45),
    ],
)
def test_a_picture_takes_about_as_long_as_measured_on_one_core(name, side, milliseconds):
    """CPU time on an AMD EPYC, one thread, 2026-11-26 (`python -m benchmarks.encoders`)."""
    [work] = keys_work(encoder=name, image_size=side).values()
    seconds = estimate.estimate_seconds(work, epyc()) / 1797
    assert 1000 * seconds == pytest.approx(milliseconds, rel=0.25)


@pytest.mark.parametrize("number", PIXEL_OPERATIONS)
def test_the_operations_of_an_encoder_are_those_that_torch_counts(number):
    import timm

    with torch.device("meta"):
        network = timm.create_model(f"tf_efficientnet_lite{number}", num_classes=0)
    for side in (96, 224):
        counted_operations = count_operations(network, side).forward
        assert PIXEL_OPERATIONS[number] * side**2 == pytest.approx(counted_operations, rel=1e-3)


def test_an_encoder_of_unknown_speed_is_named_as_not_counted():
    changes = {"encoder": "timm:resnet18", "image_size": None}
    plan = plan_of(keys=plan_of().params.keys.model_dump() | changes)
    costs = estimate.estimate(plan, "run", epyc())
    assert not costs.uncounted
    assert not list_work(costs, "keys")
    last = list(estimate.format_lines(costs, epyc(), "default"))[-1]
    assert last.startswith("NOT COUNTED: the keys of digits")


@pytest.mark.parametrize("method", METHODS)
def test_a_method_has_passes_if_it_needs_data_and_only_then(method):
    settings = plan_of().params.unlearn[method]
    passes = METHODS[method].count_passes(IMAGES, settings)
    assert (passes > 0) == bool(METHODS[method].needs)


# Counted by hand from the papers' steps: forward passes, of which a backward pass counts two.
COUNTED = {
    "amun": 3 * (10 * (1 + 50 * 11) + 10 * 100),
    "assd": 330,
    "bad-teacher": 10 * (27 + 10) * 5,
    "boundary-shrink": 700,
    "delete": 400,
    "fcs": 3130,
    "jit": (3 + 25) * 10,
    "lfssd": 330,
    "lotus": 20 + 10 * (4 * 37 + 10),
    "msg": 2760,
    "msg-linear": 2760,
    "neggrad-plus": 5400,
    "rum": 16_210,
    "salun": 3030,
    "scrub": 3980,
    "sfron": 3540,
    "ssd": 330,
    "unsir": 2340,
}


def test_every_method_with_a_count_of_its_own_is_counted_by_hand():
    assert COUNTED.keys() >= {name for name in METHODS if METHODS[name].counted_passes}


@pytest.mark.parametrize("method", COUNTED)
def test_the_passes_of_a_method_are_those_counted_by_hand(method):
    assert METHODS[method].count_passes(IMAGES, plan_of().params.unlearn[method]) == COUNTED[method]


def test_fine_tuning_takes_three_passes_of_each_image_and_epoch():
    settings = plan_of().params.unlearn["cf"]
    # a backward pass counts two
    assert METHODS["cf"].count_passes(IMAGES, settings) == 3 * IMAGES.epochs * IMAGES.retain


def test_a_data_set_of_unknown_size_is_counted_after_it_is_prepared(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plan = plan_of()
    monkeypatch.setattr("munkey.experiment.cost.workload.SIZES", {})
    monkeypatch.setenv(CONFIGFILES, "my.yaml")
    with pytest.raises(
        ParamsError, match=r"digits .*`snakemake .* --configfile my\.yaml -- results/"
    ):
        look_up_size(plan, "digits")
    labels = np.arange(18) % 3
    splits = np.repeat(["train", "train", "val", "test", "test", "test"], 3)
    source = Source(np.zeros((18, 5, 5, 3), np.uint8), labels, splits, ["a", "b", "c"])
    prepare(source, Path(plan.prepared("digits")["samples"]).parent)
    assert look_up_size(plan, "digits") == Size(6, 3, 9, 5, 3)


def test_a_data_set_is_not_downloaded_to_be_counted(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("munkey.experiment.cost.workload.SIZES", {})
    with pytest.raises(ParamsError, match=r"size of tinyimagenet .*downloaded"):
        estimate_size(plan_of(datasets=["tinyimagenet"]), "tinyimagenet")


def test_a_resnet_is_counted_by_the_weights_that_its_family_builds():
    plan = plan_of(network="resnet18", methods=["cf"])
    family = FAMILIES["resnet18"]
    recipe = family.make_recipe(plan.train_settings("digits", "r"), Stage("any"))
    network = family.build(family.make_architecture(recipe, 10), torch.Generator())
    costs = estimate.estimate(plan, "run", epyc())
    originals = next(work for work in list_work(costs, "train") if work.what == "original-r")
    assert isinstance(originals.network, NetworkCost)
    assert originals.network.weights == sum(weights.numel() for weights in network.parameters())
    assert originals.operations == 3 * 40 * 1078 * originals.network.step


def test_a_limit_per_class_bounds_the_size_of_a_data_set(config):
    config["source"]["limit_per_class"] = 10
    assert look_up_size(Plan(load(config)), "digits")[:3] == (100, 100, 100)
    assert Workload(Plan(load(config)), [], {}).list_work() == []
    config["source"]["limit_per_class"] = {"train": 10}
    config["source"]["val_from"] = "train"
    assert look_up_size(Plan(load(config)), "digits")[:3] == (80, 20, 719)


def test_data_sets_are_counted_before_they_are_prepared_and_a_damaged_one_is_named_with_the_reason(
    tmp_path, monkeypatch
):
    """Two classes of 5 pictures of 6 px in a folder; a file that is no archive; digits, as published."""
    monkeypatch.chdir(tmp_path)
    for number in range(10):
        file = tmp_path / f"pets/{'cat' if number % 2 else 'dog'}/{number}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (6, 6)).save(file)
    (tmp_path / "broken.npz").write_bytes(b"nothing")
    pets = {"reader": "imagefolder", "path": "pets", "storage_size": None, "split": [0.6, 0.2, 0.2]}
    overrides = {
        "pets": {"source": pets},
        "torn": {"source": {"reader": "npz", "path": "broken.npz"}},
    }
    plan = plan_of(datasets=["pets", "torn", "digits"], overrides=overrides)
    assert estimate_size(plan, "pets") == Size(6, 2, 2, 6, 2)
    costs = estimate.estimate(plan, "run", epyc())
    assert {work.dataset for work in costs.work} == {"pets", "digits"}
    (reason,) = costs.uncounted
    assert "size of torn" in reason
    assert "broken.npz" in reason
    assert f"NOT COUNTED: {reason}" in list(estimate.format_totals(costs, epyc()))
    with pytest.raises(ParamsError, match="size of torn"):
        estimate.estimate(plan_of(datasets=["torn"], overrides=overrides), "run", epyc())


def test_jobs_of_one_kind_are_added_up_with_the_larger_network():
    small = NetworkCost(1, 10, 30)
    large = NetworkCost(2, 20, 60)
    small_work = Work("train", "vit", "digits", 2, 10, 1e9, small)
    large_work = Work("train", "vit", "digits", 3, 7, 2e9, large)
    total = Work("train", "vit", "digits", 5, 17, 3e9, large)
    assert small_work.merge(large_work) == total
    assert large_work.merge(small_work) == total
    without_network = replace(small_work, network=None)
    assert without_network.merge(without_network).network is None
    assert without_network.merge(small_work).network == small


def test_a_machine_without_a_benchmark_gets_jobs_and_disk_but_no_hours():
    unknown = Machine("this machine, not benchmarked", [], gpu=True, measured=False)
    costs = estimate.estimate(plan_of(), "run", unknown)
    assert not costs.hours
    assert not costs.seconds
    assert costs.disk > 0
    text = "\n".join(estimate.format_lines(costs, unknown, "default"))
    assert "18 training runs" in text
    assert "munkey plan --tflops N" in text
    assert "minutes" not in text


def test_seconds_are_operations_over_the_speed_of_the_machine():
    costs = estimate.estimate(plan_of(), "run", CARD)
    operations = sum(work.operations for work in costs.work)
    assert sum(costs.seconds) == pytest.approx(operations / 60e12)


def test_sisa_trains_on_each_sample_once_and_answers_with_every_shard():
    plan = plan_of(methods=["sisa"])
    trainings = {}
    for work in list_work(estimate.estimate(plan, "run", epyc()), "train"):
        trainings[work.what] = work
    sisa = trainings["original-s"]
    vit = trainings["original-t"]
    assert sisa.operations == pytest.approx(vit.operations, rel=1e-3)
    shards = plan.params.get_family_section(FAMILIES["sisa"]).shards
    assert sisa.network.forward == shards * vit.network.forward


def test_an_unknown_machine_is_refused_with_the_benchmarked_ones():
    with pytest.raises(ValueError, match=r"abacus: .*amd-epyc-cpu"):
        find_machine("abacus", folder=ROOT / RESULTS)
