"""SISA (Bourtoule et al. 2021; beyond the paper): train in shards and slices, retrain those that saw the forget set."""

from munkey.models.family import System, Training
from munkey.settings import Section
from munkey.unlearn.contract import Request, method


@method(
    "sisa",
    title="SISA",
    description="an ensemble trained in shards and slices; retrain, exactly, the slices that saw the forget set",
    citation="Bourtoule et al. 2021",
    family="sisa",
    needs={"retain images", "retain labels"},
    finetunes=False,
)
def sisa(system: System, request: Request, settings: Section) -> System:
    from munkey.models.families.sisa import delete

    assert request.recipe is not None
    training = Training(
        request.retain, system.architecture.classes, request.recipe, request.device, report=request.report
    )
    deletion = delete(system, request.forget_ids, training)
    request.history = deletion.history
    request.facts = {"retrained_slices": deletion.retrained, "slices": deletion.slices}
    return deletion.system
