"""What a configuration will cost is said before its first job, and what cannot fit is refused in words."""

from dataclasses import replace
from functools import cache
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
from munkey.experiment.cost.flops import NetworkCost, count_operations
from munkey.experiment.cost.machines import RESULTS, Machine, find_machine
from munkey.experiment.cost.workload import Work, Workload, estimate_size, look_up_size
from munkey.experiment.params.load import ParamsError, load, read_params
from munkey.experiment.plan.plan import Plan
from munkey.models.family import FAMILIES
from munkey.studies.audits.settings import AuditSettings
from munkey.unlearn.contract import METHODS, Images

ROOT = Path(__file__).parents[3]
IMAGES = Images(retain=90, forget=10, val=20, epochs=10, batch=10)
CARD = find_machine(tflops=60)


@cache
def epyc() -> Machine:
    """The machine of the benchmarks that the repository holds."""
    return find_machine("amd-epyc-cpu", folder=ROOT / RESULTS)


def plan_of(*overlays: str, **changes: object) -> Plan:
    return Plan(
        load({**read_params([ROOT / path for path in overlays], ROOT / "params.yaml"), **changes})
    )


def test_the_default_run_has_its_trainings_and_takes_about_as_long_as_measured():
    """18 trainings of 40 epochs; 0.108 hours were measured (benchmarks/results/grid-amd-epyc-cpu.json)."""
    costs = estimate.estimate(plan_of(), "run", epyc())
    trained = [each for each in costs.work if each.step == "train"]
    assert sum(each.jobs for each in trained) == 18
    originals = next(each for each in trained if each.what == "original-t")
    assert (originals.jobs, originals.steps) == (3, 3 * 40 * 17)  # 1,078 digits, 64 at once
    assert originals.operations == pytest.approx(3 * 40 * 1078 * originals.network.step)
    assert costs.hours[1] == pytest.approx(0.108, rel=0.35)
    assert not costs.uncounted


def test_in_an_audit_training_images_outside_its_pool_are_not_asked():
    asked = []
    for case in ("", "audit/pool"):
        run = Evaluation(
            "digits", case, "0.25", 0, "original-t", "logits", "record", "record", "forget"
        )
        work = Workload(plan_of(), [run], {"digits": SIZES["digits"]}).list_work()
        asked += [
            each.operations / each.network.forward for each in work if each.step == "evaluate"
        ]
    assert asked == [1797, 1797 - 539]  # half of 1,078 training images are in the pool


@pytest.mark.ci
def test_the_paper_has_more_with_its_search_ablations_and_selection():
    plan = plan_of("workflow/presets/paper.yaml")
    run, paper, audits, scenarios = (
        estimate.estimate(plan, target, CARD, [1, 8, 64])
        for target in ("run", "paper", "audits", "scenarios")
    )
    assert run.hours[1] < scenarios.hours[1] and run.hours[1] < audits.hours[1]
    cf = {each.dataset: each.jobs for each in run.work if each.what == "cf"}
    # seeds, rates, learning rates
    assert cf["cifar10"] == 3 * 2 * 4 and cf["cifar100"] == 3 * 1 * 4
    jobs = [sum(each.jobs for each in costs.work if each.step == "train") for costs in (run, paper)]
    # originals of six data sets, oracles of eight rates; figures
    assert jobs == [6 * 3 * 2 + 3 * 2 * 8, 360 + 6 * 3]
    assert paper.hours[1] == pytest.approx(8 * paper.hours[8]) and paper.hours[64] < paper.hours[8]
    assert paper.disk > run.disk > 90_000 * 3 * 224**2


def test_the_paper_counts_its_audit_where_its_report_shows_one():
    with_audit, without = (
        plan_of(),
        plan_of(audit=plan_of().params.section(AuditSettings).model_dump() | {"in_paper": False}),
    )
    trained, unlearned = (
        [
            sum(
                each.jobs
                for each in estimate.estimate(plan, "paper", epyc()).work
                if each.step == step
            )
            for plan in (with_audit, without)
        ]
        for step in ("train", "unlearn")
    )
    # originals and oracles of two families, the control
    assert trained[0] - trained[1] == 2 * (2 * 8 + 2 * 4) + 2 * 2
    assert unlearned[0] - unlearned[1] == 9 * 2 * 8  # MUNKEY and KNN only delete


