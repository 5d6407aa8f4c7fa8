"""Unlearning methods: the registry and the contract. One file per method; the README shows how to add one.

A method is a function (system, request, settings) -> System. It returns a new system and leaves its input untouched,
draws only from `request.generator`, evaluates nothing, and reaches only for the data it declares in `needs`. Its module
is imported while Snakemake plans, so it imports torch inside the function.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict

from munkey.registry import Registry, import_all

if TYPE_CHECKING:
    import torch

    from munkey.images import ImageSet
    from munkey.system import System
    from munkey.train import History, Report, Tuning

Need = Literal["forget images", "forget labels", "retain images", "retain labels"]


class Settings(BaseModel):
    """A method's own section of `params.yaml`, unlearn.NAME: strict, without defaults."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


@dataclass
class Request:
    """What a method may use. Reaching for data that it does not declare raises PermissionError."""

    forget_ids: np.ndarray
    generator: "torch.Generator"
    device: str
    report: "Report"
    tuning: "Tuning | None"
    needs: frozenset[Need]
    data: "dict[str, ImageSet]" = field(repr=False)
    history: "History" = field(default_factory=list)

    @property
    def retain(self) -> "ImageSet":
        """D_r, sorted by id."""
        return self._of("retain")

    @property
    def forget(self) -> "ImageSet":
        """D_f, sorted by id."""
        return self._of("forget")

    def _of(self, part: str) -> "ImageSet":
        if f"{part} images" not in self.needs:
            raise PermissionError(f"this method reaches for the {part} set, but does not declare that it needs it")
        return self.data[part]


@dataclass(frozen=True)
class Method:
    """An entry of the registry. base: the original it starts from (`vit`, `munkey`) or `keys` for KNN.

    oracle: the row it is compared with, None where there is none. needs: data that must still be stored to forget.
    """

    name: str
    title: str
    description: str
    base: Literal["vit", "munkey", "keys"]
    oracle: Literal["retrain-t", "retrain-m"] | None
    needs: frozenset[Need]
    settings: type[Settings]
    run: "Callable[[System, Request, Any], System]"


METHODS: Registry[Method] = Registry("method")


def method(
    name: str,
    *,
    title: str,
    description: str,
    base: Literal["vit", "munkey", "keys"],
    oracle: Literal["retrain-t", "retrain-m"] | None,
    needs: set[Need] | None = None,
    settings: type[Settings] = Settings,
) -> "Callable[[Callable[[System, Request, Any], System]], Callable[[System, Request, Any], System]]":
    """Register an unlearning method. `name` is also its section in params and, by custom, its file."""

    def register(run: "Callable[[System, Request, Any], System]") -> "Callable[[System, Request, Any], System]":
        METHODS.add(name, Method(name, title, description, base, oracle, frozenset(needs or ()), settings, run))
        return run

    return register


import_all(__name__, __path__)
