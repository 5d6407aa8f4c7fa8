"""The registry of frozen key encoders g_phi (sec. 3.2).

An encoder is built by one decorated function. It maps images (B, 3, H, W) in [0, 1] to features (B, d) and does its own
published preprocessing. Heavy libraries are imported only when an encoder is built, because Snakemake imports this
package while it plans.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from munkey.core.registry import Registry
from munkey.settings import EncoderSettings

if TYPE_CHECKING:
    from torch import Tensor

Encoder: TypeAlias = "Callable[[Tensor], Tensor]"
Builder: TypeAlias = "Callable[[EncoderSettings, str], Encoder]"
Weights: TypeAlias = Callable[[EncoderSettings], str | None]


class MissingEncoderError(FileNotFoundError):
    """An encoder's weights are not here and cannot be downloaded. The message says what to put where."""


def read_json(path: Path) -> Mapping[str, Any]:
    """A file of the configuration of an encoder in a folder. Raises ValueError that names it if it holds none."""
    try:
        content = json.loads(path.read_text())
    except ValueError as error:
        raise ValueError(f"{path}: is not valid JSON ({error}); save the encoder there again") from error
    if not isinstance(content, Mapping):
        raise ValueError(f"{path}: is no configuration of an encoder; save the encoder there again")
    return content


@dataclass(frozen=True)
class EncoderEntry:
    """size: `free` if keys.image_size chooses the side of the input, `own` if the published preprocessing fixes it.

    revision: the hub revision that keys.revision should pin, None if nothing comes from a hub; hub: the repository
    there; weights: what tells the weights from others, at no cost, as it is asked while planning: with other weights,
    keys are extracted anew. By default the hub revision; None where the builder's code alone says what they are.
    """

    name: str
    description: str
    size: Literal["free", "own"]
    revision: str | None
    hub: str | None
    weights: Weights
    build: Builder


ENCODERS: Registry[EncoderEntry] = Registry("encoder", "munkey.encoders")


def encoder(
    name: str,
    description: str,
    size: Literal["free", "own"],
    revision: str | None = None,
    hub: str | None = None,
    weights: Weights = lambda settings: settings.revision,
) -> Callable[[Builder], Builder]:
    """Register a key encoder. The function takes (settings, device) and returns the encoder on that device."""

    def register(build: Builder) -> Builder:
        ENCODERS.add(name, EncoderEntry(name, description, size, revision, hub, weights, build))
        return build

    return register


def find(name: str) -> EncoderEntry:
    """The entry for a value of keys.encoder: a registered name, `timm:NAME`, or a folder on disk (with a slash).

    Raises KeyError that lists the valid names.
    """
    if name.startswith("timm:"):
        return ENCODERS["timm:NAME"]
    if "/" in name:
        return ENCODERS["FOLDER"]
    return ENCODERS[name]


def cache_name(name: str, revision: str | None, image_size: int | None) -> str:
    """The folder of an encoder's keys: one for each encoder, revision and input size."""
    parts = [re.sub(r"[^\w.-]+", "-", name).strip("-"), revision and revision[:8], image_size and f"{image_size}px"]
    return "_".join(part for part in parts if part)
