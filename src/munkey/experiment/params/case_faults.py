"""Faults of cases that several studies look for."""

from collections.abc import Mapping

from munkey.experiment.params.schema import Params, memory_family
from munkey.unlearn.contract import METHODS


def find_knob_faults(
    setting: str, knobs: Mapping[str, object], also_allowed: tuple[str, ...] = ()
) -> list[str]:
    """Return messages about knobs that a case must not change.

    Parameters
    ----------
    setting
        Where `params.yaml` sets them.
    also_allowed
        Sections that this case may change in addition to those of the ablated family.
    """
    family = memory_family()
    allowed = (*also_allowed, "data", "model", "train", family.name, "inference")
    faults = []
    for knob in knobs:
        is_allowed = knob.split(".", maxsplit=1)[0] in allowed
        if not is_allowed or knob in ("keys.depth", f"{family.name}.p_drop"):
            faults.append(
                f"{setting}: {knob} is not a knob of {family.title} that can be changed here;"
                f" allowed sections: {', '.join(allowed)}"
            )
    return faults


def find_class_faults(params: Params, setting: str, sampling: str) -> list[str]:
    """Return messages about methods that only forget whole classes but would get other samples.

    Parameters
    ----------
    setting
        The section that sets the sampling.
    """
    faults = []
    for name in params.methods:
        if METHODS[name].whole_classes and sampling != "class":
            faults.append(
                f"methods: {name} can only forget whole classes, but {setting}.sampling is"
                f" {sampling}; set it to class, or remove {name}"
            )
    return faults
