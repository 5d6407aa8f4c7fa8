"""The evaluations of the selection."""

from collections.abc import Iterator

from munkey.evaluation.records import Evaluation
from munkey.experiment.params.schema import memory_family
from munkey.experiment.plan.plan import Plan
from munkey.studies.selection.cases import list_pairs


def list_selection_runs(plan: Plan, dataset: str) -> list[Evaluation]:
    """List the evaluations of the ablated family, which need no oracle."""
    systems = [memory_family().original, plan.ablated_method.name]
    return plan.list_changed_runs(dataset, list_pairs(plan.params), systems)


def list_runs(plan: Plan, target: str) -> Iterator[Evaluation]:
    """Yield the evaluations that a target needs in addition to the main run's."""
    if target == "paper":
        for dataset in plan.params.datasets:
            yield from list_selection_runs(plan, dataset)
