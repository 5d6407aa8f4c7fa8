"""Encoders saved in a folder on disk, by transformers or timm."""

from pathlib import Path

from munkey.core.file_stamp import compute_stamp
from munkey.encoders.hub_models import SUPPORTED, is_transformers, load_transformers_encoder
from munkey.encoders.registry import Encoder, MissingEncoderError, encoder, read_json
from munkey.encoders.timm_models import load_timm_encoder
from munkey.settings import EncoderSettings


@encoder(
    "FOLDER",
    "a folder on disk with a saved transformers or timm model; written with a slash",
    size="own",
    weights=lambda settings: compute_stamp(settings.encoder),
)
def folder(settings: EncoderSettings, device: str) -> Encoder:
    """Load the encoder in a folder with the library that saved it.

    Raises MissingEncoderError if it cannot be loaded, and ValueError if config.json names no model.
    """
    path = Path(settings.encoder)
    if not (path / "config.json").exists():
        raise MissingEncoderError(
            f"keys.encoder = {settings.encoder}: the folder has no config.json; a saved model has one"
        )
    if is_transformers(path):
        return load_transformers_encoder(str(path), None, device)
    if "architecture" not in read_json(path / "config.json"):
        raise ValueError(
            f"keys.encoder = {settings.encoder}: config.json names no model; {SUPPORTED}"
        )
    return load_timm_encoder(f"local-dir:{path}", device)
