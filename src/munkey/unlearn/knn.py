"""KNN (Fix & Hodges 1985; app. B.2): label counts among the nearest keys; to forget is to drop rows of the index.

The index is an exemplar memory whose tokens are one-hot labels. The paper gives it no oracle and no gap.
"""

from typing import TYPE_CHECKING

from munkey.unlearn import Request, Settings, method

if TYPE_CHECKING:
    from munkey.system import System


@method(
    "knn",
    title="KNN",
    description="vote of the nearest keys; delete the forget set's rows from the index",
    citation="Fix & Hodges 1985",
    base="keys",
    oracle=None,
)
def knn(system: "System", request: Request, settings: Settings) -> "System":
    from dataclasses import replace

    assert system.memory is not None
    return replace(system, memory=system.memory.forget(request.forget_ids))
