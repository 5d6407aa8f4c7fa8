"""Whether a run is in the paper's setting: every knob that the paper states is compared, and named where it differs."""

import json

import pytest
import yaml

from munkey.experiment.params.load import load
from munkey.experiment.params.overlays import merge
from munkey.experiment.plan.plan import Plan
from munkey.studies.paper import setting
from munkey.studies.paper import tables as paper
from munkey.studies.paper.plan import PaperPlan
from tests.conftest import ROOT, changed, read_config
from tests.encoders.inputs import PAPERS_CONFIG, PAPERS_PROCESSOR

DINO = {"encoder": "dinov2", "revision": "f9e44c814b77203eaa57a6bdbbd535f21ede1415"}
# changes of the preset of the paper by their path, and the phrase that names each
CHANGES = {
    "seeds": ([0, 1], "seeds is 2 (paper: 3)"),
    "source.limit_per_class": (100, "source.limit_per_class is 100 (paper: None)"),
    "source.val_from": ("train", "source.val_from is train (paper: None)"),
    "source.storage_size": (32, "source.storage_size is 32 (paper: None or 224)"),
    "data.image_size": (112, "data.image_size is 112 (paper: 224)"),
    "keys.encoder": (DINO, "keys.encoder is dinov2 (paper: vit-b16)"),
    "keys.mirror": (True, "keys.mirror is True (paper: False)"),
    "model.patch_size": (32, "model.patch_size is 32 (paper: 16)"),
    "model.width": (384, "model.width is 384 (paper: 192)"),
    "model.depth": (6, "model.depth is 6 (paper: 12, implied by the name ViT-Tiny)"),
    "model.heads": (6, "model.heads is 6 (paper: 3, implied by the name ViT-Tiny)"),
    "model.mlp_ratio": (2.0, "model.mlp_ratio is 2.0 (paper: 4.0, implied by the name ViT-Tiny)"),
    "train.epochs": (99, "train.epochs is 99 (paper: 100)"),
    "train.lr": (1.0e-3, "train.lr is 0.001 (paper: 0.00015)"),
    "train.warmup_epochs": (5, "train.warmup_epochs is 5.0 (paper: 0)"),
    "train.betas": ([0.5, 0.99], "train.betas is [0.5, 0.99] (paper: [0.9, 0.99])"),
    "train.weight_decay": (0.9, "train.weight_decay is 0.9 (paper: 0.05)"),
    "train.crop_scale": (
        [0.6, 1.0],
        "train.crop_scale is [0.6, 1.0] (paper: [0.08, 1.0], implied by the name random resized crop)",
    ),
    "train.crop_ratio": (
        [1.0, 1.0],
        "train.crop_ratio is [1.0, 1.0] (paper: [0.75, 1.3333333333333333], implied by the name random resized crop)",
    ),
    "munkey.architecture": ("direct-key", "munkey.architecture is direct-key (paper: input-level)"),
    "munkey.token_dim": (64, "munkey.token_dim is 64 (paper: 128)"),
    "munkey.p_image": (0.6, "munkey.p_image is 0.6 (paper: 0.1)"),
    "munkey.p_token": (0.9, "munkey.p_token is 0.9 (paper: 0.3)"),
    "munkey.p_retrieve": (0.5, "munkey.p_retrieve is 0.5 (paper: 0.2)"),
    "munkey.neighbors": ([1, 16], "munkey.neighbors is [1, 16] (paper: [2, 16])"),
    "munkey.aggregation": ("rank", "munkey.aggregation is rank (paper: softmax)"),
    "munkey.temperature": (0.1, "munkey.temperature is 0.1 (paper: 0.07)"),
    "inference.k": (8, "inference.k is 8 (paper: 4)"),
    "inference.fusion": ("rank", "inference.fusion is rank (paper: ensemble)"),
    "inference.temperature": (0.1, "inference.temperature is 0.1 (paper: 0.07)"),
    "finetune.epochs": (5, "finetune.epochs is 5 (paper: 10)"),
    "finetune.betas": ([0.9, 0.999], "finetune.betas is [0.9, 0.999] (paper: [0.9, 0.99])"),
    "finetune.weight_decay": (0.0, "finetune.weight_decay is 0.0 (paper: 0.05)"),
    "forget.rates": ([0.1], "forget.rates is [0.1] (paper: [0.1, 0.02])"),
    "forget.sampling": ("stratified", "forget.sampling is stratified (paper: uniform)"),
    "search": (False, "search is False (paper: True)"),
    "selection.threshold": (0.5, "selection.threshold is 0.5 (paper: 0.3)"),
    "unlearn.l1-sparse.lam": (0.1, "unlearn.l1-sparse.lam is 0.1 (paper: 0.01)"),
    "unlearn.neggrad-plus.alpha": (0.9, "unlearn.neggrad-plus.alpha is 0.9 (paper: 0.95)"),
    "unlearn.amun.steps": (10, "unlearn.amun.steps is 10 (paper: 50)"),
    "unlearn.amun.stride": (0.2, "unlearn.amun.stride is 0.2 (paper: 0.1)"),
    "network": ("resnet18", "network is resnet18 (paper: vit)"),
    "unlearn.amun.keep_forget": (True, "unlearn.amun.keep_forget is True (paper: False)"),
}
OF_ONE_DATA_SET = {"munkey.p_image", "munkey.p_token", "forget.rates", "forget.sampling"}
# the paper leaves these open: another value is no other setting
OPEN = {
    "train.batch_size": 32,
    "data.pixel_mean": 0.4,
    "search_drop": 1.0,
    "selection.comparable": 1.0,
    "unlearn.scrub.gamma": 0.5,
    "source.storage_size": 224,
}


