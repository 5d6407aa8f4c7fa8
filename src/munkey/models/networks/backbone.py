"""A timm model with a new head: ResNet-18 or any other, pretrained or from scratch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import timm
import torch
from timm.layers.drop import DropPath
from timm.models import group_parameters
from torch import Tensor, nn
from torch.nn import functional as F

from munkey.models.family import Architecture


@dataclass(frozen=True)
class BackboneArchitecture(Architecture):
    """The architecture of a timm model with a new head.

    Attributes
    ----------
    name, arguments
        The arguments of `timm.create_model`.
    small_stem
        Whether to replace the stem with a 3 x 3 convolution without pooling, for small images.
    image_size
        The side in pixels to which images are resized first.
    scale, shift
        The factor and offset that are then applied to each channel.
    frozen
        The number of frozen layers, counted from the input.
    """

    name: str
    arguments: Mapping[str, Any]
    small_stem: bool
    image_size: int
    scale: Sequence[float]
    shift: Sequence[float]
    frozen: int


class Backbone(nn.Module):
    """A timm model with a new linear head: (B, 3, S, S) -> (B, classes) logits.

    Frozen batch norms keep their running statistics even in training mode.
    """

    scale: Tensor
    shift: Tensor

    def __init__(self, architecture: BackboneArchitecture) -> None:
        super().__init__()
        self.image_size = architecture.image_size
        # With num_classes=0, timm creates the model without a head.
        body: Any = timm.create_model(architecture.name, num_classes=0, **architecture.arguments)
        if architecture.small_stem:
            body.conv1 = nn.Conv2d(3, body.conv1.out_channels, 3, padding=1, bias=False)
            nn.init.kaiming_normal_(body.conv1.weight, mode="fan_out", nonlinearity="relu")
            body.maxpool = nn.Identity()
        for module in body.modules():
            if isinstance(module, DropPath):
                module.drop_prob = 0.0  # DropPath draws from torch's global generator
        # For each layer, from the input on, the names of its parameters.
        layers = list(group_parameters(body, body.group_matcher(coarse=False)).values())
        if architecture.frozen > len(layers):
            raise ValueError(
                f"pretrained.frozen = {architecture.frozen}: {architecture.name} has only"
                f" {len(layers)} layers"
            )
        for parameter_names in layers[: architecture.frozen]:
            for name in parameter_names:
                body.get_parameter(name).requires_grad_(False)
        self.body = body
        convolutions = [module for module in body.modules() if isinstance(module, nn.Conv2d)]
        self.is_depthwise = any(module.groups > 1 for module in convolutions)
        features = getattr(body, "head_hidden_size", body.num_features)
        self.head = nn.Linear(features, architecture.classes)
        scale = torch.tensor(architecture.scale).view(3, 1, 1)
        shift = torch.tensor(architecture.shift).view(3, 1, 1)
        self.register_buffer("scale", scale, persistent=False)
        self.register_buffer("shift", shift, persistent=False)

    def train(self, mode: bool = True) -> Self:
        super().train(mode)
        for module in self.body.modules():
            is_batch_norm = isinstance(module, nn.modules.batchnorm._BatchNorm)
            if is_batch_norm and not module.weight.requires_grad:
                module.eval()
        return self

    def forward(self, images: Tensor) -> Tensor:
        if images.shape[-1] != self.image_size:
            size = (self.image_size, self.image_size)
            images = F.interpolate(images, size=size, mode="bilinear", antialias=True)
        inputs = images * self.scale + self.shift
        if self.is_depthwise and inputs.device.type == "cpu":
            # A quarter faster: EfficientNet-Lite0 at 96 px, training, one core.
            inputs = inputs.contiguous(memory_format=torch.channels_last)
        return self.head(self.body(inputs))


def create_backbone(
    architecture: BackboneArchitecture, generator: torch.Generator | None
) -> Backbone:
    """Build a network on the CPU, with initial weights from `generator`, if given."""
    with torch.random.fork_rng(devices=[]):  # timm draws from torch's global generator
        if generator is None:
            seed = 0  # any seed, since the weights will be replaced
        else:
            seed = int(torch.randint(2**62, (), generator=generator))
        torch.manual_seed(seed)
        return Backbone(architecture)
