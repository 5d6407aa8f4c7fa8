"""Your own pictures anywhere on disk, listed in a CSV file."""

import os
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from itertools import compress
from pathlib import Path

import numpy as np

from munkey.core.console import pluralize, warn
from munkey.data.decoding.picture_files import White
from munkey.data.intake.csv_tables import TableError, read_table
from munkey.data.intake.unit_names import normalize_name, unit_name
from munkey.data.pictures import are_readable, decode, open_regular_file
from munkey.data.registry import dataset
from munkey.data.source import SPLIT_NAMES, Source, SourceError, find_split, reraise_as_source_error
from munkey.data.splits import complete_splits, require_given_splits
from munkey.settings import SourceSettings

COLUMNS = ("file", "label", "unit", "split")  # the last two are optional
MAX_LABEL_LENGTH = 200  # characters
Line = tuple[int, Mapping[str, str]]  # line number in the file, and cells by column


def list_pictures(path: Path) -> list[Path]:
    """Return the pictures that a CSV file lists, or none if the file cannot be read."""
    try:
        lines = read_lines(path, ["file"])
    except SourceError:
        return []
    return [_find_picture(path.parent / cells["file"]) for _, cells in lines]


@dataset(
    "csv",
    "your own pictures anywhere: a CSV file of paths and labels",
    needs_path="file",
    more=list_pictures,
)
def csv_file(settings: SourceSettings) -> Source:
    """Read the pictures that source.path lists, in order.

    The columns are `file`, relative to the CSV file, `label`, and optionally `unit` and `split`.
    Classes are the sorted labels, by value if all are whole numbers. Without splits, source.split
    divides each class, and a unit stays in one split. Without `val`, 40% of test becomes val.

    Raises SourceError, which lists all faults by line and column.
    """
    path = Path(str(settings.path))
    setting = f"source.path = {path}"
    lines = read_lines(path, ["file", "label"])
    pictures = [_find_picture(path.parent / cells["file"]) for _, cells in lines]
    faults = list(_find_faults(lines, pictures))
    if faults:
        raise SourceError(setting, faults)
    if settings.on_bad == "skip":
        is_readable = _are_readable(path, lines, pictures, settings.white)
        lines = list(compress(lines, is_readable))
        pictures = list(compress(pictures, is_readable))
        if not lines:
            raise SourceError(setting, ["lists no picture that can be used"])
    ignored_columns = [name for name in lines[0][1] if name not in COLUMNS]
    if ignored_columns:
        warn(
            f"{path}: ignored the columns {', '.join(ignored_columns)}; only {', '.join(COLUMNS)} are read"
        )
    rows = [cells for _, cells in lines]
    label_names = [normalize_name(row["label"]) for row in rows]
    split_names = []
    for row in rows:
        split_name = row.get("split", "")
        split_names.append(find_split(split_name) or split_name)
    units = None
    if "unit" in rows[0]:
        units = [unit_name(row["unit"]) for row in rows]
    picture_by_title = {}  # titles are for messages
    for (line, _), picture in zip(lines, pictures, strict=True):
        picture_by_title[f"{path}, line {line}, column 'file', {picture}"] = picture
    classes, labels = _encode_labels(label_names)
    require_given_splits(split_names, settings.val_from)
    splits = complete_splits("csv", split_names, labels, settings.split, units)
    if units is not None:
        divided_units = _find_divided_units(units, splits)
        if divided_units:
            warn(
                f"{path}: {pluralize(len(divided_units), 'unit')} in more than one split, e.g. {divided_units[0]}"
            )
    return Source(
        images=decode(
            list(picture_by_title),
            lambda title: open_regular_file(picture_by_title[title]),
            settings.storage_size,
            settings.white,
        ),
        labels=labels,
        splits=splits,
        classes=classes,
        names=_name_pictures(pictures, _make_absolute(path.parent)),
        units=units,
    )


def _name_pictures(pictures: Sequence[Path], folder: Path) -> list[str]:
    """Return the paths of pictures, relative to the folder for those in it."""
    names = []
    for picture in pictures:
        if picture.is_relative_to(folder):
            names.append(str(picture.relative_to(folder)))
        else:
            names.append(str(picture))
    return names


