"""A network of timm with a head of its own: ResNet-18, or any model that may bring pretrained weights."""

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
    """name, arguments: of timm's model; small_stem: 3 x 3, without pooling, as ResNets have it for small pictures.

    image_size: to which pictures are resized first [px]; scale, shift: of each channel after that; frozen: layers that
    do not train, counted from the input.
    """

    name: str
    arguments: Mapping[str, Any]
    small_stem: bool
    image_size: int
    scale: Sequence[float]
    shift: Sequence[float]
    frozen: int


class Backbone(nn.Module):
    """(B, 3, S, S) -> (B, classes) logits. body: timm's model, headless. Frozen batch norms keep their statistics."""

    scale: Tensor
    shift: Tensor

    def __init__(self, architecture: BackboneArchitecture) -> None:
        super().__init__()
        a = architecture
        self.image_size = a.image_size
        body: Any = timm.create_model(a.name, num_classes=0, **a.arguments)
        if a.small_stem:
            body.conv1 = nn.Conv2d(3, body.conv1.out_channels, 3, padding=1, bias=False)
            nn.init.kaiming_normal_(body.conv1.weight, mode="fan_out", nonlinearity="relu")
            body.maxpool = nn.Identity()
        for module in body.modules():
            if isinstance(module, DropPath):  # some models' default; it would draw from the global generator
                module.drop_prob = 0.0
        layers = list(group_parameters(body, body.group_matcher(coarse=False)).values())
        if a.frozen > len(layers):
            raise ValueError(f"pretrained.frozen = {a.frozen}: {a.name} has {len(layers)} layers")
        for name in (name for layer in layers[: a.frozen] for name in layer):
            body.get_parameter(name).requires_grad_(False)
        self.body, self.head = body, nn.Linear(getattr(body, "head_hidden_size", body.num_features), a.classes)
        for name in ("scale", "shift"):
            self.register_buffer(name, torch.tensor(getattr(a, name)).view(3, 1, 1), persistent=False)

    def train(self, mode: bool = True) -> Self:
        super().train(mode)
        for module in self.body.modules():
            if isinstance(module, nn.modules.batchnorm._BatchNorm) and not module.weight.requires_grad:
                module.eval()
        return self

    def forward(self, images: Tensor) -> Tensor:
        if images.shape[-1] != self.image_size:
            images = F.interpolate(images, size=(self.image_size,) * 2, mode="bilinear", antialias=True)
        return self.head(self.body(images * self.scale + self.shift))


def seeded(architecture: BackboneArchitecture, generator: torch.Generator | None) -> Backbone:
    """A network on the CPU whose weights follow from `generator`; where it is None, from nothing: they are loaded."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(torch.randint(2**62, (), generator=generator)) if generator else 0)
        return Backbone(architecture)
