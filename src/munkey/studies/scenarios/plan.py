"""The rows of the scenarios' tables, and the words for each request."""

from munkey.data import forget_draws
from munkey.experiment.plan.cases import SCENARIO
from munkey.experiment.plan.exhibits import Exhibits, TableRow, make_method_row


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
        for name in self.params.for_case(dataset).scenarios:
            forget = self.params.for_case(f"{dataset}/{SCENARIO}{name}").forget
            if forget.names:
                detail = ", ".join(forget.names)
            else:
                detail = forget_draws.get_list_file(forget) or ""
            requests[f"{SCENARIO}{name}"] = f"{forget.sampling} {detail}".rstrip()
        return requests
