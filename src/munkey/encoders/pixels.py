"""Pixels as keys, without a pretrained network."""

from munkey.encoders.registry import Encoder, encoder
from munkey.settings import EncoderSettings


@encoder(
    "pixels",
    "the image itself at keys.image_size, e.g. 8 or 16: red, green and blue from 1 to 256, d = 3 side²",
    size="free",
    weights=lambda settings: None,
    operations=lambda settings: 0.0,
)
def pixels(settings: EncoderSettings, device: str) -> Encoder:
    """Build the encoder that downscales a picture and returns its pixels."""
    import torch
    from torch.nn.functional import adaptive_avg_pool2d

    side = settings.image_size
    assert side is not None, "the encoder pixels needs keys.image_size"

    def encode(images: torch.Tensor) -> torch.Tensor:
        # Each pixel of the result is the mean of its area. Smaller pictures have pixels repeated.
        area_means = adaptive_avg_pool2d(images.float(), side)
        # Add 1, because the key of a black picture would otherwise be zero and have no direction.
        return (255 * area_means).round().flatten(1) + 1

    return encode
