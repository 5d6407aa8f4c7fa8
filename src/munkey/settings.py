"""The typed sections of `params.yaml`. Those of families and methods are in their modules."""

import os
import re
from collections.abc import Mapping
from typing import Annotated, Literal, Self, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

Count = Annotated[int, Field(ge=1, le=1_000_000)]
Pixels = Annotated[int, Field(ge=1, le=4096)]  # side of an image
Width = Annotated[int, Field(ge=1, le=65_536)]  # length of a vector
SmallCount = Annotated[int, Field(ge=1, le=1000)]  # number of layers, heads, shards, ...
# Above 0. Numbers beyond these limits have no use, and dividing by them would overflow.
Positive = Annotated[float, Field(ge=1e-12, le=1e12)]
NonNegative = Annotated[float, Field(ge=0)]
Probability = Annotated[float, Field(ge=0, le=1)]
Share = Annotated[float, Field(gt=0, le=1)]
Rate = Annotated[float, Field(gt=0, lt=1)]
Betas = Annotated[list[Annotated[float, Field(ge=0, lt=1)]], Field(min_length=2, max_length=2)]
Range = Annotated[list[Positive], Field(min_length=2, max_length=2)]
CountRange = Annotated[list[Count], Field(min_length=2, max_length=2)]
# A leading ~ stands for the home folder.
UserPath = Annotated[str, Field(min_length=1), AfterValidator(os.path.expanduser)]
OnBad = Literal["raise", "skip"]  # what to do with unreadable pictures
# Brightest value of 16-bit grayscale pictures.
WhiteValue = Annotated[int, Field(ge=255, le=65_535)]
White = WhiteValue | Annotated[list[WhiteValue], Field(min_length=1)]
# How neighbors' tokens are combined, in training and at inference (app. D.1).
Fusion = Literal["ensemble", "softmax", "rank"]


class Section(BaseModel):
    """A strict section of `params.yaml`, which explains each setting. It has no defaults."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)

    @classmethod
    def parse(cls, section: object) -> Self:
        """Return the section as an instance of this class. Validates it if it is a mapping."""
        if isinstance(section, cls):
            return section
        return cls.model_validate(section)


Sections = Mapping[str, Section]  # by their names in params.yaml


def _require_one_group(pattern: str) -> str:
    """Return a regular expression with one group unchanged. Raises ValueError for any other text."""
    try:
        group_count = re.compile(pattern).groups
    except re.error as error:
        raise ValueError(f"is not a valid regular expression ({error})") from None
    if group_count != 1:
        raise ValueError(
            f"must have one group in parentheses, as in '(person-[0-9]+)'; it has {group_count}"
        )
    return pattern


class AlterSettings(Section):
    """How to alter a copy of a data set (`munkey.data.source_settings.alter_samples`).

    `confusion` swaps labels of two classes, `patch` adds a patch and the target class's label, and
    `twins` adds near-duplicates, to a share of the eligible training samples.
    """

    kind: Literal["confusion", "patch", "twins"]
    share: Rate
    classes: list[str]

    @model_validator(mode="after")
    def _check_class_count(self) -> Self:
        class_count = {"confusion": 2, "patch": 1, "twins": 0}[self.kind]
        if len(set(self.classes)) != class_count:
            raise ValueError(
                f"classes = {self.classes}: {self.kind} needs {class_count} different classes"
            )
        return self


class SourceSettings(Section):
    """The section `source`: where a data set comes from, and how to read it."""

    reader: str | None
    path: UserPath | None
    # The fields with defaults are missing in the settings of earlier results.
    md5: Annotated[str, Field(pattern="^[0-9a-f]{32}$")] | None = None
    storage_size: Pixels | None
    split: Annotated[list[Rate], Field(min_length=3, max_length=3)]
    limit_per_class: Count | dict[Literal["train", "val", "test"], Count] | None
    val_from: Literal["train"] | None = None
    first_label: Annotated[int, Field(ge=0)] = 0
    classes: Annotated[list[Annotated[str, Field(min_length=1)]], Field(min_length=1)] | None
    only: Annotated[list[str], Field(min_length=2)] | None
    units: Annotated[str, AfterValidator(_require_one_group)] | None
    on_bad: OnBad = "raise"
    white: White | None = None
    alter: AlterSettings | None

    @model_validator(mode="after")
    def _check_split_and_classes(self) -> Self:
        if abs(sum(self.split) - 1) > 1e-9:
            raise ValueError(
                f"split = {self.split}: the shares of train, val, and test must sum to 1"
            )
        class_names = self.classes or []
        if len(set(class_names)) != len(class_names):
            raise ValueError(f"classes = {self.classes}: each may be listed only once")
        return self


class DataSettings(Section):
    """The section `data`: the model's input images."""

    image_size: Pixels
    pixel_mean: float
    pixel_std: Positive


