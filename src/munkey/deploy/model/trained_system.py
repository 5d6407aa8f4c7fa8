"""What the pipeline left of a MUNKEY system, gathered for an export."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any, cast

import numpy as np

from munkey.core.diverged import DivergedError
from munkey.core.files import command_to_make, overlays_of, read_csv, read_json
from munkey.core.ids import rows_of
from munkey.data.prepared import Dataset, load
from munkey.data.registry import DATASETS
from munkey.deploy.errors import ExportError
from munkey.deploy.model.manifest import EstimatorReference
from munkey.encoders import keys
from munkey.encoders.keys import Keys
from munkey.encoders.parts import cache_name
from munkey.models import system
from munkey.models.family import FAMILIES, FittedFamily, System
from munkey.settings import (
    DataSettings,
    InferenceSettings,
    KeySettings,
    ModelSettings,
    SourceSettings,
)

Sections = Mapping[str, Mapping[str, Any]]  # of params.yaml, by name

ONLY = "only systems with a memory can be exported, those of MUNKEY, KNN, LDA and NCM"
SYSTEM, SETTINGS = "system.safetensors", "settings.json"
SECTIONS = ("source", "data", "keys", "model", "train", "munkey", "inference")


def find(result: str | Path) -> Path:
    """The system file of a result. Raises ExportError that lists what fits where that is not one.

    result: the file, its folder, or words: NAME/DATASET/seedS, for the original of a run on everything;
    NAME/DATASET/seedS/rateR/SYSTEM for another one. What is left out at the end is filled in if only one fits.
    """
    path = Path(result)
    name, *rest = path.parts or ("default",)
    models = Path("results", name, "models")
    places = (
        [path.parent, path, models.joinpath(*rest)]
        if path.name == SYSTEM
        else [path, models.joinpath(*rest)]
    )
    for place, pattern in [(place, SYSTEM) for place in places] + [
        (models.joinpath(*rest), f"{'*/' * depth}full/original-m/{SYSTEM}") for depth in range(3)
    ]:
        fitting = sorted(place.glob(pattern)) if place.is_dir() else []
        if len(fitting) == 1:
            return fitting[0]
        if fitting:
            listed = ", ".join(str(file.parent) for file in fitting)
            raise ExportError(f"{result}: several results fit, name one of them: {listed}")
    elsewhere = (
        "" if Path("results").is_dir() else f", but there is no folder results in {Path.cwd()}"
    )
    raise ExportError(
        f"{result}: there is no such result; it is the folder of a {SYSTEM}, or, in the project's folder,"
        f" NAME/DATASET/seedS of a finished run{elsewhere}"
    )


@dataclass(frozen=True)
class Place:
    """Where a system lies: root/models/case/seedS/subset/system."""

    file: Path
    root: Path
    case: str
    seed: int
    subset: str
    system: str

    @classmethod
    def of(cls, file: Path) -> "Place":
        parts = file.absolute().parts
        if "models" not in parts[:-5] or not parts[-4].startswith("seed"):
            raise ExportError(
                f"{file}: does not lie in the results of a run, results/NAME/models/DATASET/seedS/…"
            )
        start = len(parts) - 1 - parts[::-1].index("models")
        case, (seed, subset, name) = "/".join(parts[start + 1 : -4]), parts[-4:-1]
        return cls(file, Path(*parts[:start]), case, int(seed.removeprefix("seed")), subset, name)

    @property
    def dataset(self) -> str:
        return self.case.partition("/")[0]


class TrainedSystem:
    """A MUNKEY system and all that it depends on. Raises ExportError where something is missing or does not fit.

    sections: those of params.yaml that hold for it; by default as the run left them in settings.json.
    """

    estimator: EstimatorReference | None = None

    def __init__(self, file: Path, sections: Sections | None = None) -> None:
        self.place = Place.of(file)
        self.sections = sections or self._stored_sections()
        self.record: Mapping[str, Any] = read_json(file.with_name("record.json"))
        self._require_own_sections()
        try:
            self.system: System = system.load(file)
        except DivergedError as error:
            raise ExportError(
                f"{file}: diverged, so there is no model to export: {error}"
            ) from None
        if self.system.memory is None:
            raise ExportError(f"{file}: {ONLY}")
        self._read_sections()

    def _read_sections(self) -> None:
        self.data = DataSettings.model_validate(self.sections["data"])
        self.model = ModelSettings.model_validate(self.sections["model"])
        self.inference = InferenceSettings.model_validate(self.sections["inference"])
        self.keys = KeySettings.model_validate(self.sections["keys"])
        self.source = SourceSettings.model_validate(self.sections["source"])

    def _stored_sections(self) -> Sections:
        file = self.place.root / SETTINGS
        if not file.exists():
            command = command_to_make(
                file.relative_to(Path.cwd()) if file.is_relative_to(Path.cwd()) else file
            )
            raise ExportError(
                f"{file}: is missing; it says with which settings a run was made. Make it with"
                f" `{command}`{overlays_of(file)}"
            )
        cases = read_json(file)
        if self.place.case not in cases or not set(SECTIONS) <= set(cases[self.place.case]):
            raise ExportError(
                f"{file}: lacks settings of {self.place.case}, so it cannot be exported"
            )
        return cases[self.place.case]

    def _require_own_sections(self) -> None:
        """The system must have been trained with these very settings: params.yaml may have changed since."""
        trained = self.record["settings"]
        if "munkey" not in trained:
            if any(family.exact and family.name in trained for family in FAMILIES.values()):
                return  # its constants lie in the system itself
            records = sorted(self.place.file.parents[2].glob("*/*/record.json"))
            others = [file.parent for file in records if "munkey" in read_json(file)["settings"]]
            listed = ", ".join(f"{folder.parent.name}/{folder.name}" for folder in others) or "none"
            raise ExportError(f"{self.place.file}: {ONLY}; of this seed there are: {listed}")
        other = [
            name for name in ("data", "model", "munkey") if trained[name] != self.sections[name]
        ]
        if other:
            raise ExportError(
                f"{self.place.file}: its settings differ from those in params.yaml now ({', '.join(other)}); run the"
                " pipeline again, or change them back"
            )

    @cached_property
    def dataset(self) -> Dataset:
        return load(self.place.root / "data" / self.place.dataset)

    @cached_property
    def names(self) -> dict[int, str]:
        """The source file of each sample, for a data set of picture files."""
        samples = read_csv(self.place.root / "data" / self.place.dataset / "samples.csv")
        return {int(sample["id"]): sample["name"] for sample in samples if "name" in sample}

    @property
    def folder(self) -> Path | None:
        """Where these source files lie, if there are any: in source.path, or beside the file that lists them."""
        if not (self.source.path and self.names):
            return None
        reader = self.source.reader or self.place.dataset
        listed = reader in DATASETS and DATASETS[reader].needs_path == "file"
        return Path(self.source.path).parent if listed else Path(self.source.path)

    @cached_property
    def _keys(self) -> Keys:
        """Those of all samples of the data set, by the encoder that the settings name."""
        folder = cache_name(self.keys)
        file = self.place.root / "keys" / self.place.dataset / folder / "keys.npz"
        if not file.exists():
            raise ExportError(
                f"{file}: is missing, so there is no telling which encoder the memory's keys come from"
            )
        return keys.read(file)

    def require_encoder(self) -> None:
        """The keys in the memory must be those of the encoder that the settings name."""
        memory = self.system.memory
        assert memory is not None
        rows, family = rows_of(self._keys.ids, memory.ids.numpy()), FAMILIES[self.system.family]
        extracted = self._keys.keys[rows]
        extracted = family.stored(extracted) if isinstance(family, FittedFamily) else extracted
        if not np.array_equal(extracted, memory.keys.numpy()):
            raise ExportError(
                f"{self.place.file}: the keys in its memory are not those of the encoder in its settings"
            )

    @cached_property
    def metrics(self) -> dict[str, dict[str, float]]:
        """Metrics by rate of the forget set; empty where none have been measured."""
        file = self.place.root / "metrics" / f"{self.place.dataset}.csv"
        wanted = (str(self.place.seed), self.place.system)
        if not file.exists() or self.place.case != self.place.dataset:
            return {}
        found: dict[str, dict[str, float]] = {}
        for row in read_csv(file):
            rate = self.place.subset in ("full", f"rate{row['rate']}")
            if (row["seed"], row["method"]) == wanted and rate:
                found.setdefault(row["rate"], {})[row["metric"]] = float(row["value"])
        return found


class OwnSystem(TrainedSystem):
    """A system that no run left. files: the source file of samples, by id."""

    def __init__(
        self,
        trained: System,
        data: Dataset,
        files: dict[int, str],
        sections: Sections,
        device: str,
        estimator: EstimatorReference,
    ) -> None:
        seed, made = (
            cast(int, estimator.params["seed"]),
            {"commit": "MunkeyClassifier", "device": device},
        )
        self.place = Place(
            Path(), Path("MunkeyClassifier"), "your pictures", seed, "full", trained.family
        )
        self.record = {"provenance": made | {"versions": {"munkey": version("munkey")}}}
        self.system, self.sections, self.estimator = trained, sections, estimator
        self._read_sections()
        vars(self).update(dataset=data, names=files, metrics={})
