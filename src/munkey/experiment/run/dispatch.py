"""From a rule to the function of munkey.jobs that it names: `workflow/scripts/job.py` calls `run` for every rule."""

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
CLASS = "@class"  # of a dumped section: no setting and no case can have this name


def dump_settings(value: object) -> object:
    """Turn each section of the parameters within a value into plain values and the name of its class.

    Snakemake keeps a rule's params in text, to tell whether they changed; of objects it would see
    no change.
    """
    if isinstance(value, Section):
        return {CLASS: f"{type(value).__module__}:{type(value).__qualname__}"} | value.model_dump()
    if isinstance(value, Mapping):
        return {name: dump_settings(below) for name, below in value.items()}
    return value


def restore(value: object) -> object:
    """Restore a value that `dump_settings` made, in the process of the job.

    Raises ValidationError for a section that is not valid, TypeError for one that was not dumped.
    """
    if isinstance(value, Section):
        raise TypeError(
            f"the rule hands over {type(value).__name__} itself, and Snakemake would not see it"
            " change: write dump_settings(…) around it"
        )
    if not isinstance(value, Mapping):
        return value
    values = {name: restore(below) for name, below in value.items()}
    if CLASS not in values:
        return values
    kind = pkgutil.resolve_name(str(values.pop(CLASS)))
    return kind.model_validate(values)


@dataclass(frozen=True)
class Task:
    """A job as its rule describes it.

    `code` of params: MODULE.FUNCTION, a space, and a digest of the code.
    """

    rule: str
    wildcards: Named
    inputs: Named
    outputs: Named
    params: Named


def run(task: Task, log: str, threads: int, gpus: int, config: Named) -> None:
    """Run a job: its function in its surroundings.

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
        path, _, _ = str(task.params["code"]).partition(" ")  # a digest of the code follows
        module, _, name = path.partition(".")
        function = getattr(importlib.import_module(f"munkey.jobs.{module}"), name)
        surroundings = {
            "device": select_device(gpus),
            "config": config,
            "log": log,
            "inputs": task.inputs,
            "outputs": task.outputs,
            # These two change no result.
            "resident_share": config["resident_share"],
            "checkpoint_s": config["checkpoint_s"],
        }
        call(function, task, surroundings)


def call(function: Function, task: Task, surroundings: Named) -> None:
    """Call a job's function with the values that its rule names like the function's parameters.

    Values are converted to the types of the parameters; sections, which a rule dumps by
    `dump_settings`, are restored. A parameter that is a record gets the values that its fields
    name. Values without a parameter are left out. If a wildcard has the name of a file or a
    parameter, it gives way.

    Raises TypeError for a name that is missing or stands twice, and pydantic's ValidationError for
    a value that does not fit.

    Parameters
    ----------
    surroundings
        Further values that a function may have a parameter for.
    """
    from pydantic import validate_call

    counts = Counter([*task.inputs, *task.outputs, *task.params])
    ambiguous_names = sorted(name for name, count in counts.items() if count > 1)
    if ambiguous_names:
        raise TypeError(
            f"rule {task.rule}: {', '.join(ambiguous_names)} names two of its inputs, outputs and params"
        )
    params = {name: restore(value) for name, value in task.params.items()}
    # Of two values with one name, the later one in this order counts.
    values = {**surroundings, **task.wildcards, **task.inputs, **task.outputs, **params}
    arguments, missing_names = _select_arguments(function, values)
    if missing_names:
        raise TypeError(
            f"rule {task.rule}: {function.__module__}.{function.__name__} needs"
            f" {', '.join(missing_names)}; name it among the rule's input, output or params."
            f" The rule gives {', '.join(sorted(values))}"
        )
    validate_call(function)(**arguments)


def _select_arguments(
    function: Callable[..., Any], values: Named
) -> tuple[dict[str, Any], list[str]]:
    """Select the values of a function's parameters by name. Returns them and the missing names.

    A parameter whose type is a dataclass gets the values of its fields in the same way.
    """
    arguments: dict[str, Any] = {}
    missing_names: list[str] = []
    for name, parameter in inspect.signature(function).parameters.items():
        record = parameter.annotation
        if name in values:
            arguments[name] = values[name]
        elif isinstance(record, type) and dataclasses.is_dataclass(record):
            arguments[name], missing_fields = _select_arguments(record, values)
            missing_names += missing_fields
        elif parameter.default is parameter.empty:
            missing_names.append(name)
    return arguments, missing_names
