"""EU-k, exact unlearning of the last k layers (Goel et al. 2022; app. B.2): a new head."""

from dataclasses import replace

from munkey.models.family import FAMILIES, System
from munkey.unlearn.contract import Request, TuningSettings, method


@method(
    "eu-k",
    title="EU-k",
    description="re-initialize the head and train it on the retain set",
    citation=(
        "S. Goel et al. *Towards Adversarial Evaluations for Inexact Machine Unlearning*. 2022"
    ),
    in_paper=True,
    family="vit",
    needs={"retain images", "retain labels"},
    settings=TuningSettings,
)
def eu_k(system: System, request: Request, settings: TuningSettings) -> System:
    from munkey.unlearn.finetune import finetune

    model = system.copy_model()
    # Build a complete new model, so that its head is initialized like the original's.
    new_model = FAMILIES[system.family].build(system.architecture, request.generator)
    model.head = new_model.get_submodule("head").to(request.device)
    system_with_new_head = replace(system, model=model)
    return finetune(system_with_new_head, request, settings.lr_factor, request.retain, only="head.")
