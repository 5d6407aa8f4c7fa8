"""The values of a case: the knobs that a value sets, and its name in paths.

Values are listed under a key in params.yaml. If the key is a knob, e.g. inference.k, a value may be
that of the knob, e.g. 8. If the key is a section, e.g. munkey, a value may be a mapping of the
section's keys, e.g. {p_image: 0.1, p_token: 0.3}. Under any key, a value may be a mapping of knobs
from any sections, e.g. {inference.k: 8}.
"""

import re
from collections.abc import Mapping

Values = Mapping[str, object]


def read_knobs(listed_under: str, value: object) -> dict[str, object]:
    """Return the knobs that a value sets, by dotted key."""
    if not isinstance(value, Mapping):
        return {listed_under: value}
    if _names_knobs(value):
        return dict(value)
    return {f"{listed_under}.{key}": key_value for key, key_value in value.items()}


def read_sections(listed_under: str, value: object) -> dict[str, object]:
    """Return the knobs that a value sets, nested in sections of the parameters."""
    sections: dict[str, object] = {}
    for knob, knob_value in read_knobs(listed_under, value).items():
        sections = merge(sections, _nest(knob, knob_value))
    return sections


def make_name(value: object) -> str:
    """Return the name of a value in paths.

    For example, 8 for 8, and 0.1_0.3 for {p_image: 0.1, p_token: 0.3}. Nulls in a mapping are left
    out. If several knobs have the same value, it appears once: rank for {munkey.aggregation: rank,
    inference.fusion: rank}.
    """
    if isinstance(value, Mapping):
        parts = [part for part in value.values() if part is not None]
    else:
        parts = [value]
    names = [re.sub(r"[^\w.-]+", "-", str(part)) for part in parts]
    if _names_knobs(value):
        names = list(dict.fromkeys(names))
    return "_".join(names)


def make_name_of_knobs(knobs: Values, names: Mapping[str, str]) -> str:
    """Return a name of knobs and their values for paths: p_image-0.1 for {munkey.p_image: 0.1}.

    Parameters
    ----------
    names
        The short names of the knobs.
    """
    parts = []
    for knob, value in knobs.items():
        parts.append(f"{names[knob]}-{make_name(value).strip('-')}")
    return "_".join(parts)


def list_values_to_try(
    settings: Values, grid: Mapping[str, list[object]], method: str
) -> dict[str, list[object]]:
    """Return the values that a search grid lists for the settings of a method.

    The grid lists them under METHOD.KEY, or else under KEY for all methods. Settings that it does
    not list are omitted.
    """
    values_by_key = {}
    for key in settings:
        values = grid.get(f"{method}.{key}") or grid.get(key)
        if values:
            values_by_key[key] = values
    return values_by_key


def merge(base: Values, override: Values) -> dict[str, object]:
    """Return `base` with the values of `override`. Nested mappings are merged as well."""
    merged = dict(base)
    for key, value in override.items():
        base_value = merged.get(key)
        if isinstance(value, Mapping) and isinstance(base_value, Mapping):
            merged[key] = merge(base_value, value)
        else:
            merged[key] = value
    return merged


def _names_knobs(value: object) -> bool:
    """Return whether a value is a mapping of knobs, e.g. inference.k, not of one section's keys."""
    return isinstance(value, Mapping) and all("." in str(key) for key in value)


def _nest(knob: str, value: object) -> dict[str, object]:
    """Nest a value at a dotted name: {"inference": {"k": 8}} for inference.k and 8."""
    section, _, key = knob.partition(".")
    if not key:
        return {section: value}
    return {section: _nest(key, value)}
