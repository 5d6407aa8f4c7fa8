"""A scikit-learn classifier of pictures: MUNKEY, or a family that deletes exactly."""

import os
import shutil
import tempfile
import weakref
from contextlib import nullcontext
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

from munkey.core.files import create_folder, require_empty_folder
from munkey.data.image_set import ImageSet
from munkey.data.prepared import Dataset
from munkey.deploy.deletions import Deletion
from munkey.deploy.errors import UnreadableModelError
from munkey.deploy.estimator_predictor import EstimatorPredictor
from munkey.deploy.model.export import write_model
from munkey.deploy.model.images import digest_contents, read_pixels
from munkey.deploy.model.manifest import (
    EXPORTED_FAMILIES,
    EstimatorReference,
    ExportedFamily,
    PictureSize,
    read_manifest,
)
from munkey.deploy.model.model import choose_device, hide_progress
from munkey.deploy.model.trained_system import EstimatorSystem
from munkey.deploy.predictor import Device
from munkey.encoders.keys import Keys, extract
from munkey.estimators.classifier import (
    match_labels,
    warn_of_class_names,
    warn_of_copies,
    warn_of_earlier,
    warn_of_large_units,
)
from munkey.estimators.deletions import (
    complete_deletion,
    delete_rows,
    match_files,
    match_rows,
    read_named_rows,
)
from munkey.estimators.handle import Handle, ThreadLock
from munkey.estimators.names import (
    read_labels,
    read_request,
    read_unit_names,
    resolve_ids,
    to_python,
)
from munkey.estimators.pictures import (
    choose_sides,
    find_largest_side,
    get_encoder,
    iterate_inputs,
    prepare_pictures,
    require_free_size,
    require_on_bad,
    show_key_progress,
    show_picture_progress,
)
from munkey.estimators.rows import describe_dtype
from munkey.memory.neighbors import drop_self, find_nearest
from munkey.memory.rows import check_texts
from munkey.models.family import FAMILIES, FittedFamily, MemberKeys, Training
from munkey.settings import DataSettings, EncoderSettings, OnBad

