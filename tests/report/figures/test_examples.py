"""Examples of retrieval: chosen to show what deletion does, and told what became of their neighbors."""

import numpy as np
import pytest

from munkey.data.prepared import Dataset
from munkey.memory.neighbors import Neighbors
from munkey.report.figures.examples import Snapshot, choose_examples, compute_weights
from munkey.settings import InferenceSettings

SETTINGS = InferenceSettings(k=2, fusion="ensemble", temperature=0.5)
FORGOTTEN = np.array([12, 16])
#          train                 test
IDS = [10, 12, 14, 16, 18, 20, 30, 32]
LABELS = [0, 0, 1, 1, 0, 1, 0, 1]


def dataset():
    images = np.arange(len(IDS), dtype=np.uint8)[:, None, None, None] * np.ones(
        (1, 2, 2, 3), dtype=np.uint8
    )
    splits = np.array(["train"] * 6 + ["test"] * 2)
    return Dataset(images, np.array(IDS), np.array(LABELS), splits, ["cat", "dog"])


def deletion(changed=16):
    """12 and 16 are deleted. Of the test samples, 32 loses more weight. The answer of one sample changes."""
    near = np.array(
        [[10, 14], [12, 10], [14, 16], [16, 14], [18, 10], [20, 14], [10, 12], [16, 20]]
    )
    left = np.array(
        [[10, 14], [10, 18], [14, 20], [14, 20], [18, 10], [20, 14], [10, 14], [20, 14]]
    )
    cosines = np.tile(np.float32([1.0, 0.5]), (len(IDS), 1))
    deeper = np.full((len(IDS), 1), 14)  # a third neighbor, which K = 2 leaves out
    before = np.eye(2)[LABELS]
    after = before.copy()
    after[IDS.index(changed)] = 1 - after[IDS.index(changed)]
    wide = np.concatenate([cosines, np.full((len(IDS), 1), 0.1, dtype=np.float32)], axis=1)
    return (
        dataset(),
        FORGOTTEN,
        Snapshot(Neighbors(np.concatenate([near, deeper], axis=1), wide), before),
        Snapshot(Neighbors(np.concatenate([left, deeper], axis=1), wide), after),
        SETTINGS,
    )


def test_the_test_sample_lost_most_weight_and_the_forget_sample_changed_its_answer():
    test, forget = choose_examples(*deletion())
    assert (test.title, test.label) == ("test sample", "dog")
    assert test.image[0, 0, 0] == IDS.index(32)
    assert (forget.title, forget.label) == ("forget sample", "dog") and forget.image[
        0, 0, 0
    ] == IDS.index(16)
    assert (forget.before.predicted, forget.after.predicted) == ("dog", "cat")
    assert (test.before.predicted, test.after.predicted) == ("dog", "dog")


def test_where_no_answer_changed_the_first_forget_sample_is_shown():
    _, forget = choose_examples(*deletion(changed=10))
    assert forget.image[0, 0, 0] == IDS.index(12)


def test_neighbors_are_told_by_what_became_of_them():
    test, forget = choose_examples(*deletion())
    assert [neighbor.status for neighbor in test.before.neighbors] == ["forgotten", "correct"]
    assert [neighbor.status for neighbor in test.after.neighbors] == ["correct", "new"]
    assert [neighbor.label for neighbor in test.after.neighbors] == ["dog", "dog"]
    assert [neighbor.status for neighbor in forget.after.neighbors] == ["correct", "new"]
    _, other = choose_examples(*deletion(changed=12))
    assert [neighbor.status for neighbor in other.before.neighbors] == ["forgotten", "correct"]


def test_a_neighbor_of_another_class_is_told():
    shown = deletion()
    shown[2].neighbors.ids[IDS.index(32)] = [16, 10, 12]
    test, _ = choose_examples(*shown)
    assert [neighbor.status for neighbor in test.before.neighbors] == ["forgotten", "wrong class"]


def test_weights_are_those_that_the_model_uses():
    cosines = np.float32([[1.0, 0.5, 0.1]])
    soft = np.exp(cosines / 0.5) / np.exp(cosines / 0.5).sum()
    np.testing.assert_allclose(compute_weights(cosines, SETTINGS), soft, rtol=1e-6)
    ranked = SETTINGS.model_copy(update={"fusion": "rank"})
    inverse = np.array([1 / 2, 1 / 3, 1 / 4])
    np.testing.assert_allclose(
        compute_weights(cosines, ranked), [inverse / inverse.sum()], rtol=1e-6
    )
    test, _ = choose_examples(*deletion())
    expected = np.exp([2.0, 1.0]) / np.exp([2.0, 1.0]).sum()
    assert [neighbor.weight for neighbor in test.before.neighbors] == pytest.approx(
        expected.tolist()
    )
