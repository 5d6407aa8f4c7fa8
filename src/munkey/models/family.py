"""The interface of a family of models: its names, its training and its answers.

Each file in `models/families` adds a family.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from statistics import median
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, NoReturn, cast

from typing_extensions import TypeVar

from munkey.core.console import Report
from munkey.core.device import to_device, to_host
from munkey.core.randomness import Stage
from munkey.core.registry import Registry
from munkey.settings import DataSettings, InferenceSettings, ModelSettings, Section, TrainSettings

if TYPE_CHECKING:
    import numpy as np
    import torch
    from torch import nn

    from munkey.data.image_set import ImageSet
    from munkey.encoders.keys import Keys
    from munkey.memory.exemplars import ExemplarMemory
    from munkey.memory.neighbors import Neighbors
    from munkey.memory.sums import Sums
    from munkey.training.checkpoint import CheckpointFile, History

# A family's own section of params.yaml. In place of one, a family without a section has None.
Settings = TypeVar("Settings", bound=Section, default=Any)


@dataclass(frozen=True)
class Architecture:
    """The sizes that build a model, stored with its weights. A family adds its own fields."""

    classes: int

    def differing(self, other: Architecture) -> list[str]:
        """How `other` differs, field by field. A field that is None here is not known and agrees with everything."""
        expected = {field.name: getattr(self, field.name) for field in fields(self)}
        return [
            f"{name} is {getattr(other, name, None)}, expected {value}"
            for name, value in sorted(expected.items())
            if value is not None and getattr(other, name, None) != value
        ]


@dataclass(frozen=True)
class FittedArchitecture(Architecture):
    """Architecture of a fitted family: the length of a key, and the family's own section of params.yaml."""

    key_dim: int
    settings: Mapping[str, float | int | str]


@dataclass(frozen=True)
class System:
    """What answers queries: the weights, the exemplar memory, or both, of a model of a family."""

    family: str
    architecture: Architecture
    model: nn.Module | None
    memory: ExemplarMemory | None = None

    def weights(self) -> nn.Module:
        """The model. Raises ValueError where there is none."""
        if self.model is None:
            raise ValueError(f"a system of the family {self.family} has no weights")
        return self.model

    def copy_of_model(self) -> nn.Module:
        """A deep copy of the weights, for methods that change them: this system stays as it is."""
        return copy.deepcopy(self.weights())

    def rows(self) -> ExemplarMemory:
        """The memory. Raises ValueError where there is none."""
        if self.memory is None:
            raise ValueError(f"a system of the family {self.family} has no memory")
        return self.memory

    def on(self, device: str) -> System:
        """The same on a device."""
        memory = self.memory
        if memory is not None:
            memory = replace(
                memory, keys=to_device(memory.keys, device), tokens=to_device(memory.tokens, device)
            )
        return replace(self, memory=memory, model=self.model and self.model.to(device))


@dataclass(frozen=True)
class Recipe(Generic[Settings]):
    """How a model is trained. model: of a ViT of ours; family: the family's own section, if it has one; stage: the root
    of all randomness.

    alpha: of LDA's head, where the family's section wants one.
    """

    data: DataSettings
    model: ModelSettings | None
    train: TrainSettings
    family: Settings
    stage: Stage
    alpha: float | None = None


@dataclass(frozen=True)
class MemberKeys:
    """What a family with a memory needs of its training samples. keys: (N, d); neighbors: of each, without itself."""

    keys: np.ndarray
    neighbors: Neighbors


Watch = Callable[[int, System], None]


@dataclass(frozen=True)
class Training(Generic[Settings]):
    """A training to run. samples: sorted by id; members: for a family with a memory.

    watch: called with 0 before the first epoch and with the number of each epoch after it; it must change nothing. Not
    called for epochs before a checkpoint from which the training resumes.
    checkpoint: where a killed training resumes from; the caller removes it once the result is safe.
    """

    samples: ImageSet
    classes: int
    recipe: Recipe[Settings]
    device: str
    report: Report = print
    members: MemberKeys | None = None
    checkpoint: CheckpointFile | None = None
    watch: Watch | None = None


class TrainingResult(NamedTuple):
    """The result of a training: the system, and its curves by epoch."""

    system: System
    history: History


@dataclass(frozen=True)
class Learner:
    """A system that learns: its weights, and the tokens of its memory, change in place.

    answer(images, index): logits of a batch of crops (B, 3, S, S) at these positions of the samples; generators: those
    that it draws from.
    """

    system: System
    answer: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
    generators: Sequence[torch.Generator] = ()

    def parameters(self) -> list[nn.Parameter]:
        """The weights, then the tokens."""
        tokens = [cast("nn.Parameter", self.system.memory.tokens)] if self.system.memory else []
        return [*self.system.weights().parameters(), *tokens]


