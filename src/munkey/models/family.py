"""The interface of a family of models: its names, its training, and its predictions.

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

# The family's section of params.yaml. The value is None for a family without a section.
Settings = TypeVar("Settings", bound=Section, default=Any)


@dataclass(frozen=True)
class Architecture:
    """Everything needed to build a model. It is stored with the weights.

    Each family adds fields of its own.
    """

    classes: int

    def list_differences(self, other: Architecture) -> list[str]:
        """Describe the fields in which `other` differs, sorted by name.

        A field that is None in this architecture matches any value.
        """
        differences = []
        for name in sorted(field.name for field in fields(self)):
            expected = getattr(self, name)
            value = getattr(other, name, None)
            if expected is not None and value != expected:
                differences.append(f"{name} is {value}, expected {expected}")
        return differences


@dataclass(frozen=True)
class FittedArchitecture(Architecture):
    """The architecture of a fitted head.

    Attributes
    ----------
    key_dim
        The length of a key.
    settings
        The family's section of params.yaml.
    """

    key_dim: int
    settings: Mapping[str, Any]


@dataclass(frozen=True)
class System:
    """A trained system: a model's weights, an exemplar memory, or both."""

    family: str
    architecture: Architecture
    model: nn.Module | None
    memory: ExemplarMemory | None = None

    def require_model(self) -> nn.Module:
        """Return the model. Raises ValueError if the system has none."""
        if self.model is None:
            raise ValueError(f"a system of the family {self.family} has no weights")
        return self.model

    def copy_model(self) -> nn.Module:
        """Return a deep copy of the model, for methods that change its weights."""
        return copy.deepcopy(self.require_model())

    def require_memory(self) -> ExemplarMemory:
        """Return the memory. Raises ValueError if the system has none."""
        if self.memory is None:
            raise ValueError(f"a system of the family {self.family} has no memory")
        return self.memory

    def to(self, device: str) -> System:
        """Return this system with its model and memory on `device`. Moves the model in place."""
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
    """How to train a model: sections of params.yaml, and the source of all random numbers.

    `head` has the settings, except the temperature, of a closed-form head whose logits are added to
    the network's (`read_added_head`).
    """

    data: DataSettings
    model: ModelSettings | None
    train: TrainSettings
    family: Settings
    stage: Stage
    head: Mapping[str, float | str] | None = None


@dataclass(frozen=True)
class MemberKeys:
    """The keys (N, d) float32 of the training samples, and the neighbors of each among the others."""

    keys: np.ndarray
    neighbors: Neighbors


Watch = Callable[[int, System], None]


@dataclass(frozen=True)
class Training(Generic[Settings]):
    """The input of a training run.

    Attributes
    ----------
    samples
        The training samples, sorted by id.
    classes
        The number of classes.
    device
        "cpu" or "cuda".
    report
        Prints a line of progress.
    members
        The samples' keys and neighbors. None for a family without a memory.
    checkpoint
        The file from which an interrupted run resumes. The caller removes it after writing the
        result.
    watch
        Called as ``watch(epoch, system)`` before training, with epoch 0, and after each epoch that
        is not skipped by resuming. It must not change the system.
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
    """The trained system, and a record for each epoch."""

    system: System
    history: History


@dataclass(frozen=True)
class Learner:
    """A system in training, whose weights and tokens change in place.

    ``predict(images, index)`` returns the logits (B, C) of crops (B, 3, S, S) of the training
    samples at the positions `index` (B,). It draws from `generators`.
    """

    system: System
    predict: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
    generators: Sequence[torch.Generator] = ()

    def parameters(self) -> list[nn.Parameter]:
        """Return the model's parameters, followed by the tokens."""
        parameters = list(self.system.require_model().parameters())
        if self.system.memory is not None:
            # During training, the tokens of a memory are a parameter.
            parameters.append(cast("nn.Parameter", self.system.memory.tokens))
        return parameters


@dataclass(frozen=True)
class Retrieval:
    """The inputs, other than images, with which a system classifies S queries; None where not read.

    Attributes
    ----------
    neighbors
        At least K neighbors of each query.
    settings
        The section `inference`.
    keys
        (S, d): the keys of the queries.
    """

    neighbors: Neighbors | None
    settings: InferenceSettings | None = None
    keys: np.ndarray | None = None


