"""Keys of several encoders, and of mirrored pictures: `efficientnet-lite0@160+efficientnet-lite2@224`.

Each part of the name is an encoder, with `@SIDE` if its input has another side than
`keys.image_size`. A part's key has unit norm. With `keys.mirror`, it is the mean of the keys of the
picture and of its mirror image, scaled to unit norm again. The key of all parts is their keys side
by side, scaled to unit norm: cosines of whole keys are means of the parts' cosines.
"""

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from munkey.encoders.registry import Encoder, EncoderEntry, find
from munkey.settings import EncoderSettings

if TYPE_CHECKING:
    from torch import Tensor

SIDE = re.compile(r"@(\d{1,4})$")  # a commit, as in timm:hf-hub:NAME@COMMIT, is longer
LARGEST_SIDE = 4096  # pixels, as of keys.image_size
MOST_PARTS = 16
LONGEST_FOLDER = 120  # file systems allow 255 bytes; logs append to the name


def part_settings(settings: EncoderSettings) -> list[EncoderSettings]:
    """The settings of each encoder that `settings.encoder` names.

    Parts from a hub have the commit that the registry pins; a single encoder has `settings.revision`.
    Raises KeyError for an unknown name, ValueError for an empty or repeated part and for a side that
    an encoder does not take.
    """
    names = settings.encoder.split("+")
    if len(names) > MOST_PARTS:
        raise ValueError(
            f"keys.encoder: {len(names)} parts; at most {MOST_PARTS} can stand side by side"
        )
    parts = [_part(name, settings, is_single=len(names) == 1) for name in names]
    for index, part in enumerate(parts):
        if part in parts[:index]:
            raise ValueError(
                f"keys.encoder = {settings.encoder!r}: {names[index]} stands there twice"
            )
    return parts


def _part(name: str, settings: EncoderSettings, is_single: bool) -> EncoderSettings:
    side = SIDE.search(name)
    encoder = SIDE.sub("", name).strip()
    if not encoder:
        raise ValueError(
            f"keys.encoder = {settings.encoder!r}: a part is empty; write NAME@SIDE+NAME@SIDE"
        )
    if is_single and not side:
        return settings
    entry = find(encoder)
    if side and entry.size == "own":
        raise ValueError(
            f"keys.encoder = {settings.encoder!r}: the side of {encoder} is fixed by its own"
            f" preprocessing; write {encoder} without {side[0]}"
        )
    image_size = settings.image_size
    if side:
        image_size = int(side[1])
    if image_size and image_size > LARGEST_SIDE:
        raise ValueError(
            f"keys.encoder = {settings.encoder!r}: a side has at most {LARGEST_SIDE} pixels"
        )
    if entry.size == "own":
        image_size = None
    elif not image_size:
        raise ValueError(
            f"keys.encoder = {settings.encoder!r}: {encoder} needs the side of its input; write"
            f" {encoder}@160, or set keys.image_size"
        )
    revision = settings.revision if is_single else entry.revision
    return settings.model_copy(
        update={"encoder": encoder, "image_size": image_size, "revision": revision}
    )


def part_entries(settings: EncoderSettings) -> list[EncoderEntry]:
    """The registered encoder of each part."""
    return [find(part.encoder) for part in part_settings(settings)]


def weights_fingerprint(settings: EncoderSettings) -> str | None:
    """A string that changes with the weights of any part; None if nothing tells for one of them."""
    weights = [find(part.encoder).weights(part) for part in part_settings(settings)]
    if len(weights) == 1:
        return weights[0]
    marks = [mark for mark in weights if mark is not None]
    if len(marks) < len(weights):
        return None
    return " + ".join(marks)


def build(settings: EncoderSettings, device: str) -> Encoder:
    """The encoder of all parts: images (B, 3, H, W) in [0, 1] -> features (B, d).

    A single part without mirror images keeps the norm of its features, as published.
    """
    encoders = [_build_part(part, device) for part in part_settings(settings)]
    if len(encoders) == 1:
        return encoders[0]

    def encode(images: "Tensor") -> "Tensor":
        import torch

        return torch.cat([_normalize(encoder(images)) for encoder in encoders], dim=1)

    return encode


def _build_part(part: EncoderSettings, device: str) -> Encoder:
    encoder = find(part.encoder).build(part, device)
    if not part.mirror:
        return encoder

    def encode(images: "Tensor") -> "Tensor":
        return _normalize(encoder(images)) + _normalize(encoder(images.flip(-1)))

    return encode


def _normalize(features: "Tensor") -> "Tensor":
    """Features (B, d) at unit norm, in single precision: a GPU's encoder answers in half."""
    from torch.nn import functional as F

    return F.normalize(features.float(), dim=1)


def make_portable(settings: EncoderSettings) -> EncoderSettings:
    """Settings that mean the same anywhere: absolute folders, and sides in the names of parts."""
    parts = []
    names = []
    for part in part_settings(settings):
        name = part.encoder
        if "/" in name and not name.startswith("timm:"):
            name = str(Path(name).absolute())
        parts.append(part.model_copy(update={"encoder": name}))
        names.append(f"{name}@{part.image_size}" if part.image_size else name)
    if len(parts) == 1:
        return parts[0]
    return settings.model_copy(update={"encoder": "+".join(names), "image_size": None})


def join_keys(keys: Sequence[np.ndarray]) -> np.ndarray:
    """The keys (N, d_1 + d_2 + ...) of all parts, at unit norm, from those of each part (N, d_i)."""
    side_by_side = np.concatenate(keys, axis=1)
    return side_by_side / np.linalg.norm(side_by_side, axis=1, keepdims=True)


def cache_name(settings: EncoderSettings) -> str:
    """The name of the folder of keys: one for each encoder, revision, input side and mirror."""
    parts = part_settings(settings)
    if len(parts) > 1:
        names = "--".join(_folder_name(part) for part in parts)
    else:
        names = _folder_name(parts[0])
    if len(names) <= LONGEST_FOLDER:
        return names
    return f"{names[:LONGEST_FOLDER]}_{hashlib.sha256(names.encode()).hexdigest()[:8]}"


def _folder_name(part: EncoderSettings) -> str:
    words = [re.sub(r"[^\w.-]+", "-", part.encoder).strip("-")]
    if part.revision:
        words.append(part.revision[:8])
    if part.image_size:
        words.append(f"{part.image_size}px")
    if part.mirror:
        words.append("mirror")
    return "_".join(words)
