"""The input files of training jobs, such as images, forget sets, keys, and neighbors."""

from dataclasses import astuple, dataclass
from pathlib import Path

import numpy as np

from munkey.core.files import read_json
from munkey.encoders import keys as key_files
from munkey.memory.neighbors import read_other_neighbors
from munkey.models.family import Family, MemberKeys, Recipe


@dataclass(frozen=True)
class SampleFiles:
    """The files about a data set's samples that a job reads.

    Attributes
    ----------
    images
        The stored images, next to the data set's other files.
    forget, absent
        The ids of the forget set, and of samples that an audit's models never see.
    keyfile, neighbors
        The keys and neighbors of all samples, for a family with a memory.
    perturbed_keys
        The keys of the perturbed images that an audit evaluates.
    selected
        The values of p_image and p_token that the selection chose.
    """

    images: Path
    forget: Path | None = None
    absent: Path | None = None
    keyfile: Path | None = None
    neighbors: Path | None = None
    perturbed_keys: Path | None = None
    selected: Path | None = None

    def list_files(self) -> list[Path]:
        """Return all paths that are not None."""
        return [file for file in astuple(self) if file]


def read_member_keys(
    family: Family,
    recipe: Recipe,
    ids: np.ndarray,
    keyfile: Path | None,
    neighbors_file: Path | None,
) -> MemberKeys | None:
    """Read the keys and neighbors of the training samples `ids` from the files of all samples.

    Returns None for a family without a memory, or without a section that says how many neighbors to
    read. Raises ValueError if a file that is needed is None.
    """
    if not family.has_memory or recipe.family is None:
        return None
    if keyfile is None or neighbors_file is None:
        raise ValueError(f"{family.name} has a memory, so it needs files of keys and neighbors")
    # Several settings may each need some neighbors, and the longest list contains the others.
    neighbor_count = max(family.count_neighbors(recipe.family).values())
    return MemberKeys(
        keys=key_files.read(keyfile, ids).keys,
        neighbors=read_other_neighbors(neighbors_file, ids, neighbor_count),
    )


def read_selected_knobs(file: str | Path | None) -> dict[str, float]:
    """Read the values of p_image and p_token that the selection chose.

    Returns an empty dictionary if `file` is None.
    """
    if not file:
        return {}
    return read_json(file)["chosen"]