class Family(ABC, Generic[Settings]):
    """A kind of model: how to build it, train it, and predict with it.

    To add a family, subclass this class, set the class attributes, implement the abstract methods,
    and decorate the subclass with ``family`` (docs/extending.md). If the model is a function of
    keys and labels, subclass ``FittedFamily`` instead.

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
        Letter in the names of the original, ``original-LETTER``, and the oracle,
        ``retrain-LETTER``.
    settings : type of Section, optional
        Class of the family's section. None for a family without a section.
    learns : bool, default True
        Whether it is trained on images in epochs.
    exact : bool, default False
        Whether deleting rows gives the oracle, bit for bit.
    has_memory : bool, default False
        Whether a system has an exemplar memory.
    asks_keys : bool, default False
        Whether it predicts from a sample's key and needs no neighbors.
    keeps_weights : bool, default False
        Whether it is trained, and a deletion drops rows and does not change the weights.
    has_pathways : bool, default False
        Whether the image and the token can each be dropped. Ablations and the selection of
        p_image and p_token apply only to such families.
    has_features : bool, default False
        Whether it has ``extract_image_features``, to which audits fit a linear probe.
    in_every_run : bool, default False
        Whether every run trains it, even if no method starts from it.
    is_network : bool, default False
        Whether ``network`` in params.yaml can select it as the network that post-hoc methods start
        from.
    place : int, default 9
        Position of its rows in the tables.
    reads_inference : bool, default False
        Whether its predictions depend on the section ``inference`` of params.yaml.
    holds : str, default "weights"
        What a system stores, as the tables show it.
    search_settings : sequence of mappings, default ()
        Settings that ``munkey search-neighbors`` compares: of the family's section, or of the
        section ``inference`` if the family reads it. Each has a number of neighbors, ``k``.

    Raises
    ------
    ValueError
        By the decorator ``family``, if another family already uses its letter.

    Notes
    -----
    ``train`` must draw all random numbers from ``training.recipe.stage``, so that the same settings
    give the same weights. ``predict_logits`` returns float32 logits of shape (S, C), for S samples
    and C classes. Images are float32 of shape (B, 3, H, W) in [0, 1]. Because planning imports the
    module of each family and must not load torch, import torch inside the methods.

    ``munkey.models.families.vit``, the plain ViT (app. B.3), is the shortest network.

    Examples
    --------
    A family that always predicts the most frequent label in its training set:

    >>> import numpy as np
    >>> class Majority(Family):
    ...     name = "majority"
    ...     title = "Majority"
    ...     letter = "z"
    ...
    ...     def make_architecture(self, recipe, classes, key_dim=None):
    ...         return Architecture(classes)
    ...
    ...     def restore_architecture(self, fields):
    ...         return Architecture(**fields)
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

    Two images of class 1 and one of class 0, each 8 by 8 pixels:

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
    asks_keys = False
    keeps_weights = False
    has_pathways = False
    has_features = False
    in_every_run = False
    is_network = False
    place = 9
    reads_inference = False
    holds = "weights"
    search_settings: Sequence[Mapping[str, object]] = ()

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
        """Return the family's section of params.yaml, or None for a family without a section."""
        if self.settings is None:
            return cast("Settings", None)
        return self.validate_section(sections[self.name])

    def validate_section(self, section: object) -> Settings:
        """Return a section as an instance of `settings`. Validates it if it is a mapping."""
        assert self.settings is not None, f"the family {self.name} has no section in params.yaml"
        return self.settings.parse(section)

    def make_recipe(
        self,
        sections: Mapping[str, object],
        stage: Stage,
        selected: Mapping[str, float] | None = None,
    ) -> Recipe[Settings]:
        """Make a recipe from the sections of params.yaml, by name.

        The values that the selection chose (`selected`) replace those in the family's section.
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
        """Return the section `train` with overrides from the family's own section.

        By default, there are no overrides.
        """
        return train

    def identify_weights(self, section: Settings) -> str | None:
        """Return an identifier of the pretrained weights to start from. None if there are none."""
        return None

    def make_stage(self, seed: object, dataset: str, subset: str) -> Stage:
        """Return the source of all random numbers of a training run.

        `subset` is `full`, or `rateR` if that forget set is left out.
        """
        return Stage(seed, dataset, subset, self.name)

    def count_neighbors(self, settings: Settings) -> dict[str, int]:
        """Return how many neighbors of each sample training reads, by setting."""
        return {}

    def has_added_head(self, system: System) -> bool:
        """Return whether a system adds the logits of a head that is computed from all rows."""
        return False

    def refresh(self, system: System, training: Training[Settings]) -> System:
        """Return a system whose memory agrees with weights that were trained further."""
        return system

    def list_borrowed_sections(self, settings: Settings) -> Sequence[str]:
        """Return the names of other families' sections that its training depends on.

        If there are any, its predictions need the queries' keys.
        """
        return ()

    def make_retrieval(
        self, neighbors: Neighbors, inference: object, keys: np.ndarray | None = None
    ) -> Retrieval:
        """Return the inputs of a prediction other than the images; `inference` is that section."""
        settings = None
        if self.reads_inference:
            settings = InferenceSettings.parse(inference)
        return Retrieval(neighbors, settings, keys)

    def estimate_epoch_seconds(self, history: History, recipe: Recipe[Settings]) -> float:
        """Return the wall time of a typical epoch, in seconds."""
        return median(epoch["seconds"] for epoch in history)

    @abstractmethod
    def make_architecture(
        self, recipe: Recipe[Settings], classes: int, key_dim: int | None = None
    ) -> Architecture:
        """Describe the model that a recipe trains, for ``build`` and the model file.

        Parameters
        ----------
        recipe : Recipe
            How the model is trained.
        classes : int
            Number of classes.
        key_dim : int, optional
            Length of a key, if known.
        """

    @abstractmethod
    def restore_architecture(self, fields: Mapping[str, object]) -> Architecture:
        """Rebuild an architecture from its fields, by name, as a model file stores them."""

    @abstractmethod
    def build(self, architecture: Architecture, generator: torch.Generator | None) -> nn.Module:
        """Build a model.

        Parameters
        ----------
        architecture : Architecture
            Result of ``make_architecture`` or ``restore_architecture``.
        generator : torch.Generator or None
            Generator of the initial weights. None if stored weights will be loaded.
        """

    @abstractmethod
    def train(self, training: Training[Settings]) -> TrainingResult:
        """Train a model from scratch. Returns the system, and a record for each epoch."""

    def resume(self, system: System, training: Training[Settings]) -> Learner:
        """Return a copy to train further; its memory has only rows of `training.samples`."""
        model = system.copy_model()
        return Learner(replace(system, model=model), lambda images, _: model(images))

    def add_samples(
        self,
        system: System,
        new_keys: Keys,
        labels: np.ndarray,
        inference: InferenceSettings | None,
    ) -> System:
        """Return a system with n samples added to its memory, if it has one, without training.

        `labels`: (n,). `inference`: that section, for a family that reads it.
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
            Image size and normalization.
        device : str
            "cpu" or "cuda".
        retrieval : Retrieval or None
            Neighbors or keys of the samples, which a family with a memory requires.

        Returns
        -------
        ndarray of float32, shape (S, C)
            Logits for C classes, in the order of `samples`.
        """

    def predict_cut_logits(
        self, system: System, samples: ImageSet, data: DataSettings, device: str
    ) -> dict[str, np.ndarray]:
        """Return logits (N, C) of the memory's samples from image, token, and both.

        A family without pathways returns an empty dictionary.
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
        """Return logits (S, C) for each inference path but the deployed one, if any."""
        return {}

    def extract_image_features(
        self, system: System, samples: ImageSet, data: DataSettings, device: str
    ) -> np.ndarray:
        """Return the features (S, width) that the head reads of images alone.

        Raises TypeError for a family without ``has_features``.
        """
        raise TypeError(f"the family {self.name} has no network with a head, so it has no features")

    def extract_features(
        self, system: System, samples: ImageSet, data: DataSettings, device: str
    ) -> np.ndarray:
        """Return the features (N, width) that the head reads for samples in the memory.

        Raises TypeError for a family without pathways.
        """
        raise TypeError(f"the family {self.name} has no pathways, so it cannot extract features")