def of_paper(changes=None):
    """The parameters of the paper's preset, with values set by their dotted paths."""
    config = read_config()
    preset = yaml.safe_load((ROOT / "workflow/presets/paper.yaml").read_text())
    config = merge(config, preset)
    for path, value in (changes or {}).items():
        config = changed(config, path, value)
    return load(config)


def statement(changes=None, dataset="cifar10"):
    """The sentence on the setting of a data set."""
    params = of_paper(changes)
    settings = PaperPlan(Plan(params)).compared[dataset]
    return paper.describe_setting(dataset, settings, len(params.seeds))


def alike(dataset):
    """The sentence on a data set in the setting of the paper."""
    return f"{dataset}: the paper's setting, as far as the paper states it; docs/method.md lists what it leaves open."


def differing(phrases, dataset="cifar10"):
    """The sentence on a data set in another setting."""
    return f"{dataset}: not the paper's setting, so this does not reproduce the paper: {phrases}."


@pytest.mark.parametrize("dataset", setting.STATED_OF)
def test_the_preset_of_the_paper_is_the_setting_of_the_paper(dataset):
    assert statement(dataset=dataset) == alike(dataset)


@pytest.mark.parametrize(
    ("knob", "value", "phrase"), [(knob, *change) for knob, change in CHANGES.items()]
)
def test_a_knob_that_differs_from_the_paper_is_named_alone(knob, value, phrase):
    if knob == "keys.encoder":
        changes = {f"keys.{name}": setting for name, setting in value.items()}
    elif knob in OF_ONE_DATA_SET:
        changes = {f"overrides.cifar10.{knob}": value}
    else:
        changes = {knob: value}
    assert statement(changes) == differing(phrase)


def test_every_knob_that_the_paper_states_is_changed_by_a_test():
    stated = {"seeds", *setting.STATED, *setting.STATED_OF["cifar10"]}
    assert stated | {f"unlearn.{name}" for name in setting.STATED_OF_METHODS} == CHANGES.keys()


@pytest.mark.parametrize(("path", "value"), OPEN.items())
def test_a_knob_that_the_paper_leaves_open_is_not_compared(path, value):
    assert statement({path: value}) == alike("cifar10")


def test_rates_may_be_listed_in_any_order():
    assert statement({"overrides.cifar10.forget.rates": [0.02, 0.1]}) == alike("cifar10")


@pytest.mark.parametrize(
    ("dataset", "pair", "phrase"),
    [
        ("cifar10", (0.1, 0.1), "munkey.p_token is 0.1 (paper: 0.3)"),
        ("cifar100", (0.3, 0.3), "munkey.p_image is 0.3 (paper: 0.1)"),
        ("tinyimagenet", (0.1, 0.3), "munkey.p_token is 0.3 (paper: 0.1)"),
        ("pathmnist", (0.3, 0.1), "munkey.p_image is 0.3 (paper: 0.1)"),
        ("dermamnist", (0.1, 0.1), "munkey.p_image is 0.1 (paper: 0.3)"),
        ("bloodmnist", (0.3, 0.3), "munkey.p_token is 0.3 (paper: 0.1)"),
    ],
)
def test_each_data_set_is_compared_with_its_own_pair(dataset, pair, phrase):
    changes = {f"overrides.{dataset}.munkey": dict(zip(("p_image", "p_token"), pair, strict=True))}
    assert statement(changes, dataset) == differing(phrase, dataset)


