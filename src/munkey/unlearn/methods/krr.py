"""Kernel ridge regression: forget by deleting rows and solving for the remaining rows' weights."""

from munkey.models.family import System, forget_samples
from munkey.settings import Section
from munkey.unlearn.contract import Request, method


@method(
    "krr",
    title="KRR",
    description="drop the forget set's rows, solve again for the weights of the remaining rows",
    citation=(
        "C. Saunders, A. Gammerman, V. Vovk. *Ridge Regression Learning Algorithm in Dual"
        " Variables*. ICML 1998. Y. Cho, L. K. Saul. *Kernel Methods for Deep Learning*. NeurIPS"
        " 2009"
    ),
    family="krr",
)
def krr(system: System, request: Request, settings: Section) -> System:
    return forget_samples(system, request.forget_ids)
