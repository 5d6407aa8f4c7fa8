"""The plain ViT (app. B.3), from which post-hoc methods start."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from munkey.models.family import (
    Architecture,
    Family,
    Learner,
    Recipe,
    Retrieval,
    Settings,
    System,
    Training,
    TrainingResult,
    family,
)
from munkey.settings import DataSettings

if TYPE_CHECKING:
    import numpy as np
    import torch
    from torch import Tensor, nn

    from munkey.data.image_set import ImageSet
    from munkey.models.networks.vit import ViTArchitecture


@family
class ViTFamily(Family[Settings]):
    name = "vit"
    title = "ViT"
    letter = "t"
    is_network = True
    has_features = True
    place = 0

    def get_network(self) -> tuple[type[ViTArchitecture], Callable[..., nn.Module]]:
        """Return the class of the family's architectures, and a callable that makes a network."""
        from munkey.models.networks.vit import ViT, ViTArchitecture

        return ViTArchitecture, ViT

    def make_architecture(
        self, recipe: Recipe[Settings], classes: int, key_dim: int | None = None
    ) -> Architecture:
        assert recipe.model is not None, "the recipe has no section `model`"
        fields = {"classes": classes, "image_size": recipe.data.image_size}
        fields |= recipe.model.model_dump()
        if recipe.family is not None:
            fields |= recipe.family.model_dump()
        return self.restore_architecture(fields)

    def restore_architecture(self, fields: Mapping[str, object]) -> Architecture:
        architecture_class, _ = self.get_network()
        # The fields were validated when the system was created.
        return architecture_class(**fields)  # type: ignore[arg-type]

    def build(self, architecture: Architecture, generator: torch.Generator | None) -> nn.Module:
        from munkey.models.networks.vit import build_on_cpu

        _, make_network = self.get_network()
        return build_on_cpu(lambda: make_network(architecture), generator)

    def train(self, training: Training[Settings]) -> TrainingResult:
        from munkey.models.forward import compile_forward, supervise

        architecture = self.make_architecture(training.recipe, training.classes)
        model = self.build(architecture, (training.recipe.stage / "weights").torch_generator())
        self.prepare_weights(model, architecture, training.recipe)
        model.to(training.device).train()
        system = System(self.name, architecture, model)
        forward = compile_forward(model, training.recipe.train)
        learner = self.make_learner(system, forward, training)
        return supervise(learner, training)

    def prepare_weights(
        self, model: nn.Module, architecture: Architecture, recipe: Recipe[Settings]
    ) -> None:
        """Change the initial weights before training, for example to pretrained weights.

        By default, does nothing.
        """

    def make_learner(
        self, system: System, forward: Callable[..., Tensor], training: Training[Settings]
    ) -> Learner:
        """Return a learner of the system.

        Parameters
        ----------
        forward
            The forward pass of the system's model, which may be compiled.
        """
        return Learner(system, lambda images, _: forward(images))

    def predict_logits(
        self,
        system: System,
        samples: ImageSet,
        data: DataSettings,
        device: str,
        retrieval: Retrieval | None,
    ) -> np.ndarray:
        from munkey.models.forward import predict_from_images

        return predict_from_images(system, samples, data, device)

    def extract_image_features(
        self, system: System, samples: ImageSet, data: DataSettings, device: str
    ) -> np.ndarray:
        from munkey.models.forward import iterate_blocks, read_head_inputs

        model = system.require_model()
        blocks = iterate_blocks(samples, data, device)
        return read_head_inputs(model, blocks, lambda block: model(block.images))
