"""Any model of timm with its pretrained weights and a fresh head, fine-tuned on the data set."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

from pydantic import Field

from munkey.models.families.resnet18 import BackboneFamily
from munkey.models.family import Architecture, Recipe, family
from munkey.settings import (
    Count,
    EncoderSettings,
    Pixels,
    Positive,
    Section,
    TrainSettings,
    UserPath,
)

if TYPE_CHECKING:
    from timm.models import PretrainedCfg
    from torch import nn

    from munkey.models.networks.backbone import Backbone, BackboneArchitecture


class PretrainedSettings(Section):
    """model: timm:NAME, or a folder with a saved model of timm. image_size: of its input; None: as `data` has it.

    frozen: layers, counted from the input, that do not train. epochs, lr: in place of those of `train`.
    """

    model: UserPath
    image_size: Pixels | None
    frozen: Annotated[int, Field(ge=0, le=1000)]
    epochs: Count
    lr: Positive

    @property
    def of_timm(self) -> str:
        """As timm wants to be asked for it."""
        name = self.model.removeprefix("timm:")
        return f"local-dir:{self.model}" if "/" in self.model and name == self.model else name


@family
class PretrainedFamily(BackboneFamily[PretrainedSettings]):
    name = "pretrained"
    title = "Pretrained"
    letter = "p"
    settings = PretrainedSettings

    def training(self, train: TrainSettings, own: PretrainedSettings) -> TrainSettings:
        return train.model_copy(update={"epochs": own.epochs, "lr": own.lr})

    def weights(self, own: PretrainedSettings) -> str | None:
        from munkey.encoders.registry import find

        return find(own.model).weights(
            EncoderSettings(encoder=own.model, revision=None, image_size=None, batch_size=1)
        )

    def architecture(
        self, recipe: Recipe[PretrainedSettings], classes: int, key_dim: int | None = None
    ) -> BackboneArchitecture:
        from timm.data.config import resolve_data_config
        from timm.models import get_pretrained_cfg

        settings, data = recipe.family, recipe.data
        name, arguments = settings.of_timm, dict[str, object]()
        if name.startswith("local-dir:"):
            config = json.loads((Path(settings.model) / "config.json").read_text())
            name, published = config["architecture"], config["pretrained_cfg"]
            arguments = {
                key: value
                for key, value in config.get("model_args", {}).items()
                if key != "num_classes"
            }
        else:
            published = cast("PretrainedCfg", get_pretrained_cfg(name)).to_dict()
        size, own = (
            settings.image_size or data.image_size,
            resolve_data_config({}, pretrained_cfg=published),
        )
        if published.get("fixed_input_size"):
            arguments = arguments | {"img_size": size}
        pairs = list(zip(own["mean"], own["std"], strict=True))
        scale = [data.pixel_std / std for _, std in pairs]
        shift = [(data.pixel_mean - mean) / std for mean, std in pairs]
        frozen = settings.frozen
        return self.backbone(
            classes, name, arguments, size, scale=scale, shift=shift, frozen=frozen
        )

    def start(
        self, model: nn.Module, architecture: Architecture, recipe: Recipe[PretrainedSettings]
    ) -> None:
        """Load the pretrained weights; the head stays fresh."""
        from munkey.encoders.timm_models import published

        network = cast("Backbone", model)
        given = cast("BackboneArchitecture", architecture).arguments
        size = {name: given[name] for name in ("img_size",) if name in given}
        network.body.load_state_dict(
            published(recipe.family.of_timm, "pretrained.model", **size).state_dict()
        )
