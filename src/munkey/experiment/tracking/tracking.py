"""What a run in MLflow shows, and what a mirror leaves behind. `tracked` makes the runs, `mlflow_store` stores them."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from munkey.core.files import DamagedFileError, read_bytes, read_json
from munkey.evaluation.records import Evaluation


@dataclass(frozen=True)
class Model:
    """A MUNKEY to export and log. system: its file; sections: of params.yaml, by name, as they hold for it."""

    system: str
    evaluation: Evaluation
    sections: Mapping[str, Mapping[str, object]]


@dataclass(frozen=True)
class Samples:
    """Samples that a run was made with. context: what for; source: their path; digest: of them; count: how many."""

    name: str
    context: str
    source: str
    digest: str
    count: int


@dataclass(frozen=True)
class Run:
    """What one MLflow run shows. curves: one value per epoch, from epoch 1; artifacts: file paths; times: ISO 8601.

    parent: the name of the run that it is nested under, empty for one at the top. model: is exported when the run is
    made, and logged as the artifact `model`. registered: the name of that model in the registry, while the run is
    current.
    """

    experiment: str
    name: str
    params: Mapping[str, object]
    metrics: Mapping[str, float]
    tags: Mapping[str, str]
    curves: Mapping[str, list[float]] = field(default_factory=dict)
    artifacts: tuple[str, ...] = ()
    started: str | None = None
    ended: str | None = None
    parent: str = ""
    inputs: tuple[Samples, ...] = ()
    model: Model | None = None
    registered: str = ""

    def digest(self) -> str:
        """A hash of everything it shows, artifacts included."""
        paths = (*self.artifacts, self.model.system) if self.model else self.artifacts
        files = [hashlib.sha256(read_bytes(path)).hexdigest() for path in paths]
        text = json.dumps([asdict(self), files], sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()


def flat(settings: Mapping[str, object], prefix: str = "") -> dict[str, object]:
    """Nested settings by dotted names: {"train": {"lr": 1}} becomes {"train.lr": 1}."""
    flattened: dict[str, object] = {}
    for name, value in settings.items():
        flattened |= flat(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {f"{prefix}{name}": value}
    return flattened


def attempt(path: str) -> int:
    """The number of the next attempt to mirror, by what the last one left at `path`.

    As a parameter of the job it has a failed attempt made again by the next run, and a successful one left alone.
    """
    try:
        last = read_json(path) if Path(path).exists() else {}
    except DamagedFileError:
        return -1
    return int(last.get("attempt", 0)) + bool(last.get("failure"))


def outcome(path: str) -> str:
    """What to say of the mirror at the end of a run, by what it left at `path`: where to look, or why it failed."""
    last = read_json(path) if Path(path).exists() else {}
    uri = public(last.get("uri", ""))
    server = [uri, *last.get("views", {}).values()] if uri.startswith("http") else []
    return str(last.get("failure") or "\n          ".join(server) or "make ui")


def public(uri: str) -> str:
    """The address of a store without a user's name and password."""
    return re.sub(r"//[^/@]*@", "//", uri)
