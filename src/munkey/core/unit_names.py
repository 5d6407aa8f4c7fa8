"""The one rule for the name of a unit (the person, lesion, … that a sample is of), and which names are near."""

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
    """The held spellings that each name means: itself where it is held, else all that are the same name."""
    spellings: dict[str | None, list[str]] = defaultdict(list)
    for unit in held:
        spellings[unit_name(unit)].append(unit)
    spellings[None] = []  # what is no unit means nobody
    return {name: [name] if name in held else spellings.get(unit_name(name), []) for name in names}


def near_names(name: str, names: Iterable[str]) -> list[str]:
    """Up to three names that a person may have meant.

    Those that differ in case, blanks or Unicode form; where there are none, those with one letter more, less or another
    one, or with two neighboring letters swapped.
    """
    wanted = _folded(name)
    folded = {each: _folded(each) for each in sorted({*names})}
    alike = [each for each, letters in folded.items() if letters == wanted]
    others = [each for each, letters in folded.items() if letters != wanted and _one_letter_off(letters, wanted)]
    return (alike or others)[:3]


def _folded(name: str) -> str:
    return "".join(unicodedata.normalize("NFKC", name).casefold().split())


def _one_letter_off(first: str, second: str) -> bool:
    if abs(len(first) - len(second)) > 1:
        return False
    beginning = _common(first, second)
    first = first[beginning:]
    second = second[beginning:]
    ending = _common(first[::-1], second[::-1])
    first = first[: len(first) - ending]
    second = second[: len(second) - ending]
    swapped = len(first) == 2 and first == second[::-1]
    return max(len(first), len(second)) <= 1 or swapped


def _common(first: str, second: str) -> int:
    """How many letters both begin with."""
    for place, (one, other) in enumerate(zip(first, second, strict=False)):
        if one != other:
            return place
    return min(len(first), len(second))


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
