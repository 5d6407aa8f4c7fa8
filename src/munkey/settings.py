"""The typed sections of `params.yaml`.

An invalid section is refused. Only settings that earlier results lack have a default.

The section of a family of models or of an unlearning method is defined in its own file.
"""

import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Annotated, Literal, Self, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

Count = Annotated[int, Field(ge=1, le=1_000_000)]
Pixels = Annotated[int, Field(ge=1, le=4096)]  # a side
Width = Annotated[int, Field(ge=1, le=65_536)]  # of a vector
SmallCount = Annotated[int, Field(ge=1, le=1000)]  # e.g. of blocks, heads or parts
Positive = Annotated[float, Field(gt=0)]
NonNegative = Annotated[float, Field(ge=0)]
Probability = Annotated[float, Field(ge=0, le=1)]
Share = Annotated[float, Field(gt=0, le=1)]
Rate = Annotated[float, Field(gt=0, lt=1)]
Betas = Annotated[list[Annotated[float, Field(ge=0, lt=1)]], Field(min_length=2, max_length=2)]
Range = Annotated[list[Positive], Field(min_length=2, max_length=2)]
CountRange = Annotated[list[Count], Field(min_length=2, max_length=2)]
# ~ is the home folder
UserPath = Annotated[str, Field(min_length=1), AfterValidator(os.path.expanduser)]
OnBad = Literal["raise", "skip"]  # pictures that cannot be read
White = Annotated[int, Field(ge=255, le=65_535)]  # the brightest value of 16-bit grayscale
# How the tokens of neighbors are combined, at inference or in training (app. D.1).
Fusion = Literal["ensemble", "softmax", "rank"]


