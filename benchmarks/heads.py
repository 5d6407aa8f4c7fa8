"""Accuracy of the exact heads on random splits of digits, or of folders of pictures, and how long a deletion takes.

    python -m benchmarks.heads digits
    python -m benchmarks.heads FOLDER --train 4500 --test 2000
    python -m benchmarks.heads time --rows 5000
    python -m benchmarks.heads many --rows 1000000 --deletions 200

FOLDER: a folder of pictures for each class; both sets are drawn from it at random. Keys are of efficientnet-lite0
at 96 px, pixels at 8, both joined at unit norm. Constants are those that the estimators have by default, or `auto`.
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import StratifiedShuffleSplit
from tabulate import tabulate

from munkey import (
    ForgettingKNN,
    ForgettingKRR,
    ForgettingLDA,
    ForgettingNCM,
    ForgettingRanPAC,
    PictureKeys,
    Predictor,
)
from munkey.estimators.classifier import ForgettingClassifier

SIDE = 8
PIXELS = 3 * SIDE**2
BLOCK = 50_000  # rows that are made at a time
# by name, with the key that each reads
HEADS: dict[str, tuple[ForgettingClassifier, str]] = {
    "KNN": (ForgettingKNN(), "network"),
    "LDA": (ForgettingLDA(), "network"),
    "LDA, alpha auto": (ForgettingLDA(alpha="auto"), "network"),
    "RanPAC, all auto": (ForgettingRanPAC(), "network"),
    "KRR": (ForgettingKRR(), "network"),
    "KRR, all auto": (ForgettingKRR(lam="auto"), "network"),
    "LDA on pixels, alpha auto": (ForgettingLDA(alpha="auto"), "pixels"),
    "KRR on pixels": (ForgettingKRR(), "pixels"),
    "KRR on pixels, Gaussian": (ForgettingKRR(pixels=PIXELS), "pixels"),
    "KRR on pixels, Gaussian, all auto": (ForgettingKRR(pixels=PIXELS, lam="auto"), "pixels"),
    "KRR on both, arc-cosine": (ForgettingKRR(), "both"),
    "KRR on both, mixed": (ForgettingKRR(pixels=PIXELS), "both"),
    "KRR on both, mixed, all auto": (ForgettingKRR(pixels=PIXELS, lam="auto"), "both"),
}


def keys_of(pictures: np.ndarray | list[Path]) -> dict[str, np.ndarray]:
    """The keys of pictures, by the name of what makes them."""
    network = PictureKeys().transform(pictures)
    pixels = PictureKeys(encoder="pixels", image_size=SIDE).transform(pictures)
    return {"network": network, "pixels": pixels, "both": np.hstack([network, pixels])}


def digits() -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Keys and classes of scikit-learn's digits."""
    data = load_digits()
    gray = (data.images / 16 * 255).round().astype(np.uint8)
    return keys_of(np.repeat(gray[..., None], 3, axis=-1)), data.target


