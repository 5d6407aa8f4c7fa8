"""New samples: rows that join the memory of a model without training."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple

import numpy as np

from munkey.core.console import pluralize
from munkey.data.intake.unit_names import unit_names
from munkey.deploy.errors import PictureError, format_first_ten
from munkey.deploy.model.images import Images
from munkey.deploy.model.live_model import LiveModel
from munkey.deploy.model.manifest import EstimatorReference
from munkey.deploy.model.sources import AddedSamples
from munkey.deploy.store.rows import digest_keys

ClassLabel = str | bool | int | float


class _NewRows(NamedTuple):
    """Rows as `Store.add` takes them."""

    ids: np.ndarray
    keys: np.ndarray
    tokens: np.ndarray
    labels: np.ndarray
    files: Sequence[str | None] | None
    units: Sequence[str | None] | None
    contents: np.ndarray


class Additions:
    """Adds samples to a model. lock: keeps other threads from changing the memory meanwhile."""

    def __init__(self, model: LiveModel, lock: Callable[[], AbstractContextManager[None]]) -> None:
        self._model = model
        self._lock = lock

    def add(
        self,
        images: Images,
        labels: Iterable[int | str] | np.ndarray,
        units: Sequence[str | None] | None,
        allow_blocked: bool,
    ) -> AddedSamples:
        """Implement `Predictor.add`."""
        model = self._model
        if units is not None and not isinstance(units, str):
            units = unit_names(units)
        pictures, rows = model.read_inputs(images)
        class_numbers = model.samples.encode_labels(labels)
        if len(class_numbers) != len(pictures.images):
            label_count = pluralize(len(class_numbers), "label")
            raise ValueError(f"{label_count} for {pluralize(len(pictures.images), 'picture')}")
        contents = model.digest_contents(pictures, rows)
        # This also refuses a forked child, before torch is touched.
        blocked_places = np.flatnonzero(model.store.are_blocked(contents))
        if blocked_places.size and not allow_blocked:
            names = [
                pictures.files[place] or f"number {place}" for place in blocked_places.tolist()
            ]
            raise PictureError(
                f"forgotten with block_return, so nothing was added: {format_first_ten(names)};"
                " --allow-blocked (in Python, allow_blocked=True) adds them all the same"
            )
        keys = model.encoder.compute_keys(pictures.images) if rows is None else rows
        if model.fitted_model:
            keys = model.fitted_model.family.prepare_keys(keys)
            tokens = class_numbers[:, None].astype(np.float32)
        elif model.tokens_are_keys:
            tokens = keys
        else:
            # A trained neighbor lends its token for each answer, see `Retriever`.
            tokens = np.zeros((len(keys), model.manifest.token_dim), dtype=np.float32)
        with self._lock():
            ids = np.arange(self.next_id, self.next_id + len(keys))
            new = _NewRows(ids, keys, tokens, class_numbers, pictures.files, units, contents)
            return self._add_rows(new, allow_blocked)

    def add_keys(
        self,
        keys: np.ndarray,
        classes: Sequence[ClassLabel],
        dtype: str,
        ids: np.ndarray | None,
        units: Sequence[str | None] | None,
    ) -> np.ndarray:
        """Implement `EstimatorPredictor.add_keys`."""
        model = self._model
        assert model.fitted_model is not None
        stored_keys = model.fitted_model.family.prepare_keys(keys)
        with self._lock():
            manifest = model.manifest
            has_pictures = manifest.encoder is not None
            chooses_ids = ids is not None and not has_pictures
            next_id = self.next_id
            if ids is None:
                ids = np.arange(next_id, next_id + len(keys))
            known_classes = list(manifest.classes)
            known_classes += [name for name in dict.fromkeys(classes) if name not in known_classes]
            changes: dict[str, object] = {"classes": known_classes}
            if not has_pictures:
                reference = manifest.estimator or EstimatorReference(dtype=dtype)
                changes["estimator"] = reference.model_copy(update={"dtype": dtype})
            if chooses_ids:
                # The next default id follows every id used so far. Until the rows are there,
                # some numbers are skipped.
                first_new_id = max(next_id, int(ids.max(initial=-1)) + 1)
                counts = {"rows": self._total_rows, "first_new_id": first_new_id}
                changes["memory"] = manifest.memory.model_copy(update=counts)
            # The manifest goes first: no row may have a class that the manifest lacks.
            model.replace_manifest(manifest.model_copy(update=changes))
            number_by_class = {name: number for number, name in enumerate(known_classes)}
            labels = np.array([number_by_class[name] for name in classes], dtype=np.int64)
            tokens = labels[:, None].astype(np.float32)
            contents = digest_keys(stored_keys)
            self._add_rows(_NewRows(ids, stored_keys, tokens, labels, None, units, contents))
            if chooses_ids:
                memory = model.manifest.memory.model_copy(update={"rows": self._total_rows})
                model.replace_manifest(model.manifest.model_copy(update={"memory": memory}))
            return ids

    def _add_rows(self, new: _NewRows, allow_blocked: bool = False) -> AddedSamples:
        """Add checked rows, while nothing else changes the memory."""
        model = self._model
        view = model.store.view
        sums = model.fitted_model or model.head
        if sums:
            sums.require_room(len(new.ids))
        is_trained = view.ids[view.live] < model.manifest.memory.first_new_id
        if not model.fitted_model and not is_trained.any():
            raise ValueError(
                f"{model.directory}: holds no trained sample any more, so none can lend its token"
            )
        copy_ids = np.sort(model.store.find_ids_by_content(new.contents))
        copy_contents = view.records["content"][model.store.require_rows(copy_ids)]
        model.store.add(*new, allow_blocked=allow_blocked)
        identical: dict[int, tuple[int, ...]] = {}
        for new_id, content in zip(new.ids.tolist(), new.contents, strict=True):
            earlier_ids = copy_ids[(copy_contents == content).all(axis=1)]
            if earlier_ids.size:
                identical[new_id] = tuple(earlier_ids.tolist())
        return AddedSamples(new.ids, identical)

    @property
    def next_id(self) -> int:
        """The id of the next new sample.

        It follows those of the data set, of all samples added since, and of all in the memory.
        """
        memory = self._model.manifest.memory
        after_rows = int(self._model.store.view.ids.max(initial=-1)) + 1  # a dead row's id is 0
        return max(memory.first_new_id + self._total_rows - memory.rows, after_rows)

    @property
    def _total_rows(self) -> int:
        """How many rows the memory holds or has held."""
        return self._model.store.position.live + self._model.store.deletions
