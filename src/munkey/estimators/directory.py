"""A saved estimator: the durable memory of its rows (docs/memory.md), and `estimator.json`: what they mean."""

import json
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from munkey.core.files import atomic
from munkey.deploy.errors import UnreadableModelError, understood
from munkey.deploy.model.manifest import LARGEST, Digest, Text, regular, self_digest
from munkey.settings import Section

NAME, MEMORY = "estimator.json", "memory"


class EstimatorManifest(Section):
    """What the rows of a memory mean. settings: of the family; classes: by the number in a row's label, None where no
    row is left; dtype: of the classes; features: names of the columns; store: the memory's name, hexadecimal.
    """

    format: Literal["munkey estimator"] = "munkey estimator"
    version: Literal[1] = 1
    family: Text
    settings: dict[str, str | int | float]
    classes: list[str | bool | int | float | None]
    dtype: Annotated[str, Field(pattern=r"^[<>|=]?[OUiufb]\d*$")]
    features: list[str] | None
    next_id: Annotated[int, Field(ge=0, lt=2**63)]
    store: Annotated[str, Field(pattern="^[0-9a-f]{32}$")]
    sha256: Digest | None = None

    def names(self, labels: np.ndarray) -> np.ndarray:
        """The classes (N,) that labels (N,) mean. Raises ValueError for one that means none."""
        used = np.unique(labels)
        if not set(used.tolist()) <= {number for number, one in enumerate(self.classes) if one is not None}:
            raise ValueError("a row has a label that means no class")
        table = np.zeros(len(self.classes), dtype=self.dtype)
        table[used] = np.array([self.classes[number] for number in used], dtype=self.dtype)
        return table[labels]

    def write(self, folder: Path) -> None:
        with atomic(folder / NAME) as temporary:
            sealed = self.model_copy(update={"sha256": self_digest(self)})
            temporary.write_text(sealed.model_dump_json(indent=2) + "\n", encoding="utf-8")


def read_manifest_of(folder: Path, family: str) -> EstimatorManifest:
    """The manifest of a directory. Raises UnreadableModelError where it is none, damaged, or of another family."""
    path = folder / NAME
    if not path.exists():
        raise UnreadableModelError(folder, f"is not a saved estimator: it has no {NAME}")
    with understood(path):
        manifest = EstimatorManifest.model_validate_json(regular(path, LARGEST))
        if manifest.sha256 != self_digest(manifest):
            raise UnreadableModelError(path, "was changed after it was written: its SHA-256 is not the one in it")
    if manifest.family != family:
        raise UnreadableModelError(path, f"holds the family {json.dumps(manifest.family)}, not {family}", "load that")
    return manifest
