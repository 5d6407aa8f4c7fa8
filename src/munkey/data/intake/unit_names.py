"""Normalize the names of units and classes, and find similar names."""

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
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
LARGE_SHARE = 0.1  # share of all samples that makes a unit large
MAX_COMPARED_LENGTH = 200  # characters of a name for which similar names are searched


def normalize_name(name: str) -> str:
    """Return a name in Unicode form NFC (macOS writes NFD), without surrounding spaces."""
    return unicodedata.normalize("NFC", name).strip()


def normalize_path(path: str) -> str:
    """Return a path in Unicode form NFC (macOS writes NFD), without spaces around its parts."""
    return "/".join(normalize_name(part) for part in path.split("/"))


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


def match_units(names: Iterable[str], stored_names: Collection[str]) -> dict[str, list[str]]:
    """Return the stored names that match each name: the same, or else other spellings of its unit.

    A name that means no unit, such as NA, matches none.
    """
    return _match_names(names, stored_names, unit_name)


def match_classes(names: Iterable[str], stored_names: Collection[str]) -> dict[str, list[str]]:
    """Return the stored names that match each name: the same, or else other spellings of its class.

    Unlike a unit, a class may be named NA, and 7.0 is not 7.
    """
    return _match_names(names, stored_names, normalize_name)


def _match_names(
    names: Iterable[str],
    stored_names: Collection[str],
    normalize: Callable[[str], str | None],
) -> dict[str, list[str]]:
    """Return the stored names that are each name, or else those that are equal once normalized."""
    spellings: dict[str | None, list[str]] = defaultdict(list)
    for stored_name in stored_names:
        normalized_name = normalize(stored_name)
        if normalized_name is not None:
            spellings[normalized_name].append(stored_name)
    matches = {}
    for name in names:
        if name in stored_names:
            matches[name] = [name]
        else:
            matches[name] = spellings.get(normalize(name), [])
    return matches


def find_unit(name: str, stored_names: Collection[str]) -> str | None:
    """Return the stored unit that a name means, or None if there is none, or several."""
    spellings = match_units([name], stored_names)[name]
    return spellings[0] if len(spellings) == 1 else None


def find_class(name: str, stored_names: Collection[str]) -> str | None:
    """Return the stored class that a name means, or None if there is none, or several."""
    spellings = match_classes([name], stored_names)[name]
    return spellings[0] if len(spellings) == 1 else None


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
