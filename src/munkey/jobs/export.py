"""Exports: MUNKEY's originals as directories that can be used anywhere, and the settings that `munkey export` reads."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from munkey.core.files import write_json
from munkey.deploy.model.export import renew


def settings(settings: Path, cases: Mapping[str, Any]) -> None:
    """Write down with which settings each case of a configuration is trained and asked."""
    write_json(settings, cases)


def export(system: Path, manifest: Path, exported: Path, sections: Mapping[str, Mapping[str, Any]]) -> None:
    """Export a trained MUNKEY. sections: of the parameters, all that it was trained and is asked with; `exported` holds
    them once that is done.
    """
    print(f"exported to {renew(system, manifest.parent, sections)}")
    write_json(exported, sections)
