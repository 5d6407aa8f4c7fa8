"""Settings of encoders that their tests share."""

from munkey.settings import EncoderSettings


def settings(encoder, image_size=None, revision=None) -> EncoderSettings:
    return EncoderSettings(encoder=str(encoder), revision=revision, image_size=image_size, batch_size=64)
