"""The settings of each case, for `munkey export`. The main run writes them."""

from collections.abc import Mapping
from pathlib import Path

from munkey.core.files import write_json
from munkey.core.knobs import dump_sections
from munkey.settings import Sections


def settings(settings: Path, cases: Mapping[str, Sections]) -> None:
    """Write the settings of each case's training and queries."""
    values = {case: dump_sections(sections) for case, sections in cases.items()}
    write_json(settings, values)
