"""Accuracy of the exact heads on stronger keys, after a deletion, and the time to extract these keys.

    python -m benchmarks.keys data/cifar10-images --figure docs/results/keys/keys.png

The folder contains train/CLASS/* and test/CLASS/*. Training pictures are drawn from the first files
of each class, `--draws` times. A tenth of each draw is deleted, and accuracy is measured on all
test pictures. The keys of each part and of mirror images are extracted once and stored in
`--cache`. The time of an extraction is the median of three, on the first pictures. It is CPU time,
which depends less on other work on the machine. `--key NAME` measures only the key that the table
calls NAME.
"""

import argparse
import statistics
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from tabulate import tabulate

from munkey import ForgettingKNN, ForgettingKRR, ForgettingLDA, ForgettingNCM, ForgettingRanPAC
from munkey.core.console import progress
from munkey.core.files import write_text
from munkey.deploy.model.images import read_picture
from munkey.encoders.keys import extract
from munkey.encoders.parts import build, join_keys
from munkey.estimators.classifier import ForgettingClassifier
from munkey.evaluation.paired import compare_pair
from munkey.settings import EncoderSettings

# Encoders, and whether to use mirror images as well. They are ordered from cheap to strong, so that
# a reader can pick a key for a budget.
LADDER = (
    ("efficientnet-lite0@96", False),
    ("efficientnet-lite0@96", True),
    ("efficientnet-lite0@160", False),
    ("efficientnet-lite1@192", False),
    ("efficientnet-lite0@160+efficientnet-lite2@224", False),
    ("efficientnet-lite0@160+efficientnet-lite1@192+efficientnet-lite2@224", False),
    ("efficientnet-lite0@160+efficientnet-lite1@192+efficientnet-lite2@224", True),
)
# LDA, KRR and RanPAC select their constants on the remaining rows. KNN's are those of the preset
# cifar10-small. NCM has none that changes which class is the most probable.
HEADS: dict[str, ForgettingClassifier] = {
    "LDA": ForgettingLDA(alpha="auto"),
    "KRR": ForgettingKRR(lam="auto"),
    "RanPAC": ForgettingRanPAC(),
    "KNN": ForgettingKNN(k=16, vote="equal"),
    "NCM": ForgettingNCM(temperature=1.0),
}
RATE = 0.1  # share of a draw that is deleted
BATCH = 64
TIMED = 256  # pictures on which an extraction is timed
REPEATS = 3


class Pictures(NamedTuple):
    """Labeled pictures, with those for training first.

    Attributes
    ----------
    images
        (N, H, W, 3) uint8.
    labels
        (N,).
    train_count
        The number of pictures for training.
    """

    images: np.ndarray
    labels: np.ndarray
    train_count: int


class Keys:
    """The keys of pictures. Those of each part are extracted once and stored in a cache."""

    def __init__(self, pictures: Pictures, cache: Path) -> None:
        self.pictures = pictures
        self.cache = cache
        self._seconds: dict[str, float] = {}  # by part

    def of(self, encoder: str, mirror: bool) -> np.ndarray:
        """Return the joined keys (N, d) of all parts, as for `keys.encoder` and `keys.mirror`."""
        parts = []
        for part in encoder.split("+"):
            keys = self._extracted(part, is_mirrored=False)
            if mirror:
                keys = keys + self._extracted(part, is_mirrored=True)
                keys = keys / np.linalg.norm(keys, axis=1, keepdims=True)
            parts.append(keys)
        return join_keys(parts) if len(parts) > 1 else parts[0]

    def seconds_per_thousand(self, encoder: str, mirror: bool) -> float:
        """Return the CPU seconds to extract the keys of 1,000 pictures."""
        total = 0.0
        for part in encoder.split("+"):
            if part not in self._seconds:
                self._seconds[part] = self._time_part(part)
            total += self._seconds[part]
        return 2 * total if mirror else total

    def _time_part(self, part: str) -> float:
        """Measure a part's CPU seconds for 1,000 pictures: the median, after an uncounted run."""
        encode = build(_part_settings(part), "cpu")
        images = self.pictures.images[:TIMED]
        seconds = []
        for _ in range(1 + REPEATS):
            start = time.process_time()
            extract(encode, images, BATCH, "cpu", iter)
            seconds.append(time.process_time() - start)
        return 1000 * statistics.median(seconds[1:]) / len(images)

    def _extracted(self, part: str, *, is_mirrored: bool) -> np.ndarray:
        """Return a part's keys (N, d), from the cache if they are stored there."""
        name = f"{part}-{int(is_mirrored)}"
        file = self.cache / f"{name}.npy"
        if not file.exists():
            images = self.pictures.images
            if is_mirrored:
                images = np.ascontiguousarray(images[:, :, ::-1])
            keys = extract(
                build(_part_settings(part), "cpu"),
                images,
                BATCH,
                "cpu",
                lambda starts: progress(starts, name, "images", units_per_item=BATCH),
            )
            np.save(file, keys)
        return np.load(file)


def _part_settings(part: str) -> EncoderSettings:
    return EncoderSettings(encoder=part, revision=None, image_size=None, batch_size=BATCH)


def pictures_in(folder: Path, per_class: int) -> Pictures:
    """Read the first training pictures of each class, and then all test pictures."""
    classes = sorted(path.name for path in (folder / "train").iterdir() if path.is_dir())
    files: list[Path] = []
    labels: list[int] = []
    train_count = 0
    for split, limit in (("train", per_class), ("test", None)):
        for label, name in enumerate(classes):
            class_files = sorted((folder / split / name).iterdir())[:limit]
            files += class_files
            labels += [label] * len(class_files)
        if split == "train":
            train_count = len(files)
    images = [read_picture(file) for file in progress(files, "pictures", "pictures")]
    return Pictures(np.stack(images), np.array(labels), train_count)


