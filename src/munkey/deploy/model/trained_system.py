"""A trained system of a run, with everything that an export needs.

`record.json`, next to the system, has its training settings. The run's `settings.json` has the
settings that training does not read: the source of the pictures, the encoder of the keys, and the
inference settings.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any, cast

import numpy as np

from munkey.core.diverged import DivergedError
from munkey.core.files import format_make_command, format_overlays_hint, read_csv, read_json
from munkey.core.ids import find_rows
from munkey.data.prepared import Dataset, load
from munkey.data.registry import DATASETS
from munkey.deploy.errors import ExportError
from munkey.deploy.model.manifest import EXPORTED_FAMILIES, EstimatorReference
from munkey.encoders import keys
from munkey.encoders.parts import name_cache_folder
from munkey.models import system as systems
from munkey.models.family import FAMILIES, FittedFamily, System
from munkey.settings import (
    DataSettings,
    InferenceSettings,
    KeySettings,
    ModelSettings,
    SourceSettings,
)

Sections = Mapping[str, Mapping[str, Any]]  # settings by section of params.yaml

EXPORTABLE = "only systems with a memory can be exported: MUNKEY, KNN, LDA, NCM, RanPAC, and KRR"
SYSTEM = "system.safetensors"
SETTINGS = "settings.json"
SECTIONS = ("source", "data", "keys", "model", "train", "munkey", "inference")


def find_system(result: str | Path) -> Path:
    """Find the system file of a result.

    result: the file, its folder, or its place in the results: NAME/DATASET/seedN for the original,
    NAME/DATASET/seedN/rateR/SYSTEM for another system. For an original, trailing parts may be
    omitted if only one result matches. Raises ExportError if no result matches, or if several do;
    the message then lists them.
    """
    path = Path(result)
    name, *parts = path.parts or ("default",)  # an empty path means the run `default`
    folder = Path("results", name, "models", *parts)
    # Folders to search, each with a pattern for the file, from the most literal reading on.
    patterns = [(path, SYSTEM), (folder, SYSTEM)]
    if path.name == SYSTEM:
        patterns.insert(0, (path.parent, SYSTEM))
    for depth in range(3):  # from NAME/DATASET/seedN, NAME/DATASET, or only NAME
        patterns.append((folder, f"{'*/' * depth}full/original-m/{SYSTEM}"))
    for start, pattern in patterns:
        if start.is_dir():
            files = sorted(start.glob(pattern))
        else:
            files = []
        if len(files) == 1:
            return files[0]
        if files:
            folders = ", ".join(str(file.parent) for file in files)
            raise ExportError(f"{result}: several results match, name one of them: {folders}")
    elsewhere = ""
    if not Path("results").is_dir():
        elsewhere = f", but there is no folder results in {Path.cwd()}"
    raise ExportError(
        f"{result}: there is no such result; it is the folder of a {SYSTEM}, or, in the project's"
        f" folder, NAME/DATASET/seedN of a finished run{elsewhere}"
    )


@dataclass(frozen=True)
class Place:
    """The place of a system in the results: root/models/case/seedN/subset/system.

    case, subset, and system are as in `munkey.core.paths`.
    """

    file: Path
    root: Path
    case: str
    seed: int
    subset: str
    system: str

    @classmethod
    def from_file(cls, file: Path) -> "Place":
        """Return the place of a system file. Raises ExportError if it is not among results."""
        parts = file.absolute().parts
        if "models" not in parts[:-5] or not parts[-4].startswith("seed"):
            raise ExportError(
                f"{file}: is not in the results of a run, results/NAME/models/DATASET/seedN/…"
            )
        start = len(parts) - 1 - parts[::-1].index("models")  # index of the last `models`
        seed, subset, system_name = parts[-4:-1]
        return cls(
            file=file,
            root=Path(*parts[:start]),
            case="/".join(parts[start + 1 : -4]),
            seed=int(seed.removeprefix("seed")),
            subset=subset,
            system=system_name,
        )

    @property
    def dataset(self) -> str:
        return self.case.partition("/")[0]


class TrainedSystem:
    """A system of a run, with its settings, data set, and keys.

    sections: settings that training does not read; by default, those in the run's settings.json.
    Raises ExportError if the system cannot be exported, or if a file is missing.
    """

    estimator: EstimatorReference | None = None
    dtype: str | None = None  # NumPy dtype of the classes, for an estimator

    def __init__(self, file: Path, sections: Sections | None = None) -> None:
        self.place = Place.from_file(file)
        self.record: Mapping[str, Any] = read_json(file.with_name("record.json"))
        try:
            self.system: System = systems.load(file)
        except DivergedError as error:
            raise ExportError(
                f"{file}: diverged, so there is no model to export: {error}"
            ) from None
        if self.system.memory is None or self.system.family not in EXPORTED_FAMILIES:
            raise ExportError(
                f"{file}: {EXPORTABLE}; MUNKEY systems of this seed: {self._format_exportable()}"
            )
        if not sections:
            sections = self._read_run_settings()
        # The settings that it was trained with take precedence over `sections`, which may be newer.
        self._set_sections({**sections, **self.record["settings"]})

    def _set_sections(self, sections: Sections) -> None:
        """Validate and store the sections that an export needs."""
        self.data = DataSettings.model_validate(sections["data"])
        self.model = ModelSettings.model_validate(sections["model"])
        self.inference = InferenceSettings.model_validate(sections["inference"])
        self.keys = KeySettings.model_validate(sections["keys"])
        self.source = SourceSettings.model_validate(sections["source"])

    def _format_exportable(self) -> str:
        """Format the names of the MUNKEY systems with the same seed; `none` if there are none."""
        folder_of_seed = self.place.file.parents[2]  # above SUBSET/SYSTEM/system.safetensors
        records = sorted(folder_of_seed.glob("*/*/record.json"))
        folders = [file.parent for file in records if "munkey" in read_json(file)["settings"]]
        names = [f"{folder.parent.name}/{folder.name}" for folder in folders]
        return ", ".join(names) or "none"

    def _read_run_settings(self) -> Sections:
        """Read the settings of this case from the run's settings.json.

        Raises ExportError if the file, the case, or one of the SECTIONS is missing.
        """
        file = self.place.root / SETTINGS
        if not file.exists():
            if file.is_relative_to(Path.cwd()):
                target = file.relative_to(Path.cwd())
            else:
                target = file
            raise ExportError(
                f"{file}: is missing; it records the settings of a run. Create it with"
                f" `{format_make_command(target)}`{format_overlays_hint(file)}"
            )
        cases = read_json(file)
        if self.place.case not in cases or not set(SECTIONS) <= set(cases[self.place.case]):
            raise ExportError(
                f"{file}: has no settings for {self.place.case}, so it cannot be exported"
            )
        return cases[self.place.case]

    @cached_property
    def dataset(self) -> Dataset:
        return load(self.place.root / "data" / self.place.dataset)

    @cached_property
    def names(self) -> dict[int, str]:
        """The source file of each sample, by id; empty if the data set is not made of files."""
        samples = read_csv(self.place.root / "data" / self.place.dataset / "samples.csv")
        return {int(sample["id"]): sample["name"] for sample in samples if "name" in sample}

    @property
    def folder(self) -> Path | None:
        """The folder of the source files: source.path, or the folder of the file that lists them.

        None if the data set is not made of files in a folder.
        """
        if not (self.source.path and self.names):
            return None
        reader = self.source.reader or self.place.dataset
        if reader in DATASETS and DATASETS[reader].needs_path == "file":
            return Path(self.source.path).parent
        return Path(self.source.path)

    def require_encoder(self) -> None:
        """Raise ExportError unless the encoder in the settings computed the keys in the memory."""
        memory = self.system.memory
        assert memory is not None, "checked in __init__"
        folder = name_cache_folder(self.keys)
        file = self.place.root / "keys" / self.place.dataset / folder / "keys.npz"
        if not file.exists():
            raise ExportError(f"{file}: is missing, so the encoder of the memory's keys is unknown")
        extracted_keys = keys.read(file)
        expected_keys = extracted_keys.keys[find_rows(extracted_keys.ids, memory.ids.numpy())]
        family = FAMILIES[self.system.family]
        if isinstance(family, FittedFamily):
            expected_keys = family.prepare_keys(expected_keys)
        if not np.array_equal(expected_keys, memory.keys.numpy()):
            raise ExportError(
                f"{self.place.file}: the keys in its memory are not those of the encoder in its"
                " settings"
            )

    @cached_property
    def metrics(self) -> dict[str, dict[str, float]]:
        """Metric values by forget rate, then by metric; empty if none were measured."""
        file = self.place.root / "metrics" / f"{self.place.dataset}.csv"
        # The file has no metrics of ablations, whose case is longer than the name of the data set.
        if not file.exists() or self.place.case != self.place.dataset:
            return {}
        metrics: dict[str, dict[str, float]] = {}
        for row in read_csv(file):
            if row["seed"] != str(self.place.seed) or row["method"] != self.place.system:
                continue
            # An original, with the subset `full`, has metrics for each forget rate.
            if self.place.subset in ("full", f"rate{row['rate']}"):
                metrics.setdefault(row["rate"], {})[row["metric"]] = float(row["value"])
        return metrics


class EstimatorSystem(TrainedSystem):
    """A system that an estimator has trained, instead of a run.

    files: the source file of each sample that has one, by id. sections: settings by section of
    params.yaml. dtype: NumPy dtype of the classes.
    """

    def __init__(  # noqa: PLR0913  # the parts of a run
        self,
        system: System,
        data: Dataset,
        files: dict[int, str],
        sections: Sections,
        device: str,
        estimator: EstimatorReference,
        dtype: str,
    ) -> None:
        # The model card and the manifest show this place instead of one in the results.
        self.place = Place(
            file=Path(),
            root=Path("MunkeyClassifier"),
            case="your pictures",
            seed=cast(int, estimator.params["seed"]),
            subset="full",
            system=system.family,
        )
        origin = {
            "commit": "not recorded: fitted by MunkeyClassifier",
            "device": device,
            "versions": {"munkey": version("munkey")},
        }
        self.record = {"provenance": origin}
        self.system = system
        self.estimator = estimator
        self.dtype = dtype
        self._set_sections(sections)
        # Set the cached properties, which would otherwise read the files of a run.
        vars(self).update(dataset=data, names=files, metrics={})
