"""The page of a saved model: its samples in the plane, and their neighbors."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from munkey.encoders.keys import Keys
from munkey.explore.contents import FULL, Contents, NearRows, PageSamples
from munkey.explore.pictures import choose_page_ids, make_thumbnails
from munkey.explore.projection import project_keys
from munkey.memory.neighbors import find_nearest


class MemoryRows(NamedTuple):
    """The rows of a saved model: ids (N,), ascending, keys (N, d), class and name of each."""

    ids: np.ndarray
    keys: np.ndarray
    classes: Sequence[str]
    names: Sequence[str]


def choose_page_rows(ids: np.ndarray, max_count: int) -> np.ndarray:
    """Choose the rows that the page shows: all, or a sample of `max_count`. Returns their sorted ids."""
    return choose_page_ids(ids, {}, {}, max_count)


def gather_contents(
    title: str,
    rows: MemoryRows,
    max_count: int,
    depth: int,
    pictures: Mapping[int, np.ndarray] | None = None,
) -> Contents:
    """Gather the contents of the page of a saved model.

    max_count: rows to show; depth: number of neighbors of each, found among all rows; pictures: readable
    ones, by id; None shows no pictures.
    """
    shown_ids = choose_page_rows(rows.ids, max_count)
    places = np.searchsorted(rows.ids, shown_ids)
    class_names, class_indices = np.unique(
        np.array(rows.classes, dtype=object), return_inverse=True
    )
    labels = class_indices[places].astype(np.int64)
    # Rows of a saved estimator need not have length 1; a cosine is of directions.
    lengths = np.linalg.norm(rows.keys, axis=1, keepdims=True).clip(min=1e-12)
    unit_keys = np.ascontiguousarray(rows.keys / lengths, dtype=np.float32)
    depth_with_self = min(depth + 1, len(rows.ids))  # a row is nearest to itself
    neighbors = find_nearest(
        Keys(shown_ids, unit_keys[places]), Keys(rows.ids, unit_keys), depth_with_self
    )
    points = project_keys(unit_keys[places])
    scope = f"All {len(shown_ids):,} samples of the memory are shown."
    if len(shown_ids) < len(rows.ids):
        scope = (
            f"{len(shown_ids):,} of the memory's {len(rows.ids):,} samples are shown, drawn at random"
            " (fixed seed); neighbors are searched among all."
        )
    sheet = None
    if pictures is not None:
        sheet = make_thumbnails([pictures.get(int(shown_id), NO_PICTURE) for shown_id in shown_ids])
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
            [rows.names[place] for place in places],
        ),
        projection=points.words,
        is_experiment=False,
        pictures=sheet,
        near={FULL: NearRows(neighbors.ids.ravel(), neighbors.cosines.ravel(), depth_with_self)},
    )


NO_PICTURE = np.full((8, 8, 3), 127, dtype=np.uint8)  # gray, for a source file that is gone
