"""Keys of pictures for a pipeline with an estimator that forgets, and readable pictures."""

import os
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, Self, cast, get_args

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin

from munkey.core.console import pluralize, progress, warn_user
from munkey.data.pictures import (
    IGNORED_FOLDERS,
    format_skipped_files_warning,
    is_picture_name,
    list_pictures,
)
from munkey.data.source import MAX_EXAMPLES, format_list
from munkey.deploy.errors import PictureError
from munkey.deploy.model.images import PictureLike, iterate_pictures, read_picture, read_pixels
from munkey.deploy.model.manifest import PictureSize
from munkey.deploy.model.model import build_encoder, choose_device
from munkey.encoders.keys import extract
from munkey.encoders.parts import split_parts
from munkey.encoders.registry import find
from munkey.estimators.names import to_python
from munkey.settings import EncoderSettings, OnBad

DEFAULT_SIDE = 96  # side in pixels of an encoder's input
PIXELS_AT_DEFAULT_SIDE = "pixels@16"
OWN_SIDE = 224  # side in pixels of most encoders' own preprocessing, if `image_size` is None
MIN_BATCHES_FOR_PROGRESS = 2
MIN_PICTURES_FOR_PROGRESS = 100

# Cached, so that an encoder is not loaded again for each call. Only one is kept in memory.
get_encoder = lru_cache(maxsize=1)(build_encoder)


