"""MUNKEY (sec. 3.2, Unlearning): M_u = M without the rows of the forget set. Nothing else changes."""

from typing import TYPE_CHECKING

from munkey.unlearn import Request, Settings, method

if TYPE_CHECKING:
    from munkey.system import System


@method(
    "munkey",
    title="MUNKEY",
    description="delete the forget set's rows from the exemplar memory",
    citation="this paper, sec. 3.2",
    base="munkey",
    oracle="retrain-m",
)
def munkey(system: "System", request: Request, settings: Settings) -> "System":
    from dataclasses import replace

    assert system.memory is not None
    return replace(system, model=system.copy_of_model(), memory=system.memory.forget(request.forget_ids))
