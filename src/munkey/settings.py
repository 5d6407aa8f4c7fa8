"""The typed sections of `params.yaml`. A section that does not fit is refused; none has a default.

These sections know no registry. Sections of a family of models and of an unlearning method stand in its own file.
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
SmallCount = Annotated[int, Field(ge=1, le=1000)]  # that are stacked, joined or run side by side
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
White = Annotated[int, Field(ge=255, le=65_535)]  # the brightest value of gray of 16 bits
# of the tokens of neighbors, at inference or in training (app. D.1)
Fusion = Literal["ensemble", "softmax", "rank"]


class Section(BaseModel):
    """A section of `params.yaml`: strict, frozen, without unknown keys, NaN and infinity."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)

    @classmethod
    def parse(cls, section: object) -> Self:
        """Return a section of this class. A mapping, e.g. from a file, is checked first."""
        if isinstance(section, cls):
            return section
        return cls.model_validate(section)


Sections = Mapping[str, Section]  # by the name that they have in params.yaml


def values_of(sections: Sections) -> dict[str, dict[str, object]]:
    """Return sections as they stand in a JSON file."""
    return {name: section.model_dump() for name, section in sections.items()}


def _one_group(pattern: str) -> str:
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
        The share of those training samples that may be altered that is altered.
    classes
        Names of the two classes that are confused, or of the one that a patch stands for; none for
        twins.
    """

    kind: Literal["confusion", "patch", "twins"]
    share: Rate
    classes: list[str]

    @model_validator(mode="after")
    def _fitting(self) -> Self:
        class_count = {"confusion": 2, "patch": 1, "twins": 0}[self.kind]
        if len(set(self.classes)) != class_count:
            raise ValueError(f"classes = {self.classes}: {self.kind} takes {class_count} of them")
        return self


class SourceSettings(Section):
    """Where a data set comes from, if it is the user's own. storage_size: side in pixels; reader: None: by its name.

    md5: of the user's own copy of a published file; None: the published one's.
    limit_per_class: images of each class in each split, or in the splits that it names. val_from:
    None: val as the data set has it; "train": val is a part of train, and its own val of test. only:
    names of classes; None: all.
    units: a regular expression whose group is the unit in a picture's path. on_bad: what to do with
    pictures that cannot be read; white: the brightest value of gray of 16 bits, None: 65535. alter:
    None: as it is.
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
    units: Annotated[str, AfterValidator(_one_group)] | None
    on_bad: OnBad = "raise"  # earlier results have neither this nor white
    white: White | None = None
    alter: AlterSettings | None

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if abs(sum(self.split) - 1) > 1e-9:
            raise ValueError(f"split = {self.split} must sum to 1: shares of train, val, test")
        if len(set(self.classes or [])) != len(self.classes or []):
            raise ValueError(f"classes = {self.classes}: each may be listed only once")
        return self


class DataSettings(Section):
    """What the model's images look like. image_size: side in pixels; pixel_mean, pixel_std: of pixels in [0, 1]."""

    image_size: Pixels
    pixel_mean: float
    pixel_std: Positive


class EncoderSettings(Section):
    """The frozen encoder, or several (`munkey.encoders.parts`).

    revision: commit of its hub repository; image_size: side of its input in pixels; mirror: whether
    a key is averaged with that of the mirrored picture.
    """

    encoder: UserPath
    revision: Annotated[str, Field(pattern="^[0-9a-f]{40}$")] | None
    image_size: Pixels | None
    batch_size: Count
    mirror: bool = False  # earlier results and models have none


class KeySettings(EncoderSettings):
    """The frozen encoder, and depth: how many neighbors are looked up for each sample."""

    depth: Count


