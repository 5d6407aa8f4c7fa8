"""Exports: MUNKEY's originals as directories that can be used anywhere, and the settings that `munkey export` reads."""

from collections.abc import Mapping
from pathlib import Path

from munkey.core.files import write_json
from munkey.deploy.model.export import renew_export
from munkey.settings import Sections, dump_sections


def settings(settings: Path, cases: Mapping[str, Sections]) -> None:
    """Write the settings for training and querying each case of a configuration."""
    values = {case: dump_sections(sections) for case, sections in cases.items()}
    write_json(settings, values)


def export(system: Path, manifest: Path, exported: Path, sections: Sections) -> None:
    """Export a trained MUNKEY.

    Parameters
    ----------
    sections
        The sections for its training and its queries. They are written to `exported` at the
        end.
    """
    values = dump_sections(sections)
    print(f"exported to {renew_export(system, manifest.parent, values)}")
    write_json(exported, values)
