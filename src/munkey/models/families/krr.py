"""Kernel ridge regression on keys, in its dual form: one coefficient for each row and class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, cast

from pydantic import Field

from munkey.models.families.lda import ClosedFormFamily, Temperature
from munkey.models.family import FittedArchitecture, FittedRows, family
from munkey.settings import Positive, Probability, Section

if TYPE_CHECKING:
    import numpy as np
    import torch
    from torch import nn

    from munkey.memory.sums import Sums
    from munkey.models.networks.kernel_ridge import Kernel, KernelHead

# candidates for `lam: auto`
PENALTIES = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)


class KrrSettings(Section):
    """The section `krr` of params.yaml."""

    lam: Annotated[float, Field(ge=0.0001, le=1000)] | Literal["auto"]
    temperature: Temperature
    pixels: Annotated[int, Field(ge=0, le=65_536)]
    sigma: Positive
    share: Probability


@family
class KrrFamily(ClosedFormFamily[KrrSettings]):
    name = "krr"
    title = "KRR"
    letter = "g"
    settings = KrrSettings
    tuned = ("lam", "temperature")
    place = 6
    max_rows = 10_000
    larger_families = "lda or ranpac"

    def reads_rows(self, settings: KrrSettings) -> bool:
        return True

    def list_constants(self, settings: KrrSettings) -> list[str]:
        constants = super().list_constants(settings)
        if settings.pixels:  # without pixels, there is no second kernel
            constants += ["pixels", "sigma", "share"]
        return constants

    def solve(self, sums: Sums, settings: KrrSettings, rows: FittedRows | None) -> KernelHead:
        from munkey.models.networks.kernel_ridge import fit_kernel_ridge

        assert rows is not None, "no rows"
        self.require_few_rows(len(rows.ids))
        self.require_pixels(settings, rows.keys.shape[1])
        penalties = PENALTIES if settings.lam == "auto" else (settings.lam,)
        temperature = None if settings.temperature == "auto" else settings.temperature
        return fit_kernel_ridge(self.make_kernel(settings), rows, sums, penalties, temperature)

    def require_pixels(self, settings: KrrSettings, key_dim: int) -> None:
        """Raise ValueError if the settings assign more pixels to a key than it has entries."""
        if settings.pixels > key_dim:
            raise ValueError(
                f"krr.pixels = {settings.pixels}: must be at most {key_dim}, the length of a key"
            )

    def make_kernel(self, settings: KrrSettings) -> Kernel:
        """Return the kernel with these settings."""
        from munkey.models.networks.kernel_ridge import Kernel

        return Kernel(share=settings.share, pixels=settings.pixels, sigma=settings.sigma)

    def predict_leave_one_out(
        self, keys: np.ndarray, labels: np.ndarray, classes: int, settings: KrrSettings
    ) -> tuple[np.ndarray, float]:
        """Return leave-one-out logits (N, C) at temperature 1, and the temperature that suits them best.

        This temperature has the smallest mean log loss.
        """
        from munkey.models.networks.calibration import measure_loss
        from munkey.models.networks.kernel_ridge import predict_leave_one_out

        self.require_pixels(settings, keys.shape[1])
        penalty = cast(float, settings.lam)  # `require_fixed_shrinkage` has rejected "auto"
        logits = predict_leave_one_out(self.make_kernel(settings), keys, labels, classes, penalty)
        return logits, measure_loss(logits, labels).temperature

    def build(  # type: ignore[override]
        self, architecture: FittedArchitecture, generator: torch.Generator | None
    ) -> nn.Module:
        """Build a head without rows, which loading will replace."""
        import numpy as np

        from munkey.models.networks.kernel_ridge import KernelHead

        return KernelHead(
            kernel=self.make_kernel(self.validate_section(architecture.settings)),
            rows=np.zeros((0, architecture.key_dim), dtype=np.float32),
            dual=np.zeros((0, architecture.classes)),
            shares=np.zeros(architecture.classes),
        )
