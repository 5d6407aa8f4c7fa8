"""One-vs-rest logistic regression on keys, with noise on the weights, for certified removal."""

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
    """The family's section of params.yaml.

    Attributes
    ----------
    lam
        The L2 penalty per sample.
    sigma
        The standard deviation of the noise on each weight.
    """

    lam: Positive
    sigma: Positive


@family
class NewtonFamily(FittedFamily[NewtonFamilySettings]):
    """A logistic regression with a convex loss, which predicts with weights + noise.

    The weights and the noise must each be kept as secret as the rows; only their sum is published.
    """

    name = "newton"
    title = "Newton removal"
    letter = "w"
    settings = NewtonFamilySettings
    place = 6
    exact = False
    needs_query_keys = True
    holds = "keys, labels, weights, noise"

    def fit(
        self,
        members: Keys,
        labels: np.ndarray,
        classes: int,
        settings: NewtonFamilySettings,
        stage: Stage | None = None,
    ) -> System:
        """Fit the weights to optimality, and draw the noise from `stage`. Oracles get other noise.

        Raises ValueError without a stage.
        """
        import numpy as np

        from munkey.models.networks.logistic import NoisyHead

        if stage is None:
            raise ValueError(f"{self.title} needs a stage, because it draws noise")
        system = super().fit(members, labels, classes, settings)
        shape = (classes, members.keys.shape[1])
        noise = settings.sigma * (stage / "noise").numpy_generator().normal(size=shape)
        start = replace(system, model=NoisyHead(np.zeros(shape), noise))
        return self._solve(start, system.require_memory())

    def add_samples(
        self,
        system: System,
        new_keys: Keys,
        labels: np.ndarray,
        inference: InferenceSettings | None,
    ) -> System:
        """Return the system of a fit to all rows with the same noise."""
        memory = super().add_samples(system, new_keys, labels, inference).require_memory()
        return self._solve(system, memory)

    def _solve(self, system: System, memory: ExemplarMemory) -> System:
        """Return the system with optimal weights for these rows."""
        from munkey.models.networks.logistic import NoisyHead, Objective

        head = system.require_model()
        assert isinstance(head, NoisyHead)
        settings = self.get_settings(system)
        weight = Objective.from_memory(memory, settings.lam).solve(head.weight)
        return replace(system, memory=memory, model=head.with_weight(weight))

    def forget(self, system: System, ids: np.ndarray) -> NoReturn:
        raise TypeError(
            f"{self.title} is not exact: its weights remember deleted rows; use the method `newton`"
        )

    def build(  # type: ignore[override]
        self, architecture: FittedArchitecture, generator: torch.Generator | None
    ) -> nn.Module:
        """Return an empty head, whose weights will be loaded."""
        import numpy as np

        from munkey.models.networks.logistic import NoisyHead

        shape = architecture.classes, architecture.key_dim
        return NoisyHead(np.zeros(shape), np.zeros(shape))
