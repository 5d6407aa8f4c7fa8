"""The registry of frozen key encoders g_phi (sec. 3.2).

A decorated function builds an encoder: images (B, 3, H, W) in [0, 1] -> features (B, d), published
preprocessing included. Planning imports this package, so builders import torch inside the function.
"""

import json
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
Operations: TypeAlias = Callable[[EncoderSettings], float]


class MissingEncoderError(FileNotFoundError):
    """An encoder's weights are missing and cannot be downloaded. The message says what to do."""


def read_json(path: Path) -> Mapping[str, Any]:
    """Read a configuration file of a saved encoder.

    Raises ValueError if it is not a JSON object.
    """
    try:
        content = json.loads(path.read_text())
    except ValueError as error:
        raise ValueError(
            f"{path}: is not valid JSON ({error}); save the encoder there again"
        ) from error
    if not isinstance(content, Mapping):
        raise ValueError(f"{path}: is not an encoder configuration; save the encoder there again")
    return content


@dataclass(frozen=True)
class EncoderEntry:
    """An entry of the registry of encoders. The decorator `encoder` explains its fields."""

    name: str
    description: str
    size: Literal["free", "own"]
    revision: str | None
    hub: str | None
    weights: Weights
    build: Builder
    package: str | None = None
    operations: Operations | None = None


ENCODERS: Registry[EncoderEntry] = Registry("encoder", "munkey.encoders")


def encoder(  # noqa: PLR0913 -- decorators of plug-ins name each
    name: str,
    description: str,
    size: Literal["free", "own"],
    revision: str | None = None,
    hub: str | None = None,
    weights: Weights = lambda settings: settings.revision,
    package: str | None = None,
    operations: Operations | None = None,
) -> Callable[[Builder], Builder]:
    """Register a key encoder: a function (settings, device) -> Encoder.

    Parameters
    ----------
    name : str
        Value of `keys.encoder`.
    description : str
        Short description for docs/encoders.md.
    size : {"free", "own"}
        "free" if `keys.image_size` sets the side of the input, "own" if the preprocessing fixes it.
    revision : str, optional
        Revision that `keys.revision` should have, for weights from the Hugging Face Hub.
    hub : str, optional
        Repository on the Hugging Face Hub.
    weights : callable, optional
        Settings -> a string that changes with the weights, or None if code determines them. It must
        be fast. By default, `keys.revision`.
    package : str, optional
        Module that contains the weights, if the extra `keys` installs it.
    operations : callable, optional
        Settings -> floating-point operations per picture, two for each multiply-add, for `munkey
        plan`.

    Returns
    -------
    callable
        The decorator.

    Raises
    ------
    ValueError
        If the name is taken or cannot be part of a path.

    Examples
    --------
    An encoder that averages the pixels of each channel, d = 3:

    >>> @encoder(
    ...     "mean-color",
    ...     "mean of each channel, d = 3",
    ...     size="own",
    ...     weights=lambda settings: None,
    ... )
    ... def mean_color(settings, device):
    ...     return lambda images: images.mean(dim=(2, 3))
    >>> ENCODERS["mean-color"].size
    'own'
    >>> ENCODERS.remove("mean-color")
    """

    def register(build: Builder) -> Builder:
        entry = EncoderEntry(
            name=name,
            description=description,
            size=size,
            revision=revision,
            hub=hub,
            weights=weights,
            build=build,
            package=package,
            operations=operations,
        )
        ENCODERS.add(name, entry)
        return build

    return register


def find(name: str) -> EncoderEntry:
    """Find the entry for a value of keys.encoder: a name, `timm:NAME`, or a folder (with a slash).

    Raises KeyError, which lists the valid names.
    """
    if name.startswith("timm:"):
        return ENCODERS["timm:NAME"]
    if "/" in name:
        return ENCODERS["FOLDER"]
    return ENCODERS[name]
