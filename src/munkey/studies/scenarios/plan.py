"""The evaluations of scenarios."""

from collections.abc import Iterator

from munkey.data import forget_draws
from munkey.evaluation.records import Evaluation
from munkey.experiment.params.schema import Params, rate_name
from munkey.experiment.plan.cases import forget_rates, get_dataset
from munkey.experiment.plan.plan import Files, Plan
from munkey.studies.scenarios.cases import list_cases
from munkey.studies.scenarios.settings import Scenarios

BY_NEIGHBORS = ("hard", "medium", "easy", "relied-on")


def list_datasets(params: Params) -> list[str]:
    """Return the data sets that have scenarios."""
    return [name for name in params.datasets if params.for_case(name).section(Scenarios).root]


def list_scenario_runs(plan: Plan, dataset: str) -> list[Evaluation]:
    """List the evaluations of a data set's scenarios: all systems after each request."""
    systems = [*plan.originals, *plan.oracles, *plan.params.methods]
    runs: list[Evaluation] = []
    for name in list_cases(plan.params, dataset):
        case = f"{dataset}/{name}"
        rates = forget_rates(plan.params.for_case(case).forget)
        runs += plan.evaluations(case, systems, list(map(rate_name, rates)))
    return runs


def list_runs(plan: Plan, target: str) -> Iterator[Evaluation]:
    """Yield the evaluations that a target needs in addition to the main run's."""
    if target == "scenarios":
        for dataset in plan.params.datasets:
            yield from list_scenario_runs(plan, dataset)


def list_sources(plan: Plan, case: str, seed: int) -> Files:
    """Return the files, other than the data set, that a forget set is drawn from."""
    forget = plan.params.for_case(case).forget
    list_file = forget_draws.get_list_file(forget)
    if list_file is not None:
        return {"listed": str(forget_draws.get_list_path(list_file, seed))}
    if forget.sampling in BY_NEIGHBORS:
        return {"neighbors": plan.neighbors(get_dataset(case), 0, "full")}
    if forget.sampling == "cluster":
        return {"keyfile": plan.keys(case)}
    return {}
