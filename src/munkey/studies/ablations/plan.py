"""The evaluations of ablations."""

from collections.abc import Iterator

from munkey.evaluation.records import Evaluation
from munkey.experiment.params.schema import Params, memory_family
from munkey.experiment.plan.plan import Plan
from munkey.studies.ablations.cases import list_cases
from munkey.studies.ablations.settings import Ablations


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
