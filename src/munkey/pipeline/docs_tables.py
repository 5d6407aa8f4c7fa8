"""The tables of the docs, from the registries and from kept results. `make docs` writes them into the pages.

A marker names what stands below it: `<!-- methods -->`, or `<!-- results/NAME/tables/main.md -->` for a file that lies
there below docs/ (munkey.pipeline.keep). Run from the project's folder:

python -m munkey.pipeline.docs_tables PAGES
"""

import re
import sys
from pathlib import Path

from munkey.audits.registry import AUDITS
from munkey.data.registry import DATASETS
from munkey.encoders.registry import ENCODERS
from munkey.unlearn.contract import METHODS, Method


def data_sets() -> str:
    rows = [f"| `{entry.name}` | {entry.description} |" for entry in DATASETS.values()]
    return "\n".join(["| name | what |", "|---|---|", *rows])


def encoders() -> str:
    sizes = {"free": "`keys.image_size`", "own": "its own"}
    rows = [
        f"| `{entry.name}` | {entry.description} | {sizes[entry.size]} | {entry.revision or '–'} |"
        for entry in ENCODERS.values()
    ]
    return "\n".join(["| name | what | input size | hub revision |", "|---|---|---|---|", *rows])


def methods() -> str:
    header = "| name | what | must still be stored to forget | in the paper's tables | source |"
    return "\n".join([header, "|---|---|---|---|---|", *map(_method, METHODS.values())])


def _method(method: Method) -> str:
    needs = ", ".join(sorted(method.needs)) or "nothing"
    in_paper = "yes" if method.in_paper else "no"
    page = f"[`{method.name}`](methods/{method.name}.md)"
    return f"| {page} | {method.description} | {needs} | {in_paper} | {method.citation} |"


def audits() -> str:
    rows = [f"| `{a.name}` | {a.title} | {a.definition} | {a.needs} | {a.source} |" for a in AUDITS.values()]
    return "\n".join(["| name | title | what | needs | source |", "|---|---|---|---|---|", *rows])


KEPT = re.compile(r"^<!-- (results/\S+) -->$", re.MULTILINE)
TABLES = {"audits": audits, "data sets": data_sets, "encoders": encoders, "methods": methods}


def filled(text: str) -> str:
    """A page with its tables made anew. Raises FileNotFoundError for a result that is not kept."""
    for name, table in TABLES.items():
        text = put(text, name, table())
    for name in KEPT.findall(text):
        text = put(text, name, kept(name))
    return text


def kept(name: str) -> str:
    """The tables of a kept file, their titles as captions."""
    path = Path("docs", name)
    if not path.exists():
        raise FileNotFoundError(f"{path}: not kept; `make keep NAME={name.split('/')[1]}` copies it from results/")
    return re.sub(r"^### (.*)$", r"*\1*", path.read_text().strip(), flags=re.MULTILINE)


def put(text: str, name: str, table: str) -> str:
    """The text with `table` between the markers `<!-- NAME -->` and `<!-- end -->`."""
    pattern = rf"(<!-- {re.escape(name)} -->\n).*?(<!-- end -->)"
    return re.sub(pattern, lambda markers: f"{markers[1]}{table}\n{markers[2]}", text, flags=re.DOTALL)


if __name__ == "__main__":
    for page in map(Path, sys.argv[1:]):
        page.write_text(filled(page.read_text()))
