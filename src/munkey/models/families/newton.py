"""One-vs-rest logistic regression on keys, with noisy weights for certified removal."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn

from munkey.core.randomness import Stage
from munkey.models.family import FittedArchitecture, FittedFamily, System, family
from munkey.settings import InferenceSettings, Positive, Section

if TYPE_CHECKING:
    import numpy as np
    import torch
    from torch import nn

    from munkey.encoders.keys import Keys
    from munkey.memory.exemplars import ExemplarMemory


class NewtonFamilySettings(Section):
    """The section `newton` of params.yaml."""

    lam: Positive
    sigma: Positive


@family
class NewtonFamily(FittedFamily[NewtonFamilySettings]):
    """A logistic regression that predicts with the sum of its weights and noise.

    Weights and noise must each be kept as secret as the rows.
    """

    name = "newton"
    title = "Newton removal"
    letter = "w"
    settings = NewtonFamilySettings
    place = 6
    exact = False
    asks_keys = True
    holds = "keys, labels, weights, noise"

    def fit(
        self,
        members: Keys,
        labels: np.ndarray,
        classes: int,
        settings: NewtonFamilySettings,
        stage: Stage | None = None,
    ) -> System:
        """Fit the weights to optimality, and draw the noise from the secret or from `stage`.

        An oracle has another stage and so other noise. Raises ValueError if `stage` is None.
        """
        import numpy as np

        from munkey.models.networks.logistic import NoisyHead

        if stage is None:
            raise ValueError(f"{self.title} draws noise, so `fit` needs a stage")
        system = super().fit(members, labels, classes, settings)
        shape = (classes, members.keys.shape[1])
        noise = settings.sigma * (stage / "noise").numpy_generator().normal(size=shape)
        initial_system = replace(system, model=NoisyHead(np.zeros(shape), noise))
        return self._solve(initial_system, system.require_memory())

    def add_samples(
        self,
        system: System,
        new_keys: Keys,
        labels: np.ndarray,
        inference: InferenceSettings | None,
    ) -> System:
        """Return a system fitted to the old and new rows. Only noise drawn from a secret changes."""
        memory = super().add_samples(system, new_keys, labels, inference).require_memory()
        return self._solve(system, memory)

    def _solve(self, system: System, memory: ExemplarMemory) -> System:
        """Return the system with this memory and the optimal weights for it."""
        from munkey.models.networks.logistic import (
            NoisyHead,
            Objective,
            draw_secret_noise,
            read_secret,
        )

        head = system.require_model()
        assert isinstance(head, NoisyHead)
        settings = self.get_settings(system)
        weight = Objective.from_memory(memory, settings.lam).solve(head.weight)
        secret = read_secret()
        noise = draw_secret_noise(secret, weight, settings.sigma) if secret else None
        return replace(system, memory=memory, model=head.with_weight(weight, noise))

    def forget(self, system: System, ids: np.ndarray) -> NoReturn:
        raise TypeError(
            f"{self.title} is not exact, because its weights depend on the deleted rows; use the"
            " method `newton` to remove them"
        )

    def build(  # type: ignore[override]
        self, architecture: FittedArchitecture, generator: torch.Generator | None
    ) -> nn.Module:
        """Build a head of zeros, which loading will replace."""
        import numpy as np

        from munkey.models.networks.logistic import NoisyHead

        shape = (architecture.classes, architecture.key_dim)
        return NoisyHead(weight=np.zeros(shape), noise=np.zeros(shape))
