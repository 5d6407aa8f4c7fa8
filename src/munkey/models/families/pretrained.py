"""Any pretrained timm model with a new head, fine-tuned on the data set."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

from pydantic import Field

from munkey.encoders.embedded import PACKAGED
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

    from munkey.models.networks.backbone import BackboneArchitecture


class PretrainedSettings(Section):
    """The section `pretrained` of params.yaml."""

    model: UserPath
    image_size: Pixels | None
    frozen: Annotated[int, Field(ge=0, le=1000)]
    epochs: Count
    lr: Positive

    @property
    def timm_name(self) -> str:
        """The model's name for `timm.create_model`."""
        if self.model in PACKAGED:
            return f"tf_efficientnet_lite{PACKAGED[self.model]}"
        if self.model.startswith("timm:"):
            return self.model.removeprefix("timm:")
        if "/" in self.model:
            return f"local-dir:{self.model}"
        return self.model


@family
class PretrainedFamily(BackboneFamily[PretrainedSettings]):
    name = "pretrained"
    title = "Pretrained"
    letter = "p"
    settings = PretrainedSettings

    def adapt_train_settings(
        self, train: TrainSettings, section: PretrainedSettings
    ) -> TrainSettings:
        return train.model_copy(update={"epochs": section.epochs, "lr": section.lr})

    def identify_weights(self, section: PretrainedSettings) -> str | None:
        from munkey.encoders.registry import find

        # The registry of encoders, which includes timm models, can identify weights.
        settings = EncoderSettings(
            encoder=section.model, revision=None, image_size=None, batch_size=1
        )
        return find(section.model).weights(settings)

    def make_architecture(
        self, recipe: Recipe[PretrainedSettings], classes: int, key_dim: int | None = None
    ) -> BackboneArchitecture:
        """Return the architecture of the model in the settings, from timm or from a folder."""
        from timm.data.config import resolve_data_config
        from timm.models import get_pretrained_cfg

        settings = recipe.family
        data = recipe.data
        name = settings.timm_name
        arguments: dict[str, object] = {}
        if name.startswith("local-dir:"):
            config = json.loads((Path(settings.model) / "config.json").read_text())
            name = config["architecture"]
            pretrained_config = config["pretrained_cfg"]
            arguments.update(config.get("model_args", {}))
            arguments.pop("num_classes", None)
        else:
            pretrained_config = cast("PretrainedCfg", get_pretrained_cfg(name)).to_dict()
        image_size = settings.image_size or data.image_size
        if pretrained_config.get("fixed_input_size"):
            arguments["img_size"] = image_size
        # The section `data` normalizes the input: x = (p - mean_data) / std_data. The model was
        # pretrained on (p - mean) / std = x * std_data / std + (mean_data - mean) / std.
        normalization = resolve_data_config({}, pretrained_cfg=pretrained_config)
        scale = []
        shift = []
        for mean, std in zip(normalization["mean"], normalization["std"], strict=True):
            scale.append(data.pixel_std / std)
            shift.append((data.pixel_mean - mean) / std)
        return self.describe_backbone(
            classes,
            name,
            arguments,
            image_size,
            scale=scale,
            shift=shift,
            frozen=settings.frozen,
        )

    def prepare_weights(
        self, model: nn.Module, architecture: Architecture, recipe: Recipe[PretrainedSettings]
    ) -> None:
        """Load the pretrained weights of everything except the head."""
        from munkey.encoders.embedded import load_packaged
        from munkey.encoders.timm_models import load_timm
        from munkey.models.networks.backbone import Backbone, BackboneArchitecture

        assert isinstance(model, Backbone) and isinstance(architecture, BackboneArchitecture)
        settings = recipe.family
        arguments = {}
        if "img_size" in architecture.arguments:
            arguments["img_size"] = architecture.arguments["img_size"]
        if settings.model in PACKAGED:
            pretrained_model = load_packaged(PACKAGED[settings.model])
        else:
            pretrained_model = load_timm(settings.timm_name, "pretrained.model", **arguments)
        model.body.load_state_dict(pretrained_model.state_dict())
