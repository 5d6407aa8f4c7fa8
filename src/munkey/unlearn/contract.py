"""The contract of an unlearning method, and the registry of methods.

A method is a function (system, request, settings) -> System. It

- returns a new system that shares no storage with its input, and does not change its input;
- draws random numbers only from `request.generator`;
- uses only the data that it declares in `needs`;
- measures accuracy only if its definition requires this, as SCRUB's rewinding does;
- imports torch inside the function, because planning imports its module.
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
    """Settings of a fine-tuning method: `lr_factor`, the learning rate / `train.lr` (app. B.2)."""

    lr_factor: Positive


@dataclass(frozen=True)
class Tuning:
    """The settings that fine-tuning methods share (app. B.2).

    Parameters
    ----------
    settings : FinetuneSettings
        The section `finetune`.
    base_lr : float
        `train.lr`, the learning rate of the original.
    augment : Augmentation
        Random crops, as in the training of the original.
    precision : str
        Number format of matrix products, as in the training of the original.
    """

    settings: FinetuneSettings
    base_lr: float
    augment: "Augmentation"
    precision: str


@dataclass
class Request:
    """What a method receives besides the system: the ids to forget, and everything it may use.

    Parameters
    ----------
    forget_ids : ndarray of int64, shape (n,)
        Ids of the samples to forget, in ascending order.
    generator : torch.Generator
        The only source of random numbers, on the CPU.
    device : str
        Device of the system and of all computations, "cpu" or "cuda".
    report : callable
        Function that prints a line of progress to the job's log.
    needs : frozenset of str
        The data that the method declares.
    data : dict of str to ImageSet
        The sets "retain", "forget" and "val". Methods access them as properties of the request.
    recipe : Recipe, optional
        How the original was trained. None for a family that is not trained.
    finetuning : Tuning, optional
        How to fine-tune. None for a method without needs or with `finetunes=False`.
    history : list of dict
        A record for each epoch, which the method fills in.
    facts : dict
        Other facts worth recording, which the method fills in. They must be valid JSON.

    Raises
    ------
    PermissionError
        If a method uses data that it does not declare.

    Examples
    --------
    A method that declares only images cannot read their labels:

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
        """How to fine-tune. Raises PermissionError if `finetuning` is None."""
        if self.finetuning is None:
            raise PermissionError(
                "this method fine-tunes, but does not declare any `needs`, or has finetunes=False"
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

    def _get_declared(self, name: str) -> "ImageSet":
        """Return a set whose images or labels are declared. Raises PermissionError."""
        declared: frozenset[str] = self.needs
        withheld = {}
        for kind in ("images", "labels"):
            if f"{name} {kind}" not in declared:
                withheld[kind] = WithheldData(name, kind)
        if len(withheld) == 2:  # neither images nor labels are declared
            raise PermissionError(
                f"this method uses the {name} set, but does not declare it:"
                f" its `needs` lack '{name} images' and '{name} labels'"
            )
        return replace(self.data[name], **withheld)  # type: ignore[arg-type]


class WithheldData:
    """A placeholder for undeclared images or labels. Using it raises PermissionError."""

    def __init__(self, set_name: str, kind: str) -> None:
        self.name = f"{set_name} {kind}"

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise PermissionError(
            f"this method uses the {self.name}, but does not declare them: add {self.name!r} to"
            " its `needs`"
        )

    # All ways to read an array are refused.
    __getitem__ = __iter__ = __len__ = __array__ = _refuse


class Images(NamedTuple):
    """The number of images in each set, and the epochs and batch size of fine-tuning."""

    retain: int
    forget: int
    val: int
    epochs: int
    batch: int


# A function (images, settings) that returns how many forward passes of single images a method
# makes. A backward pass counts as two, since it takes about twice as many operations. For a method
# that may stop early, the number is an upper bound.
Passes = Callable[[Images, Any], float]
SettingsT = TypeVar("SettingsT", bound=Section)
Run = Callable[[System, Request, SettingsT], System]


@dataclass(frozen=True)
class Method:
    """An entry in the registry of methods. The decorator `method` describes its fields."""

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
        """Return the method for the setting `network` in params.yaml.

        Returns the method unchanged if it is not a post-hoc method.
        """
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
        """Whether the method supports its family."""
        return self.networks is None or self.family in self.networks

    @property
    def original(self) -> Family:
        """The family whose original the method starts from. Raises KeyError if it is unknown."""
        return FAMILIES[self.family]

    @property
    def storage(self) -> str:
        """What a deployment must store to predict and to forget, as the tables show it."""
        set_names = {need.split()[0] for need in self.needs}
        if {"retain", "forget"} <= set_names:  # together, these are the training set
            set_names -= {"retain", "forget"}
            set_names.add("training")
        stored = [self.original.holds]
        for name in sorted(set_names):
            stored.append(f"{name} set")
        return ", ".join(stored)

    def count_passes(self, images: Images, settings: Section) -> float:
        """Return the number of forward passes of single images. A backward pass counts as two."""
        if self.counted_passes:
            return self.counted_passes(images, settings)
        images_per_epoch = 0
        if "retain images" in self.needs:
            images_per_epoch += images.retain
        if "forget images" in self.needs:
            images_per_epoch += images.forget
        return 3 * images.epochs * images_per_epoch  # a forward and a backward pass


METHODS: Registry[Method] = Registry("method", "munkey.unlearn.methods")


def method(  # noqa: PLR0913  # keyword arguments read better than a record here
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
        Name in `methods` and of the section `unlearn.NAME` in params.yaml. The file has the same
        name, with _ instead of -.
    title : str
        Name in the tables.
    description : str
        One line for docs/methods.md.
    family : str
        Family whose original it starts from, and whose oracle it is compared with. For a post-hoc
        method, pass any network, such as "vit"; the setting `network` in params.yaml replaces it.
    settings : type, default Section
        Subclass of `Section` for its settings, or of `TuningSettings` if it fine-tunes.
    needs : set of str, optional
        Data that must be available to forget, such as "forget images": one of "forget", "retain"
        and "val", followed by "images" or "labels". Using other data raises PermissionError.
    finetunes : bool, default True
        Whether it reads the section `finetune`. Always False for a method without needs.
    citation : str, default ""
        Authors, title, venue, and year.
    in_paper : bool, default False
        Whether it is in the paper's tables.
    passes : callable, optional
        Function ``passes(images, settings)`` that returns the number of forward passes of single
        images, for `munkey plan`. By default, the passes of fine-tuning on the retain and forget
        images that the method needs.
    networks : set of str, optional
        Networks that a post-hoc method supports. By default, all networks.
    whole_classes : bool, default False
        Whether it can only forget whole classes.

    Returns
    -------
    callable
        The decorator.

    Raises
    ------
    TypeError
        If `settings` is not a subclass of `Section`.
    ValueError
        If `needs` contains unknown data, or if the name is already registered or cannot be part of
        a path.

    Examples
    --------
    A method that shrinks all weights and needs no data:

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
    unknown_needs = set(needs or ()) - set(get_args(Need))
    if unknown_needs:
        valid_needs = ", ".join(get_args(Need))
        raise ValueError(
            f"method {name!r}: needs must be among {valid_needs}, got {sorted(unknown_needs)}"
        )

    def register(run: Run[SettingsT]) -> Run[SettingsT]:
        entry = Method(
            name=name,
            title=title,
            description=description,
            family=family,
            run=run,  # type: ignore[arg-type]  # always called with an instance of `settings`
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
