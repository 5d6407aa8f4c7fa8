"""What a method starts from: the trained original, the data it may use, how it fine-tunes."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from munkey.data.forget_sets import ForgetSplit
from munkey.data.image_set import ImageSet
from munkey.models import system
from munkey.settings import FinetuneSettings
from munkey.unlearn import prepare
from munkey.unlearn.contract import METHODS
from tests.conftest import ROOT
from tests.unlearn.world import MODEL, make_request, original, recipe, same, tensors, world

SECTION = {"epochs": 3, "batch_size": 7, "betas": [0.5, 0.6], "weight_decay": 0.1}  # finetune


@pytest.mark.parametrize("name", ["cf", "munkey", "sisa", "knn"])
def test_a_trained_original_is_loaded(name: str, tmp_path: Path) -> None:
    system.save(tmp_path / "original", original(name))
    loaded = prepare.load_original(
        METHODS[name], make_request(name).recipe, world().dataset, tmp_path / "original", "cpu"
    )
    assert loaded.family == METHODS[name].family
    assert same(tensors(loaded), tensors(original(name)))


def test_an_original_of_another_architecture_is_refused(tmp_path: Path) -> None:
    system.save(tmp_path / "original", original("cf"))
    wider = replace(recipe("vit"), model=MODEL.model_copy(update={"width": 32}))
    with pytest.raises(ValueError, match="width is 16, expected 32"):
        prepare.load_original(METHODS["cf"], wider, world().dataset, tmp_path / "original", "cpu")


def test_only_images_that_a_method_declares_are_moved_to_the_device(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    uploads: list[list[int]] = []

    def upload(samples: ImageSet, device: str, share: float) -> ImageSet:
        assert (device, share) == ("cuda", 0.4)
        uploads.append(samples.ids.tolist())
        return samples

    monkeypatch.setattr(prepare, "move_to_gpu_if_it_fits", upload)
    ids = {part: samples.ids.tolist() for part, samples in world().parts.items()}
    split = ForgetSplit(retain=np.array(ids["retain"]), forget=np.array(ids["forget"]))
    declared = {
        "munkey": [],
        "cf": ["retain"],
        "ssd": ["retain", "forget"],
        "scrub": ["retain", "forget", "val"],
    }
    for name, parts in declared.items():
        uploads.clear()
        data = prepare.make_sets(METHODS[name], world().dataset, split, "cuda", 0.4)
        assert {part: samples.ids.tolist() for part, samples in data.items()} == ids
        assert uploads == [ids[part] for part in parts]


def test_samples_that_a_stream_added_do_not_validate() -> None:
    ids = {part: samples.ids for part, samples in world().parts.items()}
    added = ids["val"][::2]
    split = ForgetSplit(retain=np.union1d(ids["retain"], added), forget=ids["forget"])
    data = prepare.make_sets(METHODS["scrub"], world().dataset, split, "cpu", 0.4)
    assert data["val"].ids.tolist() == ids["val"][1::2].tolist()


def test_the_tuning_comes_from_the_section_finetune() -> None:
    tuned = prepare.make_tuning(recipe("vit"), {"finetune": SECTION, "data": {}})
    assert tuned.settings == FinetuneSettings(**SECTION)
    assert prepare.make_tuning(recipe("sisa"), {"data": {}}) is None
    assert prepare.make_tuning(None, {"finetune": SECTION}) is None


def test_the_imports_of_the_first_optimizer_are_done_before_a_method_is_timed() -> None:
    code = """
import sys
from munkey.unlearn import prepare
from tests.unlearn.test_prepare import SECTION, recipe
assert "torch._dynamo" not in sys.modules, "imported before: this test shows nothing"
prepare.make_tuning(recipe("vit"), {"finetune": SECTION})
assert {"torch._dynamo", "munkey.unlearn.finetune"} <= set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
