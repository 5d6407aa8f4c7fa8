"""RanPAC: forget by deleting rows and solving again for the weights of random features."""

from munkey.models.family import System, forget_samples
from munkey.settings import Section
from munkey.unlearn.contract import Request, method


@method(
    "ranpac",
    title="RanPAC",
    description="drop the forget set's rows, solve for the weights of their random features again",
    citation=(
        "M. D. McDonnell, D. Gong, A. Parvaneh, E. Abbasnejad, A. van den Hengel. *RanPAC: Random"
        " Projections and Pre-trained Models for Continual Learning*. NeurIPS 2023"
    ),
    family="ranpac",
)
def ranpac(system: System, request: Request, settings: Section) -> System:
    return forget_samples(system, request.forget_ids)