class PictureKeys(TransformerMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Turn pictures into keys with a frozen encoder (docs/encoders.md).

    Use it in a pipeline, before an estimator that forgets.

    Parameters
    ----------
    encoder : str, default="efficientnet-lite0"
        Frozen network, or several with the sides of their inputs, such as
        "efficientnet-lite0@160+efficientnet-lite2@224".
    image_size : int, "auto" or None, default="auto"
        Side in pixels to which pictures are resized without cropping. "auto" is 96, but 16 for
        "pixels". None for the encoder's own size.
    revision : str or None, default=None
        Revision of the encoder, if it comes from the Hugging Face Hub.
    batch_size : int, default=64
        Number of pictures per batch.
    on_bad : {"raise", "skip"}, default="raise"
        What to do with unreadable pictures: raise an error that lists all of them, or warn and
        return keys of NaN for them.
    white : int, list of int or None, default=None
        Brightest value of 16-bit grayscale pictures, such as 4095 for 12 bits. None for 65535. For a
        mixed set, list several: each picture has the lowest that none of its values exceeds.
    mirror : bool, default=False
        Whether to average the key of each picture with the key of its mirror image, which doubles
        the time.

    Notes
    -----
    It does not learn anything, so it keeps no trace of a forgotten picture. It uses a GPU if there
    is one.

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
        image_size: int | Literal["auto"] | None = "auto",
        revision: str | None = None,
        batch_size: int = 64,
        on_bad: OnBad = "raise",
        white: int | list[int] | None = None,
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
        return True  # there is nothing to fit

    def fit(self, X: Sequence[PictureLike] | np.ndarray, y: object = None) -> Self:
        """Return the transformer unchanged, since it does not learn anything."""
        return self

    def transform(self, X: Sequence[PictureLike] | np.ndarray) -> np.ndarray:
        """Compute the keys of pictures.

        Parameters
        ----------
        X : sequence of str, Path or Image, or uint8 array of shape (n_pictures, height, width, 3)
            The pictures.

        Returns
        -------
        keys : ndarray of float32 of shape (n_pictures, n_features)
            One key of unit norm for each picture. With ``on_bad="skip"``, rows of pictures that
            cannot be read are NaN.

        Raises
        ------
        PictureError
            If pictures cannot be read, unless ``on_bad="skip"``. The message lists every such
            picture.
        MissingEncoderError
            If the encoder's weights are not on this machine.
        ValueError
            If a key is zero or not finite.
        """
        params = {name: to_python(value) for name, value in self.get_params().items()}
        if params["image_size"] == "auto":
            params |= choose_sides(params["encoder"])
        else:
            require_free_size(params["encoder"], image_size=params["image_size"])
        settings = EncoderSettings(**{name: params[name] for name in EncoderSettings.model_fields})
        device = choose_device("auto")
        side = find_largest_side(settings)
        pictures = list(iterate_inputs(X))
        picture_size = PictureSize(height=side, width=side, white=self.white)
        decoded_pictures = read_pixels(
            show_picture_progress(pictures), picture_size, require_on_bad(self.on_bad), many=True
        )
        encoder = get_encoder(settings, device)
        keys = extract(
            encoder, decoded_pictures.images, settings.batch_size, device, show_key_progress
        )
        # Skipped pictures get keys of NaN, so that the rows remain aligned with y.
        all_keys = np.full((len(pictures), keys.shape[1]), np.nan, dtype=keys.dtype)
        all_keys[decoded_pictures.places] = keys
        return all_keys


def readable_pictures(
    files: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
) -> list[Path]:
    """Return the pictures that can be read, sorted by path.

    Parameters
    ----------
    files : path, or iterable of paths
        A folder, which is searched recursively, or files.

    Returns
    -------
    list of Path
        The paths of readable pictures.

    Raises
    ------
    NotADirectoryError
        If `files` is a single path that is not a folder.

    Warns
    -----
    UserWarning
        If some files are not pictures (such as PDFs, videos or thumbnails from a NAS), or if some
        pictures cannot be read. The message counts the unreadable pictures and lists the first with
        the reasons.

    Notes
    -----
    Each picture is decoded once, so that cross-validation does not fail halfway because of an
    unreadable picture.

    Examples
    --------
    >>> from munkey import readable_pictures
    >>> readable_pictures([])
    []
    """
    other_files: list[Path] = []
    if isinstance(files, str | os.PathLike):
        folder = Path(files)
        if not folder.is_dir():
            raise NotADirectoryError(f"{folder}: there is no such folder")
        names, other_files = list_pictures(folder)
        paths = sorted(map(Path, names))
    else:
        paths = []
        for path in sorted(Path(file) for file in files):
            if path.is_dir():
                names, skipped_files = list_pictures(path)
                paths += sorted(map(Path, names))
                other_files += skipped_files
                continue
            is_skipped = path.name.startswith("._") or not IGNORED_FOLDERS.isdisjoint(path.parts)
            if is_picture_name(path.name) and not is_skipped:
                paths.append(path)
            else:
                other_files.append(path)
    pictures: list[Path] = []
    faults: list[str] = []
    for path in progress(paths, "checking pictures", "files"):
        try:
            read_picture(path)
        except PictureError as error:
            faults.append(str(error))
        else:
            pictures.append(path)
    if other_files:
        warn_user(format_skipped_files_warning(other_files))
    if faults:
        lines = [f"left out {pluralize(len(faults), 'picture')} that cannot be read:"]
        warn_user("\n".join([*lines, *format_list(faults, MAX_EXAMPLES)]))
    return pictures


def choose_sides(encoder: str) -> dict[str, Any]:
    """Return the settings `encoder` and `image_size` with the default sides of encoders' inputs.

    A key of the encoder `pixels` has three numbers for each pixel, so its default side is small. An
    encoder with a size of its own has no side.
    """
    parts = [PIXELS_AT_DEFAULT_SIDE if part == "pixels" else part for part in encoder.split("+")]
    side = None if has_own_size(encoder) else DEFAULT_SIDE
    return {"encoder": "+".join(parts), "image_size": side}


def require_free_size(encoder: str, **side: int | None) -> None:
    """Raise ValueError if a side is given by this argument, but the encoder has a size of its own."""
    ((argument, value),) = side.items()
    if value is not None and has_own_size(encoder):
        raise ValueError(
            f"{argument} = {value}: the preprocessing of {encoder} fixes the size; leave out {argument}"
        )


def has_own_size(encoder: str) -> bool:
    """Return whether this is a single encoder whose preprocessing fixes the size of its input."""
    try:
        return find(encoder).size == "own"
    except KeyError:  # several encoders, or an unknown name, which is refused later
        return False


def find_largest_side(settings: EncoderSettings) -> int:
    """Return the largest side of the encoders' inputs, so that none of them has to enlarge pictures."""
    return max(part.image_size or OWN_SIDE for part in split_parts(settings))


def show_key_progress(starts: Sequence[int]) -> Iterable[int]:
    """Return `starts`, the first index of each batch. Iterating prints progress if there are several."""
    if len(starts) < MIN_BATCHES_FOR_PROGRESS:
        return starts
    return progress(starts, "keys", "batches")


def show_picture_progress(pictures: Sequence[PictureLike]) -> Iterable[PictureLike]:
    """Return the pictures. Iterating prints progress if there are many."""
    if len(pictures) < MIN_PICTURES_FOR_PROGRESS:
        return pictures
    return progress(pictures, "pictures", "pictures")


def require_on_bad(on_bad: str) -> OnBad:
    """Return `on_bad` unchanged. Raises ValueError if it is neither "raise" nor "skip"."""
    if on_bad not in get_args(OnBad):
        raise ValueError(f"on_bad must be one of {', '.join(get_args(OnBad))}, not {on_bad!r}")
    return cast(OnBad, on_bad)


def prepare_pictures(X: Any) -> Any:
    """Convert a one-dimensional array of files to a list. Returns anything else unchanged."""
    if isinstance(X, np.ndarray) and X.ndim == 1:
        return X.tolist()
    return X


def iterate_inputs(X: Any) -> Iterable[PictureLike]:
    """Iterate over the pictures in X."""
    return iterate_pictures(prepare_pictures(X))
