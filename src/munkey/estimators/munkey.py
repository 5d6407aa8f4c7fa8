"""A scikit-learn classifier of pictures, with MUNKEY or a family that deletes exactly."""

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
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

from munkey.data.image_set import ImageSet
from munkey.data.prepared import Dataset
from munkey.deploy.errors import UnreadableModelError
from munkey.deploy.model.export import write_model
from munkey.deploy.model.images import digest_contents, read_pixels
from munkey.deploy.model.manifest import (
    EXPORTED_FAMILIES,
    EstimatorReference,
    PictureSize,
    read_manifest,
)
from munkey.deploy.model.model import choose_device
from munkey.deploy.model.trained_system import EstimatorSystem
from munkey.deploy.predictor import Device
from munkey.deploy.store import disk
from munkey.deploy.store.rows import check_texts
from munkey.encoders.keys import Keys, extract
from munkey.estimators.classifier import warn_of_copies, warn_of_earlier, warn_of_large_units
from munkey.estimators.handle import Handle
from munkey.estimators.names import read_request, read_unit_names, resolve_ids, to_python
from munkey.estimators.pictures import (
    find_largest_side,
    get_encoder,
    iterate_inputs,
    prepare_pictures,
    require_on_bad,
    show_key_progress,
    show_picture_progress,
)
from munkey.estimators.receipts import (
    DeletionReceipt,
    delete_rows,
    make_receipt,
    match_files,
    match_rows,
    read_named_rows,
)
from munkey.estimators.rows import describe_dtype
from munkey.memory.neighbors import drop_self, find_nearest
from munkey.models.family import FAMILIES, FittedFamily, MemberKeys, Training
from munkey.settings import DataSettings, EncoderSettings, OnBad

# fmt: off
# PLACES has the setting of each parameter in params.yaml. FIXED has all other settings, as in
# params.yaml, except the temperature of closed-form heads, which was chosen on this project's data.
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


# A program that waits until standard input is closed, and then removes the folder.
WATCH = "import shutil, sys; sys.stdin.read(); shutil.rmtree(sys.argv[1], ignore_errors=True)"


@cache
def make_watched_folder(process: int) -> str:
    """Make a temporary folder for this process's models, which is removed when the process ends.

    A second process removes the folder, even if this process is killed: it waits for the end of a
    pipe, which the kernel closes. process: the id of this process, so that a fork gets its own
    folder.
    """
    folder = tempfile.mkdtemp(prefix="munkey-")
    command = [sys.executable, "-I", "-c", WATCH, folder]
    # In its own session, the second process does not receive Ctrl-C.
    watcher = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
    atexit.register(watcher.communicate)
    return folder


class _LabeledPictures(NamedTuple):
    """Pictures sorted by id. images: (N, H, W, 3) uint8; ids, labels: (N,); file_names: by id."""

    images: np.ndarray
    ids: np.ndarray
    labels: np.ndarray
    unit_names: tuple[str | None, ...]
    file_names: dict[int, str]


