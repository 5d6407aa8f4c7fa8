"""Calling the function that a rule names, in munkey.jobs or a study.

`workflow/scripts/job.py` calls `run` for every rule.
"""

import dataclasses
import importlib
import inspect
import pkgutil
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from munkey.core.device import select_device
from munkey.experiment.run.job import job
from munkey.settings import Section

Function = Callable[..., None]
Named = Mapping[str, Any]
CLASS = "@class"  # the key of a dumped section's class; no setting or case can have this name


def dump_settings(value: object) -> object:
    """Convert all sections within a value to mappings that contain the names of their classes.

    Snakemake compares a rule's params as text to detect changes, so it would miss changes within
    objects.
    """
    if isinstance(value, Section):
        return {CLASS: f"{type(value).__module__}:{type(value).__qualname__}"} | value.model_dump()
    if isinstance(value, Mapping):
        return {name: dump_settings(nested) for name, nested in value.items()}
    return value


def restore(value: object) -> object:
    """Restore a value that `dump_settings` converted, in the process of the job.

    Raises
    ------
    ValidationError
        If a section is not valid.
    TypeError
        If a section was not dumped.
    """
    if isinstance(value, Section):
        raise TypeError(
            f"the rule passes {type(value).__name__} as an object, whose changes Snakemake would not"
            " detect: wrap it in dump_settings(...)"
        )
    if not isinstance(value, Mapping):
        return value
    values = {name: restore(nested) for name, nested in value.items()}
    if CLASS not in values:
        return values
    kind = pkgutil.resolve_name(str(values.pop(CLASS)))
    return kind.model_validate(values)


@dataclass(frozen=True)
class Task:
    """A job as its rule describes it.

    Attributes
    ----------
    params
        The rule's params. `code` is the path of the function (`name_job_module`), a space, and a digest
        of the code.
    """

    rule: str
    wildcards: Named
    inputs: Named
    outputs: Named
    params: Named


def run(task: Task, log: str, threads: int, gpus: int, config: Named) -> None:
    """Run a job's function, with its log, threads and device.

    Parameters
    ----------
    gpus
        The number of GPUs that the job may use.
    config
        All parameters, as in params.yaml.
    """
    outputs: list[str] = []
    for paths in task.outputs.values():
        if isinstance(paths, str):
            outputs.append(paths)
        else:
            outputs += paths
    with job(log, threads, outputs):
        path, _, _ = str(task.params["code"]).partition(" ")  # MODULE.FUNCTION DIGEST
        function = getattr(importlib.import_module(name_job_module(path)), path.rpartition(".")[2])
        surroundings = {
            "device": select_device(gpus),
            "config": config,
            "log": log,
            "inputs": task.inputs,
            "outputs": task.outputs,
            # These two do not change any result.
            "resident_share": config["resident_share"],
            "checkpoint_s": config["checkpoint_s"],
        }
        call(function, task, surroundings)


def name_job_module(path: str) -> str:
    """Return the module of a job's function: of munkey.jobs, or of a study.

    Parameters
    ----------
    path
        MODULE.FUNCTION, or studies.NAME.MODULE.FUNCTION.
    """
    module = path.rpartition(".")[0]
    if module.startswith("studies."):
        return f"munkey.{module}"
    return f"munkey.jobs.{module}"


def call(function: Function, task: Task, surroundings: Named) -> None:
    """Call a job's function. Each parameter gets the rule's value with the same name.

    Values are converted to the parameters' types. A dataclass gets the values with the names of its
    fields. Values without a parameter are ignored. A file or a param takes precedence over a wildcard.

    Parameters
    ----------
    surroundings
        Further values for which a function may have a parameter.

    Raises
    ------
    TypeError
        If a value is missing, or if inputs, outputs and params share a name.
    ValidationError
        If a value cannot be converted to its parameter's type.
    """
    from pydantic import validate_call

    counts = Counter([*task.inputs, *task.outputs, *task.params])
    ambiguous_names = sorted(name for name, count in counts.items() if count > 1)
    if ambiguous_names:
        raise TypeError(
            f"rule {task.rule}: {', '.join(ambiguous_names)} is the name of more than one of its"
            " inputs, outputs and params"
        )
    params = {name: restore(value) for name, value in task.params.items()}
    # If two values have the same name, the later one takes precedence.
    values = {**surroundings, **task.wildcards, **task.inputs, **task.outputs, **params}
    arguments, missing_names = _select_arguments(function, values)
    if missing_names:
        raise TypeError(
            f"rule {task.rule}: {function.__module__}.{function.__name__} needs"
            f" {', '.join(missing_names)}; add it to the rule's input, output or params. The rule has"
            f" {', '.join(sorted(values))}"
        )
    validate_call(function)(**arguments)


def _select_arguments(
    function: Callable[..., Any], values: Named
) -> tuple[dict[str, Any], list[str]]:
    """Select the values of a function's parameters by name. Returns them and the missing names."""
    arguments: dict[str, Any] = {}
    missing_names: list[str] = []
    for name, parameter in inspect.signature(function).parameters.items():
        kind = parameter.annotation
        if name in values:
            arguments[name] = values[name]
        elif isinstance(kind, type) and dataclasses.is_dataclass(kind):
            arguments[name], missing_fields = _select_arguments(kind, values)
            missing_names += missing_fields
        elif parameter.default is parameter.empty:
            missing_names.append(name)
    return arguments, missing_names
