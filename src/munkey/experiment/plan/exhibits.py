"""The exhibits of the report: rows of tables, and figures."""

from functools import cached_property
from typing import Any

from munkey.core.paths import fill
from munkey.experiment.plan.plan import Plan
from munkey.models.family import Family
from munkey.report.figures.charts import CHARTS
from munkey.report.tables.ranks import has_enough_blocks
from munkey.unlearn.contract import Method

TableRow = dict[str, Any]  # the fields of munkey.report.tables.summary.Row
NOT_TRIED = "–"  # no settings of a design were compared, or nobody says so


class Exhibits:
    """The tables and figures of a plan."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.params = plan.params

    @cached_property
    def rows(self) -> list[TableRow]:
        """The rows of the tables: originals (for comparison), oracles, and methods."""
        rows = list(map(make_original_row, self.plan.families))
        rows += map(make_oracle_row, self.plan.families)
        for name in self.params.methods:
            rows.append(make_method_row(self.params.method(name)))
        return rows

    @cached_property
    def designs(self) -> list[TableRow]:
        """The fields of `munkey.report.tables.frontier.Design` for each oracle and each method.

        After deletion, an exact system equals its oracle, so that oracle is left out.
        """
        designs = []
        for family in self.plan.families:
            if not family.exact:
                oracle = make_oracle_row(family)
                designs.append(_make_design(oracle, "anew", "training set", NOT_TRIED))
        for method in map(self.params.method, self.params.methods):
            family = method.original
            if family.exact:
                kind = "exact"
            elif family.keeps_weights:
                kind = "rows"
            else:
                kind = "weights"
            row = make_method_row(method)
            designs.append(_make_design(row, kind, method.storage, self.describe_tried(method)))
        return designs

    def describe_tried(self, method: Method) -> str:
        """Say how many settings of a method were compared to choose its own.

        The search compares its candidates, and `auto` those of the family. What was compared before
        this run is known only if `tried` says so.
        """
        counts = []
        for dataset in self.params.datasets:
            if self.params.is_searched(dataset, method.name):
                counts.append(self.params.candidate_count(dataset, method.name))
        if counts:
            return f"{max(counts)}, searched"
        if method.name in self.params.tried:
            return self.params.tried[method.name]
        for dataset in self.params.datasets:
            section = self.params.for_case(dataset).get_family_section(method.original)
            if section is None or "auto" not in vars(section).values():
                return NOT_TRIED
        return "auto"

    @property
    def titles(self) -> dict[str, str]:
        """The title of each system."""
        return {row["name"]: row["title"] for row in self.rows}

    @cached_property
    def charts(self) -> list[str]:
        """The names of figures drawn from tables or traces: KIND, or KIND-DATASET by data set."""
        charts: list[str] = []
        for kind, chart in CHARTS.items():
            paths = "".join(chart.inputs(self.plan.layout).values())
            if "{dataset}" in paths:
                charts += [f"{kind}-{dataset}" for dataset in self.params.datasets]
            else:
                charts.append(kind)
        return charts

    @property
    def ranked(self) -> bool:
        """Whether there are enough seeds and methods to rank."""
        methods = [row for row in self.rows if row["oracle"] and not row.get("context")]
        blocks = len(self.params.datasets) * len(self.params.seeds)
        return has_enough_blocks(blocks, len(methods))

    @property
    def figures(self) -> list[str]:
        figures = list(self.charts)
        if self.ranked:
            figures.append("ranks")
        return figures

    def find_chart_inputs(self, name: str) -> dict[str, str]:
        """Return the files that a chart is drawn from. Traces are those of the first seed."""
        kind, _, dataset = name.partition("-")
        inputs = {}
        for role, path in CHARTS[kind].inputs(self.plan.layout).items():
            inputs[role] = fill(path, dataset=dataset, seed=self.params.seeds[0])
        return inputs

    @property
    def grid_summary(self) -> str:
        """A sentence on the seeds, forget rates and methods of the plan."""
        phrases = []
        for dataset, names in self.plan.rates.items():
            percents = ", ".join(f"{100 * float(name):g}%" for name in names)
            phrases.append(f"{dataset} {percents}")
        rates = "; ".join(phrases)
        seeds = ", ".join(map(str, self.params.seeds))
        methods = ", ".join(self.params.methods)
        return f"Seeds: {seeds}. Forget rates: {rates}. Methods: {methods}."


def _make_design(row: TableRow, kind: str, stored: str, tried: str) -> TableRow:
    names = {"name": row["name"], "title": row["title"]}
    return names | {"kind": kind, "stored": stored, "tried": tried}


def make_original_row(family: Family) -> TableRow:
    """Return the row of a family's original, shown for comparison."""
    return {
        "name": family.original,
        "title": family.original_title,
        "oracle": family.oracle,
        "context": True,
    }


def make_oracle_row(family: Family) -> TableRow:
    """Return the row of a family's oracle."""
    return {"name": family.oracle, "title": family.oracle_title, "oracle": None}


def make_method_row(method: Method) -> TableRow:
    """Return the row of a method."""
    oracle = method.original.oracle
    return {"name": method.name, "title": method.title, "oracle": oracle}
