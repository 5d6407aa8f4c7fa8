"""Whoever holds two versions of a system names what was deleted, and guesses where nothing was."""

from dataclasses import replace

import numpy as np
import pytest

from munkey.audits import two_versions
from munkey.audits.two_versions import Attacker, compute_precision
from munkey.core.randomness import Stage
from munkey.data.prepared import Dataset
from munkey.encoders.keys import Keys
from munkey.memory.neighbors import find_nearest
from munkey.models.family import FAMILIES, MemberKeys, Training
from munkey.unlearn.contract import METHODS
from tests.conftest import image_set, unit_rows
from tests.models.inputs import DATA as DATA_SETTINGS
from tests.models.inputs import EXACT, fitted, others, quiet, recipe

COUNT = 60
CLASSES = 3
IDS = 5 + 2 * np.arange(COUNT + 15)
LABELS = IDS // 2 % CLASSES
SPLITS = np.where(np.arange(COUNT + 15) < COUNT, "train", "val")
DATA = Dataset(np.zeros((COUNT + 15, 4, 4, 3), np.uint8), IDS, LABELS, SPLITS, list("abc"))
KEYS = Keys(IDS, unit_rows(COUNT + 15, 24, seed=4))
SETTINGS = {
    "data": {"image_size": 4, "pixel_mean": 0.5, "pixel_std": 0.5},
    "inference": {},
    "method": {},
}


def of(split: str) -> Keys:
    return Keys(IDS[split == SPLITS], KEYS.keys[split == SPLITS])


def lines(name: str, depth: int = 8, **changes) -> list[dict]:
    near = find_nearest(of("train"), of("train"), depth)
    stage = Stage("test")
    original = fitted(name, of("train"), LABELS[:COUNT], CLASSES)
    method = replace(METHODS[name], **changes)
    return list(
        Attacker(DATA, of("train"), near, of("val"), stage, "cpu").make_rows(
            method, original, SETTINGS
        )
    )


@pytest.mark.parametrize("family", ["lda", "ncm", "ranpac"])
def test_the_weights_of_a_linear_head_identify_a_sample_that_was_deleted_alone(family):
    rows = {(line["attacker"], line["batch"]): line for line in lines(family)}
    assert rows["weights", 1]["precision"] > 90
    assert rows["weights", 1]["precision"] > rows["weights", 10]["precision"] > 100 * 10 / COUNT
    assert ("weights", 100) not in rows  # 100 are more than half of all


@pytest.mark.parametrize("family", EXACT)
def test_two_equal_versions_identify_deleted_samples_only_by_chance(family):
    for line in lines(family, run=lambda system, request, settings: system):
        assert line["precision"] == pytest.approx(line["chance"])


def test_precision_is_the_same_if_only_samples_near_the_deleted_ones_are_queried(monkeypatch):
    monkeypatch.setattr(two_versions, "DELETIONS", {1: 20, 10: 3})
    rows = lines("knn", depth=8)
    assert rows == lines("knn", depth=COUNT)  # everyone is asked
    assert {line["attacker"] for line in rows} == {"answers", "margins"}
    for line in rows:
        assert line["precision"] > 2 * line["chance"]


@pytest.mark.parametrize("family", ["spm", "munkey"])
def test_all_samples_are_queried_if_each_row_changes_all_predictions(family, params, monkeypatch):
    """SPM reads class means, and a head is computed from all rows: few samples have a deleted neighbor."""
    monkeypatch.setattr(two_versions, "DELETIONS", {1: 2})
    samples = image_set(24)
    keys = Keys(samples.ids, unit_rows(24, 4))
    section = {"head": "lda"} if family == "munkey" else {}
    sections = {"lda": {"alpha": 0.2, "temperature": 5.0}}
    family_recipe = recipe(params, family, train={"epochs": 1}, others=sections, **section)
    members = MemberKeys(keys.keys, others(keys, 4))
    training = Training(samples, 3, family_recipe, "cpu", quiet, members)
    system = FAMILIES[family].train(training).system
    data = Dataset(samples.images, samples.ids, samples.labels, np.full(24, "train"), list("abc"))
    asked = []
    predict_logits = type(FAMILIES[family]).predict_logits

    def predict(self, system, samples, *arguments):
        asked.append(len(samples))
        return predict_logits(self, system, samples, *arguments)

    monkeypatch.setattr(type(FAMILIES[family]), "predict_logits", predict)
    attacker = Attacker(data, keys, find_nearest(keys, keys, 4), keys, Stage("test"), "cpu")
    settings = {
        "data": DATA_SETTINGS.model_dump(),
        "inference": {"k": 2, "fusion": "ensemble", "temperature": 0.5},
        "method": {},
    }
    rows = list(attacker.make_rows(METHODS[family], system, settings))
    assert asked == [24, 24, 24]
    assert {row["attacker"] for row in rows} == {"answers", "margins"}


def test_all_methods_are_attacked_with_the_same_deletions():
    deletions = []

    def note(system, request, settings):
        deletions.append(request.forget_ids.tolist())
        return system

    lines("ncm", run=note)
    lines("knn", run=note)
    assert len(deletions) == 2 * (1 + 40 + 10)
    assert deletions[:51] == deletions[51:]


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ((5, 1, 4, 2, 3), 100),
        ((5, 4, 1, 2, 3), 50),
        ((1, 3, 2, 4, 5), 0),
        ((9, 3, 3, 3, 0), 50 + 50 / 3),  # one of three that tie takes the second place
        ((7, 7, 7, 7, 7), 40),  # a guess: 2 of 5
    ],
)
def test_ties_count_by_their_expectation(scores, expected):
    assert compute_precision(
        np.array(scores), np.array([True, False, True, False, False])
    ) == pytest.approx(expected)
