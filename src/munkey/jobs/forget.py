"""Forget sets (sec. 4), drawn before any training."""

from pathlib import Path

from munkey.core.randomness import Stage
from munkey.data import forget_draws, forget_sets
from munkey.data.prepared import load


def forget(images: Path, forget: Path, dataset: str, seed: int, rate: str, sampling: str) -> None:
    """Draw the forget set of a data set, seed and rate.

    Parameters
    ----------
    rate
        The rate as it is written in paths.
    sampling
        `uniform`, or `stratified` by class.
    """
    prepared = load(images.parent)
    members = prepared.get_ids("train")
    labels = prepared.labels[prepared.rows(members)]
    generator = Stage(seed, dataset, "forget", rate).numpy_generator()
    forget_ids = forget_draws.draw(members, labels, float(rate), sampling, generator)
    forget_sets.write(forget, forget_ids)
    print(f"{len(forget_ids)} of {len(members)} training samples to forget, {sampling}")
