"""Reading and checking `params.yaml` and overlays before any job starts. Errors list all faults."""

import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from pathlib import Path

import yaml

from munkey.core.paths import choose_configuration_name
from munkey.data.registry import DATASETS
from munkey.encoders.registry import ENCODERS
from munkey.experiment.params.case_faults import find_class_faults
from munkey.experiment.params.external import (
    find_list_faults,
    find_reader_faults,
    find_source_faults,
)
from munkey.experiment.params.messages import ParamsError, collect_faults, shorten
from munkey.experiment.params.overlays import Values, merge
from munkey.experiment.params.schema import Params, get_settings_schemas, memory_family, rate_name
from munkey.experiment.params.studies import load_studies
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
    "select_ablations",
]

PARAMS = Path("params.yaml")
MAX_CANDIDATES = 1000  # of one method's search
MAX_INTEGER = 2**63 - 1
LEADING_ZERO = re.compile(r"[-+]?0[0-9_]+")  # in YAML 1.1, a number in base 8


class StrictLoader(yaml.SafeLoader):  # the C loader crashes on deeply nested lists
    """A YAML loader that rejects duplicate keys in a mapping, and numbers in base 8 and 60.

    Other loaders silently keep the last value of a key, and read 010 as 8 and 1:30 as 90.
    """

    def construct_mapping(
        self, node: yaml.MappingNode, deep: bool = False
    ) -> dict[Hashable, object]:
        lines: dict[str, int] = {}
        for key, _ in node.value:
            name = str(key.value)
            line = key.start_mark.line + 1
            if name in lines:
                raise yaml.YAMLError(
                    f"the key {name!r} is set on line {lines[name]} and again on line {line}"
                )
            lines[name] = line
        return super().construct_mapping(node, deep)

    def construct_yaml_int(self, node: yaml.ScalarNode) -> int:
        number = super().construct_yaml_int(node)
        _require_decimal(node, number)
        return number

    def construct_yaml_float(self, node: yaml.ScalarNode) -> float:
        number = super().construct_yaml_float(node)
        _require_decimal(node, number)
        return number


StrictLoader.add_constructor("tag:yaml.org,2002:int", StrictLoader.construct_yaml_int)
StrictLoader.add_constructor("tag:yaml.org,2002:float", StrictLoader.construct_yaml_float)


def _require_decimal(node: yaml.ScalarNode, number: float) -> None:
    """Raise YAMLError for a number that YAML 1.1 reads in base 8 or 60."""
    text = node.value
    if ":" in text:
        reason = "colons separate digits in base 60"
        advice = f"write {number}, or [{text.replace(':', ', ')}] for a list"
    elif LEADING_ZERO.fullmatch(text):
        reason = "a leading zero means base 8"
        advice = f"write {int(text.replace('_', ''))}"
    else:
        return
    raise yaml.YAMLError(
        f"line {node.start_mark.line + 1}: YAML reads {text} as {number}, because {reason}:"
        f" {advice}; for text, write '{text}' in quotes"
    )


def read_file(path: Path) -> dict[str, object]:
    """Read a parameter file. Raises ParamsError if it cannot be read or is invalid."""
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), StrictLoader)
    except OSError as error:
        raise ParamsError(f"{path}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise ParamsError(
            f"{path}: is not valid: line {line} is not UTF-8 text ({error.reason})"
        ) from None
    except RecursionError:
        raise ParamsError(f"{path}: is nested too deeply") from None
    except (yaml.YAMLError, ValueError) as error:  # an impossible date is a ValueError
        raise ParamsError(f"{path}: is not valid: {' '.join(str(error).split())}") from None
    if content is None:
        raise ParamsError(f"{path}: is empty")
    if not isinstance(content, dict):
        raise ParamsError(f"{path}: must contain keys at its top level, as in `seeds: [0]`")
    return content


def read_params(overlays: Sequence[Path], params_path: Path = PARAMS) -> Values:
    """Read `params.yaml` and overlays, and merge them as Snakemake does.

    Raises ParamsError if a file cannot be read or is invalid.
    """
    config: Values = read_file(params_path)
    contents = [read_file(path) for path in overlays if path != params_path]
    for content in contents:
        config = merge(config, content)
    config = select_ablations(config, contents)
    name = choose_configuration_name(str(config.get("name", "")), overlays, params_path)
    return {**config, "name": name}


def from_command_line(config: Values, arguments: Sequence[str]) -> Values:
    """Return `config` with the lists and mappings of `--config` parsed again.

    Snakemake reads the numbers in them as text. Raises ParamsError if an argument is invalid YAML.

    Parameters
    ----------
    arguments
        The arguments `KEY=VALUE`, as typed by the user.
    """
    for argument in arguments:
        key, _, text = argument.partition("=")
        if isinstance(config.get(key), Mapping | list) or LEADING_ZERO.fullmatch(text):
            try:
                value = yaml.load(text, StrictLoader)
            except (yaml.YAMLError, RecursionError) as error:
                raise ParamsError(
                    f"--config {key}: {text} is not valid: {' '.join(str(error).split())}"
                ) from None
            config = merge(config, {key: value})
    return config


def select_ablations(
    config: Values, overlays: Iterable[Values], arguments: Sequence[str] = ()
) -> Values:
    """Return `config` with only those ablations that overlays or the command line name.

    If none of these sets `ablations`, all ablations of `params.yaml` stay.

    Parameters
    ----------
    config
        The parameters with all overlays and arguments merged.
    arguments
        The arguments of `--config`, as typed by the user.
    """
    on_command_line = from_command_line(
        {"ablations": {}}, [text for text in arguments if text.startswith("ablations=")]
    )
    named: list[object] = [overlay["ablations"] for overlay in overlays if "ablations" in overlay]
    if on_command_line["ablations"]:
        named.append(on_command_line["ablations"])
    lists = config.get("ablations")
    if not named or not isinstance(lists, Mapping):
        return config
    knobs = {knob for section in named if isinstance(section, Mapping) for knob in section}
    return {**config, "ablations": {knob: lists[knob] for knob in lists if knob in knobs}}


