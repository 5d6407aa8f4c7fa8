"""Write the tables of the docs, from registries, measurements and copied results: `make docs`.

A marker names the table below it: `<!-- methods -->`, or `<!-- results/NAME/tables/main.md -->` for
a file in docs/ that tools.copy_results copied. With `<!-- results/NAME/tables/main.md: Method, Avg
Gap -->`, only these columns of the table are shown. Run this module from the project's folder:

python -m tools.docs_tables PAGES
"""

import re
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks import page as benchmarks
from munkey.audits.power import read_simulated_audits
from munkey.audits.registry import AUDITS
from munkey.data.registry import DATASETS
from munkey.encoders.registry import ENCODERS
from munkey.experiment.cost.estimate import estimate, format_gigabytes
from munkey.experiment.cost.machines import find_machine
from munkey.experiment.params.load import load, read_params
from munkey.experiment.plan.plan import Plan
from munkey.report.page import glossary
from munkey.unlearn.contract import METHODS, Method


def data_sets() -> str:
    """Make the table of registered data sets."""
    rows = [f"| `{entry.name}` | {entry.description} |" for entry in DATASETS.values()]
    return "\n".join(["| name | what |", "|---|---|", *rows])


def encoders() -> str:
    """Make the table of registered encoders."""
    sizes = {"free": "`keys.image_size`", "own": "its own"}
    rows = [
        f"| `{entry.name}` | {entry.description} | {sizes[entry.size]} | {entry.revision or '–'} |"
        for entry in ENCODERS.values()
    ]
    return "\n".join(["| name | what | input size | hub revision |", "|---|---|---|---|", *rows])


def methods() -> str:
    """Make the table of registered unlearning methods, with links to their pages and code."""
    header = (
        "| name | what | must still be stored to forget | in the paper's tables | code | source |"
    )
    return "\n".join([header, "|---|---|---|---|---|---|", *map(_format_method, METHODS.values())])


def _format_method(method: Method) -> str:
    """Format a row of the table of methods."""
    needs = ", ".join(sorted(method.needs)) or "nothing"
    in_paper = "yes" if method.in_paper else "no"
    page = f"[`{method.name}`](methods/{method.name}.md)"
    module = method.run.__module__.replace(".", "/")
    code = f"[`{module.rpartition('/')[2]}.py`](../src/{module}.py)"
    only = f" (`network`: {' or '.join(sorted(method.networks))})" if method.networks else ""
    return f"| {page} | {method.description}{only} | {needs} | {in_paper} | {code} | {method.citation} |"


def audits() -> str:
    """Make the table of registered audits."""
    rows = [f"| {audit.title} | {audit.definition} | {audit.source} |" for audit in AUDITS.values()]
    return "\n".join(["| audit | what it measures | source |", "|---|---|---|", *rows])


def power() -> str:
    """Make the table of how often simulated audits flag two cheaters, in the hardest of all worlds.

    Verdicts quote its rows. The counts have no intervals, because each is the least of several.
    """
    rows = [
        "| samples | pairs | LiRA's AUROC before deletion | 5% of the samples kept whole"
        " | 20% of each memory kept, less its mean |",
        "|---|---|---|---|---|",
    ]
    for row in sorted(read_simulated_audits(), key=lambda row: (row.pool, -row.pairs, -row.auroc)):
        cells = [f"{row.pool}", f"{row.pairs}", f"{row.auroc:.0f}"]
        cells.append(f"{row.kept_whole} of {row.kept_whole_of}")
        cells.append(f"{row.mean_subtracted} of {row.mean_subtracted_of}")
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def columns() -> str:
    """Make the table that explains the columns of all tables."""
    rows = []
    for term in glossary.read_terms():
        cells = [", ".join(term.names), term.what, term.good]
        escaped_cells = [cell.replace("|", r"\|") for cell in cells]
        rows.append(f"| {' | '.join(escaped_cells)} |")
    return "\n".join(["| column | what it is | good |", "|---|---|---|", *rows])