def _are_readable(
    path: Path, lines: Sequence[Line], pictures: Sequence[Path], white: White
) -> list[bool]:
    """Return whether each listed picture can be read. Warns about those that cannot."""
    picture_by_title = {}
    for (line, _), picture in zip(lines, pictures, strict=True):
        picture_by_title[f"{path}, line {line}, {picture}"] = picture
    return are_readable(
        list(picture_by_title),
        lambda title: open_regular_file(picture_by_title[title]),
        white,
    )


def _encode_labels(label_names: Sequence[str]) -> tuple[list[str], np.ndarray]:
    """Return the class names, and the class index of each sample (N,)."""
    classes = sorted(set(label_names))
    if all(map(str.isdecimal, label_names)):
        classes = sorted(classes, key=int)  # the sort is stable: 07 stays before 7
    index_by_name = {name: index for index, name in enumerate(classes)}
    return classes, np.array([index_by_name[name] for name in label_names])


def _find_divided_units(units: Sequence[str | None], splits: np.ndarray) -> list[str]:
    """Return the units whose pictures are in more than one split, sorted."""
    first_split: dict[str, str] = {}
    divided_units = set()
    for unit, split in zip(units, splits.tolist(), strict=True):
        if unit and first_split.setdefault(unit, split) != split:
            divided_units.add(unit)
    return sorted(divided_units)


def _make_absolute(path: Path) -> Path:
    return Path(os.path.abspath(path))  # noqa: PTH100 (Path.resolve would follow links)


def _find_picture(path: Path) -> Path:
    """Return a picture's path, in another Unicode form if only that exists."""
    picture = _make_absolute(path)
    if os.path.isfile(picture):  # noqa: PTH113 (Path.is_file raises PermissionError)
        return picture
    for form in ("NFC", "NFD"):
        candidate = Path(unicodedata.normalize(form, str(picture)))
        if os.path.isfile(candidate):  # noqa: PTH113
            return candidate
    return picture


def read_lines(path: Path, required_columns: Sequence[str]) -> list[Line]:
    """Read the non-empty lines of a CSV file: the number of each, and its cells by column name.

    Raises SourceError if the file cannot be read, lacks a column, or has no lines below its header.
    """
    setting = f"source.path = {path}"
    with reraise_as_source_error(setting):
        try:
            table = read_table(path)
        except TableError as error:
            # Lists all faults of the table. Other errors, e.g. of a missing file, are one fault.
            raise SourceError(setting, error.faults) from error
    header = ", ".join(table.header)
    faults = []
    for name in required_columns:
        if name not in table.names:
            faults.append(f"line 1: no column {name!r} among {header}")
    if not faults and not table.lines:
        faults.append("has no lines below its header")
    if faults:
        raise SourceError(setting, faults)
    lines: list[Line] = []
    for number, cells in table.lines:
        lines.append((number, dict(zip(table.names, cells, strict=True))))
    return lines


def _find_faults(lines: Sequence[Line], pictures: Sequence[Path]) -> Iterator[str]:
    """Yield the faults in the lines of a list of pictures."""
    first_line: dict[Path, int] = {}
    missing_with_backslashes = []
    for (line, cells), picture in zip(lines, pictures, strict=True):
        for name in ("file", "label", "split"):
            if cells.get(name) == "":
                yield f"line {line}, column {name!r}: is empty"
        if len(cells["label"]) > MAX_LABEL_LENGTH:
            yield f"line {line}, column 'label': has {len(cells['label']):,} characters, more than {MAX_LABEL_LENGTH}"
        if "\\" in cells["file"] and not os.path.isfile(picture):  # noqa: PTH113 (as in _find_picture)
            missing_with_backslashes.append(f"{cells['file']} on line {line}")
        elif cells["file"] and not os.path.isfile(picture):  # noqa: PTH113
            yield f"line {line}, column 'file': there is no file {picture}"
        elif cells["file"] and first_line.setdefault(picture, line) != line:
            yield f"line {line}, column 'file': {cells['file']} is already on line {first_line[picture]}"
        if cells.get("split") and find_split(cells["split"]) is None:
            yield f"line {line}, column 'split': {cells['split']!r} is not one of {', '.join(SPLIT_NAMES)}"
    if missing_with_backslashes:
        yield (
            f"column 'file': {pluralize(len(missing_with_backslashes), 'path')} with backslashes, as Windows"
            f" writes them, e.g. {missing_with_backslashes[0]}: replace each \\ with /"
        )
