"""KNN (Fix & Hodges 1951; app. B.2): label counts among the nearest keys; to forget is to drop rows of the index.

The index is an exemplar memory whose tokens are one-hot labels. The paper gives it no oracle and no gap.
"""

from munkey.models.family import System
from munkey.settings import Section
from munkey.unlearn.contract import Request, method


@method(
    "knn",
    title="KNN",
    description="vote of the nearest keys; delete the forget set's rows from the index",
    citation="Fix & Hodges 1951",
    in_paper=True,
    family="knn",
)
def knn(system: System, request: Request, settings: Section) -> System:
    from dataclasses import replace

    assert system.memory is not None
    return replace(system, memory=system.memory.forget(request.forget_ids))
