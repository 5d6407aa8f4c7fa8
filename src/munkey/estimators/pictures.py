"""Pictures as keys, in a pipeline before an estimator that forgets."""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin

from munkey.core.console import progress
from munkey.deploy.model.images import One, pixels
from munkey.deploy.model.manifest import PictureSize
from munkey.deploy.model.model import built, device_for
from munkey.encoders.keys import extract
from munkey.settings import EncoderSettings

OWN = 224  # pixels: the side that published preprocessing starts from, where `image_size` is None
MANY = 16  # batches

encoder_of = lru_cache(maxsize=1)(built)


class PictureKeys(TransformerMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Keys (N, d) float32 of pictures by a frozen encoder (docs/encoders.md). It learns nothing, so nothing is left.

    The settings are those of `keys` in params.yaml. Pictures: files, pictures of Pillow, arrays (H, W, 3) uint8; they
    are resized to a square without cropping. Where there is a GPU, it is used.
    """

    def __init__(
        self,
        encoder: str = "efficientnet-lite0",
        image_size: int | None = 96,
        revision: str | None = None,
        batch_size: int = 64,
    ) -> None:
        self.encoder = encoder
        self.image_size = image_size
        self.revision = revision
        self.batch_size = batch_size

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def fit(self, X: Sequence[One] | np.ndarray, y: object = None) -> Self:
        return self

    def transform(self, X: Sequence[One] | np.ndarray) -> np.ndarray:
        """Raises PictureError that names what is no picture, MissingEncoderError, ValueError for an unusable key."""
        settings, device = EncoderSettings(**self.get_params()), device_for("auto")
        side = settings.image_size or OWN
        images = pixels(pictures_in(X), PictureSize(height=side, width=side)).images
        return extract(encoder_of(settings, device), images, settings.batch_size, device, shown)


def shown(starts: Sequence[int]) -> Iterable[int]:
    """Batches, with progress where there are many."""
    return progress(starts, "keys", "batches") if len(starts) >= MANY else starts


def pictures_in(X: Any) -> Any:
    """Pictures as `pixels` takes them: an array of files as a list."""
    return X.tolist() if isinstance(X, np.ndarray) and X.ndim == 1 else X
