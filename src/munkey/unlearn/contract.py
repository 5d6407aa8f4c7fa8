"""The contract of an unlearning method, and the registry of methods.

A method is a function (system, request, settings) -> System. It

- returns a new system that shares no storage with its input, and leaves the input unchanged;
- draws random numbers only from `request.generator`;
- uses only the data that it declares in `needs`;
- measures accuracy only if its definition requires this, as SCRUB's rewinding does.

Snakemake imports every method's module for planning, so methods import torch inside the function.
docs/extending.md shows how to add a method.
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

Need = Literal[
    "forget images", "forget labels", "retain images", "retain labels", "val images", "val labels"
]


class TuningSettings(Section):
    """Settings of a method that fine-tunes.

    Parameters
    ----------
    lr_factor : float
        The learning rate as a multiple of `train.lr`. The paper searches 0.1 to 1 (app. B.2).
    """

    lr_factor: Positive


@dataclass(frozen=True)
class Tuning:
    """Fine-tuning settings that all methods share (app. B.2).

    Parameters
    ----------
    settings : FinetuneSettings
        The section `finetune`: epochs, batch size, AdamW's betas and weight decay.
    base_lr : float
        `train.lr`, the original's learning rate.
    augment : Augmentation
        The original's random crops in training.
    precision : str
        The original's number format in training.
    """

    settings: FinetuneSettings
    base_lr: float
    augment: "Augmentation"
    precision: str


@dataclass
class Request:
    """What a method may use to forget, and where it reports.

    Parameters
    ----------
    forget_ids : ndarray of int64, shape (n,)
        Ids of the samples to forget, in ascending order.
    generator : torch.Generator
        The only source of random numbers, on the CPU.
    device : str
        "cpu" or "cuda": the device of the system, on which the method computes.
    report : callable
        Prints a progress line to the job's log.
    needs : frozenset of str
        The data that the method declares.
    data : dict of str to ImageSet
        The sets "retain", "forget" and "val". Methods read them as properties of the request.
    recipe : Recipe, optional
        How the original was trained. None for a family that is not trained.
    finetuning : Tuning, optional
        How to fine-tune. None for a method without needs or with `finetunes=False`.
    history : list of dict
        Set by the method: one record per epoch.
    facts : dict
        Set by the method: any other values to record, as JSON.

    Raises
    ------
    PermissionError
        If a method uses data that it does not declare.

    Examples
    --------
    A method that only declares images cannot read their labels:

    >>> import torch
    >>> from munkey.data.image_set import ImageSet
    >>> pixels = np.zeros((4, 8, 8, 3), dtype=np.uint8)
    >>> samples = ImageSet(pixels, np.arange(4), ids=np.array([3, 5, 8, 9]), labels=np.arange(4))
    >>> request = Request(
    ...     forget_ids=samples.ids,
    ...     generator=torch.Generator(),
    ...     device="cpu",
    ...     report=print,
    ...     needs=frozenset({"forget images"}),
    ...     data={"forget": samples},
    ... )
    >>> len(request.forget)
    4
    >>> request.forget.labels[0]
    Traceback (most recent call last):
    PermissionError: this method uses the forget labels, but does not declare them: ...
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
        """How to fine-tune. Raises PermissionError for a method that does not fine-tune."""
        if self.finetuning is None:
            raise PermissionError(
                "this method fine-tunes, but does not declare that it needs any data"
            )
        return self.finetuning

    @property
    def retain(self) -> "ImageSet":
        """The retain set D_r, sorted by id."""
        return self._get_declared("retain")

    @property
    def forget(self) -> "ImageSet":
        """The forget set D_f, sorted by id."""
        return self._get_declared("forget")

    @property
    def val(self) -> "ImageSet":
        """The validation set, sorted by id."""
        return self._get_declared("val")

    def _get_declared(self, part: str) -> "ImageSet":
        """Return a part of the data, without undeclared images or labels."""
        declared: frozenset[str] = self.needs
        withheld = {}
        for kind in ("images", "labels"):
            if f"{part} {kind}" not in declared:
                withheld[kind] = WithheldData(part, kind)
        if len(withheld) == 2:
            raise PermissionError(
                f"this method uses the {part} set, but does not declare it:"
                f" its `needs` lack '{part} images' and '{part} labels'"
            )
        return replace(self.data[part], **withheld)  # type: ignore[arg-type]  # raises if used


class WithheldData:
    """A placeholder for undeclared images or labels. Any use raises PermissionError."""

    def __init__(self, part: str, kind: str) -> None:
        self.name = f"{part} {kind}"

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise PermissionError(
            f"this method uses the {self.name}, but does not declare them: add {self.name!r} to"
            " its `needs`"
        )

    __getitem__ = __iter__ = __len__ = __array__ = _refuse


class Images(NamedTuple):
    """Sizes of the sets that a method uses, and epochs and batch size of fine-tuning."""

    retain: int
    forget: int
    val: int
    epochs: int
    batch: int


# The number of forward passes over single images that a method takes. A backward pass counts as
# two, because it takes about twice the operations. An upper bound for a method that may stop early.
Passes = Callable[[Images, Any], float]  # Any: the method's own settings
SettingsT = TypeVar("SettingsT", bound=Section)
Run = Callable[[System, Request, SettingsT], System]


