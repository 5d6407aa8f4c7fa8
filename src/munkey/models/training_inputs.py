"""The input files of training jobs: images, forget sets, keys, neighbors, selected settings."""

from dataclasses import astuple, dataclass
from pathlib import Path

import numpy as np

from munkey.core.files import read_json
from munkey.encoders import keys
from munkey.memory.neighbors import read_other_neighbors
from munkey.models.family import Family, MemberKeys, Recipe


@dataclass(frozen=True)
class SampleFiles:
    """The files about a data set's samples that a job reads.

    Attributes
    ----------
    images
        The stored images; the data set's other files are in the same folder.
    forget
        The forget set.
    absent
        The samples that an audit's models never see.
    keyfile, neighbors
        The keys and the neighbors of all samples, for a family with a memory.
    selected
        The selected p_image and p_token.
    """

    images: Path
    forget: Path | None = None
    absent: Path | None = None
    keyfile: Path | None = None
    neighbors: Path | None = None
    selected: Path | None = None

    def list_files(self) -> list[Path]:
        """List all given files."""
        return [file for file in astuple(self) if file]


def read_member_keys(
    family: Family, recipe: Recipe, ids: np.ndarray, keyfile: Path | None, neighbors: Path | None
) -> MemberKeys | None:
    """Read keys and neighbors of the training samples; None for a family without a memory."""
    if not family.has_memory or recipe.family is None:
        return None
    assert keyfile and neighbors, f"{family.name} has a memory: it needs keys and neighbors"
    count = max(family.count_neighbors(recipe.family).values())
    return MemberKeys(
        keys=keys.read(keyfile, ids).keys,
        neighbors=read_other_neighbors(neighbors, ids, count),
    )


def read_selected_settings(file: str | Path | None) -> dict[str, float]:
    """Read the selected p_image and p_token; empty without a selection."""
    if not file:
        return {}
    return read_json(file)["chosen"]