@dataclass(eq=False, repr=False)
class MunkeyClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """A classifier of pictures that can forget them (docs/serving.md).

    Pictures are files, Pillow images, or a uint8 array of shape (n_pictures, height, width, 3).

    Parameters
    ----------
    family : {"munkey", "lda", "ncm", "knn", "ranpac", "krr"}, default="munkey"
        "munkey" trains a transformer with a memory; the others delete exactly.
    encoder : str, default="efficientnet-lite0"
        The frozen network that turns pictures into keys (docs/encoders.md).
    key_size : int or None, default=96
        Side in pixels of the encoder's input; None for the encoder's published size.
    image_size : int, default=32
        Side in pixels of the transformer's input, a multiple of 4.
    width, depth : int, default=64 and 4
        Embedding dimension and number of layers of the transformer.
    epochs, batch_size, lr : int, int, float, default=40, 64 and 0.001
        Epochs, batch size and peak learning rate of its training.
    p_image, p_token : float, default=0.3
        Probability that training drops the image, or the tokens.
    head : {"none", "lda", "krr"}, default="none"
        Head whose logits are added: LDA on the keys, or `ForgettingKRR` with `lam` 0.03.
    k : int, default=4
        Number of neighbors that MUNKEY retrieves.
    alpha : float or "auto", default=0.2
        Shrinkage of LDA's covariance, as for `ForgettingLDA`; "auto" only if `family` is "lda".
    seed : int, default=0
        Random seed of training.
    device : {"auto", "cpu", "cuda"}, default="auto"
        Device to compute on; "auto" uses a GPU if there is one.
    verbose : bool, default=True
        Whether to print a line per epoch.
    on_bad : {"raise", "skip"}, default="raise"
        "raise" raises an error that lists all pictures that cannot be read. "skip" omits them and
        their labels, with a warning.
    white : int or None, default=None
        Brightest value of 16-bit gray pictures: 4095 for 12 bits; None for 65535.
    mirror : bool, default=False
        Whether to average each key with the mirrored picture's key. This doubles the time.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes that it can predict, in ascending order.
    ids_ : ndarray of int64 of shape (n_pictures,)
        The ids of the pictures in its memory, in ascending order.
    directory_ : Path
        The model's directory, which is temporary before `save`.

    Notes
    -----
    The parameters correspond to settings in params.yaml. A fitted classifier keeps its model in a
    directory, so it cannot be pickled. LDA and NCM choose temperatures as `ForgettingLDA` does.

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
        """Train the classifier on pictures and their classes.

        Parameters
        ----------
        X : sequence of str, Path or Image, or uint8 array of shape (n_pictures, height, width, 3)
            The pictures.
        y : array-like of shape (n_pictures,)
            The class of each picture.
        ids, units, save_to
            As for `ForgettingLDA.fit`.

        Returns
        -------
        self : MunkeyClassifier
            The fitted classifier.

        Raises
        ------
        PictureError
            If pictures cannot be read, unless ``on_bad="skip"``. The message lists all of them.
        FileExistsError
            If `save_to` already contains files. No picture is read then.
        ValueError
            If a parameter is invalid, or X, y, ids and units differ in length.
        """
        if save_to is not None:
            disk.require_empty_folder(Path(save_to))
        if self.family not in EXPORTED_FAMILIES:
            raise ValueError(
                f"family is {self.family!r}; it must be one of {', '.join(EXPORTED_FAMILIES)}"
            )
        params = {name: to_python(value) for name, value in self.get_params().items()}
        sections = deepcopy(FIXED)
        for name, place in PLACES.items():
            section, _, setting = place.partition(".")
            sections[section][setting] = params[name]
        # Invalid settings raise an error here, before any picture is read.
        family = FAMILIES[self.family]
        if isinstance(family, FittedFamily):
            family_settings = family.read_section(sections)
        else:
            recipe = family.make_recipe(sections, family.make_stage(params["seed"], "own", "full"))
        check_classification_targets(column_or_1d(y))
        encoder_settings = EncoderSettings(
            **{name: sections["keys"][name] for name in EncoderSettings.model_fields}
        )
        # Pictures are stored at a size that suffices for both the encoder and the network.
        network_side = DataSettings(**sections["data"]).image_size
        side = max(find_largest_side(encoder_settings), network_side)
        device = choose_device(self.device)
        images, ids, labels, unit_names, file_names = self._read_pictures(X, y, ids, units, side)
        classes, class_indices = np.unique(labels, return_inverse=True)
        encoder = get_encoder(encoder_settings, device)
        keys = Keys(
            ids,
            extract(encoder, images, encoder_settings.batch_size, device, show_key_progress),
        )
        if isinstance(family, FittedFamily):
            system = family.fit(keys, class_indices, len(classes), family_settings)
        else:
            depth = sections["munkey"]["neighbors"][1]
            # Each row is its own nearest neighbor, so look up one more and drop the row.
            neighbors = drop_self(find_nearest(keys, keys, depth + 1), ids, depth)
            samples = ImageSet(images, np.arange(len(ids)), ids, class_indices)
            report_epoch = print if self.verbose else lambda _: None
            members = MemberKeys(keys.keys, neighbors)
            training = Training(samples, len(classes), recipe, device, report_epoch, members)
            system = family.train(training).system

        splits = np.full(len(ids), "train")
        dataset = Dataset(images, ids, class_indices, splits, classes.tolist(), unit_names)
        estimator = EstimatorReference(dtype=describe_dtype(classes), params=params)
        temporary = tempfile.TemporaryDirectory(dir=make_watched_folder(os.getpid()))
        folder = Path(temporary.name)
        trained_system = EstimatorSystem(system, dataset, file_names, sections, device, estimator)
        write_model(trained_system, folder)
        self._open_directory(folder, temporary)
        if save_to is not None:
            self.save(save_to)
        return self

    def _read_pictures(
        self, X: Any, y: ArrayLike, ids: Any, units: Any, side: int
    ) -> _LabeledPictures:
        """Read the pictures, without those to skip, and sort them by id.

        Warns about copies with different labels or units, and about large units.
        """
        pictures = list(iterate_inputs(X))
        labels = column_or_1d(y)
        ids = resolve_ids(ids, {"X": X, "y": y, "units": units}, len(pictures), 0, stacklevel=3)
        _require_aligned(len(pictures), labels, ids)
        unit_names = check_texts("unit", read_unit_names(units), len(pictures))
        picture_size = PictureSize(height=side, width=side, white=self.white)
        decoded_pictures = read_pixels(
            show_picture_progress(pictures), picture_size, require_on_bad(self.on_bad), many=True
        )
        places = decoded_pictures.places  # of the pictures that could be read
        ids = ids[places]
        labels = labels[places]
        unit_names = [unit_names[place] for place in places]
        contents = digest_contents(decoded_pictures.images, b"")
        warn_of_copies(contents, labels, unit_names, ids)
        warn_of_large_units(unit_names)
        order = np.argsort(ids)
        file_names = {}
        for row in order.tolist():
            file_name = decoded_pictures.files[row]
            if file_name:
                file_names[int(ids[row])] = file_name
        return _LabeledPictures(
            images=decoded_pictures.images[order],
            ids=ids[order],
            labels=labels[order],
            unit_names=tuple(unit_names[row] for row in order),
            file_names=file_names,
        )

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probability of each class.

        Parameters
        ----------
        X : sequence of str, Path or Image, or uint8 array of shape (n_pictures, height, width, 3)
            Pictures.

        Returns
        -------
        probabilities : ndarray of shape (n_pictures, n_classes)
            One column per class, in the order of `classes_`.

        Raises
        ------
        PictureError
            If pictures cannot be read.
        EmptyModelError
            If every picture was forgotten.
        """
        check_is_fitted(self)
        return self._handle.model.predict(prepare_pictures(X)).probabilities

    def predict(self, X: Any) -> np.ndarray:
        """Return the class with the highest probability.

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
        PictureError
            If pictures cannot be read.
        EmptyModelError
            If every picture was forgotten.
        """
        class_indices = self.predict_proba(X).argmax(axis=1)
        return self.classes_[class_indices]

    def forget(
        self,
        ids: Any = None,
        *,
        units: Any = None,
        labels: Any = None,
        files: Any = None,
        ignore_missing: bool = False,
        dry_run: bool = False,
    ) -> DeletionReceipt:
        """Forget pictures durably: afterwards, no file in the directory contains their rows.

        Parameters
        ----------
        ids, units, labels, files, ignore_missing, dry_run
            As for `ForgettingLDA.forget`. `files` are the pictures' files, folders or patterns.

        Returns
        -------
        receipt : DeletionReceipt
            A sequence of the forgotten pictures' ids, in ascending order.

        Raises
        ------
        UnknownRowsError
            If an id, unit, class or file matches no picture. Nothing is forgotten then.
        InvalidRequestError
            If no argument is given, a name is a missing value, or an id is not an integer.
        LockedMemoryError
            If another process is writing to the directory.

        Notes
        -----
        A class without remaining pictures stays in `classes_`, because MUNKEY's network can still
        predict it.
        """
        check_is_fitted(self)
        request = read_request(ids, units, labels, files)
        # A dry run does not need the lock.
        model_to_change = nullcontext(self._handle.model) if dry_run else self._handle.lock()
        with model_to_change as model:
            matches = match_rows(
                request,
                read_named_rows(model),
                match_files(model, request.files),
                ignore_missing=ignore_missing,
            )
            result = delete_rows(model, matches.ids, dry_run=dry_run)
        return make_receipt(matches, result, dry_run=dry_run, stacklevel=2)

    def add(self, X: Any, y: ArrayLike, *, units: Any = None) -> np.ndarray:
        """Add pictures of known classes to the memory, without training.

        Parameters
        ----------
        X : sequence of str, Path or Image, or uint8 array of shape (n_pictures, height, width, 3)
            Pictures.
        y : array-like of shape (n_pictures,)
            The class of each picture, one of `classes_`.
        units : array-like of shape (n_pictures,), optional
            As for `fit`.

        Returns
        -------
        ids : ndarray of int64 of shape (n_pictures,)
            Ids of the new pictures. Ids are never reused.

        Raises
        ------
        ValueError
            If a class is not in `classes_`. Only `fit` can learn new classes.
        PictureError
            If pictures cannot be read.

        Notes
        -----
        MUNKEY has no learned token for a new picture, and uses its neighbors' tokens instead.
        """
        check_is_fitted(self)
        labels = column_or_1d(y)
        unit_names = read_unit_names(units)
        with self._handle.lock() as model:
            index_by_class = {name: index for index, name in enumerate(self.classes_.tolist())}
            unknown_labels = sorted(set(labels.tolist()) - set(index_by_class))
            if unknown_labels:
                raise ValueError(
                    f"{unknown_labels} are not in `classes_`: only `fit` can learn a new class"
                )
            class_indices = [index_by_class[label] for label in labels.tolist()]
            return model.add(prepare_pictures(X), class_indices, units=unit_names).ids

    def save(self, directory: str | Path) -> None:
        """Write the model to a new directory, which `forget` and `add` change from then on.

        Parameters
        ----------
        directory : str or Path
            A path that does not exist, or an empty directory.

        Raises
        ------
        FileExistsError
            If the directory already contains files. Nothing is written then.
        LockedMemoryError
            If another process is writing to the current directory.

        Warns
        -----
        UserWarning
            If it was saved before, because it no longer changes the earlier directory.

        Notes
        -----
        The directory is a deployed model (docs/serving.md), and includes the log of deletions.
        """
        check_is_fitted(self)
        earlier_directory = self.directory_
        was_saved = self._temporary is None
        with disk.create_folder(Path(directory)) as folder, self._handle.lock() as model:
            model.copy(folder)
        self._open_directory(Path(directory))
        if was_saved:
            warn_of_earlier(earlier_directory, stacklevel=2)

    @classmethod
    def load(cls, directory: str | Path) -> Self:
        """Load a model that `save` or `munkey export` wrote.

        Parameters
        ----------
        directory : str or Path
            The directory.

        Returns
        -------
        classifier : MunkeyClassifier
            The classifier, which uses the directory from then on, as after `save`.

        Raises
        ------
        UnreadableModelError
            If the directory is damaged, or not a model of pictures.
        """
        manifest = read_manifest(Path(directory))
        if manifest.stored is None:
            what_to_do = f"load it with Forgetting{FAMILIES[manifest.family].title}"
            raise UnreadableModelError(
                Path(directory), "is a model of embeddings, not pictures", what_to_do
            )
        classifier = cls()
        classifier.set_params(family=manifest.family)
        if manifest.estimator:
            classifier.set_params(**manifest.estimator.params)
        classifier._open_directory(Path(directory))
        return classifier

    def _open_directory(
        self, folder: Path, temporary: "tempfile.TemporaryDirectory[str] | None" = None
    ) -> None:
        """Use the model in a folder from now on.

        An earlier temporary folder is removed, because `forget` would no longer change it.
        """
        if hasattr(self, "_handle"):
            self._handle.close()
        earlier_temporary = getattr(self, "_temporary", None)
        if earlier_temporary is not None:
            earlier_temporary.cleanup()
        self._temporary = temporary
        self._handle = Handle(folder, device=self.device)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_handle")

    @property
    def directory_(self) -> Path:
        """The directory of the model."""
        return self._handle.directory

    @property
    def classes_(self) -> np.ndarray:
        """The classes that it can predict, in ascending order: (C,)."""
        manifest = self._handle.model.manifest
        dtype = manifest.estimator.dtype if manifest.estimator else "<U"
        return np.array(manifest.classes, dtype=dtype)

    @property
    def ids_(self) -> np.ndarray:
        """The ids of the pictures in its memory, in ascending order: (N,)."""
        return self._handle.model.ids

    def __getstate__(self) -> dict[str, Any]:
        if hasattr(self, "_handle"):
            raise TypeError(
                "a fitted MunkeyClassifier cannot be pickled, because its model is a directory: use"
                " `save` and `load`"
            )
        return super().__getstate__()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        return tags


def _require_aligned(count: int, labels: np.ndarray, ids: np.ndarray) -> None:
    """Raise ValueError unless each picture has one label and its own id."""
    if len(labels) != count:
        raise ValueError(f"got {count} pictures but {len(labels)} labels")
    distinct_count = len(np.unique(ids))
    if len(ids) != count or distinct_count != count:
        raise ValueError(
            f"got {count} pictures but {distinct_count} distinct ids; each picture needs its own"
        )
