"""The samples in a memory: select them by name, and find copies."""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard

import numpy as np
from numpy.typing import ArrayLike

from munkey.core.ids import NO_NEIGHBOR
from munkey.data.intake.unit_names import match_classes, unit_name
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
from munkey.memory.memory_file import Class, Snapshot
from munkey.memory.rows import check_ids

BLOCK_ROWS = 65_536  # rows to read at a time
MAX_CLASSES_LISTED = 20  # in messages
NUMBER_AS_NAME = re.compile(r"-?[0-9]+(\.0+)?")


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

    def encode_labels(self, labels: Iterable[Class] | np.ndarray) -> np.ndarray:
        """Convert labels to class indices (N,). See `find_classes` for what a label can be.

        Raises ValueError if a label is not a class; the message lists the classes.
        """
        labels = require_list("labels", labels)
        class_indices = self.find_classes(labels)
        for label, index in zip(labels, class_indices, strict=True):
            if index is None:
                raise ValueError(
                    f"{label!r} is not a class of this model. {self.suggest_classes([label])}"
                )
        return np.array(class_indices, dtype=np.int64)

    def find_classes(self, labels: Sequence[Class]) -> list[int | None]:
        """Return the class index of each label, and None for one that is not a class.

        A label is the name of a class, or its number if the class is named like a number. Only if no
        class is, a number is a class index.
        """
        names = self._class_names.names
        class_indices = match_classes(labels, names)
        if any(_is_named_like_number(name) for name in names if name is not None):
            return class_indices
        for position, label in enumerate(labels):
            # The name of a class without rows may be None, because an estimator has removed it.
            if _is_class_index(label, len(names)) and names[int(label)] is not None:
                class_indices[position] = int(label)
        return class_indices

    def suggest_classes(self, unknown: Sequence[Class]) -> str:
        """Return sentences that suggest names similar to unknown ones, and list the classes.

        Returns an empty string if none are unknown.
        """
        if not unknown:
            return ""
        texts = [text for text in self._class_names.texts if text]
        suggestion = suggest_near_names("class", map(str, unknown), texts)
        listed_names = ", ".join(texts[:MAX_CLASSES_LISTED])
        if len(texts) > MAX_CLASSES_LISTED:
            listed_names += ", …"
        return f"{suggestion}The classes are {listed_names}. "

    def list_rows(
        self,
        labels: Iterable[Class],
        units: Iterable[str | None],
        files: Iterable[str | Path],
    ) -> list[MemoryRow]:
        """List the samples, sorted by id. See `Predictor.rows` for the parameters and errors."""
        labels = require_list("labels", labels)
        class_indices = self.find_classes(labels)
        missing_labels = _list_missing(labels, class_indices)
        units = require_list("units", units)
        wants_rows_without_unit = None in units
        named_units = _require_names([unit for unit in units if unit is not None])
        ids_by_unit, unit_hint = self._find_ids_by_unit(named_units)
        ids_by_file = self.sources.find_ids_by_name(files)
        missing_files = [name for name, ids in ids_by_file.items() if not ids]
        missing = [
            *missing_files,
            *(f"class {label}" for label in missing_labels),
            *(f"unit {unit}" for unit, ids in ids_by_unit.items() if not ids),
        ]
        if missing:
            class_hint = self.suggest_classes(missing_labels)
            file_hint = self.sources.suggest_names(missing_files)
            raise UnknownNamesError(missing, f"{class_hint}{unit_hint}{file_hint}".rstrip())
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
        labels: Iterable[Class] = (),
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
        unit_list = _require_names(require_list("units", units))
        ids_by_unit, unit_hint = self._find_ids_by_unit(unit_list)
        label_list = require_list("labels", labels)
        class_indices = self.find_classes(label_list)
        missing_labels = _list_missing(label_list, class_indices)
        for label, index in zip(label_list, class_indices, strict=True):
            if index is None:
                ids_by_name.append((f"class {label}", []))
            else:
                class_ids = present_ids[present_labels == index].tolist()
                ids_by_name.append((f"class {classes[index]}", class_ids))
        for unit, unit_ids in ids_by_unit.items():
            ids_by_name.append((f"unit {unit}", unit_ids))
        missing_names = list(dict.fromkeys(name for name, name_ids in ids_by_name if not name_ids))
        # If the request was carried out before, its samples are gone. That is not an error, and the
        # names of their files are not mistyped.
        class_hint = ""
        file_hint = ""
        if earlier_receipt is None or not earlier_receipt.sequences:
            class_hint = self.suggest_classes(missing_labels)
            file_hint = self.sources.suggest_names(missing_files)
        hint = f"{class_hint}{unit_hint}{file_hint}".rstrip()
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
        # A memory stores normalized names (`check_rows`), so each unit has only one spelling.
        ids_by_unit: dict[str, list[int]] = {unit: [] for unit in units}
        rows = self.memory.find_units(ids_by_unit)
        for unit, sample_id in zip(
            self.memory.columns.units[rows], self.memory.ids[rows].tolist(), strict=True
        ):
            ids_by_unit[unit].append(sample_id)
        missing = [unit for unit, ids in ids_by_unit.items() if not ids]
        if not missing:
            return ids_by_unit, ""
        columns = self.memory.columns.take(self.memory.live_rows)
        present_units = {unit for unit in columns.units if unit}
        return ids_by_unit, suggest_near_names("unit", missing, present_units)

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


def require_one_kind(names_by_kind: Mapping[str, Sequence[Any]]) -> None:
    """Raise ValueError if there are names of several kinds, such as files and units.

    It would be unclear whether the samples that match all of them are meant, or any.
    """
    given_kinds = [kind for kind, names in names_by_kind.items() if names]
    if len(given_kinds) > 1:
        raise ValueError(
            f"{' and '.join(given_kinds)} together are ambiguous: use only one of them. For the"
            " samples that match each, write them on one line of a CSV file (munkey forget --csv)"
        )


def _list_missing(labels: Sequence[Class], class_indices: Sequence[int | None]) -> list[str]:
    """Return the labels that are not a class as text, once each."""
    pairs = zip(labels, class_indices, strict=True)
    return list(dict.fromkeys(str(label) for label, index in pairs if index is None))


def _require_names(units: Sequence[Any]) -> list[str]:
    """Return the names of units, normalized. Raises ValueError if one means no unit, such as NA."""
    names = []
    for unit in units:
        name = unit_name(unit)
        if name is None:
            raise ValueError(f"units contains {unit!r}, which is no unit; leave it out")
        names.append(name)
    return names


def _is_class_index(value: object, count: int) -> TypeGuard[int | np.integer]:
    """Return whether a value is the index of one of `count` classes."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        return False
    return 0 <= int(value) < count


def _is_named_like_number(name: Class) -> bool:
    """Return whether a class is a number, or text such as 7 or 7.0."""
    return not isinstance(name, str) or NUMBER_AS_NAME.fullmatch(name) is not None
