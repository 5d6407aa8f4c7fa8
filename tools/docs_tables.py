"""The tables of the docs, from registries, measurements, kept results, entries: `make docs` writes them into pages.

A marker names what stands below it: `<!-- methods -->`; `<!-- results/NAME/tables/main.md -->` for a file that lies
there below docs/ (tools.copy_results); or `<!-- short results/NAME results/AUDIT TITLE -->` for the short table of a
run, with what an audit found to be left, and a title in place of the data set's name. Run from the project's folder:

python -m tools.docs_tables PAGES
"""

import re
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks import page as benchmarks
from munkey.audits.registry import AUDITS
from munkey.data.registry import DATASETS
from munkey.encoders.registry import ENCODERS
from munkey.experiment.cost.estimate import estimate, gigabytes
from munkey.experiment.cost.machines import machine
from munkey.experiment.params.load import load, read_params
from munkey.experiment.plan.plan import Plan
from munkey.report.page import glossary
from munkey.report.tables.audits import LEFT
from munkey.report.tables.markup import two_digits
from munkey.unlearn.contract import METHODS, Method
from tools.leaderboard import leaderboard, parts


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


def columns() -> str:
    cells = [(", ".join(term.names), term.what, term.good) for term in glossary.terms()]
    rows = [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in cells]
    return "\n".join(["| column | what it is | good |", "|---|---|---|", *rows])


def hours() -> str:
    """What the paper's experiment takes on GPUs whose speed is assumed, as `make plan` estimates it."""
    plan = Plan(load(read_params([Path("workflow/presets/paper.yaml")])))
    costs = estimate(plan, "paper", machine("h200-assumed"), (1, 8, 64))
    rows = [f"| {count} | {time:.1f} |" for count, time in costs.hours.items()]
    trainings = sum(each.jobs for each in costs.work if each.step == "train")
    jobs, steps = (sum(counts) for counts in zip(*((each.jobs, each.steps) for each in costs.work), strict=True))
    operations = sum(each.operations for each in costs.work) / 1e15
    about = (
        f"*{trainings:,} trainings, {jobs:,} jobs of training, unlearning and evaluation, {steps / 1e6:,.1f} million"
        f" steps, {operations:,.3g} PFLOP, {gigabytes(costs.disk)} of disk*"
    )
    return "\n".join([about, "", "| GPUs | hours, at least |", "|---|---|", *rows])


KEPT = re.compile(r"^<!-- (results/\S+) -->$", re.MULTILINE)
SHORT = re.compile(r"^<!-- short (results/\S+) (results/\S+) (\S+) -->$", re.MULTILINE)
SHORTENED = ("tables/main.md", "tables/runtime.md")  # what a short table is made from
AUDITED = {  # what an audit calls systems that no method made
    **{"Original (T)": "ViT, nothing done", "Original (M)": "MUNKEY, nothing done"},
    **{"Retrain (T)": "ViT, oracle", "Retrain (M)": "MUNKEY, oracle"},
}
TABLES: dict[str, Callable[[], str]] = {
    "audits": audits,
    "data sets": data_sets,
    "encoders": encoders,
    "columns": columns,
    "leaderboard": leaderboard,
    "methods": methods,
    "paper's hours": hours,
    **{name: partial(benchmarks.table, name) for name in benchmarks.TABLES},
}


def filled(text: str) -> str:
    """A page with its tables made anew. Raises FileNotFoundError for a result that is not kept."""
    for name, table in TABLES.items():
        if f"<!-- {name} -->\n" in text:
            text = put(text, name, table())
    for name in KEPT.findall(text):
        text = put(text, name, kept(name))
    for words in SHORT.findall(text):
        text = put(text, f"short {' '.join(words)}", short(*words))
    return text


def kept(name: str) -> str:
    """The tables of a kept file, their titles as captions."""
    return re.sub(r"^### (.*)$", r"*\1*", _text(name).strip(), flags=re.MULTILINE)


def short(folder: str, audit: str, name: str) -> str:
    """What matters most of a kept run: its first data set, at the largest forget rate.

    folder: `results/NAME`, of which what is SHORTENED is kept; audit: the same of a run that audited that data set;
    name: of the data set, as readers know it. Raises KeyError where these lack a column.
    """
    tables, times = (_text(f"{folder}/{name}") for name in SHORTENED)
    title, main = re.findall(r"^### (.*)\n\n((?:\|.*\n)+)", tables, re.MULTILINE)[0]
    dataset, _, about = title.partition(": ")
    shares = lines_of(_text(f"{audit}/audit/{dataset}/table.md").partition("\n\n")[2])
    left = {line["Model, and what was done"]: line["left [%]"] for line in shares}
    systems = lines_of(main)
    rate = next(column.removeprefix("TA @") for column in systems[0] if column.startswith("TA @"))
    seconds = {
        line["Method"]: line["Unlearn [s]"]
        for line in lines_of(times)
        if (line["Data set"], line["Forget"]) == (dataset, rate)
    }
    needs = {method.title: parts(sorted(method.needs)) for method in METHODS.values()}
    rows = []
    for line in systems:
        method, gap = line["Method"], re.sub(r"\*\*|</?u>", "", line[f"Avg Gap @{rate}"])
        share = left.get(AUDITED.get(method, method), "–")
        cells = [method, share, line[f"TA @{rate}"], gap, _rounded(seconds[method]), needs.get(method, "–")]
        rows.append(f"| {' | '.join(cells)} |")
    header = "| Method | left [%] | Test accuracy | Avg Gap | Seconds | Needs the data? |"
    said = "; ".join(part for part in about.split("; ") if "bold" not in part)
    title = f"*{name}, {rate} forgotten: {said}; left: {LEFT}*"
    return "\n".join([title, "", header, "|---|---|---|---|---|---|", *rows])


def _text(name: str) -> str:
    """A kept file. Raises FileNotFoundError, with what to do, where there is none."""
    path = Path("docs", name)
    if not path.exists():
        raise FileNotFoundError(
            f"{path}: missing; `python -m tools.copy_results {name.split('/')[1]}` copies it from results/"
        )
    return path.read_text()


def lines_of(table: str) -> list[dict[str, str]]:
    """The lines of a Markdown table, by the names of its columns."""
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.strip().splitlines()]
    return [dict(zip(cells[0], line, strict=True)) for line in cells[2:]]


def _rounded(seconds: str) -> str:
    """The mean of `mean ± sd` with two digits; a cell without a number stays as it is."""
    mean = seconds.split(" ± ", maxsplit=1)[0]
    return two_digits(float(mean)) if mean[0].isdigit() else seconds


def put(text: str, name: str, table: str) -> str:
    """The text with `table` between the markers `<!-- NAME -->` and `<!-- end -->`."""
    pattern = rf"(<!-- {re.escape(name)} -->\n).*?(<!-- end -->)"
    return re.sub(pattern, lambda markers: f"{markers[1]}{table}\n{markers[2]}", text, flags=re.DOTALL)


if __name__ == "__main__":
    for page in map(Path, sys.argv[1:]):
        page.write_text(filled(page.read_text()))
