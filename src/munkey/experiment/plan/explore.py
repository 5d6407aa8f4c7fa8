"""What the page of a data set, on which single samples are looked at, is made from."""

from munkey.evaluation.records import Evaluation
from munkey.experiment.plan.plan import Plan
from munkey.explore.experiment import FULL, make_request_key


class ExplorePlan:
    """Pages of a plan. scenarios: whether the page shows the runs of scenarios, too."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.params = plan.params

    def runs(self, dataset: str, scenarios: bool) -> list[Evaluation]:
        """Return the evaluations that the page shows."""
        runs = self.plan.main_of(dataset)
        return runs + self.plan.scenarios_of(dataset) if scenarios else runs

    def answers(self, dataset: str, scenarios: bool) -> list[str]:
        """Return the files of these evaluations that the page reads: answers, and forget sets."""
        files = set()
        for run in self.runs(dataset, scenarios):
            files.update([run.logits, run.forget])
        return sorted(files)

    def near(self, dataset: str, scenarios: bool) -> dict[str, str]:
        """Return files of neighbors by the memory that was searched: `full`, or SEED/REQUEST."""
        count = self.params.for_case(dataset).inference.k
        files = {FULL: self.plan.neighbors(dataset, self.params.seeds[0], FULL, count)}
        for run in self.runs(dataset, scenarios):
            case = "/".join(filter(None, [dataset, run.case]))
            path = self.plan.neighbors(case, run.seed, f"rate{run.rate}", count)
            files[make_request_key(run)] = path
        return files

    def rests_on(self, dataset: str) -> dict[str, int]:
        """Return how many neighbors an answer rests on, of the systems that look up any."""
        counts = {}
        params = self.params.for_case(dataset)
        for system in {run.method for run in self.plan.main_of(dataset)}:
            family = self.plan.family_of(system)
            if not family.has_memory or family.asks_keys:
                continue
            if family.reads_inference:
                counts[system] = params.inference.k
            else:
                read = family.count_neighbors(params.of_family(family))
                counts[system] = max(read.values(), default=0)
        return dict(sorted(counts.items()))

    def is_own(self, dataset: str) -> bool:
        """Return whether the pictures are the user's own, not a published data set."""
        return self.params.reader(dataset).needs_path is not None
