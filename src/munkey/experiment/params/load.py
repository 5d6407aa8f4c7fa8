"""The check of `params.yaml` and overlays, before any job starts: every fault at once, in words."""

import re
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path

import yaml

from munkey.audits.registry import AUDITS
from munkey.core.paths import name_of as name_of_configuration
from munkey.data.registry import DATASETS
from munkey.encoders.registry import ENCODERS
from munkey.experiment.params.external import list_faults, reader_faults, source_faults
from munkey.experiment.params.messages import ParamsError, noted, shortened
from munkey.experiment.params.overlays import Values, knobs_of, merge, name_of
from munkey.experiment.params.schema import Params, memory_family, models, rate_name
from munkey.models.family import FAMILIES
from munkey.unlearn.contract import METHODS

__all__ = [
    "Params",
    "ParamsError",
    "from_command_line",
    "load",
    "memory_family",
    "rate_name",
    "read_params",
    "refusals",
]

PARAMS = Path("params.yaml")
MOST_CANDIDATES = 1000  # of one method's search
MOST = 2**63 - 1


class StrictLoader(yaml.SafeLoader):  # the one in C crashes where lists are nested deeply
    """A reader of YAML that refuses a key that stands twice in one mapping; others silently take the last."""

    def construct_mapping(
        self, node: yaml.MappingNode, deep: bool = False
    ) -> dict[Hashable, object]:
        lines: dict[str, int] = {}
        for key, _ in node.value:
            name, line = str(key.value), key.start_mark.line + 1
            if name in lines:
                raise yaml.YAMLError(
                    f"the key {name!r} stands on line {lines[name]} and again on line {line}"
                )
            lines[name] = line
        return super().construct_mapping(node, deep)


def read_file(path: Path) -> dict[str, object]:
    """A file of parameters. Raises ParamsError that says what is wrong with it, and where."""
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), StrictLoader)
    except OSError as error:
        raise ParamsError(f"{path}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise ParamsError(
            f"{path}: is not valid: line {line} is not text in UTF-8 ({error.reason})"
        ) from None
    except RecursionError:
        raise ParamsError(f"{path}: is nested too deeply") from None
    except (yaml.YAMLError, ValueError) as error:  # what is no date is a ValueError
        raise ParamsError(f"{path}: is not valid: {' '.join(str(error).split())}") from None
    if content is None:
        raise ParamsError(f"{path}: is empty")
    if not isinstance(content, dict):
        raise ParamsError(f"{path}: must hold keys at its top level, as in `seeds: [0]`")
    return content


def read_params(overlays: Sequence[Path], params: Path = PARAMS) -> Values:
    """`params.yaml` with overlays, as Snakemake merges them. Raises ParamsError for a file that cannot be used."""
    config: Values = {}
    for path in (params, *overlays):
        config = merge(config, read_file(path))
    return {**config, "name": name_of_configuration(str(config.get("name", "")), overlays, params)}


def from_command_line(config: Values, arguments: Sequence[str]) -> Values:
    """A configuration whose values from `--config` have their types, also in lists and mappings.

    There Snakemake reads each number as text. arguments: as they were given, `KEY=VALUE`. Raises ParamsError for what
    is no YAML.
    """
    for argument in arguments:
        key, _, text = argument.partition("=")
        if isinstance(config.get(key), Mapping | list):
            try:
                value = yaml.load(text, StrictLoader)
            except (yaml.YAMLError, RecursionError) as error:
                raise ParamsError(
                    f"--config {key}: {text} is not valid: {' '.join(str(error).split())}"
                ) from None
            config = merge(config, {key: value})
    return config


def load(config: Values) -> Params:
    """Check a configuration as read from YAML.

    Raises ParamsError that lists every fault at once: key, value, what is allowed.
    """
    faults: list[str] = []
    with noted(faults, models().whole):
        params = models().whole.model_validate(config)
        others = [name for name in params.overrides if name not in DATASETS.refused]
        for dataset in dict.fromkeys([*params.datasets, *others]):
            faults += _dataset_faults(params, dataset)
        faults += _number_faults(config) if not faults else []
        if not faults:
            return params
    raise ParamsError(
        "the parameters are not valid:\n"
        + "\n".join(f"  - {fault}" for fault in dict.fromkeys(faults))
    )


def refusals() -> list[str]:
    """The files and plug-ins that cannot be imported, and why."""
    registries = (METHODS, FAMILIES, DATASETS, ENCODERS, AUDITS)
    return [refusal for registry in registries for refusal in registry.refused.values()]


def _number_faults(config: Values) -> list[str]:
    """Whole numbers beyond 64 bits, also where no section is checked that holds them."""
    faults: list[str] = []
    left: list[tuple[str, object]] = [("", config)]
    seen: set[int] = set()  # aliases (*NAME) may repeat what they are part of
    while left:
        where, value = left.pop()
        if isinstance(value, int) and abs(value) > MOST:
            faults.append(f"{where} = {shortened(value)}: must be between -{MOST} and {MOST}")
        elif isinstance(value, Mapping | list) and id(value) not in seen:
            seen.add(id(value))
            below = value.items() if isinstance(value, Mapping) else enumerate(value)
            left += [(f"{where}.{key}" if where else str(key), each) for key, each in below]
    return faults


