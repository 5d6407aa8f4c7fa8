"""Entries of the leaderboard: what their authors say, with which settings they ran it, and what came out.

An entry is a folder, leaderboard/NAME, of three files: entry.yaml, which its authors write; overlay.yaml, what of
params.yaml they changed; results.json, which tools.write_entry writes from a run with that overlay.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import yaml
from pydantic import Field

from munkey.core.files import DamagedFileError, read_json
from munkey.experiment.params.load import rate_name
from munkey.experiment.params.messages import ParamsError, noted
from munkey.experiment.params.overlays import Values, merge
from munkey.settings import Section

if TYPE_CHECKING:
    import pandas as pd

FOLDER = Path("leaderboard")
ENTRY, OVERLAY, RESULTS = "entry.yaml", "overlay.yaml", "results.json"
Read = TypeVar("Read", bound=Section)
BySeed = dict[str, list[float]]


class Said(Section):
    """What the authors say of their entry. link: https, or a page of docs/; commit: of munkey, with their method in it;
    command: what they ran.
    """

    method: str
    authors: str
    link: Annotated[str, Field(pattern=r"^(https://|docs/)\S+$")]
    commit: Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")]
    command: str


class Job(Section):
    """A training or an unlearning. settings: the digest of what it was given; started: in ISO 8601."""

    settings: str
    commit: str
    device: str
    started: str


class Left(Section):
    """What an audit found to be left: the residual share and its 95 % interval, percent, over pairs of models."""

    share: float | None
    low: float | None
    high: float | None
    pairs: int
    verdict: str


class Results(Section):
    """What a run has of a method and its oracle.

    config: all parameters; jobs: by DATASET/seedS/SUBSET/SYSTEM; settings: by their digest; metrics: the values of the
    seeds in their order, by data set, rate, system and metric; left: by data set, where it was audited.
    """

    method: str
    title: str
    oracle: str | None
    needs: list[str]
    config: dict[str, object]
    jobs: dict[str, Job]
    settings: dict[str, dict[str, dict[str, object]]]
    versions: list[dict[str, str]]
    metrics: dict[str, dict[str, dict[str, BySeed]]]
    left: dict[str, Left]


@dataclass(frozen=True)
class Entry:
    """An entry as it was read. overlay: what it changes of params.yaml."""

    name: str
    said: Said
    overlay: Values
    results: Results

    @property
    def systems(self) -> list[str]:
        """Its method, and its oracle if it has one."""
        return [self.results.method, *([self.results.oracle] if self.results.oracle else [])]

    @property
    def datasets(self) -> list[str]:
        return list(self.results.config["datasets"])  # type: ignore[call-overload]

    @property
    def seeds(self) -> list[int]:
        return list(self.results.config["seeds"])  # type: ignore[call-overload]

    def section(self, name: str, dataset: str) -> Values:
        """A section of the parameters as it held for a data set."""
        of_dataset = _mapping(_mapping(self.results.config["overrides"]).get(dataset, {}))
        return merge(_mapping(self.results.config[name]), _mapping(of_dataset.get(name, {})))

    def rates(self, dataset: str) -> list[str]:
        return [rate_name(rate) for rate in self.section("forget", dataset)["rates"]]  # type: ignore[attr-defined]

    @property
    def tidy(self) -> "pd.DataFrame":
        """Its metrics, a line per value, as metrics.csv has them."""
        import pandas as pd

        return pd.DataFrame(
            {"dataset": dataset, "rate": float(rate), "seed": seed, "method": system, "metric": metric, "value": value}
            for dataset, rates in self.results.metrics.items()
            for rate, systems in rates.items()
            for system, metrics in systems.items()
            for metric, values in metrics.items()
            for seed, value in zip(self.seeds, values, strict=True)
        )


def entries(folder: Path = FOLDER) -> list[Entry]:
    """All entries, by name. Raises ParamsError for one that cannot be read, FileNotFoundError for one not complete."""
    return [read(path.parent) for path in sorted(folder.glob(f"*/{ENTRY}"))]


def read(folder: Path) -> Entry:
    """An entry. Raises ParamsError for what is not as it must be, and FileNotFoundError."""
    overlay, path = _mapping(yaml.safe_load((folder / OVERLAY).read_text())), folder / RESULTS
    try:
        return Entry(folder.name, said(folder), overlay, _valid(Results, read_json(path), path))
    except DamagedFileError:
        raise ParamsError(f"{path} is not what tools.write_entry wrote, or .{RESULTS}.sha256 is missing") from None


def said(folder: Path) -> Said:
    """What its authors say, before there are results. Raises ParamsError and FileNotFoundError."""
    return _valid(Said, yaml.safe_load((folder / ENTRY).read_text()), folder / ENTRY)


def _valid(model: type[Read], content: object, path: Path) -> Read:
    faults: list[str] = []
    with noted(faults, model):
        return model.model_validate(_mapping(content))
    raise ParamsError(f"{path}: " + "; ".join(faults))


def _mapping(content: object) -> Values:
    return content if isinstance(content, Mapping) else {}
