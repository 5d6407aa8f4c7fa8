"""Keys from the frozen encoder (sec. 3.2), and each sample's nearest neighbors in a memory."""

import hashlib
import shutil
from collections.abc import Sequence
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
        extracted with the same code, weights and data are copied. If `weights` is None, the weights
        may have changed unnoticed, so nothing is copied.
    parts
        The key files of several encoders. If there are any, their keys are joined, and nothing is
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
    is_copied = False
    if weights is not None:
        is_copied = _copy_equal_keys(keyfile, origin)
    if not is_copied:
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

    The description includes libraries and processor, which affect the last bits of keys.
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


def _copy_equal_keys(keyfile: Path, origin: dict[str, Any]) -> bool:
    """Copy keys with the same origin from any configuration. Returns whether any exist."""
    results = keyfile.parents[4]  # the key file is results/NAME/keys/DATASET/ENCODER/keys.npz
    for origin_file in sorted(results.glob(f"*/keys/*/*/{ORIGIN}")):
        other_keyfile = origin_file.with_name(keyfile.name)
        try:
            if read_json(origin_file) != origin | {"keys": _read_sha256(other_keyfile)}:
                continue
            equal_keys = read(other_keyfile)
        except (OSError, DamagedFileError):  # the files are damaged or being rewritten
            continue
        write(keyfile, *equal_keys)
        print(f"copied from {other_keyfile}, which has the same origin")
        return True
    return False


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
    """Find the nearest neighbors of every sample in a memory.

    The memory contains all training samples except those in `forget` and `absent`.
    """
    members = forget_sets.split(prepared.load(images.parent), forget, absent).retain
    if len(members) < depth:
        raise SourceError(
            "too little data", [f"{len(members)} samples to retain, but keys.depth = {depth}"]
        )
    queries = read(keyfile)
    memory = Keys(members, queries.keys[find_rows(queries.ids, members)])
    write_neighbors(neighbors, queries.ids, find_nearest(queries, memory, depth))
    print(f"{depth} nearest of {len(members)} members for {len(queries.ids)} samples")
