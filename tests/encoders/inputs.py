"""Settings of encoders and tiny ones that the tests share."""

from munkey.settings import EncoderSettings


def settings(encoder, image_size=None, revision=None) -> EncoderSettings:
    return EncoderSettings(
        encoder=str(encoder), revision=revision, image_size=image_size, batch_size=64
    )


# Of google/vit-base-patch16-224, as its folder on the hub has them.
PAPERS_CONFIG = {
    "architectures": ["ViTForImageClassification"],
    "model_type": "vit",
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "patch_size": 16,
    "image_size": 224,
    "id2label": {str(number): f"name {number}" for number in range(1000)} | {"285": "Egyptian cat"},
}
PAPERS_PROCESSOR = {
    "do_normalize": True,
    "do_resize": True,
    "image_mean": [0.5, 0.5, 0.5],
    "image_std": [0.5, 0.5, 0.5],
    "size": 224,
}

SMALL = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "patch_size": 8,
}


def without(name):
    """The small sizes without one that a class does not have."""
    sizes = dict(SMALL)
    del sizes[name]
    return sizes


def tiny(family):
    """A random model of a real class, its image processor, and how the paper takes the feature from it."""
    import torch
    import transformers

    torch.manual_seed(0)
    exact = {"size": {"height": 32, "width": 32}}
    if family == "vit":
        model = transformers.ViTForImageClassification(
            transformers.ViTConfig(image_size=32, num_labels=5, **SMALL)
        )
        processor = transformers.ViTImageProcessor(
            **exact, image_mean=[0.5] * 3, image_std=[0.5] * 3
        )
        return model, processor, lambda x: model.vit(pixel_values=x).last_hidden_state[:, 0]
    if family == "dinov2":
        config = transformers.Dinov2Config(image_size=32, **without("intermediate_size"))
        model = transformers.Dinov2Model(config)
        processor = transformers.BitImageProcessor(
            size={"shortest_edge": 40},
            crop_size={"height": 32, "width": 32},
            resample=3,
            do_center_crop=True,
        )
        return model, processor, lambda x: model(pixel_values=x).pooler_output
    vision = transformers.CLIPVisionConfig(image_size=32, projection_dim=12, **SMALL)
    text = transformers.CLIPTextConfig(
        vocab_size=20, hidden_size=16, num_hidden_layers=1, num_attention_heads=2
    )
    config = transformers.CLIPConfig(
        text_config=text.to_dict(), vision_config=vision.to_dict(), projection_dim=12
    )
    model = transformers.CLIPModel(config)
    processor = transformers.CLIPImageProcessor(
        size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32}
    )
    vision_model = model.vision_model
    project = model.visual_projection
    return model, processor, lambda x: project(vision_model(pixel_values=x).pooler_output)


OTHER_TYPES = (
    "dinov2_with_registers",
    "dinov3_vit",
    "siglip",
    "siglip_vision_model",
    "convnext",
    "deit",
)


def tiny_of_type(model_type):
    """A random model of transformers of a type that has no class of ours, its image processor, and its features."""
    import torch
    import transformers

    torch.manual_seed(0)
    sides = {"size": {"height": 32, "width": 32}}
    processor = transformers.ViTImageProcessor(**sides, resample=3)
    if model_type == "dinov2_with_registers":
        config = transformers.Dinov2WithRegistersConfig(
            image_size=32, num_register_tokens=2, **without("intermediate_size")
        )
        model = transformers.Dinov2WithRegistersModel(config)
    elif model_type == "dinov3_vit":
        model = transformers.DINOv3ViTModel(
            transformers.DINOv3ViTConfig(image_size=32, num_register_tokens=2, **SMALL)
        )
        processor = transformers.DINOv3ViTImageProcessor(**sides)
    elif model_type == "siglip":
        vision = transformers.SiglipVisionConfig(image_size=32, **SMALL).to_dict()
        text = transformers.SiglipTextConfig(
            vocab_size=20, max_position_embeddings=8, **without("patch_size")
        ).to_dict()
        model = transformers.SiglipModel(
            transformers.SiglipConfig(text_config=text, vision_config=vision)
        )
        processor = transformers.SiglipImageProcessor(**sides)
        return (
            model,
            processor,
            lambda pixels: model.vision_model(pixel_values=pixels).pooler_output,
        )
    elif model_type == "siglip_vision_model":
        model = transformers.SiglipVisionModel(
            transformers.SiglipVisionConfig(image_size=32, **SMALL)
        )
        processor = transformers.SiglipImageProcessor(**sides)
    elif model_type == "convnext":
        config = transformers.ConvNextConfig(hidden_sizes=[8, 8, 8, 16], depths=[1, 1, 1, 1])
        model = transformers.ConvNextModel(config)
        processor = transformers.ConvNextImageProcessor(size={"shortest_edge": 32}, crop_pct=0.875)
    else:  # its pooler is not saved
        config = transformers.DeiTConfig(image_size=32, **SMALL)
        model = transformers.DeiTModel(config, add_pooling_layer=False)
        return model, processor, lambda pixels: model(pixel_values=pixels).last_hidden_state[:, 0]
    return model, processor, lambda pixels: model(pixel_values=pixels).pooler_output
