"""Encoders saved in a folder on disk, by transformers or timm."""

from pathlib import Path

from munkey.core.file_stamp import compute_stamp
from munkey.encoders.hub_models import SUPPORTED, from_transformers, is_transformers
from munkey.encoders.registry import Encoder, MissingEncoderError, encoder, read_json
from munkey.encoders.timm_models import from_timm
from munkey.settings import EncoderSettings


@encoder(
    "FOLDER",
    "a folder on disk with a saved transformers or timm model; written with a slash",
    size="own",
    weights=lambda settings: compute_stamp(settings.encoder),
)
def folder(settings: EncoderSettings, device: str) -> Encoder:
    path = Path(settings.encoder)
    if not (path / "config.json").exists():
        raise MissingEncoderError(
            f"keys.encoder = {settings.encoder}: no config.json there; a saved model has one"
        )
    if is_transformers(path):
        return from_transformers(str(path), None, device)
    if "architecture" not in read_json(path / "config.json"):
        raise ValueError(
            f"keys.encoder = {settings.encoder}: config.json names no model; {SUPPORTED}"
        )
    return from_timm(f"local-dir:{path}", device)
