"""The evaluations of the selection, and its figures."""

from collections.abc import Iterator

from munkey.evaluation.records import Evaluation
from munkey.experiment.params.schema import memory_family
from munkey.experiment.plan.plan import Plan
from munkey.studies.selection.cases import list_pairs

CAPTIONS = {
    "selection": "The grid of (p_image, p_token). The pair chosen by the selection is a star, and (0, 0) is a gray"
    " cross. The four panels in percent have the same scale.",
    "sensitivity": "Pathway sensitivity P_s and its three accuracies over the epochs of training.",
}


def list_selection_runs(plan: Plan, dataset: str) -> list[Evaluation]:
    """List the evaluations of the ablated family, which need no oracle."""
    systems = [memory_family().original, plan.ablated_method.name]
    return plan.list_changed_runs(dataset, list_pairs(plan.params), systems)


def list_runs(plan: Plan, target: str) -> Iterator[Evaluation]:
    """Yield the evaluations that a target needs in addition to the main run's."""
    if target == "paper":
        for dataset in plan.params.datasets:
            yield from list_selection_runs(plan, dataset)


class SelectionPlan:
    """The selection of a plan."""

    def __init__(self, plan: Plan) -> None:
        self.params = plan.params

    @property
    def figures(self) -> dict[str, str]:
        """The captions of the figures, by name. Each data set has one of each kind."""
        captions = {}
        for kind, caption in CAPTIONS.items():
            for dataset in self.params.datasets:
                captions[f"{kind}-{dataset}"] = f"{caption} Data set: {dataset}."
        return captions
