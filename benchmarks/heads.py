"""Accuracy of the exact heads on random splits of pictures, and how long a deletion takes.

    python -m benchmarks.heads digits
    python -m benchmarks.heads FOLDER --train 4500 --test 2000
    python -m benchmarks.heads time --rows 5000
    python -m benchmarks.heads many --rows 1000000 --deletions 200

FOLDER contains a folder of pictures for each class, from which the training and test pictures are
drawn at random. The inputs are keys of efficientnet-lite0 at 96 px, the pixels at 8 px, or both,
each at unit norm. The parameters of the estimators are their defaults, or `auto`.
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
BLOCK = 50_000  # rows that are generated at a time
# The heads by name, each with the name of its input in the result of `keys_of`.
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
    """Compute all inputs of pictures, by name: keys of the network, pixels, and both joined."""
    network = PictureKeys().transform(pictures)
    pixels = PictureKeys(encoder="pixels", image_size=SIDE).transform(pictures)
    return {"network": network, "pixels": pixels, "both": np.hstack([network, pixels])}


def digits() -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return the keys and classes of scikit-learn's digits."""
    data = load_digits()
    gray = (data.images / 16 * 255).round().astype(np.uint8)
    return keys_of(np.repeat(gray[..., None], 3, axis=-1)), data.target


def folder(path: Path, count: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return the keys and classes of `count` pictures in a folder, equally many of each class."""
    files = []
    labels = []
    class_folders = sorted(entry for entry in path.iterdir() if entry.is_dir())
    for label, class_folder in enumerate(class_folders):
        class_files = sorted(class_folder.iterdir())[: count // len(class_folders)]
        files += class_files
        labels += [label] * len(class_files)
    return keys_of(files), np.array(labels)


def accuracies(
    keys: dict[str, np.ndarray], labels: np.ndarray, splits: int, train: int, test: int
) -> list[list[object]]:
    """Return a row for each head.

    It contains the test accuracy over random splits (mean and standard deviation) and the seconds
    for a fit with its test.
    """
    splitter = StratifiedShuffleSplit(splits, train_size=train, test_size=test, random_state=0)
    # Pairs of training rows and test rows, which are the same for all heads
    pairs = list(splitter.split(labels, labels))
    rows: list[list[object]] = []
    for name, (head, key) in HEADS.items():
        percentages = []
        start = time.perf_counter()
        for train_rows, test_rows in pairs:
            head.fit(keys[key][train_rows], labels[train_rows])
            percentages.append(100 * head.score(keys[key][test_rows], labels[test_rows]))
        seconds = (time.perf_counter() - start) / splits
        accuracy = f"{np.mean(percentages):.2f} ± {np.std(percentages, ddof=1):.2f}"
        rows.append([name, accuracy, seconds])
        print(rows[-1], flush=True)
    return rows


def times(rows: int, deletions: int) -> list[list[object]]:
    """Return a row for each head.

    It contains the median and range of two times: the wall time until a deletion is acknowledged,
    and the CPU time of the next prediction. CPU time depends less on other work on the machine.
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
            with Predictor.load(Path(folder, "model"), device="cpu") as model:
                # The first prediction also solves the head, so it is not timed.
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
    """Return a row for LDA and one for NCM, whose models are sums over many rows.

    It contains the median and quartiles of the times in `times`, and of the CPU time until a
    deletion is acknowledged. Rows are added block by block, so that this process needs little
    memory.
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
            with Predictor.load(directory, device="cpu") as model:
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
    """Generate random keys (count, width) and labels (count,)."""
    return (
        generator.standard_normal((count, width), dtype=np.float32),
        generator.integers(0, 10, count),
    )


def _quartiles(values: list[float]) -> str:
    """Format the median and the quartiles of measurements."""
    low, middle, high = np.percentile(values, [25, 50, 75])
    return f"{middle:.3g} ({low:.3g} – {high:.3g})"


def _range(values: list[float]) -> str:
    """Format the median and the range of measurements."""
    return f"{np.median(values):.2f} ({min(values):.2f} – {max(values):.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", help="digits, time, many, or a folder with a folder for each class")
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
    if options.what == "digits":
        keys, labels = digits()
    else:
        keys, labels = folder(Path(options.what), options.train + options.test)
    table = accuracies(keys, labels, options.splits, options.train, options.test)
    print(tabulate(table, ["", "test accuracy (%)", "seconds"], floatfmt=".2f", tablefmt="github"))


if __name__ == "__main__":
    main()
