"""Add new samples to the memory of a model, without training."""

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
    """Rows to add. The fields are the arguments of `Store.add`, in its order."""

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
        """Add samples, given as pictures or rows, and return their new ids.

        The keys are computed here. Parameters and errors are those of `Predictor.add`.
        """
        model = self._model
        if units is not None and not isinstance(units, str):
            units = unit_names(units)
        pictures, rows = model.read_inputs(images)
        class_indices = model.samples.encode_labels(labels)
        if len(class_indices) != len(pictures.images):
            label_count = pluralize(len(class_indices), "label")
            raise ValueError(f"{label_count} for {pluralize(len(pictures.images), 'picture')}")
        contents = model.digest_contents(pictures, rows)
        # In a forked child, `store` raises an error here. The encoder below uses torch, which would
        # wait forever.
        blocked_indices = np.flatnonzero(model.store.are_blocked(contents))
        if len(blocked_indices) and not allow_blocked:
            names = []
            for index in blocked_indices.tolist():
                names.append(pictures.files[index] or f"number {index}")
            raise PictureError(
                f"forgotten with block_return, so nothing was added: {format_first_ten(names)};"
                " --allow-blocked (in Python, allow_blocked=True) adds them anyway"
            )
        if rows is None:
            keys = model.encoder.compute_keys(pictures.images)
        else:
            keys = rows
        if model.fitted_model:
            keys = model.fitted_model.family.prepare_keys(keys)
        tokens = self._make_tokens(keys, class_indices)
        with self._lock():
            first_id = self.next_id
            ids = np.arange(first_id, first_id + len(keys))
            new_rows = _NewRows(
                ids=ids,
                keys=keys,
                tokens=tokens,
                labels=class_indices,
                files=pictures.files,
                units=units,
                contents=contents,
            )
            return self._add_rows(new_rows, allow_blocked)

    def _make_tokens(self, keys: np.ndarray, class_indices: np.ndarray) -> np.ndarray:
        """Make the tokens (N, m) of new rows with these keys (N, d) and classes (N,)."""
        model = self._model
        if model.fitted_model:
            return class_indices[:, None].astype(np.float32)  # the token is the class
        if model.tokens_are_keys:
            return keys
        # New rows have no token: for each prediction, trained rows lend theirs (`Retriever`).
        return np.zeros((len(keys), model.manifest.token_dim), dtype=np.float32)

    def add_keys(
        self,
        keys: np.ndarray,
        classes: Sequence[ClassLabel],
        dtype: str,
        ids: np.ndarray | None,
        units: Sequence[str | None] | None,
    ) -> np.ndarray:
        """Add rows of a fitted family, given their keys, and return their ids.

        Parameters and errors are those of `EstimatorPredictor.add_keys`. Classes that are new are
        appended to the manifest.
        """
        model = self._model
        assert model.fitted_model is not None, "only a fitted family learns from keys alone"
        stored_keys = model.fitted_model.family.prepare_keys(keys)
        with self._lock():
            manifest = model.manifest
            has_encoder = manifest.encoder is not None
            has_chosen_ids = ids is not None
            assert not (has_encoder and has_chosen_ids), "an exported model numbers its own rows"
            next_id = self.next_id
            if ids is None:
                ids = np.arange(next_id, next_id + len(keys))
            all_classes = list(manifest.classes)
            if not has_encoder and not model.store.view.live.any():
                # The names of earlier classes may be of another type, such as numbers before text.
                all_classes = [None] * len(all_classes)
            for class_name in dict.fromkeys(classes):
                if class_name not in all_classes:
                    all_classes.append(class_name)
            changes: dict[str, object] = {"classes": all_classes}
            if not has_encoder:
                reference = manifest.estimator or EstimatorReference(dtype=dtype)
                changes["estimator"] = reference.model_copy(update={"dtype": dtype})
            if has_chosen_ids:
                # The next default id must be larger than every id used so far. `first_new_id` is
                # recorded before the rows are added: an interruption in between skips ids, but no
                # id is used twice. `next_id` is `first_new_id` plus the number of rows added since
                # `rows` was recorded, so `rows` is recorded again below.
                first_new_id = max(next_id, int(ids.max(initial=-1)) + 1)
                counts = {"rows": self._total_rows, "first_new_id": first_new_id}
                changes["memory"] = manifest.memory.model_copy(update=counts)
            # The manifest goes first, because no row may have a class that it does not list.
            model.replace_manifest(manifest.model_copy(update=changes))
            index_by_class = {name: index for index, name in enumerate(all_classes)}
            labels = np.array([index_by_class[name] for name in classes], dtype=np.int64)
            tokens = self._make_tokens(stored_keys, labels)
            contents = digest_keys(stored_keys)
            new_rows = _NewRows(
                ids=ids,
                keys=stored_keys,
                tokens=tokens,
                labels=labels,
                files=None,
                units=units,
                contents=contents,
            )
            self._add_rows(new_rows)
            if has_chosen_ids:
                memory = model.manifest.memory.model_copy(update={"rows": self._total_rows})
                model.replace_manifest(model.manifest.model_copy(update={"memory": memory}))
            return ids

    def _add_rows(self, new_rows: _NewRows, allow_blocked: bool = False) -> AddedSamples:
        """Add rows that were checked, and find their earlier exact copies.

        The caller must hold the lock. allow_blocked: also add contents that were deleted with
        `block_return`. Raises ValueError if a fitted family cannot have that many rows, or if MUNKEY's memory has
        no trained sample left.
        """
        model = self._model
        view = model.store.view
        model_with_sums = model.fitted_model or model.head
        if model_with_sums:
            model_with_sums.require_room(len(new_rows.ids))
        is_trained = view.ids[view.live] < model.manifest.memory.first_new_id
        if not model.fitted_model and not is_trained.any():
            raise ValueError(
                f"{model.directory}: no longer holds a trained sample that could lend its token"
            )
        # Find the earlier rows that are exact copies of new ones, before these are in the memory.
        earlier_ids = np.sort(model.store.find_ids_by_content(new_rows.contents))
        earlier_contents = view.records["content"][model.store.require_rows(earlier_ids)]
        model.store.add(*new_rows, allow_blocked=allow_blocked)
        identical: dict[int, tuple[int, ...]] = {}
        for new_id, content in zip(new_rows.ids.tolist(), new_rows.contents, strict=True):
            is_copy = (earlier_contents == content).all(axis=1)
            if is_copy.any():
                identical[new_id] = tuple(earlier_ids[is_copy].tolist())
        return AddedSamples(new_rows.ids, identical)

    @property
    def next_id(self) -> int:
        """The id of the next new sample.

        It is larger than all ids in the data set, all ids that were given to new samples, and all
        ids in the memory.
        """
        memory = self._model.manifest.memory
        added_count = self._total_rows - memory.rows  # including rows that were deleted since
        largest_id = int(self._model.store.view.ids.max(initial=-1))  # the id of a dead row is 0
        return max(memory.first_new_id + added_count, largest_id + 1)

    @property
    def _total_rows(self) -> int:
        """Number of rows that were ever added to the memory."""
        return self._model.store.position.live + self._model.store.deletions
