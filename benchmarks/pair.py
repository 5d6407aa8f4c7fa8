"""Accuracy of a pair of experts, LDA and KNN on the same keys, beside that of LDA alone.

    python -m benchmarks.pair digits
    python -m benchmarks.pair data/cifar10-images --encoder efficientnet-lite0@160

The pair multiplies LDA's probabilities by KNN's, to the power of a constant weight. For each draw
of the training pictures, the weight is the best on a tenth of them, which both experts do not see.
A weight of 0, LDA alone, is among the candidates. Draws, deletions and test pictures are those of
`benchmarks.keys`. Of scikit-learn's digits, a random quarter is for testing.
"""

import argparse
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from tabulate import tabulate

from benchmarks.keys import Keys, Pictures, drawn_rows, format_difference, pictures_in
from munkey import ForgettingKNN, ForgettingLDA
from munkey.core.console import progress

WEIGHTS = (0.0, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0)
LEAST = 1e-3  # KNN's probability of a class without a vote, whose logarithm would be infinite
VALIDATION = 0.1  # share of a draw on which the weight is chosen


def digits() -> Pictures:
    """Return scikit-learn's digits, those for training first."""
    data = load_digits()
    gray = (data.images / 16 * 255).round().astype(np.uint8)
    train, test = train_test_split(
        np.arange(len(gray)), test_size=0.25, random_state=0, stratify=data.target
    )
    order = np.concatenate([train, test])
    images = np.repeat(gray[order][..., None], 3, axis=-1)
    return Pictures(images, data.target[order], len(train))


def log_probabilities(
    keys: np.ndarray, labels: np.ndarray, rows: np.ndarray, queries: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the logarithms of LDA's and KNN's probabilities for queries, both fitted to `rows`.

    Each result is (Q, C), for Q queries and C classes.
    """
    lda = ForgettingLDA(alpha="auto").fit(keys[rows], labels[rows])
    knn = ForgettingKNN(k=16, vote="equal").fit(keys[rows], labels[rows])
    # Both probabilities have a positive lower limit, because the logarithm of 0 is infinite.
    by_lda = np.log(np.maximum(lda.predict_proba(queries), np.finfo(float).tiny))
    by_knn = np.log(np.maximum(knn.predict_proba(queries), LEAST))
    return by_lda, by_knn


def choose_weight(keys: np.ndarray, labels: np.ndarray, rows: np.ndarray, draw: int) -> float:
    """Return the weight with the best accuracy on a part of the rows; of equals, the smallest.

    Parameters
    ----------
    rows
        The training rows of this draw.
    draw
        The number of the draw, which seeds the choice of the part.
    """
    fitted, validation = train_test_split(
        rows, test_size=VALIDATION, random_state=draw, stratify=labels[rows]
    )
    by_lda, by_knn = log_probabilities(keys, labels, fitted, keys[validation])
    accuracies = []
    for weight in WEIGHTS:
        predicted = (by_lda + weight * by_knn).argmax(axis=1)
        accuracies.append((predicted == labels[validation]).mean())
    return WEIGHTS[int(np.argmax(accuracies))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", help="digits, or a folder with train/CLASS/* and test/CLASS/*")
    parser.add_argument("--encoder", default="efficientnet-lite0@96")
    parser.add_argument("--mirror", action="store_true", help="average with mirror images")
    parser.add_argument("--per-class", type=int, default=300)
    parser.add_argument("--share", type=float, default=0.8)
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--cache", type=Path, help="by default, cache/benchmarks/pair-DATA")
    arguments = parser.parse_args()
    cache = arguments.cache or Path(f"cache/benchmarks/pair-{Path(arguments.data).name}")
    cache.mkdir(parents=True, exist_ok=True)
    if arguments.data == "digits":
        pictures = digits()
    else:
        pictures = pictures_in(Path(arguments.data), arguments.per_class)
    keys = Keys(pictures, cache).of(arguments.encoder, arguments.mirror)
    labels = pictures.labels
    test_labels = labels[pictures.train_count :]

    weights = []
    right: dict[str, list[np.ndarray]] = {"LDA": [], "KNN": [], "pair": []}
    for draw in progress(range(arguments.draws), "draws", "draws"):
        rows, deleted = drawn_rows(pictures, draw, arguments.share)
        remaining = np.setdiff1d(rows, deleted)
        weight = choose_weight(keys, labels, remaining, draw)
        weights.append(weight)
        by_lda, by_knn = log_probabilities(keys, labels, remaining, keys[pictures.train_count :])
        right["LDA"].append(by_lda.argmax(axis=1) == test_labels)
        right["KNN"].append(by_knn.argmax(axis=1) == test_labels)
        right["pair"].append((by_lda + weight * by_knn).argmax(axis=1) == test_labels)

    table = []
    for name, flags in right.items():
        by_draw = 100 * np.stack(flags).mean(axis=1)
        table.append([name, f"{by_draw.mean():.2f} ± {by_draw.std(ddof=1):.2f}"])
    print(tabulate(table, ["", "test accuracy after deletion [%]"], tablefmt="pipe"))
    gain = format_difference(np.stack(right["pair"]), np.stack(right["LDA"]))
    print(f"pair minus LDA: {gain} points; weights {weights}")


if __name__ == "__main__":
    main()