@dataclass(frozen=True)
class Method:
    """An entry of the registry of methods. The decorator `method` explains its fields."""

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

    def for_network(self, network: str) -> "Method":
        """Return the method for a `network` in params.yaml. By-design methods keep their family."""
        if not FAMILIES[self.family].is_network:
            return self
        return replace(self, family=network)

    def unlearn(self, system: System, request: Request, settings: Section) -> System:
        """Run the method. Raises TypeError if its function does not return a System."""
        unlearned = self.run(system, request, settings)
        if not isinstance(unlearned, System):
            raise TypeError(
                f"the method {self.name!r} ({self.run.__module__}) returned"
                f" {type(unlearned).__name__}, not the unlearned System: end it with"
                " `return finish(system, model)` or `return replace(system, model=model)`"
            )
        return unlearned

    @property
    def is_defined(self) -> bool:
        """Whether the method can start from its family."""
        return self.networks is None or self.family in self.networks

    @property
    def original(self) -> Family:
        """The family whose original the method starts from. Raises KeyError if it is unknown."""
        return FAMILIES[self.family]

    @property
    def storage(self) -> str:
        """A description of the data that a deployment must store to predict and to forget."""
        parts = {need.split()[0] for need in self.needs}
        if {"retain", "forget"} <= parts:  # together, these are the training set
            parts -= {"retain", "forget"}
            parts.add("training")
        stored = [self.original.holds]
        for part in sorted(parts):
            stored.append(f"{part} set")
        return ", ".join(stored)

    def count_passes(self, images: Images, settings: Section) -> float:
        """Count forward passes over single images. A backward pass counts as two."""
        if self.counted_passes:
            return self.counted_passes(images, settings)
        images_per_epoch = 0
        if "retain images" in self.needs:
            images_per_epoch += images.retain
        if "forget images" in self.needs:
            images_per_epoch += images.forget
        return 3 * images.epochs * images_per_epoch  # a forward and a backward pass


METHODS: Registry[Method] = Registry("method", "munkey.unlearn.methods")


def method(  # noqa: PLR0913  # keyword arguments read better than a record of facts
    name: str,
    *,
    title: str,
    description: str,
    family: str,
    settings: type[SettingsT] = Section,  # type: ignore[assignment]  # no settings
    needs: set[Need] | None = None,
    finetunes: bool = True,
    citation: str = "",
    in_paper: bool = False,
    passes: Passes | None = None,
    networks: set[str] | None = None,
    whole_classes: bool = False,
) -> Callable[[Run[SettingsT]], Run[SettingsT]]:
    """Register an unlearning method: a function (system, request, settings) -> System.

    Parameters
    ----------
    name : str
        Its name in `methods`, in its section `unlearn.NAME` in params.yaml, and of its file (with _
        instead of -).
    title : str
        Its name in the tables.
    description : str
        A short description for docs/methods.md.
    family : str
        The family whose original it starts from, and whose oracle it is compared with. For a
        post-hoc method, any network, such as "vit", which `network` in params.yaml replaces.
    settings : type, default Section
        A subclass of `Section` with its settings, or of `TuningSettings` if it fine-tunes.
    needs : set of str, optional
        Data that must still be stored to forget: "forget", "retain" or "val", with " images" or
        " labels". Using other data raises PermissionError.
    finetunes : bool, default True
        Whether it reads the section `finetune`. Always false for a method without needs.
    citation : str, default ""
        Authors, title, venue and year.
    in_paper : bool, default False
        Whether it is in the paper's tables.
    passes : callable, optional
        (Images, settings) -> number of forward passes over single images, for `munkey plan`. By
        default, the number for fine-tuning on all images that it needs.
    networks : set of str, optional
        The families that a post-hoc method supports. By default, all networks.
    whole_classes : bool, default False
        Whether it can only forget whole classes.

    Returns
    -------
    callable
        The decorator. It returns the function unchanged.

    Raises
    ------
    TypeError
        If `settings` is not a subclass of `Section`.
    ValueError
        If `needs` contains unknown data, or if the name is taken or cannot be part of a path.

    Examples
    --------
    A method that shrinks all weights, and needs no data:

    >>> from dataclasses import replace
    >>> from munkey.settings import Share
    >>> class ShrinkSettings(Section):
    ...     factor: Share
    >>> @method(
    ...     "shrink",
    ...     title="Shrink",
    ...     description="shrink all weights",
    ...     family="vit",
    ...     settings=ShrinkSettings,
    ... )
    ... def shrink(system, request, settings):
    ...     model = system.copy_model()
    ...     for parameter in model.parameters():
    ...         parameter.data.mul_(settings.factor)
    ...     return replace(system, model=model)
    >>> METHODS["shrink"].needs
    frozenset()
    >>> METHODS.remove("shrink")
    """
    if not issubclass(settings, Section):
        raise TypeError(
            f"method {name!r}: settings must be a subclass of munkey.settings.Section,"
            f" not {settings}"
        )
    unknown = set(needs or ()) - set(get_args(Need))
    if unknown:
        valid = ", ".join(get_args(Need))
        raise ValueError(f"method {name!r}: needs must be among {valid}, got {sorted(unknown)}")

    def register(run: Run[SettingsT]) -> Run[SettingsT]:
        entry = Method(
            name=name,
            title=title,
            description=description,
            family=family,
            run=run,  # type: ignore[arg-type]  # called with an instance of `settings`
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
