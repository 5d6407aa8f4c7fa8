"""The docs' tables, made from the registries: `make docs` writes them between their markers."""

import re
import sys
from pathlib import Path

from munkey.data import DATASETS
from munkey.encoders import ENCODERS
from munkey.unlearn import METHODS


def data_sets() -> str:
    rows = [f"| `{name}` | {DATASETS[name].description} |" for name in DATASETS]
    return "\n".join(["| name | what |", "|---|---|", *rows])


def encoders() -> str:
    sizes = {"free": "`keys.image_size`", "own": "its own"}
    entries = [ENCODERS[name] for name in ENCODERS]
    rows = [f"| `{e.name}` | {e.description} | {sizes[e.size]} | {e.revision or '–'} |" for e in entries]
    return "\n".join(["| name | what | input size | hub revision |", "|---|---|---|---|", *rows])


def methods() -> str:
    entries = [METHODS[name] for name in METHODS]
    rows = [
        f"| [`{m.name}`](methods/{m.name}.md) | {m.description} | {', '.join(sorted(m.needs)) or 'nothing'} |"
        f" {'yes' if m.in_paper else 'no'} | {m.citation} |"
        for m in entries
    ]
    head = "| name | what | must still be stored to forget | in the paper's tables | source |"
    return "\n".join([head, "|---|---|---|---|---|", *rows])


TABLES = {"data sets": data_sets, "encoders": encoders, "methods": methods}


def filled(text: str) -> str:
    """A page with the table between each pair of markers `<!-- NAME -->` … `<!-- end -->` made anew."""
    for name, table in TABLES.items():
        text = put(text, name, table())
    return text


def put(text: str, name: str, table: str) -> str:
    """The text with `table` between its markers `<!-- NAME -->` and `<!-- end -->`."""
    pattern = rf"(<!-- {name} -->\n).*?(<!-- end -->)"
    return re.sub(pattern, lambda found: f"{found[1]}{table}\n{found[2]}", text, flags=re.DOTALL)


if __name__ == "__main__":
    for page in map(Path, sys.argv[1:]):
        page.write_text(filled(page.read_text()))
