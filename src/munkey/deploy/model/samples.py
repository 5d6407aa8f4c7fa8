"""The samples in a memory: select them by name, and find copies and look-alikes."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from munkey.data.intake.unit_names import find_similar_names, match_units
from munkey.deploy.errors import UnknownNamesError
from munkey.deploy.model.manifest import Manifest
from munkey.deploy.model.sources import (
    MemoryRow,
    Selection,
    SourceFiles,
    require_list,
    suggest_near_names,
)
from munkey.deploy.store.errors import UnknownIdsError
from munkey.deploy.store.rows import check_ids
from munkey.deploy.store.store import Store
from munkey.memory.chain import to_datetime

# By default, samples are look-alikes if the cosine of their keys is at least this large.
DEFAULT_SIMILARITY = 0.95
MAX_QUERIES = 1000  # maximum number of samples whose look-alikes can be found at once
BLOCK_ROWS = 65_536  # rows to read at a time


class ExactCopies(NamedTuple):
    """Exact copies of samples: other samples with the same content.

    rows: (M,) row numbers, ascending. samples: id and unit of each copy, sorted by id.
    """

    rows: np.ndarray
    samples: list[dict[str, Any]]


class Samples:
    """The samples in a memory, as `Predictor` shows them.

    manifest: a function that returns the current manifest, because its classes may change.
    """

    def __init__(self, store: Store, manifest: Callable[[], Manifest]) -> None:
        self._store = store
        self._manifest = manifest
        self.sources = SourceFiles(store, manifest().source)

    def read_ids_and_labels(self) -> tuple[np.ndarray, np.ndarray]:
        """Read ids and labels of all samples, in the order of the memory: (N,) int64 each."""
        with self._store.reading() as view:
            rows = np.flatnonzero(view.live)
            ids = view.ids[rows]
            labels = view.labels[rows]
            is_live = view.live[rows]  # read last: a concurrently deleted row reads as zero
            return ids[is_live], labels[is_live]

    def count_samples_and_labels(self, labels: np.ndarray) -> tuple[int, np.ndarray]:
        """Return the number of all samples, and which of these labels (L,) occur among them.

        Reading ends once every label has occurred, which usually takes only one block of rows.
        """
        with self._store.reading() as view:
            count = int(np.count_nonzero(view.live))
            is_present = np.zeros(len(labels), dtype=bool)
            for start in range(0, len(view.live), BLOCK_ROWS):
                block = slice(start, start + BLOCK_ROWS)
                block_labels = np.array(view.labels[block])
                is_live = view.live[block]  # read last: a concurrently deleted row reads as zero
                is_present |= np.isin(labels, block_labels[is_live])
                if is_present.all():
                    break
        return count, labels[is_present]

    def read_keys(self) -> tuple[np.ndarray, np.ndarray]:
        """Read ids and keys of all samples, sorted by id: (N,) int64 and (N, d) float32."""
        with self._store.reading() as view:
            rows = np.flatnonzero(view.live)
            ids = view.ids[rows]
            keys = np.array(view.keys[rows])
            is_live = view.live[rows]  # read last: a concurrently deleted row reads as zero
        order = np.argsort(ids[is_live])
        return ids[is_live][order], keys[is_live][order]

    @property
    def ids(self) -> np.ndarray:
        """The ids of all samples, in ascending order: (N,) int64."""
        return np.sort(self.read_ids_and_labels()[0])

    @property
    def classes(self) -> dict[int, str]:
        """The class names by class index."""
        return dict(enumerate(self._manifest().names))

    def encode_labels(self, labels: Iterable[int | str] | np.ndarray) -> np.ndarray:
        """Convert labels, each a class name or a class index, to class indices (N,).

        Raises ValueError if a label is not a class; the message lists the classes.
        """
        manifest = self._manifest()
        class_names = manifest.names
        labels = require_list("labels", labels)
        text_labels = {label for label in labels if isinstance(label, str)}
        matching_names = match_units(text_labels, class_names)
        class_indices: list[Any] = []
        for label in labels:
            class_index: Any = label
            if isinstance(label, str) and len(matching_names[label]) == 1:
                class_index = class_names.index(matching_names[label][0])
            if not _is_class_index(class_index, manifest.classes):
                raise ValueError(_describe_unknown_class(class_index, class_names))
            class_indices.append(class_index)
        return np.array(class_indices, dtype=np.int64)

    def list_rows(
        self,
        labels: Iterable[int | str],
        units: Iterable[str | None],
        files: Iterable[str | Path],
    ) -> list[MemoryRow]:
        """List the samples, sorted by id, with class, file, unit, and time of addition.

        If labels, units or files are given, only samples that match one of each given kind are
        listed; the unit None stands for samples without a unit. Raises UnknownNamesError if a file
        or unit matches no sample, AmbiguousFileError if a name matches more than one file, and
        ValueError if a label is not a class of the model.
        """
        class_indices = set(self.encode_labels(labels).tolist())
        units = require_list("units", units)
        wants_rows_without_unit = None in units
        unit_names = [unit for unit in units if unit is not None]
        ids_by_unit, unit_hint = self._find_ids_by_unit(unit_names)
        ids_by_file = self.sources.find_ids_by_name(files)
        missing_files = [name for name, ids in ids_by_file.items() if not ids]
        missing_units = [f"unit {unit}" for unit, ids in ids_by_unit.items() if not ids]
        if missing_files or missing_units:
            hint = f"{unit_hint}{self.sources.suggest_names(missing_files)}".rstrip()
            raise UnknownNamesError([*missing_files, *missing_units], hint)
        ids_of_units = set().union(*ids_by_unit.values())
        ids_of_files = set().union(*ids_by_file.values())
        classes = self.classes
        records, sources = self.sources.read_records()
        columns = [records[name].tolist() for name in ("id", "label", "added")]
        rows = []
        for sample_id, label, added, (file, unit) in zip(*columns, sources, strict=True):
            has_class = not class_indices or label in class_indices
            is_wanted_without_unit = wants_rows_without_unit and unit is None
            has_unit = not units or sample_id in ids_of_units or is_wanted_without_unit
            has_file = not ids_by_file or sample_id in ids_of_files
            if not (has_class and has_unit and has_file):
                continue
            row = MemoryRow(
                id=sample_id,
                label=classes.get(label),
                file=self.sources.locate(file),
                unit=unit,
                added=to_datetime(added),
            )
            rows.append(row)
        return sorted(rows)  # by id, the first field

    def select(
        self,
        *,
        ids: ArrayLike | Iterable[int] = (),
        files: Iterable[str | Path] = (),
        labels: Iterable[int | str] = (),
        units: Iterable[str] = (),
        ignore_missing: bool = False,
        request: str | None = None,
    ) -> Selection:
        """Find the samples that have any of these ids, source files, classes, or units.

        Raises UnknownIdsError or UnknownNamesError if an id or name matches no sample, unless
        `ignore_missing` is set or the request number was carried out before. Raises
        AmbiguousFileError if a name matches more than one file, and ValueError if something is not
        an id, or not a class of the model.
        """
        requested_ids = np.unique(check_ids(ids))
        present_ids, present_labels = self.read_ids_and_labels()
        classes = self.classes
        unknown_ids: list[int] = np.setdiff1d(requested_ids, present_ids).tolist()
        # A list of pairs, because a file, a class, and a unit may have the same name.
        ids_by_name: list[tuple[str, Iterable[int]]] = [
            *self.sources.find_ids_by_name(files).items()
        ]
        missing_files = [name for name, file_ids in ids_by_name if not file_ids]
        ids_by_unit, unit_hint = self._find_ids_by_unit(require_list("units", units))
        for label in self.encode_labels(labels):
            class_ids = present_ids[present_labels == label].tolist()
            ids_by_name.append((f"class {classes[label]}", class_ids))
        for unit, unit_ids in ids_by_unit.items():
            ids_by_name.append((f"unit {unit}", unit_ids))
        missing_names = [name for name, name_ids in ids_by_name if not name_ids]
        # If the request was carried out before, its samples are gone. That is not an error, and the
        # names of their files are not mistyped.
        earlier_receipt = None
        if request is not None:
            earlier_receipt = self._store.find_receipt(request)
        file_hint = ""
        if earlier_receipt is None or not earlier_receipt.sequences:
            file_hint = self.sources.suggest_names(missing_files)
        hint = f"{unit_hint}{file_hint}".rstrip()
        if (unknown_ids or missing_names) and not ignore_missing and earlier_receipt is None:
            if missing_names:
                raise UnknownNamesError([*map(str, unknown_ids), *missing_names], hint)
            raise UnknownIdsError(unknown_ids)
        selected_ids = set(requested_ids.tolist())
        for _, name_ids in ids_by_name:
            selected_ids.update(name_ids)
        is_selected = np.isin(present_ids, list(selected_ids))
        class_counts: dict[str, int] = {}
        selected_labels, counts = np.unique(present_labels[is_selected], return_counts=True)
        for label, count in zip(selected_labels.tolist(), counts.tolist(), strict=True):
            class_counts[classes.get(label, str(label))] = count
        return Selection(
            ids=np.sort(present_ids[is_selected]),
            missing=(*map(str, unknown_ids), *missing_names),
            classes=class_counts,
            hint=hint,
        )

    def _find_ids_by_unit(self, units: Sequence[str]) -> tuple[dict[str, list[int]], str]:
        """Return the ids of each unit, by its name, and a hint that suggests similar names.

        If no unit has exactly a given name, the name matches units that differ from it only in Unicode
        form or surrounding spaces. A name without samples gets an empty list. The hint is empty if
        no name is missing, or none is similar.
        """
        ids_by_unit = {
            unit: self._store.find_ids_by_source(unit, "unit").tolist() for unit in units
        }
        unmatched_units = [unit for unit, ids in ids_by_unit.items() if not ids]
        if not unmatched_units:
            return ids_by_unit, ""
        present_units = {unit for _, unit in self.sources.read_records()[1] if unit}
        for unit, spellings in match_units(unmatched_units, present_units).items():
            for spelling in spellings:
                ids_by_unit[unit] += self._store.find_ids_by_source(spelling, "unit").tolist()
        missing = [unit for unit in unmatched_units if not ids_by_unit[unit]]
        return ids_by_unit, suggest_near_names("unit", missing, present_units)

    def find_similar(self, ids: ArrayLike | Iterable[int], above: float) -> dict[int, float]:
        """Return the look-alikes of samples: the largest cosine of each, by id, in descending order.

        Their cosine is at least `above`. Exact copies are not included, and unknown ids are
        skipped. Raises ValueError if `above` is not in (0, 1], or if there are more than
        MAX_QUERIES samples.
        """
        if not 0 < above <= 1:
            raise ValueError(f"above = {above}: must be a cosine above 0, and at most 1")
        with self._store.reading() as view:
            rows = np.flatnonzero(view.live & np.isin(view.ids, check_ids(ids)))
            if len(rows) > MAX_QUERIES:
                raise ValueError(
                    f"look-alikes of {len(rows):,} samples: at most {MAX_QUERIES:,} in one call"
                )
            # The largest cosine of each row's key with the key of any query.
            cosines = np.zeros(len(view.live), dtype=np.float32)
            if len(rows):
                queries = _normalize_keys(view.keys[rows])
                for start in range(0, len(cosines), BLOCK_ROWS):
                    block = slice(start, start + BLOCK_ROWS)
                    cosines[block] = (_normalize_keys(view.keys[block]) @ queries.T).max(axis=1)
            # Neither the samples themselves nor their exact copies are look-alikes.
            cosines[[*rows, *self._store.find_copies(rows)]] = 0
            similar_rows = np.flatnonzero(view.live & (cosines >= above))
            # By descending cosine, then by ascending id. `lexsort` sorts by its last key first.
            order = np.lexsort((view.ids[similar_rows], -cosines[similar_rows]))
            similar_rows = similar_rows[order]
            similar_ids = view.ids[similar_rows].tolist()
            return dict(zip(similar_ids, cosines[similar_rows].tolist(), strict=True))

    def find_copies_by_id(self, ids: np.ndarray) -> ExactCopies:
        """Find other samples that are exact copies of the samples with these ids (N,)."""
        with self._store.reading() as view:
            return self.find_copies_by_row(np.flatnonzero(view.live & np.isin(view.ids, ids)))

    def find_copies_by_row(self, rows: np.ndarray) -> ExactCopies:
        """Find other samples that are exact copies of these rows (N,) of the current generation."""
        with self._store.reading():
            copies = self._store.find_copies(rows)
            return ExactCopies(copies, self._read_ids_and_units(copies))

    def _read_ids_and_units(self, rows: np.ndarray) -> list[dict[str, Any]]:
        """Read id and unit of these rows of the current generation, sorted by id."""
        if not len(rows):  # save a query: most deletions have no copies
            return []
        with self._store.reading() as view:
            ids = view.ids[rows]
            order = np.argsort(ids)
            sources = self._store.read_sources(rows[order])
        samples = []
        for sample_id, (_, unit) in zip(ids[order].tolist(), sources, strict=True):
            samples.append({"id": sample_id, "unit": unit})
        return samples

    def read_units(self, ids: np.ndarray) -> dict[int, str | None]:
        """Read the unit of each sample with one of these ids, by id. Unknown ids are skipped."""
        with self._store.reading() as view:
            rows = np.flatnonzero(view.live & np.isin(view.ids, ids))
            return {sample["id"]: sample["unit"] for sample in self._read_ids_and_units(rows)}


def _is_class_index(value: object, classes: Sequence[object]) -> bool:
    """Return whether a value is the index of a class that has a name."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        return False
    # The name of a class without rows may be None, because an estimator has removed it.
    index = int(value)
    return 0 <= index < len(classes) and classes[index] is not None


def _describe_unknown_class(label: object, names: Sequence[str]) -> str:
    """Format the error message for a label that is not a class."""
    text = str(label)
    close_names = [repr(name) for name in find_similar_names([text], names)[text]]
    suggestion = ""
    if close_names:
        suggestion = f"similar: {' or '.join(close_names)}; "
    listed_names = ", ".join(names[:20])
    if len(names) > 20:
        listed_names += ", …"
    return (
        f"{label!r} is not the name of a class of this model; {suggestion}its classes are:"
        f" {listed_names}"
    )


def _normalize_keys(keys: np.ndarray) -> np.ndarray:
    """Scale keys (N, d) to unit norm. Deleted rows stay zero."""
    norms = np.linalg.norm(keys, axis=1, keepdims=True)
    return np.asarray(keys / norms.clip(min=1e-12))
