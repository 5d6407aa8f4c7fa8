"""Newton removal (after Guo et al. 2020): steps to the optimum of the rows left, then noise."""

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, cast

from pydantic import Field

from munkey.models.family import FittedArchitecture, System
from munkey.settings import Section
from munkey.unlearn.contract import Request, method

if TYPE_CHECKING:
    from munkey.models.networks.logistic import NoisyHead

LIMIT = 100  # Newton steps of a removal, as of a training


class NewtonSettings(Section):
    """epsilon, delta: of the certificate, epsilon at most 1, as its proof needs."""

    epsilon: Annotated[float, Field(gt=0, le=1)]
    delta: Annotated[float, Field(gt=0, lt=1)]


@method(
    "newton",
    title="Newton removal",
    description="Newton steps of a logistic regression on the rows left, until new noise on its weights hides"
    " what remains",
    citation="C. Guo et al. *Certified Data Removal from Machine Learning Models*. ICML 2020",
    family="newton",
    settings=NewtonSettings,
)
def newton(system: System, request: Request, settings: NewtonSettings) -> System:
    """Reports the certificate, (budget, delta), and what of the budget is used, epsilon.

    With probability 1 - delta over the noise, the log-ratio of the densities of removed and
    retrained weights lies within epsilon (docs/methods/newton.md). residual: norm of the gradient
    of the rows left, over all heads, at the weights without noise. Raises ValueError where the
    budget is not met: nothing is given out then.
    """
    import torch

    from munkey.models.networks.logistic import TOLERANCE, Objective, norm

    assert system.memory is not None
    head = cast("NoisyHead", system.copy_of_model())
    fitted = cast(FittedArchitecture, system.architecture).settings
    sigma = float(fitted["sigma"])
    memory = system.memory.forget(request.forget_ids)
    if not len(memory):
        raise ValueError("no rows are left to fit weights to: remove the model instead")
    objective = Objective.of(memory, float(fitted["lam"]))
    weight = head.weight
    for steps in range(1, LIMIT + 1):
        weight = objective.stepped(weight)
        residual = norm(objective.gradient(weight))
        # Strong convexity: weights are at most gradient / curvature from the optimum. TOLERANCE is
        # the gradient that retrained weights may have.
        distance = (residual + TOLERANCE) / objective.curvature
        epsilon = math.sqrt(2 * math.log(1.5 / settings.delta)) * distance / sigma
        if epsilon <= settings.epsilon:
            # New noise, which no step has read: how far the weights are off cannot depend on it.
            draw = torch.randn(weight.shape, generator=request.generator, dtype=torch.float64)
            request.facts = {
                "budget": settings.epsilon,
                "delta": settings.delta,
                "epsilon": epsilon,
                "residual": residual,
                "steps": steps,
            }
            return replace(system, memory=memory, model=head.at(weight, sigma * draw.to(weight)))
    raise ValueError(
        f"after {LIMIT} Newton steps epsilon is {epsilon:.2g}, over the budget of {settings.epsilon:g}:"
        " retrain instead, or raise newton.sigma"
    )
