"""RanPAC (McDonnell et al. 2023): ridge regression on random ReLU features of keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from pydantic import Field

from munkey.models.families.lda import LinearFamily, Temperature
from munkey.models.family import FittedArchitecture, family
from munkey.settings import Section

if TYPE_CHECKING:
    import numpy as np

    from munkey.memory.sums import Sums
    from munkey.models.networks.closed_form import Head

# candidates for `lam: auto`
PENALTIES = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
# A smaller penalty could be lost in rounding, so that the system of equations has no solution.
Penalty: TypeAlias = Annotated[float, Field(ge=1e-6, le=1e6)] | Literal["auto"]


class RanpacSettings(Section):
    """The section `ranpac` of params.yaml."""

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
    uses_outer_products = True

    def make_sums(self, architecture: FittedArchitecture) -> Sums:
        from munkey.memory.sums import RandomFeatures, Sums

        settings = self.validate_section(architecture.settings)
        return Sums.empty(
            architecture.classes,
            architecture.key_dim,
            with_outer_products=self.uses_outer_products,
            features=RandomFeatures(count=settings.features, seed=settings.seed),
        )

    def resolve_constants(self, settings: RanpacSettings, sums: Sums) -> RanpacSettings:
        from munkey.models.networks.closed_form import find_best_penalty

        if settings.lam != "auto":
            return settings
        return settings.model_copy(update={"lam": find_best_penalty(sums, PENALTIES)})

    def solve_linear(self, sums: Sums, settings: RanpacSettings) -> Head:
        from munkey.models.networks.closed_form import fit_ridge

        penalty = float(settings.lam)  # a number, since `resolve_constants` has replaced "auto"
        head = fit_ridge(sums, penalty, float(settings.temperature))
        head.constant = penalty
        return head

    def predict_left_out(
        self, settings: RanpacSettings, sums: Sums, keys: np.ndarray, labels: np.ndarray
    ) -> np.ndarray:
        from munkey.models.networks.closed_form import predict_left_out_ridge

        return predict_left_out_ridge(sums, keys, labels, float(settings.lam))
