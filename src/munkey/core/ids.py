"""Finding sample ids in sorted arrays."""

import numpy as np

NOBODY = -1  # the id or row of an absent neighbor, if a memory has too few rows


def find_rows(sorted_ids: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """Return the positions of `ids` (any shape) in the ascending array `sorted_ids`.

    Raises KeyError if any is missing.
    """
    positions = np.searchsorted(sorted_ids, ids)
    is_known = np.zeros(np.shape(ids), dtype=bool)
    if len(sorted_ids):
        # An id above all others has a position past the end, hence "clip".
        is_known = np.take(sorted_ids, positions, mode="clip") == ids
    if not np.all(is_known):
        unknown = np.asarray(ids)[~is_known].ravel()
        raise KeyError(f"{unknown.size} sample ids are unknown here, e.g. {unknown[:5].tolist()}")
    return positions
