"""Keys in the plane."""

from typing import NamedTuple

import numpy as np

LEAST_FOR_UMAP = 5
WIDEST_GAP = 0.06  # of the range of a coordinate


class Plane(NamedTuple):
    """Points x, y (N,) float32, and the projection in words."""

    x: np.ndarray
    y: np.ndarray
    words: str


def project_keys(keys: np.ndarray) -> Plane:
    """Project keys (N, d) to the plane: by UMAP if it is installed, else by principal components.

    The same keys give the same points on one machine.
    """
    has_umap = True
    try:
        import umap  # noqa: F401
    except ImportError:
        has_umap = False
    if has_umap and len(keys) >= LEAST_FOR_UMAP:
        from munkey.report.figures.projection import umap_2d

        points = umap_2d(keys, seed=0)
        points = np.stack([narrow_gaps(points[:, 0]), narrow_gaps(points[:, 1])], axis=1)
        words = "UMAP of the keys; empty gaps are compressed. Read neighborhoods, not distances."
    else:
        points = _project_on_principal_components(keys)
        words = "The two directions in which the keys vary most (principal components)."
    return Plane(points[:, 0].astype(np.float32), points[:, 1].astype(np.float32), words)


def narrow_gaps(values: np.ndarray) -> np.ndarray:
    """Narrow wide gaps between successive coordinates (N,), which keep their order.

    UMAP's distances between clusters mean nothing, and one far cluster leaves the others no room.
    """
    order = np.argsort(values)
    steps = np.diff(values[order])
    steps = np.minimum(steps, WIDEST_GAP * np.ptp(values))
    positions = np.empty(len(values))
    positions[order] = np.concatenate([[0.0], np.cumsum(steps)])
    return positions


def _project_on_principal_components(keys: np.ndarray) -> np.ndarray:
    """Project keys (N, d) on their first two principal components; 0 for a missing one."""
    centered = keys - keys.mean(axis=0)
    _, _, directions = np.linalg.svd(centered, full_matrices=False)
    points = np.zeros((len(keys), 2))
    count = min(2, len(directions))  # a single key has one direction
    points[:, :count] = centered @ directions[:count].T
    return points
