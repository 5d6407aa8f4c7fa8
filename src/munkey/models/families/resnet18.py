"""ResNet-18 (He et al. 2016), trained from scratch as in most of the literature."""

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

MAX_SMALL_SIZE = 64  # the small stem is used for images with sides of at most this many pixels


class ResNet18Settings(Section):
    """The section `resnet18` of params.yaml."""

    width: Width


class BackboneFamily(ViTFamily[Settings]):
    """A timm model, pretrained or from scratch."""

    @property
    def sections(self) -> list[str]:
        return ["data", "train", self.name]

    def describe_backbone(
        self,
        classes: int,
        name: str,
        arguments: Mapping[str, object],
        image_size: int,
        **other_fields: object,
    ) -> BackboneArchitecture:
        """Return an architecture. By default, it does not rescale pixels or freeze any layer."""
        fields = {
            "classes": classes,
            "name": name,
            "arguments": arguments,
            "image_size": image_size,
            "small_stem": False,
            "scale": [1.0, 1.0, 1.0],
            "shift": [0.0, 0.0, 0.0],
            "frozen": 0,
        }
        return self.restore_architecture(fields | other_fields)

    def restore_architecture(self, fields: Mapping[str, object]) -> BackboneArchitecture:
        from munkey.models.networks.backbone import BackboneArchitecture

        # The fields were validated when the system was created.
        return BackboneArchitecture(**fields)  # type: ignore[arg-type]

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
        image_size = recipe.data.image_size
        channels = [recipe.family.width * 2**stage for stage in range(4)]
        return self.describe_backbone(
            classes,
            "resnet18",
            arguments={"channels": channels, "zero_init_last": False},
            image_size=image_size,
            small_stem=image_size <= MAX_SMALL_SIZE,
        )
