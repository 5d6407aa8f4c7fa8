"""EU-k, exact unlearning of the last k layers (Goel et al. 2022; app. B.2): a fresh head, then as CF-k."""

from typing import TYPE_CHECKING

from munkey.unlearn import Request, Tuned, method

if TYPE_CHECKING:
    from munkey.system import System


@method(
    "eu-k",
    title="EU-k",
    description="re-initialise the head, train it on the retain set",
    citation="Goel et al. 2022",
    base="vit",
    oracle="retrain-t",
    needs={"retain images", "retain labels"},
    settings=Tuned,
)
def eu_k(system: "System", request: Request, settings: Tuned) -> "System":
    from dataclasses import replace

    from munkey import models
    from munkey.finetune import finetune

    model = system.copy_of_model()
    # The head of a whole fresh model: initialised exactly as the original's was, from another seed.
    model.head = models.build(system.kind, system.architecture, request.generator).head.to(request.device)
    return finetune(replace(system, model=model), request, settings.lr_factor, request.retain, only="head.")
