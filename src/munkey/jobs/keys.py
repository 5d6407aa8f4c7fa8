"""Keys from the frozen encoder (sec. 3.2), and each sample's nearest neighbors in a memory."""

import hashlib
import shutil
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import numpy as np

from munkey.core.console import progress
from munkey.core.files import DamagedFileError, checksum_path, read_json, write_json
from munkey.core.ids import find_rows
from munkey.data import forget_sets, prepared
from munkey.data.source import SourceError
from munkey.encoders.keys import Keys, extract, read, write
from munkey.encoders.parts import build, join_keys
from munkey.memory.neighbors import find_nearest, write_neighbors
from munkey.settings import EncoderSettings

ORIGIN = ".made-from.json"  # in the folder of the keys


def keys(
    images: Path,
    keyfile: Path,
    settings: EncoderSettings,
    device: str,
    code: str = "",
    weights: str | None = None,
    parts: Sequence[Path] = (),
) -> None:
    """Extract the key of every sample with the frozen encoder.

    An interrupted job resumes after its finished blocks.

    Parameters
    ----------
    code, weights
        Fingerprints of the code and of the encoder's weights. Keys that another configuration
        extracted with the same code, weights and data are copied. If `weights` is None, they may
        have changed unnoticed, so nothing is copied.
    parts
        The key files of several encoders. If there are any, they are joined, and nothing is
        extracted.
    """
    dataset = prepared.load(images.parent)
    if parts:
        part_keys = [read(part, dataset.ids).keys for part in parts]
        write(keyfile, dataset.ids, join_keys(part_keys))
        return
    size = settings.batch_size
    origin = _describe_origin(images, dataset.ids, settings, device)
    origin |= {"code": code, "weights": weights}
    same_keys = None
    if weights is not None:
        same_keys = _find_equal_keys(keyfile, origin)
    if same_keys:
        write(keyfile, *same_keys)
    else:
        encode = build(settings, device)
        show_progress = partial(progress, what="batch", unit="images", units_per_item=size)
        name = hashlib.sha256(f"{origin} {keyfile}".encode()).hexdigest()[:16]
        blocks = Path("cache") / "keys" / name
        vectors = extract(encode, dataset.images, size, device, show_progress, blocks)
        write(keyfile, dataset.ids, vectors)
        shutil.rmtree(blocks)
    write_json(keyfile.with_name(ORIGIN), origin | {"keys": _read_sha256(keyfile)})


def _describe_origin(
    images: Path, ids: np.ndarray, settings: EncoderSettings, device: str
) -> dict[str, Any]:
    """Describe the origin of keys, except for code and weights.

    It includes libraries and processor, on which the last bits of keys depend.
    """
    import torch

    from munkey.core import gpu

    versions = sorted(f"{library.name} {library.version}" for library in distributions())
    return {
        "settings": settings.model_dump(),
        "images": _read_sha256(images),
        "ids": hashlib.sha256(ids.tobytes()).hexdigest(),
        "libraries": hashlib.sha256(str(versions).encode()).hexdigest(),
        "device": gpu.get_name() if device == "cuda" else torch.backends.cpu.get_cpu_capability(),
        "threads": torch.get_num_threads(),
    }


def _find_equal_keys(keyfile: Path, origin: dict[str, Any]) -> Keys | None:
    """Find keys of any configuration and data set with the same origin; None if there are none."""
    results = keyfile.parents[4]
    for file in sorted(results.glob(f"*/keys/*/*/{ORIGIN}")):
        other = file.with_name(keyfile.name)
        # Skip files that are being rewritten, and damaged ones.
        with suppress(OSError, DamagedFileError):
            if read_json(file) == origin | {"keys": _read_sha256(other)}:
                keys = read(other)
                print(f"copied from {other}, which has the same origin")
                return keys
    return None


def _read_sha256(file: Path) -> str:
    """Read the SHA-256 checksum that is stored next to a file."""
    return checksum_path(file).read_text().split()[0]


def neighbors(
    images: Path,
    keyfile: Path,
    neighbors: Path,
    depth: int,
    forget: Path | None = None,
    absent: Path | None = None,
) -> None:
    """Find the nearest neighbors of every sample in a memory: the training set, or the retain set."""
    members = forget_sets.split(prepared.load(images.parent), forget, absent).retain
    if len(members) < depth:
        raise SourceError(
            "too little data", [f"{len(members)} samples to retain, but keys.depth = {depth}"]
        )
    queries = read(keyfile)
    memory = Keys(members, queries.keys[find_rows(queries.ids, members)])
    write_neighbors(neighbors, queries.ids, find_nearest(queries, memory, depth))
    print(f"{depth} nearest of {len(members)} members for {len(queries.ids)} samples")