def test_more_gpus_do_not_shorten_the_longest_training_and_unlearning():
    costs = estimate.estimate(plan_of(), "run", epyc(), [1, 10_000])
    longest = [
        max(s / w.jobs for w, s in zip(costs.work, costs.seconds, strict=True) if w.step == step)
        for step in ("keys", "train", "unlearn", "evaluate")
    ]
    assert costs.hours[10_000] == pytest.approx(sum(longest) / 3600)


def keys_work(**keys: object) -> dict[str, Work]:
    """The extractions of the default run, by encoder."""
    costs = estimate.estimate(
        plan_of(keys=plan_of().params.keys.model_dump() | keys), "run", epyc()
    )
    assert not costs.uncounted_keys
    return {each.what: each for each in costs.work if each.step == "keys"}


def test_keys_are_counted_by_part_and_a_mirror_image_as_another_picture():
    parts = {"encoder": "efficientnet-lite0@160+efficientnet-lite2@224", "image_size": None}
    single, both = keys_work(), keys_work(**parts)
    mirrored = keys_work(**parts, mirror=True)
    assert list(single) == ["efficientnet-lite0_96px"]
    assert list(both) == ["efficientnet-lite0_160px", "efficientnet-lite2_224px"]
    assert single["efficientnet-lite0_96px"].operations == pytest.approx(1797 * 0.141e9, rel=0.01)
    assert both["efficientnet-lite2_224px"].operations == pytest.approx(1797 * 1.150e9, rel=0.01)
    assert [2 * each.operations for each in both.values()] == [
        each.operations for each in mirrored.values()
    ]


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


def test_an_encoder_of_unknown_speed_is_named_and_nothing_is_refused():
    changes = {"encoder": "timm:resnet18", "image_size": None}
    plan = plan_of(keys=plan_of().params.keys.model_dump() | changes)
    costs = estimate.estimate(plan, "run", epyc())
    assert not costs.uncounted and not [each for each in costs.work if each.step == "keys"]
    last = list(estimate.format_lines(costs, epyc(), "default"))[-1]
    assert last == "NOT COUNTED: the keys of digits by timm:resnet18: number of operations unknown"


@pytest.mark.parametrize("method", METHODS)
def test_every_method_that_needs_data_costs_something(method):
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


@pytest.mark.parametrize(
    "method", [name for name in METHODS if METHODS[name].counted_passes or name in COUNTED]
)
def test_every_methods_passes_are_as_counted_by_hand(method):
    assert METHODS[method].count_passes(IMAGES, plan_of().params.unlearn[method]) == COUNTED[method]


def test_fine_tuning_takes_three_passes_of_each_image_and_epoch():
    settings = plan_of().params.unlearn["cf"]
    # a backward pass counts two
    assert METHODS["cf"].count_passes(IMAGES, settings) == 3 * IMAGES.epochs * IMAGES.retain


