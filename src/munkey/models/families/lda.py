"""Linear heads in closed form on the keys: shrunk discriminant analysis (Friedman 1989), and the nearest class mean."""

from __future__ import annotations

import copy
from abc import abstractmethod
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias, cast

from pydantic import Field

from munkey.core.device import to_host
from munkey.models.family import FittedArchitecture, FittedFamily, Settings, System, family
from munkey.settings import Positive, Section

if TYPE_CHECKING:
    import numpy as np
    import torch
    from torch import nn

    from munkey.memory.exemplars import ExemplarMemory
    from munkey.memory.sums import Sums
    from munkey.models.networks.closed_form import Head


Temperature: TypeAlias = Positive | Literal["auto"]


class LdaSettings(Section):
    """alpha: share of the covariance that is taken to be alike in all directions; temperature: divides the logits;
    auto: by rows that are left out, anew at each deletion.
    """

    alpha: Annotated[float, Field(ge=0.0001, le=1)]
    temperature: Temperature


class NcmSettings(Section):
    """temperature: divides the logits; auto: as that of LDA."""

    temperature: Temperature


class LinearFamily(FittedFamily[Settings]):
    """A linear head on the key, which follows from sums over the rows. seconds: whether it reads products of keys."""

    asks_keys = True
    holds = "keys, labels, weights"
    seconds = False

    def stored(self, keys: np.ndarray) -> np.ndarray:
        from munkey.memory.sums import rounded

        return rounded(keys)

    def empty_sums(self, architecture: FittedArchitecture) -> Sums:
        from munkey.memory.sums import Sums

        return Sums.empty(architecture.classes, architecture.key_dim, self.seconds)

    def head(self, architecture: FittedArchitecture, memory: ExemplarMemory) -> nn.Module:
        sums = self.empty_sums(architecture)
        keys, labels = _labeled(memory)
        sums.add(keys, labels)
        return self.headed(sums, architecture, memory)

    def headed(self, sums: Sums, architecture: FittedArchitecture, memory: ExemplarMemory) -> Head:
        """The head that follows from these sums, which it keeps for the next deletion, beside a memory."""
        settings = self.checked(architecture.settings)
        if self.reads_rows(settings):
            settings = self.calibrated(settings, sums, *_labeled(memory))
        head = cast("Head", self.solved(sums, settings).to(memory.keys.device))
        head.sums = sums
        return head

    def reads_rows(self, settings: Settings) -> bool:
        return cast("LdaSettings | NcmSettings", settings).temperature == "auto"

    def calibrated(
        self, settings: Settings, sums: Sums, keys: np.ndarray, labels: np.ndarray
    ) -> Settings:
        from munkey.models.networks.calibration import calibrated_temperature

        def left_out(sums: Sums, keys: np.ndarray, labels: np.ndarray) -> np.ndarray:
            return self.left_out(settings, sums, keys, labels)

        return settings.model_copy(
            update={"temperature": calibrated_temperature(sums, keys, labels, left_out)}
        )

    @abstractmethod
    def left_out(
        self, settings: Settings, sums: Sums, keys: np.ndarray, labels: np.ndarray
    ) -> np.ndarray:
        """Logits (N, C) at temperature 1 of some of the rows in the sums, each from all others."""

    def head_without(
        self, system: System, ids: np.ndarray, remaining: ExemplarMemory
    ) -> nn.Module | None:
        """Those of a fit on the remaining rows, to the bit. Sums, if they are here, lose what the others added."""
        import numpy as np

        sums = cast("Head", system.weights()).sums
        if sums is None:
            return super().head_without(system, ids, remaining)
        memory = system.rows()
        dropped = memory.rows(np.unique(ids))
        labels = to_host(memory.tokens[dropped]).numpy()[:, 0]
        remaining_sums = copy.deepcopy(sums)
        remaining_sums.add(to_host(memory.keys[dropped]).numpy(), labels.astype(int), sign=-1)
        return self.headed(remaining_sums, self.shape(system), remaining)

    def build(  # type: ignore[override]
        self, architecture: FittedArchitecture, generator: torch.Generator | None
    ) -> nn.Module:
        """One whose weights are yet to be loaded."""
        import numpy as np

        from munkey.models.networks.closed_form import Head

        return Head(
            np.zeros((architecture.classes, architecture.key_dim)), np.zeros(architecture.classes)
        )


def _labeled(memory: ExemplarMemory) -> tuple[np.ndarray, np.ndarray]:
    """The keys (N, d) and labels (N,) of a memory, on the host."""
    return to_host(memory.keys).numpy(), to_host(memory.tokens).numpy()[:, 0].astype(int)


@family
class LdaFamily(LinearFamily[LdaSettings]):
    name = "lda"
    title = "LDA"
    letter = "l"
    settings = LdaSettings
    place = 5
    seconds = True
    tried = (
        ("alpha", (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7)),
        ("temperature", (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)),
    )

    def solved(self, sums: Sums, settings: LdaSettings) -> Head:
        from munkey.models.networks.closed_form import discriminant

        return discriminant(sums, settings.alpha, cast(float, settings.temperature))

    def left_out(
        self, settings: LdaSettings, sums: Sums, keys: np.ndarray, labels: np.ndarray
    ) -> np.ndarray:
        from munkey.models.networks.closed_form import left_out

        return left_out(sums, keys, labels, settings.alpha)


@family
class NcmFamily(LinearFamily[NcmSettings]):
    name = "ncm"
    title = "NCM"
    letter = "n"
    settings = NcmSettings
    place = 4
    tried = (("temperature", (0.005, 0.01, 0.015, 0.02, 0.03, 0.05, 0.1)),)

    def solved(self, sums: Sums, settings: NcmSettings) -> Head:
        from munkey.models.networks.closed_form import nearest_mean

        return nearest_mean(sums, cast(float, settings.temperature))

    def left_out(
        self, settings: NcmSettings, sums: Sums, keys: np.ndarray, labels: np.ndarray
    ) -> np.ndarray:
        from munkey.models.networks.calibration import nearest_mean_left_out

        return nearest_mean_left_out(sums, keys, labels)