def load(config: Values) -> Params:
    """Validate a configuration that was read from YAML, and return it.

    Raises ParamsError with a list of all faults: each key, its value, and the allowed values.
    """
    faults: list[str] = []
    with collect_faults(faults, get_settings_schemas().whole):
        params = get_settings_schemas().whole.model_validate(config)
        overridden = [name for name in params.overrides if name not in DATASETS.refusals]
        for dataset in dict.fromkeys([*params.datasets, *overridden]):
            faults += _find_dataset_faults(params, dataset)
        if not faults:
            faults += _find_number_faults(config)
        if not faults:
            return params
    listed = "\n  - ".join(["the parameters are not valid:", *dict.fromkeys(faults)])
    raise ParamsError(listed)


def refusals() -> list[str]:
    """List the files and plug-ins that cannot be imported, and why. Attacks are listed by audits."""
    reasons: list[str] = []
    for registry in (METHODS, FAMILIES, DATASETS, ENCODERS):
        reasons += registry.refusals.values()
    return reasons


def _find_number_faults(config: Values) -> list[str]:
    """Return messages about integers that exceed 64 bits, even in sections that are not checked."""
    faults: list[str] = []
    pending: list[tuple[str, object]] = [("", config)]
    visited: set[int] = set()  # an alias (*NAME) may refer to the section that contains it
    while pending:
        where, value = pending.pop()
        if isinstance(value, int) and abs(value) > MAX_INTEGER:
            faults.append(
                f"{where} = {shorten(value)}: must be between -{MAX_INTEGER} and {MAX_INTEGER}"
            )
        elif isinstance(value, Mapping | list) and id(value) not in visited:
            visited.add(id(value))
            items: Iterable[tuple[object, object]]
            if isinstance(value, Mapping):
                items = value.items()
            else:
                items = enumerate(value)
            for key, nested_value in items:
                pending.append((f"{where}.{key}".removeprefix("."), nested_value))
    return faults


def _find_dataset_faults(params: Params, dataset: str) -> list[str]:
    """Return messages about the faults of a data set's parameters, cases and search."""
    if not re.fullmatch(r"[\w-]{1,100}", dataset):
        return [
            f"datasets: {dataset!r}: a name may contain only letters, digits, - and _, because it"
            " is part of paths"
        ]
    faults: list[str] = []
    override = params.overrides.get(dataset, {})
    prefix = ""
    if override:
        prefix = f"overrides.{dataset}."
    with collect_faults(faults, get_settings_schemas().dataset, prefix):
        resolved = params.for_case(dataset)
        changes = override.get("source")
        is_listed = dataset in params.datasets
        sets_reader = isinstance(changes, Mapping) and changes.get("reader") is not None
        source = resolved.source
        # A data set that is only in `overrides` may be misspelled, so it must set its own reader.
        if not is_listed and not sets_reader:
            source = resolved.source.model_copy(update={"reader": None})
        faults += find_reader_faults(dataset, source, prefix)
        if is_listed and not faults:
            faults += find_source_faults(dataset, resolved.source, resolved.least_samples, prefix)
            faults += find_list_faults(resolved.forget, params.seeds, prefix)
    if not faults:
        faults += _find_case_faults(params, dataset)
    if not faults:
        faults += _find_search_faults(params, dataset)
    return faults


def _find_search_faults(params: Params, dataset: str) -> list[str]:
    """Return messages about the faults of the searches for a data set."""
    faults: list[str] = []
    for method in params.methods:
        count = params.candidate_count(dataset, method)
        if count > MAX_CANDIDATES:
            faults.append(
                f"search_grid: {method}: {count:,} combinations; at most {MAX_CANDIDATES:,}"
            )
            continue
        if params.is_searched(dataset, method) and params.method(method).original.has_memory:
            faults.append(
                f"search_grid: {method}: only methods of a family without a memory can be searched"
            )
        settings = METHODS[method].settings
        for values in params.candidate_values(dataset, method):
            with collect_faults(faults, settings, f"search_grid: {method}: "):
                settings.model_validate(values)
    return faults


def _find_case_faults(params: Params, dataset: str) -> list[str]:
    """Return messages about the faults of the cases that studies add to a data set."""
    forget = params.for_case(dataset).forget
    faults = find_class_faults(params, "forget", forget.sampling)
    for study in load_studies().values():
        faults += study.find_faults(params, dataset)
    if not faults:
        faults += _find_repeated_cases(params, dataset)
    if faults:
        return faults
    for name, case in params.list_cases(dataset).items():
        with collect_faults(faults, get_settings_schemas().dataset, f"{case.setting}: "):
            forget = params.for_case(f"{dataset}/{name}").forget
            if "forget" in case.changes:
                faults += find_list_faults(forget, params.seeds, f"{case.setting}: ")
    return faults


def _find_repeated_cases(params: Params, dataset: str) -> list[str]:
    """Return messages about cases that two studies add, whose results would share a folder."""
    faults = []
    settings: dict[str, str] = {}
    for study in load_studies().values():
        for name, case in study.list_cases(params, dataset).items():
            if name in settings:
                faults.append(
                    f"{case.setting}: its results would be in the folder {name}, as those of"
                    f" {settings[name]}; choose another name"
                )
            settings[name] = case.setting
    return faults
