"""The contents of a saved model's page: a map of its samples, and their neighbors."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from munkey.core.ids import find_rows
from munkey.encoders.keys import Keys
from munkey.explore.contents import FULL, Contents, NearRows, PageSamples
from munkey.explore.pictures import choose_page_ids, make_thumbnails
from munkey.explore.projection import project_keys
from munkey.memory.neighbors import find_nearest

NO_PICTURE = np.full((8, 8, 3), 127, dtype=np.uint8)  # a gray square, for missing source files


class MemoryRows(NamedTuple):
    """The N rows of a saved model's memory.

    Attributes
    ----------
    ids
        The ids (N,), ascending.
    keys
        The keys (N, d).
    classes, names
        The class and the displayed name of each row.
    """

    ids: np.ndarray
    keys: np.ndarray
    classes: Sequence[str]
    names: Sequence[str]


def choose_page_rows(ids: np.ndarray, max_count: int) -> np.ndarray:
    """Choose at most `max_count` rows to show, at random. Returns their sorted ids."""
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
        The largest number of rows to show.
    depth
        The number of neighbors to show for each row, besides the row itself. They are searched
        among all rows.
    pictures
        The pictures by id. Rows without a picture get a gray square. If None, the page has no
        pictures.
    """
    shown_ids = choose_page_rows(rows.ids, max_count)
    positions = find_rows(rows.ids, shown_ids)
    class_names, class_indices = np.unique(
        np.array(rows.classes, dtype=object), return_inverse=True
    )
    labels = class_indices[positions].astype(np.int64)
    # The rows of a saved estimator may have any length, but cosines need unit vectors.
    lengths = np.linalg.norm(rows.keys, axis=1, keepdims=True).clip(min=1e-12)
    unit_keys = np.ascontiguousarray(rows.keys / lengths, dtype=np.float32)
    depth_with_self = min(depth + 1, len(rows.ids))  # each row is its own nearest neighbor
    neighbors = find_nearest(
        Keys(shown_ids, unit_keys[positions]), Keys(rows.ids, unit_keys), depth_with_self
    )
    points = project_keys(unit_keys[positions])
    if len(shown_ids) < len(rows.ids):
        scope = (
            f"{len(shown_ids):,} of the memory's {len(rows.ids):,} samples are shown, drawn at random"
            " (fixed seed). Neighbors are searched among all samples."
        )
    else:
        scope = f"All {len(shown_ids):,} samples of the memory are shown."
    thumbnails = None
    if pictures is not None:
        thumbnails = make_thumbnails(
            [pictures.get(int(shown_id), NO_PICTURE) for shown_id in shown_ids]
        )
    return Contents(
        title=title,
        subtitle="The memory of a saved model",
        scope=scope,
        classes=class_names.tolist(),
        samples=PageSamples(
            ids=shown_ids,
            labels=labels,
            splits=np.full(len(shown_ids), "in the memory"),
            x=points.x,
            y=points.y,
            names=[rows.names[position] for position in positions],
        ),
        projection=points.description,
        is_experiment=False,
        pictures=thumbnails,
        near={FULL: NearRows(neighbors.ids.ravel(), neighbors.cosines.ravel(), depth_with_self)},
    )
