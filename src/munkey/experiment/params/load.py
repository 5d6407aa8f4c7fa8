"""The check of `params.yaml` and overlays, before any job starts: every fault at once, in words."""

import re
from collections.abc import Mapping

from munkey.audits.registry import AUDITS
from munkey.data.registry import DATASETS
from munkey.encoders.registry import ENCODERS
from munkey.experiment.params.external import reader_faults, source_faults
from munkey.experiment.params.messages import ParamsError, tree_faults, unknown, validated
from munkey.experiment.params.overlays import Values, knobs_of, merge, name_of
from munkey.experiment.params.schema import Params, memory_family, models, rate_name
from munkey.models.family import FAMILIES
from munkey.settings import SourceSettings
from munkey.unlearn.contract import METHODS

__all__ = ["Params", "ParamsError", "least_samples", "load", "memory_family", "rate_name", "refusals"]

MOST_CANDIDATES = 1000  # of a search


def load(config: Values) -> Params:
    """Check a configuration as read from YAML.

    Raises ParamsError that lists every fault at once: key, value, what is allowed.
    """
    if faults := tree_faults(config):
        raise _error(faults)
    known = {key: value for key, value in config.items() if key not in FAMILIES.refused}
    params = validated(models().whole, known, "", faults)
    if params is not None:
        faults += _override_faults(params)
        sections = {name: config.get(name) for name in models().dataset.model_fields}
        others = [name for name in params.overrides if name not in DATASETS.refused]
        for dataset in dict.fromkeys([*params.datasets, *others]) if not faults else ():
            faults += _dataset_faults(params, sections, dataset)
    if faults or params is None:
        raise _error(faults)
    return params


def _error(faults: list[str]) -> ParamsError:
    return ParamsError("the parameters are not valid:\n" + "\n".join(f"  - {fault}" for fault in dict.fromkeys(faults)))


def least_samples(config: Values, dataset: str) -> int:
    """Training samples that an experiment needs."""
    return load(config).for_case(dataset).least_samples


def refusals() -> list[str]:
    """The files and plug-ins that cannot be imported, and why."""
    registries = (METHODS, FAMILIES, DATASETS, ENCODERS, AUDITS)
    return [refusal for registry in registries for refusal in registry.refused.values()]


def _override_faults(params: Params) -> list[str]:
    """Sections of `overrides` that a data set cannot override."""
    allowed = models().dataset.model_fields
    return [
        unknown(f"overrides.{dataset}.{section}", value, section, allowed)
        for dataset in dict.fromkeys([*params.datasets, *params.overrides])
        for section, value in params.overrides.get(dataset, {}).items()
        if section not in allowed
    ]


def _dataset_faults(params: Params, sections: Values, dataset: str) -> list[str]:
    """What is wrong with the parameters as they hold for a data set, for its methods and for its ablations."""
    faults: list[str] = []
    override = params.overrides.get(dataset, {})
    prefix = f"overrides.{dataset}." if override else ""
    resolved = validated(models().dataset, merge(sections, override), prefix, faults)
    if resolved is None:
        return faults
    listed = dataset in params.datasets
    faults += reader_faults(dataset, resolved.source if listed else _own_source(override, resolved.source), prefix)
    if listed and not faults:
        faults += source_faults(dataset, resolved.source, resolved.least_samples, prefix)
    for method, settings in resolved.unlearn.items():
        if method not in METHODS.refused:
            validated(METHODS[method].settings, settings, f"{prefix}unlearn.{method}.", faults)
    if not faults:
        faults += _ablation_faults(params, dataset, merge(sections, override))
    for method in params.methods if not faults else ():
        faults += _search_faults(params, dataset, method)
    return faults


def _own_source(override: Values, source: SourceSettings) -> SourceSettings:
    """The source of a data set that is not listed, which must name its reader itself: it may be a misspelled name."""
    section = override.get("source")
    own = isinstance(section, Mapping) and section.get("reader") is not None
    return source if own else source.model_copy(update={"reader": None})


def _search_faults(params: Params, dataset: str, method: str) -> list[str]:
    """What is wrong with the candidates that the search would try for a method."""
    if (tried := params.candidate_count(dataset, method)) > MOST_CANDIDATES:
        return [f"search_grid: {method}: {tried:,} combinations; at most {MOST_CANDIDATES:,}"]
    faults: list[str] = []
    candidates = params.candidates(dataset, method)
    if params.search and len(candidates) > 1 and METHODS[method].original.has_memory:
        faults.append(f"search_grid: {method}: only methods of a family without a memory can be searched")
    for candidate in candidates:
        validated(METHODS[method].settings, candidate, f"search_grid: {method}: ", faults)
    return faults


def _ablation_faults(params: Params, dataset: str, sections: Values) -> list[str]:
    """What is wrong with the values of a data set's ablations, each checked as if it stood in its section."""
    ablations = params.for_case(dataset).ablations
    knobs = {f"ablations.{knob}": (knob, values) for knob, values in ablations.items()}
    knobs["audit.control"] = ("audit.control", [params.audit.control])
    knobs["audit.grid"] = ("audit.grid", list(params.audit_grid.values()))
    family = memory_family()
    own = ("data", "model", "train", family.name, "inference")
    faults = []
    for where, (knob, values) in knobs.items():
        allowed = own if where.startswith("audit.") else ("keys", *own)  # an audit has one encoder
        faults += [
            f"{where}: {key} is not a knob of {family.title} that may change here; sections: {', '.join(allowed)}"
            for key in dict.fromkeys(key for value in values for key in knobs_of(knob, value))
            if key.split(".", maxsplit=1)[0] not in allowed or key in ("keys.depth", f"{family.name}.p_drop")
        ]
    places = [f"{knob}/{name_of(value)}" for knob, values in ablations.items() for value in values]
    faults += [
        f"ablations: {place}: this names a folder; use letters, digits, _ and . only, and neither p_drop nor audit"
        for place in places
        if not re.fullmatch(r"(?!p_drop/|audit/)[\w.]+/[\w.-]+", place)
    ]
    for place, change in params.changes_of(dataset).items() if not faults else ():
        audited = "audit.control" if place == "audit/control" else "audit.grid"
        where = audited if place.startswith("audit/") else f"ablations: {place}"
        validated(models().dataset, merge(sections, change), f"{where}: ", faults)
    return faults
