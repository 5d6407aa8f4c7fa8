"""Pictures as keys, in a pipeline before an estimator that forgets."""

import os
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Self, cast, get_args

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin

from munkey.core.console import counted, progress, warn_user
from munkey.data.pictures import BESIDE, is_picture_name, left_out
from munkey.deploy.errors import PictureError
from munkey.deploy.model.images import One, each, pixels, read_picture
from munkey.deploy.model.manifest import PictureSize
from munkey.deploy.model.model import build_encoder, device_for
from munkey.encoders.keys import extract
from munkey.encoders.parts import parts_of
from munkey.settings import EncoderSettings, OnBad

OWN = 224  # pixels: the side that published preprocessing starts from, where `image_size` is None
MANY_BATCHES = 2  # from which on progress is shown
MANY_PICTURES = 100

encoder_of = lru_cache(maxsize=1)(build_encoder)


class PictureKeys(TransformerMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Keys of pictures by a frozen encoder (docs/encoders.md), for a pipeline before an estimator that forgets.

    Parameters
    ----------
    encoder : str, default="efficientnet-lite0"
        The frozen network, or several: `efficientnet-lite0@160+efficientnet-lite2@224`, each with
        the side of its input.
    image_size : int or None, default=96
        The side in pixels to which pictures are resized, without cropping; None: the encoder's own.
    revision : str or None, default=None
        Of the encoder, where it is a model of a hub.
    batch_size : int, default=64
        Pictures at once.
    on_bad : {"raise", "skip"}, default="raise"
        "raise" names all pictures that cannot be read; "skip" warns of them, and their keys are NaN.
    white : int or None, default=None
        The brightest value of gray of 16 bits, 4095 where 12 are used; None: 65535.
    mirror : bool, default=False
        Whether a key is averaged with that of the mirrored picture. It takes twice the time.

    Notes
    -----
    It learns nothing, so nothing of a forgotten picture is left in it. Where there is a GPU, it is used.

    Examples
    --------
    >>> import numpy as np
    >>> from munkey import PictureKeys
    >>> keys = PictureKeys(image_size=32).transform(np.zeros((2, 32, 32, 3), dtype=np.uint8))
    >>> keys.shape, keys.dtype.name
    ((2, 1280), 'float32')
    """

    def __init__(  # noqa: PLR0913 -- the parameters of an estimator are its arguments
        self,
        encoder: str = "efficientnet-lite0",
        image_size: int | None = 96,
        revision: str | None = None,
        batch_size: int = 64,
        on_bad: OnBad = "raise",
        white: int | None = None,
        mirror: bool = False,
    ) -> None:
        self.encoder = encoder
        self.image_size = image_size
        self.revision = revision
        self.batch_size = batch_size
        self.on_bad = on_bad
        self.white = white
        self.mirror = mirror

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def fit(self, X: Sequence[One] | np.ndarray, y: object = None) -> Self:
        """Do nothing: there is nothing to learn."""
        return self

    def transform(self, X: Sequence[One] | np.ndarray) -> np.ndarray:
        """The keys of pictures.

        Parameters
        ----------
        X : sequence of str, Path or Image, or uint8 array of shape (n_pictures, height, width, 3)
            Pictures.

        Returns
        -------
        keys : ndarray of float32 of shape (n_pictures, n_features)
            At unit norm.

        Raises
        ------
        PictureError
            If something is no picture; it is named.
        MissingEncoderError
            If the encoder is not here.
        ValueError
            If a key is zero or not finite.
        """
        params = self.get_params()
        settings = EncoderSettings(**{name: params[name] for name in EncoderSettings.model_fields})
        device = device_for("auto")
        side = largest_side(settings)
        given = list(read_in(X))
        stored = PictureSize(height=side, width=side, white=self.white)
        read = pixels(progressing(given), stored, require_on_bad(self.on_bad), many=True)
        keys = extract(
            encoder_of(settings, device), read.images, settings.batch_size, device, shown
        )
        rows = np.full((len(given), keys.shape[1]), np.nan, dtype=keys.dtype)
        rows[read.taken] = keys
        return rows


def readable_pictures(
    files: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
) -> list[Path]:
    """The pictures that can be read, in path order.

    Parameters
    ----------
    files : path, or iterable of paths
        A folder, in which pictures may lie anywhere; or files.

    Returns
    -------
    list of Path
        Those that can be read. One warning counts what is no picture (PDF, video, thumbnails of a
        NAS), another names the pictures that cannot be read, each with the reason.

    Raises
    ------
    NotADirectoryError
        If a folder is not there.

    Notes
    -----
    Each picture is decoded once, so that cross-validation meets no bad one in the middle.

    Examples
    --------
    >>> from munkey import readable_pictures
    >>> readable_pictures([])
    []
    """
    if isinstance(files, str | os.PathLike):
        folder = Path(files)
        if not folder.is_dir():
            raise NotADirectoryError(f"{folder}: there is no such folder")
        paths = sorted(folder.rglob("*"))
    else:
        paths = sorted(Path(file) for file in files)
    pictures: list[Path] = []
    others: list[Path] = []
    faults: list[str] = []
    for path in progress(paths, "pictures looked at", "files"):
        if path.is_dir():
            continue
        if not is_picture_name(path.name) or any(name in BESIDE for name in path.parts):
            others.append(path)
            continue
        try:
            read_picture(path)
        except PictureError as error:
            faults.append(str(error))
        else:
            pictures.append(path)
    if others:
        warn_user(left_out(others))
    if faults:
        listed = "\n".join(f"  - {fault}" for fault in faults)
        warn_user(f"left out {counted(len(faults), 'picture')} that cannot be read:\n{listed}")
    return pictures


def largest_side(settings: EncoderSettings) -> int:
    """The side at which pictures are read, so that no encoder gets fewer pixels than it takes."""
    return max(part.image_size or OWN for part in parts_of(settings))


def shown(starts: Sequence[int]) -> Iterable[int]:
    """Batches, with progress where there are several."""
    return progress(starts, "keys", "batches") if len(starts) >= MANY_BATCHES else starts


def progressing(pictures: Sequence[One]) -> Iterable[One]:
    """Pictures, with progress while they are read where there are many."""
    return (
        progress(pictures, "pictures", "pictures") if len(pictures) >= MANY_PICTURES else pictures
    )


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
