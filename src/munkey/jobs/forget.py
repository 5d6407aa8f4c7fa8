"""Forget sets (sec. 4), drawn before any training."""

from pathlib import Path

from munkey.core.randomness import Stage
from munkey.data import forget_draws, forget_sets
from munkey.data.prepared import load


def forget(images: Path, forget: Path, dataset: str, seed: int, rate: str, sampling: str) -> None:
    """Draw the forget set of a data set, seed and rate. rate: as it stands in paths."""
    prepared = load(images.parent)
    members = prepared.ids_of("train")
    labels = prepared.labels[prepared.rows(members)]
    generator = Stage(seed, dataset, "forget", rate).numpy_generator()
    chosen = forget_draws.draw(members, labels, float(rate), sampling, generator)
    forget_sets.write(forget, chosen)
    print(f"{len(chosen)} of {len(members)} training samples to forget, {sampling}")
