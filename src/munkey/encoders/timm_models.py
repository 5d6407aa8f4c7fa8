"""Encoders from timm, by name."""

from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from munkey.core.file_stamp import compute_stamp
from munkey.encoders.preprocess import PixelSize, Preprocess
from munkey.encoders.registry import Encoder, MissingEncoderError, encoder
from munkey.settings import EncoderSettings

if TYPE_CHECKING:
    from torch import nn


def _weights(settings: EncoderSettings) -> str:
    """The state of a folder's files, or timm's version, which determines the weights of a name."""
    folder = settings.encoder.partition("local-dir:")[2]
    if folder:
        return compute_stamp(folder)
    return f"timm {version('timm')}"


@encoder(
    "timm:NAME",
    "any timm model with its pretrained weights and preprocessing, pooled features",
    size="own",
    weights=_weights,
)
def timm_model(settings: EncoderSettings, device: str) -> Encoder:
    return from_timm(settings.encoder.removeprefix("timm:"), device)


def load_timm(name: str, setting: str, **arguments: Any) -> "nn.Module":
    """timm's model of that name, or one saved in `local-dir:FOLDER`, with weights and no head.

    setting: the one in params.yaml that names it; arguments: of `timm.create_model`. Raises
    MissingEncoderError if it cannot be loaded.
    """
    import timm
    from safetensors import SafetensorError

    try:
        return timm.create_model(name, pretrained=True, num_classes=0, **arguments)
    except (OSError, RuntimeError, SafetensorError) as error:
        raise MissingEncoderError(
            f"timm's model {name!r} cannot be loaded ({type(error).__name__}:"
            f" {str(error).splitlines()[0]}). Without a"
            " network, save it on a machine that has one with timm.models.save_for_hf(model,"
            " FOLDER) and set"
            f" {setting} to the folder"
        ) from error


def from_timm(name: str, device: str) -> Encoder:
    """A timm model as an encoder. Raises MissingEncoderError if it cannot be loaded."""
    model = load_timm(name, "keys.encoder")
    preprocess = _preprocess(model)
    model.eval().to(device)
    return lambda images: model(preprocess(images))


def _preprocess(model: "nn.Module") -> Preprocess:
    """The preprocessing of a timm model. Raises MissingEncoderError for one that pads images."""
    from timm.data.config import resolve_data_config

    config = resolve_data_config({}, model=model)
    if config["crop_mode"] not in ("center", "squash"):
        raise MissingEncoderError(
            f"this timm model wants crop_mode {config['crop_mode']!r}, which is not implemented",
        )
    crop = PixelSize(*config["input_size"][1:])
    height = int(crop.height / config["crop_pct"])
    width = int(crop.width / config["crop_pct"])
    return Preprocess(
        resize=PixelSize(height, width) if config["crop_mode"] == "squash" else height,
        crop=crop,
        mean=list(config["mean"]),
        std=list(config["std"]),
        interpolation=config["interpolation"],
    )
