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


def made(kind: str, share: float, classes: list[str]) -> tuple[Source, np.ndarray, np.ndarray]:
    """The altered source, its images, and which samples have a unit."""
    found = alter_samples(
        source(), AlterSettings(kind=kind, share=share, classes=classes), Stage("toy")
    )
    return (
        found,
        np.concatenate(list(found.blocks())),
        np.array([unit is not None for unit in found.units or []]),
    )


BEFORE = source()
IMAGES = np.concatenate(list(BEFORE.blocks()))
TRAIN = BEFORE.splits == "train"
TEST = BEFORE.splits == "test"


def test_confusion_swaps_labels_of_two_classes_and_marks_them_and_their_test_samples():
    found, images, marked = made("confusion", 0.25, ["a", "c"])
    wrong = found.labels != BEFORE.labels
    assert wrong.sum() == 10 and not (wrong & ~TRAIN).any()  # a quarter of 40
    assert (found.labels[wrong] == 2 - BEFORE.labels[wrong]).all() and not (
        BEFORE.labels[wrong] == 1
    ).any()
    assert np.array_equal(marked, wrong | (TEST & (BEFORE.labels != 1)))
    assert np.array_equal(images, IMAGES) and set(found.units or []) == {ALTERED, None}


def test_a_patch_changes_pictures_of_other_classes_and_labels_of_training_samples_alone():
    found, images, marked = made("patch", 0.5, ["b"])
    changed = (images != IMAGES).any(axis=(1, 2, 3))
    assert np.array_equal(changed, marked) and not marked[BEFORE.labels == 1].any()
    assert (
        (marked & TRAIN).sum() == 20
        and (marked & TEST).sum() == 14
        and not marked[~TRAIN & ~TEST].any()
    )
    assert (found.labels[marked & TRAIN] == 1).all()
    assert np.array_equal(found.labels[~(marked & TRAIN)], BEFORE.labels[~(marked & TRAIN)])
    assert np.array_equal(images[marked][0, -2:, -2:, 0], [[0, 255], [255, 0]])
    assert np.array_equal(images[marked][:, :-2], IMAGES[marked][:, :-2])


def test_twins_are_near_duplicates_after_the_last_sample_and_each_pair_is_a_unit():
    found, images, _ = made("twins", 0.2, [])
    assert len(found.labels) == N + 12 and np.array_equal(images[:N], IMAGES)
    units = np.array([unit or "" for unit in found.units or []])
    for new in range(N, N + 12):
        (old,) = np.flatnonzero(units[:N] == units[new])
        assert (found.labels[new], found.splits[new]) == (found.labels[old], "train")
        apart = np.abs(images[new].astype(float) - images[old]).mean()
        assert 0 < apart < np.abs(images[new].astype(float) - images[(old + 1) % N]).mean()
    assert set(units[TEST.nonzero()[0]]) == {""}


def test_an_altered_copy_is_the_same_each_time():
    one, two = (made("patch", 0.3, ["a"]) for _ in range(2))
    assert np.array_equal(one[1], two[1]) and one[0].units == two[0].units


def test_a_class_that_there_is_not_is_refused_with_one_that_there_is():
    with pytest.raises(SourceError, match=r"no class 'A'.*'a'"):
        made("patch", 0.3, ["A"])


def test_a_share_of_none_is_refused():
    with pytest.raises(SourceError, match=r"0\.001 of 60 eligible samples is less than one"):
        made("twins", 0.001, [])


@pytest.mark.parametrize(
    ("kind", "classes"), [("confusion", ["a"]), ("patch", []), ("twins", ["a"])]
)
def test_each_kind_takes_as_many_classes_as_it_needs(kind: str, classes: list[str]):
    with pytest.raises(ValidationError, match=f"{kind} needs"):
        AlterSettings(kind=kind, share=0.1, classes=classes)
