"""Settings chosen by an audit of a search: what each candidate leaves, on a pool apart from the reported one."""

from pathlib import Path

import numpy as np
import pytest
import torch

from munkey.audits.read_evidence import describe_searches
from munkey.core.files import write_json, write_npz
from munkey.data import forget_sets, prepared
from munkey.data.image_set import image_set
from munkey.data.source import Source
from munkey.models import system as systems
from munkey.models.family import FAMILIES, System
from munkey.studies.audits import jobs as pools
from tests.training.inputs import DATA
from tests.unlearn.world import ARCHITECTURE, world


def dataset(folder: Path) -> prepared.Dataset:
    """The scans of the tests of unlearning, some of them as test samples."""
    splits = np.array(["train"] * 60 + ["val"] * 8 + ["test"] * 25)
    whole = world().dataset
    prepared.prepare(Source([whole.images], np.arange(93) % 3, splits, ["a", "b", "c"]), folder)
    return prepared.load(folder)


def test_the_candidate_that_leaves_least_comes_first(tmp_path: Path) -> None:
    """One leaves the original as it is: all is left. One turns it into its partner: what is left is as much below 0."""
    data = dataset(tmp_path / "data/digits")
    family = FAMILIES["vit"]
    place = "digits/audit/pool"
    ids = np.concatenate([data.get_ids("train")[:20], data.get_ids("test")])
    models = []
    for seed in range(4):
        network = family.build(ARCHITECTURE, torch.Generator().manual_seed(seed))
        models.append(System("vit", ARCHITECTURE, network))
    for seed, model in enumerate(models, start=8):  # as text, 10 and 11 come before 8 and 9
        half = np.sort(np.random.default_rng(seed // 2).permutation(ids[:20])[seed % 2 :: 2])
        forget_sets.write(tmp_path / f"audit/digits/halves/seed{seed}.csv", half)
        samples = image_set(data, ids)
        logits = family.predict_logits(model, samples, DATA, "cpu", None)
        arrays = {
            "ids": ids,
            "labels": samples.labels,
            "splits": data.splits[data.rows(ids)],
            "logits": logits,
        }
        write_npz(tmp_path / f"logits/{place}/seed{seed}/full/original-t.npz", arrays)
        search = tmp_path / f"search/{place}/seed{seed}/rate0.1/cf"
        accuracies = [85.0 if seed == 11 else 90.0, 89.0]
        table = []
        for number, accuracy in enumerate(accuracies):
            row = {"gap": 0.0, "forget_accuracy": 0.0, "val_accuracy": accuracy}
            table.append(row | {"settings": {"lr_factor": number}})
        write_json(search / "search.json", {"original_val_accuracy": 90.0, "candidates": table})
        for number, candidate in enumerate((model, models[(seed ^ 1) - 8])):
            systems.save(search / f"{number}/system.safetensors", candidate)
            write_json(search / f"{number}/record.json", {"settings": {"data": DATA.model_dump()}})
    title, first, second = describe_searches(tmp_path / "search/digits", 2.0)
    assert title == "cf (n = 4 models)"
    # of models that learned nothing
    assert first == "  lr_factor 1: residual share -100.0 [-inf, inf]%, drop 1.0"
    assert second == "  lr_factor 0: residual share 100.0 [-inf, inf]%, drop 5.0"
    (tmp_path / f"search/{place}/seed8/rate0.1/cf/search.json").rename(tmp_path / "away.json")
    write_json(tmp_path / f"search/{place}/seed8/rate0.1/ssd/search.json", {"candidates": []})
    of_cf, of_ssd = describe_searches(tmp_path / "search/digits", 2.0)
    assert of_cf.startswith("cf: searched with 3 of 4 models")
    assert of_ssd.startswith("ssd: searched with 1 of 4 models")
    dataset(tmp_path / "other/data/digits")
    with pytest.raises(FileNotFoundError, match="search: true"):
        list(describe_searches(tmp_path / "other/search/digits", 2.0))


def test_pools_of_different_draws_do_not_overlap(tmp_path: Path) -> None:
    data = dataset(tmp_path / "data/digits")
    drawn = []
    for draw in (0, 1, 2):
        halves = []
        for seed in range(4):
            file = tmp_path / f"{draw}/{seed}.csv"
            pools.half(
                tmp_path / "data/digits/images.npy", file, "digits", seed, 0.3, "random", draw, 5
            )
            halves.append(set(forget_sets.read(file).tolist()))
        assert halves[0].isdisjoint(halves[1])
        assert halves[0] | halves[1] == halves[2] | halves[3]
        assert halves[0] != halves[2]
        drawn.append(halves[0] | halves[1])
    assert drawn[0].isdisjoint(drawn[1])
    assert drawn[0].isdisjoint(drawn[2])
    assert drawn[1] != drawn[2]
    assert len(drawn[0]) == len(drawn[1])
    assert drawn[1] < set(data.get_ids("train").tolist())
