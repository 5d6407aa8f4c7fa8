"""SISA (Bourtoule et al. 2021; beyond the paper): train in shards and slices, retrain those that saw the forget set."""

from typing import TYPE_CHECKING

from munkey.unlearn import Count, Request, Settings, method

if TYPE_CHECKING:
    from munkey.system import System


class SisaSettings(Settings):
    """shards: models that share the training set out among them. slices: checkpoints of each."""

    shards: Count
    slices: Count


@method(
    "sisa",
    title="SISA",
    description="an ensemble trained in shards and slices; retrain, exactly, the slices that saw the forget set",
    citation="Bourtoule et al. 2021",
    base="sisa",
    oracle="retrain-s",
    needs={"retain images", "retain labels"},
    settings=SisaSettings,
    in_paper=False,
)
def sisa(system: "System", request: Request, settings: SisaSettings) -> "System":
    from munkey.sisa import delete

    assert request.recipe is not None
    deleted, request.history, request.facts = delete(
        system, request.forget_ids, request.retain, request.recipe, request.device, request.report
    )
    return deleted
