"""The interface of a family of models: its names, its training and its predictions.

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

# The type of a family's section of params.yaml; None for a family without one.
Settings = TypeVar("Settings", bound=Section, default=Any)


@dataclass(frozen=True)
class Architecture:
    """The hyperparameters that determine a model's shape, stored with its weights.

    Families add their own fields.
    """

    classes: int

    def list_differences(self, other: Architecture) -> list[str]:
        """List the fields in which `other` differs. A field that is None here matches any value."""
        differences = []
        for name in sorted(field.name for field in fields(self)):
            expected = getattr(self, name)
            value = getattr(other, name, None)
            if expected is not None and value != expected:
                differences.append(f"{name} is {value}, expected {expected}")
        return differences


@dataclass(frozen=True)
class FittedArchitecture(Architecture):
    """The shape of a fitted head.

    Attributes
    ----------
    key_dim
        The length of a key.
    settings
        The family's section of params.yaml.
    """

    key_dim: int
    settings: Mapping[str, float | int | str]


@dataclass(frozen=True)
class System:
    """A trained model of a family: its weights, its exemplar memory, or both."""

    family: str
    architecture: Architecture
    model: nn.Module | None
    memory: ExemplarMemory | None = None

    def require_model(self) -> nn.Module:
        """Return the model. Raises ValueError if there is none."""
        if self.model is None:
            raise ValueError(f"a system of the family {self.family} has no weights")
        return self.model

    def copy_model(self) -> nn.Module:
        """Return a deep copy of the model, for methods that change its weights."""
        return copy.deepcopy(self.require_model())

    def require_memory(self) -> ExemplarMemory:
        """Return the memory. Raises ValueError if there is none."""
        if self.memory is None:
            raise ValueError(f"a system of the family {self.family} has no memory")
        return self.memory

    def to(self, device: str) -> System:
        """Return this system on a device."""
        memory = self.memory
        if memory is not None:
            memory = replace(
                memory, keys=to_device(memory.keys, device), tokens=to_device(memory.tokens, device)
            )
        model = self.model
        if model is not None:
            model = model.to(device)
        return replace(self, memory=memory, model=model)


@dataclass(frozen=True)
class Recipe(Generic[Settings]):
    """How a model is trained.

    Attributes
    ----------
    head
        The constants, without temperature, of a head whose logits are added, as `read_added_head`
        reads them; None without such a head.
    """

    data: DataSettings
    model: ModelSettings | None
    train: TrainSettings
    family: Settings
    stage: Stage
    head: Mapping[str, float | str] | None = None


@dataclass(frozen=True)
class MemberKeys:
    """Keys (N, d) of the training samples, and each sample's neighbors, excluding itself."""

    keys: np.ndarray
    neighbors: Neighbors


Watch = Callable[[int, System], None]


