"""One rule for the name of a unit (the person, lesion, … of a sample), and which names are similar."""

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from statistics import median
from typing import Any

import numpy as np

# How tables spell that a cell is empty, as pandas reads and writes it. Other spellings stay
# names, since Nan and Na are names of people.
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
# pandas turns 7 into 7.0 if another cell of the column is empty.
WHOLE = re.compile(r"(-?(?:0|[1-9][0-9]*))\.0+")
MANY = 0.1  # of all samples
LONGEST_COMPARED = 200  # letters of a name for which similar ones are looked up


def unit_name(unit: Any) -> str | None:
    """Return the name of a unit as text, or None if it is missing.

    Parameters
    ----------
    unit : object
        A text, a number, or what stands for an empty cell (``None``, NaN, NaT, ``pandas.NA``).

    Returns
    -------
    name : str or None
        In Unicode's form NFC and without blanks around it. A whole number is the same name
        however it is written: 7, 7.0 and "7.0" are "7". ``NA``, ``NaN``, ``NaT``, ``None``,
        ``<NA>``, ``null`` and an empty text mean that there is no unit.
    """
    if isinstance(unit, bytes):
        unit = unit.decode("utf-8", "backslashreplace")
    if isinstance(unit, float | np.floating) and unit.is_integer():
        unit = int(unit)  # 1e16, too, is written in digits
    name = unicodedata.normalize("NFC", str(unit)).strip()
    if name in NO_UNIT:
        return None
    whole_number = WHOLE.fullmatch(name)
    return whole_number[1] if whole_number else name


def unit_names(units: Iterable[Any]) -> list[str | None]:
    """Return the names of many units."""
    return [unit_name(unit) for unit in units]


def match_units(names: Iterable[str], stored_names: Collection[str]) -> dict[str, list[str]]:
    """Return the stored names that each name means: itself if it is stored, else all of the same unit."""
    spellings: dict[str | None, list[str]] = defaultdict(list)
    for stored_name in stored_names:
        spellings[unit_name(stored_name)].append(stored_name)
    spellings[None] = []  # NA and the like name no unit
    matches = {}
    for name in names:
        if name in stored_names:
            matches[name] = [name]
        else:
            matches[name] = spellings.get(unit_name(name), [])
    return matches


def similar_names(names: Iterable[str], stored_names: Iterable[str]) -> dict[str, list[str]]:
    """Return, for each name, up to three stored names that a person may have meant.

    These are names that differ in case, blanks or Unicode form only. If there are none, names with
    one letter added, dropped or replaced, or with two neighboring letters swapped.
    """
    names_by_fold: dict[str, list[str]] = defaultdict(list)
    for stored_name in sorted({*stored_names}):
        names_by_fold[_fold(stored_name)].append(stored_name)
    letters = set().union(*names_by_fold)
    similar = {}
    for name in names:
        folds = [_fold(name)]
        if folds[0] not in names_by_fold:
            # Faster than a comparison with every stored name: there may be far more of those
            # than there are spellings one letter off.
            spellings = _make_spellings_one_letter_off(folds[0], letters)
            folds = sorted(spellings & names_by_fold.keys())
        similar_names_of_name: list[str] = []
        for fold in folds:
            similar_names_of_name += names_by_fold[fold]
        similar[name] = similar_names_of_name[:3]
    return similar


def _fold(name: str) -> str:
    """Return a name without differences of case, blanks and Unicode form."""
    return "".join(unicodedata.normalize("NFKC", name).casefold().split())


def _make_spellings_one_letter_off(name: str, letters: Collection[str]) -> set[str]:
    """Return all spellings one letter off: a letter added, dropped or replaced, or two swapped.

    They are empty for a name that is too long. As in Norvig's spelling corrector
    (norvig.com/spell-correct.html).
    """
    spellings: set[str] = set()
    if len(name) > LONGEST_COMPARED:
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


def large_units_warning(units: Sequence[str | None]) -> str:
    """Return a warning about units that may stand for no unit, as "unknown" does; empty without any.

    Such a unit holds more than a tenth of all samples, and at least twice the median of the other
    units: a few persons with similar numbers of samples are not a mistake.
    """
    counts = Counter(unit for unit in units if unit is not None)
    large_units = []
    for unit, count in counts.most_common():
        if count <= MANY * len(units):
            break
        other_counts = dict(counts)
        del other_counts[unit]
        if not other_counts or count >= 2 * median(other_counts.values()):
            large_units.append((unit, count))
    if not large_units:
        return ""
    examples = " and ".join(f"{unit!r} ({count:,})" for unit, count in large_units[:2])
    if len(large_units) == 1:
        subject = f"the unit {examples} holds"
        each = ""
    else:
        subject = f"{len(large_units)} units, e.g. {examples}, hold"
        each = " each"
    return (
        f"{subject} more than a tenth of all {len(units):,} samples{each}. All samples of a unit"
        " are forgotten together:"
        " where the name stands for 'unknown', leave the cell empty"
    )
