"""All paths of a configuration's results. Names in braces are wildcards.

`case` is a data set, or DATASET/FOLDER/NAME for a case that a study adds. `subset` is `full`, or `rateR` for a
system that was trained without the forget set of that rate. `scope` is the memory that is searched:
`full`, or `seedN/rateR` for the memory without a forget set.
"""

import re
from collections.abc import Iterable
from pathlib import Path

DEFAULT = "default"  # the name of the configuration without an overlay


class Layout:
    """The paths of a configuration. Each configuration has its own folders for results and logs."""

    def __init__(self, name: str) -> None:
        self.name = name
        result_path = self.result_path
        self.images = result_path("data/{dataset}/images.npy")
        self.samples = result_path("data/{dataset}/samples.csv")
        self.classes = result_path("data/{dataset}/classes.json")
        self.keys = result_path("keys/{dataset}/{encoder}/keys.npz")
        self.perturbed_keys = result_path("keys/{dataset}/{encoder}/perturbed.npz")
        self.neighbors = result_path("neighbors/{dataset}/{encoder}/{scope}.npz")
        self.forget = result_path("forget/{case}/seed{seed}/rate{rate}.csv")
        self.system = result_path("models/{case}/seed{seed}/{subset}/{system}/system.safetensors")
        self.record = result_path("models/{case}/seed{seed}/{subset}/{system}/record.json")
        self.candidate_system = result_path(
            "search/{case}/seed{seed}/rate{rate}/{method}/{candidate}/system.safetensors"
        )
        self.candidate_record = result_path(
            "search/{case}/seed{seed}/rate{rate}/{method}/{candidate}/record.json"
        )
        self.search = result_path("search/{case}/seed{seed}/rate{rate}/{method}/search.json")
        self.logits = result_path("logits/{case}/seed{seed}/{subset}/{system}.npz")
        self.metrics = result_path("metrics/{dataset}.csv")
        self.differences = result_path("differences/{dataset}.csv")
        self.selection_chosen = result_path("selection/{dataset}/chosen.json")
        self.audit = result_path("audit/{dataset}/{part}")
        self.all_metrics = result_path("metrics.csv")
        self.table = result_path("tables/{table}.{ending}")
        self.trace = result_path("trace/{case}/seed{seed}.npz")
        self.figure = result_path("figures/{figure}.{ending}")
        self.tracking = result_path("tracking.json")
        self.report = result_path("report/index.html")
        self.explore = result_path("explore/{dataset}.html")
        self.settings = result_path("settings.json")
        self.export = result_path("exports/{dataset}/seed{seed}/{part}")
        self.exported = result_path("exports/{dataset}/seed{seed}.json")

    def result_path(self, path: str) -> str:
        """Return the path of a result, from its path within the configuration's folder."""
        return f"results/{self.name}/{path}"

    def log(self, name: str) -> str:
        """Return the path of a job's log."""
        return f"logs/{self.name}/{name}.log"


def fill(pattern: str, **values: object) -> str:
    """Replace the wildcards in `values` with their values. All other wildcards stay."""

    def get_value(match: re.Match[str]) -> str:
        return str(values.get(match[1], match[0]))

    return re.sub(r"\{(\w+)\}", get_value, pattern)


def choose_configuration_name(name_setting: str, overlays: Iterable[Path], params: Path) -> str:
    """Return `name_setting`, or, if that is `default`, the overlays' names, joined by hyphens.

    `params`, the project's params.yaml, is no overlay. A lone default.yaml gives `default-overlay`.
    """
    if name_setting != DEFAULT:
        return name_setting
    stems = "-".join(path.stem for path in overlays if path != params)
    name = re.sub(r"[^\w.-]+", "-", stems)
    if name == DEFAULT:
        return f"{name}-overlay"
    return name or DEFAULT
