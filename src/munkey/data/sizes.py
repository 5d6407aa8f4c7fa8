"""Sizes of the published data sets, and limits on the images of each class."""

from typing import NamedTuple

from munkey.settings import SourceSettings


class Size(NamedTuple):
    """Number of images in each split, side of a stored picture in pixels and number of classes."""

    train: int
    val: int
    test: int
    side: int
    classes: int

    @property
    def images(self) -> int:
        return self.train + self.val + self.test

    @property
    def picture_bytes(self) -> int:
        return 3 * self.side**2


SIZES = {  # by the name of the data set
    "bloodmnist": Size(11_959, 1_712, 3_421, 224, 8),
    "cifar10": Size(50_000, 4_000, 6_000, 32, 10),
    "cifar100": Size(50_000, 4_000, 6_000, 32, 100),
    "cifar20": Size(50_000, 4_000, 6_000, 32, 20),
    "dermamnist": Size(7_007, 1_003, 2_005, 224, 7),
    "digits": Size(1_078, 270, 449, 8, 10),
    "pathmnist": Size(89_996, 4_000, 6_004, 224, 9),
    "tinyimagenet": Size(100_000, 4_000, 6_000, 64, 200),
}


def get_class_limit(settings: SourceSettings, split: str) -> int | None:
    """Return the maximum number of images per class in a split, or None if it is unlimited."""
    if not isinstance(settings.limit_per_class, dict):
        return settings.limit_per_class
    # Copied for the type checker: the original's keys are literals, and `split` is any string.
    limits: dict[str, int] = dict(settings.limit_per_class.items())
    return limits.get(split)
