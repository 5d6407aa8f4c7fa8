"""Unlearning methods: the registry and the contract. One file per method; the README shows how to add one.

A method is a function (system, request, settings) -> System. It returns a new system that shares no storage with its
input, which stays untouched; draws only from `request.generator`; measures nothing but what it is defined by (SCRUB's
rewinding); and reaches only for the data it declares in `needs`. Its module is imported while Snakemake plans, so it
imports torch inside the function.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from munkey.registry import Registry, import_all

if TYPE_CHECKING:
    import torch

    from munkey.images import ImageSet
    from munkey.system import System
    from munkey.train import History, Recipe, Report, Tuning

Need = Literal["forget images", "forget labels", "retain images", "retain labels", "val images", "val labels"]
Base = Literal["vit", "munkey", "sisa", "keys"]
Oracle = Literal["retrain-t", "retrain-m", "retrain-s"]
Count = Annotated[int, Field(ge=1)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Share = Annotated[float, Field(gt=0, le=1)]


class Settings(BaseModel):
    """A method's own section of `params.yaml`, unlearn.NAME: strict, without defaults."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Tuned(Settings):
    """Settings of a method that fine-tunes. lr_factor: its constant learning rate / train.lr (app. B.2)."""

    lr_factor: Positive


@dataclass
class Request:
    """What a method may use. Reaching for data that it does not declare raises PermissionError.

    tuning: how to fine-tune; recipe: how the original was trained, for SISA. A method writes its curve by epoch into
    `history`, and what else is worth reporting into `facts` (JSON).
    """

    forget_ids: np.ndarray
    generator: "torch.Generator"
    device: str
    report: "Report"
    tuning: "Tuning | None"
    needs: frozenset[Need]
    data: "dict[str, ImageSet]" = field(repr=False)
    recipe: "Recipe | None" = None
    history: "History" = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def retain(self) -> "ImageSet":
        """D_r, sorted by id."""
        return self._of("retain")

    @property
    def forget(self) -> "ImageSet":
        """D_f, sorted by id."""
        return self._of("forget")

    @property
    def val(self) -> "ImageSet":
        """The validation set, sorted by id."""
        return self._of("val")

    def _of(self, part: str) -> "ImageSet":
        needs: frozenset[str] = self.needs
        kinds = [kind for kind in ("images", "labels") if f"{part} {kind}" not in needs]
        withheld: dict[str, Any] = {kind: Withheld(part, kind) for kind in kinds}
        if len(withheld) == 2:
            raise PermissionError(f"this method reaches for the {part} set, but does not declare that it needs it")
        return replace(self.data[part], **withheld)


class Withheld:
    """Stands for images or labels that a method did not declare: whatever is done with it raises PermissionError."""

    def __init__(self, part: str, kind: str) -> None:
        self.what = f"{part} {kind}"

    def _refuse(self, *_: object, **__: object) -> Any:
        raise PermissionError(f"this method reaches for the {self.what}, but does not declare that it needs them")

    __getitem__ = __iter__ = __len__ = __array__ = _refuse


@dataclass(frozen=True)
class Method:
    """An entry of the registry. base: the original it starts from (`vit`, `munkey`, `sisa`) or `keys` for KNN.

    citation: authors and year. oracle: the row it is compared with, None where there is none. needs: data that must
    still be stored to forget. in_paper: whether the paper's tables have it. latex_title: its title where plain unicode
    does not do.
    """

    name: str
    title: str
    description: str
    citation: str
    base: Base
    oracle: Oracle | None
    needs: frozenset[Need]
    settings: type[Settings]
    in_paper: bool
    latex_title: str
    run: "Callable[[System, Request, Any], System]"


METHODS: Registry[Method] = Registry("method")


def method(
    name: str,
    *,
    title: str,
    description: str,
    citation: str,
    base: Base,
    oracle: Oracle | None,
    needs: set[Need] | None = None,
    settings: type[Settings] = Settings,
    in_paper: bool = True,
    latex_title: str | None = None,
) -> "Callable[[Callable[[System, Request, Any], System]], Callable[[System, Request, Any], System]]":
    """Register an unlearning method. `name` is also its section in params and, with _ for -, by custom its file."""

    def register(run: "Callable[[System, Request, Any], System]") -> "Callable[[System, Request, Any], System]":
        entry = Method(
            name=name,
            title=title,
            description=description,
            citation=citation,
            base=base,
            oracle=oracle,
            needs=frozenset(needs or ()),
            settings=settings,
            in_paper=in_paper,
            latex_title=latex_title or title,
            run=run,
        )
        METHODS.add(name, entry)
        return run

    return register


import_all(__name__, __path__)