def test_a_selected_pair_is_named_with_that_of_the_paper():
    words = "p_image and p_token were chosen by the selection (paper: 0.1 and 0.3)"
    # The pair that is written is not used, so it does not matter.
    changes = {
        "munkey.p_drop": "selected",
        "overrides.cifar10.munkey": {"p_image": 0.5, "p_token": 0.5},
    }
    assert statement(changes) == alike("cifar10").replace("; docs", f"; {words}; docs")
    assert statement(changes | {"inference.k": 8}) == differing(
        f"inference.k is 8 (paper: 4); {words}"
    )


def test_a_search_of_other_learning_rates_than_0_1_to_1_differs():
    assert statement({"search_grid": {"lr_factor": [0.1, 1.0]}}) == alike("cifar10")
    narrow = statement({"search_grid": {"lr_factor": [0.25, 1.0]}})
    assert narrow.count("is searched in [0.25, 1.0] (paper: from 0.1 to 1.0)") == len(setting.TUNED)
    for grid in ([0.1, 0.5], [0.01, 1.0], [0.5]):
        sentence = statement({"search_grid": {"lr_factor": [0.1, 1.0], "cf.lr_factor": grid}})
        phrase = f"lr_factor of cf is searched in {grid} (paper: from 0.1 to 1.0)"
        assert sentence == differing(phrase)


def test_a_searched_method_is_compared_by_all_values_of_its_grid():
    grid = {"lr_factor": [0.1, 1.0], "neggrad-plus.alpha": [0.9, 0.95]}
    phrase = "unlearn.neggrad-plus.alpha is [0.9, 0.95] (paper: 0.95)"
    assert statement({"search_grid": grid}) == differing(phrase)
    off = statement({"search_grid": grid, "search": False})
    assert off == differing("search is False (paper: True)")  # and 0.95 is what is used


def test_a_method_that_does_not_run_is_not_compared():
    changes = {"methods": ["knn", "munkey"], "unlearn.l1-sparse.lam": 0.1}
    assert statement(changes) == alike("cifar10")


def test_all_methods_that_the_paper_tunes_are_compared():
    tuned = {name for name, values in of_paper().unlearn.items() if hasattr(values, "lr_factor")}
    assert set(setting.TUNED) == tuned & set(paper.read_printed_numbers()["method"])


def test_a_copy_of_the_encoder_of_the_paper_in_a_folder_is_that_encoder(tmp_path):
    folder = tmp_path / "vit-base-patch16-224"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(PAPERS_CONFIG))
    (folder / "preprocessor_config.json").write_text(json.dumps(PAPERS_PROCESSOR))
    changes = {"keys.encoder": str(folder), "keys.revision": None}
    assert statement(changes) == alike("cifar10")
    (folder / "config.json").write_text(json.dumps(PAPERS_CONFIG | {"patch_size": 32}))
    assert statement(changes) == differing(f"keys.encoder is {folder} (paper: vit-b16)")


def test_a_missing_section_is_an_error():
    for name in ("search", "unlearn", "source", "keys"):
        settings = dict(PaperPlan(Plan(of_paper())).compared["cifar10"])
        del settings[name]
        with pytest.raises(KeyError, match=name):
            paper.describe_setting("cifar10", settings, 3)


def test_every_data_set_has_a_sentence_also_one_outside_the_paper():
    compared = PaperPlan(Plan(of_paper({"datasets": ["digits", "cifar10"]}))).compared
    digits, cifar10 = paper.describe_settings(compared, 3)
    assert digits.startswith("digits: not among")
    assert cifar10 == alike("cifar10")


REHEARSAL = {"seeds": [0], "source.limit_per_class": 4, "train.epochs": 1}


def test_a_run_with_fewer_seeds_images_and_epochs_is_a_rehearsal():
    sentence = statement(REHEARSAL)
    assert sentence.startswith("cifar10: a rehearsal")
    assert "does not reproduce the paper" in sentence
    numbers = [
        "seeds is 1 (paper: 3)",
        "source.limit_per_class is 4 (paper: None)",
        "train.epochs is 1 (paper: 100)",
    ]
    assert sentence.endswith(f": {'; '.join(numbers)}.")


@pytest.mark.parametrize("knob", REHEARSAL)
def test_a_run_with_one_of_these_knobs_of_the_paper_is_no_rehearsal(knob):
    changes = dict(REHEARSAL)
    del changes[knob]
    assert statement(changes).startswith("cifar10: not the paper's setting")
