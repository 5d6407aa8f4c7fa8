"""One value of an ablation: the knobs that it sets, how they change the parameters, and its name in paths.

A value is one of the knob that it is listed under, as 8 of inference.k; or a mapping of keys of a
section, as {p_image: 0.1, p_token: 0.3} of munkey; or a mapping that names knobs of any sections
itself.
"""

import re
from collections.abc import Mapping

Values = Mapping[str, object]


def knobs_of(listed_under: str, value: object) -> dict[str, object]:
    """Return the knobs that a value sets, by dotted keys."""
    if not isinstance(value, Mapping):
        return {listed_under: value}
    if _names_knobs(value):
        return dict(value)
    return {f"{listed_under}.{key}": each for key, each in value.items()}


def sections_of(listed_under: str, value: object) -> dict[str, object]:
    """Return the knobs that a value sets, as sections of the parameters."""
    sections: dict[str, object] = {}
    for key, each in knobs_of(listed_under, value).items():
        sections = merge(sections, _nest(key, each))
    return sections


def name_of(value: object) -> str:
    """Return a value as it stands in paths: 8, or 0.1_0.3 for {p_image: 0.1, p_token: 0.3}, without a mapping's nulls.

    Knobs that share a value share its name: rank for {munkey.aggregation: rank, inference.fusion:
    rank}.
    """
    parts = [value]
    if isinstance(value, Mapping):
        parts = [part for part in value.values() if part is not None]
    names = [re.sub(r"[^\w.-]+", "-", str(part)) for part in parts]
    if _names_knobs(value):
        names = list(dict.fromkeys(names))
    return "_".join(names)


def name_of_knobs(knobs: Values, names: Mapping[str, str]) -> str:
    """Knobs and their values as they stand in paths: p_image-0.1 for munkey.p_image, 0.1.

    Parameters
    ----------
    names
        Of the knobs.
    """
    return "_".join(f"{names[knob]}-{name_of(value).strip('-')}" for knob, value in knobs.items())


def values_to_try(
    settings: Values, grid: Mapping[str, list[object]], method: str
) -> dict[str, list[object]]:
    """Return the values in a search grid of each setting of a method: those of METHOD.KEY, or else of KEY."""
    values_of = {}
    for key in settings:
        values = grid.get(f"{method}.{key}") or grid.get(key)
        if values:
            values_of[key] = values
    return values_of


def merge(base: Values, override: Values) -> dict[str, object]:
    """`base` with the values of `override`; nested mappings are merged, everything else is replaced."""
    merged = dict(base)
    for key, value in override.items():
        below = merged.get(key)
        if isinstance(value, Mapping) and isinstance(below, Mapping):
            merged[key] = merge(below, value)
        else:
            merged[key] = value
    return merged


def _names_knobs(value: object) -> bool:
    """Return whether this is a mapping of knobs, such as inference.k, and not of the keys of one section."""
    return isinstance(value, Mapping) and all("." in str(key) for key in value)


def _nest(knob: str, value: object) -> dict[str, object]:
    """inference.k, 8 -> {"inference": {"k": 8}}."""
    section, _, key = knob.partition(".")
    if not key:
        return {section: value}
    return {section: _nest(key, value)}
