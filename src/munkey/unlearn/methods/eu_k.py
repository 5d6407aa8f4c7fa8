"""EU-k, exact unlearning of the last k layers (Goel et al. 2022; app. B.2): a fresh head, then as CF-k."""

from munkey.models.family import FAMILIES, System
from munkey.unlearn.contract import Request, Tuned, method


@method(
    "eu-k",
    title="EU-k",
    description="re-initialize the head, train it on the retain set",
    citation="S. Goel et al. *Towards Adversarial Evaluations for Inexact Machine Unlearning*. 2022",
    in_paper=True,
    family="vit",
    needs={"retain images", "retain labels"},
    settings=Tuned,
)
def eu_k(system: System, request: Request, settings: Tuned) -> System:
    from dataclasses import replace

    from munkey.unlearn.finetune import finetune

    model = system.copy_of_model()
    fresh = FAMILIES[system.family].build(system.architecture, request.generator)
    # The head of a whole fresh model: initialized exactly as the original's was, from another seed.
    model.head = fresh.get_submodule("head").to(request.device)
    return finetune(replace(system, model=model), request, settings.lr_factor, request.retain, only="head.")