@dataclass(frozen=True)
class Retrieval:
    """What a memory is asked with. neighbors: of each sample that is to be answered, (S, >= K).

    settings: for a family that reads the section `inference`; keys: of these samples, (S, d), for a family or a head
    that answers from them.
    """

    neighbors: Neighbors | None
    settings: InferenceSettings | None = None
    keys: np.ndarray | None = None


class Family(ABC, Generic[Settings]):
    """A kind of model: how to build, train and query it.

    Subclass it, set the class attributes, implement the abstract methods, and decorate the class
    with ``family`` (docs/extending.md). A family whose model follows from keys and labels is a
    ``FittedFamily``.

    Parameters
    ----------
    Settings : subclass of Section, optional
        Type parameter, as in ``Family[MySettings]``: the family's section of params.yaml. All
        other parameters are class attributes, which a subclass sets.
    name : str
        Name of the family, and of its section in params.yaml.
    title : str
        Name in tables and figures.
    letter : str
        Names the original, ``original-LETTER``, and the oracle, ``retrain-LETTER``.
    settings : type of Section, optional
        Class of the family's section. None for a family without a section.
    learns : bool, default True
        Whether it is trained in epochs, from images.
    exact : bool, default False
        Whether deleting rows gives the oracle, bit for bit.
    has_memory : bool, default False
        Whether a system has an exemplar memory.
    asks_keys : bool, default False
        Whether it answers from a sample's key and needs no neighbors.
    has_pathways : bool, default False
        Whether the image and the token can each be dropped. Ablations and the selection of
        p_image and p_token apply to such a family.
    in_every_run : bool, default False
        Whether a run trains it even if no method starts from it.
    is_network : bool, default False
        Whether ``network`` in params.yaml may name it. Post-hoc methods then start from it.
    place : int, default 9
        Position of its rows in the tables.
    reads_inference : bool, default False
        Whether its answers depend on the section ``inference`` of params.yaml.
    holds : str, default "weights"
        What a system stores, in words, for the tables.

    Raises
    ------
    ValueError
        By the decorator ``family``, if another family has the same letter.

    Notes
    -----
    ``train`` must draw all random numbers from ``training.recipe.stage``, so that the same settings
    give the same weights. ``logits`` returns float32 of shape (S, C), for S samples and C classes;
    images arrive as float32 of shape (B, 3, H, W) in [0, 1]. ``epoch_seconds`` is in seconds.
    Planning imports the module of each family, so methods import torch inside.

    MUNKEY's family, ``munkey.models.families.munkey``, implements sec. 3.2 of the paper; the plain
    ViT of app. B.3, ``munkey.models.families.vit``, is the shortest example.

    Examples
    --------
    A family that answers every sample with the most frequent label of its training set:

    >>> import numpy as np
    >>> class Majority(Family):
    ...     name = "majority"
    ...     title = "Majority"
    ...     letter = "z"
    ...
    ...     def architecture(self, recipe, classes, key_dim=None):
    ...         return Architecture(classes)
    ...
    ...     def stored_architecture(self, stored):
    ...         return Architecture(**stored)
    ...
    ...     def build(self, architecture, generator):
    ...         from torch import nn
    ...
    ...         return nn.Linear(1, architecture.classes)
    ...
    ...     def train(self, training):
    ...         import torch
    ...
    ...         architecture = Architecture(training.classes)
    ...         model = self.build(architecture, None)
    ...         counts = np.bincount(training.samples.labels, minlength=training.classes)
    ...         model.bias.data = torch.from_numpy(counts).float()
    ...         return TrainingResult(System(self.name, architecture, model), history=[])
    ...
    ...     def logits(self, system, samples, data, device, retrieval):
    ...         bias = system.weights().bias.detach().numpy()
    ...         return np.tile(bias, (len(samples), 1))
    >>> majority = Majority()
    >>> majority.original, majority.oracle
    ('original-z', 'retrain-z')

    Two pictures of class 1 and one of class 0, 8 by 8 pixels:

    >>> from munkey.data.image_set import ImageSet
    >>> pixels = np.zeros((3, 8, 8, 3), dtype=np.uint8)
    >>> samples = ImageSet(pixels, np.arange(3), ids=np.arange(3), labels=np.array([1, 0, 1]))
    >>> training = Training(samples, classes=2, recipe=None, device="cpu")
    >>> trained = majority.train(training)
    >>> majority.logits(trained.system, samples, None, "cpu", None).argmax(axis=1)
    array([1, 1, 1])
    """

    name: str
    title: str
    letter: str
    settings: type[Settings] | None = None
    learns = True
    exact = False
    has_memory = False
    asks_keys = False
    has_pathways = False
    in_every_run = False
    is_network = False
    place = 9
    reads_inference = False
    holds = "weights"

    @property
    def original(self) -> str:
        """The name of the system that is trained on D."""
        return f"original-{self.letter}"

    @property
    def oracle(self) -> str:
        """The name of the system that is trained on D_r alone."""
        return f"retrain-{self.letter}"

    @property
    def original_title(self) -> str:
        """What every table and figure calls the original."""
        return f"Original ({self.letter.upper()})"

    @property
    def oracle_title(self) -> str:
        """What every table and figure calls the oracle."""
        return f"Retrain ({self.letter.upper()})"

    @property
    def sections(self) -> list[str]:
        """The sections of params.yaml that its training depends on."""
        return [
            *(["data", "model", "train"] if self.learns else []),
            *([self.name] if self.settings else []),
        ]

    def section(self, sections: Mapping[str, object]) -> Settings:
        """The family's own section of params.yaml; None for a family without one."""
        return self.checked(sections[self.name]) if self.settings else cast("Settings", None)

    def checked(self, section: object) -> Settings:
        """A section of this family, as `Section.typed` makes it."""
        assert self.settings is not None
        return self.settings.typed(section)

    def recipe(
        self,
        sections: Mapping[str, object],
        stage: Stage,
        selected: Mapping[str, float] | None = None,
    ) -> Recipe[Settings]:
        """A recipe from the sections of params.yaml named by `sections`.

        selected: knobs of the family's own section that the selection chose; they replace those of params.yaml.
        """
        family_section = self.section(sections)
        if selected:
            family_section = self.checked({**dict(family_section), **selected})
        return Recipe(
            DataSettings.typed(sections["data"]),
            ModelSettings.typed(sections["model"]) if "model" in self.sections else None,
            self.training(TrainSettings.typed(sections["train"]), family_section),
            family_section,
            stage,
        )

    def training(self, train: TrainSettings, own: Settings) -> TrainSettings:
        """The section `train` as it holds for this family. own: its own section."""
        return train

    def weights(self, own: Settings) -> str | None:
        """What tells the weights that its training starts from, and that no setting describes, from others."""
        return None

    def stage(self, seed: object, dataset: str, subset: str) -> Stage:
        """The root of the randomness of a training. subset: `full`, or the rate that is left out, e.g. `rate0.1`."""
        return Stage(seed, dataset, subset, self.name)

    def neighbors_read(self, settings: Settings) -> dict[str, int]:
        """How many neighbors of a sample its training reads, by the key of params.yaml that says so."""
        return {}

    def borrows(self, settings: Settings) -> Sequence[str]:
        """Sections of other families that a training with these settings depends on. Its answers then need keys."""
        return ()

    def retrieval(
        self, neighbors: Neighbors, inference: object, keys: np.ndarray | None = None
    ) -> Retrieval:
        """How its memory is asked. inference: the section, of which only some families read anything."""
        settings = InferenceSettings.typed(inference) if self.reads_inference else None
        return Retrieval(neighbors, settings, keys)

    def epoch_seconds(self, history: History, recipe: Recipe[Settings]) -> float:
        """The wall time of a typical epoch."""
        return median(epoch["seconds"] for epoch in history)

    @abstractmethod
    def architecture(
        self, recipe: Recipe[Settings], classes: int, key_dim: int | None = None
    ) -> Architecture:
        """Describe the model that a recipe trains.

        Parameters
        ----------
        recipe : Recipe
            How the model is trained.
        classes : int
            Number of classes.
        key_dim : int, optional
            Length of a key, if known.

        Returns
        -------
        Architecture
            Everything that ``build`` needs. It is stored with the weights.
        """

    @abstractmethod
    def stored_architecture(self, stored: Mapping[str, object]) -> Architecture:
        """Restore an architecture from the fields in a stored model's file.

        Parameters
        ----------
        stored : mapping of str to object
            The fields of an architecture, by name.

        Returns
        -------
        Architecture
        """

    @abstractmethod
    def build(self, architecture: Architecture, generator: torch.Generator | None) -> nn.Module:
        """Build a model.

        Parameters
        ----------
        architecture : Architecture
            As ``architecture`` or ``stored_architecture`` returned it.
        generator : torch.Generator or None
            Source of the fresh weights. None if stored weights will replace them.

        Returns
        -------
        torch.nn.Module
        """

    @abstractmethod
    def train(self, training: Training[Settings]) -> TrainingResult:
        """Train a model from fresh weights.

        Parameters
        ----------
        training : Training
            The samples, the recipe, the device, and where to report.

        Returns
        -------
        TrainingResult
            The system, and one record for each epoch.
        """

    def resumed(self, system: System, training: Training[Settings]) -> Learner:
        """A copy of a system, to be trained further on `training.samples`; of its memory, the rows of these alone."""
        model = system.copy_of_model()
        return Learner(replace(system, model=model), lambda images, _: model(images))

    def extended(
        self, system: System, added: Keys, labels: np.ndarray, inference: InferenceSettings | None
    ) -> System:
        """The system with new samples in its memory, without training; as it is, for a family without a memory.

        added: their keys; labels: (n,); inference: how a memory is asked.
        """
        return system

    @abstractmethod
    def logits(
        self,
        system: System,
        samples: ImageSet,
        data: DataSettings,
        device: str,
        retrieval: Retrieval | None,
    ) -> np.ndarray:
        """Answer samples.

        Parameters
        ----------
        system : System
            A system of this family.
        samples : ImageSet
            The S samples to answer.
        data : DataSettings
            The section ``data``: image size and normalization.
        device : str
            "cpu" or "cuda".
        retrieval : Retrieval or None
            The samples' neighbors or keys, for a family with a memory.

        Returns
        -------
        ndarray of float32, shape (S, C)
            Logits, in the order of the samples.
        """

    def cut_logits(
        self, system: System, samples: ImageSet, data: DataSettings, device: str
    ) -> dict[str, np.ndarray]:
        """For a family with pathways, logits (N, C) of the memory's members: `image`, `token` or `both` at work."""
        return {}

    def path_logits(
        self,
        system: System,
        samples: ImageSet,
        data: DataSettings,
        device: str,
        retrieval: Retrieval,
    ) -> dict[str, np.ndarray]:
        """For a family with pathways, logits (S, C) of any samples asked in other ways than it is deployed, by name."""
        return {}

    def features(
        self, system: System, samples: ImageSet, data: DataSettings, device: str
    ) -> np.ndarray:
        """For a family with pathways, [CLS] before the head (N, width) of the memory's members."""
        raise TypeError(
            f"a model of the family {self.name} has no memory whose members could be read"
        )


