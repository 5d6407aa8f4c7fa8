"""ResNet-18 (He et al. 2016) from scratch, the most common network in the literature."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from munkey.models.families.vit import ViTFamily
from munkey.models.family import Architecture, Recipe, Settings, family
from munkey.settings import Section, Width

if TYPE_CHECKING:
    import torch
    from torch import nn

    from munkey.models.networks.backbone import BackboneArchitecture

MAX_SMALL_SIDE = 64  # largest side [px] of images that use the stem for small images


class ResNet18Settings(Section):
    """The family's section of params.yaml.

    Attributes
    ----------
    width
        The number of channels in the first stage. Each later stage doubles it.
    """

    width: Width


class BackboneFamily(ViTFamily[Settings]):
    """A timm network with random or pretrained weights."""

    @property
    def sections(self) -> list[str]:
        return ["data", "train", self.name]

    def describe_backbone(
        self, classes: int, name: str, arguments: Mapping[str, object], size: int, **more: object
    ) -> BackboneArchitecture:
        """Make an architecture. By default, pixels are not rescaled, and all layers are trained."""
        fields = {
            "classes": classes,
            "name": name,
            "arguments": arguments,
            "image_size": size,
            "small_stem": False,
            "scale": [1.0, 1.0, 1.0],
            "shift": [0.0, 0.0, 0.0],
            "frozen": 0,
        }
        return self.restore_architecture(fields | more)

    def restore_architecture(self, stored: Mapping[str, object]) -> BackboneArchitecture:
        from munkey.models.networks.backbone import BackboneArchitecture

        return BackboneArchitecture(**stored)  # type: ignore[arg-type]  # checked when it was made

    def build(self, architecture: Architecture, generator: torch.Generator | None) -> nn.Module:
        from munkey.models.networks.backbone import BackboneArchitecture, create_backbone

        assert isinstance(architecture, BackboneArchitecture)
        return create_backbone(architecture, generator)


@family
class ResNet18Family(BackboneFamily[ResNet18Settings]):
    name = "resnet18"
    title = "ResNet-18"
    letter = "r"
    settings = ResNet18Settings

    def make_architecture(
        self, recipe: Recipe[ResNet18Settings], classes: int, key_dim: int | None = None
    ) -> BackboneArchitecture:
        size = recipe.data.image_size
        width = recipe.family.width
        arguments = {"channels": [width * 2**stage for stage in range(4)], "zero_init_last": False}
        has_small_stem = size <= MAX_SMALL_SIDE
        return self.describe_backbone(
            classes, "resnet18", arguments, size, small_stem=has_small_stem
        )
