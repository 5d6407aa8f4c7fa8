"""Small pictures and settings that the tests of data sets share."""

import io
import zlib
from pathlib import Path

import numpy as np
from PIL import Image

from munkey.data.prepared import Dataset, load, prepare
from munkey.data.source import SPLITS, Source
from munkey.settings import SourceSettings

SHARES = (0.6, 0.15, 0.25)


def settings(
    path=None,
    size=None,
    shares=SHARES,
    limit=None,
    val_from=None,
    classes=None,
    units=None,
    only=None,
    on_bad="raise",
    white=None,
    first_label=0,
) -> SourceSettings:
    return SourceSettings(
        reader=None,
        path=path and str(path),
        md5=None,
        storage_size=size,
        split=list(shares),
        limit_per_class=limit,
        val_from=val_from,
        classes=classes,
        units=units,
        only=only,
        on_bad=on_bad,
        white=white,
        first_label=first_label,
        alter=None,
    )


def loaded(source: Source, folder: Path) -> Dataset:
    """A source after it has been prepared."""
    prepare(source, folder)
    return load(folder)


def counts(splits: np.ndarray) -> list[int]:
    """How many samples are in train, val and test."""
    return [int((splits == split).sum()) for split in SPLITS]


def picture(path: Path, size=(8, 6), mode="RGB", seed=None) -> None:
    """Write a picture of random pixels, `size` wide and high: the same for a seed, or for the last names of a path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    names = zlib.crc32("/".join(path.parts[-3:]).encode())
    generator = np.random.default_rng(names if seed is None else seed)
    pixels = generator.integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    Image.fromarray(pixels).convert(mode).save(path)


def class_folders(root: Path, sizes: dict[str, int], **kind) -> None:
    """Write a folder of pictures for each class."""
    for name, count in sizes.items():
        for i in range(count):
            picture(root / name / f"{i:03d}.png", **kind)


def pets_in(folder: Path) -> Path:
    """Ten different pictures of each of two classes: the folder of the class folders."""
    for label, name in enumerate(("cat", "dog")):
        for i in range(10):
            picture(folder / "pets" / name / f"{i}.png", size=(4, 3), seed=10 * label + i)
    return folder / "pets"


def file_of(kind: str, size: tuple[int, int] = (6, 4), **how: object) -> bytes:
    """A picture of one color in a format. how: options of Pillow."""
    file = io.BytesIO()
    Image.new("RGB", size, (200, 30, 90)).save(file, kind, **how)
    return file.getvalue()


def with_scans(size: tuple[int, int], count: int) -> bytes:
    """A progressive JPEG whose last scan is repeated until it has so many."""
    whole = file_of("JPEG", size, progressive=True)
    last = whole[whole.rindex(b"\xff\xda") : -2]
    return whole[:-2] + last * (count - whole.count(b"\xff\xda")) + whole[-2:]


def archive(path, sizes, dtype=np.uint8, shape=(6, 6, 3), classes=3):
    """Write an archive with `sizes` random images by split, and return its arrays."""
    written = {}
    generator = np.random.default_rng(0)
    for split, count in sizes.items():
        pixels = generator.integers(0, 256, (count, *shape), dtype=np.uint8)
        written[f"{split}_images"] = pixels if dtype == np.uint8 else (pixels / 255).astype(dtype)
        written[f"{split}_labels"] = (np.arange(count) % classes)[:, None].astype(np.uint8)
    np.savez_compressed(path, **written)
    return written
