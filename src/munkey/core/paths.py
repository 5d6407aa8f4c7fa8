"""All paths of a configuration's results. Names in braces are wildcards.

`case` is a data set, or DATASET/KNOB/VALUE for an ablation. `subset` is `full`, or `rateR` for a
system trained without the forget set of that rate. `scope` is the memory that is searched: `full`
or `seedS/rateR`.
"""

import re
from collections.abc import Iterable
from pathlib import Path

DEFAULT = "default"  # the name of the configuration without an overlay


class Layout:
    """The paths of a configuration. Each configuration has its own folders for results and logs."""

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
        """Return the log of a job."""
        return f"logs/{self.name}/{name}.log"


def fill(pattern: str, **values: object) -> str:
    """Replace these wildcards by their values, and keep all other wildcards."""

    def get_value(match: re.Match[str]) -> str:
        return str(values.get(match[1], match[0]))

    return re.sub(r"\{(\w+)\}", get_value, pattern)


def choose_configuration_name(name_setting: str, overlays: Iterable[Path], params: Path) -> str:
    """Return the name of a configuration.

    This is the setting `name` if an overlay sets it. Otherwise it consists of the names of the
    overlay files; an overlay default.yaml is called `default-overlay`.

    Parameters
    ----------
    name_setting
        The setting `name`, which is `default` if no overlay sets it.
    overlays
        The files passed to `--configfile`.
    params
        The project's `params.yaml`, which may be one of these files.
    """
    if name_setting != DEFAULT:
        return name_setting
    stems = "-".join(path.stem for path in overlays if path != params)
    name = re.sub(r"[^\w.-]+", "-", stems)
    if name == DEFAULT:
        return f"{name}-overlay"
    return name or DEFAULT