class EncoderSettings(Section):
    """The frozen encoder, or several (`munkey.encoders.parts`): `keys` without its depth."""

    encoder: UserPath
    revision: Annotated[str, Field(pattern="^[0-9a-f]{40}$")] | None
    image_size: Pixels | None
    batch_size: Count
    mirror: bool = False  # missing in the settings of earlier results and models


class KeySettings(EncoderSettings):
    """The frozen encoder, and the number of neighbors (`depth`) to store for each sample."""

    depth: Count


class ModelSettings(Section):
    """The ViT that all families share (app. B.3)."""

    patch_size: Pixels
    width: Width
    depth: SmallCount
    heads: SmallCount
    mlp_ratio: Annotated[float, Field(gt=0, le=100)]

    @model_validator(mode="after")
    def _check_width(self) -> Self:
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
    def _check_ranges(self) -> Self:
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


RANDOM_SAMPLINGS = ("uniform", "stratified")  # the paper's: of the whole training set


class ForgetSettings(Section):
    """The section `forget`: how to choose forget sets (sec. 4)."""

    rates: Annotated[list[Rate], Field(min_length=1, max_length=100)]
    sampling: Sampling
    names: Annotated[list[str], Field(min_length=1, max_length=10_000)] | None
    file: UserPath | None = None  # missing in the settings of earlier results

    @model_validator(mode="after")
    def _check_sampling(self) -> Self:
        if len(set(self.rates)) != len(self.rates):
            raise ValueError(f"rates = {self.rates}: each may be listed only once")
        if self.names and self.sampling not in ("class", "unit", "known", "relied-on"):
            raise ValueError(
                f"names = {self.names}: cannot be combined with sampling = {self.sampling}, only"
                " with class, unit, known, or relied-on"
            )
        if not self.names and self.sampling in ("known", "relied-on"):
            raise ValueError(
                f"names = null: sampling = {self.sampling} needs the names of units; for altered"
                " samples, set [altered]"
            )
        if self.sampling == "listed" and self.file is None:
            raise ValueError(
                "file = null: sampling = listed needs a file that lists the samples to forget"
            )
        if self.sampling == "listed" and len(self.rates) != 1:
            raise ValueError(
                f"rates = {self.rates}: sampling = listed needs a single rate, the listed share"
                " of the training set"
            )
        return self


class InferenceSettings(Section):
    """The section `inference`: retrieval at test time (sec. 3.2, app. D.1)."""

    k: Count
    fusion: Fusion
    temperature: Positive


class FinetuneSettings(Section):
    """Settings that all fine-tuning methods share (app. B.2)."""

    epochs: Count
    batch_size: Count
    betas: Betas
    weight_decay: NonNegative


class AuditInference(Section):
    """The values that replace those of `inference` when an audit queries a memory a second time."""

    k: Count
    fusion: Fusion


# Paths on which audits query systems beside the deployed one (docs/audits.md).
FurtherPath = Literal["perturbed", "probe"]


class FurtherPaths(Section):
    """The paths, beside those of its family, on which an audit queries a system."""

    names: list[FurtherPath]


class NetworkName(Section):
    """The family that post-hoc methods start from."""

    name: str


class WeightsOrigin(Section):
    """The identifier of the pretrained weights that training starts from."""

    of: str


class TrackingSettings(Section):
    """The MLflow store."""

    uri: Annotated[str, Field(min_length=1)]
