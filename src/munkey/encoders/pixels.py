"""Pixels as a key: no network, so no data has trained it."""

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
    """Build the encoder that scales a picture down and returns its pixels."""
    import torch
    from torch.nn.functional import adaptive_avg_pool2d

    side = settings.image_size
    assert side is not None

    def encode(images: torch.Tensor) -> torch.Tensor:
        # Each pixel is the mean of its area. A picture that is smaller has its pixels repeated.
        area_means = adaptive_avg_pool2d(images.float(), side)
        # From 1 to 256: at 0, a black picture would have a key of zeros, without a direction.
        return (255 * area_means).round().flatten(1) + 1

    return encode
