"""Rendering of Jinja templates, with the same escaping and error handling everywhere."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any


def render_template(
    template: Path, values: Mapping[str, Any], filters: Mapping[str, Any] | None = None
) -> str:
    """Render a template. Escapes values in HTML. Raises UndefinedError if a value is missing."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(template.parent),
        autoescape=".html" in template.suffixes,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= filters or {}
    return environment.get_template(template.name).render(values)
