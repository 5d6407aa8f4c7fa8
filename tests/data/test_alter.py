"""Altered copies of a data set: what is changed, what is not, and that its units say which is which."""

import numpy as np
import pytest
from pydantic import ValidationError

from munkey.core.randomness import Stage
from munkey.data.source import Source, SourceError
from munkey.data.source_settings import ALTERED, alter_samples
from munkey.settings import AlterSettings

N = 120  # 60 of train, 20 of val, 40 of test; classes a, b, c in turn


def source() -> Source:
    images = np.random.default_rng(0).integers(0, 200, (N, 8, 8, 3), dtype=np.uint8)
    splits = np.repeat(["train", "val", "test"], [60, 20, 40])
    return Source(iter([images[:50], images[50:]]), np.arange(N) % 3, splits, ["a", "b", "c"])


def alter(kind: str, share: float, classes: list[str]) -> tuple[Source, np.ndarray, np.ndarray]:
    """The altered source, its images, and which samples have a unit."""
    altered = alter_samples(
        source(), AlterSettings(kind=kind, share=share, classes=classes), Stage("toy")
    )
    images = np.concatenate(list(altered.blocks()))
    return altered, images, np.array([unit is not None for unit in altered.units or []])


BEFORE = source()
IMAGES = np.concatenate(list(BEFORE.blocks()))
TRAIN = BEFORE.splits == "train"
TEST = BEFORE.splits == "test"


def test_confusion_swaps_labels_of_two_classes_and_marks_them_and_their_test_samples():
    altered, images, marked = alter("confusion", 0.25, ["a", "c"])
    wrong = altered.labels != BEFORE.labels
    # a quarter of 40
    assert wrong.sum() == 10
    assert not (wrong & ~TRAIN).any()
    assert (altered.labels[wrong] == 2 - BEFORE.labels[wrong]).all()
    assert not (BEFORE.labels[wrong] == 1).any()
    assert np.array_equal(marked, wrong | (TEST & (BEFORE.labels != 1)))
    assert np.array_equal(images, IMAGES)
    assert set(altered.units or []) == {ALTERED, None}


def test_a_patch_changes_pictures_of_other_classes_and_labels_of_training_samples_alone():
    altered, images, marked = alter("patch", 0.5, ["b"])
    changed = (images != IMAGES).any(axis=(1, 2, 3))
    assert np.array_equal(changed, marked)
    assert not marked[BEFORE.labels == 1].any()
    assert (marked & TRAIN).sum() == 20
    assert (marked & TEST).sum() == 14
    assert not marked[~TRAIN & ~TEST].any()
    assert (altered.labels[marked & TRAIN] == 1).all()
    assert np.array_equal(altered.labels[~(marked & TRAIN)], BEFORE.labels[~(marked & TRAIN)])
    assert np.array_equal(images[marked][0, -2:, -2:, 0], [[0, 255], [255, 0]])
    assert np.array_equal(images[marked][:, :-2], IMAGES[marked][:, :-2])


def test_twins_are_near_duplicates_after_the_last_sample_and_each_pair_is_a_unit():
    altered, images, _ = alter("twins", 0.2, [])
    assert len(altered.labels) == N + 12
    assert np.array_equal(images[:N], IMAGES)
    units = np.array([unit or "" for unit in altered.units or []])
    for new in range(N, N + 12):
        (old,) = np.flatnonzero(units[:N] == units[new])
        assert (altered.labels[new], altered.splits[new]) == (altered.labels[old], "train")
        apart = np.abs(images[new].astype(float) - images[old]).mean()
        assert 0 < apart < np.abs(images[new].astype(float) - images[(old + 1) % N]).mean()
    assert set(units[TEST.nonzero()[0]]) == {""}


def test_an_altered_copy_is_the_same_each_time():
    first, first_images, _ = alter("patch", 0.3, ["a"])
    second, second_images, _ = alter("patch", 0.3, ["a"])
    assert np.array_equal(first_images, second_images)
    assert first.units == second.units


def test_an_unknown_class_is_refused_with_the_most_similar_one():
    with pytest.raises(SourceError, match=r"no class 'A'.*'a'"):
        alter("patch", 0.3, ["A"])


def test_a_share_of_less_than_one_sample_is_refused():
    with pytest.raises(SourceError, match=r"0\.001 of 60 "):
        alter("twins", 0.001, [])


@pytest.mark.parametrize(
    ("kind", "classes"), [("confusion", ["a"]), ("patch", []), ("twins", ["a"])]
)
def test_each_kind_refuses_another_number_of_classes(kind: str, classes: list[str]):
    with pytest.raises(ValidationError, match=f"{kind} needs"):
        AlterSettings(kind=kind, share=0.1, classes=classes)
