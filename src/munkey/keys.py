"""Keys k_i = g_phi(x_i) (sec. 3.2): extracted once with a frozen encoder, unit norm, kept with their sample ids."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import numpy as np

from munkey.data import rows_of
from munkey.files import DamagedFileError, read_npz, write_npz

if TYPE_CHECKING:
    from munkey.encoders import Encoder


def extract(
    encode: "Encoder",
    images: np.ndarray,
    batch_size: int,
    device: str,
    report: Callable[[Iterable[int]], Iterable[int]],
) -> np.ndarray:
    """Keys of images (N, H, W, 3) uint8: (N, d) float32 of unit norm, so that a dot product is the cosine.

    `report` wraps the batches to show progress. Raises ValueError where a feature is not finite or zero.
    """
    import torch

    from munkey.images import to_unit

    parts = []
    with torch.inference_mode():
        for start in report(range(0, len(images), batch_size)):
            batch = torch.from_numpy(np.array(images[start : start + batch_size])).to(device)
            parts.append(encode(to_unit(batch)).float().cpu().numpy())
    features = np.concatenate(parts)
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
