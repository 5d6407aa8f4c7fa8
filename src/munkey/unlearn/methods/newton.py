"""Newton removal (after Guo et al. 2020): Newton steps on the remaining rows, then new noise."""

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, cast

from pydantic import Field

from munkey.models.family import FittedArchitecture, System
from munkey.settings import Section
from munkey.unlearn.contract import Request, method

if TYPE_CHECKING:
    from munkey.models.networks.logistic import NoisyHead

MAX_STEPS = 100  # Newton steps, as in training


class NewtonSettings(Section):
    """The section `unlearn.newton` of params.yaml. The certificate's proof requires epsilon <= 1."""

    epsilon: Annotated[float, Field(gt=0, le=1)]
    delta: Annotated[float, Field(gt=0, lt=1)]


@method(
    "newton",
    title="Newton removal",
    description=(
        "Newton steps of a logistic regression on the remaining rows, until new noise on the"
        " weights hides the remaining difference from retraining"
    ),
    citation="C. Guo et al. *Certified Data Removal from Machine Learning Models*. ICML 2020",
    family="newton",
    settings=NewtonSettings,
)
def newton(system: System, request: Request, settings: NewtonSettings) -> System:
    """Make Newton steps until noise hides the difference between the weights and retrained ones.

    With probability 1 - delta over the noise, the log-ratio of the densities of removed and
    retrained weights is at most epsilon in absolute value (docs/methods/newton.md). Only noise
    drawn from a secret is certified. The request's facts say so, with budget, delta, the used part
    (epsilon), the norm of the gradient over the remaining rows (residual), and the number of steps.

    Raises ValueError, and releases nothing, if no rows remain, or if the budget is still exceeded
    after MAX_STEPS steps.
    """
    import torch

    from munkey.models.networks.logistic import (
        TOLERANCE,
        Objective,
        compute_norm,
        draw_secret_noise,
        read_secret,
    )

    secret = read_secret()
    head = cast("NoisyHead", system.copy_model())
    family_settings = cast(FittedArchitecture, system.architecture).settings
    sigma = float(family_settings["sigma"])
    memory = system.require_memory().forget(request.forget_ids)
    if not len(memory):
        raise ValueError("no rows remain to fit weights to: remove the model instead")
    objective = Objective.from_memory(memory, float(family_settings["lam"]))
    weight = head.weight
    for steps in range(1, MAX_STEPS + 1):
        weight = objective.newton_step(weight)
        residual = compute_norm(objective.gradient(weight))
        # L is strongly convex, so any weights are within |gradient| / curvature of the optimum,
        # including the retrained weights, whose gradient is at most TOLERANCE.
        distance = (residual + TOLERANCE) / objective.curvature
        # The certificate's rule (docs/methods/newton.md), with the constant of Guo et al. 2020.
        epsilon = math.sqrt(2 * math.log(1.5 / settings.delta)) * distance / sigma
        if epsilon <= settings.epsilon:
            # The noise is new and no step has used it, so the distance cannot depend on it.
            if secret is None:
                # Anyone with params.yaml can draw this noise, too, and subtract it.
                noise = torch.randn(weight.shape, generator=request.generator, dtype=torch.float64)
                noise = sigma * noise.to(weight)
            else:
                noise = draw_secret_noise(secret, weight, sigma)
            request.facts = {
                "certified": secret is not None,
                "budget": settings.epsilon,
                "delta": settings.delta,
                "epsilon": epsilon,
                "residual": residual,
                "steps": steps,
            }
            return replace(system, memory=memory, model=head.with_weight(weight, noise))
    raise ValueError(
        f"after {MAX_STEPS} Newton steps, epsilon is {epsilon:.2g}, above the budget of"
        f" {settings.epsilon:g}: retrain instead, or increase newton.sigma"
    )
