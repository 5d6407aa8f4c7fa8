"""Keys k_i = g_phi(x_i) (sec. 3.2): extracted once with a frozen encoder, at unit norm, and kept with sample ids."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np

from munkey.core.console import warn
from munkey.core.device import to_device, to_host
from munkey.core.files import DamagedFileError, read_npy, read_npz, write_npy, write_npz
from munkey.core.ids import rows_of
from munkey.encoders.registry import Encoder

ShowProgress: TypeAlias = Callable[[Sequence[int]], Iterable[int]]

BLOCK = 16  # batches that an interruption can cost
LEAST = 16  # images at once: kernels for fewer round otherwise, and a picture's key must not depend on its company


class Keys(NamedTuple):
    """ids: (N,) int64; keys: (N, d) float32 of unit norm. Row i is the key of ids[i]."""

    ids: np.ndarray
    keys: np.ndarray


def extract(
    encode: Encoder,
    images: np.ndarray,
    batch_size: int,
    device: str,
    show_progress: ShowProgress,
    folder: Path | None = None,
) -> np.ndarray:
    """Keys of images (N, H, W, 3) uint8: (N, d) float32 of unit norm, so that a dot product is the cosine.

    Half precision on a GPU. show_progress: passes on the batches, each as the number of its first image. folder: where
    finished blocks of batches are kept, so that an interrupted extraction continues after the last one, to the same
    bytes; it must belong to these images, this encoder, this batch size and this device alone.

    Raises ValueError if a feature is zero or not finite.
    """
    import torch

    from munkey.core.gpu import products_in
    from munkey.data.image_set import to_unit

    starts = range(0, len(images), batch_size)
    blocks = [starts[i : i + BLOCK] for i in range(0, len(starts), BLOCK)]
    block_of_last_batch = {block[-1]: block for block in blocks}
    features = _kept_blocks(blocks, folder) if folder else {}  # by the first image of a block
    batches: list[np.ndarray] = []
    with torch.inference_mode(), products_in(torch.float16 if device == "cuda" else torch.float32, device):
        for start in show_progress([start for block in blocks if block.start not in features for start in block]):
            batch = images[start : start + batch_size]
            encoded = encode(to_unit(to_device(torch.from_numpy(filled_up(batch)), device)))
            batches.append(to_host(encoded[: len(batch)].float()).numpy())
            if block := block_of_last_batch.get(start):
                features[block.start], batches = np.concatenate(batches), []
                if folder:
                    write_npy(_block_file(folder, block), features[block.start])
    return _unit(np.concatenate([features[block.start] for block in blocks]))


def filled_up(images: np.ndarray) -> np.ndarray:
    """A copy of the images (N, H, W, 3), with repetitions of the last one where there are fewer than LEAST."""
    return np.concatenate([images, np.repeat(images[-1:], max(0, LEAST - len(images)), axis=0)])


def _kept_blocks(blocks: list[range], folder: Path) -> dict[int, np.ndarray]:
    """The features of finished blocks, by the first image of a block. Damaged ones are left out, with a warning."""
    features = {}
    for block in blocks:
        if (file := _block_file(folder, block)).exists():
            try:
                features[block.start] = read_npy(file)
            except DamagedFileError:
                warn(f"WARNING: {file} is damaged: the keys that it holds are extracted again")
    return features


def _block_file(folder: Path, block: range) -> Path:
    return folder / f"{block.start}.npy"


def _unit(features: np.ndarray) -> np.ndarray:
    """Features (N, d) at unit norm. Raises ValueError if one is zero or not finite."""
    norms = np.linalg.norm(features, axis=1, keepdims=True)
    bad = np.flatnonzero(~np.isfinite(norms[:, 0]) | (norms[:, 0] == 0))
    if bad.size:
        raise ValueError(f"{bad.size} images have no usable key (not finite, or zero), e.g. rows {bad[:5].tolist()}")
    return features / norms


def at_unit_norm(X: np.ndarray) -> np.ndarray:
    """Rows (N, d) of anybody's embeddings as float32 of unit norm, each by itself alone. A row of zeros stays one."""
    X = np.ascontiguousarray(X, dtype=np.float64)
    largest = np.abs(X).max(axis=1, keepdims=True)  # first, since squares of large numbers are infinite
    X = X / np.where(largest > 0, largest, 1)
    norms = np.linalg.norm(X, axis=1, keepdims=True)
    return (X / np.where(norms > 0, norms, 1)).astype(np.float32)


def within(X: np.ndarray, bound: float) -> np.ndarray:
    """Rows (N, d) as float32 multiples of a bound, each number by itself: from -1 to 1 where none exceeds the bound."""
    return (np.ascontiguousarray(X, dtype=np.float64) / bound).astype(np.float32)


def write(path: str | Path, ids: np.ndarray, keys: np.ndarray) -> None:
    write_npz(path, {"ids": ids, "keys": keys})


def read(path: str | Path, ids: np.ndarray | None = None) -> Keys:
    """The keys of the samples `ids`, in their order; by default of all samples.

    Raises DamagedFileError if the file is damaged or a key is not of unit norm, KeyError for an unknown id.
    """
    stored = read_npz(path, "ids", "keys")
    norms = np.linalg.norm(stored["keys"], axis=1)
    if len(stored["ids"]) != len(norms) or not np.allclose(norms, 1, atol=1e-4):
        raise DamagedFileError(path, "keys are not one unit vector per id")
    if ids is None:
        return Keys(stored["ids"], stored["keys"])
    return Keys(ids, stored["keys"][rows_of(stored["ids"], ids)])
