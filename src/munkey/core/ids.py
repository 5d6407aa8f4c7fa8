"""Sample ids, and where they stand in sorted arrays of them."""

import numpy as np

NOBODY = -1  # stands for the id or row of a neighbor where a memory holds fewer rows than were asked for


def rows_of(sorted_ids: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """Positions of `ids` (any shape) in the ascending array `sorted_ids`. Raises KeyError for unknown ids."""
    positions = np.searchsorted(sorted_ids, ids)
    known = np.take(sorted_ids, positions, mode="clip") == ids if len(sorted_ids) else np.zeros(np.shape(ids), bool)
    if not np.all(known):
        unknown = np.asarray(ids)[~known].ravel()
        raise KeyError(f"{unknown.size} sample ids are unknown here, e.g. {unknown[:5].tolist()}")
    return positions
