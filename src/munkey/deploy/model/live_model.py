"""An open model: its manifest, its memory, and the parts that compute predictions."""

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from munkey.deploy.errors import EmptyModelError, UnreadableModelError
from munkey.deploy.model.find import NearSamples, find_samples
from munkey.deploy.model.images import (
    DecodedPictures,
    Images,
    digest_contents,
    read_embeddings,
    read_pixels,
)
from munkey.deploy.model.manifest import MEMORY, Manifest, read_manifest
from munkey.deploy.model.prediction import Evidence, Prediction, describe_basis, softmax
from munkey.deploy.model.samples import Samples
from munkey.memory.memory_file import MemoryFile, Snapshot
from munkey.memory.rows import digest_keys
from munkey.settings import InferenceSettings, OnBad

if TYPE_CHECKING:
    from munkey.deploy.model.fitted import FittedModel
    from munkey.deploy.model.model import KeyEncoder, LoadedNetwork
    from munkey.deploy.model.retrieval import RetrievedRows


class LiveModel:
    """An open model: its manifest, its memory, and its network or head.

    Weights and encoder are loaded with the first picture, so forgetting does not import torch. An
    answer reads one snapshot of the memory, which no other thread or process can change.
    """

    def __init__(self, directory: Path, device: str, wait: float) -> None:
        """Open a model. wait: seconds that a change waits for others."""
        self.directory = directory
        self._device = device
        self.manifest = read_manifest(directory)
        self.file = open_memory(directory, self.manifest, wait)

    def snapshot(self) -> Snapshot:
        """Return the memory as it is now."""
        return self.file.snapshot()

    def samples(self) -> Samples:
        """Return the samples in the memory as it is now."""
        return Samples(self.snapshot(), self.manifest.source)

    # Lazily loaded parts

    @cached_property
    def fitted_model(self) -> "FittedModel | None":
        """The fitted model, or None if the family is not fitted (MUNKEY)."""
        from munkey.deploy.model.fitted import FittedModel

        if self.manifest.settings is None:  # only fitted families store settings
            return None
        state = self.file.read_state()
        return FittedModel(self.directory / MEMORY, self.manifest, state)

    @cached_property
    def head(self) -> "FittedModel | None":
        """The fitted head whose logits are added to those of the network, or None without one."""
        from munkey.deploy.model.fitted import FittedModel
        from munkey.models.family import read_added_head

        if self.manifest.head is None:
            return None
        family, settings = read_added_head(self.manifest.head)
        changes = {"family": family.name, "settings": settings}
        manifest = self.manifest.model_copy(update=changes)
        return FittedModel(self.directory / MEMORY, manifest, self.file.read_state())

    @cached_property
    def network(self) -> "LoadedNetwork":
        """The network of MUNKEY, with its weights."""
        from munkey.deploy.model.model import LoadedNetwork, choose_device

        class_count = len(self.snapshot().classes.names)
        device = choose_device(self._device)
        return LoadedNetwork(self.directory, self.manifest, class_count, device)

    @cached_property
    def encoder(self) -> "KeyEncoder":
        """The encoder that computes keys of pictures."""
        from munkey.deploy.model.model import KeyEncoder, choose_device

        return KeyEncoder(self.directory, self.manifest, choose_device(self._device))

    @property
    def loaded_sums(self) -> "FittedModel | None":
        """The fitted model or head if it is loaded, otherwise None."""
        return vars(self).get("fitted_model") or vars(self).get("head")

    @property
    def tokens_are_keys(self) -> bool:
        """Whether the token of each row is its key, as in the direct-key variant of MUNKEY."""
        return self.manifest.architecture == "direct-key"

    # Reading pictures and rows

    @property
    def bound(self) -> float | None:
        """The divisor of rows that keep their length; None if keys are at unit norm."""
        return self.manifest.estimator.bound if self.manifest.estimator else None

    def read_inputs(
        self, images: Images, on_bad: OnBad = "raise"
    ) -> tuple[DecodedPictures, np.ndarray | None]:
        """Read pictures at the size that the manifest states.

        For a model that takes embeddings, return a blank picture of one pixel for each row, and the
        rows as keys (N, d), which are None otherwise. Raises PictureError if an input cannot be read
        and is not skipped, or if none is left.
        """
        if self.manifest.stored is not None:
            return read_pixels(images, self.manifest.stored, on_bad), None
        reference = self.manifest.estimator
        features = None
        if reference is not None:
            features = reference.features
        key_width = self.snapshot().state.key_width
        keys, files = read_embeddings(images, key_width, features, self.bound)
        blank = np.zeros((len(keys), 1, 1, 3), dtype=np.uint8)
        return DecodedPictures(blank, files, np.arange(len(keys))), keys

    def digest_contents(self, pictures: DecodedPictures, rows: np.ndarray | None) -> np.ndarray:
        """Return a digest of each picture, or of each row as it is stored: (N, 16) uint8.

        Exact copies have equal digests.
        """
        if rows is not None and self.fitted_model:
            return digest_keys(self.fitted_model.family.prepare_keys(rows))
        return digest_contents(pictures.images, bytes.fromhex(self.manifest.memory.store))

    # Predicting

    def predict(self, images: Images, only_held_classes: bool, on_bad: OnBad) -> Prediction:
        """Classify pictures, or rows for a model that takes embeddings; see `Predictor.predict`."""
        # In a forked child, torch would wait forever. There, `snapshot` raises an error first.
        if not len(self.snapshot().memory):
            raise EmptyModelError(self.directory, self.fitted_model is not None)
        pictures, keys = self.read_inputs(images, on_bad)
        if keys is None:
            keys = self.encoder.compute_keys(pictures.images)
        snapshot = self.snapshot()  # not the one above: reading pictures may have taken long
        if not len(snapshot.memory):
            raise EmptyModelError(self.directory, self.fitted_model is not None)
        logits, evidence = self._compute_logits(snapshot, pictures.images, keys)
        if not np.isfinite(logits).all():
            why = "its logits are not finite; `verify` checks whether the memory is damaged"
            raise UnreadableModelError(self.directory, why)
        names = tuple(snapshot.classes.texts)
        if only_held_classes:
            memory = snapshot.memory
            has_samples = np.isin(range(len(names)), memory.labels[memory.live_rows])
            allowed_logits = np.where(has_samples, logits, np.float32(-np.inf))
        else:
            allowed_logits = logits
        labels = allowed_logits.argmax(axis=1)
        return Prediction(
            logits=logits,
            probabilities=softmax(allowed_logits),
            labels=labels,
            classes=tuple(names[label] for label in labels),
            neighbors=evidence,
            names=names,
            files=pictures.files,
            basis=describe_basis(self.manifest, len(snapshot.memory)),
        )

    def find(self, images: Images, count: int, above: float, on_bad: OnBad) -> NearSamples:
        """Find at most `count` samples near each picture or row of embeddings; see `Predictor.find`."""
        # In a forked child, torch would wait forever. There, `snapshot` raises an error first.
        self.snapshot()
        pictures, rows = self.read_inputs(images, on_bad)
        if rows is None:
            keys = self.encoder.compute_keys(pictures.images)
        else:
            keys = rows  # the model takes embeddings
        contents = self.digest_contents(pictures, rows)
        samples = find_samples(
            self.samples(), keys, contents, count, above, keys_have_lengths=self.bound is not None
        )
        return NearSamples(tuple(samples), pictures.files)

    def _compute_logits(
        self, snapshot: Snapshot, images: np.ndarray, keys: np.ndarray
    ) -> tuple[np.ndarray, Evidence]:
        """Return logits (N, C) of images (N, H, W, 3) with keys (N, d), and their neighbors."""
        from munkey.deploy.model.retrieval import make_empty_rows

        if self.fitted_model:
            if self.fitted_model.k:
                retrieved_rows = self.retrieve(snapshot, keys)
            else:
                retrieved_rows = make_empty_rows(len(keys))
            logits = self.fitted_model.compute_logits(snapshot, keys, retrieved_rows)
            return logits, self._collect_evidence(snapshot, retrieved_rows)
        retrieved_rows = self.retrieve(snapshot, keys)
        memory = retrieved_rows.to_memory(self.network.device)
        logits = self.network.compute_logits(images, memory, retrieved_rows.neighbors)
        if self.head:
            logits = logits + self.head.compute_logits(snapshot, keys, make_empty_rows(len(keys)))
        return logits, self._collect_evidence(snapshot, retrieved_rows)

    def retrieve(self, snapshot: Snapshot, keys: np.ndarray) -> "RetrievedRows":
        """Find the rows nearest to each key (N, d), according to the inference settings.

        A fitted family has no inference settings, and gets the number of neighbors that it needs.
        """
        from munkey.deploy.model.retrieval import Retriever

        settings = self.manifest.inference
        if settings is None:
            assert self.fitted_model is not None, "a network has inference settings"
            # The fusion averages tokens for rows that borrow them. Here, all rows have their own.
            settings = InferenceSettings(k=self.fitted_model.k, fusion="ensemble", temperature=1.0)
        # Rows that were added after training have no token of their own, and borrow tokens.
        first_borrowing_id: int | None = self.manifest.memory.first_new_id
        if self.fitted_model is not None or self.tokens_are_keys:
            first_borrowing_id = None  # every row has its own token
        return Retriever(snapshot.memory, settings, first_borrowing_id).retrieve(keys)

    def _collect_evidence(self, snapshot: Snapshot, retrieved_rows: "RetrievedRows") -> Evidence:
        """Collect the neighbors that predictions are based on, with weights and source files."""
        neighbors = retrieved_rows.neighbors
        if retrieved_rows.labels.max(initial=0) >= len(snapshot.classes.names):
            why = "its memory has labels that are not among its classes"
            raise UnreadableModelError(self.directory, why)
        classifier = self.fitted_model or self.network
        locate = Samples(snapshot, self.manifest.source).sources.locate
        files = []
        for files_of_query in retrieved_rows.files:
            files.append(tuple(locate(file) for file in files_of_query))
        return Evidence(
            ids=neighbors.ids,
            cosines=neighbors.cosines,
            weights=classifier.weigh_neighbors(neighbors),
            labels=retrieved_rows.labels,
            files=tuple(files),
        )


def open_memory(directory: Path, manifest: Manifest, wait: float) -> MemoryFile:
    """Open the memory of a model. wait: seconds that a change waits for others.

    Raises UnreadableModelError if it is damaged or belongs to another model.
    """
    path = directory / MEMORY
    file = MemoryFile.open(path, wait=wait)
    try:
        state = file.read_state()
        if state.store.hex() != manifest.memory.store:
            raise UnreadableModelError(path, "is the memory of another model")
        if manifest.encoder:
            key_width = len(manifest.encoder.probe)
        else:
            key_width = state.key_width  # any, for a model of embeddings
        if (state.key_width, state.token_width) != (key_width, manifest.token_dim):
            why = "has keys or tokens of another width than its manifest states"
            raise UnreadableModelError(path, why)
    except BaseException:
        file.close()
        raise
    return file
