"""Example-tied dropout (Maini et al. 2023): a ViT in which some channels belong to samples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from munkey.core.device import to_device
from munkey.models.families.vit import ViTFamily
from munkey.models.family import Learner, System, Training, family
from munkey.settings import Rate, Section

if TYPE_CHECKING:
    from torch import Tensor, nn

    from munkey.models.networks.example_tied import ExampleTiedArchitecture


class ExampleTiedSettings(Section):
    """The section `example-tied-dropout` of params.yaml."""

    p_fixed: Rate
    p_mem: Rate


@family
class ExampleTiedFamily(ViTFamily[ExampleTiedSettings]):
    name = "example-tied-dropout"
    title = "Example-tied dropout"
    letter = "e"
    settings = ExampleTiedSettings
    is_network = False
    place = 2

    def get_network(self) -> tuple[type[ExampleTiedArchitecture], Callable[..., nn.Module]]:
        from munkey.models.networks.example_tied import ExampleTied, ExampleTiedArchitecture

        return ExampleTiedArchitecture, ExampleTied

    def make_learner(
        self,
        system: System,
        forward: Callable[..., Tensor],
        training: Training[ExampleTiedSettings],
    ) -> Learner:
        import torch

        from munkey.models.networks.example_tied import ExampleTiedArchitecture

        assert isinstance(system.architecture, ExampleTiedArchitecture)
        sample_channels = system.architecture.draw_channels(training.samples.ids)
        device_channels = torch.from_numpy(sample_channels).to(training.device)  # (N, n)

        def predict(images: Tensor, index: Tensor) -> Tensor:
            return forward(images, device_channels[to_device(index, images.device.type)])

        return Learner(system, predict)

    def resume(self, system: System, training: Training[ExampleTiedSettings]) -> Learner:
        model = system.copy_model()
        return self.make_learner(replace(system, model=model), model, training)
