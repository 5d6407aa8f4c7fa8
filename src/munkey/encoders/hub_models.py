"""Encoders from transformers: the paper's ViT-B/16 (its default), DINOv2 and CLIP (app. D.2).

For a saved model of another type, its own image processor and pooled features are used.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from munkey.encoders.preprocess import PixelSize, Preprocess
from munkey.encoders.registry import Encoder, MissingEncoderError, encoder, read_json
from munkey.settings import EncoderSettings

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class ModelType:
    """How transformers loads a type of model, and how to get features from its output.

    Attributes
    ----------
    arguments
        Further arguments of `from_pretrained`.
    """

    class_name: str
    arguments: Mapping[str, bool]
    get_features: "Callable[[Any], Tensor]"  # Any, because transformers' outputs have no type hints


_CLIP = ModelType("CLIPVisionModelWithProjection", {}, lambda output: output.image_embeds)
# The paper's models, by model_type in config.json. For others, see `_load_pooled_encoder`.
MODEL_TYPES = {
    "vit": ModelType(
        "ViTModel", {"add_pooling_layer": False}, lambda output: output.last_hidden_state[:, 0]
    ),
    "dinov2": ModelType("Dinov2Model", {}, lambda output: output.pooler_output),
    "clip": _CLIP,
    "clip_vision_model": _CLIP,
}


SUPPORTED = (
    "an encoder's folder must have a vision model from transformers with a pooled output (ViT, DINOv2 and DINOv3, CLIP,"
    " SigLIP, ConvNeXt, ...), or a model saved by timm (docs/encoders.md)"
)


def _register(name: str, hub: str, feature: str, revision: str, operations: float) -> None:
    """Register the encoder in a Hugging Face repository. `operations`: per picture."""

    @encoder(
        name,
        f"{hub}, {feature}",
        size="own",
        revision=revision,
        hub=hub,
        operations=lambda settings: operations,
    )
    def build(settings: EncoderSettings, device: str) -> Encoder:
        return load_transformers_encoder(hub, settings.revision, device)


_register(
    "vit-b16",
    "google/vit-base-patch16-224",
    "final [CLS] before the classifier, d = 768 (the paper's)",
    "3f49326eb077187dfe1c2a2bb15fbd74e6ab91e3",
    35.1e9,
)
_register(
    "dinov2",
    "facebook/dinov2-base",
    "pooled [CLS], d = 768",
    "f9e44c814b77203eaa57a6bdbbd535f21ede1415",
    46.3e9,
)
_register(
    "clip",
    "openai/clip-vit-base-patch32",
    "projected image embedding, d = 512",
    "3d74acf9a28c67741b2f4f2ea7635f0aaf6f0268",
    8.8e9,
)


def is_transformers(folder: Path) -> bool:
    """Return whether a folder's model was saved by transformers, not timm."""
    config = read_json(folder / "config.json")
    return "model_type" in config and "architecture" not in config


def require_repository(name: str, revision: str | None) -> None:
    """Raise MissingEncoderError if a repository's configuration is neither cached nor downloadable."""
    import transformers

    try:
        transformers.AutoConfig.from_pretrained(name, revision=revision)
    except OSError as error:
        raise _make_missing_error(name, revision) from error


def load_transformers_encoder(name: str, revision: str | None, device: str) -> Encoder:
    """Load an encoder from a repository on the Hugging Face Hub, or from a folder.

    Raises MissingEncoderError if a file is missing, and ValueError for a model that is incomplete,
    has no pooled image features, or resizes with an unsupported filter.
    """
    import transformers

    try:
        type_name = _read_model_type(name, revision)
        model_type = MODEL_TYPES.get(type_name)
        if model_type is None:
            return _load_pooled_encoder(name, type_name, revision, device)
        model_class = getattr(transformers, model_type.class_name)
        model, _ = _load_model(model_class, name, revision, **model_type.arguments)
        processor = transformers.AutoImageProcessor.from_pretrained(name, revision=revision)
    except OSError as error:
        raise _make_missing_error(name, revision) from error
    preprocess = make_preprocess(processor.to_dict())
    model.eval().to(device)
    return lambda images: model_type.get_features(model(pixel_values=preprocess(images)))


def _read_model_type(name: str, revision: str | None) -> str:
    """Read a model's type from its configuration. Raises ValueError for an unknown type."""
    import transformers

    try:
        config = transformers.AutoConfig.from_pretrained(name, revision=revision)
    except ValueError as error:
        raise ValueError(f"{name}: {error}; {SUPPORTED}") from error
    return str(config.model_type)


