"""Which published encoder a folder on disk is a copy of, as far as its configuration tells.

Weights are not compared. What tells the paper's encoder from its relatives on the hub (DeiT, DINO, the model before its
training on ImageNet-1k, a model fine-tuned from it) is its architecture, its preprocessing and its classes together.
`_name_or_path` does not: what was fine-tuned keeps the name of what it started from.
"""

from collections.abc import Mapping
from pathlib import Path

from munkey.encoders.registry import read_json

ARCHITECTURE = {  # of google/vit-base-patch16-224
    "model_type": "vit",
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "patch_size": 16,
    "image_size": 224,
}
SIZES = (224, {"height": 224, "width": 224})  # as older and newer versions of transformers write it
HALF = [0.5, 0.5, 0.5]  # mean and standard deviation of its pixels


def known_as(encoder: str) -> str:
    """The registered name of the encoder that a folder holds a copy of; other values of keys.encoder as they are."""
    if encoder.startswith("timm:") or "/" not in encoder:
        return encoder
    files = [Path(encoder) / f"{part}config.json" for part in ("", "preprocessor_")]
    config, processor = (read_json(file) if file.is_file() else {} for file in files)
    alike = all(config.get(key) == value for key, value in ARCHITECTURE.items())
    pixels = processor.get("image_mean") == processor.get("image_std") == HALF and processor.get("size") in SIZES
    names = config.get("id2label")  # the 1,000 of ImageNet-1k, in their order
    imagenet = isinstance(names, Mapping) and len(names) == 1000 and names.get("285") == "Egyptian cat"
    return "vit-b16" if alike and pixels and imagenet else encoder
