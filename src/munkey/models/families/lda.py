"""Closed-form linear heads on keys: shrunk LDA (Friedman 1989) and the nearest class mean."""

from __future__ import annotations

import copy
from abc import abstractmethod
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, cast

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from munkey.core.device import to_host
from munkey.models.family import (
    FittedArchitecture,
    FittedFamily,
    FittedRows,
    Settings,
    System,
    family,
)
from munkey.settings import Positive, Section

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    import torch
    from torch import nn

    from munkey.memory.exemplars import ExemplarMemory
    from munkey.memory.sums import Sums
    from munkey.models.networks.closed_form import Head


# The limits keep logits finite.
Temperature: TypeAlias = Annotated[float, Field(ge=1e-6, le=1e6)] | Literal["auto"]
# candidates for `alpha: auto`
ALPHAS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7)


class LdaSettings(Section):
    """The section `lda` of params.yaml.

    priors: the classes' prior probabilities, up to a factor; None for their shares of the rows. Only
    `ForgettingLDA` sets it.
    """

    alpha: Annotated[float, Field(ge=0.0001, le=1)] | Literal["auto"]
    temperature: Temperature
    priors: list[Positive] | Literal["balanced"] | None = None

    @model_serializer(mode="wrap")
    def _omit_default_priors(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Omit `priors` if it is None, so that models without priors keep their bytes."""
        fields: dict[str, Any] = serialize(self)
        if self.priors is None:
            fields.pop("priors", None)
        return fields


class NcmSettings(Section):
    """The section `ncm` of params.yaml."""

    temperature: Temperature


class ClosedFormFamily(FittedFamily[Settings]):
    """A closed-form head on keys, computed from sums over rows and, if it `reads_rows`, from rows.

    `uses_outer_products`: whether the sums include the outer products of keys.
    """

    asks_keys = True
    holds = "keys, labels, weights"
    uses_outer_products = False

    def prepare_keys(self, keys: np.ndarray) -> np.ndarray:
        from munkey.memory.sums import round_keys

        return round_keys(keys)

    def make_sums(self, architecture: FittedArchitecture) -> Sums:
        from munkey.memory.sums import Sums

        return Sums.empty(
            architecture.classes,
            architecture.key_dim,
            with_outer_products=self.uses_outer_products,
        )

    def fit_head(self, architecture: FittedArchitecture, memory: ExemplarMemory) -> nn.Module:
        sums = self.make_sums(architecture)
        rows = read_labeled_rows(memory)
        self.require_few_rows(len(rows.ids))
        sums.add(rows.keys, rows.labels)
        return self.build_head(sums, architecture, memory)

    def build_head(
        self, sums: Sums, architecture: FittedArchitecture, memory: ExemplarMemory
    ) -> nn.Module:
        """Return a head computed from these sums, which it keeps for the next deletion."""
        settings = self.validate_section(architecture.settings)
        rows = read_labeled_rows(memory) if self.reads_rows(settings) else None
        head = cast("Head", self.solve(sums, settings, rows).to(memory.keys.device))
        head.sums = sums
        return head

    def refit_head(
        self, system: System, ids: np.ndarray, remaining: ExemplarMemory
    ) -> nn.Module | None:
        """Return a head that equals, bit for bit, one fitted to the remaining rows.

        If the head has its sums, only the deleted rows are read, to subtract them.
        """
        import numpy as np

        sums = cast("Head", system.require_model()).sums
        if sums is None:
            return super().refit_head(system, ids, remaining)
        memory = system.require_memory()
        deleted_rows = memory.find_rows(np.unique(ids))
        deleted_keys = to_host(memory.keys[deleted_rows]).numpy()
        deleted_labels = to_host(memory.tokens[deleted_rows]).numpy()[:, 0].astype(int)
        remaining_sums = copy.deepcopy(sums)
        remaining_sums.add(deleted_keys, deleted_labels, sign=-1)
        return self.build_head(remaining_sums, self.get_architecture(system), remaining)


class LinearFamily(ClosedFormFamily[Settings]):
    """A closed-form linear head on keys or on features of keys."""

    def reads_rows(self, settings: Settings) -> bool:
        return cast("LdaSettings | NcmSettings", settings).temperature == "auto"

    def solve(self, sums: Sums, settings: Settings, rows: FittedRows | None) -> Head:
        settings = self.resolve_constants(settings, sums)
        if rows is not None:
            settings = self.calibrate(settings, sums, rows)
        return self.solve_linear(sums, settings)

    def resolve_constants(self, settings: Settings, sums: Sums) -> Settings:
        """Return the settings with each "auto" that the sums determine replaced by a number."""
        return settings

    @abstractmethod
    def solve_linear(self, sums: Sums, settings: Settings) -> Head:
        """Return a head computed from these sums. All settings are numbers."""

    def calibrate(self, settings: Settings, sums: Sums, rows: FittedRows) -> Settings:
        """Return the settings with each "auto" replaced by a number.

        The number is chosen by leave-one-out log loss.
        """
        from munkey.models.networks.calibration import calibrate_temperature

        temperature = calibrate_temperature(
            sums,
            rows.keys,
            rows.labels,
            partial(self.predict_left_out, settings),
            self.weigh_classes(settings, sums),
        )
        return settings.model_copy(update={"temperature": temperature})

    def weigh_classes(self, settings: Settings, sums: Sums) -> np.ndarray | None:
        """Return the weight of a row of each class (C,) in the loss; None if all are equal."""
        return None

    @abstractmethod
    def predict_left_out(
        self, settings: Settings, sums: Sums, keys: np.ndarray, labels: np.ndarray
    ) -> np.ndarray:
        """Return leave-one-out logits (N, C) of rows (N, d) in the sums, at temperature 1."""

    def build(  # type: ignore[override]
        self, architecture: FittedArchitecture, generator: torch.Generator | None
    ) -> nn.Module:
        """Build a head of zeros, which loading will replace."""
        import numpy as np

        from munkey.models.networks.closed_form import Head

        sums = self.make_sums(architecture)
        return Head(np.zeros_like(sums.class_sums), np.zeros_like(sums.counts), sums.features)


def read_labeled_rows(memory: ExemplarMemory) -> FittedRows:
    """Return the rows of a memory whose tokens are labels, as arrays on the host."""
    labels = to_host(memory.tokens).numpy()[:, 0].astype(int)
    return FittedRows(ids=memory.ids.numpy(), keys=to_host(memory.keys).numpy(), labels=labels)


@family
class LdaFamily(LinearFamily[LdaSettings]):
    name = "lda"
    title = "LDA"
    letter = "l"
    settings = LdaSettings
    tuned = ("alpha", "temperature")
    place = 5
    uses_outer_products = True

    def reads_rows(self, settings: LdaSettings) -> bool:
        return "auto" in (settings.alpha, settings.temperature)

    def list_constants(self, settings: LdaSettings) -> list[str]:
        constants = super().list_constants(settings)
        if isinstance(settings.priors, list):
            constants.append("priors")
        return constants

    def require_fixed_shrinkage(self, settings: LdaSettings) -> None:
        super().require_fixed_shrinkage(settings)
        if settings.priors is not None:
            raise ValueError("munkey.head: lda cannot have priors there; remove lda.priors")

    def select_classes(self, settings: LdaSettings, classes: np.ndarray) -> LdaSettings:
        if not isinstance(settings.priors, list):
            return settings
        priors = [settings.priors[label] for label in classes.tolist()]
        return settings.model_copy(update={"priors": priors})

    def weigh_classes(self, settings: LdaSettings, sums: Sums) -> np.ndarray | None:
        """Return the ratios of the classes' priors to their shares of the rows, if they differ.

        The loss is then that of queries whose classes occur as often as the priors say.
        """
        import numpy as np

        from munkey.models.networks.closed_form import compute_priors

        if settings.priors is None:
            return None
        present = sums.counts > 0
        weights = np.zeros(len(present))
        weights[present] = compute_priors(sums.counts, settings.priors) / sums.counts[present]
        return weights

    def calibrate(self, settings: LdaSettings, sums: Sums, rows: FittedRows) -> LdaSettings:
        from munkey.models.networks.calibration import calibrate_constant
        from munkey.models.networks.closed_form import predict_left_out_by_alpha

        if settings.alpha != "auto":
            return super().calibrate(settings, sums, rows)

        def predict_left_out(keys: np.ndarray, labels: np.ndarray) -> Iterator[np.ndarray]:
            return predict_left_out_by_alpha(sums, keys, labels, ALPHAS, settings.priors)

        fixed_temperature = None if settings.temperature == "auto" else settings.temperature
        alpha, temperature = calibrate_constant(
            sums,
            rows.keys,
            rows.labels,
            ALPHAS,
            predict_left_out,
            fixed_temperature,
            self.weigh_classes(settings, sums),
        )
        return settings.model_copy(update={"alpha": alpha, "temperature": temperature})

    def solve_linear(self, sums: Sums, settings: LdaSettings) -> Head:
        from munkey.models.networks.closed_form import fit_discriminant

        alpha = float(settings.alpha)  # a number, since `calibrate` has replaced "auto"
        head = fit_discriminant(sums, alpha, float(settings.temperature), settings.priors)
        head.constant = alpha
        return head

    def predict_left_out(
        self, settings: LdaSettings, sums: Sums, keys: np.ndarray, labels: np.ndarray
    ) -> np.ndarray:
        from munkey.models.networks.closed_form import predict_left_out

        return predict_left_out(sums, keys, labels, float(settings.alpha), settings.priors)

    def predict_leave_one_out(
        self, keys: np.ndarray, labels: np.ndarray, classes: int, settings: LdaSettings
    ) -> tuple[np.ndarray, float]:
        """Return leave-one-out logits (N, C) at temperature 1, and their best temperature."""
        from munkey.models.networks.closed_form import (
            find_best_temperature,
            predict_leave_one_out,
        )

        logits = predict_leave_one_out(keys, labels, classes, float(settings.alpha))
        return logits, find_best_temperature(logits, labels)


@family
class NcmFamily(LinearFamily[NcmSettings]):
    name = "ncm"
    title = "NCM"
    letter = "n"
    settings = NcmSettings
    tuned = ("temperature",)
    place = 4

    def solve_linear(self, sums: Sums, settings: NcmSettings) -> Head:
        from munkey.models.networks.closed_form import fit_nearest_mean

        return fit_nearest_mean(sums, float(settings.temperature))

    def predict_left_out(
        self, settings: NcmSettings, sums: Sums, keys: np.ndarray, labels: np.ndarray
    ) -> np.ndarray:
        from munkey.models.networks.calibration import predict_left_out_nearest_mean

        return predict_left_out_nearest_mean(sums, keys, labels)
