"""Newton removal (Guo et al. 2020): steps to the optimum of the rows left, certified by the gradient that remains."""

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, cast

from pydantic import Field

from munkey.models.family import FittedArchitecture, System
from munkey.settings import Section
from munkey.unlearn.contract import Request, method

if TYPE_CHECKING:
    from munkey.models.networks.logistic import PerturbedHead

LIMIT = 20  # Newton steps of a removal


class NewtonSettings(Section):
    """epsilon, delta: of the certificate, epsilon at most 1, as its proof needs; steps: the fewest Newton steps."""

    epsilon: Annotated[float, Field(gt=0, le=1)]
    delta: Annotated[float, Field(gt=0, lt=1)]
    steps: Annotated[int, Field(ge=1, le=LIMIT)]


@method(
    "newton",
    title="Newton removal",
    description="Newton steps of a noisy logistic regression on the rows left, until the gradient is certified",
    citation="Guo et al. 2020",
    family="newton",
    settings=NewtonSettings,
)
def newton(system: System, request: Request, settings: NewtonSettings) -> System:
    """Reports the certificate, (budget, delta), and what of it is used: epsilon = c (residual + TOLERANCE) / sigma.

    c = sqrt(2 ln(1.5 / delta)) (theorem 3); residual: norm of the gradient of the rows left, over all heads. That of
    the oracle, at most TOLERANCE, adds to it. Raises ValueError where the budget is not met: nothing is given out then.
    """
    from munkey.models.networks.logistic import TOLERANCE, Objective, norm

    assert system.memory is not None
    head, fitted = cast("PerturbedHead", system.copy_of_model()), cast(FittedArchitecture, system.architecture).settings
    memory = system.memory.forget(request.forget_ids)
    objective, weight = Objective.of(memory, head.noise, float(fitted["lam"])), head.weight
    scale = math.sqrt(2 * math.log(1.5 / settings.delta)) / float(fitted["sigma"])
    for steps in range(1, LIMIT + 1):
        weight = objective.stepped(weight)
        residual = norm(objective.gradient(weight))
        epsilon = scale * (residual + TOLERANCE)
        if steps >= settings.steps and epsilon <= settings.epsilon:
            request.facts = {"budget": settings.epsilon, "delta": settings.delta, "epsilon": epsilon}
            request.facts |= {"residual": residual, "steps": steps}
            return replace(system, memory=memory, model=head.at(weight))
    raise ValueError(
        f"after {LIMIT} Newton steps epsilon is {epsilon:.2g}, over the budget of {settings.epsilon:g}:"
        " retrain instead, or raise newton.sigma"
    )
