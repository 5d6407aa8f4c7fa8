"""Pictures of your own in scikit-learn's way, without a workflow: MUNKEY, or a family that deletes exactly."""

import atexit
import os
import subprocess
import sys
import tempfile
from contextlib import nullcontext
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

from munkey.data.image_set import ImageSet
from munkey.data.prepared import Dataset
from munkey.deploy.errors import UnreadableModelError
from munkey.deploy.model.export import write
from munkey.deploy.model.images import content_digests, pixels
from munkey.deploy.model.manifest import EXPORTED, EstimatorReference, PictureSize, read_manifest
from munkey.deploy.model.model import device_for
from munkey.deploy.model.trained_system import OwnSystem
from munkey.deploy.predictor import Device
from munkey.deploy.store import disk
from munkey.deploy.store.rows import checked_texts
from munkey.encoders.keys import Keys, extract
from munkey.estimators.classifier import plain, warn_of_copies, warn_of_earlier, warn_of_large_units
from munkey.estimators.handle import Handle
from munkey.estimators.names import ids_of_rows, read_request, unit_names_of
from munkey.estimators.pictures import (
    encoder_of,
    largest_side,
    pictures_in,
    progressing,
    read_in,
    require_on_bad,
    shown,
)
from munkey.estimators.receipts import Forgotten, delete, meant, named_by_file, rows_of, told
from munkey.estimators.rows import dtype_of
from munkey.memory.neighbors import nearest, without_self
from munkey.models.family import FAMILIES, FittedFamily, MemberKeys, Training
from munkey.settings import DataSettings, EncoderSettings, OnBad

# fmt: off
# Where each parameter stands in params.yaml; then the rest, as it stands there, but for the temperature of heads in
# closed form: that of params.yaml was chosen on this project's data sets.
PLACES = {
    "encoder": "keys.encoder", "mirror": "keys.mirror", "key_size": "keys.image_size",
    "image_size": "data.image_size", "width": "model.width",
    "depth": "model.depth", "epochs": "train.epochs", "batch_size": "train.batch_size", "lr": "train.lr",
    "p_image": "munkey.p_image", "p_token": "munkey.p_token", "head": "munkey.head", "k": "inference.k",
    "alpha": "lda.alpha", "on_bad": "source.on_bad", "white": "source.white",
}
FIXED: dict[str, dict[str, Any]] = {
    "data": {"pixel_mean": 0.5, "pixel_std": 0.5},
    "keys": {"revision": None, "batch_size": 64, "depth": 33, "mirror": False},
    "model": {"patch_size": 4, "heads": 4, "mlp_ratio": 4.0},
    "train": {"warmup_epochs": 0, "betas": [0.9, 0.99], "weight_decay": 0.05, "crop_scale": [0.8, 1.0],
              "crop_ratio": [0.75, 4 / 3], "precision": "auto", "compile": False},
    "munkey": {"architecture": "input-level", "token_dim": 128, "token_std": 0.02, "p_drop": "fixed", "p_retrieve": 0.2,
               "neighbors": [2, 16], "aggregation": "softmax", "temperature": 0.07},
    "inference": {"fusion": "ensemble", "temperature": 0.07},
    "lda": {"temperature": "auto"},
    "ncm": {"temperature": "auto"},
    "ranpac": {"features": 2000, "seed": 0, "lam": "auto", "temperature": "auto"},
    "krr": {"lam": 0.03, "temperature": "auto", "pixels": 0, "sigma": 0.4, "share": 0.5},
    "knn": {"k": 16, "vote": "similarity", "temperature": 0.02},
    "source": {"reader": None, "path": None, "storage_size": None, "split": [0.6, 0.15, 0.25], "limit_per_class": None,
               "classes": None, "only": None, "units": None, "alter": None},
}
# fmt: on


WATCH = "import shutil, sys; sys.stdin.read(); shutil.rmtree(sys.argv[1], ignore_errors=True)"


@cache
def watched_folder(process: int) -> str:
    """A temporary folder, the user's alone, for what this process fits. It is gone when the process is, even if killed.

    A second process removes it: it waits for the end of a pipe that the kernel closes. process: this one.
    """
    folder = tempfile.mkdtemp(prefix="munkey-")
    command = [sys.executable, "-I", "-c", WATCH, folder]
    # Ctrl-C is not for it
    watching = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
    atexit.register(watching.communicate)
    return folder


