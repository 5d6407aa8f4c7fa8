"""Frozen key encoders g_phi (sec. 3.2): the registry. One file per family.

An encoder is one decorated function that returns a callable: images (B, 3, H, W) in [0, 1] -> features (B, d). It does
its own published preprocessing. Heavy libraries are imported when an encoder is built, because Snakemake imports this
package while it plans.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from munkey.registry import Registry, import_all

if TYPE_CHECKING:
    from torch import Tensor

    from munkey.params import KeyParams

    Encoder = Callable[[Tensor], Tensor]
    Build = Callable[[KeyParams, str], Encoder]


class MissingEncoderError(FileNotFoundError):
    """An encoder's weights are not here and cannot be downloaded; the message says what to put where."""


@dataclass(frozen=True)
class EncoderEntry:
    """size: `free` where keys.image_size chooses the input's side, `own` where the published preprocessing fixes it.

    revision: the hub revision that keys.revision should pin, None where nothing comes from a hub.
    """

    name: str
    description: str
    size: Literal["free", "own"]
    revision: str | None
    build: "Build"


ENCODERS: Registry[EncoderEntry] = Registry("encoder")


def encoder(
    name: str, description: str, size: Literal["free", "own"], revision: str | None = None
) -> "Callable[[Build], Build]":
    """Register a key encoder. The function takes (key parameters, device) and returns the encoder on that device."""

    def register(build: "Build") -> "Build":
        ENCODERS.add(name, EncoderEntry(name, description, size, revision, build))
        return build

    return register


def find(name: str) -> EncoderEntry:
    """The entry of a name as it stands in keys.encoder: registered, `timm:NAME`, or a folder or file on disk.

    Raises KeyError that lists the valid names.
    """
    if name.startswith("timm:"):
        return ENCODERS["timm:NAME"]
    if "/" in name:
        return ENCODERS["FOLDER"]
    return ENCODERS[name]


def cache_name(name: str, revision: str | None, image_size: int | None) -> str:
    """The folder of an encoder's keys: one for each (encoder, revision, input size)."""
    parts = [re.sub(r"[^\w.-]+", "-", name).strip("-"), revision and revision[:8], image_size and f"{image_size}px"]
    return "_".join(part for part in parts if part)


import_all(__name__, list(__path__))
