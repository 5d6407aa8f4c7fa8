"""The typed sections of `params.yaml`. They have no defaults, and invalid values are rejected.

The section of a model family or unlearning method is defined in that family's or method's module.
"""

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
    """A section of `params.yaml`: strict and frozen. Rejects unknown keys, NaN and infinity."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)

    @classmethod
    def parse(cls, section: object) -> Self:
        """Return the section as an instance of this class. Validates it if it is a mapping."""
        if isinstance(section, cls):
            return section
        return cls.model_validate(section)


Sections = Mapping[str, Section]  # by their names in params.yaml


def _require_one_group(pattern: str) -> str:
    """Return `pattern` unchanged if it is a regular expression with one group.

    Raises ValueError otherwise.
    """
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

    Attributes
    ----------
    kind
        `confusion` swaps labels of two classes, `patch` adds a patch and the target class's label,
        and `twins` adds near-duplicates.
    share
        The share of the eligible training samples to alter.
    classes
        The two classes to confuse, or the target class of the patch; empty for `twins`.
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
    """Where a data set comes from, and how to read it.

    Attributes
    ----------
    reader
        How to read the user's own files; None for a registered data set.
    path
        The user's file or folder.
    md5
        The MD5 of the user's own copy of a published file; None to expect the published MD5.
    storage_size
        The side of stored images in pixels; None to keep their size.
    split
        The shares of training, validation and test samples, for files without splits.
    limit_per_class
        The maximum number of images of each class in each split, or by the names of splits.
    val_from
        "train" takes the validation set from the training set and moves the published validation
        set to the test set; None uses the validation set as published.
    first_label
        The number of the first class in files of numbered classes, such as 1 for EMNIST letters.
    classes
        Names for numbered classes, in order.
    only
        Names of the classes to use; None to use all.
    units
        A regular expression whose group matches the unit in a picture's path.
    on_bad
        What to do with unreadable pictures.
    white
        The brightest value of 16-bit grayscale pictures; None for 65535. If there are several, each
        picture has the lowest that none of its values exceeds.
    alter
        How to alter the data set; None to leave it unchanged.
    """

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
    """The format of the model's input images.

    Attributes
    ----------
    image_size
        The side in pixels.
    pixel_mean, pixel_std
        The mean and standard deviation that normalize pixels in [0, 1].
    """

    image_size: Pixels
    pixel_mean: float
    pixel_std: Positive


class EncoderSettings(Section):
    """The frozen encoder, or several (`munkey.encoders.parts`).

    Attributes
    ----------
    encoder
        The encoder's name or file.
    revision
        The commit of its hub repository; None if it is not from a hub.
    image_size
        The side of its input in pixels; None for the encoder's own size.
    batch_size
        The number of images per forward pass.
    mirror
        Whether to average the key of a picture with the key of its mirror image.
    """

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
    """How to choose forget sets (sec. 4).

    Attributes
    ----------
    rates
        Shares of the training set to forget. For `listed`, the share of the listed samples.
    sampling
        How to draw the samples, for example stratified by class.
    names
        For `class` and `unit`: the classes or units to forget, instead of random ones. For
        `known`: the units whose samples are known in part. For `relied-on`: the units of the test
        samples whose nearest training samples are forgotten.
    file
        For `listed`: the file that lists the samples to forget (`munkey.data.forget_draws`).
    """

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
    """Retrieval at test time (the paper's sec. 3.2 and app. D.1).

    Attributes
    ----------
    k
        The number of neighbors.
    fusion
        How the neighbors' tokens are combined.
    temperature
        The temperature of the softmax over the neighbors' cosines.
    """

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


class NetworkName(Section):
    """The family that post-hoc methods start from."""

    name: str


class WeightsOrigin(Section):
    """The identifier of the pretrained weights that training starts from."""

    of: str


class TrackingSettings(Section):
    """The MLflow store."""

    uri: Annotated[str, Field(min_length=1)]
