"""The report: one page that opens from disk, with what was run, tables that sort, figures, and links to MLflow."""

import base64
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

Block = tuple[str, pd.DataFrame]
CAPTIONS = {
    "overview": "MUNKEY: what is specific to a sample lies in a row of the memory; to forget it, delete the row.",
    "forgetting": "Forgetting against utility: Avg Gap over the seconds that unlearning takes.",
    "neighbors": "Number of neighbours K against test accuracy and Avg Gap; one model, evaluated with each K.",
    "radar": "The grid of (p_image, p_token); the pair that the selection chose is dashed, (0, 0) grey.",
    "sensitivity": "Pathway sensitivity P_s and its three accuracies over the epochs of training.",
    "tokens": "UMAP of exemplar tokens (top) and [CLS] features (bottom) at the start, middle and end of training.",
    "retrieval": "Neighbours of a test sample and of a forget sample, before and after deletion.",
}


def section(name: str, title: str, blocks: Iterable[Block], remarks: Sequence[str] = ()) -> dict[str, Any]:
    """A part of the page: frames of cells as tables."""
    made = [(head, frame.to_html(index=False, escape=False, border=0)) for head, frame in blocks]
    return {"id": name, "title": title, "tables": made, "remarks": remarks}


def figure(path: Path) -> dict[str, str]:
    """A figure's PNG, embedded, with its caption."""
    name, _, dataset = path.stem.partition("-")
    caption = CAPTIONS[name] + (f" {dataset.replace('-rate', ', forget rate ')}." if dataset else "")
    data = base64.b64encode(path.read_bytes()).decode()
    return {"name": path.stem, "caption": caption, "data": f"data:image/png;base64,{data}"}


def fill(template: Path, **content: Any) -> str:
    """The page. Text is escaped; tables, which are HTML already, are not."""
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    for part in content["sections"]:
        part["tables"] = [(title, Markup(table)) for title, table in part["tables"]]
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    return environment.from_string(template.read_text()).render(**content) + "\n"


def origin(records: Sequence[Mapping[str, Any]], date: str) -> list[tuple[str, str]]:
    """Commit, versions, machine and times of what was run, each value once."""

    def all_of(name: str) -> str:
        return ", ".join(sorted({str(record["provenance"][name]) for record in records}))

    versions = sorted({f"{k} {v}" for record in records for k, v in record["provenance"]["versions"].items()})
    span = f"{min(r['started'] for r in records)} to {max(r['ended'] for r in records)} (UTC)"
    return [
        ("Report made", date),
        ("Jobs ran", span),
        ("Machine", all_of("device")),
        ("Commit", all_of("commit")),
        ("Versions", ", ".join(versions)),
    ]