class ModelSettings(Section):
    """The ViT that all families share (app. B.3)."""

    patch_size: Pixels
    width: Width
    depth: SmallCount
    heads: SmallCount
    mlp_ratio: Annotated[float, Field(gt=0, le=100)]

    @model_validator(mode="after")
    def _divisible(self) -> Self:
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
    def _ordered(self) -> Self:
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
    """Forget sets (sec. 4). names: classes or units that are forgotten together, instead of shares of the samples; of
    `known`, the units of which shares are known, and of `relied-on`, those of the test samples that are asked. file: of
    `listed`, the list (`munkey.data.forget_draws`), under the one rate that it is shown by.
    """

    rates: Annotated[list[Rate], Field(min_length=1, max_length=100)]
    sampling: Sampling
    names: Annotated[list[str], Field(min_length=1, max_length=10_000)] | None
    file: UserPath | None = None  # earlier results have none

    @model_validator(mode="after")
    def _sound(self) -> Self:
        if len(set(self.rates)) != len(self.rates):
            raise ValueError(f"rates = {self.rates}: each may be listed only once")
        if self.names and self.sampling not in ("class", "unit", "known", "relied-on"):
            raise ValueError(
                f"names = {self.names}: only with sampling class or unit, not {self.sampling}"
            )
        if not self.names and self.sampling in ("known", "relied-on"):
            raise ValueError(
                f"names = null: sampling {self.sampling} is of units; for what is altered, [altered]"
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
    """What all methods that fine-tune share (app. B.2)."""

    epochs: Count
    batch_size: Count
    betas: Betas
    weight_decay: NonNegative


class AuditInference(Section):
    """How an audit asks a memory a second time: what differs from `inference`."""

    k: Count
    fusion: Fusion


class NetworkName(Section):
    """The family that post-hoc methods start from."""

    name: str


class WeightsOrigin(Section):
    """What tells the pretrained weights that a training starts from from others."""

    of: str


class SelectionSettings(Section):
    """The grid of (p_image, p_token) and how the selection chooses from it (sec. 3.2, app. E)."""

    p_image: Annotated[list[Probability], Field(min_length=1, max_length=20)]
    p_token: Annotated[list[Probability], Field(min_length=1, max_length=20)]
    threshold: Positive
    comparable: NonNegative


class RelearnSettings(Section):
    """Training on the retain set alone. steps: after which it is measured; lr_factor: constant rate / train.lr."""

    steps: Annotated[
        list[Annotated[int, Field(ge=0, le=1_000_000)]], Field(min_length=2, max_length=100)
    ]
    lr_factor: Positive

    @model_validator(mode="after")
    def _ascending(self) -> Self:
        if self.steps[0] or sorted(set(self.steps)) != self.steps:
            raise ValueError(f"steps = {self.steps} must start with 0 and ascend")
        return self


MAX_DRAWN_POOL = (
    0.4  # of the training set: another pool of this size lies apart and leaves something
)


class AuditSettings(Section):
    """How much is left of what was deleted: pairs of models that swap halves of a pool.

    pairs: of models for each system; pool: share of the training set, half of which a model is trained on and forgets;
    pool_of: samples at random, those that the nearest keys classify worst, random ones trained with a wrong label, or
    whole classes, units or clusters, each of which is in one half;
    oracles: pairs of models that never see the pool; control_pairs: of a model that is known to keep what it should
    forget, with the knobs `control` changed; 0 leaves it out; k: neighbors that are averaged on a path that is not the
    deployed one, at most as many as are looked up; grid: blocks of knobs with the values to try, all combinations of a
    block; grid_pairs: pairs for each of them; relearn: training further of the main run's systems; in_paper: whether
    the target `paper` and its report include the audit; draw: 0, or the number of a random pool apart from that one.
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
    def _apart(self) -> Self:
        if self.draw and (self.pool_of != "random" or self.pool > MAX_DRAWN_POOL):
            raise ValueError(
                f"draw = {self.draw} must be 0, but for random pools of at most {MAX_DRAWN_POOL}"
            )
        return self

    @model_validator(mode="after")
    def _control_or_none(self) -> Self:
        if self.control_pairs == 1:
            raise ValueError(
                "control_pairs = 1 must be 0, for no control, or at least 2: one pair has no interval"
            )
        return self


class StreamSettings(Section):
    """Requests one after another, of an audit's pool. pairs: of models; requests: into how many a half is cut;
    additions: the numbers of those after which new samples come.
    """

    pairs: Annotated[int, Field(ge=2, le=64)]
    requests: Annotated[int, Field(ge=2, le=1000)]
    additions: list[Annotated[int, Field(ge=1)]]

    @model_validator(mode="after")
    def _in_the_stream(self) -> Self:
        if max(self.additions, default=0) > self.requests:
            raise ValueError(f"additions = {self.additions}: there are {self.requests} requests")
        return self


class ExploreSettings(Section):
    """The page on which single samples are looked at. samples: shown at most; neighbors: shown of each sample;
    pictures: false shows ids alone.
    """

    samples: Annotated[int, Field(ge=10, le=20_000)]
    neighbors: Annotated[int, Field(ge=1, le=100)]
    pictures: bool


class TrackingSettings(Section):
    """The MLflow store."""

    uri: Annotated[str, Field(min_length=1)]


def short_names(knobs: Iterable[str]) -> dict[str, str]:
    """Knobs by name: p_image for munkey.p_image, but all of it where two end alike, as munkey.temperature does."""
    ends = {knob: knob.rpartition(".")[2] for knob in knobs}
    alike = Counter(ends.values())
    return {knob: end if alike[end] == 1 else knob for knob, end in ends.items()}


def knob_text(value: object) -> str:
    """A knob's value as a person writes it: 0.6–1 for [0.6, 1.0], be it a list or its text."""
    if str(value).startswith("["):
        return "–".join(f"{float(part):g}" for part in str(value).strip("[]").split(","))
    return f"{value:g}" if isinstance(value, float) else str(value)