def _load_model(
    model_class: Any, name: str, revision: str | None, **arguments: Any
) -> tuple[Any, list[str]]:
    """Load a model, and list the weights of its pooler that are missing. Others must not be.

    Raises ValueError if another weight is missing: it would be random, and so would be the keys.
    """
    model, loading_info = model_class.from_pretrained(
        name, revision=revision, output_loading_info=True, **arguments
    )
    missing_weights = sorted(loading_info["missing_keys"])
    needed_weights = [weight for weight in missing_weights if not weight.startswith("pooler.")]
    if needed_weights:
        raise ValueError(
            f"{name}: {len(needed_weights)} of the model's weights are missing, e.g."
            f" {needed_weights[0]}, so its features would be random; save the complete model again"
        )
    return model, missing_weights


def _load_pooled_encoder(name: str, model_type: str, revision: str | None, device: str) -> Encoder:
    """Load a model of any type that returns one vector per picture. Raises ValueError."""
    import torch
    import transformers

    processor = transformers.AutoImageProcessor.from_pretrained(name, revision=revision)
    model, missing_weights = _load_model(transformers.AutoModel, name, revision)
    model.eval().to(device)

    def encode(images: "Tensor") -> "Tensor":
        inputs = processor(images=list(images), do_rescale=False, return_tensors="pt").to(device)
        if hasattr(model, "get_image_features"):  # a model of images and text, such as SigLIP
            output = model.get_image_features(**inputs)
            if isinstance(output, torch.Tensor):
                return output
            return output.pooler_output
        output = model(**inputs)
        if missing_weights:
            # The pooler was not saved and is random, so take the first token, [CLS], as for vit-b16.
            pooled_output = output.last_hidden_state[:, 0]
        else:
            pooled_output = output.pooler_output
        return pooled_output.flatten(1)  # ConvNeXt returns (B, d, 1, 1)

    # Encode two blank pictures, to reject unsupported models now and not after hours.
    try:
        with torch.no_grad():
            features = encode(torch.zeros(2, 3, 64, 64, device=device))
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise _make_unsupported_error(name, model_type, reason) from error
    if features.ndim != 2 or len(features) != 2:
        reason = f"for 2 pictures, its output has shape {tuple(features.shape)}"
        raise _make_unsupported_error(name, model_type, reason)
    return encode


def _make_unsupported_error(name: str, model_type: str, reason: str) -> ValueError:
    return ValueError(
        f"{name}: a model of type {model_type} has no pooled image features ({reason}); {SUPPORTED}"
    )


def _make_missing_error(name: str, revision: str | None) -> MissingEncoderError:
    """Make the error for a missing encoder, which says how to copy it from a machine with Internet."""
    folder = f"encoders/{name.rsplit('/', maxsplit=1)[-1]}"
    pinned = f" --revision {revision}" if revision else ""
    return MissingEncoderError(
        f"the encoder {name} is not in the local cache and cannot be downloaded. On a machine with Internet access,"
        f" run `hf download {name}{pinned} --local-dir {folder}`, copy that folder here, and set"
        f" keys.encoder: {folder}"
    )


def make_preprocess(config: Mapping[str, Any]) -> Preprocess:
    """Make the preprocessing from an image processor's configuration.

    Raises ValueError for a resampling filter that torchvision does not apply to tensors.
    """
    from PIL.Image import Resampling

    # Pillow numbers its resampling filters, and the configuration contains the number.
    # torchvision names them instead.
    torchvision_names = {
        Resampling.NEAREST: "nearest",
        Resampling.BILINEAR: "bilinear",
        Resampling.BICUBIC: "bicubic",
    }
    resampling = Resampling(config.get("resample", Resampling.BILINEAR))
    if resampling not in torchvision_names:
        supported = ", ".join(torchvision_names.values())
        raise ValueError(
            f"the encoder's image processor resizes with the filter {resampling.name.lower()}, but"
            f" only {supported} are supported; choose another encoder"
        )
    resize: int | PixelSize | None = None
    if config.get("do_resize", True):
        size = config.get("size") or {}
        if size.get("height"):
            resize = PixelSize(size["height"], size["width"])
        else:
            resize = size.get("shortest_edge")
    crop = None
    if config.get("do_center_crop") and config.get("crop_size"):
        crop = PixelSize(config["crop_size"]["height"], config["crop_size"]["width"])
    if config.get("do_normalize", True):
        mean = list(config["image_mean"])
        std = list(config["image_std"])
    else:
        mean = [0.0] * 3
        std = [1.0] * 3
    return Preprocess(
        resize=resize,
        crop=crop,
        mean=mean,
        std=std,
        interpolation=torchvision_names[resampling],
    )
