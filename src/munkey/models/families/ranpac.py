"""RanPAC (McDonnell et al. 2023): ridge regression on random ReLU features of the key, in closed form."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias, cast

from pydantic import Field

from munkey.models.families.lda import LinearFamily, Temperature
from munkey.models.family import FittedArchitecture, family
from munkey.settings import Positive, Section

if TYPE_CHECKING:
    import numpy as np

    from munkey.memory.sums import Sums
    from munkey.models.networks.closed_form import Head

# what `lam: auto` chooses from
PENALTIES = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
Penalty: TypeAlias = Positive | Literal["auto"]


class RanpacSettings(Section):
    """features: how many, M; seed: of their random projections; lam: penalty, in units of the mean variance of a
    feature times the rows; auto: by generalized cross-validation, anew at each deletion; temperature: as that of LDA.
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

    def empty_sums(self, architecture: FittedArchitecture) -> Sums:
        from munkey.memory.sums import RandomFeatures, Sums

        settings = self.checked(architecture.settings)
        features = RandomFeatures(settings.features, settings.seed)
        return Sums.empty(architecture.classes, architecture.key_dim, self.seconds, features)

    def from_sums(self, settings: RanpacSettings, sums: Sums) -> RanpacSettings:
        from munkey.models.networks.closed_form import best_penalty

        if settings.lam != "auto":
            return settings
        return settings.model_copy(update={"lam": best_penalty(sums, PENALTIES)})

    def linear(self, sums: Sums, settings: RanpacSettings) -> Head:
        from munkey.models.networks.closed_form import ridge

        penalty = cast(float, settings.lam)
        head = ridge(sums, penalty, cast(float, settings.temperature))
        head.constant = penalty
        return head

    def left_out_logits(
        self, settings: RanpacSettings, sums: Sums, keys: np.ndarray, labels: np.ndarray
    ) -> np.ndarray:
        from munkey.models.networks.closed_form import ridge_left_out_logits

        return ridge_left_out_logits(sums, keys, labels, cast(float, settings.lam))
