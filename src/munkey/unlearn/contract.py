"""The contract of an unlearning method, and the registry of methods. docs/extending.md shows how to add one.

A method is a function (system, request, settings) -> System. It returns a new system that shares no storage with its
input, which stays untouched; draws only from `request.generator`; measures nothing but what it is defined by (SCRUB's
rewinding); and uses only the data it declares in `needs`. Its module is imported while Snakemake plans, so it
imports torch inside the function.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, NoReturn, TypeVar, get_args

import numpy as np

from munkey.core.console import Report
from munkey.core.registry import Registry
from munkey.models.family import FAMILIES, Family, Recipe, System
from munkey.settings import FinetuneSettings, Positive, Section

if TYPE_CHECKING:
    import torch

    from munkey.data.augment import Augmentation
    from munkey.data.image_set import ImageSet
    from munkey.training.checkpoint import History

Need = Literal["forget images", "forget labels", "retain images", "retain labels", "val images", "val labels"]


class Tuned(Section):
    """Settings of a method that fine-tunes. lr_factor: its constant learning rate / train.lr (app. B.2)."""

    lr_factor: Positive


@dataclass(frozen=True)
class Tuning:
    """What methods that fine-tune share with each other, and with the training of the original (app. B.2)."""

    settings: FinetuneSettings
    base_lr: float
    augment: "Augmentation"
    precision: str


@dataclass
class Request:
    """What a method may use. Using data that it does not declare raises PermissionError.

    recipe: how the original was trained, None where it was not; finetuning: how to fine-tune, None for a method that
    does not (it declares no needs, or finetunes=False). A method writes its curve by epoch into `history`, and what
    else is worth reporting into `facts` (JSON).
    """

    forget_ids: np.ndarray
    generator: "torch.Generator"
    device: str
    report: Report
    needs: frozenset[Need]
    data: "dict[str, ImageSet]" = field(repr=False)
    recipe: Recipe | None = None
    finetuning: Tuning | None = None
    history: "History" = field(default_factory=list)
    facts: dict[str, object] = field(default_factory=dict)

    @property
    def tuning(self) -> Tuning:
        """How to fine-tune. Raises PermissionError for a method that declares no needs, or finetunes=False."""
        if self.finetuning is None:
            raise PermissionError("this method fine-tunes, but does not declare that it needs any data")
        return self.finetuning

    @property
    def retain(self) -> "ImageSet":
        """D_r, sorted by id."""
        return self._declared("retain")

    @property
    def forget(self) -> "ImageSet":
        """D_f, sorted by id."""
        return self._declared("forget")

    @property
    def val(self) -> "ImageSet":
        """The validation set, sorted by id."""
        return self._declared("val")

    def _declared(self, part: str) -> "ImageSet":
        """A part of the data, with a stand-in for the images or labels that the method did not declare."""
        needs: frozenset[str] = self.needs
        withheld = {kind: Withheld(part, kind) for kind in ("images", "labels") if f"{part} {kind}" not in needs}
        if len(withheld) == 2:
            raise PermissionError(
                f"this method uses the {part} set, but does not declare it: its `needs` lack '{part} images' and"
                f" '{part} labels'"
            )
        return replace(self.data[part], **withheld)  # type: ignore[arg-type]  # refuses whatever is done with it


class Withheld:
    """In place of images or labels that a method did not declare: whatever is done with it raises PermissionError."""

    def __init__(self, part: str, kind: str) -> None:
        self.what = f"{part} {kind}"

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise PermissionError(
            f"this method uses the {self.what}, but does not declare them: add {self.what!r} to its `needs`"
        )

    __getitem__ = __iter__ = __len__ = __array__ = _refuse


class Images(NamedTuple):
    """How many images a method works on, for how many epochs of fine-tuning, how many in a batch."""

    retain: int
    forget: int
    val: int
    epochs: int
    batch: int


# Forward passes that a method makes over its images; a backward pass counts as two. At most, if it stops early.
Passes = Callable[[Images, Any], float]  # Any: the method's own settings
SomeSettings = TypeVar("SomeSettings", bound=Section)
Run = Callable[[System, Request, SomeSettings], System]


@dataclass(frozen=True)
class Method:
    """An entry of the registry.

    family: name of the family whose original it starts from; the oracle of that family is what it is compared with. A
    post-hoc method's is the one that `network` in params.yaml names. networks: for which of these it is defined.
    needs: data that must still be stored to forget. finetunes: whether it depends on the section `finetune` of
    params.yaml. citation: authors, title, venue and year. in_paper: whether the paper's tables have it. counted_passes:
    for `munkey plan`; None: those of fine-tuning on all images that it needs.
    """

    name: str
    title: str
    description: str
    family: str
    run: Callable[[System, Request, Section], System]
    settings: type[Section]
    needs: frozenset[Need]
    finetunes: bool
    citation: str
    in_paper: bool
    counted_passes: Passes | None = None
    networks: frozenset[str] | None = None
    whole_classes: bool = False

    def on(self, network: str) -> "Method":
        """The method as it is where post-hoc methods start from this family."""
        return replace(self, family=network) if FAMILIES[self.family].is_network else self

    def forgotten(self, system: System, request: Request, settings: Section) -> System:
        """What the method leaves of a system. Raises TypeError where it returns anything else than a System."""
        remaining = self.run(system, request, settings)
        if not isinstance(remaining, System):
            raise TypeError(
                f"the method {self.name!r} ({self.run.__module__}) returned {type(remaining).__name__}, not the System"
                " that is left: end it with `return finished(system, model)` or `return replace(system, model=model)`"
            )
        return remaining

    @property
    def is_defined(self) -> bool:
        """Whether it may start from this family."""
        return self.networks is None or self.family in self.networks

    @property
    def original(self) -> Family:
        """The family whose original it starts from. Raises KeyError for an unknown one."""
        return FAMILIES[self.family]

    @property
    def stored(self) -> str:
        """What must be kept to answer and to forget, in words."""
        parts = {need.split()[0] for need in self.needs}
        if parts >= {"retain", "forget"}:
            parts = parts - {"retain", "forget"} | {"training"}
        return ", ".join([self.original.holds, *(f"{part} set" for part in sorted(parts))])

    def passes(self, images: Images, settings: Section) -> float:
        """Forward passes over its images, of which a backward pass counts two."""
        if self.counted_passes:
            return self.counted_passes(images, settings)
        used = images.retain * ("retain images" in self.needs) + images.forget * ("forget images" in self.needs)
        return 3 * images.epochs * used


METHODS: Registry[Method] = Registry("method", "munkey.unlearn.methods")


def method(  # noqa: PLR0913  # the facts of a method, each by name
    name: str,
    *,
    title: str,
    description: str,
    family: str,
    settings: type[SomeSettings] = Section,  # type: ignore[assignment]  # for a method without settings of its own
    needs: set[Need] | None = None,
    finetunes: bool = True,
    citation: str = "",
    in_paper: bool = False,
    passes: Passes | None = None,
    networks: set[str] | None = None,
    whole_classes: bool = False,
) -> Callable[[Run[SomeSettings]], Run[SomeSettings]]:
    """Register an unlearning method. `name` is also its section in params.yaml and, with _ for -, its file.

    networks: of a post-hoc method, the families for which it is defined; None: all. whole_classes: it forgets nothing
    else. passes: how many forward passes it makes, for `munkey plan`.
    """

    if not issubclass(settings, Section):
        raise TypeError(f"method {name!r}: settings must be a subclass of munkey.settings.Section, not {settings}")
    unknown = set(needs or ()) - set(get_args(Need))
    if unknown:
        raise ValueError(f"method {name!r} needs {sorted(unknown)}; there are: {', '.join(get_args(Need))}")

    def register(run: Run[SomeSettings]) -> Run[SomeSettings]:
        entry = Method(
            name=name,
            title=title,
            description=description,
            family=family,
            run=run,  # type: ignore[arg-type]  # it is handed the settings that it declares
            settings=settings,
            needs=frozenset(needs or ()),
            finetunes=finetunes and bool(needs),
            citation=citation,
            in_paper=in_paper,
            counted_passes=passes,
            networks=frozenset(networks) if networks else None,
            whole_classes=whole_classes,
        )
        METHODS.add(name, entry)
        return run

    return register
