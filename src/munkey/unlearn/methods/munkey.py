"""MUNKEY (sec. 3.2, Unlearning; alg. 1, phase 2): M_u is M without the forget set's rows."""

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
    from dataclasses import replace

    assert system.memory is not None
    remaining = system.memory.forget(request.forget_ids)
    return replace(system, model=system.copy_model(), memory=remaining)  # same weights