@dataclass(eq=False, repr=False)
class MunkeyClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """A classifier of pictures that forgets them (docs/serving.md).

    Pictures are files, pictures of Pillow, or arrays (N, H, W, 3) of uint8.

    Parameters
    ----------
    family : {"munkey", "lda", "ncm", "knn", "ranpac", "krr"}, default="munkey"
        "munkey" trains a transformer with a memory; the others delete exactly.
    encoder : str, default="efficientnet-lite0"
        The frozen network that makes a picture's key (docs/encoders.md).
    key_size : int or None, default=96
        The side in pixels at which it reads a picture; None: its own.
    image_size : int, default=32
        The side at which MUNKEY's transformer reads a picture, a multiple of 4.
    width, depth : int, default=64 and 4
        Of the transformer.
    epochs, batch_size, lr : int, int, float, default=40, 64 and 0.001
        Of its training.
    p_image, p_token : float, default=0.3
        How often training drops the picture, or the tokens.
    head : {"none", "lda"}, default="none"
        Whether the logits of LDA on the keys are added.
    k : int, default=4
        Neighbors that MUNKEY asks.
    alpha : float or "auto", default=0.2
        Share of LDA's covariance that is taken to be alike in all directions; "auto" as for
        `ForgettingLDA`, where `family` is "lda".
    seed : int, default=0
        Of the training.
    device : {"auto", "cpu", "cuda"}, default="auto"
        Where it computes.
    verbose : bool, default=True
        Report each epoch.
    on_bad : {"raise", "skip"}, default="raise"
        "skip" leaves out pictures that cannot be read, with their classes, and warns of all.
    white : int or None, default=None
        The brightest value of gray of 16 bits, 4095 where 12 are used; None: 65535.
    mirror : bool, default=False
        Whether a key is averaged with that of the mirrored picture. It takes twice the time.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes that it can answer, ascending.
    ids_ : ndarray of int64 of shape (n_pictures,)
        The ids of the pictures that it holds, ascending.
    directory_ : Path
        Where it lies.

    Notes
    -----
    The parameters are knobs of params.yaml. A fitted one is a deployed directory, a temporary one until
    `save`, so it cannot be pickled. LDA and NCM choose their temperature as `ForgettingLDA` does.

    Examples
    --------
    >>> import numpy as np
    >>> from munkey import MunkeyClassifier
    >>> pictures = np.random.default_rng(0).integers(0, 100, (6, 32, 32, 3), dtype=np.uint8)
    >>> pictures[3:] += 150  # brighter ones
    >>> model = MunkeyClassifier(family="ncm", key_size=32, device="cpu")
    >>> _ = model.fit(pictures, ["night"] * 3 + ["day"] * 3, units=["Anna", "Ben", "Ben", "Anna", "Ben", "Ben"])
    >>> model.predict(pictures[[0, 5]]).tolist()
    ['night', 'day']
    >>> model.forget(units="Anna").tolist()
    [0, 3]
    """

    family: str = "munkey"
    encoder: str = "efficientnet-lite0"
    key_size: int | None = 96
    image_size: int = 32
    width: int = 64
    depth: int = 4
    epochs: int = 40
    batch_size: int = 64
    lr: float = 1e-3
    p_image: float = 0.3
    p_token: float = 0.3
    head: str = "none"
    k: int = 4
    alpha: float = 0.2
    seed: int = 0
    device: Device = "auto"
    verbose: bool = True
    on_bad: OnBad = "raise"
    white: int | None = None
    mirror: bool = False
    _handle: Handle = field(init=False)

    def fit(
        self,
        X: Any,
        y: ArrayLike,
        *,
        ids: Any = None,
        units: Any = None,
        save_to: str | Path | None = None,
    ) -> Self:
        """Train on pictures and their classes.

        Parameters
        ----------
        X : sequence of str, Path or Image, or uint8 array of shape (n_pictures, height, width, 3)
            The pictures.
        y : array-like of shape (n_pictures,)
            The class of each.
        ids, units, save_to
            As for `ForgettingLDA.fit`.

        Returns
        -------
        self : MunkeyClassifier
            The fitted estimator.

        Raises
        ------
        PictureError
            If something is no picture; it is named.
        FileExistsError
            If `save_to` holds anything. No picture is read then.
        ValueError
            If a parameter makes no sense, or classes and ids do not fit the pictures.
        """
        if save_to is not None:
            disk.require_new(Path(save_to))
        sections, labels = deepcopy(FIXED), column_or_1d(y)
        params = {name: plain(value) for name, value in self.get_params().items()}
        for name, place in PLACES.items():
            sections[place.partition(".")[0]][place.partition(".")[2]] = params[name]
        if self.family not in EXPORTED:
            raise ValueError(f"family is {self.family!r}; it must be one of {', '.join(EXPORTED)}")
        kind = FAMILIES[self.family]
        fitted = kind.section(sections) if isinstance(kind, FittedFamily) else None
        recipe = (
            None if fitted else kind.recipe(sections, kind.stage(params["seed"], "own", "full"))
        )
        check_classification_targets(labels)
        settings = EncoderSettings(
            **{name: sections["keys"][name] for name in EncoderSettings.model_fields}
        )
        side = max(largest_side(settings), DataSettings(**sections["data"]).image_size)
        device = device_for(self.device)
        pictures = list(read_in(X))
        count = len(pictures)
        numbers = ids_of_rows(ids, {"X": X, "y": y, "units": units}, count, 0, stacklevel=2)
        if not len(labels) == len(numbers) == len(np.unique(numbers)) == count:
            raise ValueError(f"{count} pictures need a class each, and different ids")
        names = checked_texts("unit", unit_names_of(units), count)
        stored = PictureSize(height=side, width=side, white=self.white)
        given = pixels(progressing(pictures), stored, require_on_bad(self.on_bad), many=True)
        taken = given.taken
        numbers = numbers[taken]
        labels = labels[taken]
        names = [names[row] for row in taken]
        count = len(taken)
        warn_of_copies(content_digests(given.images, b""), labels, names, numbers)
        warn_of_large_units(names)

        order = np.argsort(numbers)
        numbers, images = numbers[order], given.images[order]
        classes, codes = np.unique(labels[order], return_inverse=True)
        keys = Keys(
            numbers,
            extract(encoder_of(settings, device), images, settings.batch_size, device, shown),
        )
        if isinstance(kind, FittedFamily) and fitted:
            trained = kind.fitted(keys, codes, len(classes), fitted)
        elif recipe:
            depth = sections["munkey"]["neighbors"][1]
            members = MemberKeys(
                keys.keys, without_self(nearest(keys, keys, depth + 1), numbers, depth)
            )
            samples = ImageSet(images, np.arange(count), numbers, codes)
            report = print if self.verbose else lambda _: None
            trained = kind.train(
                Training(samples, len(classes), recipe, device, report, members)
            ).system

        data = Dataset(
            images,
            numbers,
            codes,
            np.full(count, "train"),
            classes.tolist(),
            tuple(names[row] for row in order),
        )
        files = {
            one: file
            for one, row in zip(numbers.tolist(), order, strict=True)
            if (file := given.files[row])
        }
        own = EstimatorReference(dtype=dtype_of(classes), params=params)
        temporary = tempfile.TemporaryDirectory(dir=watched_folder(os.getpid()))
        write(OwnSystem(trained, data, files, sections, device, own), Path(temporary.name))
        self._at(Path(temporary.name), temporary)
        if save_to is not None:
            self.save(save_to)
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """The probability of each class.

        Parameters
        ----------
        X : sequence of str, Path or Image, or uint8 array of shape (n_pictures, height, width, 3)
            Pictures.

        Returns
        -------
        probabilities : ndarray of shape (n_pictures, n_classes)
            In the order of `classes_`.

        Raises
        ------
        PictureError
            If something is no picture.
        EmptyModelError
            If every picture was forgotten.
        """
        check_is_fitted(self)
        return self._handle.model.predict(pictures_in(X)).probabilities

    def predict(self, X: Any) -> np.ndarray:
        """The class with the highest probability.

        Parameters
        ----------
        X : sequence of str, Path or Image, or uint8 array of shape (n_pictures, height, width, 3)
            Pictures.

        Returns
        -------
        y : ndarray of shape (n_pictures,)
            One of `classes_` for each picture.

        Raises
        ------
        PictureError, EmptyModelError
            As `predict_proba`.
        """
        best = self.predict_proba(X).argmax(axis=1)
        return cast(np.ndarray, self.classes_[best])

    def forget(
        self,
        ids: Any = None,
        *,
        units: Any = None,
        labels: Any = None,
        files: Any = None,
        ignore_missing: bool = False,
        dry_run: bool = False,
    ) -> Forgotten:
        """Forget pictures, durably: no file of the directory holds their rows afterwards.

        Parameters
        ----------
        ids, units, labels, files, ignore_missing, dry_run
            As for `ForgettingLDA.forget`; `files` are the pictures' own, folders or patterns.

        Returns
        -------
        receipt : Forgotten
            It behaves as the ids of the forgotten pictures, ascending.

        Raises
        ------
        UnknownRowsError, InvalidRequestError, LockedMemoryError
            As `ForgettingLDA.forget`.

        Notes
        -----
        A class stays among `classes_` when its last picture goes: MUNKEY's network knows it.
        """
        check_is_fitted(self)
        request = read_request(ids, units, labels, files)
        # A look needs no lock.
        with self._handle.writing() if not dry_run else nullcontext(self._handle.model) as model:
            by_file = named_by_file(model, request.files)
            chosen, missing = meant(request, rows_of(model), by_file, ignore_missing=ignore_missing)
            answer = delete(model, chosen, dry_run=dry_run)
        return told(chosen, answer, missing, dry_run=dry_run, stacklevel=2)

    def add(self, X: Any, y: ArrayLike, *, units: Any = None) -> np.ndarray:
        """Remember pictures of known classes, without training.

        Parameters
        ----------
        X : sequence of str, Path or Image, or uint8 array of shape (n_pictures, height, width, 3)
            Pictures.
        y : array-like of shape (n_pictures,)
            The class of each, one of `classes_`.
        units : array-like of shape (n_pictures,), optional
            As for `fit`.

        Returns
        -------
        ids : ndarray of int64 of shape (n_pictures,)
            New ids: none is used twice.

        Raises
        ------
        ValueError
            If a class is not in `classes_`: only a fit can learn one.
        PictureError
            If something is no picture.

        Notes
        -----
        A MUNKEY has no token of a new picture: for each answer, its neighbors lend theirs.
        """
        check_is_fitted(self)
        labels = column_or_1d(y)
        texts = unit_names_of(units)
        with self._handle.writing() as model:
            places = {name: number for number, name in enumerate(self.classes_.tolist())}
            if unknown := sorted({*labels.tolist()} - {*places}):
                raise ValueError(f"{unknown} are not in `classes_`: only a fit can learn a class")
            numbers = [places[label] for label in labels.tolist()]
            return model.add(pictures_in(X), numbers, units=texts).ids

    def save(self, directory: str | Path) -> None:
        """Write it, as it is now, to a new directory, a deployed model, which `forget` and `add`
        change from now on.

        Parameters
        ----------
        directory : str or Path
            Where to. It may be an empty directory.

        Raises
        ------
        FileExistsError, LockedMemoryError
            As `ForgettingLDA.save`.

        Warns
        -----
        UserWarning
            If it was saved before: the earlier directory is no longer changed by it.

        Notes
        -----
        The log of deletions goes with it.
        """
        check_is_fitted(self)
        earlier = self.directory_ if self._temporary is None else None
        with disk.new_folder(Path(directory)) as folder, self._handle.writing() as model:
            model.copy(folder)
        self._at(Path(directory))
        if earlier is not None:
            warn_of_earlier(earlier, stacklevel=2)

    @classmethod
    def load(cls, directory: str | Path) -> Self:
        """The classifier of a directory that was saved, or that `munkey export` wrote.

        Parameters
        ----------
        directory : str or Path
            The directory.

        Returns
        -------
        classifier : MunkeyClassifier
            A handle on the directory, as after `save`.

        Raises
        ------
        UnreadableModelError
            If it is no model of pictures, or damaged.
        """
        made, manifest = cls(), read_manifest(Path(directory))
        if manifest.stored is None:
            what_to_do = "load it with ForgettingLDA, ForgettingNCM or ForgettingKNN"
            raise UnreadableModelError(
                Path(directory), "holds embeddings, not pictures", what_to_do
            )
        own = manifest.estimator or EstimatorReference(dtype=np.array(manifest.names).dtype.str)
        made.set_params(**{"family": manifest.family, **own.params})
        made._at(Path(directory))
        return made

    def _at(
        self, folder: Path, temporary: "tempfile.TemporaryDirectory[str] | None" = None
    ) -> None:
        """Be what lies there. What lay in a temporary directory is gone: it would keep what is forgotten from now."""
        if hasattr(self, "_handle"):
            self._handle.close()
        if earlier := getattr(self, "_temporary", None):
            earlier.cleanup()
        self._temporary = temporary
        self._handle = Handle(folder, device=self.device)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_handle")

    @property
    def directory_(self) -> Path:
        """Where it lies."""
        return self._handle.directory

    @property
    def classes_(self) -> np.ndarray:
        """The classes that it can answer, ascending: (C,)."""
        manifest = self._handle.model.manifest
        own = manifest.estimator or EstimatorReference(dtype="<U")
        return np.array(manifest.classes, dtype=own.dtype)

    @property
    def ids_(self) -> np.ndarray:
        """The ids of the pictures that it holds, ascending: (N,)."""
        return self._handle.model.ids

    def __getstate__(self) -> dict[str, Any]:
        if hasattr(self, "_handle"):
            raise TypeError(
                "a fitted MunkeyClassifier lies in a directory: `save` it, and `load` it elsewhere"
            )
        return cast(dict[str, Any], super().__getstate__())

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        return tags
