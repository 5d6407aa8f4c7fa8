"""Example-tied dropout (Maini et al. 2023; beyond the paper): drop the channels of D_f."""

from dataclasses import replace
from typing import TYPE_CHECKING, cast

from munkey.core.device import to_host
from munkey.models.family import System
from munkey.settings import Section
from munkey.unlearn.contract import Request, method

if TYPE_CHECKING:
    from munkey.models.networks.example_tied import ExampleTied


@method(
    "example-tied-dropout",
    title="Example-tied dropout",
    description="drop the channels that belong to the forget set",
    citation=(
        "P. Maini, M. C. Mozer, H. Sedghi, Z. C. Lipton, J. Z. Kolter, C. Zhang. *Can Neural "
        "Network Memorization Be Localized?* ICML 2023"
    ),
    family="example-tied-dropout",
)
def example_tied_dropout(system: System, request: Request, settings: Section) -> System:
    import torch

    model = cast("ExampleTied", system.copy_model())
    sample_channels = model.architecture.draw_channels(request.forget_ids)  # (N, n)
    is_dropped = sample_channels.any(axis=0)
    model.on &= torch.from_numpy(~is_dropped).to(model.on.device)
    request.facts = {"channels_left": int(to_host(model.on.sum())), "channels": len(model.on)}
    return replace(system, model=model)
