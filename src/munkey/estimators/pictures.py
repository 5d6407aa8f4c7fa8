"""Pictures as keys, in a pipeline before an estimator that forgets."""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, Self, cast, get_args

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin

from munkey.core.console import progress
from munkey.deploy.model.images import One, each, pixels
from munkey.deploy.model.manifest import PictureSize
from munkey.deploy.model.model import built, device_for
from munkey.encoders.keys import extract
from munkey.settings import EncoderSettings, OnBad

OWN = 224  # pixels: the side that published preprocessing starts from, where `image_size` is None
MANY_BATCHES = 2  # from which on progress is shown
MANY_PICTURES = 100

encoder_of = lru_cache(maxsize=1)(built)


class PictureKeys(TransformerMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Keys (N, d) float32 of pictures by a frozen encoder (docs/encoders.md). It learns nothing, so nothing is left.

    The settings are those of `keys` in params.yaml. Pictures: files, pictures of Pillow, arrays (H, W, 3) uint8; they
    are resized to a square without cropping. Where there is a GPU, it is used. on_bad: "raise" names all pictures that
    cannot be read; "skip" warns of them, and their keys are NaN, so that rows stay those of `X`. white: the brightest
    value of gray of 16 bits, 4095 where 12 are used; None: 65535.
    """

    def __init__(
        self,
        encoder: str = "efficientnet-lite0",
        image_size: int | None = 96,
        revision: str | None = None,
        batch_size: int = 64,
        on_bad: OnBad = "raise",
        white: int | None = None,
    ) -> None:
        self.encoder = encoder
        self.image_size = image_size
        self.revision = revision
        self.batch_size = batch_size
        self.on_bad = on_bad
        self.white = white

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def fit(self, X: Sequence[One] | np.ndarray, y: object = None) -> Self:
        return self

    def transform(self, X: Sequence[One] | np.ndarray) -> np.ndarray:
        """Raises PictureError that names what is no picture, MissingEncoderError, ValueError for an unusable key."""
        params = self.get_params()
        settings = EncoderSettings(**{name: params[name] for name in EncoderSettings.model_fields})
        device = device_for("auto")
        side = settings.image_size or OWN
        given = list(read_in(X))
        stored = PictureSize(height=side, width=side, white=self.white)
        read = pixels(progressing(given), stored, require_on_bad(self.on_bad), many=True)
        keys = extract(encoder_of(settings, device), read.images, settings.batch_size, device, shown)
        rows = np.full((len(given), keys.shape[1]), np.nan, dtype=keys.dtype)
        rows[read.taken] = keys
        return rows


def shown(starts: Sequence[int]) -> Iterable[int]:
    """Batches, with progress where there are several."""
    return progress(starts, "keys", "batches") if len(starts) >= MANY_BATCHES else starts


def progressing(pictures: Sequence[One]) -> Iterable[One]:
    """Pictures, with progress while they are read where there are many."""
    return progress(pictures, "pictures", "pictures") if len(pictures) >= MANY_PICTURES else pictures


def require_on_bad(on_bad: str) -> OnBad:
    """Raises ValueError for what is none of the ways to treat pictures that cannot be read."""
    if on_bad not in get_args(OnBad):
        raise ValueError(f"on_bad is {on_bad!r}; it must be one of {', '.join(get_args(OnBad))}")
    return cast(OnBad, on_bad)


def pictures_in(X: Any) -> Any:
    """Pictures as `pixels` takes them: an array of files as a list."""
    return X.tolist() if isinstance(X, np.ndarray) and X.ndim == 1 else X


def read_in(X: Any) -> Iterable[One]:
    """The pictures of X, one by one."""
    return each(pictures_in(X))
