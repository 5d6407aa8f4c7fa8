"""One rule for the name of a unit (the person, lesion, … of a sample), and which names are near."""

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
# 7 where pandas made a column of floats of it, since another cell is empty.
WHOLE = re.compile(r"(-?(?:0|[1-9][0-9]*))\.0+")
MANY = 0.1  # of all samples
LONGEST_COMPARED = 200  # letters of a name whose near names are looked for


def unit_name(unit: Any) -> str | None:
    """The name of a unit, however it was given; None where there is none.

    Parameters
    ----------
    unit : object
        A text, a number, or what stands for an empty cell (``None``, NaN, NaT, ``pandas.NA``).

    Returns
    -------
    name : str or None
        In Unicode's form NFC and without blanks around it. A whole number is the same name
        however it is written: 7, 7.0 and "7.0" are "7". ``NA``, ``NaN``, ``NaT``, ``None``,
        ``<NA>``, ``null`` and an empty text are no unit.
    """
    if isinstance(unit, bytes):
        unit = unit.decode("utf-8", "backslashreplace")
    if isinstance(unit, float | np.floating) and unit.is_integer():
        unit = int(unit)  # 1e16, too, is written in digits
    name = unicodedata.normalize("NFC", str(unit)).strip()
    if name in NO_UNIT:
        return None
    whole = WHOLE.fullmatch(name)
    return whole[1] if whole else name


def unit_names(units: Iterable[Any]) -> list[str | None]:
    """The names of many units."""
    return [unit_name(unit) for unit in units]


def units_meant(names: Iterable[str], held: Collection[str]) -> dict[str, list[str]]:
    """The held spellings that each name means: itself if it is held, else all of the same name."""
    spellings: dict[str | None, list[str]] = defaultdict(list)
    for unit in held:
        spellings[unit_name(unit)].append(unit)
    spellings[None] = []  # what is no unit means nobody
    return {name: [name] if name in held else spellings.get(unit_name(name), []) for name in names}


def near_names(names: Iterable[str], held: Iterable[str]) -> dict[str, list[str]]:
    """For each name, up to three held ones that a person may have meant.

    Those that differ in case, blanks or Unicode form; where there are none, those with one letter
    more, less or another one, or with two neighboring letters swapped.
    """
    folded: dict[str, list[str]] = defaultdict(list)
    for each in sorted({*held}):
        folded[_folded(each)].append(each)
    letters = set().union(*folded)
    near = {}
    for name in names:
        folded_name = _folded(name)
        alike = [folded_name]
        if folded_name not in folded:
            alike = sorted(_one_letter_off(folded_name, letters) & folded.keys())
        near[name] = [each for one in alike for each in folded[one]][:3]
    return near


def _folded(name: str) -> str:
    return "".join(unicodedata.normalize("NFKC", name).casefold().split())


def _one_letter_off(name: str, letters: Collection[str]) -> set[str]:
    """All names that are one letter off, of these letters: far fewer than the held ones may be."""
    if len(name) > LONGEST_COMPARED:
        return set()
    splits = [(name[:place], name[place:]) for place in range(len(name) + 1)]
    shorter = {start + end[1:] for start, end in splits}
    longer = {start + letter + end for start, end in splits for letter in letters}
    other = {start + letter + end[1:] for start, end in splits for letter in letters}
    swapped = {start + end[1::-1] + end[2:] for start, end in splits if len(end) > 1}
    return shorter | longer | other | swapped


def large_units(units: Sequence[str | None]) -> str:
    """A warning about units that may stand for no unit, as "unknown" does; empty without any.

    They hold more than a tenth of all samples, and twice as many as the other units do in the
    median: a few persons with as many samples each are no mistake.
    """
    counts = Counter(unit for unit in units if unit is not None)
    large = []
    for unit, count in counts.most_common():
        if count <= MANY * len(units):
            break
        others = [other_count for other, other_count in counts.items() if other != unit]
        if not others or count >= 2 * median(others):
            large.append((unit, count))
    if not large:
        return ""
    examples = " and ".join(f"{unit!r} ({count:,})" for unit, count in large[:2])
    who = (
        f"the unit {examples} holds"
        if len(large) == 1
        else f"{len(large)} units, e.g. {examples}, hold"
    )
    each = "" if len(large) == 1 else " each"
    return (
        f"{who} more than a tenth of all {len(units):,} samples{each}. All samples of a unit"
        " are forgotten together:"
        " where the name stands for 'unknown', leave the cell empty"
    )
