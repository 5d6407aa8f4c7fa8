"""Paired difference in test accuracy between two systems of a run, which may be of two ablations.

    python -m benchmarks.paired results/NAME/logits/DATASET/seed{}/rate0.1/munkey.npz \
        results/NAME/logits/DATASET/munkey.head/lda/seed{}/rate0.1/munkey.npz --seeds 0 1 2

Each path names the predictions of a system, with {} in place of the seed. Prints both accuracies,
mean ± standard deviation over seeds, and the second minus the first with its 95% interval, which is
computed like those of a run's `differences.csv`.
"""

import argparse

import numpy as np

from munkey.core.files import read_npz
from munkey.evaluation.paired import compare_pair


def read_correctness(path: str, seeds: list[int]) -> np.ndarray:
    """Return whether each test sample is classified correctly: (seeds, test samples) bool."""
    flags = []
    for seed in seeds:
        predictions = read_npz(path.format(seed))
        test = predictions["splits"] == "test"
        predicted_labels = predictions["logits"][test].argmax(axis=1)
        flags.append(predicted_labels == predictions["labels"][test])
    return np.stack(flags)


def describe_accuracy(correct: np.ndarray) -> str:
    """Describe the mean accuracy and its standard deviation over seeds.

    Parameters
    ----------
    correct
        As `read_correctness` returns it.
    """
    by_seed = 100 * correct.mean(axis=1)
    return f"{by_seed.mean():.2f} ± {by_seed.std(ddof=1):.2f}% (n = {len(by_seed)})"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("first")
    parser.add_argument("second")
    parser.add_argument("--seeds", type=int, nargs="+", required=True)
    arguments = parser.parse_args()
    if len(arguments.seeds) < 2:
        parser.error("name at least two seeds: one has no standard deviation")
    first = read_correctness(arguments.first, arguments.seeds)
    second = read_correctness(arguments.second, arguments.seeds)
    pair = compare_pair(second.astype(float) - first)
    print(f"first:      {describe_accuracy(first)}")
    print(f"second:     {describe_accuracy(second)}")
    print(
        f"difference: {pair['difference']:+.2f} [{pair['low']:.2f}, {pair['high']:.2f}] points,"
        f" {pair['tested']} test samples"
    )


if __name__ == "__main__":
    main()