class FittedRows(NamedTuple):
    """The rows that a family is fitted to.

    Attributes
    ----------
    ids
        (N,), in ascending order.
    keys
        (N, d) float32.
    labels
        (N,).
    """

    ids: np.ndarray
    keys: np.ndarray
    labels: np.ndarray


class FittedFamily(Family[Settings]):
    """A family whose model is a function of keys, labels, and settings.

    If it is exact, it does not depend on the seed. Its memory stores keys, and labels as tokens (N,
    1).

    Attributes
    ----------
    max_rows
        The maximum number of rows that it can be fitted to; None for no limit.
    larger_families
        The families that a message recommends for more rows.
    tuned
        The names of the settings that are chosen on data.
    """

    learns = False
    exact = True
    has_memory = True
    holds = "keys, labels"
    max_rows: int | None = None
    larger_families = ""
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
            The source of random numbers, for a family that draws random numbers.
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
        """Return weights that are fitted to `remaining`, the memory after `ids` were deleted."""
        return self.fit_head(self.get_architecture(system), remaining)

    def add_samples(
        self,
        system: System,
        new_keys: Keys,
        labels: np.ndarray,
        inference: InferenceSettings | None,
    ) -> System:
        """Return a system that is fitted to the old and new rows."""
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
        """Return logits (S, C) from the samples' keys in `retrieval`."""
        import torch

        assert retrieval is not None and retrieval.keys is not None, "no keys of the samples"
        keys = to_device(torch.from_numpy(retrieval.keys), device)
        logits = system.require_model()(keys)
        return to_host(logits).numpy()

    def prepare_keys(self, keys: np.ndarray) -> np.ndarray:
        """Return keys (N, d) in the form in which the memory stores them. By default, unchanged."""
        return keys

    def fit_head(
        self, architecture: FittedArchitecture, memory: ExemplarMemory
    ) -> nn.Module | None:
        """Return weights that are fitted to a memory, or None for a family without weights."""
        return None

    def make_sums(self, architecture: FittedArchitecture) -> Sums | None:
        """Return the sums of zero rows, or None for a family that is not fitted to sums."""
        return None

    def list_constants(self, settings: Settings) -> list[str]:
        """Return the names of the settings in `tuned` that are fixed, which no deletion changes.

        Deletion is exact given these values, and unconditionally exact if there are none.
        """
        return [name for name in self.tuned if getattr(settings, name) != "auto"]

    def select_classes(self, settings: Settings, classes: np.ndarray) -> Settings:
        """Return the settings for some of the classes, given their indices (C,)."""
        return settings

    def reads_rows(self, settings: Settings) -> bool:
        """Return whether fitting needs the rows themselves, in addition to their sums."""
        return False

    def solve(self, sums: Sums, settings: Settings, rows: FittedRows | None) -> nn.Module:
        """Return weights that are fitted to sums and, if the family `reads_rows`, to rows.

        Raises TypeError for a family without weights.
        """
        raise TypeError(f"{self.title} has no weights")

    def require_fixed_shrinkage(self, settings: Settings) -> None:
        """Raise ValueError if the shrinkage is "auto", which a head inside a network cannot use."""
        shrinkage = self.tuned[0]  # alpha or lam
        if getattr(settings, shrinkage) == "auto":
            raise ValueError(
                f"munkey.head: {self.name} needs a number for {self.name}.{shrinkage}: auto would"
                " choose a new value after each deletion, which the network was not trained with"
            )

    def require_few_rows(self, count: int) -> None:
        """Raise ValueError if there are more rows than the family can be fitted to."""
        if self.max_rows is not None and count > self.max_rows:
            raise ValueError(
                f"{self.title} can be fitted to at most {self.max_rows:,} samples, but there are"
                f" {count:,}: use {self.larger_families} instead"
            )

    def weigh_votes(
        self, settings: Settings, present: torch.Tensor, cosines: torch.Tensor
    ) -> torch.Tensor:
        """Return the weight of each neighbor (B, K), by default 1 where one is `present` (B, K)."""
        return present.float()

    def get_settings(self, system: System) -> Settings:
        """Return the settings that a system was fitted with."""
        return self.validate_section(self.get_architecture(system).settings)

    def get_architecture(self, system: System) -> FittedArchitecture:
        """Return a system's architecture as a FittedArchitecture."""
        return cast(FittedArchitecture, system.architecture)

    def restore_architecture(self, fields: Mapping[str, object]) -> Architecture:
        # The fields were validated when the system was created.
        return FittedArchitecture(**fields)  # type: ignore[arg-type]

    def make_architecture(
        self, recipe: Recipe[Settings], classes: int, key_dim: int | None = None
    ) -> NoReturn:
        raise TypeError(f"{self.title} is fitted to keys and has no training recipe")

    def build(self, architecture: Architecture, generator: torch.Generator | None) -> nn.Module:
        raise TypeError(f"{self.title} has no weights to build")

    def train(self, training: Training[Settings]) -> TrainingResult:
        raise TypeError(f"{self.title} is fitted to keys, not trained")


