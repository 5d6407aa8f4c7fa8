"""Normalize names of units and classes, and ids in texts; find similar names."""

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from statistics import median
from typing import Any

import numpy as np

from munkey.core.registry import did_you_mean

# Spellings of an empty cell that pandas reads or writes. Other spellings are names, because Nan and
# Na are names of people.
NO_UNIT = frozenset(
    (
        "",
        "#N/A",
        "#N/A N/A",
        "#NA",
        "-NaN",
        "-nan",
        "<NA>",
        "N/A",
        "NA",
        "NULL",
        "NaN",
        "NaT",
        "None",
        "n/a",
        "nan",
        "null",
    )
)
# pandas converts 7 to 7.0 if another cell of the column is empty.
WHOLE_NUMBER = re.compile(r"(-?(?:0|[1-9][0-9]*))\.0+")
# Of 0033.0: the zeros at its end, and those at its start.
DECIMAL_ZEROS = re.compile(r"(?<=[0-9])\.0+$")
LEADING_ZEROS = re.compile(r"(?<![0-9.])0+(?=[0-9])")
ID_TEXT = re.compile(r"([0-9]{1,19})(\.0+)?")  # the largest id, 2^63 - 2, has 19 digits
MAX_EXACT_FLOAT = 2**53  # up to here, each integer is a float
LARGE_SHARE = 0.1  # share of all samples that makes a unit large
MAX_COMPARED_LENGTH = 200  # characters of a name for which similar names are searched


def normalize_name(name: str) -> str:
    """Return a name in Unicode form NFC (macOS writes NFD), without surrounding spaces."""
    return unicodedata.normalize("NFC", name).strip()


def normalize_path(path: str) -> str:
    """Return a path in Unicode form NFC (macOS writes NFD), without spaces around its parts."""
    return "/".join(normalize_name(part) for part in path.split("/"))


def parse_id(text: str) -> int | None:
    """Return the id in a text: 7 for " 7" and for "7.0"; None if the text is not an id.

    From 2^53 on, 7.0 is none either, because a float cannot tell such integers apart.
    """
    match = ID_TEXT.fullmatch(text.strip())
    if match is None:
        return None
    sample_id = int(match[1])
    is_float = match[2] is not None
    return None if is_float and sample_id >= MAX_EXACT_FLOAT else sample_id


def unit_name(unit: Any) -> str | None:
    """Return the name of a unit as text, or None if it is missing.

    Names are normalized (`normalize_name`), whole numbers as well: 7, 7.0 and "7.0" become "7".
    None, NaN, and the spellings in NO_UNIT are missing.
    """
    if isinstance(unit, bytes):
        unit = unit.decode("utf-8", "backslashreplace")
    if isinstance(unit, float | np.floating) and unit.is_integer():
        unit = int(unit)  # also converts 1e16 to digits
    name = normalize_name(str(unit))
    if name in NO_UNIT:
        return None
    whole_number = WHOLE_NUMBER.fullmatch(name)
    return whole_number[1] if whole_number else name


def unit_names(units: Iterable[Any]) -> list[str | None]:
    """Return the names of many units."""
    return [unit_name(unit) for unit in units]


def class_name(label: Any) -> str | None:
    """Return the name of a class as text, or None if it is missing.

    Text is normalized (`normalize_name`). Unlike a unit, a class may be named NA, and the text 7.0 is
    not 7. The numbers 7 and 7.0 become "7".
    """
    if isinstance(label, str):
        return normalize_name(label)
    return unit_name(label)


def match_classes(labels: Iterable[Any], classes: Sequence[Any]) -> list[int | None]:
    """Return the position of the class that each label means, or None if it means none.

    A number and its text mean the same class. classes: None for one whose name was forgotten.
    """
    position_by_name: dict[str | None, int] = {}
    for position, name in enumerate(classes):
        if name is not None:
            position_by_name[str(name)] = position  # 7.0, as the class of a float is listed
            position_by_name[class_name(name)] = position
    return [position_by_name.get(class_name(label)) for label in labels]


def find_class(label: str, classes: Sequence[str]) -> str | None:
    """Return the class that a label means, or None if there is none."""
    [position] = match_classes([label], classes)
    return None if position is None else classes[position]


