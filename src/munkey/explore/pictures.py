"""The choice of the samples that a page shows, and their thumbnails in a single image."""

import base64
import io
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from munkey.core.ids import NO_NEIGHBOR
from munkey.core.randomness import Stage
from munkey.explore.contents import FULL, Thumbnails
from munkey.memory.neighbors import Neighbors

MAX_SIDE = 32  # pixels; larger pictures are scaled down
COLUMNS = 64  # thumbnails per row
LOSSLESS_SIDE = 16  # pixels; thumbnails up to this size are stored as PNG, which is then smaller


def choose_page_ids(
    all_ids: np.ndarray,
    forgotten: Mapping[str, np.ndarray],
    near: Mapping[str, Neighbors],
    max_count: int,
) -> np.ndarray:
    """Choose at most `max_count` samples to show on a page. Returns their sorted ids.

    Samples are chosen in this order: forgotten samples (at most half of all); their neighbors
    before and after forgetting, nearest first; neighbors of all samples chosen so far; a random
    sample of the rest (at least a tenth of all). If not all samples of a group fit, they are drawn
    at random with a fixed seed.

    Parameters
    ----------
    forgotten
        The forgotten ids of each request.
    near
        The neighbors of every sample, in the order of `all_ids`, by the memory that was searched:
        FULL or the request.
    """
    if len(all_ids) <= max_count:
        return np.sort(all_ids)
    generator = Stage("explore", "samples").numpy_generator()
    no_ids = np.array([], dtype=np.int64)
    shown_ids = _add_ids(no_ids, union_ids(forgotten.values()), max_count // 2, generator)
    count_before_rest = max_count - max_count // 10
    for group in rank_neighbors(all_ids, near, select_shown(forgotten, shown_ids)):
        shown_ids = _add_ids(shown_ids, group, count_before_rest, generator)
    for group in rank_neighbors(all_ids, near, dict.fromkeys(near, shown_ids)):
        shown_ids = _add_ids(shown_ids, group, count_before_rest, generator)
    return _add_ids(shown_ids, all_ids, max_count, generator)


def _add_ids(
    shown_ids: np.ndarray, group: np.ndarray, max_count: int, generator: np.random.Generator
) -> np.ndarray:
    """Add the ids of a group, or a random sample of them, so that at most `max_count` are shown."""
    others = np.setdiff1d(group, shown_ids)
    count = min(max_count - len(shown_ids), len(others))
    return np.union1d(shown_ids, generator.choice(others, size=count, replace=False))


def select_shown(
    forgotten: Mapping[str, np.ndarray], shown_ids: np.ndarray
) -> dict[str, np.ndarray]:
    """Return the forgotten ids that are shown, by memory.

    For FULL, these are the ids of all requests; for the memory after a request, those of the
    request.
    """
    ids_by_memory = {FULL: np.intersect1d(union_ids(forgotten.values()), shown_ids)}
    for request, ids in forgotten.items():
        ids_by_memory[request] = np.intersect1d(ids, shown_ids)
    return ids_by_memory


def rank_neighbors(
    all_ids: np.ndarray, near: Mapping[str, Neighbors], query_ids: Mapping[str, np.ndarray]
) -> Iterator[np.ndarray]:
    """Yield groups of neighbor ids by rank, alternating between before and after forgetting.

    The first group has the nearest neighbors before forgetting, the second those after it, the
    third the second-nearest neighbors before forgetting, and so on.

    Parameters
    ----------
    near
        The neighbors of all samples, by memory.
    query_ids
        The ids of the samples whose neighbors to yield, by memory.
    """
    is_query = {}
    for memory in near:
        is_query[memory] = np.isin(all_ids, query_ids[memory])
    after = [memory for memory in near if memory != FULL]
    depth = max((neighbors.ids.shape[1] for neighbors in near.values()), default=0)
    for rank in range(depth):
        for memories in ([FULL], after):
            ids = union_ids(near[memory].ids[is_query[memory], rank] for memory in memories)
            yield ids[ids != NO_NEIGHBOR]


def union_ids(groups: Iterable[np.ndarray]) -> np.ndarray:
    """Return the sorted, distinct ids of all groups."""
    return np.unique(np.concatenate([np.array([], dtype=np.int64), *groups]))


def make_thumbnails(images: Sequence[np.ndarray] | np.ndarray) -> Thumbnails:
    """Arrange pictures (H, W, 3) uint8 as square thumbnails in a single image.

    The side of a thumbnail is that of the largest picture, up to MAX_SIDE. Pictures of another size
    are resized to it.
    """
    from PIL import Image

    side = min(MAX_SIDE, max(max(image.shape[:2]) for image in images))
    columns = min(COLUMNS, len(images))
    sheet = Image.new("RGB", (columns * side, math.ceil(len(images) / columns) * side))
    for position, pixels in enumerate(images):
        picture = Image.fromarray(np.asarray(pixels))
        if picture.size != (side, side):
            picture = picture.resize((side, side), Image.Resampling.LANCZOS)
        row, column = divmod(position, columns)
        sheet.paste(picture, (column * side, row * side))
    buffer = io.BytesIO()
    image_format = "png" if side <= LOSSLESS_SIDE else "jpeg"
    sheet.save(buffer, image_format, optimize=True, quality=85)  # PNG ignores the quality
    text = base64.b64encode(buffer.getvalue()).decode()
    return Thumbnails(f"data:image/{image_format};base64,{text}", side, columns)
