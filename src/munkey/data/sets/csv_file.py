"""Your own pictures anywhere on disk, listed in a CSV file."""

import os
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from itertools import compress
from pathlib import Path

import numpy as np

from munkey.core.console import pluralize, warn
from munkey.data.intake.csv_tables import TableError, read_table
from munkey.data.intake.unit_names import unit_name
from munkey.data.pictures import are_readable, decode, open_regular_file
from munkey.data.registry import dataset
from munkey.data.source import SPLITS, Source, SourceError, reraise_as_source_error
from munkey.data.splits import complete_splits
from munkey.settings import SourceSettings

COLUMNS = ("file", "label", "unit", "split")  # the last two are optional
LONGEST = 200  # characters of a label
Line = tuple[int, Mapping[str, str]]  # its number in the file, and its cells by column


def listed_pictures(path: Path) -> list[Path]:
    """Return the pictures that a CSV file lists.

    Empty if it cannot be read: its reader reports that.
    """
    try:
        return [
            _find_picture(path.parent / cells["file"]) for _, cells in read_lines(path, ["file"])
        ]
    except SourceError:
        return []


@dataset(
    "csv",
    "your own pictures anywhere: a CSV file of paths and labels",
    needs_path="file",
    more=listed_pictures,
)
def csv_file(settings: SourceSettings) -> Source:
    """Pictures in the order of the lines of source.path.

    Columns: file, a path relative to the CSV file; label; and optionally unit (the person, lesion,
    … in the picture) and split. Classes are the sorted labels; if all are numbers, sorted by value.
    Without splits, source.split divides each class, with all pictures of a unit in one split.
    Without `val`, 40 % of test becomes val.

    Raises SourceError that lists all faults, by line and column.
    """
    path = Path(str(settings.path))
    lines = read_lines(path, ["file", "label"])
    places = [_find_picture(path.parent / cells["file"]) for _, cells in lines]
    faults = list(_faults(lines, places))
    if faults:
        raise SourceError(f"source.path = {path}", faults)
    if settings.on_bad == "skip":
        place_of_name = {
            f"{path}, line {line}, {place}": place
            for (line, _), place in zip(lines, places, strict=True)
        }
        is_readable = are_readable(
            list(place_of_name),
            lambda name: open_regular_file(place_of_name[name]),
            settings.white,
        )
        lines = list(compress(lines, is_readable))
        places = list(compress(places, is_readable))
        if not lines:
            raise SourceError(f"source.path = {path}", ["lists no picture that can be used"])
    ignored_columns = [name for name in lines[0][1] if name not in COLUMNS]
    if ignored_columns:
        warn(
            f"{path}: left out the columns {', '.join(ignored_columns)}; those that count are {', '.join(COLUMNS)}"
        )
    folder = _absolute(path.parent)
    has_units = "unit" in lines[0][1]
    labels: list[str] = []
    units: list[str | None] = []
    split_names: list[str] = []
    names: list[str] = []
    place_of: dict[str, Path] = {}  # by the name of a picture in messages
    for (line, cells), place in zip(lines, places, strict=True):
        labels.append(unicodedata.normalize("NFC", cells["label"]))
        if has_units:
            units.append(unit_name(cells["unit"]))
        split_names.append(cells.get("split", ""))
        if place.is_relative_to(folder):
            names.append(str(place.relative_to(folder)))
        else:
            names.append(str(place))
        place_of[f"{path}, line {line}, column 'file', {place}"] = place
    classes = sorted(set(labels))
    if all(map(str.isdecimal, labels)):
        classes = sorted(classes, key=int)  # the sort is stable: 07 stays before 7
    number_of = {name: number for number, name in enumerate(classes)}
    class_numbers = np.array([number_of[label] for label in labels])
    splits = complete_splits("csv", split_names, class_numbers, settings.split, units or None)
    if has_units:
        divided_units = _divided_units(units, splits)
        if divided_units:
            warn(
                f"{path}: {pluralize(len(divided_units), 'unit')} in more than one split, e.g. {divided_units[0]}"
            )
    return Source(
        images=decode(
            list(place_of),
            lambda name: open_regular_file(place_of[name]),
            settings.storage_size,
            settings.white,
        ),
        labels=class_numbers,
        splits=splits,
        classes=classes,
        names=names,
        units=units or None,
    )


def _divided_units(units: Sequence[str | None], splits: np.ndarray) -> list[str]:
    """Return the units whose pictures are in more than one split, sorted."""
    first_split: dict[str, str] = {}
    divided_units = set()
    for unit, split in zip(units, splits.tolist(), strict=True):
        if unit and first_split.setdefault(unit, split) != split:
            divided_units.add(unit)
    return sorted(divided_units)


def _absolute(path: Path) -> Path:
    return Path(os.path.abspath(path))  # noqa: PTH100 (Path.resolve would follow links)


def _find_picture(path: Path) -> Path:
    """Find a picture by its path, also in the Unicode form of another system (Macs write NFD)."""
    place = _absolute(path)
    if os.path.isfile(place):  # noqa: PTH113 (Path.is_file raises PermissionError)
        return place
    for form in ("NFC", "NFD"):
        candidate = Path(unicodedata.normalize(form, str(place)))
        if os.path.isfile(candidate):  # noqa: PTH113
            return candidate
    return place


def read_lines(path: Path, required_columns: Sequence[str]) -> list[Line]:
    """Read the lines of a CSV file that are not empty, without spaces around their cells.

    Raises SourceError if a required column is missing, a line does not fit the header, or there are
    no lines.
    """
    with reraise_as_source_error(f"source.path = {path}"):
        try:
            table = read_table(path)
        except TableError as error:
            raise SourceError(f"source.path = {path}", error.faults) from error
    header = ", ".join(table.header)
    faults = []
    for name in required_columns:
        if name not in table.names:
            faults.append(f"line 1: no column {name!r} among {header}")
    if faults or not table.lines:
        raise SourceError(f"source.path = {path}", faults or ["holds no line below its header"])
    return [(number, dict(zip(table.names, cells, strict=True))) for number, cells in table.lines]


def _faults(lines: Sequence[Line], places: Sequence[Path]) -> Iterator[str]:
    """Yield faults in the cells of a list of pictures.

    Parameters
    ----------
    places
        Their paths on disk.
    """
    first_line: dict[Path, int] = {}
    for (line, cells), place in zip(lines, places, strict=True):
        for name in ("file", "label", "split"):
            if cells.get(name) == "":
                yield f"line {line}, column {name!r}: is empty"
        if len(cells["label"]) > LONGEST:
            yield f"line {line}, column 'label': has {len(cells['label']):,} characters, more than {LONGEST}"
        if cells["file"] and not os.path.isfile(place):  # noqa: PTH113 (Path.is_file raises PermissionError)
            yield f"line {line}, column 'file': there is no file {place}"
        elif cells["file"] and first_line.setdefault(place, line) != line:
            yield f"line {line}, column 'file': {cells['file']} is on line {first_line[place]} already"
        if cells.get("split") not in (None, "", *SPLITS):
            yield f"line {line}, column 'split': {cells['split']!r} is none of {', '.join(SPLITS)}"
