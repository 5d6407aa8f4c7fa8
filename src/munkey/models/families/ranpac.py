"""RanPAC (McDonnell et al. 2023): closed-form ridge regression on random ReLU features of keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from pydantic import Field

from munkey.models.families.lda import LinearFamily, Temperature
from munkey.models.family import FittedArchitecture, family
from munkey.settings import Positive, Section

if TYPE_CHECKING:
    import numpy as np

    from munkey.memory.sums import Sums
    from munkey.models.networks.closed_form import Head

# Candidates for `lam: auto`.
PENALTIES = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
Penalty: TypeAlias = Positive | Literal["auto"]


class RanpacSettings(Section):
    """The family's section of params.yaml.

    Attributes
    ----------
    features
        The number M of random features.
    seed
        The seed of the random projections.
    temperature
        The divisor of the logits, as for LDA.
    lam
        The ridge penalty, in units of the number of rows times the mean variance of a feature.
        "auto" minimizes the generalized cross-validation error, again after each deletion.
    """

    features: Annotated[int, Field(ge=1, le=20_000)]
    seed: Annotated[int, Field(ge=0, lt=2**32)]
    lam: Penalty
    temperature: Temperature


@family
class RanpacFamily(LinearFamily[RanpacSettings]):
    name = "ranpac"
    title = "RanPAC"
    letter = "a"
    settings = RanpacSettings
    tuned = ("lam", "temperature")
    place = 6
    seconds = True

    def make_sums(self, architecture: FittedArchitecture) -> Sums:
        from munkey.memory.sums import RandomFeatures, Sums

        settings = self.validate_section(architecture.settings)
        features = RandomFeatures(settings.features, settings.seed)
        return Sums.empty(architecture.classes, architecture.key_dim, self.seconds, features)

    def resolve_constants(self, settings: RanpacSettings, sums: Sums) -> RanpacSettings:
        from munkey.models.networks.closed_form import find_best_penalty

        if settings.lam != "auto":
            return settings
        return settings.model_copy(update={"lam": find_best_penalty(sums, PENALTIES)})

    def solve_linear(self, sums: Sums, settings: RanpacSettings) -> Head:
        from munkey.models.networks.closed_form import fit_ridge

        penalty = float(settings.lam)  # a number by now: `resolve_constants` replaced "auto"
        head = fit_ridge(sums, penalty, float(settings.temperature))
        head.constant = penalty
        return head

    def predict_left_out(
        self, settings: RanpacSettings, sums: Sums, keys: np.ndarray, labels: np.ndarray
    ) -> np.ndarray:
        from munkey.models.networks.closed_form import predict_left_out_ridge

        return predict_left_out_ridge(sums, keys, labels, float(settings.lam))