@dataclass(frozen=True)
class Training(Generic[Settings]):
    """A training run.

    Attributes
    ----------
    samples
        The training samples, sorted by id.
    members
        Their keys and neighbors, for a family with a memory.
    watch
        A function that is called with 0 before the first epoch, and with the number of each epoch
        after it. It must not change anything. It is not called again for epochs before a
        checkpoint.
    checkpoint
        The file from which an interrupted run resumes. The caller removes it once the result is
        saved.
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
    """The result of a training run: the system, and a record of each epoch."""

    system: System
    history: History


@dataclass(frozen=True)
class Learner:
    """A system during training, whose weights and tokens change in place.

    Attributes
    ----------
    compute_logits
        A function (images, index) -> logits, for a batch of crops (B, 3, S, S) of the samples at
        positions `index` (B,).
    generators
        Its random generators.
    """

    system: System
    compute_logits: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
    generators: Sequence[torch.Generator] = ()

    def parameters(self) -> list[nn.Parameter]:
        """Return the weights, then the tokens."""
        parameters = list(self.system.require_model().parameters())
        if self.system.memory is not None:
            # A memory's tokens may be any tensor, but during training they are a parameter.
            parameters.append(cast("nn.Parameter", self.system.memory.tokens))
        return parameters


@dataclass(frozen=True)
class Retrieval:
    """What a memory needs for S queries.

    Attributes
    ----------
    neighbors
        Each query's neighbors, (S, K) or more.
    settings
        The section `inference`, for a family that reads it.
    keys
        The queries' keys (S, d), for a family or a head that reads them.
    """

    neighbors: Neighbors | None
    settings: InferenceSettings | None = None
    keys: np.ndarray | None = None


class Family(ABC, Generic[Settings]):
    """A kind of model: how to build, train and query it.

    Subclass it, set the class attributes, implement the abstract methods, and decorate the class
    with ``family`` (docs/extending.md). A family whose model is a function of keys and labels is a
    ``FittedFamily``.

    Parameters
    ----------
    Settings : subclass of Section, optional
        Type parameter, as in ``Family[MySettings]``: the family's section of params.yaml. All
        other parameters are class attributes that a subclass sets.
    name : str
        Name of the family, and of its section in params.yaml.
    title : str
        Name in tables and figures.
    letter : str
        Letter in the names ``original-LETTER`` and ``retrain-LETTER`` of original and oracle.
    settings : type of Section, optional
        Class of the family's section; None for a family without a section.
    learns : bool, default True
        Whether it is trained in epochs, from images.
    exact : bool, default False
        Whether deleting rows gives the oracle, bit for bit.
    has_memory : bool, default False
        Whether a system has an exemplar memory.
    needs_query_keys : bool, default False
        Whether it predicts from a sample's key, without neighbors.
    has_pathways : bool, default False
        Whether the image and the token can each be dropped. Ablations and the selection of
        p_image and p_token apply to such a family.
    in_every_run : bool, default False
        Whether a run trains it even if no method starts from it.
    is_network : bool, default False
        Whether it is a valid ``network`` in params.yaml, from which post-hoc methods start.
    place : int, default 9
        Position of its rows in the tables.
    reads_inference : bool, default False
        Whether its predictions depend on the section ``inference`` of params.yaml.
    holds : str, default "weights"
        Description of what a system stores, for the tables.

    Raises
    ------
    ValueError
        If another family already uses the letter (raised by the decorator ``family``).

    Notes
    -----
    ``train`` must draw all random numbers from ``training.recipe.stage``, so that the same settings
    give the same weights. ``predict_logits`` returns float32 of shape (S, C), for S samples and C classes.
    Images are float32 of shape (B, 3, H, W) in [0, 1]. ``estimate_epoch_seconds`` returns seconds.
    Planning imports each family's module, so methods import torch inside.

    MUNKEY's family, ``munkey.models.families.munkey``, implements sec. 3.2 of the paper; the plain
    ViT of app. B.3, ``munkey.models.families.vit``, is the shortest example.

    Examples
    --------
    A family that always predicts the most frequent label of its training set:

    >>> import numpy as np
    >>> class Majority(Family):
    ...     name = "majority"
    ...     title = "Majority"
    ...     letter = "z"
    ...
    ...     def make_architecture(self, recipe, classes, key_dim=None):
    ...         return Architecture(classes)
    ...
    ...     def restore_architecture(self, stored):
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
    ...     def predict_logits(self, system, samples, data, device, retrieval):
    ...         bias = system.require_model().bias.detach().numpy()
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
    >>> majority.predict_logits(trained.system, samples, None, "cpu", None).argmax(axis=1)
    array([1, 1, 1])
    """

    name: str
    title: str
    letter: str
    settings: type[Settings] | None = None
    learns = True
    exact = False
    has_memory = False
    needs_query_keys = False
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
        """The name of the system that is trained only on D_r."""
        return f"retrain-{self.letter}"

    @property
    def original_title(self) -> str:
        """The original's name in tables and figures."""
        return f"Original ({self.letter.upper()})"

    @property
    def oracle_title(self) -> str:
        """The oracle's name in tables and figures."""
        return f"Retrain ({self.letter.upper()})"

    @property
    def sections(self) -> list[str]:
        """The sections of params.yaml that its training depends on."""
        sections = []
        if self.learns:
            sections += ["data", "model", "train"]
        if self.settings:
            sections.append(self.name)
        return sections

    def read_section(self, sections: Mapping[str, object]) -> Settings:
        """Return the family's section of params.yaml; None for a family without one."""
        if self.settings is None:
            return cast("Settings", None)
        return self.validate_section(sections[self.name])

    def validate_section(self, section: object) -> Settings:
        """Return the section as an instance of `settings`."""
        assert self.settings is not None
        return self.settings.parse(section)

    def make_recipe(
        self,
        sections: Mapping[str, object],
        stage: Stage,
        selected: Mapping[str, float] | None = None,
    ) -> Recipe[Settings]:
        """Return a recipe from sections of params.yaml, by name.

        Parameters
        ----------
        selected
            Settings from the selection, which replace those of the family's section.
        """
        family_section = self.read_section(sections)
        if selected:
            family_section = self.validate_section({**dict(family_section), **selected})
        model_section = None
        if "model" in self.sections:
            model_section = ModelSettings.parse(sections["model"])
        train_section = TrainSettings.parse(sections["train"])
        return Recipe(
            data=DataSettings.parse(sections["data"]),
            model=model_section,
            train=self.adapt_train_settings(train_section, family_section),
            family=family_section,
            stage=stage,
        )

    def adapt_train_settings(self, train: TrainSettings, section: Settings) -> TrainSettings:
        """Return the section `train`, modified by the family's own section."""
        return train

    def identify_weights(self, section: Settings) -> str | None:
        """Return an identifier of the pretrained weights, or None without such weights."""
        return None

    def make_stage(self, seed: object, dataset: str, subset: str) -> Stage:
        """Return the stage from which a training run derives all random numbers.

        Parameters
        ----------
        subset
            `full`, or the rate that is excluded, such as `rate0.1`.
        """
        return Stage(seed, dataset, subset, self.name)

    def count_neighbors(self, settings: Settings) -> dict[str, int]:
        """Return how many neighbors per sample training reads, by the name of the setting."""
        return {}

    def list_borrowed_sections(self, settings: Settings) -> Sequence[str]:
        """List the sections of other families that its training depends on.

        If there are any, its predictions need keys.
        """
        return ()

    def make_retrieval(
        self, neighbors: Neighbors, inference: object, keys: np.ndarray | None = None
    ) -> Retrieval:
        """Make the memory's input. Only some families read the section `inference`."""
        settings = None
        if self.reads_inference:
            settings = InferenceSettings.parse(inference)
        return Retrieval(neighbors, settings, keys)

    def estimate_epoch_seconds(self, history: History, recipe: Recipe[Settings]) -> float:
        """Estimate the wall time of a typical epoch."""
        return median(epoch["seconds"] for epoch in history)

    @abstractmethod
    def make_architecture(
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
    def restore_architecture(self, stored: Mapping[str, object]) -> Architecture:
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
            As ``make_architecture`` or ``restore_architecture`` returned it.
        generator : torch.Generator or None
            Random generator of the initial weights; None if stored weights will replace them.

        Returns
        -------
        torch.nn.Module
        """

    @abstractmethod
    def train(self, training: Training[Settings]) -> TrainingResult:
        """Train a model from scratch.

        Parameters
        ----------
        training : Training
            The samples, the recipe, the device, and where to report.

        Returns
        -------
        TrainingResult
            The system, and one record per epoch.
        """

    def resume(self, system: System, training: Training[Settings]) -> Learner:
        """Make a learner that trains a copy of a system further.

        Its memory has only the rows of `training.samples`.
        """
        model = system.copy_model()
        return Learner(replace(system, model=model), lambda images, _: model(images))

    def add_samples(
        self,
        system: System,
        new_keys: Keys,
        labels: np.ndarray,
        inference: InferenceSettings | None,
    ) -> System:
        """Return the system with new samples in its memory, without training.

        A family without a memory returns the system unchanged.

        Parameters
        ----------
        new_keys
            The keys of the n samples.
        labels
            Their labels (n,).
        inference
            The section `inference`.
        """
        return system

    @abstractmethod
    def predict_logits(
        self,
        system: System,
        samples: ImageSet,
        data: DataSettings,
        device: str,
        retrieval: Retrieval | None,
    ) -> np.ndarray:
        """Predict the logits of samples.

        Parameters
        ----------
        system : System
            A system of this family.
        samples : ImageSet
            The S samples to classify.
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

    def predict_cut_logits(
        self, system: System, samples: ImageSet, data: DataSettings, device: str
    ) -> dict[str, np.ndarray]:
        """Compute logits (N, C) of the memory's samples from the image, the token, and both.

        Empty for families without pathways.
        """
        return {}

    def predict_path_logits(
        self,
        system: System,
        samples: ImageSet,
        data: DataSettings,
        device: str,
        retrieval: Retrieval,
    ) -> dict[str, np.ndarray]:
        """Compute logits (S, C) on the paths that are not deployed, by path.

        Empty for families without pathways.
        """
        return {}

    def extract_features(
        self, system: System, samples: ImageSet, data: DataSettings, device: str
    ) -> np.ndarray:
        """Extract [CLS] before the head, (N, width), for the memory's samples.

        Raises TypeError for a family without pathways.
        """
        raise TypeError(f"a model of the family {self.name} has no memory to extract features from")


class FittedRows(NamedTuple):
    """Rows that a family is fitted to.

    Attributes
    ----------
    ids
        Ids (N,), ascending.
    keys
        Keys (N, d), float32.
    labels
        Class indices (N,).
    """

    ids: np.ndarray
    keys: np.ndarray
    labels: np.ndarray


class FittedFamily(Family[Settings]):
    """A family whose model is a function of keys, labels and settings, without epochs.

    If it is exact, it also has no seed. Its memory stores the keys, and as tokens the labels
    (N, 1).

    Attributes
    ----------
    tried
        The values of its settings that `munkey search-fitted` combines.
    max_rows
        Maximum number of rows that it can be fitted to.
    families_for_more_rows
        The families to use for more rows, for error messages.
    tuned
        The settings that may be chosen from data ("auto").
    """

    learns = False
    exact = True
    has_memory = True
    holds = "keys, labels"
    tried: Sequence[tuple[str, Sequence[object]]] = ()
    max_rows: int | None = None
    families_for_more_rows = ""
    tuned: Sequence[str] = ()

    def fit(
        self,
        members: Keys,
        labels: np.ndarray,
        classes: int,
        settings: Settings,
        stage: Stage | None = None,
    ) -> System:
        """Fit a system to keys and labels (N,).

        Parameters
        ----------
        stage
            The random stage, for a family that draws random numbers.
        """
        import torch

        from munkey.memory.exemplars import ExemplarMemory

        architecture = FittedArchitecture(classes, members.keys.shape[1], settings.model_dump())
        keys = torch.from_numpy(self.prepare_keys(members.keys))
        tokens = torch.from_numpy(labels).float()[:, None]
        memory = ExemplarMemory(torch.from_numpy(members.ids), keys, tokens)
        return System(self.name, architecture, self.fit_head(architecture, memory), memory)

    def forget(self, system: System, ids: np.ndarray) -> System:
        """Return the system without these samples. Raises KeyError for an unknown id."""
        remaining = system.require_memory().forget(ids)
        return replace(system, memory=remaining, model=self.refit_head(system, ids, remaining))

    def refit_head(
        self, system: System, ids: np.ndarray, remaining: ExemplarMemory
    ) -> nn.Module | None:
        """Compute the head for the remaining rows, after the rows with these ids were deleted."""
        return self.fit_head(self.get_architecture(system), remaining)

    def add_samples(
        self,
        system: System,
        new_keys: Keys,
        labels: np.ndarray,
        inference: InferenceSettings | None,
    ) -> System:
        """Return the system fitted to all rows, old and new."""
        import torch

        keys = torch.from_numpy(self.prepare_keys(new_keys.keys))
        tokens = torch.from_numpy(labels).float()[:, None]
        memory = system.require_memory().add(new_keys.ids, keys, tokens)
        head = self.fit_head(self.get_architecture(system), memory)
        return replace(system, memory=memory, model=head)

    def predict_logits(
        self,
        system: System,
        samples: ImageSet,
        data: DataSettings,
        device: str,
        retrieval: Retrieval | None,
    ) -> np.ndarray:
        """Compute logits (S, C) from keys. A family that reads neighbors overrides this."""
        import torch

        assert retrieval is not None and retrieval.keys is not None
        keys = to_device(torch.from_numpy(retrieval.keys), device)
        logits = system.require_model()(keys)
        return to_host(logits).numpy()

    def prepare_keys(self, keys: np.ndarray) -> np.ndarray:
        """Return keys (N, d) float32 as its memory stores them."""
        return keys

    def fit_head(
        self, architecture: FittedArchitecture, memory: ExemplarMemory
    ) -> nn.Module | None:
        """Fit the head to a memory's rows; None for a family without weights."""
        return None

    def make_sums(self, architecture: FittedArchitecture) -> Sums | None:
        """Make empty sums, for a head that is fitted to sums; None for other families."""
        return None

    def list_constants(self, settings: Settings) -> list[str]:
        """List the settings in `tuned` that are not "auto", which deletions do not change.

        If there are none, deletion is exact; otherwise, it is exact given these constants.
        """
        return [name for name in self.tuned if getattr(settings, name) != "auto"]

    def reads_rows(self, settings: Settings) -> bool:
        """Return whether a fit reads the rows themselves, and not only their sums."""
        return False

    def solve(self, sums: Sums, settings: Settings, rows: FittedRows | None) -> nn.Module:
        """Compute the head from sums and, if the family `reads_rows`, from these rows."""
        raise TypeError(f"{self.title} has no weights")

    def require_fixed_shrinkage(self, settings: Settings) -> None:
        """Raise ValueError if the shrinkage is "auto", which a network's added head may not use."""
        shrinkage = self.tuned[0]  # alpha or lam
        if getattr(settings, shrinkage) == "auto":
            raise ValueError(
                f"munkey.head: {self.name} needs a number for {self.name}.{shrinkage}: with auto, it would"
                " change at each deletion, but the network is trained with a fixed one"
            )

    def require_few_rows(self, rows: int) -> None:
        """Raise ValueError if there are more rows than the family can be fitted to."""
        if self.max_rows is not None and rows > self.max_rows:
            raise ValueError(
                f"{self.title} takes at most {self.max_rows:,} samples, but there are {rows:,}: use"
                f" {self.families_for_more_rows} instead"
            )

    def weigh_votes(
        self, settings: Settings, present: torch.Tensor, cosines: torch.Tensor
    ) -> torch.Tensor:
        """Compute the weight of each neighbor (B, K); by default, 1 for all present neighbors."""
        return present.float()

    def get_settings(self, system: System) -> Settings:
        """Return the settings with which a system was fitted."""
        return self.validate_section(self.get_architecture(system).settings)

    def get_architecture(self, system: System) -> FittedArchitecture:
        """Return a system's architecture with its type."""
        return cast(FittedArchitecture, system.architecture)

    def restore_architecture(self, stored: Mapping[str, object]) -> Architecture:
        return FittedArchitecture(**stored)  # type: ignore[arg-type]  # checked when it was made

    def make_architecture(
        self, recipe: Recipe[Settings], classes: int, key_dim: int | None = None
    ) -> NoReturn:
        raise TypeError(f"{self.title} has no recipe, because it is fitted to keys")

    def build(self, architecture: Architecture, generator: torch.Generator | None) -> nn.Module:
        raise TypeError(f"{self.title} has no weights to build")

    def train(self, training: Training[Settings]) -> TrainingResult:
        raise TypeError(f"{self.title} is not trained, but fitted to keys")


FAMILIES: Registry[Family] = Registry("family", "munkey.models.families")


def read_added_head(
    constants: Mapping[str, float | int | str],
) -> tuple[FittedFamily, dict[str, float | int | str]]:
    """Return the family of MUNKEY's added head, and the family's settings.

    Parameters
    ----------
    constants
        The head's constants in MUNKEY's architecture: settings, and `family`, by default LDA.
    """
    settings = dict(constants)
    name = str(settings.pop("family", "lda"))
    return cast(FittedFamily, FAMILIES[name]), settings


FamilyT = TypeVar("FamilyT", bound=Family)


def family(cls: type[FamilyT]) -> type[FamilyT]:
    """Register a family under its name. Raises ValueError if another one already uses its letter."""
    for other in FAMILIES.loaded_entries():
        if cls.letter == other.letter and cls.name != other.name:
            raise ValueError(
                f"family {cls.name!r}: the family {other.name!r} already uses its letter,"
                f" {cls.letter!r}"
            )
    FAMILIES.add(cls.name, cls())
    return cls


def forget_samples(system: System, ids: np.ndarray) -> System:
    """Return a system of a fitted family without these samples.

    Raises KeyError for an unknown id.
    """
    fitted_family = FAMILIES[system.family]
    assert isinstance(fitted_family, FittedFamily)
    return fitted_family.forget(system, ids)
