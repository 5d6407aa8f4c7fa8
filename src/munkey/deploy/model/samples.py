"""The samples in a memory: select them by name, and find copies."""

from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from munkey.core.ids import NO_NEIGHBOR
from munkey.data.intake.unit_names import find_similar_names, match_units
from munkey.deploy.errors import UnknownNamesError
from munkey.deploy.model.sources import (
    MemoryRow,
    Selection,
    SourceFiles,
    require_list,
    suggest_near_names,
)
from munkey.memory.chain import Receipt, to_datetime
from munkey.memory.errors import UnknownIdsError
from munkey.memory.memory_file import Snapshot
from munkey.memory.rows import check_ids

BLOCK_ROWS = 65_536  # rows to read at a time


class ExactCopies(NamedTuple):
    """Exact copies of samples: other samples with the same content.

    rows: (M,) their rows, ascending. samples: id and unit of each copy, sorted by id.
    """

    rows: np.ndarray
    samples: list[dict[str, Any]]


class Samples:
    """The samples in a memory at one moment, by their names.

    root: the folder of the data set, if it is known.
    """

    def __init__(self, snapshot: Snapshot, root: str | None) -> None:
        self.memory = snapshot.memory
        self._class_names = snapshot.classes
        self.sources = SourceFiles(self.memory, root)

    @property
    def ids(self) -> np.ndarray:
        """The ids of all samples, in ascending order: (N,) int64."""
        return self.memory.ids[self.memory.live_rows]

    @property
    def labels(self) -> np.ndarray:
        """The class index of each sample, in the order of `ids`: (N,) int64."""
        return self.memory.labels[self.memory.live_rows]

    @cached_property
    def classes(self) -> dict[int, str]:
        """The class names by class index."""
        return dict(enumerate(self._class_names.texts))

    def find_present(self, labels: np.ndarray) -> np.ndarray:
        """Return which of these labels (L,) occur among the samples.

        Reading ends once every label has occurred, which usually takes only one block of rows.
        """
        is_present = np.zeros(len(labels), dtype=bool)
        for start in range(0, len(self.memory.live), BLOCK_ROWS):
            block = slice(start, start + BLOCK_ROWS)
            live_labels = self.memory.labels[block][self.memory.live[block]]
            is_present |= np.isin(labels, live_labels)
            if is_present.all():
                break
        return labels[is_present]

    def count_classes(self, rows: np.ndarray) -> dict[str, int]:
        """Count these rows (N,) by the name of their class."""
        labels, counts = np.unique(self.memory.labels[rows], return_counts=True)
        names = [self.classes.get(label, str(label)) for label in labels.tolist()]
        return dict(zip(names, counts.tolist(), strict=True))

    def encode_labels(self, labels: Iterable[int | str] | np.ndarray) -> np.ndarray:
        """Convert labels, each a class name or a class index, to class indices (N,).

        Raises ValueError if a label is not a class; the message lists the classes.
        """
        class_names = self._class_names.texts
        labels = require_list("labels", labels)
        text_labels = {label for label in labels if isinstance(label, str)}
        matching_names = match_units(text_labels, class_names)
        class_indices: list[Any] = []
        for label in labels:
            class_index: Any = label
            if isinstance(label, str) and len(matching_names[label]) == 1:
                class_index = class_names.index(matching_names[label][0])
            if not _is_class_index(class_index, self._class_names.names):
                raise ValueError(_describe_unknown_class(class_index, class_names))
            class_indices.append(class_index)
        return np.array(class_indices, dtype=np.int64)

    def list_rows(
        self,
        labels: Iterable[int | str],
        units: Iterable[str | None],
        files: Iterable[str | Path],
    ) -> list[MemoryRow]:
        """List the samples, sorted by id. See `Predictor.rows` for the parameters and errors."""
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
        columns = self.memory.columns.take(self.memory.live_rows)
        records = zip(
            columns.ids.tolist(),
            columns.labels.tolist(),
            columns.added.tolist(),
            columns.files,
            columns.units,
            strict=True,
        )
        rows = []
        for sample_id, label, added, file, unit in records:
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
        return rows  # sorted by id, as the memory is

    def select(
        self,
        *,
        ids: ArrayLike | Iterable[int] = (),
        files: Iterable[str | Path] = (),
        labels: Iterable[int | str] = (),
        units: Iterable[str] = (),
        ignore_missing: bool = False,
        earlier_receipt: Receipt | None = None,
    ) -> Selection:
        """Find the samples that have any of these ids, source files, classes, or units.

        See `Predictor.select`. earlier_receipt: the receipt if the request was carried out before.
        Names without samples are then no error.
        """
        requested_ids = np.unique(check_ids(ids))
        present_ids = self.ids
        present_labels = self.labels
        classes = self.classes
        unknown_ids: list[int] = np.setdiff1d(requested_ids, present_ids).tolist()
        # A list of pairs, because a file, a class, and a unit may have the same name.
        ids_by_name: list[tuple[str, Iterable[int]]] = [
            *self.sources.find_ids_by_name(files).items()
        ]
        missing_files = [name for name, file_ids in ids_by_name if not file_ids]
        unit_list = require_list("units", units)
        if None in unit_list:
            raise ValueError("units contains None, which is no unit; leave it out")
        ids_by_unit, unit_hint = self._find_ids_by_unit(unit_list)
        for label in self.encode_labels(labels):
            class_ids = present_ids[present_labels == label].tolist()
            ids_by_name.append((f"class {classes[label]}", class_ids))
        for unit, unit_ids in ids_by_unit.items():
            ids_by_name.append((f"unit {unit}", unit_ids))
        missing_names = [name for name, name_ids in ids_by_name if not name_ids]
        # If the request was carried out before, its samples are gone. That is not an error, and the
        # names of their files are not mistyped.
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
        return Selection(
            ids=present_ids[is_selected],
            missing=(*map(str, unknown_ids), *missing_names),
            classes=self.count_classes(self.memory.live_rows[is_selected]),
            hint=hint,
        )

    def _find_ids_by_unit(self, units: Sequence[str]) -> tuple[dict[str, list[int]], str]:
        """Return the ids of each unit, by its name, and a hint that suggests similar names.

        A name without samples gets an empty list.
        """
        ids_by_unit = self._group_by_unit(units)
        unmatched_units = [unit for unit, ids in ids_by_unit.items() if not ids]
        if not unmatched_units:
            return ids_by_unit, ""
        columns = self.memory.columns.take(self.memory.live_rows)
        present_units = {unit for unit in columns.units if unit}
        # Units that differ only in Unicode form or surrounding spaces.
        for unit, spellings in match_units(unmatched_units, present_units).items():
            for ids in self._group_by_unit(spellings).values():
                ids_by_unit[unit] += ids
        missing = [unit for unit in unmatched_units if not ids_by_unit[unit]]
        return ids_by_unit, suggest_near_names("unit", missing, present_units)

    def _group_by_unit(self, units: Iterable[str]) -> dict[str, list[int]]:
        """Return the ids of the samples of each unit, by its name."""
        ids_by_unit: dict[str, list[int]] = {unit: [] for unit in units}
        rows = self.memory.find_units(ids_by_unit)
        for unit, sample_id in zip(
            self.memory.columns.units[rows], self.memory.ids[rows].tolist(), strict=True
        ):
            ids_by_unit[unit].append(sample_id)
        return ids_by_unit

    def _find_known_rows(self, ids: np.ndarray) -> np.ndarray:
        """Return the rows of these ids (N,), ascending. Unknown ids are skipped."""
        rows = self.memory.find_rows(np.unique(ids))
        return rows[rows != NO_NEIGHBOR]

    def find_copies_by_id(self, ids: np.ndarray) -> ExactCopies:
        """Find other samples that are exact copies of the samples with these ids (N,)."""
        return self.find_copies_by_row(self._find_known_rows(ids))

    def find_copies_by_row(self, rows: np.ndarray) -> ExactCopies:
        """Find other samples that are exact copies of these rows (N,)."""
        copies = self.memory.find_copies(rows)
        samples = []
        for sample_id, unit in zip(
            self.memory.ids[copies].tolist(), self.memory.columns.units[copies], strict=True
        ):
            samples.append({"id": sample_id, "unit": unit})
        return ExactCopies(copies, samples)


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
