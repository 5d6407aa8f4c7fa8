"""Linear discriminant analysis: forget by deleting rows and solving again for the weights."""

from munkey.models.family import System, forget_samples
from munkey.settings import Section
from munkey.unlearn.contract import Request, method


@method(
    "lda",
    title="LDA",
    description="drop the forget set's rows, solve for the weights again",
    citation=(
        "J. H. Friedman. *Regularized Discriminant Analysis*. Journal of the American"
        " Statistical Association 84, 1989"
    ),
    family="lda",
)
def lda(system: System, request: Request, settings: Section) -> System:
    return forget_samples(system, request.forget_ids)
