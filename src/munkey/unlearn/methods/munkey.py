"""MUNKEY (sec. 3.2, Unlearning; alg. 1, phase 2): M_u = M without the rows of the forget set."""

from dataclasses import replace

from munkey.models.family import System
from munkey.settings import Section
from munkey.unlearn.contract import Request, method


@method(
    "munkey",
    title="MUNKEY",
    description="delete the forget set's rows from the exemplar memory",
    citation=(
        "S. Laguna et al. *Rethinking Machine Unlearning: Models Designed to Forget via Key"
        " Deletion*, sec. 3.2"
    ),
    in_paper=True,
    family="munkey",
)
def munkey(system: System, request: Request, settings: Section) -> System:
    remaining = system.require_memory().forget(request.forget_ids)
    # The weights do not change. They are copied because a method must not share storage.
    return replace(system, model=system.copy_model(), memory=remaining)
