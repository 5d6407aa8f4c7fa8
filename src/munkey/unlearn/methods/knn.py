"""KNN (Fix & Hodges 1951; app. B.2): delete rows. The paper reports no oracle or gap for KNN."""

from munkey.models.family import System, forget_samples
from munkey.settings import Section
from munkey.unlearn.contract import Request, method


@method(
    "knn",
    title="KNN",
    description="delete the forget set's rows from the index of keys",
    citation=(
        "E. Fix, J. L. Hodges. *Discriminatory Analysis. Nonparametric Discrimination: "
        "Consistency Properties*. 1951; reprinted in International Statistical Review 57, 1989"
    ),
    in_paper=True,
    family="knn",
)
def knn(system: System, request: Request, settings: Section) -> System:
    return forget_samples(system, request.forget_ids)
