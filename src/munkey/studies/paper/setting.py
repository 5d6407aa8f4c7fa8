"""The settings that the paper states (sec. 3.2, 4; app. B, E), and how a run differs from them.

Settings are named as in params.yaml. Settings that the paper does not state are not compared;
docs/method.md lists them.
"""

from collections.abc import Mapping
from typing import Any

# A data set's settings: sections as in params.yaml, or values by `section.name`.
Settings = Mapping[str, Any]

SEEDS = 3
# A tuple lists values that all agree with the paper.
STATED: Settings = {
    "source.limit_per_class": None,
    "source.val_from": None,  # 40% of the official val or test set (app. B.1)
    "source.storage_size": (None, 224),  # "resized to 224": before the crop or by it
    "data.image_size": 224,
    "keys.encoder": "vit-b16",
    "keys.mirror": False,
    "network": "vit",
    "model.patch_size": 16,
    "model.width": 192,
    "model.depth": 12,
    "model.heads": 3,
    "model.mlp_ratio": 4.0,
    "train.epochs": 100,
    "train.lr": 1.5e-4,
    "train.warmup_epochs": 0,  # the cosine schedule starts at the learning rate
    "train.betas": [0.9, 0.99],
    "train.weight_decay": 0.05,
    "train.crop_scale": [0.08, 1.0],
    "train.crop_ratio": [3 / 4, 4 / 3],
    "munkey.architecture": "input-level",
    "munkey.token_dim": 128,
    "munkey.p_retrieve": 0.2,
    "munkey.neighbors": [2, 16],
    "munkey.aggregation": "softmax",  # "a similarity-weighted average"
    "munkey.temperature": 0.07,
    "inference.k": 4,
    "inference.fusion": "ensemble",
    "inference.temperature": 0.07,
    "finetune.epochs": 10,
    "finetune.betas": [0.9, 0.99],
    "finetune.weight_decay": 0.05,
    "search": True,
    "selection.threshold": 0.3,
}
# Settings that the paper states only by naming an architecture or an augmentation.
NAMED = {
    "model.depth": "ViT-Tiny",
    "model.heads": "ViT-Tiny",
    "model.mlp_ratio": "ViT-Tiny",
    "train.crop_scale": "random resized crop",
    "train.crop_ratio": "random resized crop",
}
BOTH_RATES = [0.1, 0.02]
ONE_RATE = [0.1]
NATURAL = {"munkey.p_image": 0.1, "munkey.p_token": 0.3}
LARGE = {"munkey.p_image": 0.1, "munkey.p_token": 0.1}
MEDICAL = {"munkey.p_image": 0.3, "munkey.p_token": 0.1}
STATED_OF: Mapping[str, Settings] = {
    "cifar10": NATURAL | {"forget.rates": BOTH_RATES, "forget.sampling": "uniform"},
    "cifar100": NATURAL | {"forget.rates": ONE_RATE, "forget.sampling": "stratified"},
    "tinyimagenet": LARGE | {"forget.rates": ONE_RATE, "forget.sampling": "stratified"},
    "pathmnist": LARGE | {"forget.rates": ONE_RATE, "forget.sampling": "stratified"},
    "dermamnist": MEDICAL | {"forget.rates": BOTH_RATES, "forget.sampling": "stratified"},
    "bloodmnist": MEDICAL | {"forget.rates": ONE_RATE, "forget.sampling": "stratified"},
}
# The methods' settings, by METHOD.KEY.
STATED_OF_METHODS: Settings = {
    "l1-sparse.lam": 0.01,
    "neggrad-plus.alpha": 0.95,
    "amun.steps": 50,
    "amun.stride": 0.1,
    "amun.keep_forget": False,
}
# The learning-rate factors of these methods are searched between the two values of FACTORS.
TUNED = ("cf", "cf-k", "eu-k", "l1-sparse", "neggrad-plus", "amnesiac", "scrub", "amun")
FACTORS = [0.1, 1.0]
SELECTED = ("munkey.p_image", "munkey.p_token")  # may be chosen by the selection


def list_differences(dataset: str, settings: Settings, seeds: int) -> list[str]:
    """Return one phrase per setting of a run that differs from the paper's.

    Parameters
    ----------
    dataset
        One of the paper's data sets.
    settings
        Sections as in params.yaml. The section `unlearn` lists all values that are tried for each
        setting of each method.
    """
    phrases = []
    if seeds != SEEDS:
        phrases.append(_describe("seeds", seeds, SEEDS))
    for name, stated in {**STATED, **STATED_OF[dataset]}.items():
        if name in SELECTED and is_selected(settings):
            continue
        section, _, key = name.partition(".")
        ours = settings[section]
        if key:
            ours = ours[key]
        if name == "forget.rates":  # the order does not matter
            agrees = sorted(ours) == sorted(stated)
        else:
            agrees = ours in _list_alternatives(stated)
        if not agrees:
            phrases.append(_describe(name, ours, stated))
    return phrases + _list_method_differences(settings)


def is_rehearsal(settings: Settings, seeds: int) -> bool:
    """Return whether a run has fewer seeds, images and epochs than the paper's.

    Such a run only shows that all steps work.
    """
    fewer_epochs = settings["train"]["epochs"] < STATED["train.epochs"]
    return seeds < SEEDS and fewer_epochs and settings["source"]["limit_per_class"] is not None


def is_selected(settings: Settings) -> bool:
    """Return whether p_image and p_token are chosen by the selection."""
    return bool(settings["munkey"]["p_drop"] == "selected")


def describe_selected_pair(dataset: str) -> str:
    """Return a phrase which states that p_image and p_token were selected."""
    stated = STATED_OF[dataset]
    papers = f"{stated['munkey.p_image']} and {stated['munkey.p_token']}"
    return f"p_image and p_token were chosen by the selection (paper: {papers})"


def _list_method_differences(settings: Settings) -> list[str]:
    """Return one phrase per setting of the methods in the run that differs from the paper's."""
    phrases = []
    for name, value in STATED_OF_METHODS.items():
        tried = _list_tried(settings, name)
        if tried in ([], [value]):  # the method is not run, or its setting is the paper's
            continue
        ours = tried[0] if len(tried) == 1 else tried
        phrases.append(_describe(f"unlearn.{name}", ours, value))
    if not settings["search"]:
        return phrases
    for method in TUNED:
        factors = _list_tried(settings, f"{method}.lr_factor")
        if factors and [min(factors), max(factors)] != FACTORS:
            phrases.append(
                f"lr_factor of {method} is searched in {factors} (paper: from 0.1 to 1.0)"
            )
    return phrases


def _list_tried(settings: Settings, name: str) -> list[float]:
    """Return the values that are tried for METHOD.KEY, or an empty list if the method is not run."""
    method, key = name.split(".")
    if method not in settings["unlearn"]:
        return []
    return list(settings["unlearn"][method][key])


def _list_alternatives(stated: object) -> tuple[object, ...]:
    """Return the values that agree with the paper."""
    if isinstance(stated, tuple):
        return stated
    return (stated,)


def _describe(name: str, ours: object, stated: object) -> str:
    """Return a phrase with our value of a setting and the paper's."""
    papers = " or ".join(map(str, _list_alternatives(stated)))
    if name in NAMED:
        papers += f", implied by the name {NAMED[name]}"
    return f"{name} is {ours} (paper: {papers})"
