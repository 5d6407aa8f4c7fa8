"""How results show settings: as JSON, and in the headings and cells of tables and figures."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import BaseModel


def dump_sections(sections: "Mapping[str, BaseModel]") -> dict[str, dict[str, object]]:
    """Convert sections to dictionaries that can be written as JSON."""
    return {name: section.model_dump() for name, section in sections.items()}


def shorten_knobs(knobs: Iterable[str]) -> dict[str, str]:
    """Return the short name of each knob (p_image for munkey.p_image), if it is the only one."""
    last_parts = {knob: knob.rpartition(".")[2] for knob in knobs}
    uses = Counter(last_parts.values())
    short_names = dict(last_parts)
    for knob, last_part in last_parts.items():
        if uses[last_part] > 1:
            short_names[knob] = knob
    return short_names


def format_knob_value(value: object) -> str:
    """Format the value of a knob for tables and titles; the range [0.6, 1.0] becomes 0.6–1."""
    text = str(value)
    if text.startswith("["):
        return "–".join(f"{float(part):g}" for part in text.strip("[]").split(","))
    if isinstance(value, float):
        return f"{value:g}"
    return text
