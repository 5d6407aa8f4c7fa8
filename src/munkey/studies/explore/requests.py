"""The keys of requests on the page."""

from munkey.evaluation.records import Evaluation


def name_request(run: Evaluation) -> str:
    """Return the key of a run's request, without the seed: `rateRATE` or `CASE/rateRATE`."""
    # The case is empty for a request of the main run, and `filter` drops it.
    return "/".join(filter(None, [run.case, f"rate{run.rate}"]))


def make_request_key(run: Evaluation) -> str:
    """Return the key of a run's request with its seed, SEED/REQUEST."""
    return f"{run.seed}/{name_request(run)}"
