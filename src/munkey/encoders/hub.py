"""The paper's encoders through transformers: ViT-B/16 (its default), DINOv2 and CLIP (app. D.2)."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from munkey.encoders import MissingEncoderError, encoder

if TYPE_CHECKING:
    from munkey.encoders import Encoder
    from munkey.encoders.pretrained import Preprocess
    from munkey.params import KeyParams

VIT = "google/vit-base-patch16-224"
DINO = "facebook/dinov2-base"
CLIP = "openai/clip-vit-base-patch32"
# By config.json's model_type: transformers' class, its extra arguments, and where its output has the image's feature.
FAMILIES: dict[str, tuple[str, dict[str, Any], Callable[[Any], Any]]] = {
    "vit": ("ViTModel", {"add_pooling_layer": False}, lambda out: out.last_hidden_state[:, 0]),
    "dinov2": ("Dinov2Model", {}, lambda out: out.pooler_output),
    "clip": ("CLIPVisionModelWithProjection", {}, lambda out: out.image_embeds),
    "clip_vision_model": ("CLIPVisionModelWithProjection", {}, lambda out: out.image_embeds),
}


@encoder(
    "vit-b16",
    f"{VIT}, final [CLS] before the classifier, d = 768 (the paper's)",
    size="own",
    revision="3f49326eb077187dfe1c2a2bb15fbd74e6ab91e3",
)
def vit_b16(settings: "KeyParams", device: str) -> "Encoder":
    return from_transformers(VIT, settings.revision, device)


@encoder("dinov2", f"{DINO}, pooled [CLS], d = 768", size="own", revision="f9e44c814b77203eaa57a6bdbbd535f21ede1415")
def dinov2(settings: "KeyParams", device: str) -> "Encoder":
    return from_transformers(DINO, settings.revision, device)


@encoder(
    "clip",
    f"{CLIP}, projected image embedding, d = 512",
    size="own",
    revision="3d74acf9a28c67741b2f4f2ea7635f0aaf6f0268",
)
def clip(settings: "KeyParams", device: str) -> "Encoder":
    return from_transformers(CLIP, settings.revision, device)


def is_transformers(folder: Path) -> bool:
    """Whether a folder holds a saved transformers model of a family that we know."""
    return json.loads((folder / "config.json").read_text()).get("model_type") in FAMILIES


def from_transformers(name: str, revision: str | None, device: str) -> "Encoder":
    """name: a hub repository, or a folder with a saved model. Raises MissingEncoderError where it is not to be had."""
    import transformers

    try:
        config = transformers.AutoConfig.from_pretrained(name, revision=revision)
        kind, arguments, feature = FAMILIES[config.model_type]
        model = getattr(transformers, kind).from_pretrained(name, revision=revision, **arguments)
        processor = transformers.AutoImageProcessor.from_pretrained(name, revision=revision)
    except OSError as error:
        local = f"encoders/{name.rsplit('/', maxsplit=1)[-1]}"
        pinned = f" --revision {revision}" if revision else ""
        raise MissingEncoderError(
            f"the encoder {name} is neither in the local cache nor to be downloaded from here. On a machine with a"
            f" network run `hf download {name}{pinned} --local-dir {local}`, bring that folder here, and set"
            f" keys.encoder: {local}"
        ) from error
    preprocess = from_processor(processor.to_dict())
    model.eval().to(device)
    return lambda images: feature(model(pixel_values=preprocess(images)))


def from_processor(saved: dict[str, Any]) -> "Preprocess":
    """The preprocessing that an image processor's saved configuration describes."""
    from PIL.Image import Resampling
    from torchvision.transforms import InterpolationMode

    from munkey.encoders.pretrained import Preprocess

    size, crop = dict(saved.get("size") or {}), dict(saved.get("crop_size") or {})
    resized = saved.get("do_resize", True)
    names = {Resampling.NEAREST: "nearest", Resampling.BILINEAR: "bilinear", Resampling.BICUBIC: "bicubic"}
    interpolation = InterpolationMode(names[Resampling(saved.get("resample", Resampling.BILINEAR))])
    return Preprocess(
        edge=size.get("shortest_edge") if resized else None,
        exact=(size["height"], size["width"]) if resized and size.get("height") else None,
        crop=(crop["height"], crop["width"]) if saved.get("do_center_crop") and crop else None,
        mean=list(saved["image_mean"]) if saved.get("do_normalize", True) else [0.0] * 3,
        std=list(saved["image_std"]) if saved.get("do_normalize", True) else [1.0] * 3,
        interpolation=interpolation.value,
    )
