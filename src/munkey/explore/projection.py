"""Two-dimensional projections of keys."""

from typing import NamedTuple

import numpy as np

MIN_UMAP_POINTS = 5  # UMAP needs neighbors
MAX_GAP = 0.06  # as a share of a coordinate's range


class Plane(NamedTuple):
    """Projected points.

    Attributes
    ----------
    x, y
        The coordinates (N,), float32.
    description
        A sentence that explains the projection.
    """

    x: np.ndarray
    y: np.ndarray
    description: str


def project_keys(keys: np.ndarray) -> Plane:
    """Project keys (N, d) to the plane by UMAP or, if it is not installed, by principal components.

    On the same machine, the same keys give the same points.
    """
    has_umap = True
    try:
        import umap  # noqa: F401
    except ImportError:
        has_umap = False
    if has_umap and len(keys) >= MIN_UMAP_POINTS:
        from munkey.report.figures.projection import umap_2d

        points = umap_2d(keys, seed=0)
        points = np.stack([narrow_gaps(points[:, 0]), narrow_gaps(points[:, 1])], axis=1)
        description = (
            "UMAP of the keys, with empty gaps compressed. Neighborhoods are meaningful, but distances"
            " are not."
        )
    else:
        points = _project_on_principal_components(keys)
        description = "The two directions in which the keys vary most (principal components)."
    x = points[:, 0].astype(np.float32)
    y = points[:, 1].astype(np.float32)
    return Plane(x, y, description)


def narrow_gaps(values: np.ndarray) -> np.ndarray:
    """Narrow wide gaps between successive coordinates (N,) without changing their order.

    UMAP's distances between clusters have no meaning, but a single distant cluster would leave
    little room for all others.
    """
    order = np.argsort(values)
    steps = np.diff(values[order])
    steps = np.minimum(steps, MAX_GAP * np.ptp(values))
    positions = np.empty(len(values))
    positions[order] = np.concatenate([[0.0], np.cumsum(steps)])
    return positions


def _project_on_principal_components(keys: np.ndarray) -> np.ndarray:
    """Project keys (N, d) onto their first two principal components.

    If there is only one component, the second coordinate is 0.
    """
    centered = keys - keys.mean(axis=0)
    _, _, directions = np.linalg.svd(centered, full_matrices=False)
    points = np.zeros((len(keys), 2))
    count = min(2, len(directions))  # a single key has one direction
    points[:, :count] = centered @ directions[:count].T
    return points
