"""The samples of a model's memory: what it holds, which of them names mean, what they are copies of or look like."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from munkey.data.intake.unit_names import near_names, units_meant
from munkey.deploy.errors import UnknownNamesError
from munkey.deploy.model.manifest import Manifest
from munkey.deploy.model.sources import MemoryRow, Selection, SourceFiles, listed, near_words
from munkey.deploy.store.chain import moment
from munkey.deploy.store.errors import UnknownIdsError
from munkey.deploy.store.rows import checked_ids
from munkey.deploy.store.store import Store

SIMILAR = 0.95  # cosine of keys from which samples are look-alikes, unless another is asked for
MOST_ASKED = 1000  # samples whose look-alikes are looked for at once
ROWS = 65_536  # keys at a time


class Samples:
    """What `Predictor` says of its samples."""

    def __init__(self, store: Store, manifest: Callable[[], Manifest]) -> None:
        """manifest: as it is now, since a class may come or go."""
        self._store = store
        self._manifest = manifest
        self.sources = SourceFiles(store, manifest().source)

    def held(self) -> tuple[np.ndarray, np.ndarray]:
        """Ids and labels of the samples that the memory holds: (N,) int64 each."""
        with self._store.reading() as view:
            rows = np.flatnonzero(view.live)
            ids, labels = view.ids[rows], view.labels[rows]
            live = view.live[rows]  # looked at last: what is deleted meanwhile is zero
            return ids[live], labels[live]

    @property
    def ids(self) -> np.ndarray:
        """The ids that the memory holds, ascending: (N,) int64."""
        return np.sort(self.held()[0])

    @property
    def classes(self) -> dict[int, str]:
        """The names of the classes by their numbers."""
        return dict(enumerate(self._manifest().names))

    def numbers(self, labels: Iterable[int | str] | np.ndarray) -> np.ndarray:
        """Labels as numbers of classes. Raises ValueError that lists the classes."""
        manifest = self._manifest()
        names, given, classes = (
            manifest.names,
            listed("labels", labels),
            dict(enumerate(manifest.classes)),
        )
        texts = {label for label in given if isinstance(label, str)}
        meant = units_meant(texts, names)
        numbers: list[Any] = []
        for label in given:
            same = meant[label] if isinstance(label, str) else []
            numbers.append(names.index(same[0]) if len(same) == 1 else label)
        for number in numbers:
            if (
                isinstance(number, bool)
                or not isinstance(number, int | np.integer)
                or classes.get(int(number)) is None
            ):
                known = f"{', '.join(names[:20])}{', …' if len(names) > 20 else ''}"
                alike = [repr(name) for name in near_names([str(number)], names)[str(number)]]
                near = f"near is {' or '.join(alike)}; " if alike else ""
                said = f"{number!r} is not the name of a class of this model"
                raise ValueError(f"{said}; {near}its classes are: {known}")
        return np.array(numbers, dtype=np.int64)

    def rows(
        self, labels: Iterable[int | str], units: Iterable[str], files: Iterable[str | Path]
    ) -> list[MemoryRow]:
        """As `Predictor.rows`."""
        numbers = set(self.numbers(labels).tolist())
        by_unit, unit_hint = self._ids_by_unit(listed("units", units))
        found = self.sources.ids_of(files)
        missing_files = [name for name, own in found.items() if not own]
        missing = [*missing_files, *(f"unit {unit}" for unit, own in by_unit.items() if not own)]
        if missing:
            raise UnknownNamesError(
                missing, f"{unit_hint}{self.sources.hint(missing_files)}".rstrip()
            )
        of_units = set().union(*by_unit.values())
        lying = set().union(*found.values())
        classes = self.classes
        records, sources = self.sources.held()
        columns = (records[name].tolist() for name in ("id", "label", "added"))
        return sorted(
            MemoryRow(one, classes.get(label), self.sources.place(file), unit, moment(at))
            for one, label, at, (file, unit) in zip(*columns, sources, strict=True)
            if (not numbers or label in numbers)
            and (not by_unit or one in of_units)
            and (not found or one in lying)
        )

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
        """As `Predictor.select`."""
        wanted, (held, numbers) = np.unique(checked_ids(ids)), self.held()
        classes = self.classes
        unknown: list[int] = np.setdiff1d(wanted, held).tolist()
        found: list[tuple[str, Iterable[int]]] = [*self.sources.ids_of(files).items()]
        missing_files = [name for name, own in found if not own]
        by_unit, unit_hint = self._ids_by_unit(listed("units", units))
        found += [
            (f"class {classes[one]}", held[numbers == one].tolist()) for one in self.numbers(labels)
        ]
        found += [(f"unit {unit}", own) for unit, own in by_unit.items()]
        missing = [name for name, own in found if not own]
        hint = f"{unit_hint}{self.sources.hint(missing_files)}".rstrip()
        if (
            not ignore_missing
            and (unknown or missing)
            and (request is None or self._store.receipt(request) is None)
        ):
            raise (
                UnknownNamesError([*map(str, unknown), *missing], hint)
                if missing
                else UnknownIdsError(unknown)
            )
        chosen = np.isin(held, [*wanted, *(one for _, own in found for one in own)])
        labels, counts = np.unique(numbers[chosen], return_counts=True)
        counted = {
            classes.get(one, str(one)): n
            for one, n in zip(labels.tolist(), counts.tolist(), strict=True)
        }
        return Selection(np.sort(held[chosen]), (*map(str, unknown), *missing), counted, hint)

    def _ids_by_unit(self, units: Sequence[str]) -> tuple[dict[str, list[int]], str]:
        """The ids of the samples of each unit, none where no sample has the name, and which names are near then.

        A name in another Unicode form or with blanks around it means the same unit, where none is called so exactly.
        """
        by_unit = {unit: self._store.ids_from(unit, "unit").tolist() for unit in units}
        unmatched = [unit for unit, own in by_unit.items() if not own]
        if not unmatched:
            return by_unit, ""
        held = {unit for _, unit in self.sources.held()[1] if unit}
        for unit, spellings in units_meant(unmatched, held).items():
            by_unit[unit] = [
                one for each in spellings for one in self._store.ids_from(each, "unit").tolist()
            ]
        return by_unit, near_words("unit", (unit for unit in unmatched if not by_unit[unit]), held)

    def similar(self, ids: ArrayLike | Iterable[int], above: float) -> dict[int, float]:
        """As `Predictor.similar`."""
        if not 0 < above <= 1:
            raise ValueError(f"above = {above}: must be a cosine above 0, and at most 1")
        with self._store.reading() as view:
            rows = np.flatnonzero(view.live & np.isin(view.ids, checked_ids(ids)))
            if len(rows) > MOST_ASKED:
                raise ValueError(
                    f"look-alikes of {len(rows):,} samples: at most {MOST_ASKED:,} at once"
                )
            nearest, asked = np.zeros(len(view.live), dtype=np.float32), _unit(view.keys[rows])
            for start in range(0, len(nearest) if len(rows) else 0, ROWS):
                part = slice(start, start + ROWS)
                nearest[part] = (_unit(view.keys[part]) @ asked.T).max(axis=1)
            nearest[[*rows, *self._store.twins_of(rows)]] = 0
            found = np.flatnonzero(view.live & (nearest >= above))
            order = found[np.lexsort((view.ids[found], -nearest[found]))]
            return dict(zip(view.ids[order].tolist(), nearest[order].tolist(), strict=True))

    def copies_of(self, ids: np.ndarray) -> list[dict[str, Any]]:
        """Other samples that are exact copies of these (N,), by ascending id, each with its unit."""
        with self._store.reading() as view:
            return self.named(
                self._store.twins_of(np.flatnonzero(view.live & np.isin(view.ids, ids)))
            )

    def named(self, rows: np.ndarray) -> list[dict[str, Any]]:
        """Id and unit of rows of the present generation, by ascending id."""
        with self._store.reading() as view:
            ids = view.ids[rows]
            order = np.argsort(ids)
            sources = self._store.sources_of(rows[order])
        return [
            {"id": one, "unit": unit}
            for one, (_, unit) in zip(ids[order].tolist(), sources, strict=True)
        ]

    def units_of(self, ids: np.ndarray) -> dict[int, str | None]:
        """The units of samples that the memory holds, by id."""
        with self._store.reading() as view:
            rows = np.flatnonzero(view.live & np.isin(view.ids, ids))
            return {sample["id"]: sample["unit"] for sample in self.named(rows)}


def _unit(keys: np.ndarray) -> np.ndarray:
    """Keys (N, d) of length 1; of a row that was deleted, zeros."""
    return np.asarray(keys / np.linalg.norm(keys, axis=1, keepdims=True).clip(min=1e-12))
