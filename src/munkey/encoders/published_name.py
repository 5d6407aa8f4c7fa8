"""Recognize a folder with a copy of the paper's encoder by its configuration, not its weights.

Architecture, preprocessing and classes together distinguish it from DeiT, DINO, the model before
ImageNet-1k, and fine-tuned models. `_name_or_path` does not: fine-tuned models keep it.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from munkey.encoders.registry import read_json

ARCHITECTURE = {  # google/vit-base-patch16-224
    "model_type": "vit",
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "patch_size": 16,
    "image_size": 224,
}
SIZES = (224, {"height": 224, "width": 224})  # in older and newer versions of transformers
MEAN_AND_STD = [0.5, 0.5, 0.5]  # both the mean and the standard deviation of the channels


def find_published_name(encoder: str) -> str:
    """Return `vit-b16` for a folder with the paper's encoder, and other names unchanged."""
    if encoder.startswith("timm:") or "/" not in encoder:
        return encoder
    config = _read_json_or_empty(Path(encoder) / "config.json")
    processor = _read_json_or_empty(Path(encoder) / "preprocessor_config.json")
    has_architecture = all(config.get(key) == value for key, value in ARCHITECTURE.items())
    has_normalization = processor.get("image_mean") == processor.get("image_std") == MEAN_AND_STD
    has_size = processor.get("size") in SIZES
    # The 1,000 classes of ImageNet-1k in order; checking one of them is enough.
    names = config.get("id2label")
    has_classes = (
        isinstance(names, Mapping) and len(names) == 1000 and names.get("285") == "Egyptian cat"
    )
    if has_architecture and has_normalization and has_size and has_classes:
        return "vit-b16"
    return encoder


def _read_json_or_empty(file: Path) -> Mapping[str, Any]:
    """Read a configuration file, or return an empty dictionary if the file does not exist."""
    return read_json(file) if file.is_file() else {}
