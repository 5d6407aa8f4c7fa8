"""Which samples a page shows, and their pictures in one image."""

import base64
import io
import math
from collections.abc import Iterable, Sequence

import numpy as np

from munkey.core.randomness import Stage
from munkey.explore.contents import Thumbnails

LARGEST_SIDE = 32  # of a thumbnail [px]; larger pictures are scaled down
COLUMNS = 64  # thumbnails in a row
LOSSLESS_SIDE = 16  # up to this side PNG is the smaller format, too


def choose_page_ids(
    all_ids: np.ndarray, forgotten: Iterable[np.ndarray], near: Iterable[np.ndarray], max_count: int
) -> np.ndarray:
    """Choose the samples that a page shows, at most `max_count`. Returns their sorted ids.

    Up to half of the places go to forgotten samples, up to a quarter to their neighbors and all
    others to a sample of the rest. Where a group is larger than its places, it is sampled; the
    seed is fixed.
    """
    if len(all_ids) <= max_count:
        return np.sort(all_ids)
    generator = Stage("explore", "samples").numpy_generator()
    chosen_ids = np.array([], dtype=np.int64)
    groups = [
        (_union(forgotten), max_count // 2),
        (_union(near), max_count // 4),
        (all_ids, max_count),
    ]
    for group_ids, max_from_group in groups:
        candidates = np.setdiff1d(group_ids, chosen_ids)
        count = min(max_from_group, max_count - len(chosen_ids), len(candidates))
        drawn_ids = generator.choice(candidates, size=count, replace=False)
        chosen_ids = np.union1d(chosen_ids, drawn_ids)
    return chosen_ids


def _union(groups: Iterable[np.ndarray]) -> np.ndarray:
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
