"""Encoders from timm, by name."""

from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from munkey.core.file_stamp import compute_stamp
from munkey.encoders.preprocess import PixelSize, Preprocess
from munkey.encoders.registry import Encoder, MissingEncoderError, encoder
from munkey.settings import EncoderSettings

if TYPE_CHECKING:
    from torch import nn


def _fingerprint_timm_weights(settings: EncoderSettings) -> str:
    """Return a stamp of a local folder, or else timm's version.

    timm loads the newest commit of a name's repository. Which one that is, is known only after the
    download, and a fingerprint that the download changed would make all jobs run again.
    """
    folder = settings.encoder.partition("local-dir:")[2]
    if folder:
        return compute_stamp(folder)
    return f"timm {version('timm')}"


@encoder(
    "timm:NAME",
    "any timm model with its pretrained weights and preprocessing, pooled features",
    size="own",
    weights=_fingerprint_timm_weights,
)
def timm_model(settings: EncoderSettings, device: str) -> Encoder:
    return load_timm_encoder(settings.encoder.removeprefix("timm:"), device)


def load_timm(name: str, setting: str, **arguments: Any) -> "nn.Module":
    """Load a timm model without its head, by name or from `local-dir:FOLDER`.

    Raises MissingEncoderError, which names `setting`. `arguments` are for `timm.create_model`.
    """
    import timm
    from safetensors import SafetensorError

    try:
        return timm.create_model(name, pretrained=True, num_classes=0, **arguments)
    except (OSError, RuntimeError, SafetensorError) as error:
        raise MissingEncoderError(
            f"timm's model {name!r} cannot be loaded ({type(error).__name__}:"
            f" {str(error).partition(chr(10))[0]}). If this machine has no Internet access, save it on"
            f" one that has with timm.models.save_for_hf(model, FOLDER), and set {setting} to the folder"
        ) from error


def load_timm_encoder(name: str, device: str) -> Encoder:
    """Load a timm model as an encoder.

    Raises MissingEncoderError if it cannot be loaded, or if its preprocessing is not supported.
    """
    model = load_timm(name, "keys.encoder")
    preprocess = _make_timm_preprocess(model)
    model.eval().to(device)
    return lambda images: model(preprocess(images))


def _make_timm_preprocess(model: "nn.Module") -> Preprocess:
    """Make a timm model's preprocessing. Raises MissingEncoderError for an unsupported crop mode."""
    from timm.data.config import resolve_data_config

    config = resolve_data_config({}, model=model)
    if config["crop_mode"] not in ("center", "squash"):
        raise MissingEncoderError(
            f"this timm model needs crop_mode {config['crop_mode']!r}, which is not implemented",
        )
    crop = PixelSize(*config["input_size"][1:])
    # timm resizes so that the crop is the share `crop_pct` of the resized picture.
    height = int(crop.height / config["crop_pct"])
    resize: int | PixelSize
    if config["crop_mode"] == "squash":
        resize = PixelSize(height, int(crop.width / config["crop_pct"]))
    else:
        resize = height  # of the shorter edge
    return Preprocess(
        resize=resize,
        crop=crop,
        mean=list(config["mean"]),
        std=list(config["std"]),
        interpolation=config["interpolation"],
    )