def drawn_rows(pictures: Pictures, draw: int, share: float) -> tuple[np.ndarray, np.ndarray]:
    """Draw a share of each class's rows to train on, and RATE of those to delete.

    Returns both, sorted.
    """
    generator = np.random.default_rng(draw)
    rows: list[int] = []
    deleted_rows: list[int] = []
    labels = pictures.labels[: pictures.train_count]
    for label in np.unique(labels):
        class_rows = generator.permutation(np.flatnonzero(labels == label))
        drawn = class_rows[: round(share * len(class_rows))]
        rows += drawn.tolist()
        deleted_rows += drawn[: round(RATE * len(drawn))].tolist()
    return np.sort(rows), np.sort(deleted_rows)


def is_right(
    head: ForgettingClassifier, keys: np.ndarray, pictures: Pictures, draw: int, share: float
) -> np.ndarray:
    """Return whether each test picture (T,) is classified correctly after the deletion."""
    rows, deleted = drawn_rows(pictures, draw, share)
    head.fit(keys[rows], pictures.labels[rows], ids=rows)
    head.forget(deleted)
    predicted = head.predict(keys[pictures.train_count :])
    return predicted == pictures.labels[pictures.train_count :]


def format_difference(first: np.ndarray, second: np.ndarray) -> str:
    """Return the accuracy of `first` minus that of `second`, with a 95% interval, in points.

    The interval covers draws and test pictures (`munkey.evaluation.paired`).

    Parameters
    ----------
    first, second
        (draws, T) bool: whether a picture is classified correctly, for the same draws and test
        pictures.
    """
    pair = compare_pair(first.astype(float) - second)
    return f"{pair['difference']:+.2f} [{pair['low']:.2f}, {pair['high']:.2f}]"


def key_name(encoder: str, mirror: bool) -> str:
    """Return the name of a key in the table and the figure."""
    name = encoder.replace("efficientnet-", "").replace("+", " + ")
    return f"{name}, mirrored" if mirror else name


def table_row(
    name: str, keys: np.ndarray, seconds: float, right: dict[str, np.ndarray]
) -> dict[str, object]:
    """Return the accuracy of each head after the deletion, and the lead of LDA over two others.

    Parameters
    ----------
    right
        By head, (draws, T) bool: whether a picture is classified correctly.
    """
    row: dict[str, object] = {"Key": name, "d": keys.shape[1], "s / 1,000": f"{seconds:.0f}"}
    for head, flags in right.items():
        by_draw = 100 * flags.mean(axis=1)
        row[head] = f"{by_draw.mean():.2f} ± {by_draw.std(ddof=1):.2f}"
    for other in ("KRR", "KNN"):
        row[f"LDA minus {other}"] = format_difference(right["LDA"], right[other])
    return row


def draw_figure(points: pd.DataFrame, file: Path) -> None:
    """Plot accuracy against extraction time, with a line for each head."""
    from munkey.report.figures.theme import line_style, make_canvas

    figure = make_canvas(6.4, 4.0)
    axes = figure.subplots()
    for number, (head, part) in enumerate(points.groupby("head", sort=False)):
        line = part.sort_values("seconds")
        axes.errorbar(
            line["seconds"], line["accuracy"], line["sd"], label=head, **line_style(number)
        )
    axes.set_xscale("log")
    ticks = sorted(points["seconds"].unique())
    axes.set_xticks(ticks, [f"{tick:.0f}" for tick in ticks])
    axes.set_xticks([], minor=True)
    axes.set_xlabel("extraction [CPU s per 1,000 images]")
    axes.set_ylabel("test accuracy after deletion [%]")
    axes.legend(frameon=False)
    figure.savefig(file, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--per-class", type=int, default=300)
    parser.add_argument("--share", type=float, default=0.8)
    parser.add_argument("--draws", type=int, default=5)
    names = [key_name(*key) for key in LADDER]
    parser.add_argument(
        "--key",
        action="append",
        choices=names,
        help="only this key; can be repeated; by default, all",
    )
    parser.add_argument("--cache", type=Path, default=Path("cache/benchmarks/keys"))
    parser.add_argument("--figure", type=Path)
    parser.add_argument("--table", type=Path)
    arguments = parser.parse_args()
    arguments.cache.mkdir(parents=True, exist_ok=True)
    pictures = pictures_in(arguments.folder, arguments.per_class)
    extracted = Keys(pictures, arguments.cache)
    rows = []
    points = []
    for encoder, mirror in LADDER:
        if arguments.key and key_name(encoder, mirror) not in arguments.key:
            continue
        keys = extracted.of(encoder, mirror)
        seconds = extracted.seconds_per_thousand(encoder, mirror)
        right = {}
        for name, head in HEADS.items():
            flags = [
                is_right(head, keys, pictures, draw, arguments.share)
                for draw in range(arguments.draws)
            ]
            right[name] = np.stack(flags)
            by_draw = 100 * right[name].mean(axis=1)
            points.append(
                {
                    "head": name,
                    "seconds": seconds,
                    "accuracy": by_draw.mean(),
                    "sd": by_draw.std(ddof=1),
                }
            )
        rows.append(table_row(key_name(encoder, mirror), keys, seconds, right))
        print(tabulate(rows, headers="keys", tablefmt="pipe"), flush=True)
    if arguments.table:
        write_text(arguments.table, tabulate(rows, headers="keys", tablefmt="pipe") + "\n")
    if arguments.figure:
        draw_figure(pd.DataFrame(points), arguments.figure)


if __name__ == "__main__":
    main()
