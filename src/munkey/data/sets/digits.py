"""The built-in data set: scikit-learn's 1,797 scanned digits of 8x8 pixels (UCI, CC BY 4.0)."""

import numpy as np

from munkey.core.randomness import Stage
from munkey.data.registry import dataset
from munkey.data.source import Source
from munkey.settings import SourceSettings


@dataset(
    "digits",
    "1,797 scanned digits, 8x8 px, 10 classes; ships with scikit-learn; fixed split 60/15/25%",
)
def digits(settings: SourceSettings) -> Source:
    from sklearn.datasets import load_digits

    bunch = load_digits()
    gray = np.round(bunch.images * (255 / 16)).astype(np.uint8)  # the values are 0 to 16
    return Source(
        images=np.repeat(gray[..., None], 3, axis=-1),
        labels=bunch.target.astype(np.int64),
        splits=_draw_splits(len(gray)),
        classes=[str(name) for name in bunch.target_names],
    )


def _draw_splits(count: int) -> np.ndarray:
    """Split with a fixed random seed into 60% train, 15% val and 25% test: (count,) names."""
    order = Stage("digits", "split").numpy_generator().permutation(count)
    splits = np.empty(count, dtype="<U5")
    boundaries = np.rint([0.6 * count, 0.75 * count]).astype(int)
    groups = np.split(order, boundaries)
    for name, positions in zip(("train", "val", "test"), groups, strict=True):
        splits[positions] = name
    return splits
