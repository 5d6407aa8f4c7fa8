"""The paper's encoders through transformers: ViT-B/16 (its default), DINOv2 and CLIP (app. D.2).

A saved model of another type answers with its own pooled features, behind its own image processor.
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
    """How transformers loads a type of model: class and extra arguments; and its feature of an image in the output."""

    class_name: str
    arguments: Mapping[str, bool]
    feature: "Callable[[Any], Tensor]"  # of transformers' output objects, which have no types


_CLIP = ModelType("CLIPVisionModelWithProjection", {}, lambda output: output.image_embeds)
# The paper's, by config.json's model_type. How a feature is taken from others: `_pooled_encoder`.
MODEL_TYPES = {
    "vit": ModelType(
        "ViTModel", {"add_pooling_layer": False}, lambda output: output.last_hidden_state[:, 0]
    ),
    "dinov2": ModelType("Dinov2Model", {}, lambda output: output.pooler_output),
    "clip": _CLIP,
    "clip_vision_model": _CLIP,
}


SUPPORTED = (
    "an encoder's folder holds a vision model of transformers with a pooled output (ViT, DINOv2 and DINOv3, CLIP,"
    " SigLIP, ConvNeXt, ...), or a model that timm saved (docs/encoders.md)"
)


def _register(name: str, hub: str, feature: str, revision: str, operations: float) -> None:
    """Register the encoder of a repository on the hub. feature: its output, for the table of encoders.

    operations: of one picture, by torch's count.
    """

    @encoder(
        name,
        f"{hub}, {feature}",
        size="own",
        revision=revision,
        hub=hub,
        operations=lambda settings: operations,
    )
    def build(settings: EncoderSettings, device: str) -> Encoder:
        return from_transformers(hub, settings.revision, device)


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
    """Whether a folder holds a model that transformers saved, not timm."""
    config = read_json(folder / "config.json")
    return "model_type" in config and "architecture" not in config


def look_up(name: str, revision: str | None) -> None:
    """Raise MissingEncoderError if a repository is neither in the local cache nor on a hub that answers.

    Asks for its configuration alone, not for the weights.
    """
    import transformers

    try:
        transformers.AutoConfig.from_pretrained(name, revision=revision)
    except OSError as error:
        raise _missing_error(name, revision) from error


def from_transformers(name: str, revision: str | None, device: str) -> Encoder:
    """name: a hub repository, or a folder with a saved model. Raises MissingEncoderError if it cannot be loaded."""
    import transformers

    try:
        try:
            config = transformers.AutoConfig.from_pretrained(name, revision=revision)
        except ValueError as error:  # of a type that this version does not have
            raise ValueError(f"{name}: {error}; {SUPPORTED}") from error
        kind = MODEL_TYPES.get(config.model_type)
        if kind is None:
            return _pooled_encoder(name, config.model_type, revision, device)
        model = getattr(transformers, kind.class_name).from_pretrained(
            name, revision=revision, **kind.arguments
        )
        processor = transformers.AutoImageProcessor.from_pretrained(name, revision=revision)
    except OSError as error:
        raise _missing_error(name, revision) from error
    preprocess = from_processor(processor.to_dict())
    model.eval().to(device)
    return lambda images: kind.feature(model(pixel_values=preprocess(images)))


def _pooled_encoder(name: str, model_type: str, revision: str | None, device: str) -> Encoder:
    """A model of any type that answers pictures with one vector each: DINOv3, SigLIP, ConvNeXt, ..."""
    import torch
    import transformers

    processor = transformers.AutoImageProcessor.from_pretrained(name, revision=revision)
    model, loading = transformers.AutoModel.from_pretrained(
        name, revision=revision, output_loading_info=True
    )
    missing = sorted(loading["missing_keys"])
    missing_elsewhere = [key for key in missing if not key.startswith("pooler.")]
    if missing_elsewhere:
        raise ValueError(
            f"{name}: {len(missing_elsewhere)} of the model's weights are not there, e.g. {missing_elsewhere[0]}, so"
            " its features would be random; save the whole model there again"
        )
    model.eval().to(device)

    def encode(images: "Tensor") -> "Tensor":
        inputs = processor(images=list(images), do_rescale=False, return_tensors="pt").to(device)
        if hasattr(model, "get_image_features"):  # beside a model of text, as in SigLIP
            output = model.get_image_features(**inputs)
            return output if isinstance(output, torch.Tensor) else output.pooler_output
        output = model(**inputs)
        # A pooler that was not saved would be random: then the first token, [CLS], as for vit-b16.
        pooled = output.last_hidden_state[:, 0] if missing else output.pooler_output
        return pooled.flatten(1)  # ConvNeXt keeps sides of 1 pixel

    try:
        with torch.no_grad():
            features = encode(torch.zeros(2, 3, 64, 64, device=device))
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"{_unsupported_message(name, model_type)} ({type(error).__name__}: {error})"
        ) from error
    if features.ndim != 2 or len(features) != 2:
        raise ValueError(
            f"{_unsupported_message(name, model_type)} (it answers 2 pictures with {tuple(features.shape)})"
        )
    return encode


def _unsupported_message(name: str, model_type: str) -> str:
    return (
        f"{name}: a model of type {model_type} gives no pooled features of a picture; {SUPPORTED}"
    )


def _missing_error(name: str, revision: str | None) -> MissingEncoderError:
    folder = f"encoders/{name.rsplit('/', maxsplit=1)[-1]}"
    pinned = f" --revision {revision}" if revision else ""
    return MissingEncoderError(
        f"the encoder {name} is not in the local cache and cannot be downloaded from here. On a machine with a network"
        f" run `hf download {name}{pinned} --local-dir {folder}`, bring that folder here, and set"
        f" keys.encoder: {folder}"
    )


def from_processor(saved: Mapping[str, Any]) -> Preprocess:
    """The preprocessing that an image processor's saved configuration describes."""
    from PIL.Image import Resampling

    # The configuration has Pillow's number of the resampling, torchvision its name.
    names = {
        Resampling.NEAREST: "nearest",
        Resampling.BILINEAR: "bilinear",
        Resampling.BICUBIC: "bicubic",
    }
    size = saved.get("size") or {}
    crop = saved.get("crop_size") or {}
    resize = (
        PixelSize(size["height"], size["width"])
        if size.get("height")
        else size.get("shortest_edge")
    )
    mean = [0.0] * 3
    std = [1.0] * 3
    if saved.get("do_normalize", True):
        mean = list(saved["image_mean"])
        std = list(saved["image_std"])
    return Preprocess(
        resize=resize if saved.get("do_resize", True) else None,
        crop=PixelSize(crop["height"], crop["width"])
        if saved.get("do_center_crop") and crop
        else None,
        mean=mean,
        std=std,
        interpolation=names[Resampling(saved.get("resample", Resampling.BILINEAR))],
    )
