"""The evaluations of ablations, the rows of their tables, and their figure."""

from collections.abc import Iterator

from munkey.evaluation.records import Evaluation
from munkey.experiment.params.schema import Params, memory_family
from munkey.experiment.plan.exhibits import (
    TableRow,
    make_method_row,
    make_oracle_row,
    make_original_row,
)
from munkey.experiment.plan.plan import Plan
from munkey.studies.ablations.cases import list_cases
from munkey.studies.ablations.settings import Ablations

TABLES = ["ablations", "aggregation", "strategies", "fusion", "encoders"]
NEIGHBORS = (
    "Test accuracy and Avg Gap by the number of neighbors K. The same model of each seed is evaluated with every K."
    " Bars: ± one standard deviation over seeds, cut off at 0."
)


def list_ablation_runs(plan: Plan, dataset: str) -> list[Evaluation]:
    """List the evaluations of the ablated family and its oracle for all ablations."""
    family = memory_family()
    systems = [family.original, family.oracle, plan.ablated_method.name]
    cases = list_cases(plan.params, dataset)
    return plan.list_changed_runs(dataset, cases, systems)


def list_datasets(params: Params) -> list[str]:
    """Return the data sets that have ablations."""
    datasets = []
    for dataset in params.datasets:
        if any(params.for_case(dataset).section(Ablations).root.values()):
            datasets.append(dataset)
    return datasets


def list_runs(plan: Plan, target: str) -> Iterator[Evaluation]:
    """Yield the evaluations that a target needs in addition to the main run's."""
    if target == "paper":
        for dataset in plan.params.datasets:
            yield from list_ablation_runs(plan, dataset)


class AblationPlan:
    """The ablations of a plan."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.params = plan.params

    @property
    def rows(self) -> list[TableRow]:
        """The rows of the tables: the original, its oracle, and the unlearned system."""
        return [
            make_original_row(memory_family()),
            make_oracle_row(memory_family()),
            make_method_row(self.plan.ablated_method),
        ]

    @property
    def figures(self) -> dict[str, str]:
        """The caption of the figure by its name, if any data set has an ablation of K."""
        for dataset in self.params.datasets:
            if self.params.for_case(dataset).section(Ablations).root.get("inference.k"):
                return {"neighbors": NEIGHBORS}
        return {}
