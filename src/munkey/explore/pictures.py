"""Which samples a page shows, and their pictures in one image."""

import base64
import io
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from munkey.core.ids import NO_NEIGHBOR
from munkey.core.randomness import Stage
from munkey.explore.contents import FULL, Thumbnails
from munkey.memory.neighbors import Neighbors

LARGEST_SIDE = 32  # of a thumbnail [px]; larger pictures are scaled down
COLUMNS = 64  # thumbnails in a row
LOSSLESS_SIDE = 16  # up to this side PNG is the smaller format, too


def choose_page_ids(
    all_ids: np.ndarray,
    forgotten: Mapping[str, np.ndarray],
    near: Mapping[str, Neighbors],
    max_count: int,
) -> np.ndarray:
    """Choose the samples that a page shows, at most `max_count`. Returns their sorted ids.

    forgotten: ids by request. near: the neighbors of every sample, in the order of `all_ids`, by
    the memory that was searched: FULL, or the request. Places are given away in this order:
    forgotten samples, up to half of the places; their neighbors, the nearest first, before
    forgetting and after it; the neighbors of all samples chosen so far; a random sample of the
    rest, which gets at least a tenth. Where a group is larger than its places, it is sampled; the
    seed is fixed.
    """
    if len(all_ids) <= max_count:
        return np.sort(all_ids)
    generator = Stage("explore", "samples").numpy_generator()
    nobody = np.array([], dtype=np.int64)
    shown_ids = _fill(nobody, union_ids(forgotten.values()), max_count // 2, generator)
    count_before_rest = max_count - max_count // 10
    for group in rank_neighbors(all_ids, near, select_shown(forgotten, shown_ids)):
        shown_ids = _fill(shown_ids, group, count_before_rest, generator)
    for group in rank_neighbors(all_ids, near, dict.fromkeys(near, shown_ids)):
        shown_ids = _fill(shown_ids, group, count_before_rest, generator)
    return _fill(shown_ids, all_ids, max_count, generator)


def _fill(
    shown_ids: np.ndarray, group: np.ndarray, max_count: int, generator: np.random.Generator
) -> np.ndarray:
    """Add the ids of a group to those shown, all or a sample, up to `max_count` together."""
    others = np.setdiff1d(group, shown_ids)
    count = min(max_count - len(shown_ids), len(others))
    return np.union1d(shown_ids, generator.choice(others, size=count, replace=False))


def select_shown(
    forgotten: Mapping[str, np.ndarray], shown_ids: np.ndarray
) -> dict[str, np.ndarray]:
    """Select the forgotten ids that are shown, by the memory whose neighbors the page shows."""
    ids_by_memory = {FULL: np.intersect1d(union_ids(forgotten.values()), shown_ids)}
    for request, ids in forgotten.items():
        ids_by_memory[request] = np.intersect1d(ids, shown_ids)
    return ids_by_memory


def rank_neighbors(
    all_ids: np.ndarray, near: Mapping[str, Neighbors], asked: Mapping[str, np.ndarray]
) -> Iterator[np.ndarray]:
    """Yield ids of neighbors: the nearest before forgetting, the nearest after it, the next before, …

    near: neighbors of all samples, by memory. asked: by memory, the ids whose neighbors are wanted.
    """
    rows = {}
    for memory in near:
        rows[memory] = np.isin(all_ids, asked[memory])
    after = [memory for memory in near if memory != FULL]
    depth = max((each.ids.shape[1] for each in near.values()), default=0)
    for rank in range(depth):
        for memories in ([FULL], after):
            ids = union_ids(near[memory].ids[rows[memory], rank] for memory in memories)
            yield ids[ids != NO_NEIGHBOR]


def union_ids(groups: Iterable[np.ndarray]) -> np.ndarray:
    """Return the sorted ids that are in any group."""
    return np.unique(np.concatenate([np.array([], dtype=np.int64), *groups]))


def make_thumbnails(images: Sequence[np.ndarray] | np.ndarray) -> Thumbnails:
    """Put pictures (H, W, 3) uint8 side by side into one image."""
    from PIL import Image

    side = min(LARGEST_SIDE, max(max(each.shape[:2]) for each in images))
    columns = min(COLUMNS, len(images))
    sheet = Image.new("RGB", (columns * side, math.ceil(len(images) / columns) * side))
    for position, pixels in enumerate(images):
        picture = Image.fromarray(np.asarray(pixels))
        if picture.size != (side, side):
            picture = picture.resize((side, side), Image.Resampling.LANCZOS)
        row, column = divmod(position, columns)
        sheet.paste(picture, (column * side, row * side))
    buffer = io.BytesIO()
    kind = "png" if side <= LOSSLESS_SIDE else "jpeg"
    sheet.save(buffer, kind, optimize=True, quality=85)  # PNG has no quality, and ignores it
    text = base64.b64encode(buffer.getvalue()).decode()
    return Thumbnails(f"data:image/{kind};base64,{text}", side, columns)
