"""The evaluations of scenarios, the files that their forget sets are drawn from, and their tables' rows."""

from collections.abc import Iterator

from munkey.data import forget_draws
from munkey.evaluation.records import Evaluation
from munkey.experiment.params.schema import Params, rate_name
from munkey.experiment.plan.cases import forget_rates, get_dataset
from munkey.experiment.plan.exhibits import Exhibits, TableRow, make_method_row
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


class ScenarioPlan:
    """What the tables of scenarios show."""

    def __init__(self, exhibits: Exhibits) -> None:
        self.params = exhibits.params
        self.exhibits = exhibits

    @property
    def rows(self) -> list[TableRow]:
        """The rows of the main tables, and variants "output off".

        There is a variant of each method that deletes from a trained system without data.
        """
        rows = list(self.exhibits.rows)
        for method in map(self.params.method, self.params.methods):
            if method.original.learns and not method.needs:
                row = make_method_row(method)
                row["name"] += "-off"
                row["title"] += ", output off"
                rows.append(row)
        return rows

    def describe_requests(self, dataset: str) -> dict[str, str]:
        """Describe the requests of a data set, by case.

        A description is the sampling, followed by the names or the list file, if any.
        """
        requests = {}
        for name in list_cases(self.params, dataset):
            forget = self.params.for_case(f"{dataset}/{name}").forget
            if forget.names:
                detail = ", ".join(forget.names)
            else:
                detail = forget_draws.get_list_file(forget) or ""
            requests[name] = f"{forget.sampling} {detail}".rstrip()
        return requests