def _dataset_faults(params: Params, dataset: str) -> list[str]:
    """What is wrong with the parameters as they hold for a data set, for its ablations, audit and search."""
    if not re.fullmatch(r"[\w-]{1,100}", dataset):
        return [
            f"datasets: {dataset!r}: a name may hold letters, digits, - and _ only, as it stands in paths"
        ]
    faults: list[str] = []
    override = params.overrides.get(dataset, {})
    prefix = f"overrides.{dataset}." if override else ""
    with noted(faults, models().dataset, prefix):
        resolved, source = params.for_case(dataset), override.get("source")
        listed = dataset in params.datasets
        own = listed or (isinstance(source, Mapping) and source.get("reader") is not None)
        # One that is not listed must name its reader itself: it may be a misspelled name.
        reader = resolved.source if own else resolved.source.model_copy(update={"reader": None})
        faults += reader_faults(dataset, reader, prefix)
        if listed and not faults:
            faults += source_faults(dataset, resolved.source, resolved.least_samples, prefix)
            faults += list_faults(resolved.forget, params.seeds, prefix)
    faults += _case_faults(params, dataset) if not faults else []
    for method in params.methods if not faults else ():
        if (count := params.candidate_count(dataset, method)) > MOST_CANDIDATES:
            faults.append(
                f"search_grid: {method}: {count:,} combinations; at most {MOST_CANDIDATES:,}"
            )
            continue
        if params.search and count > 1 and params.method(method).original.has_memory:
            faults.append(
                f"search_grid: {method}: only methods of a family without a memory can be searched"
            )
        settings = METHODS[method].settings
        for values in params.candidate_values(dataset, method):
            with noted(faults, settings, f"search_grid: {method}: "):
                settings.model_validate(values)
    return faults


def _case_faults(params: Params, dataset: str) -> list[str]:
    """What is wrong with the values of a data set's ablations and audit, each checked as if it stood in its section."""
    family, ablations = memory_family(), params.for_case(dataset).ablations
    own = ("data", "model", "train", family.name, "inference")
    knobs = {f"ablations.{knob}": (knob, values) for knob, values in ablations.items()}
    knobs["audit.control"] = ("audit.control", [params.audit.control])
    knobs["audit.grid"] = ("audit.grid", list(params.audit_grid.values()))
    faults = []
    for where, (knob, values) in knobs.items():
        allowed = own if where.startswith("audit.") else ("keys", *own)  # an audit has one encoder
        faults += [
            f"{where}: {key} is not a knob of {family.title} that may change here; sections: {', '.join(allowed)}"
            for key in dict.fromkeys(key for value in values for key in knobs_of(knob, value))
            if key.split(".", maxsplit=1)[0] not in allowed
            or key in ("keys.depth", f"{family.name}.p_drop")
        ]
    faults += [
        f"ablations: {place}: this names a folder; use letters, digits, _ and . only, and not p_drop, audit or scenario"
        for place in (
            f"{knob}/{name_of(value)}" for knob, values in ablations.items() for value in values
        )
        if not re.fullmatch(r"(?!p_drop/|audit/|scenario/)[\w.]+/[\w.-]+", place)
    ]
    faults += [
        f"scenarios: {name!r}: this names a folder; use letters, digits, _, - and . only"
        for name in params.for_case(dataset).scenarios
        if not re.fullmatch(r"[\w.-]+", name)
    ]
    faults += _class_faults(params, dataset) if not faults else []
    for place in params.changes_of(dataset) if not faults else ():
        audited = "audit.control" if place == "audit/control" else "audit.grid"
        where = audited if place.startswith("audit/") else f"ablations: {place}"
        where = f"scenarios.{place.partition('/')[2]}" if place.startswith("scenario/") else where
        with noted(faults, models().dataset, f"{where}: "):
            forget = params.for_case(f"{dataset}/{place}").forget
            faults += (
                list_faults(forget, params.seeds, f"{where}: ")
                if place.startswith("scenario/")
                else []
            )
    return faults


def _class_faults(params: Params, dataset: str) -> list[str]:
    """Methods that forget whole classes alone, where something else is asked of them."""
    forget, scenarios = params.for_case(dataset).forget.sampling, params.for_case(dataset).scenarios
    asked = {"forget": str(forget)} | {
        f"scenarios.{name}": each.get("sampling", forget) for name, each in scenarios.items()
    }
    return [
        f"methods: {name} forgets whole classes alone, but {where}.sampling is {sampling}; make it class or omit it"
        for name in params.methods
        if METHODS[name].whole_classes
        for where, sampling in asked.items()
        if sampling != "class"
    ]
