"""All paths of a configuration's results. Names in braces are wildcards.

case: a data set, or DATASET/SETTING/VALUE for an ablation. subset: `full`, or `rateR` for a system
without a forget set. scope: which memory is searched, `full` or `seedS/rateR`.
"""

import re
from collections.abc import Iterable
from pathlib import Path

DEFAULT = "default"  # the name of the configuration without an overlay


class Layout:
    """The paths of the configuration `name`, which has its own folders for results and logs."""

    def __init__(self, name: str) -> None:
        self.name = name

        def at(path: str) -> str:
            return f"results/{name}/{path}"

        self.images = at("data/{dataset}/images.npy")
        self.samples = at("data/{dataset}/samples.csv")
        self.classes = at("data/{dataset}/classes.json")
        self.keys = at("keys/{dataset}/{encoder}/keys.npz")
        self.neighbors = at("neighbors/{dataset}/{encoder}/{scope}.npz")
        self.forget = at("forget/{case}/seed{seed}/rate{rate}.csv")
        self.system = at("models/{case}/seed{seed}/{subset}/{system}/system.safetensors")
        self.record = at("models/{case}/seed{seed}/{subset}/{system}/record.json")
        self.candidate_system = at(
            "search/{case}/seed{seed}/rate{rate}/{method}/{candidate}/system.safetensors"
        )
        self.candidate_record = at(
            "search/{case}/seed{seed}/rate{rate}/{method}/{candidate}/record.json"
        )
        self.search = at("search/{case}/seed{seed}/rate{rate}/{method}/search.json")
        self.logits = at("logits/{case}/seed{seed}/{subset}/{system}.npz")
        self.metrics = at("metrics/{dataset}.csv")
        self.differences = at("differences/{dataset}.csv")
        self.ablation_metrics = at("ablations/{dataset}.csv")
        self.scenario_metrics = at("scenarios/{dataset}/metrics.csv")
        self.scenario_table = at("scenarios/{dataset}/table.{ending}")
        self.scenario_figure = at("scenarios/{dataset}/tow.{ending}")
        self.selection_metrics = at("selection/{dataset}/metrics.csv")
        self.selection_chosen = at("selection/{dataset}/chosen.json")
        self.selection_table = at("selection/{dataset}/table.{ending}")
        self.half = at("audit/{dataset}/halves/seed{seed}.csv")
        self.hardest_half = at("audit/{dataset}/hardest/seed{seed}.csv")
        self.mislabeled = at("audit/{dataset}/mislabeled/{part}")
        self.audit = at("audit/{dataset}/{part}")
        self.relearned = at("audit/{dataset}/relearned/seed{seed}/{system}.csv")
        self.relearning = at("audit/{dataset}/relearning/{part}")
        self.stream_logits = at("streams/{dataset}/seed{seed}/{system}.npz")
        self.stream_record = at("streams/{dataset}/seed{seed}/{system}.json")
        self.stream = at("streams/{dataset}/{part}")
        self.all_metrics = at("metrics.csv")
        self.table = at("tables/{table}.{ending}")
        self.trace = at("trace/{case}/seed{seed}.npz")
        self.figure = at("figures/{figure}.{ending}")
        self.tracking = at("tracking.json")
        self.report = at("report/index.html")
        self.explore = at("explore/{dataset}.html")
        self.settings = at("settings.json")
        self.export = at("exports/{dataset}/seed{seed}/{part}")
        self.exported = at("exports/{dataset}/seed{seed}.json")

    def log(self, name: str) -> str:
        """Return the path of a job's log."""
        return f"logs/{self.name}/{name}.log"


def fill(pattern: str, **values: object) -> str:
    """Return a path in which these wildcards have values. Other wildcards stay."""
    return re.sub(r"\{(\w+)\}", lambda match: str(values.get(match[1], match[0])), pattern)


def configuration_name(name_setting: str, overlays: Iterable[Path], params: Path) -> str:
    """Return the name of a configuration.

    It is the setting `name`, or else made of the names of the overlays' files; `default-overlay`
    for a file default.yaml.

    Parameters
    ----------
    name_setting
        `default` if no overlay sets it.
    overlays
        The files of `--configfile`.
    params
        The project's `params.yaml`, which may be among them.
    """
    if name_setting != DEFAULT:
        return name_setting
    stems = "-".join(path.stem for path in overlays if path != params)
    name = re.sub(r"[^\w.-]+", "-", stems)
    if name == DEFAULT:
        return f"{name}-overlay"
    return name or DEFAULT
