"""Encoders from timm: by name, or a checkpoint on disk that `timm` saved (config.json beside the weights)."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from munkey.encoders import MissingEncoderError, encoder

if TYPE_CHECKING:
    from munkey.encoders import Encoder
    from munkey.params import KeyParams


@encoder("timm:NAME", "any timm model with its pretrained weights and preprocessing, pooled features", size="own")
def timm_model(settings: "KeyParams", device: str) -> "Encoder":
    return from_timm(settings.encoder.removeprefix("timm:"), device)


def from_timm(name: str, device: str) -> "Encoder":
    """name: a timm model, or `local-dir:FOLDER`. Raises MissingEncoderError where its weights are not to be had."""
    import timm
    from timm.data.config import resolve_data_config

    try:
        model = timm.create_model(name, pretrained=True, num_classes=0)
    except (OSError, RuntimeError) as error:
        raise MissingEncoderError(
            f"timm's model {name!r} cannot be loaded ({type(error).__name__}: {str(error).splitlines()[0]}). Without a"
            " network, save it on a machine that has one with timm.models.save_for_hf(model, FOLDER) and give"
            " keys.encoder the folder"
        ) from error
    config = resolve_data_config({}, model=model)
    crop = config["input_size"][1:]
    preprocess = Preprocess(
        edge=int(crop[0] / config["crop_pct"]),
        exact=None,
        crop=(crop[0], crop[1]),
        mean=list(config["mean"]),
        std=list(config["std"]),
        interpolation=config["interpolation"],
    )
    model.eval().to(device)
    return lambda images: model(preprocess(images))


class Preprocess:
    """Resize (shortest edge, or exact height and width), centre crop and normalise batches (B, 3, H, W) in [0, 1]."""

    def __init__(
        self,
        edge: int | None,
        exact: tuple[int, int] | None,
        crop: tuple[int, int] | None,
        mean: list[float],
        std: list[float],
        interpolation: str,
    ) -> None:
        self.size: list[int] | None = list(exact) if exact else [edge] if edge else None
        self.crop, self.mean, self.std, self.interpolation = crop, mean, std, interpolation

    def __call__(self, images: Any) -> Any:
        from torchvision.transforms import InterpolationMode
        from torchvision.transforms.v2 import functional as F

        if self.size:
            mode = InterpolationMode(self.interpolation)
            images = F.resize(images, self.size, interpolation=mode, antialias=True).clamp(0, 1)
        if self.crop:
            images = F.center_crop(images, list(self.crop))
        return F.normalize(images, self.mean, self.std)


@encoder("FOLDER", "a folder on disk with a saved transformers or timm model; written with a slash", size="own")
def folder(settings: "KeyParams", device: str) -> "Encoder":
    from munkey.encoders import hub

    path = Path(settings.encoder)
    if not (path / "config.json").exists():
        raise MissingEncoderError(f"keys.encoder = {settings.encoder}: no config.json there; a saved model has one")
    if hub.is_transformers(path):
        return hub.from_transformers(str(path), None, device)
    return from_timm(f"local-dir:{path}", device)