def test_pictures_of_ones_own_are_counted_once_they_are_prepared(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plan = plan_of()
    monkeypatch.setattr("munkey.experiment.cost.workload.SIZES", {})
    monkeypatch.setenv(CONFIGFILES, "my.yaml")
    with pytest.raises(
        ParamsError,
        match=r"the size of digits is not known yet; prepare it first: `snakemake .* --configfile my\.yaml -- results/",
    ):
        look_up_size(plan, "digits")
    labels, splits = (
        np.arange(18) % 3,
        np.repeat(["train", "train", "val", "test", "test", "test"], 3),
    )
    source = Source(np.zeros((18, 5, 5, 3), np.uint8), labels, splits, ["a", "b", "c"])
    prepare(source, Path(plan.prepared("digits")["samples"]).parent)
    assert look_up_size(plan, "digits") == Size(6, 3, 9, 5, 3)


def test_what_would_have_to_be_downloaded_is_not_read_to_be_counted(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("munkey.experiment.cost.workload.SIZES", {})
    with pytest.raises(
        ParamsError, match=r"the size of tinyimagenet .*: it would have to be downloaded"
    ):
        estimate_size(plan_of(datasets=["tinyimagenet"]), "tinyimagenet")


def test_a_network_that_is_no_vit_of_ours_is_counted_as_it_is_built():
    plan, family = plan_of(network="resnet18", methods=["cf"]), FAMILIES["resnet18"]
    work = estimate.estimate(plan, "run", epyc()).work
    found = {each.what: each for each in work if each.step == "train"}["original-r"]
    made = family.make_architecture(
        family.make_recipe(plan.train_settings("digits", "r"), Stage("any")), 10
    )
    weights = family.build(made, torch.Generator()).parameters()
    assert isinstance(found.network, NetworkCost)
    assert found.network.weights == sum(each.numel() for each in weights)
    assert found.operations == 3 * 40 * 1078 * found.network.step


def test_a_limit_per_class_counts(config):
    config["source"]["limit_per_class"] = 10
    assert look_up_size(Plan(load(config)), "digits")[:3] == (100, 100, 100)
    assert Workload(Plan(load(config)), [], {}).list_work() == []
    config["source"]["limit_per_class"] = {"train": 10}
    config["source"]["val_from"] = "train"
    assert look_up_size(Plan(load(config)), "digits")[:3] == (80, 20, 719)


def test_all_data_sets_are_counted_before_they_are_prepared_and_the_others_named_with_the_reason(
    tmp_path, monkeypatch
):
    """Two classes of 5 pictures of 6 px in a folder; a file that is no archive; digits, as published."""
    monkeypatch.chdir(tmp_path)
    for number in range(10):
        file = tmp_path / f"pets/{'cat' if number % 2 else 'dog'}/{number}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (6, 6)).save(file)
    (tmp_path / "broken.npz").write_bytes(b"nothing")
    config = read_params([], ROOT / "params.yaml")
    pets = {"reader": "imagefolder", "path": "pets", "storage_size": None, "split": [0.6, 0.2, 0.2]}
    overrides = {
        "pets": {"source": pets},
        "torn": {"source": {"reader": "npz", "path": "broken.npz"}},
    }
    plan = Plan(load({**config, "datasets": ["pets", "torn", "digits"], "overrides": overrides}))
    assert estimate_size(plan, "pets") == Size(6, 2, 2, 6, 2)
    costs = estimate.estimate(plan, "run", epyc())
    assert {each.dataset for each in costs.work} == {"pets", "digits"}
    (why,) = costs.uncounted
    assert "the size of torn is not known yet" in why and "broken.npz" in why
    assert f"NOT COUNTED: {why}" in list(estimate.format_totals(costs, epyc()))
    with pytest.raises(ParamsError, match="the size of torn is not known yet"):
        estimate.estimate(
            Plan(load({**config, "datasets": ["torn"], "overrides": overrides})), "run", epyc()
        )


def test_jobs_of_one_kind_are_added_up_with_the_larger_network():
    small, large = NetworkCost(1, 10, 30), NetworkCost(2, 20, 60)
    one = Work("train", "vit", "digits", 2, 10, 1e9, small)
    other = Work("train", "vit", "digits", 3, 7, 2e9, large)
    both = Work("train", "vit", "digits", 5, 17, 3e9, large)
    assert one.merge(other) == other.merge(one) == both
    none = replace(one, network=None)
    assert none.merge(none).network is None and none.merge(one).network == small


def test_a_machine_without_a_benchmark_gets_no_hours_but_all_else():
    unknown = Machine("this machine, not benchmarked", [], gpu=True, measured=False)
    costs = estimate.estimate(plan_of(), "run", unknown)
    assert not costs.hours and not costs.seconds and costs.disk > 0
    text = "\n".join(estimate.format_lines(costs, unknown, "default"))
    assert "18 training runs" in text and "munkey plan --tflops N" in text and "minutes" not in text


def test_a_named_speed_gives_the_hours():
    costs = estimate.estimate(plan_of(), "run", CARD)
    operations = sum(each.operations for each in costs.work)
    assert sum(costs.seconds) == pytest.approx(operations / 60e12)


def test_sisa_trains_each_sample_once_and_asks_every_shard():
    plan = plan_of(methods=["sisa"])
    work = {(each.step, each.what): each for each in estimate.estimate(plan, "run", epyc()).work}
    sisa, vit = work["train", "original-s"], work["train", "original-t"]
    assert sisa.operations == pytest.approx(vit.operations, rel=1e-3)
    shards = plan.params.get_family_section(FAMILIES["sisa"]).shards
    assert sisa.network.forward == shards * vit.network.forward


def test_an_unknown_machine_lists_those_there_are():
    with pytest.raises(ValueError, match=r"no benchmarks of abacus: .*amd-epyc-cpu"):
        find_machine("abacus", folder=ROOT / RESULTS)
