"""The embedded digits are complete, as scikit-learn ships them, in fixed splits."""

import numpy as np
from sklearn.datasets import load_digits

from munkey.data.prepared import prepare
from munkey.data.registry import DATASETS
from tests.data.inputs import counts, settings


def test_the_digits_are_complete_in_fixed_splits_of_60_15_25_percent(tmp_path):
    digits = DATASETS["digits"].load(settings())
    again = DATASETS["digits"].load(settings())
    assert digits.images.shape == (1797, 8, 8, 3)
    assert counts(digits.splits) == [1078, 270, 449]
    np.testing.assert_array_equal(digits.splits, again.splits)
    prepare(digits, tmp_path)


def test_the_digits_keep_their_grays():
    digits = DATASETS["digits"].load(settings())
    original = load_digits()
    np.testing.assert_allclose(digits.images[..., 1] / 255, original.images / 16, atol=0.5 / 255)
    np.testing.assert_array_equal(digits.labels, original.target)
