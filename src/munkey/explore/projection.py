"""The projection of keys to the plane."""

from importlib.util import find_spec
from typing import NamedTuple

import numpy as np

MIN_KEYS_FOR_UMAP = 5
WIDEST_GAP = 0.06  # as a share of a coordinate's range


class Plane(NamedTuple):
    """Points in the plane.

    Attributes
    ----------
    x, y
        Coordinates, (N,) float32.
    description
        A sentence on how they were projected.
    """

    x: np.ndarray
    y: np.ndarray
    description: str


def project_keys(keys: np.ndarray) -> Plane:
    """Project keys (N, d) to the plane by UMAP or, if it is not installed, by principal components.

    On one machine, the same keys always give the same points.
    """
    has_umap = find_spec("umap") is not None
    if has_umap and len(keys) >= MIN_KEYS_FOR_UMAP:
        from munkey.report.figures.projection import umap_2d

        points = umap_2d(keys, seed=0)
        points = np.stack([narrow_gaps(points[:, 0]), narrow_gaps(points[:, 1])], axis=1)
        description = (
            "UMAP of the keys; empty gaps are compressed. Read neighborhoods, not distances."
        )
    else:
        points = _project_on_principal_components(keys)
        description = "The two directions in which the keys vary most (principal components)."
    x, y = points.astype(np.float32).T
    return Plane(x, y, description)


def narrow_gaps(values: np.ndarray) -> np.ndarray:
    """Narrow wide gaps between successive coordinates (N,), whose order stays the same.

    In UMAP, distances between clusters have no meaning, and one distant cluster would leave little
    room for the others.
    """
    order = np.argsort(values)
    steps = np.diff(values[order])
    steps = np.minimum(steps, WIDEST_GAP * np.ptp(values))
    positions = np.empty(len(values))
    positions[order] = np.concatenate([[0.0], np.cumsum(steps)])
    return positions


def _project_on_principal_components(keys: np.ndarray) -> np.ndarray:
    """Project keys (N, d) onto their first two principal components; a missing one is 0."""
    centered = keys - keys.mean(axis=0)
    _, _, directions = np.linalg.svd(centered, full_matrices=False)
    points = np.zeros((len(keys), 2))
    count = min(2, len(directions))  # a single key has one direction
    points[:, :count] = centered @ directions[:count].T
    return points
