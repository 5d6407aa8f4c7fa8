"""Nearest class mean: forget by deleting rows and recomputing the class means."""

from munkey.models.family import System, forget_samples
from munkey.settings import Section
from munkey.unlearn.contract import Request, method


@method(
    "ncm",
    title="NCM",
    description="drop the forget set's rows, recompute the class means",
    citation=(
        "T. Mensink, J. Verbeek, F. Perronnin, G. Csurka. *Distance-Based Image "
        "Classification: Generalizing to New Classes at Near-Zero Cost*. IEEE Transactions on "
        "Pattern Analysis and Machine Intelligence 35, 2013"
    ),
    family="ncm",
)
def ncm(system: System, request: Request, settings: Section) -> System:
    return forget_samples(system, request.forget_ids)
