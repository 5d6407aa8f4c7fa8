"""Exports of MUNKEY's originals as self-contained directories."""

from pathlib import Path

from munkey.core.files import write_json
from munkey.core.knobs import dump_sections
from munkey.deploy.model.export import renew_export
from munkey.settings import Sections


def export(system: Path, manifest: Path, exported: Path, sections: Sections) -> None:
    """Export a trained MUNKEY.

    Parameters
    ----------
    manifest
        The output: the manifest of the exported model, in the folder of its other files.
    exported
        The output: the settings, written when the export is complete.
    sections
        The sections for the model's training and its queries.
    """
    values = dump_sections(sections)
    print(f"exported to {renew_export(system, manifest.parent, values)}")
    write_json(exported, values)
