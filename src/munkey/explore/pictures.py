"""The choice of the samples that a page shows, and their pictures in one image."""

import base64
import io
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from munkey.core.ids import NOBODY
from munkey.core.randomness import Stage
from munkey.explore.contents import FULL, Thumbnails
from munkey.memory.neighbors import Neighbors

LARGEST_SIDE = 32  # of a thumbnail [px]; larger pictures are scaled down
COLUMNS = 64  # thumbnails in a row
LOSSLESS_SIDE = 16  # [px]; for pictures up to this size, PNG files are smaller than JPEG files


def choose_page_ids(
    all_ids: np.ndarray,
    forgotten: Mapping[str, np.ndarray],
    near: Mapping[str, Neighbors],
    max_count: int,
) -> np.ndarray:
    """Choose the samples that a page shows. Returns their sorted ids.

    Samples are chosen in this order: forgotten samples, up to half of `max_count`; their neighbors,
    the nearest first, before and after forgetting; the neighbors of all samples chosen so far; and a
    random sample of the rest, at least a tenth of `max_count`. A group that is too large is sampled
    at random, with a fixed seed.

    Parameters
    ----------
    all_ids
        The ids of all samples.
    forgotten
        The forgotten ids, by request.
    near
        The neighbors of every sample, in the order of `all_ids`, by the memory that was searched:
        FULL, or the request.
    max_count
        How many samples a page may show.
    """
    if len(all_ids) <= max_count:
        return np.sort(all_ids)
    generator = Stage("explore", "samples").numpy_generator()
    no_ids = np.array([], dtype=np.int64)
    shown_ids = _fill(no_ids, union_ids(forgotten.values()), max_count // 2, generator)
    count_before_rest = max_count - max_count // 10
    for group in rank_neighbors(all_ids, near, select_shown(forgotten, shown_ids)):
        shown_ids = _fill(shown_ids, group, count_before_rest, generator)
    for group in rank_neighbors(all_ids, near, dict.fromkeys(near, shown_ids)):
        shown_ids = _fill(shown_ids, group, count_before_rest, generator)
    return _fill(shown_ids, all_ids, max_count, generator)


def _fill(
    shown_ids: np.ndarray, group: np.ndarray, max_count: int, generator: np.random.Generator
) -> np.ndarray:
    """Add the ids of a group to `shown_ids`: all, or a random sample that fills up `max_count`."""
    others = np.setdiff1d(group, shown_ids)
    count = min(max_count - len(shown_ids), len(others))
    return np.union1d(shown_ids, generator.choice(others, size=count, replace=False))


def select_shown(
    forgotten: Mapping[str, np.ndarray], shown_ids: np.ndarray
) -> dict[str, np.ndarray]:
    """Select the shown ones among the forgotten ids, by request; FULL has those of all requests."""
    ids_by_memory = {FULL: np.intersect1d(union_ids(forgotten.values()), shown_ids)}
    for request, ids in forgotten.items():
        ids_by_memory[request] = np.intersect1d(ids, shown_ids)
    return ids_by_memory


def rank_neighbors(
    all_ids: np.ndarray, near: Mapping[str, Neighbors], query_ids: Mapping[str, np.ndarray]
) -> Iterator[np.ndarray]:
    """Yield the ids of neighbors, rank by rank: first those before forgetting, then those after it.

    Parameters
    ----------
    near
        The neighbors of all samples, by the memory that was searched.
    query_ids
        The ids whose neighbors are yielded, by memory.
    """
    is_query = {}
    for memory in near:
        is_query[memory] = np.isin(all_ids, query_ids[memory])
    memories_after = [memory for memory in near if memory != FULL]
    depth = max((neighbors.ids.shape[1] for neighbors in near.values()), default=0)
    for rank in range(depth):
        for memories in ([FULL], memories_after):
            ids = union_ids(near[memory].ids[is_query[memory], rank] for memory in memories)
            yield ids[ids != NOBODY]


def union_ids(groups: Iterable[np.ndarray]) -> np.ndarray:
    """Return the sorted ids that are in any group."""
    return np.unique(np.concatenate([np.array([], dtype=np.int64), *groups]))


def make_thumbnails(images: Sequence[np.ndarray] | np.ndarray) -> Thumbnails:
    """Put pictures (H, W, 3) uint8 side by side into one image."""
    from PIL import Image

    side = min(LARGEST_SIDE, max(max(pixels.shape[:2]) for pixels in images))
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
    encoded = base64.b64encode(buffer.getvalue()).decode()
    return Thumbnails(f"data:image/{image_format};base64,{encoded}", side, columns)