class Section(BaseModel):
    """A section of `params.yaml`: strict, frozen, without unknown keys, NaN or infinity."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)

    @classmethod
    def parse(cls, section: object) -> Self:
        """Return a section of this class. A mapping, e.g. from a file, is checked first."""
        if isinstance(section, cls):
            return section
        return cls.model_validate(section)


Sections = Mapping[str, Section]  # by their names in params.yaml


def values_of(sections: Sections) -> dict[str, dict[str, object]]:
    """Return the values of sections, as JSON files hold them."""
    return {name: section.model_dump() for name, section in sections.items()}


def _require_one_group(pattern: str) -> str:
    """Return a regular expression. Raises ValueError unless it has exactly one group."""
    try:
        groups = re.compile(pattern).groups
    except re.error as error:
        raise ValueError(f"is no regular expression ({error})") from None
    if groups != 1:
        raise ValueError(
            f"must have one group, in parentheses, as in '(person-[0-9]+)'; it has {groups}"
        )
    return pattern


class AlterSettings(Section):
    """How a copy of a data set is altered (`munkey.data.source_settings.alter_samples`).

    Attributes
    ----------
    share
        Which share of the eligible training samples is altered.
    classes
        Names of two classes to confuse, or of the class that a patch indicates; none for twins.
    """

    kind: Literal["confusion", "patch", "twins"]
    share: Rate
    classes: list[str]

    @model_validator(mode="after")
    def _require_class_count(self) -> Self:
        class_count = {"confusion": 2, "patch": 1, "twins": 0}[self.kind]
        if len(set(self.classes)) != class_count:
            raise ValueError(
                f"classes = {self.classes}: {self.kind} takes {class_count} different ones"
            )
        return self


class SourceSettings(Section):
    """Where a data set comes from, and which part of it is used.

    Attributes
    ----------
    reader
        How to read the user's own files; None for a registered data set.
    path
        The folder or file; None if the data set needs none.
    md5
        MD5 of the user's own copy of a published file; None for the published MD5.
    storage_size
        Side of the stored images in pixels; None to keep their size.
    split
        Shares of train, val and test, for data without splits.
    limit_per_class
        The largest number of images of each class, in each split or in those that are keys. None
        for all.
    val_from
        None for val as the data set has it. "train": val is a part of train, and the data set's own
        val is part of test.
    classes
        Names of numbered classes, in order; None to keep the numbers.
    only
        Names of the classes to use; None for all.
    units
        A regular expression whose group matches the unit in a picture's path.
    on_bad
        What to do with unreadable pictures.
    white
        The brightest value of 16-bit grayscale; None for 65535.
    alter
        None for unaltered data.
    """

    reader: str | None
    path: UserPath | None
    md5: Annotated[str, Field(pattern="^[0-9a-f]{32}$")] | None = None  # earlier results have none
    storage_size: Pixels | None
    split: Annotated[list[Rate], Field(min_length=3, max_length=3)]
    limit_per_class: Count | dict[Literal["train", "val", "test"], Count] | None
    val_from: Literal["train"] | None = None  # earlier results have none
    classes: Annotated[list[Annotated[str, Field(min_length=1)]], Field(min_length=1)] | None
    only: Annotated[list[str], Field(min_length=2)] | None
    units: Annotated[str, AfterValidator(_require_one_group)] | None
    on_bad: OnBad = "raise"  # earlier results have neither this nor white
    white: White | None = None
    alter: AlterSettings | None

    @model_validator(mode="after")
    def _require_split_and_classes(self) -> Self:
        if abs(sum(self.split) - 1) > 1e-9:
            raise ValueError(f"split = {self.split} must sum to 1: shares of train, val, test")
        if len(set(self.classes or [])) != len(self.classes or []):
            raise ValueError(f"classes = {self.classes}: each may be listed only once")
        return self


class DataSettings(Section):
    """The images that the model reads.

    Attributes
    ----------
    image_size
        Side in pixels.
    pixel_mean, pixel_std
        Normalize pixels in [0, 1].
    """

    image_size: Pixels
    pixel_mean: float
    pixel_std: Positive


class EncoderSettings(Section):
    """The frozen encoder, or several (`munkey.encoders.parts`).

    Attributes
    ----------
    revision
        Commit of its hub repository.
    image_size
        Side of its input in pixels.
    mirror
        Whether a key is averaged with that of the mirrored image.
    """

    encoder: UserPath
    revision: Annotated[str, Field(pattern="^[0-9a-f]{40}$")] | None
    image_size: Pixels | None
    batch_size: Count
    mirror: bool = False  # earlier results and models have none


class KeySettings(EncoderSettings):
    """The frozen encoder, and how many neighbors of each sample are stored.

    Attributes
    ----------
    depth
        The number of stored neighbors per sample.
    """

    depth: Count


class ModelSettings(Section):
    """The ViT that all families share (app. B.3)."""

    patch_size: Pixels
    width: Width
    depth: SmallCount
    heads: SmallCount
    mlp_ratio: Annotated[float, Field(gt=0, le=100)]

    @model_validator(mode="after")
    def _require_divisible_width(self) -> Self:
        if self.width % self.heads:
            raise ValueError(f"width = {self.width} must be a multiple of heads = {self.heads}")
        return self


class TrainSettings(Section):
    """Training of originals and oracles (app. B.3)."""

    epochs: Count
    batch_size: Count
    lr: Positive
    warmup_epochs: NonNegative
    betas: Betas
    weight_decay: NonNegative
    crop_scale: Range
    crop_ratio: Range
    precision: Literal["auto", "float32", "bfloat16", "float16"]
    compile: bool

    @model_validator(mode="after")
    def _require_ordered(self) -> Self:
        if not self.crop_scale[0] <= self.crop_scale[1] <= 1:
            raise ValueError(
                f"crop_scale = {self.crop_scale} must be [low, high] with 0 < low <= high <= 1"
            )
        if self.crop_ratio[0] > self.crop_ratio[1]:
            raise ValueError(f"crop_ratio = {self.crop_ratio} must be [low, high] with low <= high")
        if self.warmup_epochs >= self.epochs:
            raise ValueError(
                f"warmup_epochs = {self.warmup_epochs} must be below epochs = {self.epochs}"
            )
        return self


Sampling: TypeAlias = Literal[
    "stratified",
    "uniform",
    "class",
    "unit",
    "one-of-unit",
    "known",
    "relied-on",
    "cluster",
    "hard",
    "medium",
    "easy",
    "listed",
]


class ForgetSettings(Section):
    """Forget sets (sec. 4).

    Attributes
    ----------
    rates
        Sizes of the forget sets as shares of the training set. With `listed`, the single rate that
        stands for the list in paths and tables.
    names
        Classes or units that are forgotten together, instead of shares of the samples. With
        `known`, units of which a share is known; with `relied-on`, units of the queried test
        samples.
    file
        The list of samples, with `listed` (`munkey.data.forget_draws`).
    """

    rates: Annotated[list[Rate], Field(min_length=1, max_length=100)]
    sampling: Sampling
    names: Annotated[list[str], Field(min_length=1, max_length=10_000)] | None
    file: UserPath | None = None  # earlier results have none

    @model_validator(mode="after")
    def _require_consistent(self) -> Self:
        if len(set(self.rates)) != len(self.rates):
            raise ValueError(f"rates = {self.rates}: each may be listed only once")
        if self.names and self.sampling not in ("class", "unit", "known", "relied-on"):
            raise ValueError(
                f"names = {self.names}: only with sampling class or unit, not {self.sampling}"
            )
        if not self.names and self.sampling in ("known", "relied-on"):
            raise ValueError(
                f"names = null: sampling {self.sampling} needs units; for altered data, [altered]"
            )
        if self.sampling == "listed" and self.file is None:
            raise ValueError(
                "file = null: sampling listed needs the file that lists what to forget"
            )
        if self.sampling == "listed" and len(self.rates) != 1:
            raise ValueError(
                f"rates = {self.rates}: with sampling listed, one value: the share that the list holds"
            )
        return self


class InferenceSettings(Section):
    """Retrieval at test time (sec. 3.2, app. D.1)."""

    k: Count
    fusion: Fusion
    temperature: Positive


class FinetuneSettings(Section):
    """Settings of all methods that fine-tune (app. B.2)."""

    epochs: Count
    batch_size: Count
    betas: Betas
    weight_decay: NonNegative


class AuditInference(Section):
    """A second way to query the memory in an audit: what differs from `inference`."""

    k: Count
    fusion: Fusion


class NetworkName(Section):
    """The family that post-hoc methods start from."""

    name: str


class WeightsOrigin(Section):
    """Identifies the pretrained weights from which a training run starts."""

    of: str


class SelectionSettings(Section):
    """The grid of (p_image, p_token), and how one is selected (sec. 3.2, app. E)."""

    p_image: Annotated[list[Probability], Field(min_length=1, max_length=20)]
    p_token: Annotated[list[Probability], Field(min_length=1, max_length=20)]
    threshold: Positive
    comparable: NonNegative


class RelearnSettings(Section):
    """Further training only on the retain set.

    Attributes
    ----------
    steps
        Steps after which accuracy is measured.
    lr_factor
        Constant learning rate / train.lr.
    """

    steps: Annotated[
        list[Annotated[int, Field(ge=0, le=1_000_000)]], Field(min_length=2, max_length=100)
    ]
    lr_factor: Positive

    @model_validator(mode="after")
    def _require_ascending_steps(self) -> Self:
        if self.steps[0] or sorted(set(self.steps)) != self.steps:
            raise ValueError(f"steps = {self.steps} must start with 0 and ascend")
        return self


# As a share of the training set. A second pool of this size is disjoint from the first, and
# leaves samples in neither.
MAX_DRAWN_POOL = 0.4


class AuditSettings(Section):
    """The audit of what a model still remembers: pairs of models swap halves of a pool.

    Attributes
    ----------
    pairs
        Pairs of models for each system.
    pool
        Share of the training set. Each model is trained on half of the pool, and forgets that half.
    pool_of
        Random samples; those that the nearest keys classify worst; random ones trained with a wrong
        label; or whole classes, units or clusters, each of which is in one half.
    oracles
        Pairs of models that never see the pool.
    control_pairs
        Pairs of a model that is known to remember what it should forget; 0 for none.
    control
        The settings that such a model changes.
    k
        Neighbors that are averaged on an exploratory path, at most `keys.depth`.
    grid_pairs
        Pairs of models for each combination of the grid.
    grid
        Blocks of settings with the values to try, in all combinations of a block.
    relearn
        Further training of the main run's systems.
    draw
        0, or the number of another random pool, which is disjoint from that of 0.
    in_paper
        Whether the target `paper` and its report include the audit.
    """

    pairs: Annotated[int, Field(ge=2, le=64)]
    pool: Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False)]
    pool_of: Literal["random", "hardest", "mislabeled", "class", "unit", "cluster"]
    oracles: Annotated[int, Field(ge=2, le=64)]
    control_pairs: Annotated[int, Field(ge=0, le=64)]
    control: dict[str, object]
    k: Count
    grid_pairs: Annotated[int, Field(ge=2, le=64)]
    grid: Annotated[
        list[dict[str, Annotated[list[object], Field(min_length=1)]]], Field(max_length=100)
    ]
    relearn: RelearnSettings
    draw: Annotated[int, Field(ge=0)]
    in_paper: bool

    @model_validator(mode="after")
    def _require_drawable_pool(self) -> Self:
        if self.draw and (self.pool_of != "random" or self.pool > MAX_DRAWN_POOL):
            raise ValueError(
                f"draw = {self.draw} must be 0, except for random pools of at most {MAX_DRAWN_POOL}"
            )
        return self

    @model_validator(mode="after")
    def _require_control_pairs(self) -> Self:
        if self.control_pairs == 1:
            raise ValueError(
                "control_pairs = 1 must be 0 (no control) or at least 2: one pair has no interval"
            )
        return self


class StreamSettings(Section):
    """A stream of requests, which forgets the audit's pool bit by bit.

    Attributes
    ----------
    pairs
        Pairs of models.
    requests
        The number of requests that half of the pool is split into.
    additions
        Numbers of the requests after which new samples are added.
    """

    pairs: Annotated[int, Field(ge=2, le=64)]
    requests: Annotated[int, Field(ge=2, le=1000)]
    additions: list[Annotated[int, Field(ge=1)]]

    @model_validator(mode="after")
    def _require_existing_requests(self) -> Self:
        if max(self.additions, default=0) > self.requests:
            raise ValueError(f"additions = {self.additions}: there are {self.requests} requests")
        return self


class ExploreSettings(Section):
    """The page that shows single samples.

    Attributes
    ----------
    samples
        The largest number of samples.
    neighbors
        Neighbors shown for each sample.
    pictures
        Whether pictures are shown, not only ids.
    """

    samples: Annotated[int, Field(ge=10, le=20_000)]
    neighbors: Annotated[int, Field(ge=1, le=100)]
    pictures: bool


class TrackingSettings(Section):
    """The MLflow store."""

    uri: Annotated[str, Field(min_length=1)]


def short_names(knobs: Iterable[str]) -> dict[str, str]:
    """Return short names of settings, by full name.

    p_image for munkey.p_image. Names with the same last part, such as munkey.temperature, stay.
    """
    last_parts = {knob: knob.rpartition(".")[2] for knob in knobs}
    counts = Counter(last_parts.values())
    return {knob: part if counts[part] == 1 else knob for knob, part in last_parts.items()}


def knob_text(value: object) -> str:
    """Format the value of a setting: 0.6–1 for [0.6, 1.0], which may be a list or its text."""
    if str(value).startswith("["):
        return "–".join(f"{float(part):g}" for part in str(value).strip("[]").split(","))
    return f"{value:g}" if isinstance(value, float) else str(value)
