"""The contract of an unlearning method, and the registry of methods.

A method is a function (system, request, settings) -> System. It

- returns a new system that shares no storage with its input, and leaves the input untouched;
- draws random numbers only from `request.generator`;
- uses only the data that it declares in `needs`;
- measures accuracy only if it is defined by it, as SCRUB's rewinding is.

Snakemake imports the module of each method while it plans, so methods import torch inside the
function. docs/extending.md shows how to add one.
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
    """What all methods that fine-tune share (app. B.2).

    Parameters
    ----------
    settings : FinetuneSettings
        The section `finetune`: epochs, batch size, AdamW's betas and weight decay.
    base_lr : float
        `train.lr`, the original's learning rate.
    augment : Augmentation
        The random crops that the original was trained on.
    precision : str
        The number format that the original was trained in.
    """

    settings: FinetuneSettings
    base_lr: float
    augment: "Augmentation"
    precision: str


@dataclass
class Request:
    """What a method may use to forget, and where it reports to.

    Parameters
    ----------
    forget_ids : ndarray of int64, shape (n,)
        Ids of the samples to forget, in ascending order.
    generator : torch.Generator
        The only source of random numbers. It lies on the CPU.
    device : str
        "cpu" or "cuda": where the system lies, and where the method computes.
    report : callable
        Prints a line of progress into the job's log.
    needs : frozenset of str
        The data that the method declares.
    data : dict of str to ImageSet
        The sets "retain", "forget" and "val". Methods read them as properties of the request.
    recipe : Recipe, optional
        How the original was trained. None for a family that is not trained.
    finetuning : Tuning, optional
        How to fine-tune. None for a method that declares no needs or `finetunes=False`.
    history : list of dict
        Filled in by the method: its curve, one record for each epoch.
    facts : dict
        Filled in by the method: anything else worth recording, as JSON.

    Raises
    ------
    PermissionError
        If a method uses data that it does not declare.

    Examples
    --------
    A method that declares images may not look at their labels:

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
        """How to fine-tune. Raises PermissionError for a method that does not."""
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
        """Return a part of the data, without images or labels that the method did not declare."""
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
        return replace(self.data[part], **withheld)  # type: ignore[arg-type]  # refuses any use


class WithheldData:
    """Stands in for undeclared images or labels. Any use raises PermissionError."""

    def __init__(self, part: str, kind: str) -> None:
        self.name = f"{part} {kind}"

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise PermissionError(
            f"this method uses the {self.name}, but does not declare them: add {self.name!r} to"
            " its `needs`"
        )

    __getitem__ = __iter__ = __len__ = __array__ = _refuse


class Images(NamedTuple):
    """Sizes of the sets that a method works on, with the epochs and batch size of fine-tuning."""

    retain: int
    forget: int
    val: int
    epochs: int
    batch: int


# How many forward passes over single images a method makes; a backward pass counts as two, as it
# takes about twice the operations. An upper bound for a method that may stop early.
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
        """Return the method for this `network` of params.yaml.

        By-design methods keep their family.
        """
        if not FAMILIES[self.family].is_network:
            return self
        return replace(self, family=network)

    def unlearn(self, system: System, request: Request, settings: Section) -> System:
        """Run the method. Raises TypeError if its function returns anything but a System."""
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
        """The family whose original the method starts from. Raises KeyError for an unknown one."""
        return FAMILIES[self.family]

    @property
    def storage(self) -> str:
        """The data that a deployment must store to answer and to forget, in words."""
        parts = {need.split()[0] for need in self.needs}
        if {"retain", "forget"} <= parts:  # together, these are the training set
            parts -= {"retain", "forget"}
            parts.add("training")
        words = [self.original.holds]
        for part in sorted(parts):
            words.append(f"{part} set")
        return ", ".join(words)

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


def method(  # noqa: PLR0913  # each fact of a method by name, which reads better than a record
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
        Its name in `methods`, its section `unlearn.NAME` in params.yaml and its file, with _ for -.
    title : str
        Its row in the tables.
    description : str
        One line for docs/methods.md.
    family : str
        The family whose original it starts from, and whose oracle it is compared with. A post-hoc
        method names any network, such as "vit"; `network` in params.yaml decides.
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
        Whether the paper's tables have it.
    passes : callable, optional
        (Images, settings) -> number of forward passes over single images, for `munkey plan`. By
        default, that of fine-tuning on all images that it needs.
    networks : set of str, optional
        The families that a post-hoc method works on. By default, all networks.
    whole_classes : bool, default False
        Whether it can forget nothing but whole classes.

    Returns
    -------
    callable
        The decorator. It returns the function unchanged.

    Raises
    ------
    TypeError
        If `settings` is not a subclass of `Section`.
    ValueError
        If `needs` names unknown data, or if the name is taken or cannot be part of a path.

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