# fmt: off
# The setting in params.yaml that each parameter sets.
SETTING_OF_PARAMETER = {
    "encoder": "keys.encoder", "mirror": "keys.mirror", "key_size": "keys.image_size",
    "image_size": "data.image_size", "width": "model.width",
    "depth": "model.depth", "epochs": "train.epochs", "batch_size": "train.batch_size", "lr": "train.lr",
    "p_image": "munkey.p_image", "p_token": "munkey.p_token", "head": "munkey.head", "k": "inference.k",
    "alpha": "lda.alpha", "on_bad": "source.on_bad", "white": "source.white",
}
# All other settings, with the values in params.yaml, except for the temperatures of closed-form
# heads, which in params.yaml were chosen on this project's data sets.
FIXED_SETTINGS: dict[str, dict[str, Any]] = {
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


class TemporaryFolder:
    """A private folder, which is removed with this object, or when the process that made it ends."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="munkey-"))
        weakref.finalize(self, _remove_folder, self.path, os.getpid())


def _remove_folder(path: Path, process_id: int) -> None:
    """Remove a folder, but not in a forked child, whose parent still uses it."""
    if os.getpid() == process_id:
        shutil.rmtree(path, ignore_errors=True)


class _LabeledPictures(NamedTuple):
    """Pictures (N, H, W, 3) uint8, sorted by id. file_names: by id."""

    images: np.ndarray
    ids: np.ndarray
    labels: np.ndarray
    unit_names: tuple[str | None, ...]
    file_names: dict[int, str]


@dataclass(eq=False, repr=False)
class MunkeyClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """A classifier of pictures that can forget them (docs/serving.md).

    Pictures are paths of files, Pillow images, or a uint8 array of shape (n_pictures, height,
    width, 3).

    Parameters
    ----------
    family : {"munkey", "lda", "ncm", "knn", "ranpac", "krr"}, default="munkey"
        "munkey" trains a transformer with a memory. All others delete exactly.
    encoder : str, default="efficientnet-lite0"
        Frozen network that turns pictures into keys (docs/encoders.md).
    key_size : int, "auto" or None, default="auto"
        Side in pixels of the encoder's input. "auto" is 96, but 16 for "pixels". None for the
        encoder's own size.
    image_size : int, default=32
        Side in pixels of the transformer's input, a multiple of 4.
    width, depth : int, default=64 and 4
        Embedding dimension and number of layers of the transformer.
    epochs, batch_size, lr : int, int, float, default=40, 64 and 0.001
        Number of epochs, batch size and peak learning rate for training the transformer.
    p_image, p_token : float, default=0.3
        Probabilities of dropping the image and the token in training.
    head : {"none", "lda", "krr"}, default="none"
        Head whose logits are added to the transformer's: "lda" adds LDA on the keys, "krr" adds
        `ForgettingKRR` with ``lam=0.03``.
    k : int, default=4
        Number of neighbors that MUNKEY retrieves.
    alpha : float or "auto", default=0.2
        Shrinkage of LDA's covariance, as in `ForgettingLDA`. "auto" requires ``family="lda"``.
    seed : int, default=0
        Random seed for training.
    device : {"auto", "cpu", "cuda"}, default="auto"
        Device for all computations. "auto" uses a GPU if there is one.
    verbose : bool, default=True
        Whether to print progress: of reading pictures, of computing keys, and a line after each
        epoch. ``MUNKEY_PROGRESS=0`` in the environment silences all but the epochs.
    on_bad : {"raise", "skip"}, default="raise"
        What to do with unreadable pictures: raise an error that lists all of them, or skip them and
        their labels with a warning.
    white : int, list of int or None, default=None
        Brightest value of 16-bit grayscale pictures, such as 4095 for 12 bits. None for 65535. For a
        mixed set, list several: each picture has the lowest that none of its values exceeds.
    mirror : bool, default=False
        Whether to average the key of each picture with the key of its mirror image, which doubles
        the time.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes that the model can predict, in ascending order.
    ids_ : ndarray of int64 of shape (n_pictures,)
        The ids of the pictures in the memory, in ascending order.
    directory_ : Path
        The directory of the model, which is temporary before `save`.

    Notes
    -----
    A fitted classifier cannot be pickled, because it keeps its model in a directory. LDA
    and NCM choose their temperature like `ForgettingLDA`.

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

    family: ExportedFamily = "munkey"
    encoder: str = "efficientnet-lite0"
    key_size: int | Literal["auto"] | None = "auto"
    image_size: int = 32
    width: int = 64
    depth: int = 4
    epochs: int = 40
    batch_size: int = 64
    lr: float = 1e-3
    p_image: float = 0.3
    p_token: float = 0.3
    head: Literal["none", "lda", "krr"] = "none"
    k: int = 4
    alpha: float | Literal["auto"] = 0.2
    seed: int = 0
    device: Device = "auto"
    verbose: bool = True
    on_bad: OnBad = "raise"
    white: int | list[int] | None = None
    mirror: bool = False
    _handle: Handle = field(init=False)
    _change_lock: ThreadLock = field(init=False)

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
            Same as for `ForgettingLDA.fit`.

        Returns
        -------
        self : MunkeyClassifier
            The fitted classifier.

        Raises
        ------
        PictureError
            If pictures cannot be read, unless ``on_bad="skip"``. The message lists all of them.
        FileExistsError
            If `save_to` is a directory that is not empty. No picture is read then.
        ValueError
            If a parameter is invalid, X, y, ids and units differ in length, or ids repeat.
        """
        if save_to is not None:
            require_empty_folder(Path(save_to))
        if self.family not in EXPORTED_FAMILIES:
            raise ValueError(
                f"family must be one of {', '.join(EXPORTED_FAMILIES)}, not {self.family!r}"
            )
        params = {name: to_python(value) for name, value in self.get_params().items()}
        sections = _make_sections(params)
        # Validate the sections now, so that invalid settings are rejected before pictures are read.
        family = FAMILIES[self.family]
        if isinstance(family, FittedFamily):
            family_settings = family.read_section(sections)
        else:
            recipe = family.make_recipe(sections, family.make_stage(params["seed"], "own", "full"))
        labels = column_or_1d(read_labels(y))
        check_classification_targets(labels)
        encoder_settings = EncoderSettings(
            **{name: sections["keys"][name] for name in EncoderSettings.model_fields}
        )
        # Store pictures large enough for both the encoder's and the transformer's input.
        transformer_side = DataSettings(**sections["data"]).image_size
        side = max(find_largest_side(encoder_settings), transformer_side)
        device = choose_device(self.device)
        pictures = self._read_pictures(X, labels, ids, {"X": X, "y": y, "units": units}, side)
        warn_of_class_names(y, labels)
        classes, class_indices = np.unique(pictures.labels, return_inverse=True)
        encoder = get_encoder(encoder_settings, device)
        extracted_keys = extract(
            encoder,
            pictures.images,
            encoder_settings.batch_size,
            device,
            show_key_progress if self.verbose else hide_progress,
        )
        keys = Keys(pictures.ids, extracted_keys)
        if isinstance(family, FittedFamily):
            system = family.fit(keys, class_indices, len(classes), family_settings)
        else:
            _, max_neighbors = sections["munkey"]["neighbors"]
            training = Training(
                samples=ImageSet(
                    pictures.images,
                    rows=np.arange(len(pictures.ids)),
                    ids=pictures.ids,
                    labels=class_indices,
                ),
                classes=len(classes),
                recipe=recipe,
                device=device,
                report=print if self.verbose else lambda _: None,
                members=_find_members(keys, max_neighbors),
            )
            system = family.train(training).system

        dataset = Dataset(
            images=pictures.images,
            ids=pictures.ids,
            labels=class_indices,
            splits=np.full(len(pictures.ids), "train"),
            classes=classes.tolist(),
            units=pictures.unit_names,
        )
        estimator = EstimatorReference(params=params)
        # The model is in this folder until `save` moves to another one.
        temporary = TemporaryFolder()
        trained_system = EstimatorSystem(
            system,
            dataset,
            pictures.file_names,
            sections,
            device,
            estimator,
            describe_dtype(classes),
        )
        write_model(trained_system, temporary.path)
        self._open_directory(temporary.path, temporary)
        if save_to is not None:
            self.save(save_to)
        return self

    def _read_pictures(
        self, X: Any, all_labels: np.ndarray, ids: Any, tables: dict[str, Any], side: int
    ) -> _LabeledPictures:
        """Read the pictures in `tables`, X, y and units by name, and sort them by id."""
        pictures = list(iterate_inputs(X))
        all_ids = resolve_ids(ids, tables, len(pictures), start=0)
        _require_aligned(len(pictures), all_labels, all_ids)
        all_unit_names = check_texts("unit", read_unit_names(tables["units"]), len(pictures))
        picture_size = PictureSize(height=side, width=side, white=self.white)
        decoded_pictures = read_pixels(
            show_picture_progress(pictures) if self.verbose else pictures,
            picture_size,
            require_on_bad(self.on_bad),
            many=True,
        )
        # From here on, only the pictures that could be read.
        positions = decoded_pictures.places
        readable_ids = all_ids[positions]
        readable_labels = all_labels[positions]
        unit_names = [all_unit_names[position] for position in positions]
        contents = digest_contents(decoded_pictures.images, b"")
        order = np.argsort(readable_ids)
        file_names = {}
        for row in order.tolist():
            file_name = decoded_pictures.files[row]
            if file_name:
                file_names[int(readable_ids[row])] = file_name
        names = [file_names.get(row_id, f"id {row_id}") for row_id in readable_ids.tolist()]
        warn_of_copies(contents, readable_labels, unit_names, names)
        warn_of_large_units(unit_names)
        return _LabeledPictures(
            images=decoded_pictures.images[order],
            ids=readable_ids[order],
            labels=readable_labels[order],
            unit_names=tuple(unit_names[row] for row in order),
            file_names=file_names,
        )

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probability of each class.

        Parameters
        ----------
        X : sequence of str, Path or Image, or uint8 array of shape (n_pictures, height, width, 3)
            The pictures to classify.

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
        _, probabilities = self._compute_probabilities(X)
        return probabilities

    def predict(self, X: Any) -> np.ndarray:
        """Return the class with the highest probability.

        Parameters
        ----------
        X : sequence of str, Path or Image, or uint8 array of shape (n_pictures, height, width, 3)
            The pictures to classify.

        Returns
        -------
        y : ndarray of shape (n_pictures,)
            The predicted class of each picture.

        Raises
        ------
        PictureError
            If pictures cannot be read.
        EmptyModelError
            If every picture was forgotten.
        """
        classes, probabilities = self._compute_probabilities(X)
        return classes[probabilities.argmax(axis=1)]

    def _compute_probabilities(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the classes (C,) and their probabilities (N, C)."""
        check_is_fitted(self)
        model = self._handle.model
        probabilities = model.predict(prepare_pictures(X)).probabilities
        # Another process may have added a class since. Classes keep their order.
        classes = _read_classes(model)[: probabilities.shape[1]]
        return classes, probabilities

    def score(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the accuracy. The classes in y are normalized as in `fit`.

        Parameters
        ----------
        X : sequence of str, Path or Image, or uint8 array of shape (n_pictures, height, width, 3)
            The pictures to classify.
        y : array-like of shape (n_pictures,)
            The class of each picture.
        sample_weight : array-like of shape (n_pictures,), optional
            The weight of each picture.

        Returns
        -------
        accuracy : float
            The share of pictures that are classified correctly.
        """
        return float(super().score(X, read_labels(y), sample_weight))

    def forget(
        self,
        ids: Any = None,
        *,
        units: Any = None,
        labels: Any = None,
        files: Any = None,
        ignore_missing: bool = False,
        dry_run: bool = False,
    ) -> Deletion:
        """Forget pictures. Afterward, no file in the directory contains their rows.

        Parameters
        ----------
        ids, units, labels, files, ignore_missing, dry_run
            Same as for `ForgettingLDA.forget`. `files` are the pictures' own files, folders, or
            patterns such as "glob:cats/*.png".

        Returns
        -------
        deletion : Deletion
            A sequence of the forgotten pictures' ids, in ascending order.

        Raises
        ------
        UnknownRowsError, InvalidRequestError, LockedMemoryError
            Same as for `ForgettingLDA.forget`.

        Notes
        -----
        A class without remaining pictures stays in `classes_`, because MUNKEY's network can still
        predict it.
        """
        check_is_fitted(self)
        request = read_request(ids, units, labels, files)
        with self._change_lock, nullcontext() if dry_run else self._handle.model.hold_off_changes():
            model = self._handle.model
            matches = match_rows(
                request,
                read_named_rows(model),
                match_files(model, request.files),
                ignore_missing=ignore_missing,
            )
            deletion = delete_rows(model, matches.ids, dry_run=dry_run)
        return complete_deletion(deletion, matches, stacklevel=2)

    def add(self, X: Any, y: ArrayLike, *, units: Any = None) -> np.ndarray:
        """Add pictures of known classes to the memory, without training.

        Parameters
        ----------
        X : sequence of str, Path or Image, or uint8 array of shape (n_pictures, height, width, 3)
            The pictures to add.
        y : array-like of shape (n_pictures,)
            The class of each picture, which must be in `classes_`.
        units : array-like of shape (n_pictures,), optional
            Same as for `fit`.

        Returns
        -------
        ids : ndarray of int64 of shape (n_pictures,)
            Ids of the new pictures. Ids are never reused.

        Raises
        ------
        ValueError
            If a class is not in `classes_`. Only `fit` can learn a new class.
        PictureError
            If pictures cannot be read.

        Notes
        -----
        MUNKEY has not learned a token for a new picture, so it uses the tokens of the picture's
        neighbors.
        """
        check_is_fitted(self)
        labels = column_or_1d(read_labels(y))
        unit_names = read_unit_names(units)
        with self._change_lock:
            model = self._handle.model
            classes = _read_classes(model)
            labels = match_labels(labels, classes)
            unknown_labels = sorted(set(labels.tolist()) - set(classes.tolist()))
            if unknown_labels:
                raise ValueError(
                    f"the classes {unknown_labels} are not in `classes_`, and only `fit` can learn"
                    " a new class"
                )
            return model.add(prepare_pictures(X), labels.tolist(), units=unit_names).ids

    def save(self, directory: str | Path) -> None:
        """Save the model to a new directory, which `forget` and `add` change from then on.

        Parameters
        ----------
        directory : str or Path
            A path that does not exist, or an empty directory.

        Raises
        ------
        FileExistsError, LockedMemoryError
            Same as for `ForgettingLDA.save`.

        Warns
        -----
        UserWarning
            If the classifier was saved before, because it no longer changes the earlier directory.

        Notes
        -----
        The directory is a deployed model (docs/serving.md) with the log of deletions.
        """
        check_is_fitted(self)
        with self._change_lock:
            earlier_directory = self.directory_
            was_saved = self._temporary is None
            with create_folder(Path(directory)) as folder:
                self._handle.model.copy(folder)
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
            If the directory is damaged or does not contain a model of pictures.
        """
        manifest = read_manifest(Path(directory))
        if manifest.stored is None:
            what_to_do = f"load it with Forgetting{FAMILIES[manifest.family].title}"
            raise UnreadableModelError(
                Path(directory), "contains a model of embeddings, not of pictures", what_to_do
            )
        classifier = cls()
        classifier.set_params(family=manifest.family)
        if manifest.estimator:
            params = dict(manifest.estimator.params)
            params.pop("device", None)  # the machine that loads it may have another
            classifier.set_params(**params)
        classifier._open_directory(Path(directory))
        return classifier

    def _open_directory(self, folder: Path, temporary: TemporaryFolder | None = None) -> None:
        """Use the model in a folder from now on.

        An earlier temporary folder is removed once no other thread answers from it, because
        `forget` would no longer change it. temporary: the folder, if it is temporary; None for a
        directory of the user.
        """
        self._temporary = temporary
        self._handle = Handle(folder, self.device, temporary)
        if not hasattr(self, "_change_lock"):
            self._change_lock = ThreadLock()

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_handle")

    @property
    def directory_(self) -> Path:
        """The directory of the model."""
        return self._handle.directory

    @property
    def classes_(self) -> np.ndarray:
        """The classes that the model can predict, in ascending order: (C,)."""
        return _read_classes(self._handle.model)

    @property
    def ids_(self) -> np.ndarray:
        """The ids of the pictures in the memory, in ascending order: (N,)."""
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


def _read_classes(model: EstimatorPredictor) -> np.ndarray:
    """Read the classes of a model, in ascending order: (C,)."""
    classes = model.classes
    return np.array(classes.names, dtype=classes.dtype or "<U")


def _make_sections(params: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Make the sections of params.yaml from the classifier's parameters and FIXED_SETTINGS."""
    sections = deepcopy(FIXED_SETTINGS)
    for name, full_setting in SETTING_OF_PARAMETER.items():
        section, _, setting = full_setting.partition(".")
        sections[section][setting] = params[name]
    if params["key_size"] == "auto":
        sections["keys"] |= choose_sides(params["encoder"])
    else:
        require_free_size(params["encoder"], key_size=params["key_size"])
    return sections


def _find_members(keys: Keys, depth: int) -> MemberKeys:
    """Find the nearest neighbors of each row among the other rows, up to `depth`."""
    # Each row is its own nearest neighbor, so look up one more and drop the row itself.
    nearest = find_nearest(keys, keys, depth + 1)
    return MemberKeys(keys.keys, drop_self(nearest, keys.ids, depth))


def _require_aligned(count: int, labels: np.ndarray, ids: np.ndarray) -> None:
    """Raise ValueError unless each picture has one label and its own id."""
    if len(labels) != count:
        raise ValueError(f"got {count} pictures but {len(labels)} labels")
    distinct_count = len(np.unique(ids))
    if len(ids) != count or distinct_count != count:
        raise ValueError(
            f"got {count} pictures but {distinct_count} distinct ids; each picture needs its own id"
        )
