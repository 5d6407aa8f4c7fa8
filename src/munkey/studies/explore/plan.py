"""The inputs of the pages that show single samples, one page per data set."""

from munkey.evaluation.records import Evaluation
from munkey.experiment.plan.plan import Plan
from munkey.studies.explore.requests import make_request_key
from munkey.studies.explore.settings import ExploreSettings
from munkey.studies.scenarios.plan import list_scenario_runs


class ExplorePlan:
    """The pages of a plan.

    Where `scenarios` is true, the page also shows the runs of the scenarios.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.params = plan.params
        self.settings = plan.params.section(ExploreSettings)

    def list_runs(self, dataset: str, scenarios: bool) -> list[Evaluation]:
        """List the evaluations that the page shows."""
        runs = self.plan.list_main_runs(dataset)
        if scenarios:
            runs += list_scenario_runs(self.plan, dataset)
        return runs

    def list_result_files(self, dataset: str, scenarios: bool) -> list[str]:
        """List the logits and the forget sets of the evaluations that the page shows."""
        files = set()
        for run in self.list_runs(dataset, scenarios):
            files.update([run.logits, run.forget])
        return sorted(files)

    def list_neighbor_files(self, dataset: str, scenarios: bool) -> dict[str, str]:
        """List the neighbor files, by the memory that was searched: `full`, or SEED/REQUEST."""
        count = self.params.for_case(dataset).inference.k
        files = {"full": self.plan.neighbors(dataset, self.params.seeds[0], "full", count)}
        for run in self.list_runs(dataset, scenarios):
            case = f"{dataset}/{run.case}".removesuffix("/")
            path = self.plan.neighbors(case, run.seed, f"rate{run.rate}", count)
            files[make_request_key(run)] = path
        return files

    def count_answering_neighbors(self, dataset: str) -> dict[str, int]:
        """Return how many neighbors a prediction depends on, for each system that looks up any."""
        counts = {}
        params = self.params.for_case(dataset)
        systems = {run.method for run in self.plan.list_main_runs(dataset)}
        for system in sorted(systems):
            family = self.plan.find_family(system)
            if not family.has_memory or family.asks_keys:
                continue
            if family.reads_inference:
                counts[system] = params.inference.k
            else:
                counts_by_setting = family.count_neighbors(params.get_family_section(family))
                counts[system] = max(counts_by_setting.values(), default=0)
        return counts

    def is_own(self, dataset: str) -> bool:
        """Return whether the pictures are the user's own, not a published data set."""
        return self.params.reader(dataset).needs_path is not None
