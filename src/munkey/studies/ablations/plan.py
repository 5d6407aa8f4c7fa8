"""What the ablations show: the rows of their tables, and their figure."""

from munkey.experiment.params.load import memory_family
from munkey.experiment.plan.exhibits import (
    TableRow,
    make_method_row,
    make_oracle_row,
    make_original_row,
)
from munkey.experiment.plan.plan import Plan

TABLES = ["ablations", "aggregation", "strategies", "fusion", "encoders"]
NEIGHBORS = (
    "Test accuracy and Avg Gap by the number of neighbors K. The same model of each seed is evaluated with every K."
    " Bars: ± one standard deviation over seeds, cut off at 0."
)


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
            if self.params.for_case(dataset).ablations.get("inference.k"):
                return {"neighbors": NEIGHBORS}
        return {}
