"""The page of a saved model: a map of its samples, and their neighbors."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from munkey.encoders.keys import Keys
from munkey.explore.contents import FULL, Contents, NearRows, PageSamples
from munkey.explore.pictures import choose_page_ids, make_thumbnails
from munkey.explore.projection import project_keys
from munkey.memory.neighbors import find_nearest

NO_PICTURE = np.full((8, 8, 3), 127, dtype=np.uint8)  # gray, for a source file that is missing


class MemoryRows(NamedTuple):
    """The rows of a saved model's memory.

    Attributes
    ----------
    ids
        The ids (N,), ascending.
    keys
        The keys (N, d).
    classes, names
        The class and the name of each row.
    """

    ids: np.ndarray
    keys: np.ndarray
    classes: Sequence[str]
    names: Sequence[str]


def choose_page_rows(ids: np.ndarray, max_count: int) -> np.ndarray:
    """Choose the rows that the page shows: all, or `max_count` at random. Returns their sorted ids."""
    return choose_page_ids(ids, {}, {}, max_count)


def gather_contents(
    title: str,
    rows: MemoryRows,
    max_count: int,
    depth: int,
    pictures: Mapping[int, np.ndarray] | None = None,
) -> Contents:
    """Gather the contents of a saved model's page.

    Parameters
    ----------
    max_count
        How many rows the page may show.
    depth
        How many neighbors of each row it shows. They are searched among all rows.
    pictures
        The pictures that could be read, by id; None for a page without pictures.
    """
    shown_ids = choose_page_rows(rows.ids, max_count)
    positions = np.searchsorted(rows.ids, shown_ids)
    class_names, class_indices = np.unique(
        np.array(rows.classes, dtype=object), return_inverse=True
    )
    labels = class_indices[positions].astype(np.int64)
    # The rows of a saved estimator may have any length, but a cosine compares directions.
    lengths = np.linalg.norm(rows.keys, axis=1, keepdims=True).clip(min=1e-12)
    unit_keys = np.ascontiguousarray(rows.keys / lengths, dtype=np.float32)
    depth_with_self = min(depth + 1, len(rows.ids))  # every row is its own nearest neighbor
    neighbors = find_nearest(
        Keys(shown_ids, unit_keys[positions]), Keys(rows.ids, unit_keys), depth_with_self
    )
    points = project_keys(unit_keys[positions])
    if len(shown_ids) < len(rows.ids):
        scope = (
            f"{len(shown_ids):,} of the memory's {len(rows.ids):,} samples are shown, drawn at random"
            " (fixed seed); neighbors are searched among all."
        )
    else:
        scope = f"All {len(shown_ids):,} samples of the memory are shown."
    sheet = None
    if pictures is not None:
        sheet = make_thumbnails([pictures.get(row_id, NO_PICTURE) for row_id in shown_ids.tolist()])
    return Contents(
        title=title,
        subtitle="The memory of a saved model",
        scope=scope,
        classes=class_names.tolist(),
        samples=PageSamples(
            shown_ids,
            labels,
            np.full(len(shown_ids), "in the memory"),
            points.x,
            points.y,
            [rows.names[position] for position in positions],
        ),
        projection=points.description,
        is_experiment=False,
        pictures=sheet,
        near={FULL: NearRows(neighbors.ids.ravel(), neighbors.cosines.ravel(), depth_with_self)},
    )
