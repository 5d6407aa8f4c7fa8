"""Where what an entry of the leaderboard says, what it was run with, and its numbers do not fit."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product

from munkey.experiment.params.overlays import merge
from munkey.experiment.run.provenance import params_digest
from munkey.report.tables.summary import GAP_METRICS
from tools.entries import ENTRY, OVERLAY, RESULTS, BySeed, Entry


def anywhere(section: object) -> object:
    """A section of settings without the place of files on a disk."""
    if not isinstance(section, Mapping):
        return section
    return {name: value for name, value in section.items() if name != "path"}


def faults(entry: Entry) -> list[str]:
    """What does not fit, in words; nothing where all does."""
    return [*_of_settings(entry), *_of_jobs(entry), *_of_numbers(entry)]


def _of_settings(entry: Entry) -> Iterator[str]:
    results = entry.results
    if merge(results.config, entry.overlay) != results.config:
        yield f"{OVERLAY} has values that {RESULTS} was not run with"
    if entry.said.method != results.method:
        yield f"{ENTRY} is about {entry.said.method}, {RESULTS} about {results.method}"
    for digest, settings in results.settings.items():
        if params_digest(settings) != digest:
            yield (
                f"{RESULTS}: the settings listed under {digest} have the digest {params_digest(settings)}, so the file"
                " was changed; write it again with `python -m tools.write_entry`"
            )


def _of_jobs(entry: Entry) -> Iterator[str]:
    names = {
        f"{dataset}/seed{seed}/rate{rate}/{system}"
        for dataset in entry.datasets
        for seed, rate, system in product(entry.seeds, entry.rates(dataset), entry.systems)
    }
    if missing := sorted(names - set(entry.results.jobs)):
        yield f"{RESULTS} lacks the jobs {', '.join(missing)}"
    for name, job in entry.results.jobs.items():
        if job.commit != entry.said.commit:
            yield f"{name} was run at {job.commit}, {ENTRY} says {entry.said.commit}"
        yield from (
            f"{name} was not run with `config` of {RESULTS}: its section {section!r} differs"
            for section, values in entry.results.settings.get(job.settings, {"": {}}).items()
            if anywhere(values) != anywhere(_configured(entry, section, name))
        )


def _configured(entry: Entry, section: str, job: str) -> object:
    """A section of a job's settings as the parameters have it; of a method that was searched, as the job has it."""
    dataset, _, _, system = job.split("/")
    if section == "method" and entry.results.config["search"]:
        return entry.results.settings[entry.results.jobs[job].settings]["method"]
    if section == "method":
        return entry.section("unlearn", dataset)[system]
    return entry.section(section, dataset) if section in entry.results.config else None


def _of_numbers(entry: Entry) -> Iterator[str]:
    for dataset in entry.datasets:
        for rate in entry.rates(dataset):
            systems = entry.results.metrics.get(dataset, {}).get(rate, {})
            place = f"{RESULTS}, {dataset}, rate {rate}"
            for system in entry.systems:
                values = systems.get(system, {})
                if not set(GAP_METRICS) <= set(values) or {*map(len, values.values())} != {len(entry.seeds)}:
                    yield f"{place}: {system} lacks values of {', '.join(GAP_METRICS)} for {len(entry.seeds)} seeds"
                    break
            else:
                if entry.results.oracle and not _fits([systems[system] for system in entry.systems]):
                    yield f"{place}: the gaps are not those of the accuracies and the MIA"


def _fits(systems: Sequence[BySeed]) -> bool:
    """Whether the gap of each seed is the mean distance of the method's metrics from the oracle's."""
    method, oracle = systems
    gaps = [
        sum(abs(method[metric][seed] - oracle[metric][seed]) for metric in GAP_METRICS) / len(GAP_METRICS)
        for seed in range(len(method["TA"]))
    ]
    told = method.get("gap", [])
    return len(told) == len(gaps) and all(abs(one - other) < 1e-6 for one, other in zip(told, gaps, strict=True))