def find_unit(unit: str, units: Collection[str]) -> str | None:
    """Return the unit that a name means, or None if there is none. `units` are normalized."""
    name = unit_name(unit)
    return name if name in units else None


def suggest_names(name: str, stored_names: Collection[str]) -> str:
    """Return the end of a sentence about an unknown name: similar names, or just "."."""
    similar_names = find_similar_names([name], stored_names)[name]
    if not similar_names:
        return did_you_mean(name, stored_names)
    return f"; did you mean {' or '.join(map(repr, similar_names))}?"


def find_similar_names(names: Iterable[str], stored_names: Iterable[str]) -> dict[str, list[str]]:
    """Find up to three similar stored names for each name.

    They differ only in case, spaces, Unicode form, or zeros at the start of a number, as 7 and
    0007; or else in one letter, or in the order of two.
    """
    names_by_fold: dict[str, list[str]] = defaultdict(list)
    for stored_name in sorted({*stored_names}):
        names_by_fold[_fold(stored_name)].append(stored_name)
    letters = set().union(*names_by_fold)
    similar = {}
    for name in names:
        folds = [_fold(name)]
        if folds[0] not in names_by_fold:
            # This is faster than comparing every stored name, because there may be far more stored
            # names than spellings that are one letter off.
            spellings = _make_spellings_one_letter_off(folds[0], letters)
            folds = sorted(spellings & names_by_fold.keys())
        candidates: list[str] = []
        for fold in folds:
            candidates += names_by_fold[fold]
        similar[name] = candidates[:3]
    return similar


def _fold(name: str) -> str:
    """Normalize case, spaces, Unicode form and numbers of a name."""
    folded = "".join(unicodedata.normalize("NFKC", name).casefold().split())
    return LEADING_ZEROS.sub("", DECIMAL_ZEROS.sub("", folded))


def _make_spellings_one_letter_off(name: str, letters: Collection[str]) -> set[str]:
    """Return all spellings with a letter added, dropped or replaced, or two swapped.

    Returns none for a long name. This is Norvig's spelling corrector
    (norvig.com/spell-correct.html).
    """
    spellings: set[str] = set()
    if len(name) > MAX_COMPARED_LENGTH:
        return spellings
    for position in range(len(name) + 1):
        start = name[:position]
        end = name[position:]
        spellings.add(start + end[1:])  # dropped
        if len(end) > 1:
            spellings.add(start + end[1] + end[0] + end[2:])  # swapped
        for letter in letters:
            spellings.add(start + letter + end)  # added
            spellings.add(start + letter + end[1:])  # replaced
    return spellings


def format_similar_names_warning(names: Iterable[str], kind: str) -> str:
    """Format a warning about names (`kind`) that differ only in case, spaces, or leading zeros."""
    names_by_fold: dict[str, list[str]] = defaultdict(list)
    for name in sorted({*names}):
        names_by_fold[_fold(name)].append(name)
    groups = [group for group in names_by_fold.values() if len(group) > 1]
    if not groups:
        return ""
    examples = "; ".join(" and ".join(map(repr, group[:3])) for group in groups[:3])
    count = sum(map(len, groups))
    return (
        f"{count} {kind} differ only in case, spaces, or zeros at the start of a number: {examples}."
        " Each is a separate one: correct the names if that is wrong"
    )


def format_large_units_warning(units: Sequence[str | None]) -> str:
    """Format a warning about units whose names may mean "unknown"; empty if there are none.

    Such a unit has more than 10% of all samples, and at least twice the median of the other units.
    """
    counts = Counter(unit for unit in units if unit is not None)
    large_units = []
    for unit, count in counts.most_common():
        if count <= LARGE_SHARE * len(units):
            break
        other_counts = dict(counts)
        del other_counts[unit]
        if not other_counts or count >= 2 * median(other_counts.values()):
            large_units.append((unit, count))
    if not large_units:
        return ""
    examples = " and ".join(f"{unit!r} ({count:,})" for unit, count in large_units[:2])
    if len(large_units) == 1:
        subject = f"the unit {examples} has"
        each = ""
    else:
        subject = f"{len(large_units)} units, e.g. {examples}, have"
        each = " each"
    return (
        f"{subject} more than a tenth of all {len(units):,} samples{each}. All samples of a unit"
        " are forgotten together: if the name means 'unknown', leave the cell empty"
    )
