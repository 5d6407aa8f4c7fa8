"""Keys k_i = g_phi(x_i) (sec. 3.2): extracted once with a frozen encoder, unit norm, kept with their sample ids."""

import collections
import itertools
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from munkey.data import rows_of
from munkey.files import DamagedFileError, read_npz, write_npy, write_npz

if TYPE_CHECKING:
    from munkey.encoders import Encoder


BLOCK = 16  # batches that an interruption can cost


def extract(
    encode: "Encoder",
    images: np.ndarray,
    batch_size: int,
    device: str,
    report: Callable[[Iterable[int]], Iterable[int]],
    blocks: Path | None = None,
) -> np.ndarray:
    """Keys of images (N, H, W, 3) uint8: (N, d) float32 of unit norm, so that a dot product is the cosine.

    Half precision on a GPU. `report` wraps the batches to show progress. Where `blocks` names a folder, finished blocks
    are kept there and an interrupted extraction goes on after the last one, to the same bytes; the folder must belong
    to these images, this encoder and this batch size alone. Raises ValueError where a feature is not finite or zero.
    """
    import torch

    from munkey.images import to_unit

    def features_of(starts: Iterable[int]) -> np.ndarray:
        parts = []
        with torch.inference_mode(), torch.autocast(device, torch.float16, enabled=device == "cuda"):
            for start in starts:
                batch = torch.from_numpy(np.array(images[start : start + batch_size])).to(device)
                parts.append(encode(to_unit(batch)).float().cpu().numpy())
        return np.concatenate(parts)

    starts = range(0, len(images), batch_size)
    pieces = [starts[i : i + BLOCK] for i in range(0, len(starts), BLOCK)]
    kept = [blocks / f"{piece.start}.npy" if blocks else None for piece in pieces]
    done = [path is not None and path.exists() for path in kept]
    todo = iter(report([start for piece, known in zip(pieces, done, strict=True) if not known for start in piece]))
    found = []
    for piece, path, known in zip(pieces, kept, done, strict=True):
        if known and path is not None:
            found.append(np.load(path))
            continue
        found.append(features_of(itertools.islice(todo, len(piece))))
        if path is not None:
            write_npy(path, found[-1])
    collections.deque(todo, maxlen=0)  # lets `report` say its last word
    features = np.concatenate(found)
    norms = np.linalg.norm(features, axis=1, keepdims=True)
    bad = np.flatnonzero(~np.isfinite(norms[:, 0]) | (norms[:, 0] == 0))
    if bad.size:
        raise ValueError(f"{bad.size} images have no usable key (not finite, or zero), e.g. rows {bad[:5].tolist()}")
    return features / norms


def write(path: str, ids: np.ndarray, keys: np.ndarray) -> None:
    write_npz(path, {"ids": ids, "keys": keys})


def read(path: str, ids: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Ids and keys (N, d) of all samples, or of `ids`.

    Raises DamagedFileError where the file is truncated or a key is not of unit norm, KeyError for an unknown id.
    """
    stored = read_npz(path, "ids", "keys")
    norms = np.linalg.norm(stored["keys"], axis=1)
    if len(stored["ids"]) != len(norms) or not np.allclose(norms, 1, atol=1e-4):
        raise DamagedFileError(path, "keys are not one unit vector per id")
    if ids is None:
        return stored["ids"], stored["keys"]
    return ids, stored["keys"][rows_of(stored["ids"], ids)]