# The speed of a GPU that trains ViT-T/16 on 8,000 images/s at 224 px, the target of
# docs/performance.md.
ASSUMED_TFLOPS = 60.0


def hours() -> str:
    """Make the table of estimated hours of the paper's experiment, on GPUs of ASSUMED_TFLOPS."""
    plan = Plan(load(read_params([Path("workflow/presets/paper.yaml")])))
    costs = estimate(plan, "paper", find_machine(tflops=ASSUMED_TFLOPS), (1, 8, 64))
    rows = [f"| {count} | {time:.1f} |" for count, time in costs.hours.items()]
    trainings = sum(work.jobs for work in costs.work if work.step == "train")
    jobs = sum(work.jobs for work in costs.work)
    steps = sum(work.steps for work in costs.work)
    operations = sum(work.operations for work in costs.work) / 1e15
    caption = (
        f"*{trainings:,} training runs, {jobs:,} jobs of training, unlearning and evaluation, {steps / 1e6:,.1f}"
        f" million steps, {operations:,.3g} PFLOP, {format_gigabytes(costs.disk)} of disk*"
    )
    return "\n".join([caption, "", "| GPUs | hours, at least |", "|---|---|", *rows])


# A marker of a copied result, with its path below docs/ and the names of its columns, if any.
KEPT = re.compile(r"^<!-- ((results/\S+?)(?:: (.+))?) -->$", re.MULTILINE)
TABLES: dict[str, Callable[[], str]] = {
    "audits": audits,
    "data sets": data_sets,
    "encoders": encoders,
    "columns": columns,
    "methods": methods,
    "paper's hours": hours,
    "power": power,
    **{name: partial(benchmarks.table, name) for name in benchmarks.TABLES},
}


def filled(text: str) -> str:
    """Return the text of a page with updated tables.

    Raises FileNotFoundError if a result was not copied to docs/.
    """
    for name, table in TABLES.items():
        if f"<!-- {name} -->\n" in text:
            text = put(text, name, table())
    for marker, name, columns in KEPT.findall(text):
        if columns:
            shown = select_columns(_text(name), columns.split(", "))
        else:
            shown = kept(name)
        text = put(text, marker, shown)
    return text


def select_columns(text: str, names: list[str]) -> str:
    """Return the table in a text with only the named columns, in this order.

    Raises ValueError for an unknown column.
    """
    rows = []
    for line in text.splitlines():
        if line.startswith("|"):
            rows.append([cell.strip() for cell in line.strip("|").split("|")])
    header = rows[0]
    positions = [header.index(name) for name in names]
    return "\n".join(f"| {' | '.join(row[position] for position in positions)} |" for row in rows)


def kept(name: str) -> str:
    """Return the tables of a copied result, with their titles as captions."""
    return re.sub(r"^### (.*)$", r"*\1*", _text(name).strip(), flags=re.MULTILINE)


def _text(name: str) -> str:
    """Read a copied result. Raises FileNotFoundError, which says how to copy it, if it is missing."""
    path = Path("docs", name)
    if not path.exists():
        raise FileNotFoundError(
            f"{path}: missing; `python -m tools.copy_results {name.split('/')[1]}` copies it from results/"
        )
    return path.read_text()


def put(text: str, name: str, table: str) -> str:
    """Return the text with `table` between the markers `<!-- NAME -->` and `<!-- end -->`.

    A text without these markers is returned unchanged.
    """
    pattern = rf"(<!-- {re.escape(name)} -->\n).*?(<!-- end -->)"
    return re.sub(
        pattern, lambda markers: f"{markers[1]}{table}\n{markers[2]}", text, flags=re.DOTALL
    )


if __name__ == "__main__":
    for page in map(Path, sys.argv[1:]):
        page.write_text(filled(page.read_text()))
