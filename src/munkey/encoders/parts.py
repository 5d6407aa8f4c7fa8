"""Keys of several encoders, and of mirrored pictures: `efficientnet-lite0@160+vit-b16`.

Each part is an encoder, with `@SIDE` if its input side differs from `keys.image_size`. Its key has
unit norm; with `keys.mirror`, it is the mean of the picture's and its mirror image's key at unit
norm. The parts are concatenated at unit norm, so cosines of keys are means of the parts' cosines.
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
TIMM_FOLDER = "timm:local-dir:"
MAX_SIDE = 4096  # pixels, as for keys.image_size
MAX_PARTS = 16
MAX_FOLDER_NAME = 120  # file systems allow 255 bytes; logs append to the name


def split_parts(settings: EncoderSettings) -> list[EncoderSettings]:
    """Split `settings.encoder` at its plus signs into the settings of each encoder.

    Several encoders use the revisions that the registry pins. Raises KeyError for an unknown name,
    and ValueError if a part is empty, repeated or one too many, or if a side is invalid.
    """
    names = settings.encoder.split("+")
    if len(names) > MAX_PARTS:
        raise ValueError(f"keys.encoder: {len(names)} parts; at most {MAX_PARTS} can be combined")
    parts = [_read_part(name, settings, is_single=len(names) == 1) for name in names]
    for index, part in enumerate(parts):
        if part in parts[:index]:
            raise ValueError(f"keys.encoder = {settings.encoder!r}: {names[index]} is repeated")
    return parts


def _read_part(name: str, settings: EncoderSettings, is_single: bool) -> EncoderSettings:
    """Return the settings of a part, `NAME` or `NAME@SIDE`. Raises KeyError and ValueError."""
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
    image_size = int(side[1]) if side else settings.image_size
    if image_size and image_size > MAX_SIDE:
        raise ValueError(
            f"keys.encoder = {settings.encoder!r}: a side has at most {MAX_SIDE} pixels"
        )
    if entry.size == "own":
        image_size = None
    elif not image_size:
        raise ValueError(
            f"keys.encoder = {settings.encoder!r}: {encoder} needs the side of its input; write"
            f" {encoder}@160, or set keys.image_size"
        )
    # `keys.revision` applies to a single encoder; with several, each has its entry's revision.
    revision = settings.revision if is_single else entry.revision
    return settings.model_copy(
        update={"encoder": encoder, "image_size": image_size, "revision": revision}
    )


def find_part_entries(settings: EncoderSettings) -> list[EncoderEntry]:
    """Find the registered encoder of each part."""
    return [find(part.encoder) for part in split_parts(settings)]


def fingerprint_weights(settings: EncoderSettings) -> str | None:
    """Return a string that changes with any part's weights; None if code determines all."""
    fingerprints = []
    for part in split_parts(settings):
        fingerprint = find(part.encoder).weights(part)
        if fingerprint is not None:
            fingerprints.append(fingerprint)
    return " + ".join(fingerprints) or None


def build(settings: EncoderSettings, device: str) -> Encoder:
    """Build the encoder of all parts: images (B, 3, H, W) in [0, 1] -> features (B, d) of any norm."""
    encoders = [_build_part(part, device) for part in split_parts(settings)]
    if len(encoders) == 1:
        return encoders[0]

    def encode(images: "Tensor") -> "Tensor":
        import torch

        return torch.cat([_normalize(encoder(images)) for encoder in encoders], dim=1)

    return encode


def _build_part(part: EncoderSettings, device: str) -> Encoder:
    """Build the encoder of one part. With `keys.mirror`, it also encodes the mirror images."""
    encoder = find(part.encoder).build(part, device)
    if not part.mirror:
        return encoder

    def encode(images: "Tensor") -> "Tensor":
        mirrored_images = images.flip(-1)
        # The sum has the same direction as the mean, and keys are scaled to unit norm later.
        return _normalize(encoder(images)) + _normalize(encoder(mirrored_images))

    return encode


def _normalize(features: "Tensor") -> "Tensor":
    """Scale features (B, d) to unit norm in float32; on a GPU, encoders return float16."""
    from torch.nn import functional as F

    return F.normalize(features.float(), dim=1)


def make_portable(settings: EncoderSettings) -> EncoderSettings:
    """Return settings that mean the same encoders in any working directory and with any defaults."""
    parts = []
    names = []
    for part in split_parts(settings):
        name = part.encoder
        timm_folder = name.removeprefix(TIMM_FOLDER)
        if timm_folder != name:
            name = f"{TIMM_FOLDER}{Path(timm_folder).absolute()}"
        elif "/" in name and not name.startswith("timm:"):  # a folder
            name = str(Path(name).absolute())
        parts.append(part.model_copy(update={"encoder": name}))
        names.append(f"{name}@{part.image_size}" if part.image_size else name)
    if len(parts) == 1:
        return parts[0]
    return settings.model_copy(update={"encoder": "+".join(names), "image_size": None})


def join_keys(keys: Sequence[np.ndarray]) -> np.ndarray:
    """Join the parts' keys (N, d_i) to keys (N, d_1 + d_2 + ...) of unit norm."""
    joined_keys = np.concatenate(keys, axis=1)
    return joined_keys / np.linalg.norm(joined_keys, axis=1, keepdims=True)


def name_cache_folder(settings: EncoderSettings) -> str:
    """Name the key folder of these encoders, revisions, input sides and mirroring."""
    name = "--".join(_name_part_folder(part) for part in split_parts(settings))
    if len(name) <= MAX_FOLDER_NAME:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]  # distinguishes names with one prefix
    return f"{name[:MAX_FOLDER_NAME]}_{digest}"


def _name_part_folder(part: EncoderSettings) -> str:
    """Name a part's folder: `ENCODER_REVISION_SIDEpx_mirror`, leaving out settings that are not set."""
    components = [re.sub(r"[^\w.-]+", "-", part.encoder).strip("-")]
    if part.revision:
        components.append(part.revision[:8])
    if part.image_size:
        components.append(f"{part.image_size}px")
    if part.mirror:
        components.append("mirror")
    return "_".join(components)
