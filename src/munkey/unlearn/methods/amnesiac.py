"""Amnesiac (Graves et al. 2021, as in Foster et al. 2024; app. B.2): wrong labels for D_f."""

from munkey.models.family import System
from munkey.unlearn.contract import Request, TuningSettings, method


@method(
    "amnesiac",
    title="Amnesiac",
    description="fine-tune on all samples, with random wrong labels for the forget set",
    citation=(
        "L. Graves, V. Nagisetty, V. Ganesh. *Amnesiac Machine Learning*. AAAI 2021. As in J. "
        "Foster, S. Schoepf, A. Brintrup. *Fast Machine Unlearning Without Retraining Through "
        "Selective Synaptic Dampening*. AAAI 2024"
    ),
    in_paper=True,
    family="vit",
    needs={"retain images", "retain labels", "forget images", "forget labels"},
    settings=TuningSettings,
)
def amnesiac(system: System, request: Request, settings: TuningSettings) -> System:
    from munkey.data.image_set import JoinedSet
    from munkey.unlearn.finetune import finetune, mislabel

    relabeled = mislabel(request.forget, system.architecture.classes, request.generator)
    return finetune(system, request, settings.lr_factor, JoinedSet((request.retain, relabeled)))
