"""SISA (Bourtoule et al. 2021; beyond the paper): retrain the slices that saw the forget set."""

from dataclasses import replace
from typing import TYPE_CHECKING, cast

from munkey.models.family import System, Training
from munkey.settings import Section
from munkey.unlearn.contract import Request, method

if TYPE_CHECKING:
    from munkey.models.networks.sisa import Sisa, SisaArchitecture


@method(
    "sisa",
    title="SISA",
    description=(
        "retrain the affected slices of an ensemble that was trained in shards and slices"
    ),
    citation=(
        "L. Bourtoule, V. Chandrasekaran, C. Choquette-Choo, H. Jia, A. Travers, B. Zhang, D. "
        "Lie, N. Papernot. *Machine Unlearning*. IEEE Symposium on Security and Privacy 2021"
    ),
    family="sisa",
    needs={"retain images", "retain labels"},
    finetunes=False,
)
def sisa(system: System, request: Request, settings: Section) -> System:
    """Retrain each shard from its first slice with a forget sample.

    Other shards keep their weights. The weights equal the oracle's exactly.
    """
    from munkey.models.families.sisa import find_first_affected_slices, retrain

    assert request.recipe is not None, "no recipe of the original's training"
    training = Training(
        samples=request.retain,
        classes=system.architecture.classes,
        recipe=request.recipe,
        device=request.device,
        report=request.report,
    )
    model = cast("Sisa", system.copy_model())
    architecture = cast("SisaArchitecture", system.architecture)
    # In each shard, the first slice with a forget sample; later slices build on it.
    first_slices = find_first_affected_slices(
        request.forget_ids, model.shards, model.slices, request.recipe.stage
    )
    request.history = retrain(model, architecture, first_slices, training)
    retrained_count = sum(model.slices - first for first in first_slices.values())
    request.facts = {"retrained_slices": retrained_count, "slices": model.shards * model.slices}
    return replace(system, model=model)
