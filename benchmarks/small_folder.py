"""How much a stronger encoder gains on a small folder: `python -m benchmarks.small_folder FOLDER`.

FOLDER contains a folder of pictures for each class. Each draw takes the next pictures of each class
and assigns them at random to made-up people. As in the README's ten lines, LDA is tested on people
that it has not seen, in five folds. Draws have no picture in common and assignments of their own,
so the interval over draws covers pictures and assignments.
"""

import argparse
from pathlib import Path

import numpy as np
from scipy.stats import t
from sklearn.model_selection import GroupKFold, cross_val_predict

from munkey import ForgettingLDA, PictureKeys
from munkey.core.console import progress

ENCODERS = ("efficientnet-lite0", "efficientnet-lite0@160+efficientnet-lite2@224")
PER_CLASS = 50  # pictures of a draw
PEOPLE = 50
FOLDS = 5


def draw_pictures(folder: Path, draw: int) -> tuple[list[Path], list[str]]:
    """Return the files and classes of a draw."""
    files = []
    classes = []
    for class_folder in sorted(folder.iterdir()):
        class_files = sorted(class_folder.iterdir())[draw * PER_CLASS : (draw + 1) * PER_CLASS]
        files += class_files
        classes += [class_folder.name] * len(class_files)
    return files, classes


def measure_accuracy(keys: np.ndarray, classes: list[str], draw: int) -> float:
    """Return the percentage of pictures that are classified correctly when they are left out."""
    people = np.random.default_rng(draw).permutation(np.arange(len(classes)) % PEOPLE)
    # The temperature does not change which class is the most probable.
    model = ForgettingLDA(temperature=1.0)
    predicted = cross_val_predict(
        model, keys, classes, groups=people, cv=GroupKFold(FOLDS), method="predict"
    )
    return 100 * float((predicted == np.array(classes)).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--draws", type=int, default=20)
    arguments = parser.parse_args()
    encoders = [PictureKeys(encoder=name) for name in ENCODERS]
    accuracies = []
    for draw in progress(range(arguments.draws), "draws", "draws"):
        files, classes = draw_pictures(arguments.folder, draw)
        accuracies.append(
            [measure_accuracy(encoder.transform(files), classes, draw) for encoder in encoders]
        )
    by_encoder = np.array(accuracies).T  # (2, draws)
    for name, values in zip(ENCODERS, by_encoder, strict=True):
        print(f"{name}: {values.mean():.1f} ± {values.std(ddof=1):.1f}%")
    gains = by_encoder[1] - by_encoder[0]
    half_width = t.ppf(0.975, len(gains) - 1) * gains.std(ddof=1) / len(gains) ** 0.5
    mean = gains.mean()
    print(
        f"difference: {mean:.1f} [{mean - half_width:.1f}, {mean + half_width:.1f}] points,"
        f" in single draws {gains.min():.1f} to {gains.max():.1f} (n = {len(gains)})"
    )


if __name__ == "__main__":
    main()
