"""One value of an ablation: the knobs that it sets, how they change the parameters, and its name in paths.

A value is one of the knob that it is listed under, as 8 of inference.k; or a mapping of keys of a
section, as {p_image: 0.1, p_token: 0.3} of munkey; or a mapping that names knobs of any sections
itself.
"""

import re
from collections.abc import Mapping

Values = Mapping[str, object]


def read_knobs(listed_under: str, value: object) -> dict[str, object]:
    """Return the knobs that a value sets, by dotted keys."""
    if not isinstance(value, Mapping):
        return {listed_under: value}
    if _names_knobs(value):
        return dict(value)
    return {f"{listed_under}.{key}": key_value for key, key_value in value.items()}


def read_sections(listed_under: str, value: object) -> dict[str, object]:
    """Return the knobs that a value sets, as sections of the parameters."""
    sections: dict[str, object] = {}
    for knob, knob_value in read_knobs(listed_under, value).items():
        sections = merge(sections, _nest(knob, knob_value))
    return sections


def make_name(value: object) -> str:
    """Return the name of a value in paths.

    It is 8 for 8, and 0.1_0.3 for {p_image: 0.1, p_token: 0.3}. Nulls of a mapping are left out.
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


def make_name_of_knobs(knobs: Values, names: Mapping[str, str]) -> str:
    """Return the name of knobs and their values in paths: p_image-0.1 for {munkey.p_image: 0.1}.

    Parameters
    ----------
    names
        The short names of the knobs.
    """
    parts = []
    for knob, value in knobs.items():
        parts.append(f"{names[knob]}-{make_name(value).strip('-')}")
    return "_".join(parts)


def values_to_try(
    settings: Values, grid: Mapping[str, list[object]], method: str
) -> dict[str, list[object]]:
    """Return the values that a search grid has for each setting of a method.

    They stand under METHOD.KEY in the grid, or else under KEY.
    """
    values_by_key = {}
    for key in settings:
        values = grid.get(f"{method}.{key}") or grid.get(key)
        if values:
            values_by_key[key] = values
    return values_by_key


def merge(base: Values, override: Values) -> dict[str, object]:
    """Merge the values of `override` into `base`. Nested mappings are merged, all else is replaced."""
    merged = dict(base)
    for key, value in override.items():
        below = merged.get(key)
        if isinstance(value, Mapping) and isinstance(below, Mapping):
            merged[key] = merge(below, value)
        else:
            merged[key] = value
    return merged


def _names_knobs(value: object) -> bool:
    """Return whether this is a mapping of knobs, such as inference.k, not of keys of one section."""
    return isinstance(value, Mapping) and all("." in str(key) for key in value)


def _nest(knob: str, value: object) -> dict[str, object]:
    """Nest a value at a dotted name: {"inference": {"k": 8}} for inference.k and 8."""
    section, _, key = knob.partition(".")
    if not key:
        return {section: value}
    return {section: _nest(key, value)}
