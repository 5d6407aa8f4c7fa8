"""Settings of encoders that their tests share."""

from munkey.settings import EncoderSettings


def settings(encoder, image_size=None, revision=None) -> EncoderSettings:
    return EncoderSettings(encoder=str(encoder), revision=revision, image_size=image_size, batch_size=64)


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