def folder(path: Path, count: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Keys and classes of so many pictures of a folder, as many of each class."""
    files = []
    labels = []
    classes = sorted(each for each in path.iterdir() if each.is_dir())
    for number, each in enumerate(classes):
        own_files = sorted(each.iterdir())[: count // len(classes)]
        files += own_files
        labels += [number] * len(own_files)
    return keys_of(files), np.array(labels)


def accuracies(
    keys: dict[str, np.ndarray], labels: np.ndarray, splits: int, train: int, test: int
) -> list[list[object]]:
    """A row for each head: test accuracy over random splits, mean and standard deviation, and seconds of a fit."""
    drawn = StratifiedShuffleSplit(splits, train_size=train, test_size=test, random_state=0)
    pairs = list(drawn.split(labels, labels))
    rows: list[list[object]] = []
    for name, (head, key) in HEADS.items():
        shares = []
        start = time.perf_counter()
        for train_rows, test_rows in pairs:
            head.fit(keys[key][train_rows], labels[train_rows])
            shares.append(100 * head.score(keys[key][test_rows], labels[test_rows]))
        seconds = (time.perf_counter() - start) / splits
        rows.append([name, f"{np.mean(shares):.2f} ± {np.std(shares, ddof=1):.2f}", seconds])
        print(rows[-1], flush=True)
    return rows


def times(rows: int, deletions: int) -> list[list[object]]:
    """A row for each head: median and range of the wall time until a deletion is acknowledged, and of the CPU time of
    the next answer, which other work on the machine changes less.
    """
    generator = np.random.default_rng(0)
    centers = generator.normal(size=(10, 1280))
    labels = generator.integers(0, 10, rows)
    keys = (centers[labels] + 3 * generator.normal(size=(rows, 1280))).astype(np.float32)
    measured: list[list[object]] = []
    for name in ("LDA", "LDA, alpha auto", "RanPAC, all auto", "KRR"):
        head, _ = HEADS[name]
        acknowledged = []
        answered = []
        with tempfile.TemporaryDirectory() as folder:
            head.fit(keys, labels, save_to=Path(folder, "model"))
            with Predictor.load(Path(folder, "model"), writer=True, device="cpu") as model:
                model.predict(keys[:1])
                for row in range(deletions):
                    start = time.perf_counter()
                    model.forget([row])
                    acknowledged.append(1000 * (time.perf_counter() - start))
                    start = time.process_time()
                    model.predict(keys[:1])
                    answered.append(time.process_time() - start)
        measured.append([name, _range(acknowledged), _range(answered)])
        print(measured[-1], flush=True)
    return measured


def many_rows(rows: int, width: int, deletions: int) -> list[list[object]]:
    """A row for each head of sums: as `times`, and the CPU time of an acknowledged deletion, at so many rows.

    Rows are added block by block, so that the memory of this process stays small.
    """
    generator = np.random.default_rng(0)
    measured: list[list[object]] = []
    for head in (ForgettingLDA(temperature=5.0), ForgettingNCM(temperature=0.015)):
        acknowledged = []
        cpu = []
        answered = []
        with tempfile.TemporaryDirectory() as folder:
            directory = Path(folder, "model")
            head.fit(*_block(generator, min(BLOCK, rows), width), save_to=directory)
            with Predictor.load(directory, writer=True, device="cpu") as model:
                while len(model.ids) < rows:
                    model.add(*_block(generator, min(BLOCK, rows - len(model.ids)), width))
                queries, _ = _block(generator, 1, width)
                model.predict(queries)
                for row in generator.choice(rows, deletions, replace=False):
                    start = time.perf_counter()
                    cpu_start = time.process_time()
                    model.forget([row])
                    cpu.append(1000 * (time.process_time() - cpu_start))
                    acknowledged.append(1000 * (time.perf_counter() - start))
                    start = time.process_time()
                    model.predict(queries)
                    answered.append(time.process_time() - start)
        measured.append(
            [head.family, _quartiles(acknowledged), _quartiles(cpu), _quartiles(answered)]
        )
        print(measured[-1], flush=True)
    return measured


def _block(generator: np.random.Generator, count: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    return (
        generator.standard_normal((count, width), dtype=np.float32),
        generator.integers(0, 10, count),
    )


def _quartiles(values: list[float]) -> str:
    low, middle, high = np.percentile(values, [25, 50, 75])
    return f"{middle:.3g} [{low:.3g}, {high:.3g}]"


def _range(values: list[float]) -> str:
    return f"{np.median(values):.2f} [{min(values):.2f}, {max(values):.2f}]"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", help="digits, time, many, or a folder of folders of pictures")
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--train", type=int, default=1078)
    parser.add_argument("--test", type=int, default=449)
    parser.add_argument("--rows", type=int, default=5000)
    parser.add_argument("--width", type=int, default=384, help="numbers in a key, for many")
    parser.add_argument("--deletions", type=int, default=20)
    options = parser.parse_args()
    if options.what == "time":
        heads = ["", "acknowledged (ms)", "next answer (CPU s)"]
        print(tabulate(times(options.rows, options.deletions), heads, tablefmt="github"))
        return
    if options.what == "many":
        heads = ["", "acknowledged (ms)", "its CPU (ms)", "next answer (CPU s)"]
        table = many_rows(options.rows, options.width, options.deletions)
        print(tabulate(table, heads, tablefmt="github"))
        return
    keys, labels = (
        digits()
        if options.what == "digits"
        else folder(Path(options.what), options.train + options.test)
    )
    table = accuracies(keys, labels, options.splits, options.train, options.test)
    print(tabulate(table, ["", "test accuracy (%)", "seconds"], floatfmt=".2f", tablefmt="github"))


if __name__ == "__main__":
    main()
