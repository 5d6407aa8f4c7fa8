"""Keys of images, extracted once with a frozen encoder and stored with sample ids.

The paper (sec. 3.2) writes k_i = g_phi(x_i) for the key of image x_i; here, keys have unit norm.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np

from munkey.core.console import pluralize, warn
from munkey.core.device import keep_freed_memory, to_device, to_host
from munkey.core.files import DamagedFileError, read_npy, read_npz, write_npy, write_npz
from munkey.core.ids import find_rows
from munkey.encoders.registry import Encoder

ShowProgress: TypeAlias = Callable[[Sequence[int]], Iterable[int]]

BLOCK = 16  # batches per stored block; an interruption loses at most one block
# Kernels for smaller batches round differently, but the key of an image must not depend on the
# other images in its batch.
MIN_BATCH = 16


class Keys(NamedTuple):
    """Keys of samples.

    Attributes
    ----------
    ids
        (N,) int64.
    keys
        (N, d) float32 of unit norm, in the order of `ids`.
    """

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
    """Extract keys (N, d) float32 of unit norm from images (N, H, W, 3) uint8.

    Uses half precision on a GPU. Raises ValueError if an image's features are all zero or not
    finite.

    Parameters
    ----------
    device
        "cpu" or "cuda".
    show_progress
        Yields the items of a sequence with one item per batch.
    folder
        Folder for finished blocks, from which an interrupted extraction continues with the same
        result. Do not reuse it for other images, another encoder, batch size or device.
    """
    import torch

    from munkey.core.gpu import autocast

    blocks = _plan_blocks(len(images), batch_size)
    features: dict[int, np.ndarray] = {}  # keyed by the index of each block's first image
    if folder:
        features = _read_stored_blocks(blocks, folder)
    remaining_blocks = [block for block in blocks if block.start not in features]
    dtype = torch.float16 if device == "cuda" else torch.float32
    if device == "cpu":
        # Otherwise, getting new memory for the activations of each batch takes longer than
        # computing them.
        keep_freed_memory()
    with torch.inference_mode(), autocast(dtype, device):
        # A generator: each block is encoded, and then written, before the next one starts.
        encoded_blocks = _encode_blocks(
            encode, images, remaining_blocks, batch_size, device, show_progress
        )
        for block, block_features in encoded_blocks:
            features[block.start] = block_features
            if folder:
                write_npy(_block_file(folder, block), block_features)
    return _scale_to_unit_norm(np.concatenate([features[block.start] for block in blocks]))


def _plan_blocks(image_count: int, batch_size: int) -> list[range]:
    """Return blocks of up to BLOCK batches, each as the range of its batches' first images."""
    starts = range(0, image_count, batch_size)
    return [starts[i : i + BLOCK] for i in range(0, len(starts), BLOCK)]


def _encode_blocks(
    encode: Encoder,
    images: np.ndarray,
    blocks: list[range],
    batch_size: int,
    device: str,
    show_progress: ShowProgress,
) -> Iterator[tuple[range, np.ndarray]]:
    """Yield each block with the features (n, d) float32 of its images, not yet of unit norm."""
    import torch

    from munkey.data.image_set import to_unit_range

    # Progress is shown over the batches of all blocks.
    starts = [start for block in blocks for start in block]
    block_of_last_batch = {block[-1]: block for block in blocks}
    batches: list[np.ndarray] = []
    for start in show_progress(starts):
        batch = images[start : start + batch_size]
        pixels = to_unit_range(to_device(torch.from_numpy(pad_batch(batch)), device))
        encoded = encode(pixels)[: len(batch)]  # without the padding
        batches.append(to_host(encoded.float()).numpy())
        if start in block_of_last_batch:
            yield block_of_last_batch[start], np.concatenate(batches)
            batches = []


def pad_batch(images: np.ndarray) -> np.ndarray:
    """Return a copy of images (N, H, W, 3), padded to MIN_BATCH with copies of the last image."""
    missing_count = max(0, MIN_BATCH - len(images))
    padding = np.repeat(images[-1:], missing_count, axis=0)
    return np.concatenate([images, padding])


def _read_stored_blocks(blocks: list[range], folder: Path) -> dict[int, np.ndarray]:
    """Read the features of finished blocks, by each one's first image. Warns about damaged blocks."""
    features = {}
    for block in blocks:
        file = _block_file(folder, block)
        if file.exists():
            try:
                features[block.start] = read_npy(file)
            except DamagedFileError:
                warn(f"WARNING: {file} is damaged: its keys are extracted again")
    return features


def _block_file(folder: Path, block: range) -> Path:
    return folder / f"{block.start}.npy"


def _scale_to_unit_norm(features: np.ndarray) -> np.ndarray:
    """Scale features (N, d) to unit norm. Raises ValueError if a row is zero or not finite."""
    norms = np.linalg.norm(features, axis=1, keepdims=True)
    is_unusable = ~np.isfinite(norms[:, 0]) | (norms[:, 0] == 0)
    unusable_rows = np.flatnonzero(is_unusable)
    if len(unusable_rows):
        raise ValueError(
            f"no usable key (not finite, or zero) for {pluralize(len(unusable_rows), 'image')}, e.g."
            f" rows {unusable_rows[:5].tolist()}"
        )
    return features / norms


def normalize_rows(X: np.ndarray) -> np.ndarray:
    """Scale each row of (N, d) to unit norm, as float32. Rows of zeros stay zero."""
    X = np.ascontiguousarray(X, dtype=np.float64)
    # Divide by the largest number first, because squares of very large numbers overflow.
    largest = np.abs(X).max(axis=1, keepdims=True)
    X = X / np.where(largest > 0, largest, 1)
    norms = np.linalg.norm(X, axis=1, keepdims=True)
    return (X / np.where(norms > 0, norms, 1)).astype(np.float32)


def scale_to_bound(X: np.ndarray, bound: float) -> np.ndarray:
    """Divide rows (N, d) by a bound, which maps numbers within it to [-1, 1], as float32."""
    return (np.ascontiguousarray(X, dtype=np.float64) / bound).astype(np.float32)


def write(path: str | Path, ids: np.ndarray, keys: np.ndarray) -> None:
    """Write keys (N, d) and the ids (N,) of their samples as an NPZ file."""
    write_npz(path, {"ids": ids, "keys": keys})


def read(path: str | Path, ids: np.ndarray | None = None) -> Keys:
    """Read the keys of samples in the order of `ids`; by default, of all samples.

    Raises DamagedFileError if the file is damaged, and KeyError for an unknown id.
    """
    stored = read_npz(path, "ids", "keys")
    norms = np.linalg.norm(stored["keys"], axis=1)
    if len(stored["ids"]) != len(norms) or not np.allclose(norms, 1, atol=1e-4):
        raise DamagedFileError(path, "does not contain one unit vector per id")
    if ids is None:
        return Keys(stored["ids"], stored["keys"])
    return Keys(ids, stored["keys"][find_rows(stored["ids"], ids)])
