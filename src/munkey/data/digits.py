"""The embedded data set: 1,797 scanned digits of 8x8 pixels that scikit-learn ships (UCI, CC BY 4.0)."""

from typing import TYPE_CHECKING

import numpy as np

from munkey.data import Source, dataset
from munkey.randomness import numpy_generator

if TYPE_CHECKING:
    from munkey.params import SourceParams


@dataset("digits", "1,797 scanned digits, 8x8 px, 10 classes; ships with scikit-learn; fixed split 60/15/25 %")
def digits(source: "SourceParams") -> Source:
    from sklearn.datasets import load_digits

    bunch = load_digits()
    grey = np.round(bunch.images * (255 / 16)).astype(np.uint8)
    order = numpy_generator("digits", "split").permutation(len(grey))
    splits = np.empty(len(grey), dtype="<U5")
    ends = np.rint([0.6 * len(grey), 0.75 * len(grey)]).astype(int)
    for name, part in zip(("train", "val", "test"), np.split(order, ends), strict=True):
        splits[part] = name
    return Source(
        images=np.repeat(grey[..., None], 3, axis=-1),
        labels=bunch.target.astype(np.int64),
        splits=splits,
        classes=[str(name) for name in bunch.target_names],
    )
