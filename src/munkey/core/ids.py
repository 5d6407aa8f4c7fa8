"""Sample ids and their positions in sorted arrays."""

import numpy as np

NO_NEIGHBOR = -1  # the id and the row of an absent neighbor, where a memory has too few rows
NO_LABEL = -1  # the class index of a row without a label


def find_rows(sorted_ids: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """Return the positions of `ids` (any shape) in the ascending array `sorted_ids`.

    Raises KeyError if an id is not in `sorted_ids`.
    """
    positions = np.searchsorted(sorted_ids, ids)
    is_known = np.zeros(np.shape(ids), dtype=bool)
    if len(sorted_ids):
        # searchsorted returns len(sorted_ids) for an id above all others, hence "clip".
        is_known = np.take(sorted_ids, positions, mode="clip") == ids
    require_known(ids, is_known)
    return positions


def require_known(ids: np.ndarray, is_known: np.ndarray) -> None:
    """Raise KeyError unless all ids are known (same shape)."""
    if not np.all(is_known):
        unknown = np.asarray(ids)[~is_known].ravel()
        raise KeyError(f"{unknown.size} unknown sample id(s), e.g. {unknown[:5].tolist()}")