class FittedRows(NamedTuple):
    """Rows that a family is fitted to. ids: (N,) ascending; keys: (N, d) float32; labels: (N,)."""

    ids: np.ndarray
    keys: np.ndarray
    labels: np.ndarray


class FittedFamily(Family[Settings]):
    """A family that is a function of keys, labels and its section of params.yaml: no epochs, no seed if it is exact.

    Its memory holds the keys, and the labels as tokens (N, 1). tried: the values of its section that `munkey
    search-fitted` combines; most_rows: that it can be fitted to, if time or memory bound them; most_rows_instead: the
    families for more; tuned: the constants of its section that are chosen on data.
    """

    learns = False
    exact = True
    has_memory = True
    holds = "keys, labels"
    tried: Sequence[tuple[str, Sequence[object]]] = ()
    most_rows: int | None = None
    most_rows_instead = ""
    tuned: Sequence[str] = ()

    def fitted(
        self,
        members: Keys,
        labels: np.ndarray,
        classes: int,
        settings: Settings,
        stage: Stage | None = None,
    ) -> System:
        """A system of the training samples' keys and labels (N,). stage: for a family that draws."""
        import torch

        from munkey.memory.exemplars import ExemplarMemory

        architecture = FittedArchitecture(classes, members.keys.shape[1], settings.model_dump())
        tokens = torch.from_numpy(labels).float()[:, None]
        memory = ExemplarMemory(
            torch.from_numpy(members.ids), torch.from_numpy(self.stored(members.keys)), tokens
        )
        return System(self.name, architecture, self.head(architecture, memory), memory)

    def forget(self, system: System, ids: np.ndarray) -> System:
        """The system without these samples. Raises KeyError for an id that it does not hold."""
        remaining = system.rows().forget(ids)
        return replace(system, memory=remaining, model=self.head_without(system, ids, remaining))

    def head_without(
        self, system: System, ids: np.ndarray, remaining: ExemplarMemory
    ) -> nn.Module | None:
        """The weights that follow from the rows that remain when those of `ids` have left a system."""
        return self.head(self.shape(system), remaining)

    def extended(
        self, system: System, added: Keys, labels: np.ndarray, inference: InferenceSettings | None
    ) -> System:
        """The system of a fit to all rows."""
        import torch

        keys = torch.from_numpy(self.stored(added.keys))
        tokens = torch.from_numpy(labels).float()[:, None]
        memory = system.rows().extended(added.ids, keys, tokens)
        return replace(system, memory=memory, model=self.head(self.shape(system), memory))

    def logits(
        self,
        system: System,
        samples: ImageSet,
        data: DataSettings,
        device: str,
        retrieval: Retrieval | None,
    ) -> np.ndarray:
        """Answers of its weights to keys, for a family that asks for these; others answer by their rows."""
        import torch

        assert retrieval is not None and retrieval.keys is not None
        return to_host(
            system.weights()(to_device(torch.from_numpy(retrieval.keys), device))
        ).numpy()

    def stored(self, keys: np.ndarray) -> np.ndarray:
        """Keys (N, d) float32 as its memory holds them."""
        return keys

    def head(self, architecture: FittedArchitecture, memory: ExemplarMemory) -> nn.Module | None:
        """The weights that follow from a memory; None for a family without weights."""
        return None

    def empty_sums(self, architecture: FittedArchitecture) -> Sums | None:
        """Sums of no rows, from which its weights follow; None for a family without weights."""
        return None

    def constants(self, settings: Settings) -> list[str]:
        """The constants that no deletion changes: it is exact given these, and where there are none, exact."""
        return [name for name in self.tuned if getattr(settings, name) != "auto"]

    def reads_rows(self, settings: Settings) -> bool:
        """Whether its weights, or one of its constants, follow from the rows themselves, not from their sums alone."""
        return False

    def solve(self, sums: Sums, settings: Settings, rows: FittedRows | None) -> nn.Module:
        """The weights that follow from these sums and, where it `reads_rows`, from these rows."""
        raise TypeError(f"{self.title} has no weights")

    def require_few(self, rows: int) -> None:
        """Raise ValueError for more rows than it can be fitted to."""
        if self.most_rows is not None and rows > self.most_rows:
            raise ValueError(
                f"{self.title} holds at most {self.most_rows:,} samples, and these are {rows:,}: take"
                f" {self.most_rows_instead} for more"
            )

    def vote_weights(
        self, settings: Settings, present: torch.Tensor, cosines: torch.Tensor
    ) -> torch.Tensor:
        """How much each neighbor counts (B, K), for a family that asks its neighbors. Ones where all count alike."""
        return present.float()

    def settings_of(self, system: System) -> Settings:
        """The family's own section of params.yaml, with which a system was fitted."""
        return self.checked(self.shape(system).settings)

    def shape(self, system: System) -> FittedArchitecture:
        """A system's architecture, which is always of this kind."""
        return cast(FittedArchitecture, system.architecture)

    def stored_architecture(self, stored: Mapping[str, object]) -> Architecture:
        return FittedArchitecture(**stored)  # type: ignore[arg-type]  # checked when it was made

    def architecture(
        self, recipe: Recipe[Settings], classes: int, key_dim: int | None = None
    ) -> NoReturn:
        raise TypeError(f"{self.title} has no recipe: it is fitted")

    def build(self, architecture: Architecture, generator: torch.Generator | None) -> nn.Module:
        raise TypeError(f"{self.title} has no weights to build")

    def train(self, training: Training[Settings]) -> TrainingResult:
        raise TypeError(f"{self.title} is not trained: it is fitted to keys")


FAMILIES: Registry[Family] = Registry("family", "munkey.models.families")
SomeFamily = TypeVar("SomeFamily", bound=Family)


def family(kind: type[SomeFamily]) -> type[SomeFamily]:
    """Register a family under its name. Raises ValueError where another family has its letter."""
    for other in FAMILIES.loaded_entries():
        if kind.letter == other.letter and kind.name != other.name:
            raise ValueError(
                f"the families {other.name!r} and {kind.name!r} have the same letter, {kind.letter!r}"
            )
    FAMILIES.add(kind.name, kind())
    return kind


def forget_samples(system: System, ids: np.ndarray) -> System:
    """A system of a family that is fitted, without these samples. Raises KeyError for an id that it does not hold."""
    kind = FAMILIES[system.family]
    assert isinstance(kind, FittedFamily)
    return kind.forget(system, ids)
