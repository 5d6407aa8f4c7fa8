"""Add new samples to the memory of a model, without training."""

from collections.abc import Iterable, Sequence

import numpy as np

from munkey.core.console import pluralize
from munkey.data.intake.unit_names import unit_names
from munkey.deploy.errors import PictureError, format_first_ten
from munkey.deploy.model.images import Images
from munkey.deploy.model.live_model import LiveModel
from munkey.deploy.model.sources import AddedSamples
from munkey.memory.memory_file import Change, Class, NewRows, check_rows
from munkey.memory.rows import digest_keys

ClassLabel = str | bool | int | float


class Additions:
    """Adds samples to a model."""

    def __init__(self, model: LiveModel) -> None:
        self._model = model

    def add(
        self,
        images: Images,
        labels: Iterable[Class] | np.ndarray,
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
        class_names = model.snapshot().classes.names
        class_indices = model.samples().encode_labels(labels)
        if len(class_indices) != len(pictures.images):
            label_count = pluralize(len(class_indices), "label")
            raise ValueError(f"{label_count} for {pluralize(len(pictures.images), 'picture')}")
        contents = model.digest_contents(pictures, rows)
        # In a forked child, this raises an error. The encoder below uses torch, which would wait
        # forever.
        blocked_indices = np.flatnonzero(model.file.are_blocked(contents))
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
            _require_within_bound(rows, model.bound)
            keys = rows
        if model.fitted_model:
            keys = model.fitted_model.family.prepare_keys(keys)
        tokens = self._make_tokens(keys, class_indices)
        with model.file.change() as change:
            _require_same_classes(class_indices, class_names, change.snapshot.classes.names)
            next_id = change.snapshot.state.next_id
            ids = np.arange(next_id, next_id + len(keys))
            new_rows = check_rows(ids, keys, tokens, class_indices, pictures.files, units, contents)
            return self._add_rows(change, new_rows, allow_blocked)

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
        appended to those of the memory.
        """
        model = self._model
        assert model.fitted_model is not None, "only a fitted family learns from keys alone"
        stored_keys = model.fitted_model.family.prepare_keys(keys)
        with model.file.change() as change:
            has_encoder = model.manifest.encoder is not None
            assert ids is None or not has_encoder, "an exported model numbers its own rows"
            next_id = change.snapshot.state.next_id
            if ids is None:
                ids = np.arange(next_id, next_id + len(keys))
            all_classes = change.snapshot.classes
            if not has_encoder and not len(change.snapshot.memory):
                # The names of earlier classes may be of another type, such as numbers before text.
                all_classes = all_classes.forget_empty(np.empty(0, dtype=np.int64))
            all_classes = all_classes.add(classes, None if has_encoder else dtype)
            if all_classes != change.snapshot.classes:
                change.replace_classes(all_classes)
            index_by_class = {name: index for index, name in enumerate(all_classes.names)}
            labels = np.array([index_by_class[name] for name in classes], dtype=np.int64)
            new_rows = check_rows(
                ids,
                stored_keys,
                self._make_tokens(stored_keys, labels),
                labels,
                units=units,
                contents=digest_keys(stored_keys),
            )
            return self._add_rows(change, new_rows).ids

    def _add_rows(
        self, change: Change, new_rows: NewRows, allow_blocked: bool = False
    ) -> AddedSamples:
        """Add rows, and find their earlier exact copies. Raises ValueError if they cannot be added."""
        model = self._model
        memory = change.snapshot.memory
        model_with_sums = model.fitted_model or model.head
        if model_with_sums:
            model_with_sums.require_room(change.snapshot, len(new_rows.ids))
        is_trained = memory.ids[memory.live_rows] < model.manifest.memory.first_new_id
        if not model.fitted_model and not is_trained.any():
            raise ValueError(
                f"{model.directory}: no longer holds a trained sample that could lend its token"
            )
        earlier_rows = memory.find_contents(new_rows.contents)
        earlier_ids = memory.ids[earlier_rows]
        earlier_contents = memory.columns.contents[earlier_rows]
        change.add(new_rows, allow_blocked=allow_blocked)
        identical: dict[int, tuple[int, ...]] = {}
        for new_id, content in zip(new_rows.ids.tolist(), new_rows.contents, strict=True):
            is_copy = (earlier_contents == content).all(axis=1)
            if is_copy.any():
                identical[new_id] = tuple(earlier_ids[is_copy].tolist())
        return AddedSamples(new_rows.ids, identical)


def _require_within_bound(rows: np.ndarray, bound: float | None) -> None:
    """Raise ValueError if a number in rows, which are divided by `bound`, exceeds it."""
    if bound is not None and rows.size and np.abs(rows).max() > 1:
        row, column = np.unravel_index(np.abs(rows).argmax(), rows.shape)
        value = float(rows[row, column]) * bound
        raise ValueError(
            f"row {row}, column {column}: {value:g} is beyond the model's bound, {bound:g}, so"
            " nothing was added; scale the rows, or fit a model with a larger bound"
        )


def _require_same_classes(
    class_indices: np.ndarray, names: Sequence[object], names_now: Sequence[object]
) -> None:
    """Raise ValueError if another process forgot a class since its index was looked up."""
    for index in np.unique(class_indices).tolist():
        if list(names[index : index + 1]) != list(names_now[index : index + 1]):
            raise ValueError(
                f"the class {names[index]} was forgotten meanwhile, so nothing was added"
            )