FAMILIES: Registry[Family] = Registry("family", "munkey.models.families")


def read_added_head(
    constants: Mapping[str, float | int | str],
) -> tuple[FittedFamily, dict[str, float | int | str]]:
    """Return the family and the settings of a head whose logits are added to MUNKEY's.

    `constants` are as in MUNKEY's architecture, with the name under `family`, by default LDA.
    """
    settings = dict(constants)
    name = str(settings.pop("family", "lda"))
    return cast(FittedFamily, FAMILIES[name]), settings


FamilyT = TypeVar("FamilyT", bound=Family)


def family(cls: type[FamilyT]) -> type[FamilyT]:
    """Register a family under its name. Returns the class unchanged.

    Raises ValueError if its letter or name is taken, or the name cannot be part of a path.
    """
    for other in FAMILIES.list_loaded_entries():
        if cls.letter == other.letter and cls.name != other.name:
            raise ValueError(
                f"family {cls.name!r}: the family {other.name!r} already uses its letter,"
                f" {cls.letter!r}"
            )
    FAMILIES.add(cls.name, cls())
    return cls


def forget_samples(system: System, ids: np.ndarray) -> System:
    """Return a system of a fitted family with these samples deleted.

    Raises KeyError if an id is not in its memory.
    """
    fitted_family = FAMILIES[system.family]
    assert isinstance(fitted_family, FittedFamily), f"{system.family} is not a fitted family"
    return fitted_family.forget(system, ids)
